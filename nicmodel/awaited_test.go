package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// More and more Reads under way: as long as the receive side has room for their elements, the rate does not fall, and
// an element is read once; past that, each is read again for its answer, and the rate falls to what
// these reads allow. Writes do not need theirs, and a memory of no bounds has no edge.
func TestReadsWhoseElementsDoNotFit(t *testing.T) {
	const pairs, room, fetches, stop = 64, 256, 4, 200 * units.Microsecond
	run := func(op ib.WROpcode, underWay int, elements units.Bytes) (rate, fetched float64, n *NIC) {
		cfg := preset(t, "cx6dx")
		cfg.State.Elements, cfg.State.Fetches = elements, fetches
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		for range pairs {
			b.drive(pairLoad{to: 1, op: op, size: 8, window: underWay / pairs, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(stop)
		n = b.nics[0]
		return float64(n.Stats().Requests) / stop.Seconds() / 1e6, perRequest(n, ForWQE), n
	}
	_, _, n := run(ib.WRRDMARead, room/2, room*cacheLine)
	if u := cacheUse(n, "awaited wqe"); u.Hits+u.Misses != 0 {
		t.Errorf("%+v though all fit", u)
	}
	free, once, _ := run(ib.WRRDMARead, 2*room, 0)
	over, twice, n := run(ib.WRRDMARead, 2*room, room*cacheLine)
	t.Logf("room for all: %.1f M/s, %.0f bytes of elements a request; for half of them: %.1f M/s, %.0f bytes", free, once, over, twice)
	u := cacheUse(n, "awaited wqe")
	if u.Misses < u.Hits {
		t.Errorf("%+v: want misses mostly, as what is needed first is what was used longest ago", u)
	}
	header := n.cfg.PCIe.Headers
	again := float64(cacheLine+header.completion()+header.request()) * float64(u.Misses) / float64(n.Stats().Requests)
	if d := twice - once; d < 0.9*again || d > 1.1*again {
		t.Errorf("%.0f bytes a request more, want %.0f of those that are read again", d, again)
	}
	if over > free/2 {
		t.Errorf("%.1f M/s with elements that do not fit, %.1f if they do: want less than half", over, free)
	}
	most := fetches / n.pcie.alone(cacheLine).Seconds() / 1e6
	if got := float64(u.Misses) / stop.Seconds() / 1e6; got > 1.1*most || got < 0.8*most {
		t.Errorf("%.1f M misses a second, want the %.1f M of %d reads at a time", got, most, fetches)
	}
	if _, _, n := run(ib.WRRDMAWrite, 2*room, room*cacheLine); cacheUse(n, "awaited wqe").Misses != 0 {
		t.Error("a Write needed its element again")
	}
}
