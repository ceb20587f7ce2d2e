package cc

import "github.com/sluice-rdma/sluice/units"

// appLimit determines whether a flow sends at more than 80 percent of its rate,
// which it must for the rate to grow (TIMELY section 5). It adds up how long the
// pace held each send back: a flow that its rate limits was held back all the time.
// Comparing the bytes sent with the rate would not work: the rate may have doubled
// meanwhile. The zero value is ready.
type appLimit struct {
	start   units.Time // of the window
	held    units.Time // within it, by the pace
	last    units.Time // the last send
	bytes   units.Bytes
	slowest units.Rate // current since
	limited bool
	started bool
}

const (
	// appLimitShare is TIMELY's "more than 80% of the target rate".
	appLimitShare = 0.8
	// appLimitSlack is the least tolerance in the length of a gap: polling makes some
	// gaps longer, and the scheduler makes others shorter to compensate.
	appLimitSlack = 10 * units.Microsecond
)

// leaves records that n bytes leave now at the given rate, at which a full segment
// takes gap, in windows of at least span. The bytes count in the gap that
// follows.
func (l *appLimit) leaves(now units.Time, n units.Bytes, rate units.Rate, gap, span units.Time) {
	if !l.started {
		l.started, l.start = true, now
	} else {
		l.held += min(now-l.last+max(appLimitSlack, gap), l.slowest.Serialize(l.bytes))
		if elapsed := now - l.start; elapsed >= span && elapsed > 0 {
			l.limited = float64(l.held) < float64(appLimitShare*float64(elapsed))
			l.start, l.held = now, 0
		}
	}
	l.last, l.bytes, l.slowest = now, n, rate
}

// changes records a change of rate.
func (l *appLimit) changes(r units.Rate) { l.slowest = min(l.slowest, r) }
