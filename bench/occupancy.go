package bench

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// occupancy is the distribution of a queue's length over time: a histogram of three digits, in
// which a length weighs as long as it lasted, to the picosecond.
type occupancy struct {
	h     *hdrhistogram.Histogram
	since units.Time
	bytes units.Bytes // from then on
	// Of what it held for some time.
	least, most units.Bytes
}

// maxQueue bounds a queue of the fabric.
const maxQueue = int64(2 * units.GiB)

// observe begins to watch a port.
func (o *occupancy) observe(now units.Time, p fabric.Port) {
	o.h = hdrhistogram.New(1, maxQueue, 3)
	o.since, o.bytes, o.least = now, p.Queue(), math.MaxInt64
	p.Observe(o.change)
}

// change takes what the queue holds from now on.
func (o *occupancy) change(now units.Time, bytes units.Bytes) {
	if now > o.since {
		// It can't fail: the value is within the range that the histogram was made for.
		_ = o.h.RecordValues(int64(o.bytes), int64(now-o.since))
		o.least, o.most = min(o.least, o.bytes), max(o.most, o.bytes)
	}
	o.since, o.bytes = now, bytes
}

// distribution is that of the queue's length over time up to now, empty if no time has passed.
func (o *occupancy) distribution(now units.Time, link string) stats.Distribution {
	if o.h != nil {
		o.change(now, o.bytes)
	}
	if o.h == nil || o.h.TotalCount() == 0 {
		return stats.Distribution{Kind: results.SeriesQueue, Name: link, Unit: "B"}
	}
	return stats.NewDistribution(results.SeriesQueue, link, "B", func(percent float64) stats.Float {
		return stats.Float(min(max(o.h.ValueAtQuantile(percent), int64(o.least)), int64(o.most)))
	})
}
