package ratelimiter

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// Offer is Enqueue, and the Dequeue that follows if that returns the flow: two
// schedulers, used the one way and the other, do the same at the same times.
func TestOfferIsEnqueueAndDequeue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.Burst = units.Bytes(rapid.SampledFrom([]int{0, 40_000}).Draw(t, "burst"))
		a, errA := New(c)
		b, errB := New(c)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		rates := []units.Rate{Unpaced, units.Gbps, 3 * units.Mbps}
		const flows = 4
		for i := range flows {
			for _, s := range []*Scheduler{a, b} {
				if _, err := s.AddFlow(rates[i%len(rates)]); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := units.Time(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += units.Time(rapid.IntRange(0, 300).Draw(t, "us")) * units.Microsecond / 4
			id := FlowID(rapid.IntRange(0, flows-1).Draw(t, "flow"))
			switch rapid.SampledFrom([]string{"offer", "offer", "dequeue", "rate"}).Draw(t, "what") {
			case "rate":
				r := rapid.SampledFrom(rates).Draw(t, "rate")
				if err := a.SetRate(id, r); err != nil {
					t.Fatal(err)
				}
				if err := b.SetRate(id, r); err != nil {
					t.Fatal(err)
				}
			case "dequeue":
				x, ok := a.Dequeue(now)
				if y, too := b.Dequeue(now); x != y || ok != too {
					t.Fatalf("at %v flow %d, %v leaves; without Offer %d, %v", now, x, ok, y, too)
				}
			default:
				if a.Queued(id) {
					continue
				}
				n := units.Bytes(rapid.IntRange(0, 64<<10).Draw(t, "bytes"))
				left := a.Offer(now, id, n)
				b.Enqueue(now, id, n)
				// It leaves at once if it is the first that is due.
				if left != (b.ring.head == uint32(id)) {
					t.Fatalf("at %v flow %d leaves: %v", now, id, left)
				}
				if left {
					if y, ok := b.Dequeue(now); !ok || y != id {
						t.Fatalf("flow %d left, and without Offer %d, %v", id, y, ok)
					}
				}
			}
			if a.Len() != b.Len() || a.NextDue() != b.NextDue() {
				t.Fatalf("%d enqueued, the next due at %v; without Offer %d, %v", a.Len(), a.NextDue(), b.Len(), b.NextDue())
			}
			for i := range flows {
				x, y := a.flows[i], b.flows[i]
				if x.filed == 0 {
					x.due, y.due = 0, 0 // of no segment
				}
				if x != y {
					t.Fatalf("flow %d is %+v, without Offer %+v", i, x, y)
				}
			}
		}
	})
}

// A caller that is late and goes by OfferBy sends the same segments, each counted at the
// same time, as one that enqueues each and dequeues it.
func TestOfferByIsEnqueueAndDequeueAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.Burst = units.Bytes(rapid.SampledFrom([]int{0, 40_000}).Draw(t, "burst"))
		c.CatchUp = rapid.SampledFrom([]units.Time{0, 10 * units.Microsecond, units.Millisecond}).Draw(t, "catch up")
		by, err1 := New(c)
		plain, err2 := New(c)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		const flows = 4
		weighted := rapid.Bool().Draw(t, "weights")
		for i := range flows {
			r := []units.Rate{Unpaced, 9 * units.Gbps, units.Gbps, 3 * units.Gbps}[i]
			for _, s := range []*Scheduler{by, plain} {
				if _, err := s.AddFlow(r); err != nil {
					t.Fatal(err)
				}
				if weighted && i%2 == 0 {
					if err := s.SetWeight(FlowID(i), 2+i); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		type segment struct {
			id   FlowID
			next units.Time // when the one after may leave
		}
		// drain sends what is due; more counts the segments that each flow still
		// has.
		drain := func(s *Scheduler, now units.Time, more [flows]int, fused bool) (sent []segment) {
			for {
				at := max(s.NextDue(), now-c.CatchUp)
				if at > now {
					return sent
				}
				id, ok := s.DequeueAt(at, now)
				if !ok {
					continue
				}
				sent = append(sent, segment{id, s.Next(id)})
				for more[id] > 0 {
					more[id]--
					leaves := false
					if fused {
						at, leaves = s.OfferBy(at, now, id, 9000)
					} else {
						leaves = s.Offer(at, id, 9000)
					}
					if !leaves {
						break
					}
					sent = append(sent, segment{id, s.Next(id)})
				}
			}
		}
		now := units.Time(0)
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			now += units.Time(rapid.IntRange(0, 400).Draw(t, "us")) * units.Microsecond / 4
			id := FlowID(rapid.IntRange(0, flows-1).Draw(t, "flow"))
			if !by.Queued(id) {
				by.Enqueue(now, id, 9000)
				plain.Enqueue(now, id, 9000)
			}
			r := rapid.SampledFrom([]units.Rate{units.Gbps, 2 * units.Gbps, 3_000_000_007}).Draw(t, "rate")
			if err := errors.Join(by.SetRate(id, r), plain.SetRate(id, r)); err != nil {
				t.Fatal(err)
			}
			now += units.Time(rapid.IntRange(0, 100).Draw(t, "late")) * units.Microsecond / 4
			var more [flows]int
			for i := range more {
				more[i] = rapid.IntRange(0, 6).Draw(t, "more")
			}
			x, y := drain(by, now, more, true), drain(plain, now, more, false)
			if !slices.Equal(x, y) {
				t.Fatalf("at %v %v left, with Enqueue and DequeueAt %v", now, x, y)
			}
			if by.Len() != plain.Len() || by.NextDue() != plain.NextDue() {
				t.Fatalf("%d enqueued, the next due at %v; with Enqueue %d, %v", by.Len(), by.NextDue(), plain.Len(), plain.NextDue())
			}
		}
	})
}
