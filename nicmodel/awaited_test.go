package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
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
		return float64(n.Stats().Requests) / stop.Seconds() / 1e6, perRequest(n, pcie.ForWQE), n
	}
	_, _, n := run(ib.WRRDMARead, room/2, room*pcie.CacheLine)
	if u := cacheUse(n, "awaited wqe"); u.Hits+u.Misses != 0 {
		t.Errorf("%+v though all fit", u)
	}
	free, once, _ := run(ib.WRRDMARead, 2*room, 0)
	over, twice, n := run(ib.WRRDMARead, 2*room, room*pcie.CacheLine)
	t.Logf("room for all: %.1f M/s, %.0f bytes of elements a request; for half of them: %.1f M/s, %.0f bytes", free, once, over, twice)
	u := cacheUse(n, "awaited wqe")
	if u.Misses < u.Hits/2 || twice < 1.2*once {
		t.Errorf("%+v, %.0f bytes of elements a request, %.0f where all fit: want a third of misses at least", u, twice, once)
	}
	if over > free/2 {
		t.Errorf("%.1f M/s with elements that do not fit, %.1f if they do: want less than half", over, free)
	}
	most := fetches / n.chip.Link.Alone(pcie.CacheLine).Seconds() / 1e6
	if got := float64(u.Misses) / stop.Seconds() / 1e6; got > 1.2*most || got < 0.8*most {
		t.Errorf("%.1f M misses a second, want the %.1f M of %d reads at a time", got, most, fetches)
	}
	if _, _, n := run(ib.WRRDMAWrite, 2*room, room*pcie.CacheLine); cacheUse(n, "awaited wqe").Misses != 0 {
		t.Error("a Write needed its element again")
	}
}

// Reads that wait to be sent have their elements where those under way have theirs: what is posted counts, not what a queue
// pair may have outstanding. In the end nothing is held.
func TestReadsThatWaitToBeSent(t *testing.T) {
	const room, stop = 64, 100 * units.Microsecond
	run := func(pairs, window, elements int) *NIC {
		cfg := preset(t, "connectib")
		cfg.State.Elements, cfg.Units.Units = units.Bytes(elements*pcie.CacheLine), 1 // so that most wait
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		for range pairs {
			b.drive(pairLoad{to: 1, op: ib.WRRDMARead, size: 8, window: window, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(2 * stop)
		n := b.nics[0]
		if _, held := n.state.LinesHeld(); held != 0 {
			t.Errorf("%d lines are held when all is over", held)
		}
		for _, q := range n.pairs.all {
			if q.handed != q.posted {
				t.Errorf("%d of %d Reads were taken in", q.handed, q.posted)
			}
		}
		return n
	}
	limit := plainSend.MaxRdAtomic
	if u := cacheUse(run(room/limit/2, 2*limit, room), "wqe"); u.Hits+u.Misses != 0 {
		t.Errorf("%+v, though all fit", u)
	}
	for _, c := range []struct{ pairs, window int }{{room / limit / 2, 8 * limit}, {2 * room / limit, limit}} {
		n := run(c.pairs, c.window, room)
		if u := cacheUse(n, "wqe"); u.Misses < u.Hits {
			t.Errorf("%d queue pairs with %d each, %+v of more than fit: want misses mostly", c.pairs, c.window, u)
		}
	}
}
