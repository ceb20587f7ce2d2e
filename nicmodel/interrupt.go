package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// An armed completion queue raises an event: the NIC writes an element to its event
// queue, behind the completion, and interrupts a processor, which is a write too
// (MSI-X). Arming is a store into the NIC. Sizes are mlx5's and PCI's.
const (
	eqeBytes   = 64
	msixBytes  = 4
	armBytes   = 8
	eqElements = 1 << 10 // of the event queue
)

// arming says which completions the owner of a completion queue wants an event for.
type arming uint8

const (
	disarmed arming = iota
	armedSolicited
	armedAny
)

// notifier is what a completion queue has for its events.
type notifier struct {
	handler   func(now units.Time)
	armed     arming
	requested arming // by a store that is on its way
	from      uint64 // completions that were visible at that store, which do not count
	written   uint64 // completions in all
	// One past the newest solicited one, counted in the same way.
	solicited uint64

	moderation
}

// OnEvent calls f when an event that ReqNotify requested has reached the host. A nil f
// removes the callback.
func (n *NIC) OnEvent(num uint32, f func(now units.Time)) {
	n.completions.queues[num].events.handler = f
}

// ReqNotify arms a completion queue: the next completion to become visible, or the
// next that is solicited or has failed, raises one event. A completion that becomes
// visible while the arming is on its way to the NIC counts.
func (n *NIC) ReqNotify(now units.Time, num uint32, solicitedOnly bool) {
	n.completions.arm(now, num, solicitedOnly)
}

func (cs *completions) arm(now units.Time, num uint32, solicitedOnly bool) {
	c := cs.queues[num]
	v := &c.events
	if v.requested == disarmed {
		v.from = v.written
		for i := c.session.n + 1; i <= c.n && c.newest(i).Visible > now; i++ {
			v.from--
		}
	}
	if solicitedOnly {
		v.requested = max(v.requested, armedSolicited)
	} else {
		v.requested = armedAny
	}
	cs.Schedule(cs.Link.Store(now, armBytes, pcie.ForEvent), chip.EvArm, uint64(num))
}

// armed takes an arming that has reached the NIC.
func (cs *completions) armed(now units.Time, num uint32) {
	v := &cs.queues[num].events
	if v.requested == disarmed {
		return // an earlier event was for both
	}
	before := v.armed
	v.armed, v.requested = max(v.armed, v.requested), disarmed
	if v.armed == before {
		return // completions were counted as they were written
	}
	if since := v.written - v.from; since > 0 {
		cs.countArmed(now, num, int(since), v.solicited > v.from)
	}
}

// countWritten counts completions that the NIC writes at a time.
func (cs *completions) countWritten(at units.Time, num uint32, c *cq, count int, solicited bool) {
	v := &c.events
	v.written += uint64(count)
	if solicited {
		v.solicited = v.written
	}
	if v.armed != disarmed {
		cs.countArmed(at, num, count, solicited)
	}
}

// interrupt raises an armed queue's event.
func (cs *completions) interrupt(at units.Time, num uint32) {
	v := &cs.queues[num].events
	v.armed, v.waiting, v.until = disarmed, 0, units.Never
	done, at := cs.make(at)
	cs.Link.Write(at, cs.eqAddr+cs.eqes%eqElements*eqeBytes, eqeBytes, pcie.ForEvent)
	cs.eqes++
	// The address to which interrupts are written is not translated as memory is: it
	// counts as the event queue's page, which is always translated.
	sent, there := cs.Link.Write(at, cs.eqAddr, msixBytes, pcie.ForEvent)
	there = cs.sent(sent, there, done)
	cs.Schedule(there+cs.Config.Interrupt.Latency, chip.EvInterrupt, uint64(num))
}

// interrupted handles an interrupt that has got to the host.
func (cs *completions) interrupted(now units.Time, num uint32) {
	if h := cs.queues[num].events.handler; h != nil {
		h(now)
	}
}

// moderation holds the event of an armed completion queue back (ibv_modify_cq,
// IBV_CQ_ATTR_MODERATE) until so many completions are there, or some time has passed
// since the first of them. Completions can be polled meanwhile. What counts is what the
// arming asks for: with solicited events, the first of these begins the wait.
type moderation struct {
	count   int        // cq_count; 0 or 1 waits for no more
	period  units.Time // cq_period; 0 is without end
	waiting int        // completions since the arming
	until   units.Time // of the pending evModeration, or Never
}

// ModerateCQ sets the moderation of a queue's events: count completions, or period
// microseconds after the first of them. 0 for one leaves moderation to the other, 0
// for both raises events at once. The setting holds from the next completion on,
// with which a new period begins.
func (n *NIC) ModerateCQ(num uint32, count, period uint16) {
	m := &n.completions.queues[num].events.moderation
	m.count, m.period = int(count), units.Time(period)*units.Microsecond
}

// countArmed takes completions of an armed queue into account.
func (cs *completions) countArmed(at units.Time, num uint32, count int, solicited bool) {
	v := &cs.queues[num].events
	if v.armed == armedSolicited && !solicited {
		return
	}
	v.waiting += count
	switch {
	case v.count == 0 && v.period == 0, v.count > 0 && v.waiting >= v.count:
		cs.interrupt(at, num)
	case v.period > 0 && v.until == units.Never:
		v.until = at + v.period
		cs.Schedule(v.until, chip.EvModeration, uint64(num))
	}
}

// moderationTimeout is the end of a wait by time.
func (cs *completions) moderationTimeout(now units.Time, num uint32) {
	if v := &cs.queues[num].events; v.armed != disarmed && v.until == now {
		cs.interrupt(now, num)
	}
}
