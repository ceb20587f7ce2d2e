package paced

import (
	"math/bits"
	"time"

	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
)

// RTTHistogram counts round trips from 262 ns (2^18 ps) to 4.4 s (2^42 ps). The
// width of a bucket is a quarter of a power of two, so that a value is known to
// better than a fifth. The first bucket also counts what is shorter, the last one
// what is longer.
type RTTHistogram struct {
	// Sum is the sum of all round trips. Each outstanding segment adds one second to
	// it in each second. So it counts nanoseconds, which overflow after centuries,
	// while picoseconds would overflow after days.
	Sum    time.Duration
	rest   units.Time // not yet in Sum, below a second; a part of a nanosecond after total
	Counts [rttBuckets]uint64
}

const (
	rttLeast   = 18 // log2 of the first octave, in ps
	rttOctaves = 24
	rttBuckets = 4 * rttOctaves
)

func (h *RTTHistogram) add(rtt units.Time) {
	if h.rest += rtt; h.rest >= units.Second {
		h.total()
	}
	v := uint64(max(rtt, 1<<rttLeast))
	octave := bits.Len64(v) - 1
	i := (octave-rttLeast)<<2 | int(v>>(octave-2))&3
	h.Counts[min(i, rttBuckets-1)]++
}

// total brings Sum up to date. It is not done with each round trip, which would take a
// division.
func (h *RTTHistogram) total() {
	whole := h.rest / units.Nanosecond
	h.Sum += time.Duration(whole)
	h.rest -= whole * units.Nanosecond
}

// Bound is the upper end of bucket i; values in the bucket are below it.
func (h *RTTHistogram) Bound(i int) units.Time {
	return units.Time(4+i&3+1) << (rttLeast - 2 + i>>2)
}

// Count is the number of round trips.
func (h *RTTHistogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns the upper bound of the bucket in which the q-th part of the
// round trips ends, 0 without any; q is from 0 to 1.
func (h *RTTHistogram) Quantile(q float64) units.Time {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := quantile.Rank(q, n)
	for i, c := range h.Counts {
		if rank <= c {
			return h.Bound(i)
		}
		rank -= c
	}
	return h.Bound(rttBuckets - 1)
}
