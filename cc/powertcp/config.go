package powertcp

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is PowerTCP's parameters. Sections are the paper's.
type Config struct {
	// Gamma is the weight of a new window in the moving average, in (0, 1]
	// (section 3.3).
	Gamma float64 `yaml:"gamma" eg:"0.8" range:"(0,1]"`
	// Flows is N, the expected number of flows that share the host's NIC
	// (section 3.3): the additive increase is beta = HostBw tau / N. The
	// paper gives no value.
	Flows float64 `yaml:"flows" eg:"16" range:"[1,1e9]" of:"flows"`
	// Remember is the number of times in a round trip that the window is remembered, so that
	// the window when the acknowledged segment was sent is known to within
	// 1/Remember of a round trip; from 1 to 8. Equation 7 wants it exactly;
	// section 3.3 remembers once.
	Remember int `yaml:"remember" eg:"8" range:"[1,8]"`
	// MinCurrent is a floor under a hop's current, as a share of its rate, in
	// [0, 1). The paper has none (0); its simulator has one half.
	MinCurrent float64 `yaml:"min_current" eg:"0" range:"[0,1)"`
	// Eta is the utilisation aimed at, in (0, 1]: the power is divided by it. The
	// paper has none (1).
	Eta float64 `yaml:"eta" eg:"0.95" range:"(0,1]"`
	// BaseRTT is tau, the round trip with empty queues (section 3.3); zero
	// takes the environment's.
	BaseRTT units.Time `yaml:"base_rtt" eg:"12us" range:"(0,)" zero:"the environment's"`
	// MaxWindow bounds the window; zero takes HostBw tau, the initial window.
	// The paper gives no bound.
	MaxWindow units.Bytes `yaml:"max_window" eg:"300KB" range:"(0,)" zero:"the bandwidth-delay product"`
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

var settings = field.Of[Config]("powertcp")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }
