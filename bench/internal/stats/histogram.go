package stats

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram collects whole numbers of 0 or more: a high dynamic range histogram with three
// significant digits, and exact count and extremes. Make one with NewHistogram. It is not safe
// for concurrent use.
type Histogram struct {
	h        *hdrhistogram.Histogram
	n        uint64
	min, max int64
	high     int64
}

// NewHistogram returns an empty Histogram, to which all numbers up to low are one, and so are
// those from high on.
func NewHistogram(low, high int64) *Histogram {
	return &Histogram{h: hdrhistogram.New(low, high, 3), high: high, min: math.MaxInt64}
}

// Record adds a number n times. It allocates nothing.
func (h *Histogram) Record(v, n int64) {
	h.n += uint64(n)
	h.min, h.max = min(h.min, v), max(h.max, v)
	// It can't fail: the number is within the range that the histogram was made for.
	_ = h.h.RecordValues(min(v, h.high), n)
}

// Merge adds all that other has recorded, which was made with the same range.
func (h *Histogram) Merge(other *Histogram) {
	h.n += other.n
	h.min, h.max = min(h.min, other.min), max(h.max, other.max)
	h.h.Merge(other.h)
}

// Count returns how many numbers were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the largest number, exactly; 0 if nothing was recorded.
func (h *Histogram) Max() int64 { return h.max }

// Percentile returns the number that p percent of those recorded do not exceed (package quantile), to
// three digits and never beyond the extremes; 0 if nothing was recorded.
func (h *Histogram) Percentile(p float64) int64 {
	if h.n == 0 {
		return 0
	}
	return min(max(h.h.ValueAtQuantile(p), h.min), h.max)
}
