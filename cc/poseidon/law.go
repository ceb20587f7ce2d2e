package poseidon

import (
	"math"

	"github.com/sluice-rdma/sluice/internal/detmath"
)

// law is equations 3 and 4, one of the pairs of functions that section 3.2 allows: they
// satisfy equations 1 and 2.
type law struct {
	p, k, m          float64 // p and k in picoseconds
	minRate, maxRate float64 // bits per second
	lnMax            float64 // ln maxRate
	slope            float64 // p / alpha, alpha = ln maxRate - ln minRate
	gain             float64 // alpha m / p
	atNoDelay        float64 // m ln maxRate + gain k
	quarter          bool    // m is 1/4, and the functions are the paper's
	bound
	alternatives
}

// bound keeps the gain of a round trip, gain times RTT, below most.
type bound struct {
	most float64 // 0 is no bound
	from float64 // the round trip that has it, in picoseconds
}

// boundGain returns the law with a bound of its gain; 0 is the paper's law, without one.
func (l law) boundGain(most float64) law {
	l.bound = bound{most: most}
	if most > 0 {
		l.from = most / l.gain
	}
	return l
}

// bounded reports whether the gain of a round trip is above the bound.
func (l *law) bounded(rtt float64) bool { return l.most > 0 && rtt > l.from }

func newLaw(p, k, m, minRate, maxRate float64) law {
	lnMax := detmath.Log(maxRate)
	alpha := lnMax - detmath.Log(minRate)
	gain := float64(alpha*m) / p
	return law{
		p: p, k: k, m: m, minRate: minRate, maxRate: maxRate,
		lnMax: lnMax, slope: p / alpha, gain: gain,
		atNoDelay: float64(m*lnMax) + float64(gain*k),
		quarter:   m == 0.25,
	}
}

// target is T(rate), equation 3, in picoseconds. It is defined for rates from
// minRate to maxRate; others have the target of the nearer end.
func (l *law) target(rate float64) float64 {
	rate = min(max(rate, l.minRate), l.maxRate)
	if l.chosen {
		switch l.shape {
		case power:
			return l.powerTarget(rate)
		case fixed:
			return l.fixedTarget
		}
	}
	return float64(l.slope*(l.lnMax-detmath.Log(rate))) + l.k
}

// distanceRatio is U(T(rate), delay), equation 4, with the bounded gain. It is at
// least one just where delay <= T(rate) (equation 1).
func (l *law) distanceRatio(rate, delay, rtt float64) float64 {
	gain := l.gain
	if l.bounded(rtt) {
		gain = l.most / rtt
	}
	return detmath.Exp(float64(gain * (l.target(rate) - delay)))
}

// quarterRatio is distanceRatio with equation 3 put in, for the default m = 1/4:
//
//	U = exp((T(rate) - delay) alpha m / p)
//	  = (maxRate/rate)^m exp((k - delay) alpha m / p)
//
// which does with two square roots in place of a logarithm.
func (l *law) quarterRatio(rate, delay float64) float64 {
	rate = min(max(rate, l.minRate), l.maxRate)
	return detmath.Exp(l.atNoDelay-float64(l.gain*delay)) / math.Sqrt(math.Sqrt(rate))
}
