package simverbs

import (
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// A simulator that drives a device from events calls it within one event, at one
// instant of the simulation. Where the host has a core, the call still takes time
// there, and can be interrupted. The host's clock runs on, and requests reach the NIC
// at the time of that clock. The simulator does not call the device until then
// (NowPrecise); it sees completions of that period afterwards.

// RunOn makes the thread that uses the device run on a core: a post takes it
// des.CoreConfig.Post, and other work may run between the reading of a clock and what
// follows. It is for simulators that drive the device from events; actors have a core
// to themselves.
func (d *Device) RunOn(core *des.Core) {
	d.core = core
	d.bells = d.world.net.HostEvents(d.nic.Host(), nicmodel.AlarmThread)
	d.nic.OnAlarm(nicmodel.AlarmThread, d.rung)
}

// StampSends makes queue pairs that are created from then on report when requests
// left the NIC (verbs.SentTimestampQP).
func (d *Device) StampSends() {
	d.stamps = true
	d.nic.StampSends()
}

// setNow moves the host's clock on, within an event.
func (d *Device) setNow(to units.Time) {
	d.aheadAt = d.nic.Now()
	d.ahead = to - d.aheadAt
}

// ring writes the doorbell for the last count requests posted to q, when the thread
// gets there.
func (d *Device) ring(q *QP, count int) {
	now := d.nic.Now()
	if d.core != nil && count > 0 {
		at := d.core.Run(d.NowPrecise(), d.core.Config().Post)
		d.setNow(at)
		if at > now {
			d.bells.Schedule(at, 0, uint64(q.num)|uint64(count)<<32|uint64(q.resets)<<56)
			return
		}
	}
	d.nic.Ring(now, q.num, count)
}

// rung is the time at which a doorbell is written.
func (d *Device) rung(now units.Time) {
	ev, ok := d.bells.Take(now)
	q := d.qps[uint32(ev.Arg)]
	if !ok || q == nil || q.resets != uint8(ev.Arg>>56) {
		return // destroyed or reset meanwhile
	}
	d.nic.Ring(ev.At, q.num, int(ev.Arg>>32&0xffffff))
}

// SentTimestamps implements verbs.SentTimestampQP; see Device.StampSends.
func (q *QP) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	if !q.stamps {
		return 0, 0, false
	}
	for i := range q.sendCQ.n {
		if e := &q.sendCQ.polled[i]; e.QPN == q.num && e.WRID == wc.WRID {
			return q.pd.dev.nic.Departed(q.num, e.Slot)
		}
	}
	return 0, 0, false
}
