package nicmodel

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// drawState makes the memory on the chip as small as can be, or takes its limit off.
func drawState(r *rapid.T) config.State {
	ways := rapid.IntRange(1, 4).Draw(r, "ways")
	return config.State{
		Bytes: units.Bytes(rapid.SampledFrom([]int{0, 1, 2, 8, 64}).Draw(r, "sets") * ways * pcie.CacheLine), Ways: ways,
		Elements: units.Bytes(rapid.SampledFrom([]int{0, 1, 4}).Draw(r, "sets of elements") * ways * pcie.CacheLine),
		Fetches:  rapid.IntRange(0, 3).Draw(r, "fetches"), Context: rapid.SampledFrom([]int{64, 200, 256}).Draw(r, "context bytes"),
	}
}

// cacheUse returns how a cache was used.
func cacheUse(n *NIC, name string) stage.CacheUse {
	for _, u := range n.Caches() {
		if u.Cache == name {
			return u
		}
	}
	return stage.CacheUse{}
}

// perRequest returns the bytes, both ways, that a host's requests took on PCIe each.
func perRequest(n *NIC, why pcie.Purpose) float64 {
	return float64(n.chip.Link.Crossed(pcie.Upstream)[why.String()]+n.chip.Link.Crossed(pcie.Downstream)[why.String()]) / float64(n.Stats().Requests)
}

// Small writes over more and more queue pairs: as long as their contexts fit, the rate
// does not change and nothing crosses PCIe for them; past that they are read and
// written back, and the rate falls to what these reads allow.
func TestContextsThatDoNotFit(t *testing.T) {
	// Of 160 KiB the contexts of 64 queue pairs take 16, their keys 4, pages 128, and elements 8.
	const room, bytes, stop = 64, 256, 200 * units.Microsecond
	run := func(pairs int) (rate, traffic float64, b *bed) {
		cfg := preset(t, "cx6dx")
		cfg.State = config.State{Bytes: 160 * units.KiB, Ways: 8, Fetches: 4, Context: bytes}
		b = newBed(t, 2, 100*units.Gbps, cfg, nil)
		for range pairs {
			b.drive(pairLoad{to: 1, op: ib.WRRDMAWrite, size: 8, inline: true, window: 2, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(stop)
		n := b.nics[0]
		return float64(n.Stats().Requests) / stop.Seconds() / 1e6, perRequest(n, pcie.ForContext), b
	}
	fits, none, _ := run(room)
	over, some, b := run(16 * room)
	t.Logf("%d queue pairs: %.1f M/s, %.0f bytes of contexts a request; %d: %.1f M/s, %.0f bytes", room, fits, none, 16*room, over, some)
	if none != 0 {
		t.Errorf("%v bytes of contexts a request though all fit", none)
	}
	if some < bytes {
		t.Errorf("%v bytes of contexts a request, want %d at least, read and written back", some, bytes)
	}
	if over > fits/2 {
		t.Errorf("%.1f M/s with contexts that do not fit, %.1f with those that do: want less than half", over, fits)
	}
	n := b.nics[0]
	misses := uint64(0)
	for _, u := range n.Caches() {
		misses += u.Misses
	}
	// As many are read at a time as may be, from the first doorbells on; contexts that packets
	// before the wire wait for are counted, and are read later. Most are contexts.
	last := n.state.Fetchable(0)
	if got, want := float64(misses)/last.Seconds(), 4/n.chip.Link.Alone(bytes).Seconds(); got < 0.9*want || got > 1.15*want {
		t.Errorf("%.2f M entries read a second, want %.2f", got/1e6, want/1e6)
	}
	// Lines of contexts that are read change, so that they are written back.
	header := n.chip.Config.PCIe.Headers
	reads, writes := n.chip.Link.Traffic(pcie.Downstream, pcie.CplD, pcie.ForContext), n.chip.Link.Traffic(pcie.Upstream, pcie.MemWr, pcie.ForContext)
	read, back := reads.Bytes-units.Bytes(int(reads.Packets)*header.Completion()), writes.Bytes-units.Bytes(int(writes.Packets)*header.Request())
	if back > read+160*units.KiB || back < read-160*units.KiB {
		t.Errorf("%d bytes written back, %d read", back, read)
	}
	stalled := int64(0)
	for _, a := range n.Accounts(b.e.Now()) {
		stalled += a.Stalled[stage.StallContext]
	}
	if stalled == 0 {
		t.Error("no stage was stalled by contexts")
	}
}

// scatter writes 64 bytes at a time to pages here and there, of regions in turns, until an
// instant, and returns the rate in M/s.
func (b *bed) scatter(regions []memory.Region, x end, from memory.Region, pages, page uint64, window int, stop units.Time) float64 {
	b.t.Helper()
	i := uint64(0)
	post := func() {
		to := regions[i%uint64(len(regions))]
		at := to.Addr + i*2654435761>>13%pages*page // in any page
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 64, RemoteAddr: at, RKey: to.Key}, SGL: []memory.SGE{{Addr: from.Addr, Length: 64, Key: from.Key}}})
		i++
	}
	done := make([]CQE, 64)
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		for range x.nic.PollCQ(now, x.cq, done) {
			if now < stop {
				post()
			}
		}
	})
	for range window {
		post()
	}
	b.e.RunUntil(stop)
	return float64(x.nic.Stats().Requests) / stop.Seconds() / 1e6
}

