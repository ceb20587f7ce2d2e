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
	Alpha units.Rate `yaml:"alpha" eg:"100Mbps" range:"(0,)"`
	// Gamma is the weight of a new rate in the moving average, in (0, 1] (FAST TCP,
	// section IV, which gives no more than these bounds).
	Gamma float64 `yaml:"gamma" eg:"0.25" range:"(0,1]"`
	// BaseRTT is the round trip with empty queues, less a segment's time on the wire;
	// zero takes the shortest seen, as FAST TCP does.
	BaseRTT units.Time `yaml:"base_rtt" eg:"10us" range:"(0,)" zero:"the shortest seen"`
	// BaseWindow is the time for which the shortest round trip seen counts: at least
	// that, at most twice that. FAST TCP never forgets it.
	BaseWindow units.Time `yaml:"base_window" eg:"1s" range:"(0,)"`
	// InitialRate is a flow's first rate; zero is the line rate. TIMELY gives none.
	InitialRate units.Rate `yaml:"initial_rate" eg:"1Gbps" range:"(0,)" zero:"the line rate" least:"min_rate"`
	// MinRate is the lowest rate. TIMELY gives none.
	MinRate units.Rate `yaml:"min_rate" eg:"1Mbps" range:"(0,)" why:"a flow without one would stop for good"`
}

// DefaultConfig returns the parameters that docs/engines/fast.md gives the source of.
func DefaultConfig() Config {
	return Config{Alpha: 50 * units.Mbps, Gamma: 0.5, BaseWindow: 10 * units.Second, MinRate: 10 * units.Mbps}
}

var settings = field.Of[Config]("fast")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }
