package nicmodel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// What a batch's completions take on PCIe: a title, and an array for eight of them.
func TestCompressedBytes(t *testing.T) {
	for _, c := range []struct {
		batch, max int
		want       uint64 // elements written
	}{
		{1, 64, 1}, {2, 64, 2}, {3, 64, 2}, {8, 64, 2}, {9, 64, 3}, {17, 64, 4}, {60, 64, 9}, {60, 0, 60},
		{32, 16, 6}, {33, 16, 7}, {6, 3, 4},
	} {
		cfg := preset(t, "cx6dx")
		cfg.Compression = config.Compression{MaxNum: c.max, Timeout: 20 * units.Microsecond}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		r := y.region(t, make([]byte, 256))
		var wrs []WR
		for i := range c.batch {
			wrs = append(wrs, inlineWrite(uint64(i), r, 8))
		}
		b.post(x, wrs...)
		b.e.RunUntil(units.Millisecond)
		got := x.nic.PCIe().Traffic(pcie.Upstream, pcie.MemWr, pcie.ForCQE)
		if got.Packets != c.want || got.Bytes != units.Bytes(c.want)*(64+24) {
			t.Errorf("%d completions, %d a session: %+v, want %d elements", c.batch, c.max, got, c.want)
		}
		if n := len(b.poll(x)); n != c.batch {
			t.Errorf("%d completions of %d", n, c.batch)
		}
	}
}

// A session ends by time, and a queue with timestamps has none.
func TestCompressionHolds(t *testing.T) {
	const timeout = 7 * units.Microsecond
	for _, stamped := range []bool{false, true} {
		cfg := preset(t, "cx6dx")
		cfg.Compression = config.Compression{MaxNum: 64, Timeout: timeout}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		if stamped {
			x.nic.StampCQ(x.cq)
		}
		var made, seen []units.Time
		calls := 0
		x.nic.OnSpan(func(s *chip.Span) {
			switch s.Place {
			case chip.AtCQE:
				made = append(made, s.End)
			case chip.AtCQEWrite:
				seen = append(seen, s.End)
			}
		})
		x.nic.OnCompletion(x.cq, func(units.Time, bool) { calls++ })
		r := y.region(t, make([]byte, 256))
		b.post(x, inlineWrite(1, r, 8), inlineWrite(2, r, 8), inlineWrite(3, r, 8))
		b.e.RunUntil(units.Millisecond)
		if len(seen) != 3 || calls == 0 {
			t.Fatalf("%d of 3 completions, %d calls", len(seen), calls)
		}
		held := seen[0] - made[0]
		if stamped != (held < units.Microsecond) || held > timeout+units.Microsecond || (seen[0] == seen[2]) == stamped || (calls == 1) == stamped {
			t.Errorf("timestamps %v: %v from a completion to its being seen, %v for the last; %d calls", stamped, held, seen[2]-made[2], calls)
		}
	}
}

