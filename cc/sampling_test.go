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
