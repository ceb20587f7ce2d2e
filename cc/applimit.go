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
	pace    units.Time // how long the bytes last at the slowest rate
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

// sent records that n bytes leave now at the given rate, at which they last pace and
// a full segment takes gap, in windows of at least span. The bytes count in the gap that
// follows.
func (l *appLimit) sent(now units.Time, n units.Bytes, rate units.Rate, pace, gap, span units.Time) {
	if !l.started {
		l.started, l.start = true, now
	} else {
		l.held += min(now-l.last+max(appLimitSlack, gap), l.pace)
		if elapsed := now - l.start; elapsed >= span && elapsed > 0 {
			l.limited = float64(l.held) < float64(appLimitShare*float64(elapsed))
			l.start, l.held = now, 0
		}
	}
	l.last, l.bytes, l.slowest, l.pace = now, n, rate, pace
}

// slows records a rate below the slowest, at which the bytes last pace.
func (l *appLimit) slows(r units.Rate, pace units.Time) { l.slowest, l.pace = r, pace }
