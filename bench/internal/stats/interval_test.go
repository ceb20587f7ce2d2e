package stats

import (
	"math"
	"testing"
)

func TestMeanOf(t *testing.T) {
	// Of 1 to 5 the deviation is sqrt(2.5), and t of 4 degrees 2.776.
	m := MeanOf([]float64{1, 2, 3, 4, 5})
	if half := 2.776 * math.Sqrt(2.5/5); m.Mean != 3 || math.Abs(m.Half()-half) > 1e-12 || math.Abs(m.Low-(3-half)) > 1e-12 {
		t.Errorf("%+v, expected 3 give or take %v", m, half)
	}
	if one := MeanOf([]float64{7}); one.Mean != 7 || !math.IsNaN(one.Low) || !math.IsNaN(one.Half()) {
		t.Errorf("%+v", one)
	}
	if same := MeanOf([]float64{0.1, 0.1, 0.1}); same != (Interval{0.1, 0.1, 0.1}) {
		t.Errorf("%+v", same)
	}
	if none := MeanOf(nil); !math.IsNaN(none.Mean) {
		t.Errorf("%+v", none)
	}
}
