package report

import (
	"math"
	"slices"
)

// MaxPoints is how many points of one series a page holds at most: more than a
// plot has columns of pixels. Where a page has many series each gets fewer, down
// to minPoints, so that the page stays small and quick.
const MaxPoints = 2000

const (
	minPoints  = 100
	pagePoints = 160_000 // of all series of a page together
)

// points is how many points each series of a report gets, if n lines are drawn in
// all.
func points(n int) int {
	return min(MaxPoints, max(minPoints, pagePoints/max(n, 1)))
}

// lines counts what a report draws over time.
func (r *Report) lines() int {
	n := 0
	for _, run := range r.Runs {
		for _, s := range run.Systems {
			for _, p := range s.Plots {
				n += min(len(p.Series), MaxLines)
			}
		}
	}
	return n
}

// aligned is the series of one plot over common times.
type aligned struct {
	t []float64
	v [][]float64 // one a series, as long as t; NaN where it has no point
}

// thin brings series to common times, at most n of them (n is 2 or more). If all
// their times together are no more than n, every point stays as it is. Otherwise
// the plot's span is cut into n/2 equal buckets with two times each, and a series
// has in each bucket its least and its greatest value, in the order in which they
// occurred: extremes and bursts survive, and no value is made up. A value moves in
// time by less than a bucket's width.
func thin(series []Series, n int) aligned {
	if a, ok := join(series, n); ok {
		return a
	}
	first, last := math.Inf(1), math.Inf(-1)
	for _, s := range series {
		if len(s.T) > 0 {
			first = min(first, s.T[0])
			last = max(last, s.T[len(s.T)-1])
		}
	}
	buckets := n / 2
	width := float64((last - first) / float64(buckets))
	if width == 0 { // all at one time
		width = 1
	}
	a := aligned{t: make([]float64, 2*buckets)}
	for b := range buckets {
		start := first + float64(float64(b)*width)
		a.t[2*b] = start + float64(width*0.25)
		a.t[2*b+1] = start + float64(width*0.75)
	}
	for _, s := range series {
		v := slices.Repeat([]float64{math.NaN()}, 2*buckets)
		for i := 0; i < len(s.T); {
			b := bucket(s.T[i], first, width, buckets)
			lo, hi := -1, -1
			for ; i < len(s.T) && bucket(s.T[i], first, width, buckets) == b; i++ {
				if !finite(s.V[i]) {
					continue
				}
				if lo < 0 || s.V[i] < s.V[lo] {
					lo = i
				}
				if hi < 0 || s.V[i] > s.V[hi] {
					hi = i
				}
			}
			if lo >= 0 {
				v[2*b] = s.V[min(lo, hi)]
				if lo != hi {
					v[2*b+1] = s.V[max(lo, hi)]
				}
			}
		}
		a.v = append(a.v, v)
	}
	return a
}

// join puts series side by side over all their times, unless those are more than
// n, or a series has two points at one time.
func join(series []Series, n int) (a aligned, ok bool) {
	for _, s := range series {
		if len(s.T) > n {
			return aligned{}, false
		}
		for i := 1; i < len(s.T); i++ {
			if s.T[i] == s.T[i-1] {
				return aligned{}, false
			}
		}
		a.t = append(a.t, s.T...)
	}
	slices.Sort(a.t)
	a.t = slices.Compact(a.t)
	if len(a.t) > n {
		return aligned{}, false
	}
	for _, s := range series {
		v := slices.Repeat([]float64{math.NaN()}, len(a.t))
		for i, t := range s.T {
			at, _ := slices.BinarySearch(a.t, t)
			v[at] = s.V[i]
		}
		a.v = append(a.v, v)
	}
	return a, true
}

func bucket(t, first, width float64, buckets int) int {
	return min(buckets-1, int((t-first)/width))
}

func finite(x float64) bool {
	return !math.IsNaN(x) && !math.IsInf(x, 0)
}
