package poseidon

import (
	"cmp"

	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// alternatives are the functions that the paper compares its own with: the design
// with one part removed (section 5.6.1), the update by ratio (appendix B.3), and
// the other targets (appendix C).
type alternatives struct {
	chosen      bool // else all of it is the paper's
	shape       shape
	step        step
	fixedTarget float64 // picoseconds
	q           float64
	powerScale  float64    // p / ((minRate/maxRate)^q - 1)
	unscaled    units.Time // round trip that the rate in the target is taken over; 0 is the measured one
	ratioM      float64    // picoseconds
	ai, beta    float64
}

type (
	shape uint8 // of the target
	step  uint8 // how far an update goes
)

const (
	logarithmic shape = iota
	power
	fixed
)

const (
	distance step = iota
	ratio
	aimd
)

// with returns the law with what c chooses in place of the paper's.
func (l law) with(c Config, baseRTT units.Time) law {
	if c.Target == TargetLog && c.Update == UpdateDistance && c.Scaling == ScalingRate {
		return l
	}
	a := alternatives{chosen: true, q: c.Q, fixedTarget: float64(c.FixedTarget), ratioM: float64(c.RatioM), ai: c.AI, beta: c.Beta}
	switch c.Target {
	case TargetPower:
		a.shape = power
		a.powerScale = l.p / (detmath.Exp(float64(c.Q*(detmath.Log(l.minRate)-l.lnMax))) - 1)
	case TargetFixed:
		a.shape = fixed
		if c.FixedTarget == 0 {
			a.fixedTarget = l.k + l.p/2
		}
	}
	switch c.Update {
	case UpdateRatio:
		a.step = ratio
	case UpdateAIMD:
		a.step = aimd
	}
	if c.Scaling == ScalingCwnd {
		a.unscaled = baseRTT
	}
	l.alternatives, l.quarter = a, false
	l.bound = bound{} // the paper shows what its own loop does with them
	return l
}

// powerTarget is T(b) = p b^q + k of appendix C, with the same ends as equation
// 3: k for maxRate and p + k for minRate.
func (l *law) powerTarget(rate float64) float64 {
	return float64(l.powerScale*(detmath.Exp(float64(l.q*(detmath.Log(rate)-l.lnMax)))-1)) + l.k
}

// anyRatio returns the window's factor in a round trip, whatever target
// and update were chosen. Receiving an acknowledgement adds ratio - 1 packets for
// each packet acknowledged, so that 1 + ai/cwnd adds ai packets a round trip.
func (p *params) anyRatio(w *cwnd.Packets, delay float64) float64 {
	if !p.chosen { // m is not 1/4, or the gain is bounded
		return p.distanceRatio(w.Rate(w.RTT), delay, float64(w.RTT))
	}
	rate := w.Rate(cmp.Or(p.unscaled, w.RTT))
	switch p.step {
	case ratio:
		// Equation 13.
		return (p.target(rate) + p.ratioM) / max(delay+p.ratioM, 1)
	case aimd:
		if target := p.target(rate); delay > target {
			return 1 - float64(p.beta*(delay-target))/delay
		}
		return 1 + p.ai/max(w.Cwnd, 1)
	}
	return p.distanceRatio(rate, delay, float64(w.RTT))
}