func TestCompressionConfig(t *testing.T) {
	for _, c := range []config.Compression{{MaxNum: -1}, {MaxNum: 1, Timeout: 1}, {MaxNum: 1025, Timeout: 1}, {MaxNum: 8}, {MaxNum: 8, Timeout: units.Second}} {
		cfg := preset(t, "cx5")
		cfg.Compression = c
		if err := cfg.Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// traffic is a host's posts and their times.
type traffic struct {
	at        units.Time
	batch     int
	op        ib.WROpcode
	size      int
	solicited bool
}

func drawTraffic(t *rapid.T) []traffic {
	var all []traffic
	at, n := units.Time(0), 0
	for range rapid.IntRange(1, 10).Draw(t, "posts") {
		at += units.Time(rapid.IntRange(0, 20_000).Draw(t, "gap")) * units.Nanosecond
		x := traffic{
			at: at, batch: rapid.IntRange(1, 20).Draw(t, "batch"),
			op:        rapid.SampledFrom([]ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRSendWithImm, ib.WRRDMARead, ib.WRRDMAWriteWithImm}).Draw(t, "op"),
			size:      rapid.IntRange(1, 3000).Draw(t, "size"),
			solicited: rapid.Bool().Draw(t, "solicited"),
		}
		if n += x.batch; n > 60 {
			break
		}
		all = append(all, x)
	}
	return all
}

// completionsOf runs the traffic of two hosts and returns what each polls, its
// requests' completions apart from its receives'.
func completionsOf(t testing.TB, cfg config.Config, load [2][]traffic) (polled [2][2][]CQE, written [2]uint64) {
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	ends := [2]end{x, y}
	var regions [2]memory.Region
	for i, e := range ends {
		regions[i] = e.region(t, make([]byte, 4096))
		for k := range 64 {
			if err := e.nic.RecvQueue(e.qpn).PostRecv(uint64(1000+k), []memory.SGE{{Addr: regions[i].Addr, Length: 4096, Key: regions[i].Key}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var posts []units.Time
	for i := range ends {
		for _, p := range load[i] {
			posts = append(posts, p.at)
		}
	}
	slices.Sort(posts)
	id := [2]uint64{}
	next := [2]int{}
	look := func() {
		for i, e := range ends {
			for _, c := range b.poll(e) {
				k := 0
				if c.Opcode&ib.WCRecv != 0 || c.WRID >= 1000 {
					k = 1
				}
				c.Timestamp, c.Visible = 0, 0
				polled[i][k] = append(polled[i][k], c)
			}
		}
	}
	for _, at := range posts {
		b.e.RunUntil(at)
		look()
		for i, e := range ends {
			for ; next[i] < len(load[i]) && load[i][next[i]].at <= at; next[i]++ {
				p := load[i][next[i]]
				var wrs []WR
				for range p.batch {
					wrs = append(wrs, WR{
						Request: rc.Request{ID: id[i], Op: p.op, Signaled: id[i]%3 != 0, Length: uint32(p.size), RemoteAddr: regions[1-i].Addr, RKey: regions[1-i].Key, Imm: uint32(id[i]), Solicited: p.solicited},
						SGL:     []memory.SGE{{Addr: regions[i].Addr, Length: uint32(p.size), Key: regions[i].Key}},
					})
					id[i]++
				}
				b.post(e, wrs...)
			}
		}
	}
	b.e.RunUntil(b.e.Now() + 20*units.Millisecond)
	look()
	look()
	// In the end a request fails among others, and takes the receives along.
	for k := range 3 {
		wr := inlineWrite(id[0], regions[1], 8)
		if k == 1 {
			wr.Request.RKey = 0
		}
		b.post(x, wr)
		id[0]++
	}
	b.e.RunUntil(b.e.Now() + 20*units.Millisecond)
	look()
	look()
	for i, e := range ends {
		written[i] = e.nic.PCIe().Traffic(pcie.Upstream, pcie.MemWr, pcie.ForCQE).Packets
	}
	return polled, written
}

// What a host polls is the same with compression, and takes no more elements.
func TestCompressionIsNotSeen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		load := [2][]traffic{drawTraffic(rt), drawTraffic(rt)}
		cfg := preset(t, "cx5")
		want, plain := completionsOf(t, cfg, load)
		cfg.Compression = config.Compression{MaxNum: rapid.IntRange(2, 70).Draw(rt, "max"), Timeout: units.Time(rapid.IntRange(1, 30_000).Draw(rt, "timeout")) * units.Nanosecond}
		got, compressed := completionsOf(t, cfg, load)
		for i := range want {
			for k := range want[i] {
				if !slices.Equal(got[i][k], want[i][k]) {
					rt.Fatalf("host %d polls\n%+v\nwith compression and\n%+v\nwithout", i, got[i][k], want[i][k])
				}
			}
			if compressed[i] > plain[i] {
				rt.Fatalf("host %d: %d elements with compression, %d without", i, compressed[i], plain[i])
			}
		}
	})
}

func TestCompressionDoesNotAllocate(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Compression = config.Compression{MaxNum: 16, Timeout: 2 * units.Microsecond}
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	b.stream(x, y, 64, 32)
	b.e.RunUntil(units.Millisecond)
	b.allocatesNothing()
}
