package cc

import "github.com/sluice-rdma/sluice/units"

// UpdateScaler computes Ack.Scale: TIMELY section 5 uses every completion, but
// updates "scaled by the number of completions per minimum RTT interval". The share
// of a round trip since the previous completion does that: the shares of
// completions that fall into one minimum RTT add up to one. The zero value is
// ready; the first completion counts whole.
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
