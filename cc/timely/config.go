package timely

import (
	"fmt"

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

	// InitialRate is where a flow starts; zero is MaxRate. The paper gives
	// none.
	InitialRate units.Rate `yaml:"initial_rate" eg:"10Gbps"`
	// MinRate is the lowest rate. The paper gives none.
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
		MinRate:     10 * units.Mbps,
		MaxDecrease: 0.5,
		PatchedBeta: 0.008,
	}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	share := func(name string, v float64) error {
		if !(v > 0 && v <= 1) {
			return fmt.Errorf("timely: %s is %v: choose a number above 0 and up to 1", name, v)
		}
		return nil
	}
	switch {
	case c.TLow < 0:
		return fmt.Errorf("timely: t_low is %v: choose a span of zero or more, such as 50us", c.TLow)
	case c.THigh <= 0:
		return fmt.Errorf("timely: t_high is %v: choose a positive span, such as 500us", c.THigh)
	case c.THigh < c.TLow:
		return fmt.Errorf("timely: t_high (%v) is below t_low (%v): raise t_high or lower t_low", c.THigh, c.TLow)
	case c.Delta <= 0:
		return fmt.Errorf("timely: delta is %v: choose a positive rate, such as 10Mbps", c.Delta)
	case c.MinRTT < 0:
		return fmt.Errorf("timely: min_rtt is %v: choose a positive span, or 0 for the base RTT", c.MinRTT)
	case c.HAICount < 1:
		return fmt.Errorf("timely: hai_count is %d: choose 1 or more (hai_steps: 1 turns hyperactive increase off)", c.HAICount)
	case c.HAISteps < 1:
		return fmt.Errorf("timely: hai_steps is %d: choose 1 (no hyperactive increase) or more", c.HAISteps)
	case c.InitialRate < 0:
		return fmt.Errorf("timely: initial_rate is %v: choose a positive rate, or 0 to start at max_rate", c.InitialRate)
	case c.MinRate <= 0:
		return fmt.Errorf("timely: min_rate is %v: choose a positive rate; a flow without one would stop for good", c.MinRate)
	case c.MaxRate < 0:
		return fmt.Errorf("timely: max_rate is %v: choose a positive rate, or 0 for the line rate", c.MaxRate)
	case c.MaxRate > 0 && c.MaxRate < c.MinRate:
		return fmt.Errorf("timely: max_rate (%v) is below min_rate (%v): raise max_rate or lower min_rate", c.MaxRate, c.MinRate)
	case c.InitialRate > 0 && c.InitialRate < c.MinRate:
		return fmt.Errorf("timely: initial_rate (%v) is below min_rate (%v): raise initial_rate or lower min_rate", c.InitialRate, c.MinRate)
	case c.RTTRef < 0:
		return fmt.Errorf("timely: rtt_ref is %v: choose a positive span, or 0 for t_low", c.RTTRef)
	case c.Patched && c.RTTRef == 0 && c.TLow == 0:
		return fmt.Errorf("timely: rtt_ref and t_low are both 0: patched TIMELY needs an RTT to steer towards, set one")
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
