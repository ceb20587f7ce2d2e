package report

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSeries draws up to 5 series of up to most points each, on times that may
// repeat, with some values that are not finite.
func drawSeries(t *rapid.T, most int) []Series {
	all := make([]Series, rapid.IntRange(0, 5).Draw(t, "series"))
	step := rapid.SampledFrom([]float64{1e-12, 1e-6, 0.37, 1e3}).Draw(t, "step")
	value := rapid.OneOf(rapid.Float64Range(-1e12, 1e12), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 0}))
	for i := range all {
		s := &all[i]
		now := float64(rapid.IntRange(0, 1000).Draw(t, "first"))
		for range rapid.IntRange(0, most).Draw(t, "points") {
			s.T = append(s.T, now*step)
			s.V = append(s.V, value.Draw(t, "value"))
			now += float64(rapid.IntRange(0, 50).Draw(t, "gap"))
		}
	}
	return all
}

// same compares values with NaN equal to NaN.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := drawSeries(t, 60)
		n := rapid.IntRange(2, 80).Draw(t, "n")
		a := thin(series, n)

		if len(a.t) > n || len(a.v) != len(series) {
			t.Fatalf("%d times and %d series, want at most %d and %d", len(a.t), len(a.v), n, len(series))
		}
		for i := 1; i < len(a.t); i++ {
			if a.t[i] <= a.t[i-1] {
				t.Fatalf("time %d, %v, does not follow %v", i, a.t[i], a.t[i-1])
			}
		}
		first, last := math.Inf(1), math.Inf(-1)
		for _, s := range series {
			for _, x := range s.T {
				first, last = min(first, x), max(last, x)
			}
		}
		width := (last - first) / float64(n/2)
		if first == last {
			width = 1
		}
		for i, s := range series {
			if len(a.v[i]) != len(a.t) {
				t.Fatalf("series %d: %d values at %d times", i, len(a.v[i]), len(a.t))
			}
			// Its extremes survive.
			least, greatest, _ := extremes(s.V)
			gotLeast, gotGreatest, _ := extremes(a.v[i])
			if !same(least, gotLeast) || !same(greatest, gotGreatest) {
				t.Fatalf("series %d spans %v to %v, want %v to %v", i, gotLeast, gotGreatest, least, greatest)
			}
			// Its values are its own, in order, and near where they were.
			at := 0
			for k, v := range a.v[i] {
				if math.IsNaN(v) {
					continue
				}
				from := at
				for at < len(s.V) && (s.V[at] != v || math.Abs(s.T[at]-a.t[k]) > width*(1+1e-9)) {
					at++
				}
				if at == len(s.V) {
					t.Fatalf("series %d has no value %v near %v among those from number %d on", i, v, a.t[k], from)
				}
				at++
			}
		}
	})
}

// A single sample that stands out of ten thousand is still there, where it was.
func TestThinKeepsBursts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const points, n = 10_000, 200
		s := Series{T: make([]float64, points), V: make([]float64, points)}
		for i := range s.T {
			s.T[i] = float64(i)
		}
		burst := rapid.IntRange(0, points-1).Draw(t, "burst")
		s.V[burst] = rapid.SampledFrom([]float64{-1, 1}).Draw(t, "height")
		a := thin([]Series{s}, n)
		k := slices.Index(a.v[0], s.V[burst])
		if k < 0 || math.Abs(a.t[k]-s.T[burst]) > float64(points)/(n/2) {
			t.Fatalf("the burst at %d is gone", burst)
		}
	})
}

func TestThinLeavesFewPointsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := drawSeries(t, 20)
		for i := range series { // no time twice
			for k := range series[i].T {
				series[i].T[k] = series[i].T[k] + float64(k)
			}
		}
		a := thin(series, 100)
		for i, s := range series {
			var ts, vs []float64
			for k, v := range a.v[i] {
				if finite(v) {
					ts, vs = append(ts, a.t[k]), append(vs, v)
				}
			}
			var wantT, wantV []float64
			for k, v := range s.V {
				if finite(v) {
					wantT, wantV = append(wantT, s.T[k]), append(wantV, v)
				}
			}
			if !slices.Equal(ts, wantT) || !slices.Equal(vs, wantV) {
				t.Fatalf("series %d became %v at %v, want %v at %v", i, vs, ts, wantV, wantT)
			}
		}
	})
}

