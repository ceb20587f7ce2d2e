package bench

import (
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

// bySize collects completion times by the size of the completed flow or message. A nil
// one collects nothing.
type bySize struct {
	edges     []units.Bytes     // upper ones, rising; the last is no bound
	recorders []*stats.Recorder // nil where nothing completed
}

// newBySize takes the upper edges of all ranges but the last; without any it is nil.
func newBySize(edges []units.Bytes) *bySize {
	if len(edges) == 0 {
		return nil
	}
	return &bySize{edges: append(append([]units.Bytes{}, edges...), math.MaxInt64), recorders: make([]*stats.Recorder, len(edges)+1)}
}

func (b *bySize) record(size units.Bytes, fct units.Time) {
	if b == nil {
		return
	}
	i := 0
	for size > b.edges[i] {
		i++
	}
	if b.recorders[i] == nil {
		b.recorders[i] = stats.NewRecorder()
	}
	b.recorders[i].Record(fct)
}

func (b *bySize) distributions() []stats.Distribution {
	if b == nil {
		return nil
	}
	var all []stats.Distribution
	from := units.Bytes(0)
	for i, r := range b.recorders {
		if r != nil {
			all = append(all, r.Distribution(results.DistributionBySize, results.SizeRange(from, b.edges[i])))
		}
		from = b.edges[i]
	}
	return all
}
