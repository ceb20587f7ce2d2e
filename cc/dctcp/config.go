package dctcp

import (
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is DCTCP's parameters. Sections are the paper's.
type Config struct {
	// G is the weight of a new fraction of marked packets in the moving average, in
	// (0, 1] (section 3.3).
	G float64 `yaml:"g" eg:"0.0625" range:"(0,1]"`
	// InitialAlpha is that average before the first window of data, 0 to 1. The paper
	// gives none; 1, as RFC 8257 and Linux have it, makes the first mark halve the
	// window.
	InitialAlpha float64 `yaml:"initial_alpha" eg:"0.5" range:"[0,1]"`
	// InitialCwnd is the first window, in packets, from which slow start doubles it
	// each round trip. The paper gives none; 0 is TCP's of its time (RFC 3390): 4380
	// bytes, but from two to four packets.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"20" range:"[1,1e9]" of:"packets" zero:"two to four"`
	// MinCwnd is the least window that marks and losses leave, in packets, from 1. A
	// timeout leaves one packet.
	MinCwnd float64 `yaml:"min_cwnd" eg:"1" range:"[1,1e9]" of:"packets"`

	// RateStep, if not 0, makes DCTCP a rate in place of a window, which begins at the
	// line rate and rises by so much each round trip without a cut, as public simulations
	// of RDMA have it. InitialCwnd and MinCwnd mean nothing then.
	RateStep units.Rate `yaml:"rate_step" eg:"1Gbps" range:"(0,)" zero:"a window"`
	// MinRate is the least such rate.
	MinRate units.Rate `yaml:"min_rate" eg:"100Mbps" range:"(0,)" why:"a flow without one would stop for good"`
}

// DefaultConfig returns the parameters that docs/engines/dctcp.md gives the source
// of.
func DefaultConfig() Config {
	return Config{G: 1.0 / 16, InitialAlpha: 1, MinCwnd: 2, MinRate: 100 * units.Mbps}
}

// ArtefactConfig returns the parameters of PowerTCP's public simulation.
func ArtefactConfig() Config {
	c := DefaultConfig()
	c.G, c.RateStep = 1.0/256, units.Gbps
	return c
}

var settings = field.Of[Config]("dctcp")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }

func (c Config) law() dctcplaw.Params {
	return dctcplaw.Params{G: c.G, InitialAlpha: c.InitialAlpha, InitialCwnd: c.InitialCwnd, MinCwnd: c.MinCwnd}
}
