package workload

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func TestTimersAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timers
		var want [][2]int
		for i, at := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 100).Draw(t, "times") {
			h.add(units.Time(at), i)
			want = append(want, [2]int{at, i})
		}
		slices.SortFunc(want, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		for _, w := range want {
			if _, early := h.due(units.Time(w[0]) - 1); early || h.next() != units.Time(w[0]) {
				t.Fatalf("next is %v, want %v", h.next(), w[0])
			}
			if got, ok := h.due(units.Time(w[0])); !ok || got != w[1] {
				t.Fatalf("got %v, want %v", got, w)
			}
		}
		if h.next() != units.Never {
			t.Fatal("more than was added")
		}
	})
}
