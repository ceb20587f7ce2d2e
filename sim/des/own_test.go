package des

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// What a destination keeps itself comes in the order in which an engine delivers it.
func TestOwnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := New()
		var r recorder
		id, src := e.AddHandler(&r), e.NewSource()
		var own Own
		for i, at := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "times") {
			e.Schedule(units.Time(at), &src, id, 7, uint64(i))
			own.Schedule(units.Time(at), 7, uint64(i))
		}
		e.RunUntil(10)
		for i, want := range r.got {
			if at := own.Next(); at != want.At {
				t.Fatalf("event %d is at %v, expected %v", i, at, want.At)
			}
			if ev := own.Take(); ev.Arg != want.Arg || ev.Kind != 7 {
				t.Fatalf("event %d is the one scheduled as number %d, expected %d", i, ev.Arg, want.Arg)
			}
		}
		if own.Next() != units.Never {
			t.Fatalf("an event is left at %v", own.Next())
		}
	})
}
