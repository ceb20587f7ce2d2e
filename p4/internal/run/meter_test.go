package run

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A meter of RFC 2698 lets its bursts pass, then its rates.
func TestMeter(t *testing.T) {
	r := &Rate{Committed: 1000, Peak: 2000, CommittedBurst: 100, PeakBurst: 200}
	var s meterState
	color := func(at units.Time, n float64, want uint64) {
		t.Helper()
		if got := s.execute(r, at, n); got != want {
			t.Errorf("at %v: color %d, want %d", at, got, want)
		}
	}
	color(0, 100, green)
	color(0, 100, yellow)
	color(0, 1, red)
	// 50 ms give 50 and 100 tokens.
	color(50*units.Millisecond, 50, green)
	color(50*units.Millisecond, 50, yellow)
	color(50*units.Millisecond, 1, red)
	// No more than the bursts.
	color(10*units.Second, 100, green)
	color(10*units.Second, 100, yellow)
	color(10*units.Second, 1, red)
	// Time that goes back gives nothing.
	color(1*units.Second, 1, red)
	var open meterState
	if open.execute(nil, 0, 1e9) != green {
		t.Error("a meter without rates is not green")
	}
}