// Writes of 64 bytes all over a memory: the responder's translations fit, or do not, or do
// with huge pages; and so do the keys of many regions.
func TestTranslationsThatDoNotFit(t *testing.T) {
	const lines, keys = 128, 128
	run := func(regions int, pages uint64, flags ib.AccessFlags) (rate float64, traffic units.Bytes) {
		cfg := preset(t, "cx6dx")
		cfg.State = config.State{Bytes: 24 * units.KiB, Ways: 8, Fetches: 2, Context: 256}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		var all []memory.Region
		for range regions {
			r, err := y.nic.RegMR(y.pd, nil, pages*4096, ib.AccessLocalWrite|ib.AccessRemoteWrite|flags)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		rate = b.scatter(all, x, x.region(t, make([]byte, 64)), pages, 4096, 64, 200*units.Microsecond)
		return rate, y.nic.chip.Link.Crossed(pcie.Downstream)[pcie.ForTranslation.String()]
	}
	fits, none := run(1, 8*lines, 0)
	over, some := run(1, 64*lines, 0)
	huge, noneHuge := run(1, 64*lines, ib.AccessHugeTLB)
	few, noneFew := run(keys, 8, 0)
	many, someMany := run(8*keys, 1, ib.AccessHugeTLB)
	t.Logf("%d pages %.1f M/s, %d bytes; %d pages %.1f M/s, %d bytes; as huge pages %.1f M/s; %d regions %.1f M/s; %d regions %.1f M/s, %d bytes",
		8*lines, fits, none, 64*lines, over, some, huge, keys, few, 8*keys, many, someMany)
	if none != 0 || noneHuge != 0 || noneFew != 0 {
		t.Errorf("%d, %d and %d bytes of translations though all fit", none, noneHuge, noneFew)
	}
	if some == 0 || someMany == 0 || over > fits/2 || many > fits/2 {
		t.Errorf("pages that do not fit: %.1f M/s and %d bytes, keys: %.1f M/s and %d bytes; what fits: %.1f M/s", over, some, many, someMany, fits)
	}
	if huge < 0.99*fits || few < 0.99*fits {
		t.Errorf("%.1f M/s to huge pages, %.1f to several regions, %.1f to few pages of one", huge, few, fits)
	}
}

// traffic is a run of all operations on real memory over several connections, of which
// each has its own part of it.
func mixedTraffic(t *testing.T, cfg config.Config, pairs []int64, ops int) (memories [][]byte, seen int, failed bool) {
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	const size = 20000
	var ends []end
	for _, seed := range pairs {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		local, remote, back := pattern(size, byte(seed)), pattern(size, byte(seed)+1), make([]byte, size)
		lr, rr, br := x.region(t, local), y.region(t, remote), x.region(t, back)
		memories = append(memories, local, remote, back)
		ends = append(ends, x)
		rnd := uint64(seed)
		draw := func(n uint64) uint64 {
			rnd = rnd*6364136223846793005 + 1442695040888963407
			return rnd >> 33 % n
		}
		for i := range ops {
			at, to := draw(size/2), draw(size/2)&^7
			n := uint32(1 + draw(5000))
			wr := WR{Request: rc.Request{ID: uint64(i), Signaled: true, Length: n, RemoteAddr: rr.Addr + to, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr + at, Length: n, Key: lr.Key}}}
			switch draw(4) {
			case 0:
				wr.Request.Op = ib.WRRDMAWrite
			case 1:
				wr.Request.Op = ib.WRRDMARead
				wr.SGL = []memory.SGE{{Addr: br.Addr + at, Length: n, Key: br.Key}}
			case 2:
				wr.Request.Op, wr.Request.RemoteAddr, wr.Request.RKey = ib.WRSend, 0, 0
				if err := y.nic.RecvQueue(y.qpn).PostRecv(uint64(i), []memory.SGE{{Addr: rr.Addr + to, Length: n, Key: rr.Key}}); err != nil {
					t.Fatal(err)
				}
			case 3:
				wr.Request.Op, wr.Request.Length, wr.Request.Swap = ib.WRAtomicFetchAndAdd, 8, draw(1000)
				wr.SGL = []memory.SGE{{Addr: br.Addr + at, Length: 8, Key: br.Key}}
			}
			wr.Request.Fence = true // what a READ brings may be sent again
			b.post(x, wr)
		}
	}
	b.e.RunUntil(100 * units.Millisecond)
	for _, x := range ends {
		for _, c := range b.poll(x) {
			seen++
			failed = failed || c.Status != ib.WCSuccess
		}
		if c := x.nic.Counters(x.qpn); c.RetransmittedPackets+c.ImpliedNakSeqErr > 0 {
			failed = true
		}
	}
	return memories, seen, failed
}

