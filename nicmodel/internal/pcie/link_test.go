package pcie

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

func idleLink(t testing.TB, c Config) *Link {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kaliaX16 is the link of Kalia et al.: 16 lanes of 984.6 MB/s, 26 and 22 bytes.
func kaliaX16() Config {
	c := Gen3x8()
	c.Rate, c.Headers, c.ReadCompletion = 16*7_876_800_000, Kalia, 128
	return c
}

// The bytes that appendix A of Kalia et al. counts for ten WQEs of 65 bytes, each
// two cache lines.
func TestBytesOfTenWQEs(t *testing.T) {
	blue, bell := idleLink(t, kaliaX16()), idleLink(t, kaliaX16())
	for range 10 {
		blue.Store(0, 128, ForDoorbell)
	}
	bell.Store(0, 8, ForDoorbell)
	bell.Read(0, 0, 10*128, ForWQE)
	if got := blue.bytes(Downstream, ForDoorbell); got != 1800 {
		t.Errorf("BlueFlame: %d bytes, want 1800", got)
	}
	if got := bell.bytes(Downstream, ForDoorbell) + bell.bytes(Downstream, ForWQE); got != 1534 {
		t.Errorf("doorbell: %d bytes, want 1534", got)
	}
	if got := bell.Traffic(Upstream, MemRd, ForWQE); got != (TLPs{3, 78}) {
		t.Errorf("requests %+v", got)
	}
}

// Kalia et al., section 5.2.1: lines by MMIO and WQEs of two lines by DMA, in
// millions a second.
func TestLinesAndWQEsFillTheLink(t *testing.T) {
	for name, c := range map[string]struct {
		want float64
		one  func(p *Link)
	}{
		"lines by MMIO": {175, func(p *Link) { p.Store(0, 64, ForDoorbell) }},
		"WQEs by DMA":   {105, func(p *Link) { p.Read(0, 0, 128, ForWQE) }},
	} {
		p := idleLink(t, kaliaX16())
		const n = 100_000
		for range n {
			c.one(p)
		}
		got := n / (float64(p.Free(Downstream)) / float64(units.Microsecond))
		if math.Abs(got-c.want) > 0.005*c.want {
			t.Errorf("%s: %.1f M/s, want %.1f", name, got, c.want)
		}
	}
}

func TestCutting(t *testing.T) {
	c := Gen3x8()
	for _, x := range []struct {
		addr                          uint64
		n                             int
		requests, completions, writes int
	}{
		{0, 0, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 64, 1, 1, 1}, {0, 256, 1, 1, 1}, {0, 257, 1, 2, 2}, {0, 512, 1, 2, 2},
		{0, 513, 2, 3, 3}, {0, 2048, 4, 8, 8}, {4095, 2, 2, 2, 2}, {4000, 512, 2, 3, 3}, {0, 12288, 24, 48, 48},
		{63, 256, 1, 2, 1}, {63, 193, 1, 1, 1}, {1, 255, 1, 1, 1}, {1, 512, 1, 3, 2},
	} {
		p := idleLink(t, c)
		p.Read(0, x.addr, x.n, ForPayload)
		p.Write(0, x.addr, x.n, ForPayload)
		got := [3]uint64{p.Traffic(Upstream, MemRd, ForPayload).Packets, p.Traffic(Downstream, CplD, ForPayload).Packets, p.Traffic(Upstream, MemWr, ForPayload).Packets}
		if got != [3]uint64{uint64(x.requests), uint64(x.completions), uint64(x.writes)} {
			t.Errorf("%d bytes from %d on: %d requests, completions, writes; want %d %d %d", x.n, x.addr, got, x.requests, x.completions, x.writes)
		}
	}
}

// rate drives a link with parallel transfers outstanding and returns its transfers a
// second.
func rate(parallel, transfers int, one func(t units.Time) units.Time) float64 {
	slots := stage.NewInflight(parallel)
	var last units.Time
	for range transfers {
		done := one(slots.Free(0))
		slots.Hold(done)
		last = max(last, done)
	}
	return float64(transfers) / (float64(last) / float64(units.Second))
}

// With more transfers wanted than tags there are, as many are outstanding as tags
// (Little's law).
func TestTagsBoundReads(t *testing.T) {
	c := Gen3x8()
	c.Tags = 8
	p := idleLink(t, c)
	got := rate(64, 20_000, func(at units.Time) units.Time { return p.Read(at, 0, 64, ForPayload) })
	alone := idleLink(t, c).Read(0, 0, 64, ForPayload)
	want := 8 / (float64(alone) / float64(units.Second))
	if math.Abs(got-want) > 0.02*want {
		t.Errorf("%.4g reads/s with 8 tags, want %.4g", got, want)
	}
	if p.stalls.Tags == 0 {
		t.Error("nobody waited for a tag")
	}
}

func TestCreditsBoundWrites(t *testing.T) {
	c := Gen3x8()
	c.PostedCredits, c.PostedHold = 8, 400*units.Nanosecond
	p := idleLink(t, c)
	got := rate(1, 20_000, func(at units.Time) units.Time { sent, _ := p.Write(at, 0, 256, ForPayload); return sent })
	want := 8 / 400e-9
	if math.Abs(got-want) > 0.1*want {
		t.Errorf("%.4g writes/s with 8 credits held for 400 ns, want %.4g", got, want)
	}
	if p.stalls.Credits[byHost] == 0 {
		t.Error("nobody waited for a credit")
	}
}

// Writes that all wait for the link have waited for their credits meanwhile: the slower of the
// two says when they leave.
func TestCreditsAreWaitedForBesideTheLink(t *testing.T) {
	const writes = 2000
	for _, c := range []struct {
		name string
		hold units.Time
		rate float64 // writes a second
	}{
		{"the link is slower", 300 * units.Nanosecond, 31.5e9 / 8 / 280},
		{"the credits are slower", 10 * units.Microsecond, 64 / 10e-6},
	} {
		for _, credits := range []struct{ headers, data int }{{64, 0}, {0, 64 * 256}, {64, 64 * 256}, {1000, 64 * 256}, {64, 1 << 20}} {
			cfg := Gen3x8()
			cfg.Rate, cfg.PostedCredits, cfg.PostedData, cfg.PostedHold = 31_500*units.Mbps, credits.headers, credits.data, c.hold
			p := idleLink(t, cfg)
			var last units.Time
			for range writes {
				last, _ = p.Write(0, 0, 256, ForPayload)
			}
			if got := writes / last.Seconds(); math.Abs(got/c.rate-1) > 0.05 {
				t.Errorf("%s, %+v: %.4g writes a second, want %.4g", c.name, credits, got, c.rate)
			}
		}
	}
}

// No more credits are out at a time than there are, and none is given twice.
func TestPostedCreditsAreConserved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := Gen3x8()
		c.PostedCredits = rapid.IntRange(0, 20).Draw(r, "headers")
		c.PostedData = rapid.SampledFrom([]int{0, 16, 64, 256, 1000, 5952}).Draw(r, "data")
		c.PostedHold = units.Time(rapid.IntRange(0, 500).Draw(r, "hold")) * units.Nanosecond
		p := idleLink(t, c)
		var now, before units.Time
		for range rapid.IntRange(1, 60).Draw(r, "writes") {
			now += units.Time(rapid.IntRange(0, 300).Draw(r, "gap")) * units.Nanosecond
			n := rapid.IntRange(1, 5000).Draw(r, "bytes")
			sent, _ := p.Write(now, 0, n, ForPayload)
			if sent < before {
				r.Fatalf("a write of %v has left at %v, one before it at %v", now, sent, before)
			}
			before = sent
			k := &p.credits
			if c.PostedCredits > 0 && (k.used.headers < 0 || k.used.headers > c.PostedCredits) {
				r.Fatalf("%d header credits of %d are out", k.used.headers, c.PostedCredits)
			}
			if c.PostedData > 0 && (k.used.data < 0 || k.used.data > c.PostedData/dataCredit) {
				r.Fatalf("%d data credits of %d are out", k.used.data, c.PostedData/dataCredit)
			}
			var out taken
			for i := range k.n {
				e := k.ring[(k.head+i)&(len(k.ring)-1)]
				out.headers += e.headers
				out.data += e.data
			}
			if out.headers != k.used.headers || out.data != k.used.data {
				r.Fatalf("%+v are out, %+v are counted", out, k.used)
			}
		}
		k := &p.credits
		k.returned(units.Never)
		if k.used.headers != 0 || k.used.data != 0 {
			r.Fatalf("%+v are out for ever", k.used)
		}
	})
}

