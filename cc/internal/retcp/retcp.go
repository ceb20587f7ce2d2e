package retcp

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "retcp",
		Summary: "TCP's window, scaled while a circuit is there or announced; needs circuits",
		Source:  "Mukerjee et al., NSDI 2020",
		Circuit: true,
	}, DefaultConfig, New)
}

type engine struct {
	w        dctcplaw.Window
	up, down float64
	most     float64 // bytes
	jumped   bool    // the window is scaled up
	control  cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("retcp: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	e := engine{
		w: dctcplaw.New(c.reno(), env.MTU), up: c.JumpUp, down: c.JumpDown,
		most: dctcplaw.MaxPackets * float64(env.MTU), control: cc.Control{Rate: env.LineRate},
	}
	e.set()
	return e
}

func (e *engine) set() cc.Control {
	e.control.Window = e.w.Bytes()
	return e.control
}

// OnAck lets the window grow, and scales it when the acknowledged packet is the first
// that reports a circuit, or the first that no longer does.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	reno := *a
	reno.ECN = false
	e.w.Ack(&reno, false)
	switch {
	case a.Circuit && !e.jumped && !a.AppLimited && a.RTT > 0:
		e.w.Cwnd, e.jumped = min(e.w.Cwnd*e.up, e.most), true
	case !a.Circuit && e.jumped:
		e.w.Cwnd, e.jumped = e.w.Cwnd/e.down, false
	}
	return e.set()
}

// OnLoss halves the window, once a window of data.
func (e *engine) OnLoss(units.Time) cc.Control {
	e.w.Loss()
	return e.set()
}

// OnTimeout starts again from one packet.
func (e *engine) OnTimeout(units.Time) cc.Control {
	e.w.Timeout()
	return e.set()
}

// OnCNP changes nothing.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the window that holds; the rate is the line's.
func (e *engine) Control() cc.Control { return e.control }
