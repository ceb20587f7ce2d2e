package nicmodel

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// drawCaches makes the caches of what lies in host memory as small as can be, or takes
// their limits off.
func drawCaches(r *rapid.T, c *Config) {
	c.Contexts = ContextsConfig{Entries: rapid.IntRange(0, 3).Draw(r, "contexts"), Bytes: rapid.SampledFrom([]int{64, 200, 256}).Draw(r, "context bytes"), Fetches: rapid.IntRange(0, 3).Draw(r, "context fetches")}
	c.Translation = TranslationConfig{Keys: rapid.IntRange(0, 3).Draw(r, "keys"), Lines: rapid.IntRange(0, 3).Draw(r, "lines"), Fetches: rapid.IntRange(0, 3).Draw(r, "translation fetches")}
}

// cacheUse returns how a cache was used.
func cacheUse(n *NIC, name string) CacheUse {
	for _, u := range n.Caches() {
		if u.Cache == name {
			return u
		}
	}
	return CacheUse{}
}

// perRequest returns the bytes, both ways, that a host's requests took on PCIe each.
func perRequest(n *NIC, why Purpose) float64 {
	return float64(n.pcie.bytes(Upstream, why)+n.pcie.bytes(Downstream, why)) / float64(n.Stats().Requests)
}

// Small writes over more and more queue pairs: as long as their contexts fit, the rate
// does not change and nothing crosses PCIe for them; past that one is read and another
// written back for each request or more often, and the rate falls to what these reads allow.
func TestContextsThatDoNotFit(t *testing.T) {
	const room, bytes, stop = 64, 256, 200 * units.Microsecond
	run := func(pairs int) (rate, traffic float64, b *bed) {
		cfg := preset(t, "cx6dx")
		cfg.Contexts = ContextsConfig{Entries: room, Bytes: bytes, Fetches: 4}
		b = newBed(t, 2, 100*units.Gbps, cfg, nil)
		for range pairs {
			b.drive(pairLoad{to: 1, op: ib.WRRDMAWrite, size: 8, inline: true, window: 2, batch: 1, spread: 1}, stop)
		}
		b.e.RunUntil(stop)
		n := b.nics[0]
		return float64(n.Stats().Requests) / stop.Seconds() / 1e6, perRequest(n, ForContext), b
	}
	fits, none, _ := run(room)
	over, some, b := run(4 * room)
	t.Logf("%d queue pairs: %.1f M/s, %.0f bytes of contexts a request; %d: %.1f M/s, %.0f bytes", room, fits, none, 4*room, over, some)
	if none != 0 {
		t.Errorf("%v bytes of contexts a request though all fit", none)
	}
	if some < 2*bytes {
		t.Errorf("%v bytes of contexts a request, want a read and a write of %d at least", some, bytes)
	}
	if over > fits/2 {
		t.Errorf("%.1f M/s with contexts that do not fit, %.1f with those that do: want less than half", over, fits)
	}
	n := b.nics[0]
	u := cacheUse(n, "contexts")
	p := n.cfg.PCIe
	// As many are read at a time as may be, from the first doorbells on; those that packets
	// before the wire wait for are counted, and are read later.
	if got, want := float64(u.Misses)/slices.Max(n.contexts.fetches.until).Seconds(), 4/n.pcie.alone(bytes).Seconds(); got < 0.9*want || got > 1.1*want {
		t.Errorf("%.2f M contexts read a second, want %.2f", got/1e6, want/1e6)
	}
	if reads, want := n.pcie.bytes(Downstream, ForContext), units.Bytes(u.Misses)*units.Bytes(bytes+p.completions(0, bytes)*p.Headers.completion()); reads != want {
		t.Errorf("%d bytes read, want %d for %d misses", reads, want, u.Misses)
	}
	if w := n.pcie.Traffic(Upstream, MemWr, ForContext); w.Packets < u.Misses-room || w.Packets > u.Misses {
		t.Errorf("%d written back, %d read", w.Packets, u.Misses)
	}
	stalled := int64(0)
	for _, a := range n.Accounts(b.e.Now()) {
		stalled += a.Stalled[StallContext]
	}
	if stalled == 0 {
		t.Error("no stage was stalled by contexts")
	}
}

