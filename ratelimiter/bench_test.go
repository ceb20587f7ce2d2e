package ratelimiter

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// loaded returns a scheduler of n flows that share 400 Gbps unevenly, each with a
// segment enqueued and the phases mixed.
func loaded(b *testing.B, n int, c Config) *Scheduler {
	b.Helper()
	s, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	rng := des.NewStream(1, "bench")
	for range n {
		share := 0.5 + rng.Float64()
		id, err := s.AddFlow(units.Rate(share * float64(400*units.Gbps) / float64(n)))
		if err != nil {
			b.Fatal(err)
		}
		s.Enqueue(0, id, segment)
	}
	for range 3 * n {
		now := s.NextDue()
		id, _ := s.Dequeue(now)
		s.Enqueue(now, id, segment)
	}
	return s
}

const segment = 16 * units.KiB

var population = []int{1, 1000, 100_000}

// BenchmarkEnqueueDequeue is one segment of a driver in simulated time: it asks
// for the next due time, goes there, takes the segment and enqueues the next.
func BenchmarkEnqueueDequeue(b *testing.B) {
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s := loaded(b, n, DefaultConfig())
			b.ReportAllocs()
			for b.Loop() {
				now := s.NextDue()
				id, ok := s.Dequeue(now)
				if !ok {
					b.Fatal("nothing at NextDue")
				}
				s.Enqueue(now, id, segment)
			}
		})
	}
}

// BenchmarkPolled is one segment of a driver that polls every microsecond and
// sends what has come due.
func BenchmarkPolled(b *testing.B) {
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s := loaded(b, n, DefaultConfig())
			now := s.NextDue()
			b.ReportAllocs()
			for b.Loop() {
				id, ok := s.Dequeue(now)
				for !ok {
					now += units.Microsecond
					id, ok = s.Dequeue(now)
				}
				s.Enqueue(now, id, segment)
			}
		})
	}
}

// BenchmarkTogether is one segment where all flows have one rate and started
// together, so that all are due in the same picosecond.
func BenchmarkTogether(b *testing.B) {
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s, _ := New(DefaultConfig())
			for range n {
				id, _ := s.AddFlow(400 * units.Gbps / units.Rate(n))
				s.Enqueue(0, id, segment)
			}
			b.ReportAllocs()
			for b.Loop() {
				now := s.NextDue()
				id, _ := s.Dequeue(now)
				s.Enqueue(now, id, segment)
			}
		})
	}
}

// BenchmarkUnpaced is one segment at line rate: the way around the wheel.
func BenchmarkUnpaced(b *testing.B) {
	c := DefaultConfig()
	c.LineRate = units.Kbps
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s := loaded(b, n, c)
			b.ReportAllocs()
			for b.Loop() {
				id, _ := s.Dequeue(0)
				s.Enqueue(0, id, segment)
			}
		})
	}
}

// BenchmarkSetRate moves the rates of waiting flows up and down a little, as a
// rate engine does: nothing is filed anew.
func BenchmarkSetRate(b *testing.B) {
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s := loaded(b, n, DefaultConfig())
			base := 400 * units.Gbps / units.Rate(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if err := s.SetRate(FlowID(i*7919%n), base+base/64*units.Rate(i&1)); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkPullIn takes a segment back, files it for far ahead at a low rate, and
// raises the rate so that it is filed anew: four calls.
func BenchmarkPullIn(b *testing.B) {
	for _, n := range population {
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) {
			s := loaded(b, n, DefaultConfig())
			now, base := s.now, 400*units.Gbps/units.Rate(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				id := FlowID(i * 7919 % n)
				s.Withdraw(id)
				for _, r := range []units.Rate{base / 100, base} {
					if err := s.SetRate(id, r); err != nil {
						b.Fatal(err)
					}
					if !s.Queued(id) {
						s.Enqueue(now, id, segment)
					}
				}
				i++
			}
		})
	}
}
