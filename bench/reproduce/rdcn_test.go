package reproduce

import (
	"math"
	"testing"
)

func TestPercentileOf(t *testing.T) {
	all := []weighted{{30, 1}, {10, 98}, {20, 1}}
	for share, want := range map[float64]float64{0.5: 10, 0.98: 10, 0.985: 20, 1: 30} {
		if got := percentileOf(all, share); got != want {
			t.Errorf("of %v of the weight the value is %v, want %v", share, got, want)
		}
	}
	if got := percentileOf([]weighted{{1, 0}}, 0.5); !math.IsNaN(got) {
		t.Errorf("of nothing it is %v", got)
	}
}
