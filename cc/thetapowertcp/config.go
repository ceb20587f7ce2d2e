package thetapowertcp

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is theta-PowerTCP's parameters. Sections are the paper's.
type Config struct {
	// Gamma is the weight of a new window in the moving average, in (0, 1]
	// (section 3.3).
	Gamma float64 `yaml:"gamma" eg:"0.8"`
	// Flows is N, the expected number of flows that share the host's NIC
	// (section 3.3): the additive increase is beta = HostBw tau / N. The
	// paper gives no value.
	Flows float64 `yaml:"flows" eg:"16"`
	// MinCurrent is a floor under the current (1 + the RTT gradient), as a
	// share of the bottleneck's rate, in [0, 1). The paper has none (0); its
	// simulator has one half.
	MinCurrent float64 `yaml:"min_current" eg:"0"`
	// Eta divides the power, from 0.5 to 2: the share of tau's window
	// that flows without a queue aim at. The paper has none (1).
	Eta float64 `yaml:"eta" eg:"1.05"`
	// LeastRTT takes the flow's least round trip for tau in the power, where that
	// is less than BaseRTT, as section 3.3 allows: a flow within a rack then sees
	// its queues, which the topology's longest round trip hides.
	LeastRTT bool `yaml:"least_rtt" eg:"true"`
	// EachAck sets the window by each acknowledgement, from the window of the last
	// round trip, and not once a round trip (Algorithm 2, line 17).
	EachAck bool `yaml:"each_ack" eg:"true"`
	// BaseRTT is tau, the round trip with empty queues (section 3.3); zero
	// takes the environment's.
	BaseRTT units.Time `yaml:"base_rtt" eg:"12us"`
	// MaxWindow bounds the window; zero takes HostBw tau, the initial window.
	// The paper gives no bound.
	MaxWindow units.Bytes `yaml:"max_window" eg:"300KB"`
}

// DefaultConfig returns the paper's parameters (section 3.3), and where it has
// none those named in docs/engines/theta-powertcp.md.
func DefaultConfig() Config { return Config{Gamma: 0.9, Flows: 100, MinCurrent: 0.5, Eta: 1} }

// ArtefactConfig returns the parameters of the authors' public simulation, at 25 Gbps:
// 150 Mbps are added there, whatever the rate.
func ArtefactConfig() Config {
	return Config{Gamma: 0.7, Flows: 25_000.0 / 150, MinCurrent: 0.5, Eta: 1.05, LeastRTT: true, EachAck: true}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return field.Bad("theta-powertcp", "gamma", c.Gamma, "choose a number above 0 and up to 1, such as 0.9")
	case !(c.Flows >= 1 && c.Flows <= 1e9):
		return field.Bad("theta-powertcp", "flows", c.Flows, "choose the number of flows expected to share the NIC, from 1 to 1e9")
	case !(c.MinCurrent >= 0 && c.MinCurrent < 1):
		return field.Bad("theta-powertcp", "min_current", c.MinCurrent, "choose a share from 0 (the paper's, no floor) up to but not 1")
	case !(c.Eta >= 0.5 && c.Eta <= 2):
		return field.Bad("theta-powertcp", "eta", c.Eta, "choose from 0.5 to 2, such as 1 (the paper's)")
	case c.BaseRTT < 0:
		return field.Bad("theta-powertcp", "base_rtt", c.BaseRTT, "choose a positive span, or 0 for the environment's")
	case c.MaxWindow < 0:
		return field.Bad("theta-powertcp", "max_window", c.MaxWindow, "choose a positive size, or 0 for the bandwidth-delay product")
	}
	return nil
}
