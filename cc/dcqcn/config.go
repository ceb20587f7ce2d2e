package dcqcn

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is DCQCN's parameters. Sections and figures are the paper's.
type Config struct {
	// G is the weight of a notification in alpha, the estimate of congestion, in (0,
	// 1] (equation 1).
	G float64 `yaml:"g" eg:"0.0078125" range:"(0,1]"`
	// AlphaTimer is K: for each such span without a notification alpha falls
	// (equation 2). It must exceed what lies between two notifications.
	AlphaTimer units.Time `yaml:"alpha_timer" eg:"50us" range:"[100ns,1s]"`
	// IncreaseTimer and ByteCounter are T and B: the rate rises each time that span has
	// passed, and each time that number of bytes has been sent (section 3.1).
	IncreaseTimer units.Time `yaml:"increase_timer" eg:"300us" range:"[100ns,1s]"`
	// ByteCounter of 0 is none: the timer alone decides, as in public simulations. The
	// bounds of both keep what is caught up with after a pause countable.
	ByteCounter units.Bytes `yaml:"byte_counter" eg:"1MB" range:"[1KB,)" zero:"none"`
	// FastRecovery is F: how many rises go halfway back to the rate before the cut
	// (section 3.1).
	FastRecovery int `yaml:"fast_recovery" eg:"3" range:"[0,1000]" of:"rises"`
	// AdditiveIncrease is R_AI, by which the target then rises (section 3.1; the value
	// is that of the paper's fluid model and of its authors' simulator).
	AdditiveIncrease units.Rate `yaml:"additive_increase" eg:"20Mbps" range:"(0,)"`
	// HyperIncrease is R_HAI, by which it does when timer and byte counter have both
	// made more than F steps (section 3.1). The paper gives no value,
	// public simulators two to ten times R_AI.
	HyperIncrease units.Rate `yaml:"hyper_increase" eg:"200Mbps" range:"(0,)"`
	// MinRate is the lowest rate. The paper gives none.
	MinRate units.Rate `yaml:"min_rate" eg:"100Mbps" range:"(0,)" why:"a flow without one would stop for good"`
	// CutInterval, if not 0, looks at each end of such a span from the first notification
	// on whether one came in it, and cuts the rate then; and alpha rises or falls at each
	// end of AlphaTimer, by whether one came in that. With 0, the paper, a notification
	// does both at once.
	CutInterval units.Time `yaml:"cut_interval" eg:"4us" range:"[100ns,1s]" zero:"a cut at each notification"`
	// KeepTarget leaves the target as it is at a cut that follows another without a rise
	// of the timer between.
	KeepTarget bool `yaml:"keep_target" eg:"true"`
	// Marks takes each marked acknowledgement for a notification, and none that a
	// receiver sends.
	Marks bool `yaml:"marks" eg:"true"`
	// Window bounds the bytes in flight by the line rate times a base round
	// trip. The paper has no window.
	Window bool `yaml:"window" eg:"true"`
}

// DefaultConfig returns the parameters that docs/engines/dcqcn.md gives the source
// of.
func DefaultConfig() Config {
	return Config{
		G: 1.0 / 256, AlphaTimer: 55 * units.Microsecond,
		IncreaseTimer: 55 * units.Microsecond, ByteCounter: 10 * units.MB, FastRecovery: 5,
		AdditiveIncrease: 40 * units.Mbps, HyperIncrease: 400 * units.Mbps,
		MinRate: 10 * units.Mbps,
	}
}

// ArtefactConfig returns the parameters of PowerTCP's public simulation. It has no byte
// counter: its rises are by the timer alone, half of the way first, then by 50 Mbps, and
// by 100 from the third on.
func ArtefactConfig() Config {
	c := DefaultConfig()
	c.AlphaTimer, c.IncreaseTimer, c.FastRecovery = units.Microsecond, 900*units.Microsecond, 1
	c.AdditiveIncrease, c.HyperIncrease, c.MinRate = 50*units.Mbps, 100*units.Mbps, 100*units.Mbps
	c.ByteCounter, c.CutInterval, c.KeepTarget, c.Marks = 0, 4*units.Microsecond, true, true
	return c
}

var settings = field.Of[Config]("dcqcn")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }
