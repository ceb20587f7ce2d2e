package reproduce

import (
	"math"
	"strings"
)

// student is the two-sided 95 percent quantile of Student's t for 1 to 30 degrees of
// freedom; beyond that the last one errs on the wide side.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// interval is a mean and its 95 percent confidence interval, by Student's t. With
// one value there is no interval: low and high are NaN.
type interval struct{ mean, low, high float64 }

func meanOf(values []float64) interval {
	n := len(values)
	if n == 0 {
		return interval{math.NaN(), math.NaN(), math.NaN()}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(n)
	if n == 1 {
		return interval{mean, math.NaN(), math.NaN()}
	}
	squares := 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	half := student[min(n-1, len(student))-1] * math.Sqrt(squares/float64(n-1)/float64(n))
	return interval{mean, mean - half, mean + half}
}

// ratioOf is the geometric mean of quotients with its interval, which is that of
// their logarithms. It is NaN if one is not positive.
func ratioOf(of, to []float64) interval {
	logs := make([]float64, len(of))
	for i := range of {
		if !(of[i] > 0 && to[i] > 0) {
			return interval{math.NaN(), math.NaN(), math.NaN()}
		}
		logs[i] = math.Log(of[i] / to[i])
	}
	m := meanOf(logs)
	return interval{math.Exp(m.mean), math.Exp(m.low), math.Exp(m.high)}
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
