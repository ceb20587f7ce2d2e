package ratelimiter

import (
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
