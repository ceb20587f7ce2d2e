package capture

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// The set agrees with a map, as long as there are few gaps and no restarts.
func TestPSNSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s psnSet
		seen := map[int64]bool{}
		first := rapid.Int64Range(0, 1<<24-1).Draw(t, "first")
		highest := first
		for i := range rapid.IntRange(1, 100).Draw(t, "packets") {
			n := highest + rapid.Int64Range(-30, 8).Draw(t, "step")
			if i == 0 {
				n = first
			}
			count := rapid.Int64Range(1, 5).Draw(t, "psns")
			want := placeNew
			switch {
			case seen[n]:
				want = placeAgain
			case i > 0 && n < highest:
				want = placeLate
			}
			if got := s.add(units.MakePSN(uint32(n)), count); got != want {
				t.Fatalf("PSN %d after %d is %d, want %d", n, highest, got, want)
			}
			for k := range count {
				seen[n+k] = true
			}
			highest = max(highest, n+count-1)
			for j := 1; j < len(s.runs); j++ {
				if s.runs[j].from <= s.runs[j-1].to {
					t.Fatalf("runs %v are not apart", s.runs)
				}
			}
		}
	})
}

// With more gaps than it holds, the oldest is forgotten.
func TestPSNSetBound(t *testing.T) {
	var s psnSet
	for i := range uint32(500) {
		if got := s.add(units.MakePSN(3*i), 1); got != placeNew {
			t.Fatalf("PSN %d is %d", 3*i, got)
		}
	}
	if len(s.runs) != maxRuns {
		t.Errorf("%d runs", len(s.runs))
	}
	if s.add(1, 1) != placeAgain || s.add(3*499-1, 1) != placeLate {
		t.Error("not the oldest gap is forgotten")
	}
}
