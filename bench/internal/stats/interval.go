package stats

import "math"

// student is the two-sided 95 percent quantile of Student's t for 1 to 30 degrees of
// freedom; beyond that the last one errs on the wide side.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// Interval is a mean and its 95 percent confidence interval, by Student's t. With one
// value there is no interval: Low and High are NaN, as is all with none.
type Interval struct{ Mean, Low, High float64 }

// MeanOf returns the mean of values, which should be independent, with its interval.
func MeanOf(values []float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	if n == 1 {
		return Interval{values[0], math.NaN(), math.NaN()}
	}
	// Around the first, so that equal values have no spread by rounding.
	sum := 0.0
	for _, v := range values {
		sum += v - values[0]
	}
	mean := values[0] + sum/float64(n)
	squares := 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	half := student[min(n-1, len(student))-1] * math.Sqrt(squares/float64(n-1)/float64(n))
	return Interval{mean, mean - half, mean + half}
}

// Half is half the interval's width, NaN where there is none.
func (i Interval) Half() float64 { return (i.High - i.Low) / 2 }