// However little is on the chip, the same bytes come to the same places, and no packet
// overtakes another of its queue pair.
func TestCachesChangeNoBytes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := preset(t, rapid.SampledFrom(config.Presets()).Draw(r, "preset"))
		cfg.State.Bytes = 0
		pairs := rapid.SliceOfN(rapid.Int64Range(1, 1<<40), 1, 5).Draw(r, "pairs")
		ops := rapid.IntRange(1, 30).Draw(r, "ops")
		want, _, bad := mixedTraffic(t, cfg, pairs, ops)
		cfg.State = drawState(r)
		got, seen, failed := mixedTraffic(t, cfg, pairs, ops)
		if bad || failed || seen != len(pairs)*ops {
			r.Fatalf("%d of %d completions; failures or retransmissions: %v, without caches %v", seen, len(pairs)*ops, failed, bad)
		}
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				r.Fatalf("memory %d differs", i)
			}
		}
	})
}

func TestMissesDoNotAllocate(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.State = config.State{Bytes: 1024, Ways: 4, Fetches: 2, Context: 256}
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	for range 4 {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		b.stream(x, y, 1<<12, 4)
	}
	b.e.RunUntil(5 * units.Millisecond)
	before := cacheUse(b.nics[0], "contexts").Misses
	b.allocatesNothing()
	if cacheUse(b.nics[0], "contexts").Misses == before {
		t.Error("no misses")
	}
}

// READs over more and more queue pairs: contexts and what is kept for the answers stop fitting, and
// the rate falls, if only the responder has too little room as well.
func TestReadsDeclineWithQueuePairs(t *testing.T) {
	const stop = 50 * units.Microsecond
	rate := func(pairs, small int) float64 {
		cfg := preset(t, "connectib")
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		for i, n := range b.nics {
			n.chip.Config.State.Bytes = 0
			if i == small {
				n.chip.Config.State.Bytes = 64 * units.KiB
			}
		}
		for range pairs {
			b.drive(pairLoad{to: 1, op: ib.WRRDMARead, size: 8, window: 512 / pairs, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(stop)
		return float64(b.nics[0].Stats().Requests) / stop.Seconds() / 1e6
	}
	for small, who := range []string{"requester", "responder"} {
		few, many := rate(32, small), rate(512, small)
		t.Logf("at the %s: %.1f M/s with 32 queue pairs, %.1f with 512", who, few, many)
		if many > 0.8*few {
			t.Errorf("at the %s: %.1f M/s with 32 queue pairs, %.1f with 512: want a fall", who, few, many)
		}
	}
}

func TestCacheConfigIsChecked(t *testing.T) {
	b := newBed(t, 2, units.Gbps, preset(t, "cx5"), nil)
	for name, change := range map[string]func(*config.Config){
		"state.bytes": func(c *config.Config) { c.State.Bytes = 32 }, "state.context": func(c *config.Config) { c.State.Context = 0 },
		"state.elements": func(c *config.Config) { c.State.Elements = 32 }, "state.fetches": func(c *config.Config) { c.State.Fetches = -1 }, "state.ways": func(c *config.Config) { c.State.Ways = 0 },
		"translation.page_size": func(c *config.Config) { c.Translation.PageSize = 5000 }, "translation.huge_page_size": func(c *config.Config) { c.Translation.HugePageSize = 64 },
	} {
		c := preset(t, "cx5")
		change(&c)
		if _, err := New(b.e, b.net, frames.New(b.net), 0, units.Gbps, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
