package stats

import (
	"math"
	"testing"
)

func TestRatios(t *testing.T) {
	all := NewRatios()
	if all.Count() != 0 || all.Percentile(50) != 0 || len(all.Distribution("slowdown", "").Values) != 0 {
		t.Errorf("nothing was recorded: %d, %v, %v", all.Count(), all.Percentile(50), all.Distribution("slowdown", ""))
	}
	for i := range 100 { // 1 to 100, half of them by way of another
		of := all
		if i%2 == 0 {
			of = NewRatios()
		}
		of.Record(float64(i + 1))
		if of != all {
			all.Merge(of)
		}
	}
	near := func(got Float, want float64) bool { return math.Abs(float64(got)-want) <= want/1000 }
	if all.Count() != 100 || !near(all.Percentile(0), 1) || !near(all.Percentile(50), 50) || !near(all.Percentile(100), 100) {
		t.Errorf("%d ratios from %v by %v to %v, want 100 from 1 by 50 to 100", all.Count(), all.Percentile(0), all.Percentile(50), all.Percentile(100))
	}
	d := all.Distribution("slowdown", "a")
	if d.Kind != "slowdown" || d.Name != "a" || d.Unit != "" || len(d.Values) != len(d.Share) {
		t.Fatalf("%+v", d)
	}
	for i, v := range d.Values {
		if want := float64(d.Share[i]) * 100; math.Abs(float64(v)-want) > 1.1 { // one ratio, and three digits
			t.Errorf("at a share of %v %v, want some %v", d.Share[i], v, want)
		}
	}
}
