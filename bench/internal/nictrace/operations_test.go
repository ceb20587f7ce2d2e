package nictrace

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// Ranges of latencies are in order, and no wider than a 64th.
func TestLatencyRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(0, 1<<50).Draw(t, "a")
		b := a + rapid.Int64Range(0, 1<<40).Draw(t, "more")
		i, j := latencyRange(units.Time(a)), latencyRange(units.Time(b))
		if i > j || i == j && float64(b-a) > float64(a)/64 {
			t.Fatalf("%d is in range %d, %d in %d", a, i, b, j)
		}
	})
}
