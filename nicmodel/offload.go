package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// steering is an engine inside the NIC, or a rate limit, and what went under it.
type steering struct {
	cc.Driver
	sent, acked units.Bytes
}

// accounts lets an engine inside the NIC see what an acknowledgement, a READ
// response or a timer brought. f is the packet, or nil.
func (n *NIC) accounts(now units.Time, q *qp, f *frame) {
	eff := &n.eff
	acked := eff.AckedBytes
	if q.pull != nil && eff.Do&rc.DoPlace != 0 && eff.Place.Kind == rc.PlaceRead {
		// A response may acknowledge Writes before it as well.
		acked -= units.Bytes(eff.Place.Length)
		n.pulled(now, q, f)
	}
	q.acked += acked
	if q.Engine() == nil && q.pull == nil {
		return
	}
	if eff.Rewind != rc.RewindNone {
		// What is sent next is what was lost.
		s := &q.steering
		if q.pull != nil && q.rc.PeekRead(now) {
			s = &q.pull.steering
		}
		switch {
		case s.Engine() == nil:
		case eff.Rewind == rc.RewindTimeout:
			n.steer(q, s, s.Engine().OnTimeout(now))
		case eff.Rewind == rc.RewindSequence, eff.Rewind == rc.RewindImplied:
			n.steer(q, s, s.Engine().OnLoss(now))
		}
	}
	if f == nil || q.Engine() == nil || f.desc.Header.Opcode != ib.Acknowledge || acked == 0 {
		return
	}
	a := &n.ack
	rtt := now - f.echo.sentAt
	*a = cc.Ack{
		Now: now, SentAt: f.echo.sentAt, RTT: rtt,
		Bytes: acked, Packets: max(eff.AckedPackets, 1),
		ECN: f.echo.ecn, EIN: f.echo.ein, Circuit: f.echo.circuit,
	}
	n.steer(q, &q.steering, n.inform(now, q, &q.steering))
}

// inform completes the acknowledgement in n.ack and tells an engine of it.
func (n *NIC) inform(now units.Time, q *qp, s *steering) cc.Control {
	a := &n.ack
	a.NetRTT = a.RTT - n.line.Serialize(q.mtu)
	a.Acked, a.Sent = s.acked, s.sent
	a.MaxHopDelay, a.ReverseMaxHopDelay, a.HasMaxDelay = q.report.MaxHopDelay, q.report.ReverseMaxHopDelay, q.report.HasMaxDelay
	s.Complete(a, q.rc.Inflight())
	if q.report.Path.N > 0 {
		a.Path = &q.report.Path
	}
	if n.onAck != nil {
		n.onAck(q.num, a)
	}
	return s.Engine().OnAck(a)
}

// steer puts an engine's verdict in force.
func (n *NIC) steer(q *qp, s *steering, c cc.Control) {
	if s.Apply(c)&cc.ChangedDown != 0 {
		n.cuts++
	}
	if q.hasFlow && q.next == s {
		// An engine's rate is never zero, so this can't fail.
		_ = n.limiter.SetRate(q.flow, c.Rate)
	}
}

// Steer puts what the engines of a queue pair say now in force, without an event of
// theirs: for who steers them from outside.
func (n *NIC) Steer(now units.Time, num uint32) {
	q := n.qp(num)
	if q == nil || !q.hasFlow {
		return
	}
	if e := q.Engine(); e != nil {
		n.steer(q, &q.steering, e.Control())
	}
	if q.pull != nil {
		n.steer(q, &q.pull.steering, q.pull.Engine().Control())
	}
	n.file(now, q)
	n.schedule(now)
}

// OnAck calls f with each acknowledgement that an engine inside the NIC is given,
// before the engine: for measurement. a is valid during the call.
func (n *NIC) OnAck(f func(qpn uint32, a *cc.Ack)) { n.onAck = f }
