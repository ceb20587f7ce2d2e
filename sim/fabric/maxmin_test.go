package fabric

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFairRates(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		capacity []float64
		paths    [][]int
		want     []float64
	}{
		{"one link", []float64{10}, [][]int{{0}, {0}}, []float64{5, 5}},
		// Data Networks, figure 6.18: a long flow meets a short one at each link.
		{"parking lot", []float64{1, 1, 1}, [][]int{{0, 1, 2}, {0}, {1}, {2}}, []float64{.5, .5, .5, .5}},
		{"a full link frees another", []float64{2, 10}, [][]int{{0, 1}, {0}, {1}}, []float64{1, 1, 9}},
		{"three levels", []float64{3, 6, 20}, [][]int{{0}, {0, 1}, {0, 2}, {1, 2}, {2}}, []float64{1, 1, 1, 5, 14}},
		{"no path", []float64{1}, [][]int{{}, {0}}, []float64{inf, 1}},
		{"a link that is down", []float64{0, 4}, [][]int{{0, 1}, {1}}, []float64{0, 4}},
		{"twice through a link", []float64{3}, [][]int{{0, 0}, {0}}, []float64{1, 1}},
		{"no flow", []float64{1}, nil, nil},
	} {
		got, err := FairRates(c.capacity, c.paths)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// Flows that take unlike shares of a link for a unit of rate have the same rate.
func TestFairRatesOfUnlikeCosts(t *testing.T) {
	var s FairSolver
	got, err := s.Rates([]float64{12, 30}, [][]int{{0}, {0, 1}, {1}}, []float64{1, 2, 2})
	if want := []float64{4, 4, 11}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, cost := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := s.Rates([]float64{1}, [][]int{{0}}, []float64{cost}); err == nil || !strings.Contains(err.Error(), "cost of flow 0") {
			t.Errorf("cost %v: error %v", cost, err)
		}
	}
}

func TestFairRatesErrors(t *testing.T) {
	for _, c := range []struct {
		capacity []float64
		paths    [][]int
		want     string
	}{
		{[]float64{1, -1}, nil, "link 1 is -1"},
		{[]float64{math.NaN()}, nil, "link 0 is NaN"},
		{[]float64{math.Inf(1)}, nil, "link 0 is +Inf"},
		{[]float64{1}, [][]int{{0}, {1}}, "flow 1 takes link 1: there are 1"},
		{[]float64{1}, [][]int{{-1}}, "flow 0 takes link -1"},
	} {
		if _, err := FairRates(c.capacity, c.paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v: error %v, want %q", c.capacity, c.paths, err, c.want)
		}
	}
}

// On small graphs, try every allocation on a grid that holds the fair one: three
// flows share links in parts of 1, 2 or 3, so it consists of sixths. Of the feasible
// ones, the fair one has the largest least rate, then the largest second, and so on.
func TestFairRatesAgainstAllAllocations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const parts = 6
		links := rapid.IntRange(1, 4).Draw(t, "links")
		capacity := make([]float64, links)
		most := 0
		for l := range capacity {
			c := rapid.IntRange(0, 4).Draw(t, fmt.Sprint("capacity ", l))
			capacity[l], most = float64(c), max(most, c*parts)
		}
		paths := make([][]int, rapid.IntRange(1, 3).Draw(t, "flows"))
		for f := range paths {
			paths[f] = rapid.SliceOfNDistinct(rapid.IntRange(0, links-1), 1, links, rapid.ID[int]).Draw(t, fmt.Sprint("path ", f))
		}
		got, err := FairRates(capacity, paths)
		if err != nil {
			t.Fatal(err)
		}
		var best, bestSorted []int
		x := make([]int, len(paths))
		for more := true; more; {
			if fitsAll(x, capacity, paths, parts) {
				sorted := slices.Clone(x)
				slices.Sort(sorted)
				if slices.Compare(sorted, bestSorted) > 0 {
					best, bestSorted = slices.Clone(x), sorted
				}
			}
			more = false
			for f := range x {
				if x[f]++; x[f] <= most {
					more = true
					break
				}
				x[f] = 0
			}
		}
		for f := range got {
			if want := float64(best[f]) / parts; math.Abs(got[f]-want) > 1e-9 {
				t.Fatalf("flow %d gets %v, the best allocation gives it %v (all: %v, best %v sixths)", f, got[f], want, got, best)
			}
		}
	})
}

func fitsAll(x []int, capacity []float64, paths [][]int, parts int) bool {
	for l, c := range capacity {
		used := 0
		for f, path := range paths {
			if slices.Contains(path, l) {
				used += x[f]
			}
		}
		if used > int(c)*parts {
			return false
		}
	}
	return true
}

// On larger graphs: rates are max-min fair if and only if they fit and every flow
// has a bottleneck, a full link on which no flow is faster (Data Networks, section
// 6.5.2).
func TestEveryFlowHasABottleneck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SliceOfN(rapid.Float64Range(0, 400), 1, 30).Draw(t, "capacity")
		paths := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.IntRange(0, len(capacity)-1), 1, 6, rapid.ID[int]), 1, 60).Draw(t, "paths")
		rates, err := FairRates(capacity, paths)
		if err != nil {
			t.Fatal(err)
		}
		used, fastest := make([]float64, len(capacity)), make([]float64, len(capacity))
		for f, path := range paths {
			for _, l := range path {
				used[l] += rates[f]
				fastest[l] = max(fastest[l], rates[f])
			}
		}
		const slack = 1e-9 * 400
		for l, c := range capacity {
			if used[l] > c+slack {
				t.Fatalf("link %d carries %v of %v", l, used[l], c)
			}
		}
		for f, path := range paths {
			if !slices.ContainsFunc(path, func(l int) bool { return used[l] >= capacity[l]-slack && rates[f] >= fastest[l]-slack }) {
				t.Fatalf("flow %d, with %v over %v, has no bottleneck", f, rates[f], path)
			}
		}
	})
}

func TestUnfairness(t *testing.T) {
	fair := []float64{5, 5}
	for _, c := range []struct {
		rates []float64
		want  float64
	}{{[]float64{5, 5}, 0}, {[]float64{0, 0}, 1}, {[]float64{10, 0}, 1}, {[]float64{6, 4}, 0.2}} {
		if got := Unfairness(c.rates, fair); got != c.want {
			t.Errorf("%v is %v from %v, want %v", c.rates, got, fair, c.want)
		}
	}
	for _, fair := range [][]float64{nil, {0}, {math.Inf(1)}} {
		if got := Unfairness(make([]float64, len(fair)), fair); !math.IsNaN(got) {
			t.Errorf("the distance from %v is %v", fair, got)
		}
	}
}

func BenchmarkFairRates(b *testing.B) {
	capacity := make([]float64, 200)
	for l := range capacity {
		capacity[l] = float64(100 + l%7)
	}
	paths := make([][]int, 1000)
	for f := range paths {
		paths[f] = []int{f % 100, 100 + f*7%50, 150 + f*13%50}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FairRates(capacity, paths); err != nil {
			b.Fatal(err)
		}
	}
}