// A working set that outgrows the IO-TLB meets a walk at each new page.
func TestTranslationKnee(t *testing.T) {
	c := Gen3x8()
	c.IOMMU = IOMMUConfig{Entries: 64, PageSize: 4096, Miss: 330 * units.Nanosecond, Walkers: 6}
	latency := func(pages int) units.Time {
		p := idleLink(t, c)
		var at, took units.Time
		for round := range 3 {
			for i := range pages {
				done := p.Read(at, uint64(i)*4096, 64, ForPayload)
				if round == 2 {
					took += done - at
				}
				at = done
			}
		}
		return took / units.Time(pages)
	}
	fits, not := latency(64), latency(65)
	if not-fits != 330*units.Nanosecond {
		t.Errorf("64 pages: %v a read, 65: %v; want a walk between them", fits, not)
	}
	p := idleLink(t, c)
	i := uint64(0)
	got := rate(64, 20_000, func(at units.Time) units.Time {
		i++
		return p.Read(at, i%1000*4096, 64, ForPayload)
	})
	if want := 6 / 330e-9; math.Abs(got-want) > 0.02*want {
		t.Errorf("%.4g reads/s with six walkers, want %.4g", got, want)
	}
}

// Writes are seen in order, though one may miss in the IO-TLB and the next not.
func TestWritesAreSeenInOrder(t *testing.T) {
	c := Gen3x8()
	c.IOMMU = IOMMUConfig{Entries: 1, PageSize: 4096, Miss: units.Microsecond}
	c.SocketLatency = 100 * units.Nanosecond
	p := idleLink(t, c)
	_, a := p.Write(0, 0, 64, ForPayload)
	_, b := p.Write(units.Nanosecond, 64, 64, ForCQE)
	if b < a || a < 1350*units.Nanosecond {
		t.Errorf("seen at %v and %v", a, b)
	}
}

