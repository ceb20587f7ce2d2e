package nicmodel

import "github.com/sluice-rdma/sluice/units"

// inflight is a table of so many places, each held until an instant: tags of reads,
// credits of writes, page walkers, operations of the atomics unit. None at all is a
// table without bound. It is a heap by that instant, and so gives back the place
// that comes free first.
type inflight []units.Time

// free returns the instant from which one more can be held, t if that is now.
func (f inflight) free(t units.Time) units.Time {
	if len(f) == 0 {
		return t
	}
	return max(t, f[0])
}

// hold takes the place that comes free first, until an instant.
func (f inflight) hold(until units.Time) {
	if len(f) == 0 {
		return
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(f) {
			break
		}
		if c+1 < len(f) && f[c+1] < f[c] {
			c++
		}
		if f[c] >= until {
			break
		}
		f[i] = f[c]
		i = c
	}
	f[i] = until
}
