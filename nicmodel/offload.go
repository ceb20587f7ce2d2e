package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// steering is an engine inside the NIC, and what it goes by.
type steering struct {
	engine      cc.Engine // nil for none
	pathed      cc.Pathed // the same, or nil
	control     cc.Control
	scaler      cc.UpdateScaler
	app         cc.AppLimit
	gap, span   units.Time // of a full packet at the present rate; over which the rate is measured
	sent, acked units.Bytes
}

func (s *steering) begin(line units.Rate, q *qp, e cc.Engine) {
	s.engine, s.control = e, e.Control()
	s.pathed, _ = e.(cc.Pathed)
	s.pace(line, q, s.control.Rate)
}

// offload is the engines inside the NIC.
type offload struct {
	*chip
	scheduler *scheduler

	ack   cc.Ack
	onAck func(qpn uint32, a *cc.Ack)
	cuts  uint64 // how often engines lowered a rate or a window
}

// send notes that a request's packet was built under the engine's control.
func (s *steering) send(now units.Time, line units.Rate, bytes units.Bytes) {
	s.sent += bytes
	if s.engine != nil {
		s.app.Sent(now, bytes, min(s.control.Rate, line), s.gap, s.span)
	}
}

// accounts lets an engine inside the NIC see what an acknowledgement, a READ
// response or a timer brought. f is the packet, or nil.
func (o *offload) account(now units.Time, q *qp, eff *rc.Effects, f *frame) {
	acked := eff.AckedBytes
	if q.pull != nil && eff.Do&rc.DoPlace != 0 && eff.Place.Kind == rc.PlaceRead {
		// A response may acknowledge Writes before it as well.
		acked -= units.Bytes(eff.Place.Length)
		o.readArrived(now, q, f, units.Bytes(eff.Place.Length))
	}
	q.acked += acked
	if q.engine == nil && q.pull == nil {
		return
	}
	if eff.Rewind != rc.RewindNone {
		// What is sent next is what was lost.
		s := &q.steering
		if q.pull != nil && q.rc.PeekRead(now) {
			s = &q.pull.steering
		}
		switch {
		case s.engine == nil:
		case eff.Rewind == rc.RewindTimeout:
			o.steer(q, s, s.engine.OnTimeout(now))
		case eff.Rewind == rc.RewindSequence, eff.Rewind == rc.RewindImplied:
			o.steer(q, s, s.engine.OnLoss(now))
		}
	}
	if f == nil || q.engine == nil || f.desc.Header.Opcode != ib.Acknowledge || acked == 0 {
		return
	}
	a := &o.ack
	rtt := now - f.echo.sentAt
	*a = cc.Ack{
		Now: now, SentAt: f.echo.sentAt, RTT: rtt,
		Bytes: acked, Packets: max(eff.AckedPackets, 1),
		ECN: f.echo.ecn, EIN: f.echo.ein, Circuit: f.echo.circuit,
	}
	o.steer(q, &q.steering, o.inform(now, q, &q.steering))
}

// inform completes the acknowledgement in n.ack and tells an engine of it.
func (o *offload) inform(now units.Time, q *qp, s *steering) cc.Control {
	a := &o.ack
	a.NetRTT = a.RTT - o.line.Serialize(units.Bytes(q.mtu))
	a.Acked, a.Sent = s.acked, s.sent
	a.MaxHopDelay, a.ReverseMaxHopDelay, a.HasMaxDelay = q.report.MaxHopDelay, q.report.ReverseMaxHopDelay, q.report.HasMaxDelay
	a.AppLimited = o.appLimited(now, q, s, a.Bytes)
	a.Scale = s.scaler.Scale(now, q.cong.BaseRTT)
	if q.report.Path.N > 0 {
		a.Path = &q.report.Path
	}
	if o.onAck != nil {
		o.onAck(q.num, a)
	}
	return s.engine.OnAck(a)
}

// appLimited reports whether it is the application that keeps a flow slow: there
// was nothing to send, neither the pace nor the window took up 80 percent of what
// they may (TIMELY section 5; a window that is full limits as a rate does).
func (o *offload) appLimited(now units.Time, q *qp, s *steering, acked units.Bytes) bool {
	if _, more := q.rc.PeekRequest(now); more || q.posted != q.handed || !s.app.Limited() {
		return false
	}
	return (q.rc.Inflight()+acked)/4 < s.control.Window/5
}

// steer puts an engine's verdict in force.
func (o *offload) steer(q *qp, s *steering, c cc.Control) {
	if c.Rate < min(s.control.Rate, o.line) || c.Window < s.control.Window {
		o.cuts++
	}
	if c.Rate != s.control.Rate {
		s.pace(o.line, q, c.Rate)
	}
	s.control = c
	if q.hasFlow && q.next == s {
		// An engine's rate is never zero, so this can't fail.
		_ = o.scheduler.limiter.SetRate(q.flow, c.Rate)
	}
}

// Steer puts what the engines of a queue pair say now in force, without an event of
// theirs: for who steers them from outside.
func (n *NIC) Steer(now units.Time, num uint32) {
	q := n.pairs.find(num)
	if q == nil || !q.hasFlow {
		return
	}
	if q.engine != nil {
		n.offload.steer(q, &q.steering, q.engine.Control())
	}
	if q.pull != nil {
		n.offload.steer(q, &q.pull.steering, q.pull.engine.Control())
	}
	n.scheduler.file(now, q)
	n.scheduler.choose(now)
}

// OnAck calls f with each acknowledgement that an engine inside the NIC is given,
// before the engine: for measurement. a is valid during the call.
func (n *NIC) OnAck(f func(qpn uint32, a *cc.Ack)) { n.offload.onAck = f }

// pace notes a change of rate for the application limit.
func (s *steering) pace(line units.Rate, q *qp, r units.Rate) {
	r = min(r, line)
	s.app.Rate(r)
	s.gap = r.Serialize(units.Bytes(q.mtu))
	s.span = max(q.cong.BaseRTT, appLimitPackets*s.gap)
}

// appLimitPackets is how many packets' time a flow's rate is measured over at
// least, so that one packet more or less is not the 20 percent in question.
const appLimitPackets = 8
