package reproduce

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
)

// seed is what the runs of a row gave with one seed.
type seed struct {
	Number  uint64
	systems map[string]*results.System // by run, then "/", then system
	errs    []error
}

// system returns what a system of a run gave. One that is not there is an error of
// the row, and has nothing measured.
func (s *seed) system(run, name string) *system {
	if x := s.systems[run+"/"+name]; x != nil {
		return &system{x, s}
	}
	s.fail("run %q has no system %q", run, name)
	return &system{results.NewSystem(name, "", ""), s}
}

func (s *seed) fail(format string, args ...any) { s.errs = append(s.errs, fmt.Errorf(format, args...)) }

func (s *seed) err() error { return errors.Join(s.errs...) }

// system is a result with ways to find one's way in it.
type system struct {
	*results.System
	seed *seed
}

// labelled is the name under which the flows of a label are: a scenario with one label
// has them as all flows alone.
func (s *system) labelled(name string) string {
	if len(s.Labels) == 0 {
		return results.SeriesAll
	}
	return name
}

// label returns what the flows of a label did.
func (s *system) label(name string) *results.Flows {
	if len(s.Labels) == 0 {
		return &s.Flows
	}
	for i := range s.Labels {
		if s.Labels[i].Label == name {
			return &s.Labels[i].Flows
		}
	}
	s.seed.fail("%s has no label %q", s.Name, name)
	f := results.NewFlows()
	return &f
}

// link returns what happened at a link.
func (s *system) link(name string) *results.Link {
	for i := range s.Links {
		if s.Links[i].Link == name {
			return &s.Links[i]
		}
	}
	s.seed.fail("%s has no link %q", s.Name, name)
	u := stats.Unmeasured
	return &results.Link{RateGbps: u, WireGbps: u, Busy: u, BusyMinimum: u, QueueAvgBytes: u, PauseUs: u}
}

// Series returns a series over time: times in us and values, NaN where unmeasured. Of a
// queue or a buffer, values are the means of the steps.
func (s *system) Series(kind, name string) curve {
	return s.series(kind, name, func(x *results.Series) []stats.Float { return x.Values })
}

// most is Series with the most of each step, of a queue or a buffer.
func (s *system) most(kind, name string) curve {
	return s.series(kind, name, func(x *results.Series) []stats.Float { return x.Max })
}

func (s *system) series(kind, name string, of func(*results.Series) []stats.Float) curve {
	for i := range s.System.Series {
		x := &s.System.Series[i]
		if x.Kind != kind || x.Name != name {
			continue
		}
		c := curve{}
		for j, v := range of(x) {
			c.X = append(c.X, float64(x.StartUs)+float64(float64(j)*float64(x.StepUs)))
			c.Y = append(c.Y, float64(v))
		}
		return c
	}
	s.seed.fail("%s has no series %s of %q", s.Name, kind, name)
	return curve{}
}

// cdf returns a distribution of a label's flows: values and shares.
func (s *system) cdf(kind, name string) curve { return s.distribution(kind, s.labelled(name)) }

// completion returns the distribution of completion times of a range of sizes, as
// results.SizeRange calls it.
func (s *system) completion(sizes string) curve {
	return s.distribution(results.DistributionBySize, sizes)
}

// queueTimes returns the distribution over time of what a link's queue held, in bytes.
func (s *system) queueTimes(link string) curve { return s.distribution(results.SeriesQueue, link) }

func (s *system) distribution(kind, name string) curve {
	for i := range s.Distributions {
		d := &s.Distributions[i]
		if d.Kind != kind || d.Name != name {
			continue
		}
		c := curve{}
		for j, v := range d.Values {
			c.X = append(c.X, float64(v))
			c.Y = append(c.Y, float64(d.Share[j]))
		}
		return c
	}
	s.seed.fail("%s has no distribution %s of %q", s.Name, kind, name)
	return curve{}
}

// curve is points with rising X.
type curve struct{ X, Y []float64 }

// between returns the points with from <= X <= to.
func (c curve) between(from, to float64) curve {
	var out curve
	for i, x := range c.X {
		if x >= from && x <= to {
			out.X, out.Y = append(out.X, x), append(out.Y, c.Y[i])
		}
	}
	return out
}

// mean returns the mean of the finite Y, NaN if there is none.
func (c curve) mean() float64 {
	n, sum := 0, 0.0
	for _, y := range c.Y {
		if !math.IsNaN(y) {
			n++
			sum += y
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// deviation returns the standard deviation of the finite Y.
func (c curve) deviation() float64 { return deviation(c.Y) }

// max returns the largest Y, NaN if there is none.
func (c curve) max() float64 { return c.extreme(func(y, best float64) bool { return y > best }) }

// min returns the least Y, NaN if there is none.
func (c curve) min() float64 { return c.extreme(func(y, best float64) bool { return y < best }) }

func (c curve) extreme(better func(y, best float64) bool) float64 {
	best := math.NaN()
	for _, y := range c.Y {
		if math.IsNaN(best) || better(y, best) {
			best = y
		}
	}
	return best
}

// first returns the least X from which on Y stays at or above y for all points up to
// so much later; NaN if there is none.
func (c curve) first(y, hold float64) float64 {
	for i := range c.X {
		ok := true
		for j := i; j < len(c.X) && c.X[j] <= c.X[i]+hold; j++ {
			if !(c.Y[j] >= y) {
				ok = false
				break
			}
		}
		if ok {
			return c.X[i]
		}
	}
	return math.NaN()
}

// at returns the least X at which Y has reached y: of a CDF, a percentile.
func (c curve) at(y float64) float64 {
	for i := range c.X {
		if c.Y[i] >= y-1e-9 {
			return c.X[i]
		}
	}
	return math.NaN()
}

// scale returns the curve with X and Y multiplied.
func (c curve) scale(x, y float64) curve {
	var out curve
	for i := range c.X {
		out.X, out.Y = append(out.X, c.X[i]*x), append(out.Y, c.Y[i]*y)
	}
	return out
}

// line makes a curve a line of a chart.
func (c curve) line(name string) chartLine { return chartLine{Name: name, X: c.X, Y: c.Y} }
