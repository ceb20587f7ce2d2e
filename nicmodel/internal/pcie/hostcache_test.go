package pcie

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

const (
	memoryMiss = 50 * units.Nanosecond
	socket     = 70 * units.Nanosecond
)

func cached(size, writes int) Config {
	c := Gen3x8()
	c.HostCache = HostCacheConfig{Size: size, Writes: writes, Miss: memoryMiss}
	return c
}

// A read of payload finds what a processor or the NIC put into the cache, leaves nothing
// there, and else takes memory's time. Nothing else that the NIC reads can miss.
func TestHostCacheReads(t *testing.T) {
	p := idleLink(t, cached(1<<20, 1<<16))
	at := units.Time(0)
	read := func(addr uint64, n int, why Purpose) units.Time {
		at += units.Microsecond
		return p.Read(at, addr, n, why) - at
	}
	p.Touch(0, 64)
	hit := read(0, 64, ForPayload)
	for range 2 { // a read leaves nothing behind
		if got := read(4096, 64, ForPayload); got != hit+memoryMiss {
			t.Errorf("a miss takes %v, a hit %v", got, hit)
		}
	}
	if got := read(4096, 64, ForWQE); got != hit {
		t.Errorf("an element of a queue takes %v, a hit %v", got, hit)
	}
	if two := read(0, 128, ForPayload); two <= hit+memoryMiss {
		t.Errorf("%v with one line of two that is not there", two)
	}
	p.Write(at, 8192, 64, ForPayload)
	if got := read(8192, 64, ForPayload); got != hit {
		t.Errorf("what the NIC wrote takes %v, a hit %v", got, hit)
	}
	none := idleLink(t, Gen3x8())
	none.Touch(0, 64)
	if got := none.Read(0, 4096, 64, ForPayload); got != hit {
		t.Errorf("without a cache %v, a hit %v", got, hit)
	}
}

// Random reads of a window larger than the cache hit as often as it holds of it.
func TestHostCacheHoldsItsShare(t *testing.T) {
	const size, window, reads = 1 << 18, 1 << 19, 20_000
	p := idleLink(t, cached(size, 0))
	for at := 0; at < window; at += CacheLine {
		p.Touch(uint64(at), CacheLine)
	}
	r := rand.New(rand.NewPCG(1, 1))
	missed := 0
	for range reads {
		if !p.cache.has(uint64(r.IntN(window)), 1) {
			missed++
		}
	}
	if missed < reads*48/100 || missed > reads*52/100 {
		t.Errorf("%d of %d miss, want half", missed, reads)
	}
}

// A write of the other socket's line is there once that socket has given it, unless the
// cache has it; a read of it goes there unless the cache has it.
func TestHostCacheOfTheOtherSocket(t *testing.T) {
	near, c := cached(1<<20, 1<<16), cached(1<<20, 1<<16)
	c.SocketLatency = socket
	local, far := idleLink(t, near), idleLink(t, c)
	_, a := local.Write(0, 0, 64, ForPayload)
	_, b := far.Write(0, 0, 64, ForPayload)
	if b != a+memoryMiss+socket {
		t.Errorf("seen at %v, of the own socket at %v", b, a)
	}
	const later = units.Microsecond
	_, a = local.Write(later, 0, 64, ForPayload)
	if _, b = far.Write(later, 0, 64, ForPayload); b != a {
		t.Errorf("the second time seen at %v, of the own socket at %v", b, a)
	}
	if x, y := local.Read(2*later, 4096, 64, ForPayload), far.Read(2*later, 4096, 64, ForPayload); y != x+socket {
		t.Errorf("read at %v, of the own socket at %v", y, x)
	}
}

// A read right behind a write waits for it, one that comes later does not; the wait for
// the write's translation and for the read's own, which is done by then, are one.
func TestReadsPushWrites(t *testing.T) {
	c := Gen3x8()
	alone := idleLink(t, c).Read(0, 0, 64, ForPayload)
	c.PushLatency = 60 * units.Nanosecond
	after := func(c Config, gap units.Time) units.Time {
		p := idleLink(t, c)
		sent, _ := p.Write(0, 0, 64, ForPayload)
		return p.Read(sent+gap, 0, 64, ForPayload) - sent - gap
	}
	if got := after(c, units.Microsecond); got != alone {
		t.Errorf("a read much later takes %v, alone %v", got, alone)
	}
	request := c.Rate.Serialize(24)
	if got := after(c, 0); got != alone+c.PushLatency-request {
		t.Errorf("a read right behind a write takes %v, alone %v", got, alone)
	}
	pushed := after(c, 0)
	c.IOMMU = IOMMUConfig{Entries: 4, PageSize: 4096, Miss: 300 * units.Nanosecond}
	if got := after(c, 0); got < pushed+c.IOMMU.Miss-request || got > pushed+c.IOMMU.Miss+request {
		t.Errorf("%v with a walk of %v before it, %v without", got, c.IOMMU.Miss, pushed)
	}
}

// A translation that hits waits for one before it that misses.
func TestTranslationsAreInOrder(t *testing.T) {
	m := newIOMMU(IOMMUConfig{Entries: 4, PageSize: 4096, Miss: 100}, nil)
	m.translate(0, 0, 64)
	if a, b := m.translate(200, 4096, 64), m.translate(210, 0, 64); a != 300 || b != 300 {
		t.Errorf("a miss at 200 is translated at %d, a hit at 210 at %d", a, b)
	}
	if at := m.translate(400, 0, 64); at != 400 {
		t.Errorf("a hit at 400 is translated at %d", at)
	}
}

// Writes that are not translated yet take the host's places: their rate is the walks'.
func TestWalksHoldWrites(t *testing.T) {
	c := Gen3x8()
	c.PostedCredits = 32
	c.IOMMU = IOMMUConfig{Entries: 1, PageSize: 4096, Miss: 300 * units.Nanosecond, Walkers: 6}
	p := idleLink(t, c)
	const writes = 10_000
	var sent units.Time
	for i := range uint64(writes) {
		sent, _ = p.Write(sent, i*4096, 64, ForPayload)
	}
	want := units.Time(writes) * c.IOMMU.Miss / 6
	if sent < want*98/100 || sent > want*102/100 {
		t.Errorf("%d writes take %v, want %v", writes, sent, want)
	}
}

// The engine's setup delays a transfer and not those behind it.
func TestSetup(t *testing.T) {
	c := Gen3x8()
	plain := idleLink(t, c)
	c.ReadSetup, c.WriteSetup = 60*units.Nanosecond, 190*units.Nanosecond
	p := idleLink(t, c)
	for range 2 {
		if a, b := plain.Read(0, 0, 64, ForPayload), p.Read(0, 0, 64, ForPayload); b != a+c.ReadSetup {
			t.Errorf("a read is done at %v, without setup at %v", b, a)
		}
	}
	for range 2 {
		a, seen := plain.Write(0, 0, 64, ForPayload)
		b, seenLater := p.Write(0, 0, 64, ForPayload)
		if b != a+c.WriteSetup || seenLater != seen+c.WriteSetup {
			t.Errorf("a write is sent at %v and seen at %v, without setup at %v and %v", b, seenLater, a, seen)
		}
	}
}
