package homa

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.RegisterReceiver(cc.Scheme{
		Name:      "homa",
		Summary:   "receivers grant to the shortest messages first, over the fabric's priorities; needs a receiver in the NIC",
		Source:    "Montazeri et al., SIGCOMM 2018, sections 3.2 to 3.5",
		Telemetry: telemetry.None,
		Classes:   classes,
	}, DefaultConfig, New, NewReceiver)
}

// sender is one flow's: it keeps no more than how far it may send.
type sender struct {
	unscheduled units.Bytes
	limit       units.Bytes // below this all may be sent
	acked, sent units.Bytes
	line        units.Rate
	first       uint8 // the class of unscheduled packets
	granted     uint8 // that of others
}

// New makes the sender of one flow. It implements cc.Granted.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.check(env); err != nil {
		return nil, err
	}
	rttBytes := c.rttBytes(env)
	first := c.unscheduledClass(env.FlowSize, rttBytes)
	return &sender{unscheduled: rttBytes, limit: rttBytes, line: env.LineRate, first: first, granted: first}, nil
}

// OnGrant implements cc.Granted. A grant that says less than an earlier one has
// been overtaken.
func (e *sender) OnGrant(_ units.Time, sent units.Bytes, g cc.Grant) cc.Control {
	e.sent = max(e.sent, sent)
	if g.Limit >= e.limit && g.Class > 0 {
		e.limit, e.granted = g.Limit, min(g.Class, classes)
	}
	return e.Control()
}

// OnAck moves the window with what has arrived; it never lets more be sent.
func (e *sender) OnAck(a *cc.Ack) cc.Control {
	e.acked, e.sent = max(e.acked, a.Acked), max(e.sent, a.Sent)
	return e.Control()
}

// OnLoss changes nothing: what is sent again has been granted.
func (e *sender) OnLoss(units.Time) cc.Control { return e.Control() }

// OnTimeout changes nothing, for the same reason.
func (e *sender) OnTimeout(units.Time) cc.Control { return e.Control() }

// OnCNP changes nothing: HOMA reads no ECN.
func (e *sender) OnCNP(units.Time) cc.Control { return e.Control() }

// Control returns the line rate, and a window that ends where the grant does. It
// is zero where all that was granted has been acknowledged.
func (e *sender) Control() cc.Control {
	c := cc.Control{Rate: e.line, Window: max(0, e.limit-e.acked), Class: e.granted}
	if e.sent < e.unscheduled {
		c.Class = e.first
	}
	return c
}
