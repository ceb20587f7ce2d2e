package ictcp

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.RegisterReceiver(cc.Scheme{
		Name:    "ictcp",
		Summary: "TCP under windows that the receiver sets by what its port has left; needs a receiver in the NIC",
		Source:  "Wu et al., CoNEXT 2010, section 4",
	}, DefaultConfig, New, NewReceiver)
}

// sender is TCP's congestion window under a receive window.
type sender struct {
	w     dctcplaw.Window
	limit units.Bytes // where the receive window ends
	acked units.Bytes
	line  units.Rate
}

// New makes the sender of one flow. It implements cc.Granted.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.check(env); err != nil {
		return nil, err
	}
	return &sender{w: dctcplaw.New(c.law(), env.MTU), limit: units.Bytes(c.least(env)), line: env.LineRate}, nil
}

// OnGrant implements cc.Granted: the end of the receive window, which never moves
// back.
func (e *sender) OnGrant(_ units.Time, _ units.Bytes, g cc.Grant) cc.Control {
	e.limit = max(e.limit, g.Limit)
	return e.Control()
}

// OnAck lets the congestion window grow as far as it is used (RFC 7661).
func (e *sender) OnAck(a *cc.Ack) cc.Control {
	e.acked = max(e.acked, a.Acked)
	unmarked := *a
	unmarked.ECN = false
	e.w.Ack(&unmarked, false)
	return e.Control()
}

// OnLoss halves the congestion window, once a window of data.
func (e *sender) OnLoss(units.Time) cc.Control {
	e.w.Loss()
	return e.Control()
}

// OnTimeout starts again from one packet.
func (e *sender) OnTimeout(units.Time) cc.Control {
	e.w.Timeout()
	return e.Control()
}

// OnCNP changes nothing: ICTCP reads no ECN.
func (e *sender) OnCNP(units.Time) cc.Control { return e.Control() }

// Control returns the smaller of the two windows at the line rate. One packet may
// always be sent, as TCP probes a closed window: its acknowledgement carries the
// window that was lost.
func (e *sender) Control() cc.Control {
	return cc.Control{Rate: e.line, Window: max(1, min(e.w.Bytes(), e.limit-e.acked))}
}

// Inspect implements cc.Inspector.
func (e *sender) Inspect(visit func(name string, value float64)) {
	visit("cwnd_bytes", e.w.Cwnd)
	visit("receive_window_bytes", float64(max(0, e.limit-e.acked)))
}
