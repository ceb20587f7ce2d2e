package stats

import (
	"math"
)

// Jain returns Jain's fairness index of shares, (sum x)^2 / (n sum x^2), from
// 1/n to 1; Unmeasured if none is positive.
func Jain(shares []float64) Float {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += float64(x * x)
	}
	if !(squares > 0) || math.IsInf(squares, 0) {
		return Unmeasured
	}
	return Float(float64(sum*sum) / float64(float64(len(shares))*squares))
}
