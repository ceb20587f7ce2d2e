package cc

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestScalesWithinOneMinimumRTTAddUpToOne(t *testing.T) {
	const minRTT = 20 * units.Microsecond
	var s UpdateScaler
	if got := s.Scale(0, minRTT); got != 1 {
		t.Errorf("the first completion counts %v", got)
	}
	sum := 0.0
	for i := range 10 {
		sum += s.Scale(units.Time(i+1)*2*units.Microsecond, minRTT)
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("ten completions in one minimum RTT count %v", sum)
	}
	if got := s.Scale(units.Second, minRTT); got != 1 {
		t.Errorf("a completion after a long gap counts %v", got)
	}
	if got := s.Scale(units.Second, minRTT); got <= 0 {
		t.Errorf("a completion in the same batch counts %v; it must count a little", got)
	}
}

func TestAppLimit(t *testing.T) {
	const rate, span = 1 * units.Gbps, 100 * units.Microsecond
	for share, want := range map[float64]bool{1: false, 0.9: false, 0.7: true, 0.1: true} {
		var l AppLimit
		gap := units.Time(float64(rate.Serialize(16*units.KiB)) / share)
		for i := range 20 {
			l.Sent(units.Time(i)*gap, 16*units.KiB, rate, span)
		}
		if l.Limited() != want {
			t.Errorf("a flow at %v of its rate: limited %v", share, l.Limited())
		}
	}
}
