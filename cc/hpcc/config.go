package hpcc

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is HPCC's parameters. Sections are the paper's.
type Config struct {
	// Eta is the utilisation that a link is held at, in (0, 1) (section 3.2).
	Eta float64 `yaml:"eta" eg:"0.98" range:"(0,1)"`
	// MaxStage is after how many round trips of additive increase the window is
	// set by the utilisation even below Eta, to take spare bandwidth quickly
	// (section 3.3). 0 does so at once, as the authors' simulator has it.
	MaxStage int `yaml:"max_stage" eg:"0" range:"[0,)" of:"round trips"`
	// Flows is N, the number of flows expected to share a link, where the
	// additive increase W_AI is the initial window times (1 - Eta)/N, so that N
	// flows' increases fit into what Eta leaves (section 3.3).
	Flows float64 `yaml:"flows" eg:"16" range:"[1,1e9]" of:"flows"`
	// AdditiveIncrease is W_AI itself; zero computes it from Flows.
	AdditiveIncrease units.Bytes `yaml:"additive_increase" eg:"80B" range:"(0,)" zero:"what flows gives"`
	// BaseRTT is T, the round trip with empty queues, the same for all flows
	// (section 3.2); zero takes the environment's.
	BaseRTT units.Time `yaml:"base_rtt" eg:"12us" range:"(0,)" zero:"the environment's"`
	// MaxWindow bounds the window; zero takes the initial window, HostBw T.
	MaxWindow units.Bytes `yaml:"max_window" eg:"300KB" range:"(0,)" zero:"the bandwidth-delay product"`
	// OncePerRTT sets the window only when the reference is, once a round trip, and not
	// with each acknowledgement: the limit under which PowerTCP (NSDI 2022, section 5)
	// compares it with reTCP.
	OncePerRTT bool `yaml:"once_per_rtt" eg:"true"`
}

// DefaultConfig returns the paper's parameters, and where it has none those
// named in docs/engines/hpcc.md.
func DefaultConfig() Config {
	return Config{Eta: 0.95, MaxStage: 5, Flows: 100}
}

// ArtefactConfig returns the parameters of PowerTCP's public simulation, which adds 50 Mbps
// at 25 Gbps whatever the rate.
func ArtefactConfig() Config {
	c := DefaultConfig()
	c.Flows = 25
	return c
}

var settings = field.Of[Config]("hpcc")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }
