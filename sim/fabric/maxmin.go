package fabric

import (
	"fmt"
	"math"
	"slices"
)

// FairRates returns the max-min fair rate of each flow, by progressive filling (Bertsekas and
// Gallager, Data Networks, 2nd edition, section 6.5.2): all rates grow together, and a flow's
// rate stops growing when one of its links is full. They are in the unit of capacity:
// capacity[l] is of link l, and paths[f] lists the links of flow f. A link that a
// path names twice carries the flow twice. A flow without links has the rate +Inf.
// An error names the first capacity that is negative or no finite number, or the
// first link that does not exist.
func FairRates(capacity []float64, paths [][]int) ([]float64, error) {
	var s FairSolver
	return s.Rates(capacity, paths, nil)
}

// FairSolver is FairRates for frequent callers: it keeps its memory. A FairSolver belongs to
// one goroutine.
type FairSolver struct {
	links []filling
	rates []float64
	queue bottlenecks
}

// Rates is FairRates of flows that differ in what a unit of rate takes
// of a link: cost[f], positive, for flow f, or 1 for all if cost is nil. Rates are fair,
// not what they take. What it returns holds until the next call.
func (s *FairSolver) Rates(capacity []float64, paths [][]int, cost []float64) ([]float64, error) {
	of := func(f int) float64 {
		if cost == nil {
			return 1
		}
		return cost[f]
	}
	s.links = slices.Grow(s.links[:0], len(capacity))[:len(capacity)]
	links := s.links
	for l, c := range capacity {
		links[l].n, links[l].cost, links[l].flows = 0, 0, links[l].flows[:0]
		if !(c >= 0) || math.IsInf(c, 1) {
			return nil, fmt.Errorf("max-min fair rates: the capacity of link %d is %v: give a finite one of 0 or more", l, c)
		}
		links[l].left = c
	}
	s.rates = slices.Grow(s.rates[:0], len(paths))[:len(paths)]
	rates := s.rates
	for f, path := range paths {
		rates[f] = math.Inf(1)
		if c := of(f); !(c > 0) || math.IsInf(c, 1) {
			return nil, fmt.Errorf("max-min fair rates: the cost of flow %d is %v: give a finite one above 0", f, c)
		}
		for _, l := range path {
			if l < 0 || l >= len(links) {
				return nil, fmt.Errorf("max-min fair rates: flow %d takes link %d: there are %d links", f, l, len(links))
			}
			links[l].flows = append(links[l].flows, f)
			links[l].n++
			links[l].cost += of(f)
		}
	}
	q := s.queue[:0]
	for l := range links {
		if links[l].n > 0 {
			q = append(q, bottleneck{links[l].share(), l})
		}
	}
	s.queue = q
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	for len(q) > 0 {
		// Shares only grow as flows stop elsewhere, so the least bottleneck whose
		// share is still what it says is the next link to fill up.
		e := q[0]
		full := &links[e.link]
		if full.n > 0 && full.share() > e.share {
			q[0].share = full.share()
			q.down(0)
			continue
		}
		last := len(q) - 1
		q[0] = q[last]
		q = q[:last]
		q.down(0)
		if full.n == 0 {
			continue
		}
		for _, f := range full.flows {
			if !math.IsInf(rates[f], 1) {
				continue
			}
			rates[f] = e.share
			for _, l := range paths[f] {
				links[l].left = max(links[l].left-float64(of(f)*e.share), 0)
				links[l].cost -= of(f)
				links[l].n--
			}
		}
	}
	return rates, nil
}

// filling is what a link has left for the flows that still grow.
type filling struct {
	left  float64
	n     int     // how often those flows use it
	cost  float64 // what a unit of rate of all of these takes
	flows []int   // all that use it
}

func (l *filling) share() float64 { return l.left / l.cost }

// bottleneck is a link with the rate at which it is full if no flow stops before.
type bottleneck struct {
	share float64
	link  int
}

// bottlenecks is a heap of them by share, then by link, so that the order never
// depends on chance.
type bottlenecks []bottleneck

func (q bottlenecks) less(i, j int) bool {
	return q[i].share < q[j].share || q[i].share == q[j].share && q[i].link < q[j].link
}

// down puts a bottleneck in its place among those below it.
func (q bottlenecks) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q); c++ {
			if q.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// Unfairness returns how far rates are from the fair ones: the sum of the differences
// over the sum of the fair rates. 0 is max-min fair; 1 is the distance if all flows
// are idle. It is NaN if the sum of the fair rates is not positive and finite. The
// two slices have the same length.
func Unfairness(rates, fair []float64) float64 {
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
