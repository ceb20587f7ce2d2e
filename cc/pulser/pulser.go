package pulser

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "pulser",
		Summary: "DCTCP that drops to a few packets while switches notice an incast; needs ECN and EIN",
		Source:  "Almasi et al., LANMAN 2019, section 3.2",
		ECN:     true,
		EIN:     true,
	}, DefaultConfig, New)
}

type engine struct {
	w         dctcplaw.Window // holds cwnd_prev during an incast
	safe, mtu float64         // bytes
	incast    bool
	quiet     float64 // bytes acknowledged in it since the latest notice
	control   cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("pulser: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	e := engine{
		w: dctcplaw.New(c.dctcp(), env.MTU), safe: float64(c.SafeCwnd * float64(env.MTU)), mtu: float64(env.MTU),
		control: cc.Control{Rate: env.LineRate},
	}
	e.set()
	return e
}

// window is the current window: during an incast cwnd_safe, or the flow's earlier
// window if that is less.
func (e *engine) window() float64 {
	if e.incast {
		return min(e.w.Cwnd, e.safe)
	}
	return e.w.Cwnd
}

// notices is equations 1 and 2: an incast begins with an acknowledgement with EIN,
// and ends when a window's worth has come without.
func (e *engine) notices(a *cc.Ack) {
	switch {
	case a.EIN:
		e.incast, e.quiet = true, 0
	case e.incast:
		if e.quiet += float64(a.Bytes); e.quiet >= max(e.window(), e.mtu) && !a.AppLimited && a.RTT > 0 {
			e.incast = false
		}
	}
}

func (e *engine) set() cc.Control {
	e.control.Window = units.Bytes(detmath.Int64(max(e.window(), e.mtu)))
	return e.control
}

// OnAck looks for an incast, and outside of one is DCTCP's.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	during := e.incast
	e.notices(a)
	// In an incast DCTCP must not move the window, nor must the acknowledgement that
	// ends one.
	e.w.Ack(a, during || e.incast)
	return e.set()
}

// OnLoss is DCTCP's, for the window that an incast gives back too.
func (e *engine) OnLoss(units.Time) cc.Control {
	e.w.Loss()
	return e.set()
}

// OnTimeout is DCTCP's, and ends the incast: nothing of what it held back is under
// way.
func (e *engine) OnTimeout(units.Time) cc.Control {
	e.incast = false
	e.w.Timeout()
	return e.set()
}

// OnCNP changes nothing: acknowledgements carry the marks.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the window that holds; the rate is the line's.
func (e *engine) Control() cc.Control { return e.control }
