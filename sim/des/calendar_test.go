package des

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// The calendar gives what a heap gives, over spans from nothing to far beyond its
// buckets, with bursts at one instant, looks ahead before pushes into a bucket that
// was passed, and densities that change, so that it is retuned both ways.
func TestCalendarAgainstAHeap(t *testing.T) {
	for seed := range uint64(8) {
		rng := NewStream(seed, "calendar")
		c := newCalendar()
		var h heap
		var now units.Time
		src := Source{}
		most, retuned := 0, map[uint]bool{}
		for step := range 300_000 {
			if step%50_000 == 0 {
				most = []int{1, 40, 5000, 300, 20_000, 2}[(step/50_000+int(seed))%6]
			}
			if c.len() != len(h) {
				t.Fatalf("%d events pending, want %d", c.len(), len(h))
			}
			pop := len(h) > 0 && (len(h) > most || rng.Uint64()%2 == 0)
			if rng.Uint64()%8 == 0 {
				if ev := c.min(); (ev == nil) != (len(h) == 0) || ev != nil && *ev != h[0] {
					t.Fatalf("step %d: the earliest is %v, want %v", step, ev, h[0])
				}
			}
			if pop {
				ev := c.min()
				if ev == nil || *ev != h[0] {
					t.Fatalf("step %d: the earliest is %v, want %v", step, ev, h[0])
				}
				now = ev.At
				c.drop(ev)
				h.pop()
				retuned[c.shift] = true
				continue
			}
			var ahead units.Time
			switch rng.Uint64() % 16 {
			case 0: // at once
			case 1:
				ahead = units.Time(rng.Uint64() % uint64(10*units.Millisecond))
			case 2:
				ahead = units.Time(rng.Uint64() % uint64(100*units.Second))
			default:
				ahead = units.Time(rng.Uint64() % uint64(2*units.Microsecond))
			}
			src.seq++
			ev := Event{At: now + ahead, dst: NodeID(rng.Uint64() % 4), src: uint32(rng.Uint64() % 3), seq: src.seq}
			c.push(ev)
			h.push(ev)
		}
		for len(h) > 0 {
			ev := c.min()
			if ev == nil || *ev != h[0] {
				t.Fatalf("at the end the earliest is %v, want %v", ev, h[0])
			}
			c.drop(ev)
			h.pop()
		}
		if c.min() != nil || c.len() != 0 || c.near != 0 {
			t.Fatalf("the emptied calendar has %d events, %d in lists", c.len(), c.near)
		}
		if len(retuned) < 3 {
			t.Errorf("seed %d: bucket widths %v: the test does not make it change", seed, retuned)
		}
	}
}
