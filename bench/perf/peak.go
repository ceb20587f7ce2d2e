package perf

import "github.com/sluice-rdma/sluice/units"

// mark says that the first Done messages of a run had completed at an instant.
type mark struct {
	at   units.Time
	done uint64
}

// peak returns the most messages per picosecond over any stretch of a run that
// begins with the post of a message and ends with a completion: perftest's "BW
// peak", max over i <= j of (j-i+1) / (completed(j) - posted(i)). perftest computes
// every pair. peak starts from a guess, finds in one pass the stretch that exceeds
// it most, and repeats from there (Dinkelbach's method for a ratio). It reaches the
// same maximum after a few passes.
//
// posted[i] is when message i was posted; completed is in order. peak returns 0 if
// there is no such stretch.
func peak(posted []units.Time, completed []mark) float64 {
	best := 0.0
	for {
		n, span, ok := beat(posted, completed, best)
		if !ok {
			return best
		}
		best = float64(n) / float64(span)
	}
}

// beat returns the stretch that exceeds a rate by most messages: the one with the
// largest n - rate*span. It reports whether there is any.
func beat(posted []units.Time, completed []mark, rate float64) (n uint64, span units.Time, ok bool) {
	if len(posted) == 0 {
		return 0, 0, false
	}
	const slack = 1e-9 // of one message: below it, it is the same stretch again
	most := slack
	// first is the message to begin with, of those before the current completion.
	first, next := 0, 1
	origin := posted[0]
	value := func(i int) float64 { return float64(rate*float64(posted[i]-origin)) - float64(i) }
	at := value(0)
	for _, m := range completed {
		for ; uint64(next) < m.done && next < len(posted); next++ {
			if v := value(next); v > at {
				first, at = next, v
			}
		}
		if m.done <= uint64(first) || m.at <= posted[first] {
			continue
		}
		if v := float64(m.done) - float64(rate*float64(m.at-origin)) + at; v > most {
			most, n, span, ok = v, m.done-uint64(first), m.at-posted[first], true
		}
	}
	return n, span, ok
}
