package pulser

import (
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/field"
)

// Config is Pulser's parameters: its own, and DCTCP's. Sections are Pulser's.
type Config struct {
	// SafeCwnd is the window during an incast, in packets, from 1 (section 3.2).
	SafeCwnd float64 `yaml:"safe_cwnd" eg:"2"`
	// G, InitialAlpha, InitialCwnd and MinCwnd are DCTCP's, between incasts (section
	// 4: its recommended settings).
	G            float64 `yaml:"g" eg:"0.125"`
	InitialAlpha float64 `yaml:"initial_alpha" eg:"0.5"`
	InitialCwnd  float64 `yaml:"initial_cwnd" eg:"20"`
	MinCwnd      float64 `yaml:"min_cwnd" eg:"1"`
}

// DefaultConfig returns the parameters that docs/engines/pulser.md gives the source
// of.
func DefaultConfig() Config {
	return Config{SafeCwnd: 4, G: 1.0 / 16, InitialAlpha: 1, MinCwnd: 2}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	if !(c.SafeCwnd >= 1 && c.SafeCwnd <= dctcplaw.MaxPackets) {
		return field.Bad("pulser", "safe_cwnd", c.SafeCwnd, "choose 1 or more packets, such as 4")
	}
	return c.dctcp().Validate("pulser")
}

func (c Config) dctcp() dctcplaw.Params {
	return dctcplaw.Params{G: c.G, InitialAlpha: c.InitialAlpha, InitialCwnd: c.InitialCwnd, MinCwnd: c.MinCwnd}
}
