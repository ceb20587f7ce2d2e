package overlay

import (
	"testing"

	"pgregory.net/rapid"
)

// An id finds what it was given to until that is removed, and nothing afterwards.
func TestFlows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := flows[int]{bits: uint(rapid.IntRange(0, 3).Draw(t, "bits"))}
		live := map[uint32]int{}
		var all, order []uint32
		for n := range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(order) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(order)-1).Draw(t, "which")
				f.remove(order[i])
				delete(live, order[i])
				order = append(order[:i], order[i+1:]...)
			} else if id, ok := f.add(n); ok {
				if _, taken := live[id]; taken {
					t.Fatalf("id %#x is given out twice", id)
				}
				live[id] = n
				all, order = append(all, id), append(order, id)
			} else if len(live) != 1<<f.bits {
				t.Fatalf("no room for more than %d of %d", len(live), 1<<f.bits)
			}
			for _, id := range all {
				want, there := live[id]
				if got, ok := f.find(id); ok != there || got != want {
					t.Fatalf("id %#x: %d, %v, want %d, %v", id, got, ok, want, there)
				}
			}
		}
	})
}

// Generations wrap and leave the index alone.
func TestGenerationsWrap(t *testing.T) {
	f := flows[int]{bits: 30}
	f.add(0)
	for i := range 9 {
		id, _ := f.add(i)
		if id&(1<<30-1) != 1 {
			t.Fatalf("use %d has id %#x", i, id)
		}
		f.remove(id)
	}
}
