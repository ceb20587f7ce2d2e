package maxmin

import (
	"container/heap"
	"fmt"
	"math"
)

// Rates returns the max-min fair rate of each flow, in the unit of capacity:
// capacity[l] is of link l, and paths[f] lists the links of flow f. A link that a
// path names twice carries the flow twice. A flow without links has the rate +Inf.
// An error names the first capacity that is negative or no finite number, or the
// first link that does not exist.
func Rates(capacity []float64, paths [][]int) ([]float64, error) {
	links := make([]link, len(capacity))
	for l, c := range capacity {
		if !(c >= 0) || math.IsInf(c, 1) {
			return nil, fmt.Errorf("maxmin: the capacity of link %d is %v: give a finite one of 0 or more", l, c)
		}
		links[l].left = c
	}
	rates := make([]float64, len(paths))
	for f, path := range paths {
		rates[f] = math.Inf(1)
		for _, l := range path {
			if l < 0 || l >= len(links) {
				return nil, fmt.Errorf("maxmin: flow %d takes link %d: there are %d links", f, l, len(links))
			}
			links[l].flows = append(links[l].flows, f)
			links[l].n++
		}
	}
	var q queue
	for l := range links {
		if links[l].n > 0 {
			q = append(q, entry{links[l].share(), l})
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		// Shares only grow as flows stop elsewhere, so the least entry whose
		// share is still what it says is the next link to fill up.
		e := heap.Pop(&q).(entry)
		full := &links[e.link]
		if full.n == 0 {
			continue
		}
		if s := full.share(); s > e.share {
			heap.Push(&q, entry{s, e.link})
			continue
		}
		for _, f := range full.flows {
			if !math.IsInf(rates[f], 1) {
				continue
			}
			rates[f] = e.share
			for _, l := range paths[f] {
				links[l].left = max(links[l].left-e.share, 0)
				links[l].n--
			}
		}
	}
	return rates, nil
}

// link is what a link has left for the flows that still grow.
type link struct {
	left  float64
	n     int   // how often those flows use it
	flows []int // all that use it
}

func (l *link) share() float64 { return l.left / float64(l.n) }

// entry is a link with the rate at which it is full if no flow stops before.
type entry struct {
	share float64
	link  int
}

// queue is a heap of entries by share, then by link, so that the order never
// depends on chance.
type queue []entry

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].share < q[j].share || q[i].share == q[j].share && q[i].link < q[j].link
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(entry)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Distance returns how far rates are from the fair ones: the sum of the
// differences over the sum of the fair rates. 0 is max-min fair; 1 is what flows
// get that are all idle. It is NaN if the sum of the fair rates is not positive and
// finite. The two slices have the same length.
func Distance(rates, fair []float64) float64 {
	var off, sum float64
	for i, f := range fair {
		off += math.Abs(rates[i] - f)
		sum += f
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return math.NaN()
	}
	return off / sum
}