func TestEngineAndStaging(t *testing.T) {
	c := Gen3x8()
	c.ReadIssue, c.WriteIssue, c.StagingRate = 50*units.Nanosecond, 25*units.Nanosecond, 8*units.Gbps
	p := idleLink(t, c)
	if got := rate(1000, 20_000, func(at units.Time) units.Time { sent, _ := p.Write(at, 0, 1, ForPayload); return sent }); math.Abs(got/40e6-1) > 0.01 {
		t.Errorf("%.4g writes/s, one each 25 ns", got)
	}
	p = idleLink(t, c)
	if got := rate(1000, 20_000, func(at units.Time) units.Time { return p.Read(at, 0, 1, ForPayload) }); math.Abs(got/20e6-1) > 0.01 {
		t.Errorf("%.4g reads/s, one each 50 ns", got)
	}
	staged := idleLink(t, c).Read(0, 0, 1000, ForPayload)
	c.StagingRate = 0
	if d := staged - idleLink(t, c).Read(0, 0, 1000, ForPayload); d != units.Microsecond {
		t.Errorf("the copy of 1000 bytes at 1 GB/s takes %v", d)
	}
}

// Each byte on the link has a type and a purpose, and the time that the link is
// busy is that which its bytes take.
func TestLinkConservesBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Gen3x8()
		c.Tags, c.PostedCredits, c.PostedHold = rapid.IntRange(0, 4).Draw(t, "tags"), rapid.IntRange(0, 4).Draw(t, "credits"), 100*units.Nanosecond
		c.IOMMU = IOMMUConfig{Entries: rapid.IntRange(0, 3).Draw(t, "entries"), PageSize: 4096, Miss: 50 * units.Nanosecond, Walkers: 1}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var now units.Time
		payload, sum := 0, units.Bytes(0)
		for range rapid.IntRange(1, 40).Draw(t, "transfers") {
			now += units.Time(rapid.IntRange(0, 500).Draw(t, "gap")) * units.Nanosecond
			n, addr := rapid.IntRange(1, 9000).Draw(t, "bytes"), rapid.Uint64Range(0, 1<<16).Draw(t, "address")
			payload += n
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				if done := p.Read(now, addr, n, ForPayload); done < now+c.ReadLatency {
					t.Fatalf("a read of %v is done at %v", now, done)
				}
			case 1:
				if sent, seen := p.Write(now, addr, n, ForCQE); sent <= now || seen < sent+c.WriteLatency {
					t.Fatalf("a write of %v is sent at %v and seen at %v", now, sent, seen)
				}
			default:
				p.Store(now, n, ForDoorbell)
			}
		}
		for d := range NumDirections {
			var bytes units.Bytes
			for kind := range NumTLPTypes {
				for why := range NumPurposes {
					x := p.Traffic(d, kind, why)
					bytes += x.Bytes
					header := c.Headers.Request()
					if kind == CplD {
						header = c.Headers.Completion()
					}
					sum += x.Bytes - units.Bytes(header)*units.Bytes(x.Packets)
				}
			}
			a := p.sides[d].Account(max(now, p.Free(d)))
			if a.Busy+a.Idle != a.Elapsed || a.Idle < 0 {
				t.Fatalf("busy %d, idle %d of %d", a.Busy, a.Idle, a.Elapsed)
			}
			if off := a.Busy - int64(c.Rate.Serialize(bytes)); off < -100 || off > 100 {
				t.Fatalf("busy %d ps for %d bytes", a.Busy, bytes)
			}
		}
		if sum != units.Bytes(payload) {
			t.Fatalf("%d bytes of payload on the link, %d asked for", sum, payload)
		}
	})
}

