package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// activity is the time in which at least one of a group's requests was under way: the union of
// their spans, however many overlap. The spans end in any order, and may end a little
// ahead of the engine's time, as reduced NICs have it.
type activity struct {
	open  int
	from  units.Time // while some are: since when not counted
	until units.Time // up to where all is counted
	sum   units.Time
}

// begin says that a request is under way from now on.
func (a *activity) begin(now units.Time) {
	if a.open == 0 {
		a.from = max(now, a.until)
	}
	a.open++
}

// end says that one is over.
func (a *activity) end(now units.Time) {
	if a.open--; a.open == 0 && now > a.from {
		a.sum += now - a.from
		a.until = now
	}
}

// reset forgets what was before now.
func (a *activity) reset(now units.Time) {
	a.sum = max(a.until-now, 0)
	a.from = max(a.from, now)
}

// total is the time until now.
func (a *activity) total(now units.Time) units.Time {
	if a.open > 0 {
		return a.sum + max(now-a.from, 0)
	}
	return a.sum - max(a.until-now, 0)
}

// begins and ends count a request of a group of flows as under way, or over. A
// request is a flow that ends, from its start to its end; a task, such as a request
// with its answer; or, on connections that carry tasks, what is posted and not
// completed.
func (m *measurement) begins(number, class int, now units.Time) {
	m.groupsOf(number, class, func(l *label) { l.active.begin(now) })
}

func (m *measurement) ends(number, class int, now units.Time) {
	m.groupsOf(number, class, func(l *label) { l.active.end(now) })
}

// busy says that a connection has something under way from now on, or no more.
func (s *simulation) busy(f *flow, now units.Time, is bool) {
	if m := s.measure; m != nil {
		count := m.ends
		if is {
			count = m.begins
		}
		count(f.Label, f.Class, now)
	}
	s.oracle.changed(now)
}

// collectives are operations of all ranks together, as nccl-tests counts them.
type collectives struct {
	took     units.Time // summed over them
	alg, bus float64    // bytes, and bytes times the factor of the operation
}

// bandwidths returns algorithm and bus bandwidth in GB/s, over the mean time of an
// operation.
func (c *collectives) bandwidths() (alg, bus stats.Float) {
	if c.took <= 0 {
		return stats.Unmeasured, stats.Unmeasured
	}
	s := c.took.Seconds()
	return stats.Float(c.alg / s / 1e9), stats.Float(c.bus / s / 1e9)
}
