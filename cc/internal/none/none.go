package none

import "github.com/sluice-rdma/sluice/cc"

func init() {
	cc.Register(cc.Scheme{
		Name:    "none",
		Summary: "line rate, no window: priority flow control alone",
		Source:  "TIMELY (SIGCOMM 2015) section 6, the PFC baseline",
		Card:    true,
	}, DefaultConfig, New)
}

// Config has no fields: there is nothing to set.
type Config struct{}

// DefaultConfig returns the only Config.
func DefaultConfig() Config { return Config{} }

// Validate returns nil.
func (Config) Validate() error { return nil }

// New returns an engine that always answers with the line rate.
func New(_ Config, env cc.Env) (cc.Engine, error) {
	if err := env.Validate(); err != nil {
		return nil, err
	}
	return start(env), nil
}

// start returns the engine of a flow in a valid environment.
func start(env cc.Env) cc.Fixed {
	return cc.Fixed{Keep: cc.Control{Rate: env.LineRate, Window: cc.Unlimited}}
}
