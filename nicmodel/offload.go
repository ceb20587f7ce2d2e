package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// accounts lets the engine inside the NIC see what an acknowledgement or a timer
// brought. f is the packet, or nil.
//
// READ responses acknowledge too, but say nothing about when what they answer
// was asked for: an engine in the NIC steers what the NIC sends. READs are paced
// from the host, by their requests.
func (n *NIC) accounts(now units.Time, q *qp, f *frame) {
	eff := &n.eff
	q.acked += eff.AckedBytes
	if q.cong.Engine == nil {
		return
	}
	switch eff.Rewind {
	case rc.RewindSequence, rc.RewindImplied:
		n.steer(now, q, q.cong.Engine.OnLoss(now))
	case rc.RewindTimeout:
		n.steer(now, q, q.cong.Engine.OnTimeout(now))
	}
	if f == nil || f.desc.Header.Opcode != ib.Acknowledge || eff.AckedBytes == 0 {
		return
	}
	a := &n.ack
	rtt := now - f.echo.sentAt
	*a = cc.Ack{
		Now: now, SentAt: f.echo.sentAt, RTT: rtt,
		NetRTT: rtt - n.line.Serialize(units.Bytes(q.mtu)),
		Bytes:  eff.AckedBytes, Packets: max(eff.AckedPackets, 1),
		Acked: q.acked, Sent: q.sent,
		ECN: f.echo.ecn, EIN: f.echo.ein,
		MaxHopDelay: q.report.MaxHopDelay, ReverseMaxHopDelay: q.report.ReverseMaxHopDelay, HasMaxDelay: q.report.HasMaxDelay,
		AppLimited: n.appLimited(now, q, eff.AckedBytes),
		Scale:      q.scaler.Scale(now, q.cong.BaseRTT),
	}
	if q.report.Path.N > 0 {
		a.Path = &q.report.Path
	}
	if n.onAck != nil {
		n.onAck(q.num, a)
	}
	n.steer(now, q, q.cong.Engine.OnAck(a))
}

// appLimited reports whether it is the application that keeps a flow slow: there
// was nothing to send, neither the pace nor the window took up 80 percent of what
// they may (TIMELY section 5; a window that is full limits as a rate does).
func (n *NIC) appLimited(now units.Time, q *qp, acked units.Bytes) bool {
	if _, more := q.rc.PeekRequest(now); more || q.posted != q.handed || !q.app.Limited() {
		return false
	}
	return (q.rc.Inflight()+acked)/4 < q.control.Window/5
}

// steer puts an engine's verdict in force.
func (n *NIC) steer(now units.Time, q *qp, c cc.Control) {
	if c.Rate != q.control.Rate {
		q.pace(n, c.Rate)
	}
	q.control = c
	if q.hasFlow {
		// An engine's rate is never zero, so this can't fail.
		_ = n.limiter.SetRate(q.flow, c.Rate)
	}
}

// OnAck calls f with each acknowledgement that an engine inside the NIC is given,
// before the engine: for measurement. a is valid during the call.
func (n *NIC) OnAck(f func(qpn uint32, a *cc.Ack)) { n.onAck = f }

// pace notes a change of rate for the application limit.
func (q *qp) pace(n *NIC, r units.Rate) {
	r = min(r, n.line)
	q.app.Rate(r)
	q.gap = r.Serialize(units.Bytes(q.mtu))
	q.span = max(q.cong.BaseRTT, appLimitPackets*q.gap)
}

// appLimitPackets is how many packets' time a flow's rate is measured over at
// least, so that one packet more or less is not the 20 percent in question.
const appLimitPackets = 8
