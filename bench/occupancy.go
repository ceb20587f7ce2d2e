package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// occupancy is the distribution of a queue's length over time: a histogram of three digits, in
// which a length weighs as long as it lasted, to the picosecond.
type occupancy struct {
	h     *stats.Histogram
	since units.Time
	bytes units.Bytes // from then on
}

// maxQueue bounds a queue of the fabric.
const maxQueue = int64(2 * units.GiB)

// observe begins to watch a port.
func (o *occupancy) observe(now units.Time, p fabric.Port) {
	o.h = stats.NewHistogram(1, maxQueue)
	o.since, o.bytes = now, p.Queue()
	p.Observe(o.change)
}

// change takes what the queue holds from now on.
func (o *occupancy) change(now units.Time, bytes units.Bytes) {
	if now > o.since {
		o.h.Record(int64(o.bytes), int64(now-o.since))
	}
	o.since, o.bytes = now, bytes
}

// distribution is that of the queue's length over time up to now, empty if no time has passed.
func (o *occupancy) distribution(now units.Time, link string) stats.Distribution {
	if o.h != nil {
		o.change(now, o.bytes)
	}
	if o.h == nil || o.h.Count() == 0 {
		return stats.Distribution{Kind: results.SeriesQueue, Name: link, Unit: "B"}
	}
	return stats.NewDistribution(results.SeriesQueue, link, "B", func(percent float64) stats.Float {
		return stats.Float(o.h.Percentile(percent))
	})
}
