package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// source sends packets of one size to one host as fast as the wire allows, or at
// a fixed interval, and frees what it gets.
type source struct {
	n        *Network
	e        *des.Engine
	id       des.NodeID
	src      des.Source
	host     int
	dst      int32
	size     int32
	hash     uint32
	interval units.Time // 0: line rate
	prio     uint8
	paused   uint8
	idle     bool

	telemetry bool
}

func newSource(e *des.Engine, n *Network, host, dst int, size int32, interval units.Time) *source {
	s := &source{n: n, e: e, src: e.NewSource(), host: host, dst: int32(dst), size: size, interval: interval,
		hash: mix(uint32(host)*2654435761 + 1)}
	s.id = e.AddHandler(s)
	n.Attach(host, s)
	if dst >= 0 {
		e.Schedule(e.Now()+units.Time(host)*units.Nanosecond, &s.src, s.id, 0, 0)
	}
	return s
}

func (s *source) Arrive(_ *Lane, _ units.Time, h Handle, _ *Frame) { s.n.Free(h) }

func (s *source) Pause(_ *Lane, now units.Time, paused uint8) {
	s.paused = paused
	if s.idle && paused&(1<<s.prio) == 0 {
		s.idle = false
		s.e.Schedule(now, &s.src, s.id, 0, 0)
	}
}

func (s *source) Handle(ev des.Event) {
	if s.paused&(1<<s.prio) != 0 {
		s.idle = true
		return
	}
	h := s.n.Alloc()
	s.n.Packet(h).Src = int32(s.host)
	f := Frame{Size: s.size, Dst: s.dst, FlowHash: s.hash, Priority: s.prio}
	if s.telemetry {
		f.Telemetry, f.Flags = telemetry.PerHop, ECT
	}
	free := s.n.Transmit(ev.At, s.host, h, &f)
	s.e.Schedule(max(free, ev.At+s.interval), &s.src, s.id, 0, 0)
}

func gig(rate units.Rate, delay units.Time) Link { return Link{Rate: rate * units.Gbps, Delay: delay} }

func lossless(c *Config) {
	c.Switch.Classes[0].PFC.Lossless = true
	c.Switch.Classes[0].PFC.XOFF = 100 * units.KB
}

func benchmark(b *testing.B, topo *Topology, cfg Config, load float64, dst func(host int) int) {
	e := des.New()
	n, err := New(e, topo, cfg, 1)
	if err != nil {
		b.Fatal(err)
	}
	const size = 1078
	for h := range topo.Hosts() {
		rate := n.LineRate(h)
		interval := units.Time(0)
		if load < 1 {
			interval = units.Time(float64(rate.Serialize(size+20)) / load)
		}
		newSource(e, n, h, dst(h), size, interval)
	}
	e.RunUntil(300 * units.Microsecond) // fill slabs
	events, hops := e.Events(), n.Totals().PacketHops
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			e.Step()
		}
	}
	hops = n.Totals().PacketHops - hops
	b.ReportMetric(float64(hops)/b.Elapsed().Seconds()/1e6, "Mhops/s")
	b.ReportMetric(float64(e.Events()-events)/float64(hops), "events/hop")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hops), "ns/hop")
	b.ReportMetric(float64(e.Pending()), "pending")
	b.ReportMetric(float64(n.Live()), "live")
}

func BenchmarkIncast(b *testing.B) {
	to0 := func(h int) int {
		if h == 0 {
			return -1
		}
		return 0
	}
	for _, c := range []struct {
		name string
		set  func(*Config)
	}{{"lossy", func(*Config) {}}, {"pfc", lossless}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := Default()
			c.set(&cfg)
			benchmark(b, Star(33, gig(100, units.Microsecond)), cfg, 1, to0)
		})
	}
}

func BenchmarkPermutation(b *testing.B) {
	l := gig(100, units.Microsecond)
	for _, c := range []struct {
		name string
		k    int
		load float64
		set  func(*Config)
	}{
		{"k8/idle10", 8, 0.1, func(*Config) {}},
		{"k8/load50", 8, 0.5, func(*Config) {}},
		{"k8/lossy", 8, 1, func(*Config) {}},
		{"k8/pfc", 8, 1, lossless},
		{"k16/load50", 16, 0.5, func(*Config) {}},
		{"k16/lossy", 16, 1, func(*Config) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			topo := FatTree(c.k, 1, l, l, l)
			cfg := Default()
			cfg.Switch.Buffer = 2 * units.MiB
			c.set(&cfg)
			perm := make([]int, topo.Hosts())
			for i := range perm {
				perm[i] = i
			}
			s := des.NewStream(1, "permutation")
			s.Shuffle(len(perm), func(i, j int) { perm[i], perm[j] = perm[j], perm[i] })
			benchmark(b, topo, cfg, c.load, func(h int) int { return perm[h] })
		})
	}
}
