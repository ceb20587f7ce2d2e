package cc

import "github.com/sluice-rdma/sluice/units"

// UpdateScaler computes Ack.Scale: TIMELY section 5 wants every completion used
// but updates "scaled by the number of completions per minimum RTT interval".
// The share of a round trip since the previous completion does that: the shares
// of completions that fall into one minimum RTT add up to one. The zero value
// is ready; the first completion counts whole.
type UpdateScaler struct {
	last units.Time
	seen bool
}

// Scale returns the share for a completion at now, between 2^-10 and 1.
func (s *UpdateScaler) Scale(now, minRTT units.Time) float64 {
	gap := now - s.last
	first := !s.seen
	s.last, s.seen = now, true
	if first || minRTT <= 0 || gap >= minRTT {
		return 1
	}
	const least = 1.0 / 1024 // completions polled in one batch share an instant
	return max(float64(gap)/float64(minRTT), least)
}

// AppLimit tells whether the application, rather than the rate, decides how
// much a flow sends: TIMELY section 5 lets the rate grow only while the flow
// sends at more than 80 percent of it. The zero value is ready.
//
// A flow is measured from one Sent to the next: whenever the flow had nothing
// left to send, the idle gap counts against it.
type AppLimit struct {
	windowStart units.Time
	bytes       units.Bytes
	limited     bool
	started     bool
}

// appLimitShare is TIMELY's "more than 80% of the target rate".
const appLimitShare = 0.8

// Sent records that n bytes left at now while the flow's rate was rate, and
// that the flow was measured over windows of at least span (a round trip, or a
// few segments' time).
func (l *AppLimit) Sent(now units.Time, n units.Bytes, rate units.Rate, span units.Time) {
	if !l.started {
		l.started, l.windowStart = true, now
	}
	if elapsed := now - l.windowStart; elapsed >= span && elapsed > 0 {
		// The bytes of this send belong to the next window: they are what the
		// gap before it was paced for.
		l.limited = float64(units.RateOf(l.bytes, elapsed)) < float64(appLimitShare*float64(rate))
		l.windowStart, l.bytes = now, 0
	}
	l.bytes += n
}

// Limited reports the verdict of the last full window.
func (l *AppLimit) Limited() bool { return l.limited }
