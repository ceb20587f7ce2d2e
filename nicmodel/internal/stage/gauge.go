package stage

import "github.com/sluice-rdma/sluice/units"

// Gauge watches a queue of the NIC: how many are in it, over time.
type Gauge struct {
	N, most int
	in      uint64
	since   units.Time // of the last change
	area    int64      // picoseconds in the queue, summed over all that were

	watch func(now units.Time, n int) // see NIC.OnLevel; nil if not set
}

// Add counts change pieces that arrived, or left if change is negative. Times must
// not decrease.
func (g *Gauge) Add(now units.Time, change int) {
	g.area += int64(g.N) * int64(now-g.since)
	g.since = now
	g.N += change
	if change > 0 {
		g.in += uint64(change)
		g.most = max(g.most, g.N)
	}
	if g.watch != nil && change != 0 {
		g.watch(now, g.N)
	}
}

// SetWatch has the gauge call f with each change; nil ends that.
func (g *Gauge) SetWatch(f func(now units.Time, n int)) { g.watch = f }

// QueueUse is the occupancy of a queue of a NIC up to some instant. Its mean over a span is
// Area over the span. By Little's law the mean wait is Area over the number of
// arrivals, if what the queue holds at the ends of the span is negligible.
type QueueUse struct {
	Queue string
	Now   int    // in it at the instant
	Most  int    // in it at any time
	Came  uint64 // in all
	Area  int64  // picoseconds in the queue, summed over all that were or are in it
}

// Use returns what the queue of that name held until now.
func (g *Gauge) Use(name string, now units.Time) QueueUse {
	return QueueUse{Queue: name, Now: g.N, Most: g.most, Came: g.in, Area: g.area + int64(g.N)*int64(now-g.since)}
}

// Since returns the use of a queue since an earlier value; Most covers the whole
// time.
func (u QueueUse) Since(before QueueUse) QueueUse {
	u.Came -= before.Came
	u.Area -= before.Area
	return u
}
