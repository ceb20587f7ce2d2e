package timely

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is TIMELY's parameters. Sections are the TIMELY paper's unless said
// otherwise.
type Config struct {
	// TLow and THigh bound the zone in which the gradient decides (section
	// 4.3): below TLow the rate always rises, above THigh it always falls.
	// Equal, they make the queue-size scheme of section 4.4.
	TLow  units.Time `yaml:"t_low" eg:"20us" range:"[0,)"`
	THigh units.Time `yaml:"t_high" eg:"200us" range:"(0,)" least:"t_low"`
	// Delta is the additive step, in bits per second (Algorithm 1).
	Delta units.Rate `yaml:"delta" eg:"50Mbps" range:"(0,)"`
	// Beta is the multiplicative decrease factor, in (0, 1] (Algorithm 1).
	Beta float64 `yaml:"beta" eg:"0.5" range:"(0,1]"`
	// Alpha is the weight of a new RTT difference in the moving average, in
	// (0, 1] (Algorithm 1). The paper gives no value. Zero takes 1/32, which its
	// Table 1 bears out (docs/engines/timely.md shows what others give), or
	// with Patched that paper's 0.875.
	Alpha float64 `yaml:"alpha" eg:"0.1" range:"(0,1]" zero:"1/32, or 0.875 with patched"`
	// MinRTT normalises the gradient (section 4.3, "a fixed value"); zero
	// takes the base RTT of the environment.
	MinRTT units.Time `yaml:"min_rtt" eg:"10us" range:"(0,)" zero:"the base RTT"`
	// After HAICount consecutive negative gradients, an additive step is
	// HAISteps times Delta (hyperactive increase, section 4.3). HAISteps 1
	// turns it off.
	HAICount int `yaml:"hai_count" eg:"3" range:"[1,)" of:"gradients" why:"hai_steps: 1 turns hyperactive increase off"`
	HAISteps int `yaml:"hai_steps" eg:"8" range:"[1,)" of:"steps"`
	// HAIAny counts increases in a row in place of negative gradients, those below TLow
	// too, and the larger step holds there too. PowerTCP's public simulation does so.
	HAIAny bool `yaml:"hai_any" eg:"true"`

	// PerRTT updates the rate once a round trip, by the completion of what was sent after
	// the update before, and whole. Else each completion updates it by its share of a
	// round trip (section 5). The simulations of HPCC and PowerTCP do so.
	PerRTT bool `yaml:"per_rtt" eg:"true"`

	// InitialRate is a flow's first rate; zero is MaxRate. The paper gives
	// none.
	InitialRate units.Rate `yaml:"initial_rate" eg:"10Gbps" range:"(0,)" zero:"max_rate" least:"min_rate"`
	// MinRate is the lowest rate. The paper gives none; public code has 100 and 120 Mbps.
	MinRate units.Rate `yaml:"min_rate" eg:"50Mbps" range:"(0,)" why:"a flow without one would stop for good"`
	// MaxRate caps the rate (section 5); zero, or anything above it, is the
	// line rate.
	MaxRate units.Rate `yaml:"max_rate" eg:"20Gbps" range:"(0,)" zero:"the line rate" least:"min_rate"`
	// MaxDecrease is the largest share of the rate that one completion may
	// take, in (0, 1]. 1 is Algorithm 1, which has no bound: a gradient above
	// 1/Beta takes the rate to MinRate.
	MaxDecrease float64 `yaml:"max_decrease" eg:"0.25" range:"(0,1]"`

	// Patched selects the patched TIMELY of Zhu et al. (CoNEXT 2016,
	// Algorithm 2): a weighted step around RTTRef replaces the gradient
	// branch.
	Patched bool `yaml:"patched" eg:"true"`
	// PatchedBeta is the decrease factor of that step, in (0, 1].
	PatchedBeta float64 `yaml:"patched_beta" eg:"0.01" range:"(0,1]"`
	// RTTRef is the RTT that the step steers towards; zero takes TLow.
	RTTRef units.Time `yaml:"rtt_ref" eg:"30us" range:"(0,)" zero:"t_low"`
}

// DefaultConfig returns the paper's parameters (sections 4.3 and 6), and where
// it has none those named in docs/engines/timely.md.
func DefaultConfig() Config {
	return Config{
		TLow:        50 * units.Microsecond,
		THigh:       500 * units.Microsecond,
		Delta:       10 * units.Mbps,
		Beta:        0.8,
		MinRTT:      20 * units.Microsecond,
		HAICount:    5,
		HAISteps:    5,
		MinRate:     100 * units.Mbps,
		MaxDecrease: 0.5,
		PatchedBeta: 0.008,
	}
}

// ArtefactConfig returns the parameters of PowerTCP's public simulation. Its sixth
// increase in a row is the first one that is larger.
func ArtefactConfig() Config {
	c := DefaultConfig()
	c.Alpha, c.Delta, c.HAICount, c.HAISteps, c.HAIAny = 0.875, 50*units.Mbps, 6, 2, true
	c.MaxDecrease, c.PerRTT = 1, true
	return c
}

var settings = field.Of[Config]("timely")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	if err := settings.Check(&c); err != nil {
		return err
	}
	if c.Patched && c.RTTRef == 0 && c.TLow == 0 {
		return field.Bad("timely", "rtt_ref", c.RTTRef, "patched TIMELY needs a round trip to steer towards, and t_low is 0 too: set one of them")
	}
	return nil
}

// weight is Alpha or what stands for zero.
func (c Config) weight() float64 {
	switch {
	case c.Alpha != 0:
		return c.Alpha
	case c.Patched:
		return 0.875
	}
	return 1.0 / 32
}
