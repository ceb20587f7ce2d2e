package chip

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

type recorded []des.Event

func (r *recorded) Handle(ev des.Event) { *r = append(*r, ev) }

// An agenda has the order of the engine's events, whatever their kinds.
func TestAgendaOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, a := des.New(), newAgenda()
		var r recorded
		id, src := e.AddHandler(&r), e.NewSource()
		for i := range rapid.IntRange(0, 100).Draw(t, "n") {
			now := e.Now()
			at := now + units.Time(rapid.IntRange(0, 9).Draw(t, "ahead"))
			kind := rapid.SampledFrom([]uint32{EvReceive, EvWire, EvSchedule, EvLimiter, EvTimer}).Draw(t, "kind")
			e.Schedule(at, &src, id, kind, uint64(i))
			a.add(at, kind, uint64(i))
			until := now + units.Time(rapid.IntRange(0, 3).Draw(t, "step"))
			r = r[:0]
			e.RunUntil(until)
			for _, want := range r {
				var ev des.Event
				at := a.take(until, &ev)
				if at != want.At || ev.At != want.At || ev.Kind != want.Kind || ev.Arg != want.Arg {
					t.Fatalf("event %d of kind %d at %v, expected %d of kind %d at %v", ev.Arg, ev.Kind, at, want.Arg, want.Kind, want.At)
				}
			}
			if at := a.take(until, new(des.Event)); at != e.Next() || a.next() != at {
				t.Fatalf("the next event is at %v, expected %v", at, e.Next())
			}
		}
	})
}

func TestAgendaAllocatesNothing(t *testing.T) {
	a := newAgenda()
	now := units.Time(0)
	var ev des.Event
	step := func() {
		for i, kind := range []uint32{EvReceive, EvWire, EvTimer, EvSchedule, EvReceive, EvWire} {
			a.add(now+units.Time(10-i), kind, 0)
		}
		now += 20
		for {
			if next := a.take(now, &ev); next > now {
				break
			}
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for six events", n)
	}
}
