package quantile

import (
	"math"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		values []int
		q      float64
		want   int
	}{
		{nil, 0.5, 0},
		{[]int{7}, 0, 7}, {[]int{7}, 1, 7},
		{[]int{1, 2, 3}, 0.5, 2}, {[]int{1, 2, 3, 4}, 0.5, 2},
		{[]int{1, 2, 3, 4}, 0, 1}, {[]int{1, 2, 3, 4}, 1, 4},
		{[]int{1, 2, 3, 4}, 0.6, 2}, {[]int{1, 2, 3, 4}, 0.63, 3}, // ranks 2.9 and 3.02
	} {
		if got := Of(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %v is %d, want %d", c.q, c.values, got, c.want)
		}
	}
}

func TestRankOfMany(t *testing.T) {
	if got := Rank(1, math.MaxUint64>>1); got == 0 || got > math.MaxUint64>>1 {
		t.Errorf("the last of 2^63-1 has the rank %d", got)
	}
}

// Histograms of measurements have the same definition.
func TestAsHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		percent := rapid.Float64Range(0, 100).Draw(t, "percent")
		h := hdrhistogram.New(1, 1000, 3) // below 2048 each value is one of its own
		var values []int64
		for i := range n {
			values = append(values, int64(1+i))
			if err := h.RecordValue(int64(1 + i)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := Of(values, percent/100), h.ValueAtQuantile(percent); got != want {
			t.Fatalf("percentile %v of 1 to %d is %d, in a histogram %d", percent, n, got, want)
		}
	})
}
