package thetapowertcp

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is theta-PowerTCP's parameters. Sections are the paper's.
type Config struct {
	// Gamma is the weight of a new window in the moving average, in (0, 1]
	// (section 3.3).
	Gamma float64 `yaml:"gamma" eg:"0.8" range:"(0,1]"`
	// Flows is N, the expected number of flows that share the host's NIC
	// (section 3.3): the additive increase is beta = HostBw tau / N. The
	// paper gives no value.
	Flows float64 `yaml:"flows" eg:"16" range:"[1,1e9]" of:"flows"`
	// MinCurrent is a floor under the current (1 + the RTT gradient), as a
	// share of the bottleneck's rate, in [0, 1). The paper has none (0); its
	// simulator has one half.
	MinCurrent float64 `yaml:"min_current" eg:"0" range:"[0,1)"`
	// Eta divides the power, from 0.5 to 2: the share of tau's window
	// that flows without a queue aim at. The paper has none (1).
	Eta float64 `yaml:"eta" eg:"1.05" range:"[0.5,2]"`
	// LeastRTT takes the flow's least round trip for tau in the power, where that
	// is less than BaseRTT, as section 3.3 allows: a flow within a rack then sees
	// its queues, which the topology's longest round trip hides.
	LeastRTT bool `yaml:"least_rtt" eg:"true"`
	// EachAck sets the window by each acknowledgement, from the window of the last
	// round trip, and not once a round trip (Algorithm 2, line 17).
	EachAck bool `yaml:"each_ack" eg:"true"`
	// BaseRTT is tau, the round trip with empty queues (section 3.3); zero
	// takes the environment's.
	BaseRTT units.Time `yaml:"base_rtt" eg:"12us" range:"(0,)" zero:"the environment's"`
	// MaxWindow bounds the window; zero takes HostBw tau, the initial window.
	// The paper gives no bound.
	MaxWindow units.Bytes `yaml:"max_window" eg:"300KB" range:"(0,)" zero:"the bandwidth-delay product"`
}

// DefaultConfig returns the paper's parameters (section 3.3), and where it has
// none those named in docs/engines/theta-powertcp.md.
func DefaultConfig() Config { return Config{Gamma: 0.9, Flows: 100, MinCurrent: 0.5, Eta: 1} }

// ArtefactConfig returns the parameters of the authors' public simulation, at 25 Gbps:
// 150 Mbps are added there, whatever the rate.
func ArtefactConfig() Config {
	return Config{Gamma: 0.7, Flows: 25_000.0 / 150, MinCurrent: 0.5, Eta: 1.05, LeastRTT: true, EachAck: true}
}

var settings = field.Of[Config]("theta-powertcp")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }
