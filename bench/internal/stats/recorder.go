package stats

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// Recorder collects times: a Histogram for percentiles, and the exact sum. Make one with
// NewRecorder; it takes some 200 KB, so keep one for a label, not for a flow.
// Record allocates nothing. It is not safe for concurrent use.
type Recorder struct {
	h            *Histogram
	sumHi, sumLo uint64 // of picoseconds: a long run outgrows 64 bits
}

const (
	// Within a nanosecond all values are one to the histogram, and all above
	// 1000 s are.
	recorderLow  = int64(units.Nanosecond)
	recorderHigh = int64(1000 * units.Second)
)

// NewRecorder returns an empty Recorder.
func NewRecorder() *Recorder { return &Recorder{h: NewHistogram(recorderLow, recorderHigh)} }

// Record adds a time. A negative one counts as zero.
func (r *Recorder) Record(t units.Time) { r.RecordN(t, 1) }

// RecordN adds a time n times, n from 1.
func (r *Recorder) RecordN(t units.Time, n int64) {
	t = max(t, 0)
	hi, lo := bits.Mul64(uint64(t), uint64(n))
	var carry uint64
	r.sumLo, carry = bits.Add64(r.sumLo, lo, 0)
	r.sumHi += hi + carry
	r.h.Record(int64(t), n)
}

// Merge adds all that other has recorded.
func (r *Recorder) Merge(other *Recorder) {
	lo, carry := bits.Add64(r.sumLo, other.sumLo, 0)
	r.sumLo, r.sumHi = lo, r.sumHi+other.sumHi+carry
	r.h.Merge(other.h)
}

// Count returns how many times were recorded.
func (r *Recorder) Count() uint64 { return r.h.Count() }

// Mean returns the mean, from the exact sum, rounded down to a picosecond; 0 if
// nothing was recorded.
func (r *Recorder) Mean() units.Time {
	n := r.Count()
	if n == 0 {
		return 0
	}
	q, _ := bits.Div64(r.sumHi, r.sumLo, n) // the mean is below 2^63, so sumHi < n
	return units.Time(q)
}

// MeanUs returns the mean in microseconds, Unmeasured if nothing was recorded.
func (r *Recorder) MeanUs() Float { return r.us(r.Mean()) }

// Max returns the largest recorded time, exactly; 0 if nothing was recorded.
func (r *Recorder) Max() units.Time { return units.Time(r.h.Max()) }

// Percentile returns the time that p percent of those recorded do not exceed,
// to three digits and never beyond the extremes; 0 if nothing was recorded.
func (r *Recorder) Percentile(p float64) units.Time { return units.Time(r.h.Percentile(p)) }

// PercentileUs is Percentile in microseconds, Unmeasured if nothing was
// recorded.
func (r *Recorder) PercentileUs(p float64) Float { return r.us(r.Percentile(p)) }

func (r *Recorder) us(t units.Time) Float {
	if r.Count() == 0 {
		return Unmeasured
	}
	return Float(t.Microseconds())
}
