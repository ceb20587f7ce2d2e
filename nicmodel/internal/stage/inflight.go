package stage

import "github.com/sluice-rdma/sluice/units"

// Inflight is a table of places, each held until an instant: tags of reads, page walkers,
// operations of the atomics unit, processing units. Without places the table has no bound. It
// is a ring in the order of these instants, since a place that is taken later mostly comes free
// later.
type Inflight struct {
	until []units.Time
	head  int // what comes free first
}

// NewInflight makes a table with that number of places.
func NewInflight(places int) Inflight { return Inflight{until: make([]units.Time, places)} }

// Bounded reports whether there is a number of places.
func (f *Inflight) Bounded() bool { return len(f.until) > 0 }

// Free returns the instant from which one more can be held, t if that is now.
func (f *Inflight) Free(t units.Time) units.Time {
	if len(f.until) == 0 {
		return t
	}
	return max(t, f.until[f.head])
}

// Account reports where the cycles of a clock went at all places until now, of which busy were at
// work.
func (f *Inflight) Account(now units.Time, name string, clock Clock, served uint64, busy int64) Account {
	elapsed := int64(0)
	for _, until := range f.until {
		elapsed += clock.CycleAfter(max(now, until))
	}
	return Account{Stage: name, Clock: clock, Parallel: len(f.until), Served: served, Elapsed: elapsed, Busy: busy, Idle: elapsed - busy}
}

// Idle reports whether k places can be held at t.
func (f *Inflight) Idle(t units.Time, k int) bool {
	if k > len(f.until) {
		return false
	}
	last := f.head + k - 1
	if last >= len(f.until) {
		last -= len(f.until)
	}
	return f.until[last] <= t
}

// Hold takes the place that comes free first, until an instant.
func (f *Inflight) Hold(until units.Time) {
	if len(f.until) == 0 {
		return
	}
	at := f.head
	if f.head++; f.head == len(f.until) {
		f.head = 0
	}
	for at != f.head {
		before := at - 1
		if at == 0 {
			before = len(f.until) - 1
		}
		if f.until[before] <= until {
			break
		}
		f.until[at] = f.until[before]
		at = before
	}
	f.until[at] = until
}
