package poseidon

import (
	"math"

	"github.com/sluice-rdma/sluice/internal/detmath"
)

// law is equations 3 and 4, one of the pairs of functions that section 3.2
// allows: those that satisfy equations 1 and 2.
type law struct {
	p, k, m          float64 // p and k in picoseconds
	minRate, maxRate float64 // bits per second
	lnMax            float64 // ln maxRate
	slope            float64 // p / alpha, alpha = ln maxRate - ln minRate
	gain             float64 // alpha m / p
	atNoDelay        float64 // m ln maxRate + gain k
	quarter          bool    // m is 1/4
}

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
	return float64(l.slope*(l.lnMax-detmath.Log(rate))) + l.k
}

// ratio is U(T(rate), delay), equation 4 with equation 3 put in:
//
//	U = exp((T(rate) - delay) alpha m / p)
//	  = (maxRate/rate)^m exp((k - delay) alpha m / p)
//
// It is at least one just where delay <= T(rate) (equation 1). The second form
// lets the default m = 1/4 do with two square roots in place of a logarithm in
// front of the exponential.
func (l *law) ratio(rate, delay float64) float64 {
	if l.quarter {
		rate = min(max(rate, l.minRate), l.maxRate)
		return detmath.Exp(l.atNoDelay-float64(l.gain*delay)) / math.Sqrt(math.Sqrt(rate))
	}
	return detmath.Exp(float64(l.gain * (l.target(rate) - delay)))
}
