package stage

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// A table of places gives back what comes free first, whatever the order in which places were taken.
func TestInflight(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		places := rapid.IntRange(1, 9).Draw(r, "places")
		f, model := NewInflight(places), make([]units.Time, places)
		for range 100 {
			until := units.Time(rapid.IntRange(0, 50).Draw(r, "until"))
			f.Hold(until)
			model[0] = until
			slices.Sort(model)
			if got := f.Free(0); got != model[0] {
				r.Fatalf("a place comes free at %d, want %d of %v", got, model[0], model)
			}
			at, k := units.Time(rapid.IntRange(0, 50).Draw(r, "at")), rapid.IntRange(1, 10).Draw(r, "k")
			if got, want := f.Idle(at, k), k <= places && model[min(k, places)-1] <= at; got != want {
				r.Fatalf("%d places at %d: %v, want %v of %v", k, at, got, want, model)
			}
		}
	})
}
