package ictcp

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// receiver sets the windows of the flows to one host. It acts when data arrive and
// has no timer: what is not sent needs no window.
type receiver struct {
	alpha, beta, gamma1, gamma2 float64
	rounds                      int8
	capacity, scarce            float64 // bytes a second: the port's; the capacity below which windows shrink
	mtu, least, most            float64 // bytes
	baseRTT                     units.Time

	flows []flow // by number
	sum   float64
	count float64 // of flows, sum their windows
	slots slots
	told  struct { // the grant that the last packet gave rise to
		flow  uint32
		limit units.Bytes
		due   bool
	}
}

type flow struct {
	rwnd           float64
	arrived, limit units.Bytes

	rtt, least units.Time // smoothed; the least time on the way
	round      units.Time // when the present round trip began
	bytes      units.Bytes
	measured   float64 // bytes a second
	missed     int8    // round trips in a row above gamma2
	slowStart  bool
	raised     units.Time // when the window last grew, or the flow began
	shrunk     uint32     // the slot of the latest decrease for fairness
	open       bool
}

// slots are the two halves of the receiver's time, each of the average round trip:
// in the first the receiver measures arrivals, in the second it distributes the
// port's remaining capacity (section 4.1).
type slots struct {
	number   uint32
	start    units.Time
	span     units.Time // T, of one half
	second   bool
	bytes    units.Bytes // in the first half
	quota    float64     // bytes a second left in the second
	scarce   bool        // little is available
	weighted float64     // sum of RTT times bytes since the slot began
	volume   float64
}

// NewReceiver makes the receiver of one host.
func NewReceiver(c Config, env cc.Env) (cc.Receiver, error) {
	if err := c.check(env); err != nil {
		return nil, err
	}
	capacity := env.LineRate.BytesPerSecond()
	r := &receiver{
		alpha: c.Alpha, beta: c.Beta, gamma1: c.Gamma1, gamma2: c.Gamma2, rounds: int8(c.Rounds),
		capacity: capacity, scarce: float64(c.FairShare * capacity),
		mtu: float64(env.MTU), least: c.least(env), most: maxPackets * float64(env.MTU), baseRTT: env.BaseRTT,
	}
	r.slots.span = env.BaseRTT
	return r, nil
}

// OnStart implements cc.Receiver. The first window is the least, and the sender
// knows it.
func (r *receiver) OnStart(now units.Time, number uint32, _ units.Bytes) {
	for int(number) >= len(r.flows) {
		r.flows = append(r.flows, flow{})
	}
	f := &r.flows[number]
	if f.open {
		return
	}
	*f = flow{
		rwnd: r.least, limit: units.Bytes(r.least), rtt: r.baseRTT, least: units.Never,
		round: now, slowStart: true, raised: now, shrunk: r.slots.number, open: true,
	}
	r.sum += f.rwnd
	r.count++
}

// OnEnd implements cc.Receiver.
func (r *receiver) OnEnd(_ units.Time, number uint32) {
	if int(number) >= len(r.flows) || !r.flows[number].open {
		return
	}
	r.sum -= r.flows[number].rwnd
	r.count--
	r.flows[number].open = false
}

// OnData implements cc.Receiver.
func (r *receiver) OnData(d *cc.Data) {
	if int(d.Flow) >= len(r.flows) || !r.flows[d.Flow].open {
		r.OnStart(d.Now, d.Flow, d.Size)
	}
	f := &r.flows[d.Flow]
	r.slots.advance(r, d.Now)
	f.time(r.baseRTT, d.Now-d.SentAt)
	if !r.slots.second {
		r.slots.bytes += d.Bytes
	}
	r.slots.weighted += float64(float64(f.rtt) * float64(d.Bytes))
	r.slots.volume += float64(d.Bytes)

	f.arrived = max(f.arrived, d.Arrived)
	f.bytes += d.Bytes
	if took := d.Now - f.round; took >= f.rtt {
		r.judge(f, d.Now, took)
		f.round, f.bytes = d.Now, 0
	}
	if r.slots.scarce && f.shrunk != r.slots.number && float64(f.rwnd*r.count) > r.sum {
		r.set(f, f.rwnd-r.mtu)
		f.shrunk, f.slowStart = r.slots.number, false
	}
	if limit := f.arrived + units.Bytes(f.rwnd); limit > f.limit {
		f.limit = limit
		r.told.flow, r.told.limit, r.told.due = d.Flow, limit, true
	}
}

// time takes how long a packet was on its way: what exceeds the least is waiting,
// by which a round trip exceeds the base RTT.
func (f *flow) time(base, way units.Time) {
	f.least = min(f.least, way)
	f.rtt += (base + way - f.least - f.rtt) / 8
}

// advance moves on to the half that now is in.
func (s *slots) advance(r *receiver, now units.Time) {
	if !s.second && now-s.start >= s.span && now-s.start < 2*s.span {
		available := max(0, float64(r.alpha*r.capacity)-float64(s.bytes)/seconds(s.span))
		s.second, s.quota, s.scarce = true, available, available < r.scarce
	}
	if now-s.start < 2*s.span {
		return
	}
	if s.volume > 0 {
		s.span = max(r.baseRTT, units.Time(s.weighted/s.volume))
	}
	s.number++
	s.start = now
	s.second, s.scarce, s.bytes, s.weighted, s.volume = false, false, 0, 0, 0
}

func seconds(t units.Time) float64 { return float64(t) / float64(units.Second) }

// judge is section 4.3, once a round trip of a flow, which took so long.
func (r *receiver) judge(f *flow, now, took units.Time) {
	sample := float64(f.bytes) / seconds(took)
	f.measured = max(sample, float64(r.beta*f.measured)+float64((1-r.beta)*sample))
	expected := max(f.measured, f.rwnd/seconds(f.rtt))
	missed := (expected - f.measured) / expected
	switch {
	case missed <= r.gamma1 || missed <= r.mtu/f.rwnd:
		f.missed = 0
		if r.slots.second && now-f.raised >= 2*f.rtt {
			r.raise(f, now)
		}
	case missed > r.gamma2:
		f.slowStart = false
		if f.missed++; f.missed >= r.rounds {
			r.set(f, f.rwnd-r.mtu)
			f.missed = 0
		}
	default:
		f.missed, f.slowStart = 0, false
	}
}

// raise doubles a window in slow start, and else adds a packet to it, if the quota
// has that much.
func (r *receiver) raise(f *flow, now units.Time) {
	by := r.mtu
	if f.slowStart {
		by = f.rwnd
	}
	by = min(by, r.most-f.rwnd)
	cost := by / seconds(f.rtt)
	if by <= 0 {
		return
	}
	if cost > r.slots.quota {
		f.slowStart = false
		return
	}
	r.slots.quota -= cost
	r.set(f, f.rwnd+by)
	f.raised = now
}

func (r *receiver) set(f *flow, rwnd float64) {
	rwnd = max(rwnd, r.least)
	r.sum += rwnd - f.rwnd
	f.rwnd = rwnd
}

// Deadline implements cc.Receiver: there is no timer.
func (r *receiver) Deadline() units.Time { return units.Never }

// OnTimer implements cc.Receiver.
func (r *receiver) OnTimer(units.Time) {}

// Next implements cc.Receiver: the new end of the window of the flow whose data
// arrived.
func (r *receiver) Next() (number uint32, g cc.Grant, ok bool) {
	if !r.told.due {
		return 0, cc.Grant{}, false
	}
	r.told.due = false
	return r.told.flow, cc.Grant{Limit: r.told.limit}, true
}
