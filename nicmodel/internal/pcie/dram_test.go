package pcie

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// memory64 takes 64 bytes in a nanosecond: 512 Gbps.
const memory64 = 512 * units.Gbps

// What waits is served in the order of arrival, at the rate; processors have no more under way
// than they may.
func TestMemoryServesInOrder(t *testing.T) {
	const ns = units.Nanosecond
	for _, c := range []struct {
		name string
		cfg  MemoryConfig
		at   []units.Time // when the NIC asks for a line
		want []units.Time // how long that takes
	}{
		{"alone", MemoryConfig{Rate: memory64}, []units.Time{0, 10 * ns, 10 * ns, 11 * ns}, []units.Time{ns, ns, 2 * ns, 2 * ns}},
		// A load of half the rate that never waits itself costs the NIC nothing.
		{"beside half a load", MemoryConfig{Rate: memory64, Load: memory64 / 2, Outstanding: 6400}, []units.Time{100 * ns}, []units.Time{ns}},
		// Processors that ask for more than there is have all they may have under way, a hundred lines.
		{"beside too much", MemoryConfig{Rate: memory64, Load: 2 * memory64, Outstanding: 6400}, []units.Time{units.Microsecond, 2 * units.Microsecond}, []units.Time{101 * ns, 101 * ns}},
		// 50 ns of twice the rate leave 50 lines.
		{"while they begin", MemoryConfig{Rate: memory64, Load: 2 * memory64, Outstanding: 6400}, []units.Time{50 * ns}, []units.Time{51 * ns}},
	} {
		m := newDRAM(c.cfg)
		for i, at := range c.at {
			if got := m.serve(at, CacheLine); got != c.want[i] {
				t.Errorf("%s: the line at %v takes %v, expected %v", c.name, at, got, c.want[i])
			}
		}
	}
}

// The NIC's share of a busy memory is that of what it has outstanding: of credits C and processors' P bytes
// it is C / (C + P + what the root complex holds them for).
func TestSharesOfABusyMemoryAreThoseOfWhatIsOutstanding(t *testing.T) {
	const credits, processors = 64 * 64, 192 * 64
	cfg := Hosted(Gen4x16(), ExtendedTags, 2*IIOLines)
	cfg.Rate, cfg.MPS = 2*memory64, 64
	cfg.PostedCredits, cfg.PostedData, cfg.PostedHold = 0, credits, 0
	cfg.Memory = MemoryConfig{Rate: memory64, Load: 4 * memory64, Outstanding: processors}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var sent units.Time
	const lines = 100_000
	for i := range uint64(lines) {
		sent, _ = p.Write(0, i*64, 64, ForPayload)
	}
	got := float64(lines*64*8) / float64(sent) * float64(units.Second)
	// Its own lines take their time on the link before they are outstanding.
	if want := float64(memory64) * credits / (credits + processors); got < want*0.95 || got > want*1.05 {
		t.Errorf("the NIC writes %.1f Gbps, expected %.1f", got/1e9, want/1e9)
	}
	if c := p.stalls.Credits; c[byMemory] == 0 || c[byHost] > c[byMemory]/100 {
		t.Errorf("the wait is not memory's: %+v", p.stalls)
	}
}

// Writes go to memory only as far as they displace others from the ways that they have in the cache.
func TestWritesLeakToMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		cache HostCacheConfig
		set   uint64 // bytes that are written again and again
		want  units.Bytes
	}{
		{"no data direct I/O", HostCacheConfig{}, 1 << 12, 1 << 16},
		{"fits its ways", HostCacheConfig{Size: 1 << 20, Writes: 1 << 13}, 1 << 13, 0},
		{"does not fit", HostCacheConfig{Size: 1 << 20, Writes: 1 << 12}, 1 << 13, 1<<16 - 1<<12},
	} {
		cfg := Hosted(Gen4x16(), ExtendedTags, 2*IIOLines)
		cfg.HostCache, cfg.Memory = c.cache, MemoryConfig{Rate: memory64}
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for at := uint64(0); at < 1<<16; at += 256 {
			p.Write(units.Time(at)*units.Nanosecond, 1<<32+at%c.set, 256, ForPayload)
		}
		if p.memory.bytes != c.want {
			t.Errorf("%s: %d bytes went to memory, expected %d", c.name, p.memory.bytes, c.want)
		}
	}
}

// Whatever the order and the times of requests, what waits stays within what can be outstanding, and no
// more is served than the rate.
func TestMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newDRAM(MemoryConfig{
			Rate: units.Rate(rapid.IntRange(1, 2000).Draw(t, "rate")) * units.Gbps, Load: units.Rate(rapid.IntRange(0, 4000).Draw(t, "load")) * units.Gbps,
			Outstanding: rapid.IntRange(0, 1<<16).Draw(t, "outstanding"),
		})
		var now, last units.Time
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			now += units.Time(rapid.IntRange(0, 1<<rapid.IntRange(0, 40).Draw(t, "scale")).Draw(t, "gap"))
			n := rapid.IntRange(1, 4096).Draw(t, "bytes")
			took := m.serve(now, n)
			if m.others < 0 || m.others > m.most || m.nic < 0 {
				t.Fatalf("%v of the NIC and %v of processors wait, at most %v", m.nic, m.others, m.most)
			}
			if took < m.Rate.Serialize(units.Bytes(n)) {
				t.Fatalf("%d bytes take %v", n, took)
			}
			last = max(last, now+took)
			if most := m.Rate.BytesIn(last) + units.Bytes(4096); m.bytes > most {
				t.Fatalf("%d bytes served by %v, at most %d", m.bytes, last, most)
			}
		}
	})
}

func TestMemoryDoesNotAllocate(t *testing.T) {
	cfg := Hosted(Gen4x16(), ExtendedTags, 2*IIOLines)
	cfg.Memory = MemoryConfig{Rate: memory64, Load: memory64, Outstanding: 6400}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := units.Time(0)
	step := func() {
		now += 50 * units.Nanosecond
		p.Write(now, uint64(now), 256, ForPayload)
		p.Read(now, uint64(now), 256, ForPayload)
	}
	for range 10_000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%.1f allocations a write and a read", n)
	}
}
