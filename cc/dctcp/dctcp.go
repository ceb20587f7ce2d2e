package dctcp

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "dctcp",
		Summary: "TCP-like window, cut by the share of packets that are marked; needs ECN",
		Source:  "Alizadeh et al., SIGCOMM 2010, section 3.3; RFC 8257",
		ECN:     true,
		Sets:    []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, HandleAckDctcp", ArtefactConfig)},
	}, DefaultConfig, New)
}

type engine struct {
	w       dctcplaw.Window
	p       paced // in its place if paces
	paces   bool
	control cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("dctcp: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	w := dctcplaw.New(c.law(), env.MTU)
	if c.RateStep > 0 {
		p := newPaced(c, env)
		return engine{w: w, p: p, paces: true, control: p.control()}
	}
	return engine{w: w, control: cc.Control{Rate: env.LineRate, Window: w.Bytes()}}
}

func (e *engine) set() cc.Control {
	e.control.Window = e.w.Bytes()
	return e.control
}

// OnAck counts marks, cuts the window for one, and else lets it grow.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	if e.paces {
		e.p.ack(a)
		e.control = e.p.control()
		return e.control
	}
	e.w.Ack(a, false)
	return e.set()
}

// OnLoss halves the window, once a window of data. A rate stays.
func (e *engine) OnLoss(units.Time) cc.Control {
	if e.paces {
		return e.control
	}
	e.w.Loss()
	return e.set()
}

// OnTimeout starts again from one packet. A rate stays.
func (e *engine) OnTimeout(units.Time) cc.Control {
	if e.paces {
		return e.control
	}
	e.w.Timeout()
	return e.set()
}

// OnCNP changes nothing: acknowledgements carry the marks.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the window that holds; the rate is the line's, or with RateStep its own.
func (e *engine) Control() cc.Control { return e.control }
