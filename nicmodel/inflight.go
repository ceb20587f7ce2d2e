package nicmodel

import "github.com/sluice-rdma/sluice/units"

// inflight is a table of so many places, each held until an instant: tags of reads, page
// walkers, operations of the atomics unit, processing units. None at all is a table
// without bound. It is a ring in the order of these instants, since a place that is taken later
// mostly comes free later.
type inflight struct {
	until []units.Time
	head  int // what comes free first
}

func newInflight(places int) inflight { return inflight{until: make([]units.Time, places)} }

func (f *inflight) bounded() bool { return len(f.until) > 0 }

// free returns the instant from which one more can be held, t if that is now.
func (f *inflight) free(t units.Time) units.Time {
	if len(f.until) == 0 {
		return t
	}
	return max(t, f.until[f.head])
}

// idle reports whether k places can be held at t.
func (f *inflight) idle(t units.Time, k int) bool {
	if k > len(f.until) {
		return false
	}
	last := f.head + k - 1
	if last >= len(f.until) {
		last -= len(f.until)
	}
	return f.until[last] <= t
}

// hold takes the place that comes free first, until an instant.
func (f *inflight) hold(until units.Time) {
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
