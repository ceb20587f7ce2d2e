package calibration

import (
	"math"

	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Mapping is a host time and how far from it the truth may be.
type Mapping struct {
	Host  units.Time
	Bound units.Time
}

// ToHost returns when, by the host's clock, the NIC's counter showed ticks: the
// true time is within Bound of Host. The reading must be within half the
// counter's range of the last sample, either way; what is farther is taken for
// what is not. It is refused, with false, if the mapping can't be trusted there:
// see Status.
func (c *Calibrator) ToHost(ticks uint64) (Mapping, bool) {
	dx := int64((ticks-c.raw)<<c.shift) >> c.shift
	if dx > c.ahead || dx < -c.behind {
		return Mapping{}, false
	}
	x := float64(dx) // within Config.MaxAge of the sample, as ahead and behind are
	return Mapping{c.host + units.Time(detmath.InRange(x*c.period)), c.base + units.Time(detmath.InRange(c.loss(math.Abs(x)*c.nominal)))}, true
}

// ToNIC returns the NIC's counter at that host time: it shows that
// value at some instant within bound of it.
func (c *Calibrator) ToNIC(host units.Time) (ticks uint64, bound units.Time, ok bool) {
	x := float64(host-c.host)/c.period + 0.5 // host is the middle of a tick
	if !(x <= float64(c.ahead) && x >= float64(-c.behind)) {
		return 0, 0, false
	}
	dx := math.Floor(x)
	return (c.raw + uint64(detmath.InRange(dx))) << c.shift >> c.shift, c.base + units.Time(detmath.InRange(c.loss(math.Abs(x)*c.nominal))), true
}

// loss returns by how much the bound has grown that many picoseconds from the last
// sample, in picoseconds.
func (c *Calibrator) loss(elapsed float64) float64 {
	return elapsed * (c.driftError + ulp + float64(elapsed*c.wander)/2)
}

// NextSample advises when to take the next sample: at once at first, then often,
// until the drift is known, and then as the mapping loses precision.
func (c *Calibrator) NextSample() units.Time { return c.next }

// Reason reports whether the mappings can be trusted, and if not, why.
type Reason uint8

// Reasons.
const (
	Trusted       Reason = iota
	TooFewSamples        // since the beginning or since a gap
	AfterStep            // too few samples since the host's clock was stepped
	AfterReset           // too few samples since the device was reset
	Imprecise            // the bound is above Config.MaxBound: the brackets are too wide
	Stale                // the last sample is too old
)

var reasonNames = [...]string{"trusted", "too few samples", "too few samples since a step of the host clock", "too few samples since a device reset", "brackets too wide", "last sample too old"}

func (r Reason) String() string { return reasonNames[r] }

// Status is the state of a calibration at one time.
type Status struct {
	Reason Reason
	// Generation counts the restarts, the first sample's included. Differences
	// of host times from mappings of different generations mean nothing.
	Generation uint32
	Samples    int        // of this generation
	Bound      units.Time // of a mapping of that time; Never without samples
	// DriftPPM is the excess of the counter's period over the nominal one, by the
	// host's clock; the truth is within DriftBoundPPM of it.
	DriftPPM, DriftBoundPPM float64
}

// Status returns the state of the calibration at that host time.
func (c *Calibrator) Status(now units.Time) Status {
	s := Status{Generation: c.generation, Samples: c.samples, Bound: units.Never}
	if c.samples > 0 {
		s.DriftPPM = (c.slow + c.fast) / 2 * 1e6
		s.DriftBoundPPM = c.driftError * 1e6
		s.Bound = c.base + ps(c.loss(math.Abs(float64(now-c.host))))
	}
	switch {
	case c.samples < c.cfg.MinSamples && c.cause == Stepped:
		s.Reason = AfterStep
	case c.samples < c.cfg.MinSamples && c.cause == Reset:
		s.Reason = AfterReset
	case c.samples < c.cfg.MinSamples:
		s.Reason = TooFewSamples
	case c.ahead < 0:
		s.Reason = Imprecise
	case float64(now-c.host)/c.period > float64(c.ahead):
		s.Reason = Stale
	}
	return s
}
