package paced

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// A value lies below its bucket's bound, not below the bound before, and the bound
// is at most a quarter above it.
func TestRTTBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := units.Time(rapid.Int64Range(1<<rttLeast, 1<<(rttLeast+rttOctaves)-1).Draw(t, "rtt"))
		var h RTTHistogram
		h.add(v)
		for i, c := range h.Counts {
			if c == 0 {
				continue
			}
			if v >= h.Bound(i) || i > 0 && v < h.Bound(i-1) || h.Bound(i) > v+v/4+1 {
				t.Fatalf("%v is in bucket %d, which ends at %v", v, i, h.Bound(i))
			}
		}
		if got := h.Quantile(0.5); got <= v || h.Count() != 1 || units.FromDuration(h.Sum)+h.rest != v {
			t.Fatalf("quantile %v, count %d, sum %v", got, h.Count(), h.Sum)
		}
	})
	var h RTTHistogram
	if h.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for _, v := range []units.Time{0, 1, 1 << 50} { // beyond either end
		h.add(v)
	}
	if h.Counts[0] != 2 || h.Counts[rttBuckets-1] != 1 {
		t.Error("values beyond the ends are not in the first and last bucket")
	}
}

// The sum of a busy queue pair's round trips goes on for years: with 64 segments
// outstanding it grows by 64 s a second.
func TestSumOfRoundTripsDoesNotOverflow(t *testing.T) {
	var h RTTHistogram
	const rtt = 4*units.Second + 1
	for range 3_000_000 { // 139 days, beyond what picoseconds hold
		h.add(rtt)
	}
	h.total()
	if want := 12_000_000*time.Second + 3*time.Microsecond; h.Sum != want {
		t.Errorf("the sum is %v, want %v", h.Sum, want)
	}
}

// A quantile is the end of the bucket in which that part of the round trips ends.
func TestRTTQuantiles(t *testing.T) {
	var h RTTHistogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("without any: %v", got)
	}
	h.Counts[8], h.Counts[20], h.Counts[40] = 50, 40, 10
	for q, bucket := range map[float64]int{0: 8, 0.5: 8, 0.51: 20, 0.9: 20, 0.91: 40, 1: 40} {
		if got, want := h.Quantile(q), h.Bound(bucket); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}
