package fast

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is FAST*'s parameters.
type Config struct {
	// Alpha is the part of the flow's rate that queues hold: in balance the rate
	// times the share of the round trip that is spent in queues (TIMELY, section 6.1,
	// has 10, 50 and 100Mbps).
	Alpha units.Rate `yaml:"alpha" eg:"100Mbps"`
	// Gamma is the weight of a new rate in the moving average, in (0, 1] (FAST TCP,
	// section IV, which gives no more than these bounds).
	Gamma float64 `yaml:"gamma" eg:"0.25"`
	// BaseRTT is the round trip with empty queues, less a segment's time on the wire;
	// zero takes the shortest seen, as FAST TCP does.
	BaseRTT units.Time `yaml:"base_rtt" eg:"10us"`
	// BaseWindow is for how long the shortest round trip seen counts at least; twice
	// that at most. FAST TCP never forgets it.
	BaseWindow units.Time `yaml:"base_window" eg:"1s"`
	// InitialRate is a flow's first rate; zero is the line rate. TIMELY gives none.
	InitialRate units.Rate `yaml:"initial_rate" eg:"1Gbps"`
	// MinRate is the lowest rate. TIMELY gives none.
	MinRate units.Rate `yaml:"min_rate" eg:"1Mbps"`
}

// DefaultConfig returns the parameters that docs/engines/fast.md gives the source of.
func DefaultConfig() Config {
	return Config{Alpha: 50 * units.Mbps, Gamma: 0.5, BaseWindow: 10 * units.Second, MinRate: 10 * units.Mbps}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case c.Alpha <= 0:
		return field.Bad("fast", "alpha", c.Alpha, "choose a positive rate, such as 50Mbps")
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return field.Bad("fast", "gamma", c.Gamma, "choose a number above 0 and up to 1, such as 0.5")
	case c.BaseRTT < 0:
		return field.Bad("fast", "base_rtt", c.BaseRTT, "choose a positive span, or 0 for the shortest seen")
	case c.BaseWindow <= 0:
		return field.Bad("fast", "base_window", c.BaseWindow, "choose a positive span, such as 10s")
	case c.InitialRate < 0:
		return field.Bad("fast", "initial_rate", c.InitialRate, "choose a positive rate, or 0 for the line rate")
	case c.MinRate <= 0:
		return field.Bad("fast", "min_rate", c.MinRate, "choose a positive rate; a flow without one would stop for good")
	case c.InitialRate > 0 && c.InitialRate < c.MinRate:
		return field.Bad("fast", "initial_rate", c.InitialRate, "choose at least min_rate, %v", c.MinRate)
	}
	return nil
}
