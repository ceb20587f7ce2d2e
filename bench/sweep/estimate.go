package sweep

import (
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// maxFlows bounds how many flows an estimate looks at.
const maxFlows = 100_000

// estimate returns a cell's likely time, by its flows with a seed. All
// hosts send at their link's rate at most, in packets of the MTU that are each
// acknowledged, over two links, or four where there are several switches.
func estimate(s *scenario.Scenario, seed uint64) Estimate {
	graph := s.Graph()
	left := make([]float64, graph.Hosts()) // bytes that a host can still send
	for i := range left {
		left[i] = float64(graph.Link(graph.HostLink(i)).Rate) / 8 * s.Duration.Seconds()
	}
	sum := 0.0
	flows, n := s.Flows(seed), 0
	for f, ok := flows.Next(); ok && n < maxFlows && f.Start < s.Duration; f, ok = flows.Next() {
		share := left[f.Src]
		if f.Size > 0 {
			share = min(share, float64(f.Size))
		}
		left[f.Src] -= share
		sum += share
		n++
	}
	if n == maxFlows || len(s.Traffic(seed)) > 0 {
		for _, rest := range left { // unknown: as if all sent all the time
			sum += rest
		}
	}
	links := 2.0
	if graph.Switches() > 1 {
		links = 4
	}
	return Estimate{PacketHops: sum / float64(max(s.NIC.MTU, 1*units.Byte)) * 2 * links, MemoryBytes: int64(s.LeastMemory())}
}
