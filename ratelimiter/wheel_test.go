package ratelimiter

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// TestWheelAgainstSortedList crowds times into few slots of every level, across
// zero too, and takes flows out while they wait.
func TestWheelAgainstSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := units.Time(rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 / 2, -1 << 59, -1000, 0, 1 << 40}).Draw(t, "start"))
		w := &wheel{base: now}
		w.init()
		const n = 60
		ls, flows := make([]links, n), make([]flow, n)
		ready := list{none, none}
		type entry struct {
			id  uint32
			due units.Time
		}
		var filed []entry // in the order of filing
		var idle []uint32
		for id := range uint32(n) {
			idle = append(idle, id)
		}
		for range rapid.IntRange(100, 400).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 6 && len(idle) > 0:
				id := idle[0]
				idle = idle[1:]
				ahead := rapid.Int64Range(1, 4).Draw(t, "ahead") << rapid.IntRange(0, 60).Draw(t, "shift")
				due := now + units.Time(ahead) + units.Time(rapid.IntRange(0, 2).Draw(t, "more"))
				if due <= now {
					due = units.Never
				}
				flows[id].due = due
				w.file(ls, id, due)
				filed = append(filed, entry{id, due})
			case op < 8 && len(filed) > 0:
				i := 0 // often the earliest, whose loss the slot must notice
				if op == 7 {
					i = rapid.IntRange(0, len(filed)-1).Draw(t, "which")
				}
				w.remove(ls, filed[i].id, filed[i].due)
				idle = append(idle, filed[i].id)
				filed = slices.Delete(filed, i, i+1)
			case len(filed) > 0:
				now = filed[rapid.IntRange(0, len(filed)-1).Draw(t, "until")].due
				if now == units.Never {
					return
				}
				w.expire(ls, flows, now, &ready)
				for len(filed) > 0 && filed[0].due <= now {
					if ready.head != filed[0].id {
						t.Fatalf("at %d: flow %d is ready, want %v", now, int32(ready.head), filed[0])
					}
					idle = append(idle, ready.head)
					ready.remove(ls, ready.head)
					filed = filed[1:]
				}
				if ready.head != none {
					t.Fatalf("at %d: flow %d is ready too soon", now, ready.head)
				}
			}
			slices.SortStableFunc(filed, func(a, b entry) int { return cmp.Compare(a.due, b.due) })
			want := units.Never
			if len(filed) > 0 {
				want = filed[0].due
			}
			if got := w.earliest(ls, flows); got != want {
				t.Fatalf("earliest is %d, want %d", got, want)
			}
		}
	})
}
