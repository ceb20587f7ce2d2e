package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
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
	if _, _, n := run(ib.WRRDMAWrite, 2*room, room*pcie.CacheLine); cacheUse(n, "awaited wqe").Misses+cacheUse(n, "wqe").Misses != 0 {
		t.Error("a Write needed its element again")
	}
}

// Reads that wait to be sent displace those under way: as far as their queue pairs may have as many outstanding, or, where
// all that is posted counts, all of them. In the end nothing is held.
func TestReadsThatWaitToBeSent(t *testing.T) {
	const room, stop = 64, 100 * units.Microsecond
	run := func(posted bool, pairs, window int, cache string) stage.CacheUse {
		cfg := preset(t, "connectib")
		cfg.State.Elements, cfg.State.Posted, cfg.Units.Units = room*pcie.CacheLine, posted, 1 // so that most wait
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		for range pairs {
			b.drive(pairLoad{to: 1, op: ib.WRRDMARead, size: 8, window: window, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(2 * stop)
		n := b.nics[0]
		for _, q := range n.pairs.all {
			if q.reads != 0 || q.handed != q.posted || !posted && q.admitted != q.posted {
				t.Errorf("%d Reads of a queue pair are held when all is over, %d of %d were taken in", q.reads, q.admitted, q.posted)
			}
		}
		if _, held := n.state.LinesHeld(2 * stop); held != 0 {
			t.Errorf("%d lines are held when all is over", held)
		}
		return cacheUse(n, cache)
	}
	limit := plainSend.MaxRdAtomic
	for _, c := range []struct {
		posted        bool
		pairs, window int
		cache         string
		fits          bool
	}{
		{false, room / limit / 2, 8 * limit, "awaited wqe", true}, // no more than fit may be outstanding
		{false, 2 * room / limit, limit, "awaited wqe", false},
		{true, room / limit / 2, 2 * limit, "wqe", true},
		{true, room / limit / 2, 8 * limit, "wqe", false},
		{true, 2 * room / limit, limit, "wqe", false},
	} {
		if u := run(c.posted, c.pairs, c.window, c.cache); c.fits && u.Hits+u.Misses != 0 || !c.fits && u.Misses < u.Hits/2 {
			t.Errorf("%+v: %+v; want none looked up if they fit, else a third of misses at least", c, u)
		}
	}
}

// An element is in use until what its answer brought has left: with a slow link to the host, waiting elements
// displace others.
func TestElementsInUseUntilTheDataHaveLeft(t *testing.T) {
	const stop = 200 * units.Microsecond
	misses := func(rate units.Rate) uint64 {
		b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
		slow := b.nics[0]
		slow.chip.Config.PCIe.Rate, slow.chip.Config.State.Elements = rate, 128*pcie.CacheLine
		var err error
		if slow.chip.Link, err = pcie.New(slow.chip.Config.PCIe); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			b.drive(pairLoad{to: 1, op: ib.WRRDMARead, size: 1024, window: 32, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(stop)
		return cacheUse(slow, "awaited wqe").Misses
	}
	if got := misses(227 * units.Gbps); got != 0 {
		t.Errorf("%d misses with a fast link", got)
	}
	if got := misses(16 * units.Gbps); got == 0 {
		t.Error("no misses with a slow link")
	}
}
