package report

import (
	"math"
	"slices"
)

// maxPoints is how many points of one series a page holds at most: more than a
// plot has columns of pixels. Where a page has many series each gets fewer, down
// to minPoints, so that the page stays small and quick.
const maxPoints = 2000

const (
	minPoints  = 100
	pagePoints = 160_000 // of all series of a page together
)

// points is how many points each series of a report gets, if n lines are drawn in
// all.
func points(n int) int {
	return min(maxPoints, max(minPoints, pagePoints/max(n, 1)))
}

// lines counts what a report draws over time, bands as lines of their own.
func (r *Report) lines() int {
	n := 0
	for _, run := range r.Runs {
		for _, s := range run.Systems {
			for _, p := range s.Plots {
				for _, one := range p.Series[:min(len(p.Series), maxLines)] {
					if n++; one.Max != nil {
						n++
					}
				}
			}
		}
	}
	return n
}

// aligned is the series of one plot over common times.
type aligned struct {
	t []float64
	v [][]float64 // one a series, as long as t; NaN where it has no point
	// max is Series.Max, thinned too; nil where a series has none.
	max [][]float64
}

// thin brings series to common times, at most n of them (n is 2 or more). If all
// their times together are no more than n, every point stays as it is. Otherwise
// the plot's span is cut into n/2 equal buckets with two times each. In each bucket
// a series has its least and its greatest value, in the order in which they
// occurred. So extremes and bursts survive, and every value is a real one. A value
// moves in time by less than a bucket's width.
//
// A series of means and mosts has in each bucket the mean of the means, which is that over
// the bucket where steps are even, and the largest of the mosts. Where all are such, buckets
// are n, with a time each.
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
	each := 2
	if !slices.ContainsFunc(series, func(s Series) bool { return s.Max == nil }) {
		each = 1
	}
	buckets := n / each
	width := float64((last - first) / float64(buckets))
	if width == 0 { // all at one time
		width = 1
	}
	a := aligned{t: make([]float64, each*buckets)}
	for i := range a.t {
		a.t[i] = first + float64(width*(float64(i)+0.5)/float64(each))
	}
	for _, s := range series {
		v := slices.Repeat([]float64{math.NaN()}, len(a.t))
		var most []float64
		if s.Max != nil {
			most = slices.Clone(v)
		}
		for i := 0; i < len(s.T); {
			b, from := bucket(s.T[i], first, width, buckets), i
			for i < len(s.T) && bucket(s.T[i], first, width, buckets) == b {
				i++
			}
			if s.Max != nil {
				v[each*b], most[each*b] = meanAndMost(s.V[from:i], s.Max[from:i])
				continue
			}
			if lo, hi := leastAndGreatest(s.V[from:i]); lo >= 0 {
				v[2*b] = s.V[from+min(lo, hi)]
				if lo != hi {
					v[2*b+1] = s.V[from+max(lo, hi)]
				}
			}
		}
		a.v, a.max = append(a.v, v), append(a.max, most)
	}
	return a
}

// leastAndGreatest returns the first indices of the extremes of the finite values, -1 if
// there is no finite value.
func leastAndGreatest(v []float64) (lo, hi int) {
	lo, hi = -1, -1
	for i, x := range v {
		if !finite(x) {
			continue
		}
		if lo < 0 || x < v[lo] {
			lo = i
		}
		if hi < 0 || x > v[hi] {
			hi = i
		}
	}
	return lo, hi
}

// meanAndMost returns the mean of the finite means and the largest of the finite mosts,
// NaN if no value is finite.
func meanAndMost(means, mosts []float64) (mean, most float64) {
	sum, n := 0.0, 0
	for _, x := range means {
		if finite(x) {
			sum, n = sum+x, n+1
		}
	}
	_, most, _ = extremes(mosts)
	return sum / float64(n), most
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
		var most []float64
		if s.Max != nil {
			most = slices.Clone(v)
		}
		for i, t := range s.T {
			at, _ := slices.BinarySearch(a.t, t)
			v[at] = s.V[i]
			if most != nil {
				most[at] = s.Max[i]
			}
		}
		a.v, a.max = append(a.v, v), append(a.max, most)
	}
	return a, true
}

func bucket(t, first, width float64, buckets int) int {
	return min(buckets-1, int((t-first)/width))
}

func finite(x float64) bool {
	return !math.IsNaN(x) && !math.IsInf(x, 0)
}