// scatter writes 64 bytes at a time to pages here and there, of regions in turns, until an
// instant, and returns the rate in M/s.
func (b *bed) scatter(regions []Region, x end, from Region, pages, page uint64, window int, stop units.Time) float64 {
	b.t.Helper()
	i := uint64(0)
	post := func() {
		to := regions[i%uint64(len(regions))]
		at := to.Addr + i*2654435761>>13%pages*page // in any page
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 64, RemoteAddr: at, RKey: to.Key}, SGL: []SGE{{from.Addr, 64, from.Key}}})
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
// with huge pages; and likewise the keys of many regions.
func TestTranslationsThatDoNotFit(t *testing.T) {
	const lines, keys = 16, 32
	run := func(regions int, pages uint64, flags ib.AccessFlags) (rate float64, traffic units.Bytes) {
		cfg := preset(t, "cx6dx")
		cfg.Contexts, cfg.Translation = ContextsConfig{}, TranslationConfig{Keys: keys, Lines: lines, Fetches: 2}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		var all []Region
		for range regions {
			r, err := y.nic.RegMR(y.pd, nil, pages*4096, ib.AccessLocalWrite|ib.AccessRemoteWrite|flags)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		rate = b.scatter(all, x, x.region(t, make([]byte, 64)), pages, 4096, 64, 200*units.Microsecond)
		return rate, y.nic.pcie.bytes(Downstream, ForTranslation)
	}
	fits, none := run(1, 8*lines, 0)
	over, some := run(1, 64*lines, 0)
	huge, noneHuge := run(1, 64*lines, ib.AccessHugeTLB)
	few, noneFew := run(lines, 8, 0)
	many, someMany := run(4*keys, 1, ib.AccessHugeTLB)
	t.Logf("%d pages %.1f M/s, %d bytes; %d pages %.1f M/s, %d bytes; as huge pages %.1f M/s; %d regions %.1f M/s; %d regions %.1f M/s, %d bytes",
		8*lines, fits, none, 64*lines, over, some, huge, lines, few, 4*keys, many, someMany)
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
func mixedTraffic(t *testing.T, cfg Config, pairs []int64, ops int) (memories [][]byte, seen int, failed bool) {
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
			wr := WR{Request: rc.Request{ID: uint64(i), Signaled: true, Length: n, RemoteAddr: rr.Addr + to, RKey: rr.Key}, SGL: []SGE{{lr.Addr + at, n, lr.Key}}}
			switch draw(4) {
			case 0:
				wr.Request.Op = ib.WRRDMAWrite
			case 1:
				wr.Request.Op = ib.WRRDMARead
				wr.SGL = []SGE{{br.Addr + at, n, br.Key}}
			case 2:
				wr.Request.Op, wr.Request.RemoteAddr, wr.Request.RKey = ib.WRSend, 0, 0
				if err := y.nic.RecvQueue(y.qpn).PostRecv(uint64(i), []SGE{{rr.Addr + to, n, rr.Key}}); err != nil {
					t.Fatal(err)
				}
			case 3:
				wr.Request.Op, wr.Request.Length, wr.Request.Swap = ib.WRAtomicFetchAndAdd, 8, draw(1000)
				wr.SGL = []SGE{{br.Addr + at, 8, br.Key}}
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
		cfg := preset(t, rapid.SampledFrom(Presets()).Draw(r, "preset"))
		cfg.Contexts, cfg.Translation = ContextsConfig{}, TranslationConfig{}
		pairs := rapid.SliceOfN(rapid.Int64Range(1, 1<<40), 1, 5).Draw(r, "pairs")
		ops := rapid.IntRange(1, 30).Draw(r, "ops")
		want, _, bad := mixedTraffic(t, cfg, pairs, ops)
		drawCaches(r, &cfg)
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
	cfg.Contexts, cfg.Translation = ContextsConfig{Entries: 2, Bytes: 256, Fetches: 2}, TranslationConfig{Keys: 2, Lines: 2, Fetches: 2}
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

// What commands write and take away, against a cache that is looked up from the start.
func TestWhatFitsIsThere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := icm{capacity: rapid.IntRange(1, 20).Draw(r, "capacity"), bytes: 64}
		entries := map[uint64]bool{} // that must be there
		var spans []span
		next := uint64(64)
		for range rapid.IntRange(1, 40).Draw(r, "commands") {
			if len(spans) > 0 && rapid.Bool().Draw(r, "drop") {
				i := rapid.IntRange(0, len(spans)-1).Draw(r, "which")
				s := spans[i]
				spans = append(spans[:i], spans[i+1:]...)
				c.drop(s.first, s.n)
				for k := range s.n {
					delete(entries, s.first+64*uint64(k))
				}
				continue
			}
			s := span{next, rapid.IntRange(1, 8).Draw(r, "entries")}
			next += 64 * uint64(s.n)
			spans = append(spans, s)
			if len(entries)+s.n <= c.capacity {
				for k := range s.n {
					entries[s.first+64*uint64(k)] = true
				}
			}
			c.add(s.first, s.n)
		}
		held := 0
		for _, s := range spans {
			for k := range s.n {
				at := s.first + 64*uint64(k)
				there := !c.full() || c.lru.find(at) != 0
				if there != entries[at] {
					r.Fatalf("entry %d there: %v", at, there)
				}
				if there {
					held++
				}
			}
		}
		if c.full() && c.lru.count != held {
			r.Fatalf("%d entries, counted %d", held, c.lru.count)
		}
	})
}

func TestCacheConfigIsChecked(t *testing.T) {
	b := newBed(t, 2, units.Gbps, preset(t, "cx5"), nil)
	for name, change := range map[string]func(*Config){
		"contexts.entries": func(c *Config) { c.Contexts.Entries = -1 }, "contexts.bytes": func(c *Config) { c.Contexts = ContextsConfig{Entries: 1} },
		"contexts.fetches": func(c *Config) { c.Contexts.Fetches = -1 }, "translation.keys": func(c *Config) { c.Translation.Keys = -1 },
		"translation.lines": func(c *Config) { c.Translation.Lines = 1 << 30 }, "translation.fetches": func(c *Config) { c.Translation.Fetches = -1 },
		"translation.page_size": func(c *Config) { c.Translation.PageSize = 5000 }, "translation.huge_page_size": func(c *Config) { c.Translation.HugePageSize = 64 },
	} {
		c := preset(t, "cx5")
		change(&c)
		if _, err := New(b.e, b.net, NewFrames(b.net), 0, units.Gbps, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
