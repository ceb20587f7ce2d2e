package pulser

import (
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/field"
)

// Config is Pulser's parameters: its own, and DCTCP's. Sections are Pulser's.
type Config struct {
	// SafeCwnd is the window during an incast, in packets, from 1 (section 3.2).
	SafeCwnd float64 `yaml:"safe_cwnd" eg:"2" range:"[1,1e9]" of:"packets"`
	// G, InitialAlpha, InitialCwnd and MinCwnd are DCTCP's, between incasts (section
	// 4: its recommended settings).
	G            float64 `yaml:"g" eg:"0.125" range:"(0,1]"`
	InitialAlpha float64 `yaml:"initial_alpha" eg:"0.5" range:"[0,1]"`
	InitialCwnd  float64 `yaml:"initial_cwnd" eg:"20" range:"[1,1e9]" of:"packets" zero:"two to four"`
	MinCwnd      float64 `yaml:"min_cwnd" eg:"1" range:"[1,1e9]" of:"packets"`
}

// DefaultConfig returns the parameters that docs/engines/pulser.md gives the source
// of.
func DefaultConfig() Config {
	return Config{SafeCwnd: 4, G: 1.0 / 16, InitialAlpha: 1, MinCwnd: 2}
}

var settings = field.Of[Config]("pulser")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }

func (c Config) dctcp() dctcplaw.Params {
	return dctcplaw.Params{G: c.G, InitialAlpha: c.InitialAlpha, InitialCwnd: c.InitialCwnd, MinCwnd: c.MinCwnd}
}
