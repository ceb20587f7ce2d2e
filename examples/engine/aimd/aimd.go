// Package aimd is a rate engine to begin one's own with: the rate grows by a step
// a round trip while the queue is short, and falls by a share when it is long.
package aimd

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{Name: "aimd", Summary: "additive increase, multiplicative decrease, by queueing delay"}, DefaultConfig, New)
}

// Config is what a scenario may set, by the names in the tags.
type Config struct {
	Queue units.Time `yaml:"queue"` // queueing delay above which the rate falls
	Step  units.Rate `yaml:"step"`  // added in each round trip below it
	Beta  float64    `yaml:"beta"`  // share of the rate that a fall leaves
}

// DefaultConfig returns values for links of 10 to 100 Gbps.
func DefaultConfig() Config {
	return Config{Queue: 20 * units.Microsecond, Step: 50 * units.Mbps, Beta: 0.8}
}

type engine struct {
	Config
	env  cc.Env
	rate units.Rate
	fell units.Time // when the rate fell last
}

// New makes the engine of one flow, which starts at line rate.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if !(c.Beta > 0 && c.Beta < 1) {
		return nil, &cc.FieldError{Of: "aimd", Key: "beta", Value: c.Beta, Want: "choose a number between 0 and 1"}
	}
	if c.Step < units.Mbps {
		return nil, &cc.FieldError{Of: "aimd", Key: "step", Value: c.Step, Want: "choose at least 1Mbps"}
	}
	if err := env.Validate(); err != nil {
		return nil, err
	}
	return &engine{Config: c, env: env, rate: env.LineRate}, nil
}

func (e *engine) Control() cc.Control {
	return cc.Control{Rate: e.rate, Window: cc.Unlimited}
}

func (e *engine) OnAck(a *cc.Ack) cc.Control {
	switch {
	case a.RTT == 0: // it says nothing about the path
	case a.NetRTT > e.env.BaseRTT+e.Queue:
		return e.fall(a.Now, a.RTT)
	case !a.AppLimited:
		e.rate = min(e.rate+units.Rate(a.Scale*float64(e.Step)), e.env.LineRate)
	}
	return e.Control()
}

// fall cuts the rate, once a round trip at most.
func (e *engine) fall(now, rtt units.Time) cc.Control {
	if now-e.fell >= rtt {
		e.rate, e.fell = max(units.Rate(e.Beta*float64(e.rate)), e.Step), now
	}
	return e.Control()
}

func (e *engine) OnLoss(now units.Time) cc.Control    { return e.fall(now, e.env.BaseRTT) }
func (e *engine) OnTimeout(now units.Time) cc.Control { return e.fall(now, e.env.BaseRTT) }
func (e *engine) OnCNP(units.Time) cc.Control         { return e.Control() }

// SetBack implements cc.Timed: the clock of a process that runs for months is set back
// now and then.
func (e *engine) SetBack(by units.Time) { e.fell = e.fell.SetBack(by) }
