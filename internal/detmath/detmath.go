package detmath

import "math"

const (
	ln2Hi  = 6.93147180369123816490e-01 // upper bits of ln 2, so that k*ln2Hi is exact
	ln2Lo  = 1.90821492927058770002e-10
	log2e  = 1.44269504088896338700e+00
	maxExp = 709.0
	minExp = -708.0
)

// Exp returns e to the x. It saturates at e^709 and returns 0 below e^-708.
func Exp(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > maxExp:
		x = maxExp
	case x < minExp:
		return 0
	}
	// x = k ln 2 + r with |r| <= ln 2 / 2, and e^r by its Taylor series: the
	// thirteenth term is below 2^-54 of the sum.
	k := math.Floor(float64(x*log2e) + 0.5)
	r := x - float64(k*ln2Hi)
	r -= float64(k * ln2Lo)
	sum := 1.0
	for i := len(inverses) - 1; i >= 0; i-- {
		sum = 1 + float64(float64(r*sum)*inverses[i])
	}
	return math.Ldexp(sum, int(Int64(k)))
}

// inverses are those of 1, 2, ..., for Horner's scheme for sum r^n/n!: each step is
// 1 + r/n * rest.
var inverses = [14]float64{
	1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13, 1.0 / 14,
}

// Log returns the natural logarithm of x: -Inf at 0, NaN below.
func Log(x float64) float64 {
	switch {
	case x != x || x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	// x = 2^k m with m in [sqrt(1/2), sqrt(2)), and with s = (m-1)/(m+1),
	// ln m = 2 (s + s^3/3 + s^5/5 + ...); |s| < 0.1716, so that 2 s^21/21 is
	// below 2^-54.
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		k--
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	sum := 0.0
	for n := 21; n >= 3; n -= 2 {
		sum = float64(z * (1/float64(n) + sum))
	}
	r := 2 * float64(s+float64(s*sum))
	return float64(float64(k)*ln2Hi) + (r + float64(float64(k)*ln2Lo))
}