func TestPoints(t *testing.T) {
	for _, tt := range []struct{ series, want int }{{0, 2000}, {1, 2000}, {80, 2000}, {160, 1000}, {1000, 160}, {10_000, 100}} {
		if got := points(tt.series); got != tt.want {
			t.Errorf("points(%d) = %d, want %d", tt.series, got, tt.want)
		}
	}
}

func BenchmarkThin(b *testing.B) {
	series := make([]Series, 40)
	for i := range series {
		for k := range 10_000 {
			series[i].T = append(series[i].T, float64(k))
			series[i].V = append(series[i].V, float64(k*i%997))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		thin(series, points(len(series)))
	}
}

// Means stay means over time, and the most the most, however many steps become one.
func TestThinMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 50).Draw(t, "n")
		// Steps of which a bucket has as many as any other.
		each := rapid.IntRange(2, 9).Draw(t, "steps a bucket")
		var s Series
		for i := range n * each {
			mean := float64(rapid.IntRange(0, 1000).Draw(t, "mean"))
			s.T = append(s.T, float64(i))
			s.V, s.Max = append(s.V, mean), append(s.Max, mean+float64(rapid.IntRange(0, 1000).Draw(t, "more")))
		}
		// The last step ends the span, and so belongs to the last bucket with those before.
		s.T[len(s.T)-1] = float64(n*each) - 1e-9
		a := thin([]Series{s, {Max: []float64{}}}, n)
		if len(a.t) != n || len(a.v[0]) != n || len(a.max[0]) != n || len(a.max[1]) != n {
			t.Fatalf("%d times, %d means and %d mosts, expected %d", len(a.t), len(a.v[0]), len(a.max[0]), n)
		}
		wanted, got, peak := 0.0, 0.0, 0.0
		for i := range s.V {
			wanted += s.V[i] / float64(len(s.V))
			peak = max(peak, s.Max[i])
		}
		for i, v := range a.v[0] {
			got += v / float64(n)
			if !(a.max[0][i] >= v) {
				t.Fatalf("bucket %d has a mean of %v and a most of %v", i, v, a.max[0][i])
			}
		}
		if math.Abs(got-wanted) > 1e-9*wanted || slices.Max(a.max[0]) != peak {
			t.Fatalf("the mean is %v and the most %v, expected %v and %v", got, slices.Max(a.max[0]), wanted, peak)
		}
	})
	// Beside lines of other kinds, and where nothing is thinned, they are the same.
	plain := Series{T: []float64{0, 1, 2, 3, 4, 5, 6, 7}, V: []float64{1, 2, 3, 4, 5, 6, 7, 8}}
	means := Series{T: plain.T, V: plain.V, Max: []float64{9, 9, 9, 9, 9, 30, 9, math.NaN()}}
	if a := thin([]Series{plain, means}, 4); a.max[0] != nil || !slices.EqualFunc(a.v[1], []float64{2.5, math.NaN(), 6.5, math.NaN()}, same) || !slices.EqualFunc(a.max[1], []float64{9, math.NaN(), 30, math.NaN()}, same) {
		t.Errorf("means %v, mosts %v", a.v[1], a.max)
	}
	if a := thin([]Series{plain, means}, 8); a.max[0] != nil || !slices.EqualFunc(a.max[1], means.Max, same) || !slices.Equal(a.v[1], means.V) {
		t.Errorf("means %v, mosts %v", a.v[1], a.max)
	}
}

// Of many queues, the band of the greatest reaches to the most of all.
func TestSpreadOfMeans(t *testing.T) {
	var many []Series
	for i := range maxLines + 1 {
		many = append(many, Series{T: []float64{0, 1}, V: []float64{float64(i), 0}, Max: []float64{float64(100 - i), 1}})
	}
	series, a := spread(append(many, Series{Label: "all", Summary: true, T: []float64{0, 1}, V: []float64{5, 5}}), 100)
	if len(series) != 4 || len(a.max) != 4 || a.max[0] != nil || !slices.Equal(a.max[1], []float64{100, 1}) || a.max[2] != nil || a.max[3] != nil || a.v[1][0] != maxLines {
		t.Errorf("%d series, mosts %v of %v", len(series), a.max, a.v)
	}
}