func TestPCIeDoesNotAllocate(t *testing.T) {
	c := Gen3x8()
	c.Tags, c.PostedCredits, c.PostedHold = 32, 32, units.Microsecond
	c.IOMMU = IOMMUConfig{Entries: 16, PageSize: 4096, Miss: 100 * units.Nanosecond, Walkers: 2}
	p := idleLink(t, c)
	var at units.Time
	if n := testing.AllocsPerRun(1000, func() {
		at += 100 * units.Nanosecond
		p.Read(at, uint64(at), 3000, ForPayload)
		p.Write(at, uint64(at), 3000, ForPayload)
		p.Store(at, 64, ForDoorbell)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPCIeConfigErrors(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"pcie.rate": func(c *Config) { c.Rate = 0 }, "pcie.mrrs": func(c *Config) { c.MRRS = 0 },
		"pcie.rcb": func(c *Config) { c.RCB = 512 }, "read_completion": func(c *Config) { c.ReadCompletion = 32 }, "headers": func(c *Config) { c.Headers = 9 },
		"tags": func(c *Config) { c.Tags = -1 }, "posted_hold is": func(c *Config) { c.PostedHold = -1 },
		"entries": func(c *Config) { c.IOMMU.Entries = -1 }, "page_size": func(c *Config) { c.IOMMU = IOMMUConfig{Entries: 1, PageSize: 5000} },
		"iommu.walkers": func(c *Config) { c.IOMMU = IOMMUConfig{Entries: 1, PageSize: 4096, Walkers: -1} },
	} {
		c := Gen3x8()
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

// The cache keeps what a list with the newest in front would.
func TestLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 8).Draw(t, "capacity")
		l := newLRU(capacity)
		var model []uint64
		for range 200 {
			key := rapid.Uint64Range(0, 12).Draw(t, "key")
			hit := false
			for i, k := range model {
				if k == key {
					hit = true
					model = append(model[:i], model[i+1:]...)
					break
				}
			}
			model = append([]uint64{key}, model...)
			model = model[:min(len(model), capacity)]
			if got := l.touch(key); got != hit {
				t.Fatalf("key %d: hit %v, want %v", key, got, hit)
			}
			if gone := rapid.Uint64Range(0, 12).Draw(t, "remove"); rapid.Bool().Draw(t, "really") {
				i := slices.Index(model, gone)
				if got := l.remove(gone); got != (i >= 0) {
					t.Fatalf("key %d is there: %v, want %v", gone, got, i >= 0)
				}
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			}
		}
	})
}

func TestStoresDoNotWaitForReads(t *testing.T) {
	c := Hosted(Gen4x16(), ExtendedTags, 2*IIOLines)
	idle, busy := idleLink(t, c), idleLink(t, c)
	a := idle.Store(units.Nanosecond, 8, ForDoorbell)
	busy.Read(0, 0, 64, ForPayload)
	d := busy.Store(units.Nanosecond, 8, ForDoorbell)
	if d-a > 10*units.Nanosecond {
		t.Errorf("a doorbell takes %v on an idle link and %v with a read outstanding", a, d)
	}
}
