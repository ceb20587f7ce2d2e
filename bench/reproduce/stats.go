package reproduce

import (
	"math"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// ratioOf is the geometric mean of quotients with its interval, which is that of
// their logarithms. It is NaN if one is not positive.
func ratioOf(of, to []float64) stats.Interval {
	logs := make([]float64, len(of))
	for i := range of {
		if !(of[i] > 0 && to[i] > 0) {
			return stats.MeanOf(nil)
		}
		logs[i] = math.Log(of[i] / to[i])
	}
	m := stats.MeanOf(logs)
	return stats.Interval{Mean: math.Exp(m.Mean), Low: math.Exp(m.Low), High: math.Exp(m.High)}
}

// deviation is the standard deviation of the finite ones of values, NaN for none.
func deviation(values []float64) float64 {
	n, sum := 0, 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			sum += v
		}
	}
	if n == 0 {
		return math.NaN()
	}
	mean, squares := sum/float64(n), 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			squares += float64((v - mean) * (v - mean))
		}
	}
	return math.Sqrt(squares / float64(n))
}

// lower writes the name of a system as figures have it.
func lower(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
