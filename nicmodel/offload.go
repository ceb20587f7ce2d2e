package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// steering is an engine inside the NIC, or a rate limit, and counts of what was
// sent under it.
type steering struct {
	cc.Driver
	sent, acked units.Bytes
	merged      merged
}

// offload is the engines inside the NIC.
type offload struct {
	*chip.Chip
	scheduler  *scheduler
	pairs      *pairs
	processors *processors // nil where events cost nothing

	ack   cc.Ack // that engines are given: kept here, for one on the stack would not stay there
	onAck func(qpn uint32, a *cc.Ack)
	cuts  uint64 // how often engines lowered a rate or a window
}

// account passes the result of an acknowledgement, a READ response or a timer to an
// engine inside the NIC. f is the packet, or nil.
func (o *offload) account(now units.Time, q *qp, eff *rc.Effects, f *frames.Frame) {
	acked := eff.AckedBytes
	if q.pull != nil && eff.Do&rc.DoPlace != 0 && eff.Place.Kind == rc.PlaceRead {
		// A response may acknowledge Writes before it as well.
		acked -= units.Bytes(eff.Place.Length)
		o.readArrived(now, q, f, units.Bytes(eff.Place.Length))
	}
	q.acked += acked
	if q.Engine() == nil && q.pull == nil {
		return
	}
	o.rewound(now, q, eff.Rewind)
	if f == nil || q.Engine() == nil || f.Desc.Header.Opcode != ib.Acknowledge || acked == 0 {
		return
	}
	o.ack = cc.Ack{
		Now: now, SentAt: f.Echo.SentAt, RTT: now - f.Echo.SentAt,
		Bytes: acked, Packets: max(eff.AckedPackets, 1),
		ECN: f.Echo.ECN, EIN: f.Echo.EIN, Circuit: f.Echo.Circuit,
	}
	o.submit(now, q, eventAck)
}

// rewound reports to an engine that the transport has gone back.
func (o *offload) rewound(now units.Time, q *qp, why rc.Rewind) {
	if why == rc.RewindNone {
		return
	}
	// What is sent next is what was lost.
	s := &q.steering
	if q.pull != nil && q.rc.PeekRead(now) {
		s = &q.pull.steering
	}
	switch {
	case s.Engine() == nil:
	case why != rc.RewindNotReady && o.restart(now, q, s):
	case why == rc.RewindTimeout:
		o.steer(q, s, s.Engine().OnTimeout(now))
	case why == rc.RewindSequence, why == rc.RewindImplied:
		o.steer(q, s, s.Engine().OnLoss(now))
	}
}

// inform completes an acknowledgement and passes it to an engine.
func (o *offload) inform(q *qp, s *steering, a *cc.Ack, r *Report) cc.Control {
	a.NetRTT = a.RTT - o.Line.Serialize(q.mtu)
	a.Acked, a.Sent = s.acked, s.sent
	a.MaxHopDelay, a.ReverseMaxHopDelay, a.HasMaxDelay = r.MaxHopDelay, r.ReverseMaxHopDelay, r.HasMaxDelay
	a.Hops, a.Held = r.Hops, r.Held
	s.Complete(a, q.rc.Inflight())
	if r.Path.N > 0 {
		a.Path = &r.Path
	}
	if o.onAck != nil {
		o.onAck(q.num, a)
	}
	return s.Engine().OnAck(a)
}

// steer applies an engine's Control.
func (o *offload) steer(q *qp, s *steering, c cc.Control) {
	if s.Apply(c)&cc.ChangedDown != 0 {
		o.cuts++
	}
	if q.hasFlow && q.next == s {
		// An engine's rate is never zero, so this can't fail.
		_ = q.ring.limiter.SetRate(q.flow, c.Rate)
	}
}

// Steer applies the present Control of a queue pair's engines, without an event of
// theirs. It is for callers that steer the engines from outside.
func (n *NIC) Steer(now units.Time, num uint32) {
	q := n.pairs.find(num)
	if q == nil || !q.hasFlow {
		return
	}
	if e := q.Engine(); e != nil {
		n.offload.steer(q, &q.steering, e.Control())
	}
	if q.pull != nil {
		n.offload.steer(q, &q.pull.steering, q.pull.Engine().Control())
	}
	n.scheduler.file(now, q)
	n.scheduler.choose(now)
}

// Steered counts the work of engines inside a NIC up to some instant.
type Steered struct {
	Cuts uint64 // how often one lowered its rate or its window
	// Rate and Window are how long queue pairs were held back by them, Active how long
	// they had requests: summed over the queue pairs.
	Rate, Window, Active units.Time
}
