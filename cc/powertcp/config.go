package powertcp

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is PowerTCP's parameters. Sections are the paper's.
type Config struct {
	// Gamma is the weight of a new window in the moving average, in (0, 1]
	// (section 3.3).
	Gamma float64 `yaml:"gamma" eg:"0.8"`
	// Flows is N, the expected number of flows that share the host's NIC
	// (section 3.3): the additive increase is beta = HostBw tau / N. The
	// paper gives no value.
	Flows float64 `yaml:"flows" eg:"16"`
	// Remember is the number of times in a round trip that the window is remembered, so that
	// the window when the acknowledged segment was sent is known to within
	// 1/Remember of a round trip; from 1 to 8. Equation 7 wants it exactly;
	// section 3.3 remembers once.
	Remember int `yaml:"remember" eg:"8"`
	// MinCurrent is a floor under a hop's current, as a share of its rate, in
	// [0, 1). The paper has none (0); its simulator has one half.
	MinCurrent float64 `yaml:"min_current" eg:"0"`
	// Eta is the utilisation aimed at, in (0, 1]: the power is divided by it. The
	// paper has none (1).
	Eta float64 `yaml:"eta" eg:"0.95"`
	// BaseRTT is tau, the round trip with empty queues (section 3.3); zero
	// takes the environment's.
	BaseRTT units.Time `yaml:"base_rtt" eg:"12us"`
	// MaxWindow bounds the window; zero takes HostBw tau, the initial window.
	// The paper gives no bound.
	MaxWindow units.Bytes `yaml:"max_window" eg:"300KB"`
	// OncePerRTT sets the window with the first acknowledgement of what was sent
	// after it was last set, and not with each: the limit under which section 5
	// compares it with reTCP. Power is measured with each all the same.
	OncePerRTT bool `yaml:"once_per_rtt" eg:"true"`
	// FromRound sets the window by each acknowledgement from the window that the last
	// round trip ended with, as HPCC does and the authors' simulator, and not from that
	// under which the acknowledged packet was sent. Remember means nothing then.
	FromRound bool `yaml:"from_round" eg:"true"`
}

// DefaultConfig returns the paper's parameters (section 3.3), and where it has
// none those named in docs/engines/powertcp.md.
func DefaultConfig() Config {
	return Config{Gamma: 0.9, Flows: 100, Remember: 4, MinCurrent: 0.5, Eta: 1}
}

// ArtefactConfig returns the parameters of the authors' public simulation, at 25 Gbps:
// 150 Mbps are added there, whatever the rate.
func ArtefactConfig() Config {
	return Config{Gamma: 0.9, Flows: 25_000.0 / 150, Remember: 1, MinCurrent: 0.5, Eta: 0.95, FromRound: true}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return field.Bad("powertcp", "gamma", c.Gamma, "choose a number above 0 and up to 1, such as 0.9")
	case !(c.Flows >= 1 && c.Flows <= 1e9):
		return field.Bad("powertcp", "flows", c.Flows, "choose the number of flows expected to share the NIC, from 1 to 1e9")
	case c.Remember < 1 || c.Remember > maxRemember:
		return field.Bad("powertcp", "remember", c.Remember, "choose from 1 (the paper's once a round trip) to %d", maxRemember)
	case !(c.MinCurrent >= 0 && c.MinCurrent < 1):
		return field.Bad("powertcp", "min_current", c.MinCurrent, "choose a share from 0 (the paper's, no floor) up to but not 1")
	case !(c.Eta > 0 && c.Eta <= 1):
		return field.Bad("powertcp", "eta", c.Eta, "choose a share above 0 and up to 1 (the paper's)")
	case c.BaseRTT < 0:
		return field.Bad("powertcp", "base_rtt", c.BaseRTT, "choose a positive span, or 0 for the environment's")
	case c.MaxWindow < 0:
		return field.Bad("powertcp", "max_window", c.MaxWindow, "choose a positive size, or 0 for the bandwidth-delay product")
	}
	return nil
}
