package bench

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/units"
)

// bySize collects completion times by the size of what completed. A nil one collects
// nothing.
type bySize struct {
	edges     []units.Bytes // upper ones, rising; the last is no bound
	recorders []*Recorder   // nil where nothing completed
}

// newBySize takes the upper edges of all ranges but the last; without any it is nil.
func newBySize(edges []units.Bytes) *bySize {
	if len(edges) == 0 {
		return nil
	}
	return &bySize{edges: append(append([]units.Bytes{}, edges...), math.MaxInt64), recorders: make([]*Recorder, len(edges)+1)}
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
		b.recorders[i] = NewRecorder()
	}
	b.recorders[i].Record(fct)
}

func (b *bySize) distributions() []Distribution {
	if b == nil {
		return nil
	}
	var all []Distribution
	from := units.Bytes(0)
	for i, r := range b.recorders {
		if r != nil {
			all = append(all, r.Distribution(DistributionBySize, SizeRange(from, b.edges[i])))
		}
		from = b.edges[i]
	}
	return all
}

// SizeRange names the range of sizes above from and up to to: "up to 10KB", "100KB to
// 1MB". A from of 0 is no lower bound, a to of math.MaxInt64 no upper one: "above 1MB".
func SizeRange(from, to units.Bytes) string {
	switch {
	case to == math.MaxInt64:
		return fmt.Sprintf("above %v", from)
	case from == 0:
		return fmt.Sprintf("up to %v", to)
	}
	return fmt.Sprintf("%v to %v", from, to)
}
