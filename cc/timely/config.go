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
	TLow  units.Time `yaml:"t_low" eg:"20us"`
	THigh units.Time `yaml:"t_high" eg:"200us"`
	// Delta is the additive step, in bits per second (Algorithm 1).
	Delta units.Rate `yaml:"delta" eg:"50Mbps"`
	// Beta is the multiplicative decrease factor, in (0, 1] (Algorithm 1).
	Beta float64 `yaml:"beta" eg:"0.5"`
	// Alpha is the weight of a new RTT difference in the moving average, in
	// (0, 1] (Algorithm 1). The paper gives no value. Zero takes 1/32, which its
	// Table 1 bears out (docs/engines/timely.md shows what others give), or
	// with Patched that paper's 0.875.
	Alpha float64 `yaml:"alpha" eg:"0.1"`
	// MinRTT normalises the gradient (section 4.3, "a fixed value"); zero
	// takes the base RTT of the environment.
	MinRTT units.Time `yaml:"min_rtt" eg:"10us"`
	// After HAICount consecutive negative gradients, an additive step is
	// HAISteps times Delta (hyperactive increase, section 4.3). HAISteps 1
	// turns it off.
	HAICount int `yaml:"hai_count" eg:"3"`
	HAISteps int `yaml:"hai_steps" eg:"8"`
	// HAIAny counts increases in a row in place of negative gradients, those below TLow
	// too, and the larger step holds there too. PowerTCP's public simulation does so.
	HAIAny bool `yaml:"hai_any" eg:"true"`

	// PerRTT updates the rate once a round trip, by the completion of what was sent after
	// the update before, and whole. Else each completion updates it by its share of a
	// round trip (section 5). The simulations of HPCC and PowerTCP do so.
	PerRTT bool `yaml:"per_rtt" eg:"true"`

	// InitialRate is a flow's first rate; zero is MaxRate. The paper gives
	// none.
	InitialRate units.Rate `yaml:"initial_rate" eg:"10Gbps"`
	// MinRate is the lowest rate. The paper gives none; public code has 100 and 120 Mbps.
	MinRate units.Rate `yaml:"min_rate" eg:"50Mbps"`
	// MaxRate caps the rate (section 5); zero, or anything above it, is the
	// line rate.
	MaxRate units.Rate `yaml:"max_rate" eg:"20Gbps"`
	// MaxDecrease is the largest share of the rate that one completion may
	// take, in (0, 1]. 1 is Algorithm 1, which has no bound: a gradient above
	// 1/Beta takes the rate to MinRate.
	MaxDecrease float64 `yaml:"max_decrease" eg:"0.25"`

	// Patched selects the patched TIMELY of Zhu et al. (CoNEXT 2016,
	// Algorithm 2): a weighted step around RTTRef replaces the gradient
	// branch.
	Patched bool `yaml:"patched" eg:"true"`
	// PatchedBeta is the decrease factor of that step, in (0, 1].
	PatchedBeta float64 `yaml:"patched_beta" eg:"0.01"`
	// RTTRef is the RTT that the step steers towards; zero takes TLow.
	RTTRef units.Time `yaml:"rtt_ref" eg:"30us"`
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

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	share := func(name string, v float64) error {
		if !(v > 0 && v <= 1) {
			return field.Bad("timely", name, v, "choose a number above 0 and up to 1")
		}
		return nil
	}
	switch {
	case c.TLow < 0:
		return field.Bad("timely", "t_low", c.TLow, "choose a span of zero or more, such as 50us")
	case c.THigh <= 0:
		return field.Bad("timely", "t_high", c.THigh, "choose a positive span, such as 500us")
	case c.THigh < c.TLow:
		return field.Bad("timely", "t_high", c.THigh, "choose at least t_low, %v", c.TLow)
	case c.Delta <= 0:
		return field.Bad("timely", "delta", c.Delta, "choose a positive rate, such as 10Mbps")
	case c.MinRTT < 0:
		return field.Bad("timely", "min_rtt", c.MinRTT, "choose a positive span, or 0 for the base RTT")
	case c.HAICount < 1:
		return field.Bad("timely", "hai_count", c.HAICount, "choose 1 or more (hai_steps: 1 turns hyperactive increase off)")
	case c.HAISteps < 1:
		return field.Bad("timely", "hai_steps", c.HAISteps, "choose 1 (no hyperactive increase) or more")
	case c.InitialRate < 0:
		return field.Bad("timely", "initial_rate", c.InitialRate, "choose a positive rate, or 0 to start at max_rate")
	case c.MinRate <= 0:
		return field.Bad("timely", "min_rate", c.MinRate, "choose a positive rate; a flow without one would stop for good")
	case c.MaxRate < 0:
		return field.Bad("timely", "max_rate", c.MaxRate, "choose a positive rate, or 0 for the line rate")
	case c.MaxRate > 0 && c.MaxRate < c.MinRate:
		return field.Bad("timely", "max_rate", c.MaxRate, "choose at least min_rate, %v", c.MinRate)
	case c.InitialRate > 0 && c.InitialRate < c.MinRate:
		return field.Bad("timely", "initial_rate", c.InitialRate, "choose at least min_rate, %v", c.MinRate)
	case c.RTTRef < 0:
		return field.Bad("timely", "rtt_ref", c.RTTRef, "choose a positive span, or 0 for t_low")
	case c.Patched && c.RTTRef == 0 && c.TLow == 0:
		return field.Bad("timely", "rtt_ref", c.RTTRef, "patched TIMELY needs a round trip to steer towards, and t_low is 0 too: set one of them")
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"beta", c.Beta}, {"alpha", c.weight()}, {"max_decrease", c.MaxDecrease}, {"patched_beta", c.PatchedBeta}} {
		if err := share(f.name, f.v); err != nil {
			return err
		}
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
