package calibration

import (
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// BenchmarkAccuracy is the table of docs/calibration.md: for each setting, the
// true errors and the published bounds over five simulated minutes, one a seed.
// The time is of a simulated minute and means nothing.
func BenchmarkAccuracy(b *testing.B) {
	for _, s := range settings {
		b.Run(s.String(), func(b *testing.B) {
			var all figures
			for b.Loop() {
				all = figures{}
				for seed := range uint64(5) {
					f := s.run(b, seed)
					all.errors, all.bounds = append(all.errors, f.errors...), append(all.bounds, f.bounds...)
				}
			}
			b.ReportMetric(all.error(.5).Nanoseconds(), "error-p50-ns")
			b.ReportMetric(all.error(.99).Nanoseconds(), "error-p99-ns")
			b.ReportMetric(all.error(1).Nanoseconds(), "error-max-ns")
			b.ReportMetric(all.bound(.5).Nanoseconds(), "bound-p50-ns")
			b.ReportMetric(all.bound(.99).Nanoseconds(), "bound-p99-ns")
			b.ReportMetric(all.bound(1).Nanoseconds(), "bound-max-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// calibrated returns a calibrator that has followed clocks for 5 s.
func calibrated(b *testing.B) (*Calibrator, *synthetic, units.Time) {
	b.Helper()
	rng := des.NewStream(1, "bench")
	clocks := newSynthetic(rng, 41, 156.25e6, 0, 20, 0.5, 210, 20*units.Second)
	c, err := New(DefaultConfig(41, 156.25e6))
	if err != nil {
		b.Fatal(err)
	}
	var f figures
	now := f.follow(b, c, clocks, bus{share: 0.5}, rng, 0, 5*units.Second)
	return c, clocks, now
}

func BenchmarkToHost(b *testing.B) {
	c, clocks, now := calibrated(b)
	ticks := clocks.counter(now)
	var sum units.Time
	b.ReportAllocs()
	for b.Loop() {
		m, ok := c.ToHost(ticks)
		if !ok {
			b.Fatal("refused")
		}
		sum += m.Host + m.Bound
		ticks--
		if ticks&(1<<20-1) == 0 {
			ticks += 1 << 20
		}
	}
	if sum == 0 {
		b.Fatal("no mapping")
	}
}

func BenchmarkToNIC(b *testing.B) {
	c, clocks, now := calibrated(b)
	host := clocks.hostTime(now)
	var sum uint64
	b.ReportAllocs()
	for b.Loop() {
		ticks, _, ok := c.ToNIC(host)
		if !ok {
			b.Fatal("refused")
		}
		sum += ticks
	}
	if sum == 0 {
		b.Fatal("no mapping")
	}
}

func BenchmarkAdd(b *testing.B) {
	c, clocks, now := calibrated(b)
	host := clocks.readHost(now)
	s := Sample{host, clocks.counter(now + 400*units.Nanosecond), host + 900*units.Nanosecond}
	b.ReportAllocs()
	for b.Loop() {
		// A tick, 6.4 ns, every 6.4 ns.
		s.NIC++
		s.HostBefore += 6400
		s.HostAfter += 6400
		if v := c.Add(s); v == Ignored {
			b.Fatal(v)
		}
	}
}
