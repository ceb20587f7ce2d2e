package none

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "none",
		Summary: "line rate, no window: priority flow control alone",
		Source:  "TIMELY (SIGCOMM 2015) section 6, the PFC baseline",
	}, DefaultConfig, New)
}

// Config has no fields: there is nothing to set.
type Config struct{}

// DefaultConfig returns the only Config.
func DefaultConfig() Config { return Config{} }

// Validate returns nil.
func (Config) Validate() error { return nil }

type engine struct{ control cc.Control }

// New returns an engine that always answers with the line rate.
func New(_ Config, env cc.Env) (cc.Engine, error) {
	if err := env.Validate(); err != nil {
		return nil, err
	}
	return &engine{cc.Control{Rate: env.LineRate, Window: cc.Unlimited}}, nil
}

// OnAck changes nothing.
func (e *engine) OnAck(*cc.Ack) cc.Control { return e.control }

// OnLoss changes nothing.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP changes nothing.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the line rate and no window.
func (e *engine) Control() cc.Control { return e.control }
