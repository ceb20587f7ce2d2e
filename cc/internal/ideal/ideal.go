package ideal

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "ideal",
		Summary: "the oracle: max-min fair rates of the flows that there are, at once",
		Source:  "the Ideal of Pulser's figures",
		Oracle:  true,
	}, DefaultConfig, New)
}

// Config has no fields: there is nothing to set.
type Config struct{}

// DefaultConfig returns the only Config.
func DefaultConfig() Config { return Config{} }

// Validate returns nil.
func (Config) Validate() error { return nil }

type engine struct {
	control cc.Control
	line    units.Rate
}

// New returns an engine, a cc.Directed, that has one packet outstanding until
// Direct sets a rate, and then keeps that rate without a window.
func New(_ Config, env cc.Env) (cc.Engine, error) {
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("ideal: %w", err)
	}
	return &engine{control: cc.Control{Rate: env.LineRate, Window: env.MTU}, line: env.LineRate}, nil
}

// Direct implements cc.Directed.
func (e *engine) Direct(r units.Rate) {
	e.control = cc.Control{Rate: min(max(r, 1), e.line), Window: cc.Unlimited}
}

// OnAck changes nothing.
func (e *engine) OnAck(*cc.Ack) cc.Control { return e.control }

// OnLoss changes nothing.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP changes nothing.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the Control of the last Direct.
func (e *engine) Control() cc.Control { return e.control }
