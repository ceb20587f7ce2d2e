package perf

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// Outage is the longest time of a row in which no message completed, and in tests with
// sends none arrived, from its first post to its end.
type Outage struct {
	LongestUs stats.Float `json:"longest_us"`
	AtSeconds stats.Float `json:"at_s"` // when it began, from the row's first post
}

type outage struct{ from, to units.Time }

// extend takes note of a stretch in which nothing completed.
func (o *outage) extend(from, to units.Time) {
	if to-from > o.to-o.from {
		o.from, o.to = from, to
	}
}

func (o *outage) report(start units.Time) *Outage {
	if o.to == o.from {
		return &Outage{LongestUs: 0, AtSeconds: 0}
	}
	return &Outage{LongestUs: stats.Float((o.to - o.from).Microseconds()), AtSeconds: stats.Float((o.from - start).Seconds())}
}
