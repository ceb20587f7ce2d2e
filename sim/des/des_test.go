package des

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

type recorder struct{ got []Event }

func (r *recorder) Handle(ev Event) { r.got = append(r.got, ev) }

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := New()
		var r recorder
		for range 4 {
			e.AddHandler(&r)
		}
		sources := []Source{e.NewSource(), e.NewSource(), e.NewSource()}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		for range n {
			e.Schedule(units.Time(rapid.IntRange(0, 5).Draw(t, "at")), &sources[rapid.IntRange(0, 2).Draw(t, "src")],
				NodeID(rapid.IntRange(0, 3).Draw(t, "dst")), 0, 0)
		}
		e.RunUntil(10)
		if len(r.got) != n || e.Now() != 10 || e.Events() != uint64(n) {
			t.Fatalf("delivered %d of %d events, now %v", len(r.got), n, e.Now())
		}
		if !slices.IsSortedFunc(r.got, func(a, b Event) int {
			if before(&a, &b) {
				return -1
			}
			return 1
		}) {
			t.Fatalf("out of order: %v", r.got)
		}
	})
}

// countdown schedules for a peer, so that what is simultaneous is decided by the
// documented order and not by the order of the calls.
type countdown struct {
	name string
	log  *[]string
}

func (c *countdown) Handle(ev Event) { *c.log = append(*c.log, fmt.Sprintf("%s:%d", c.name, ev.Arg)) }

func TestSimultaneousEventsGoByDestinationThenSource(t *testing.T) {
	e := New()
	var log []string
	a := e.AddHandler(&countdown{"a", &log})
	b := e.AddHandler(&countdown{"b", &log})
	one, two := e.NewSource(), e.NewSource()
	e.Schedule(7, &two, b, 0, 1)
	e.Schedule(7, &one, b, 0, 2)
	e.Schedule(7, &two, a, 0, 3)
	e.Schedule(7, &two, a, 0, 4)
	e.RunUntil(7)
	if want := []string{"a:3", "a:4", "b:2", "b:1"}; !slices.Equal(log, want) {
		t.Errorf("delivered %v, want %v", log, want)
	}
}

func TestSchedulingIntoThePastPanics(t *testing.T) {
	e := New()
	n := e.AddHandler(&recorder{})
	s := e.NewSource()
	e.Schedule(5, &s, n, 0, 0)
	e.RunUntil(5)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	e.Schedule(4, &s, n, 0, 0)
}

func TestStreamsAreIndependentAndPinned(t *testing.T) {
	a, b := NewStream(1, "host/0"), NewStream(1, "host/0")
	c := NewStream(1, "host/1")
	for range 100 {
		x, y, z := a.Uint64(), b.Uint64(), c.Uint64()
		if x != y || x == z {
			t.Fatalf("draws %x, %x and %x", x, y, z)
		}
	}
	if got := NewStream(42, "pin").Uint64(); got != 0xabb238474ae25623 {
		t.Errorf("the first draw of stream 42/pin is %#x", got)
	}
	var sum units.Time
	for range 100000 {
		sum += a.Exp(units.Microsecond)
	}
	if mean := sum / 100000; mean < 990*units.Nanosecond || mean > 1010*units.Nanosecond {
		t.Errorf("mean of exponential draws is %v, want 1us", mean)
	}
}

type rescheduler struct {
	e   *Engine
	id  NodeID
	src Source
	rng Stream
}

func (r *rescheduler) Handle(ev Event) {
	r.e.Schedule(ev.At+units.Time(1+r.rng.Uint64()%2_000_000), &r.src, r.id, 0, 0)
}

func TestScheduleAndStepDoNotAllocate(t *testing.T) {
	e := New()
	r := &rescheduler{e: e, src: e.NewSource(), rng: NewStream(1, "x")}
	r.id = e.AddHandler(r)
	e.Schedule(0, &r.src, r.id, 0, 0)
	e.Step()
	if n := testing.AllocsPerRun(1000, func() { e.Step() }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkHold(b *testing.B) {
	for _, pending := range []int{1, 64, 4096, 65536} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			e := New()
			r := &rescheduler{e: e, src: e.NewSource(), rng: NewStream(1, "x")}
			r.id = e.AddHandler(r)
			for range pending {
				e.Schedule(units.Time(r.rng.Uint64()%2_000_000), &r.src, r.id, 0, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Step()
			}
		})
	}
}

// Sources that number their events themselves are in one line with the others.
func TestPost(t *testing.T) {
	e := New()
	var log []string
	a := e.AddHandler(&countdown{"a", &log})
	one := e.NewSource()
	first := e.NewSources(2)
	last := e.NewSource()
	e.Schedule(7, &last, a, 0, 6)
	e.Post(7, first+1, 0, a, 0, 5)
	e.Post(7, first, 9, a, 0, 4)
	e.Post(7, first, 2, a, 0, 3)
	e.Schedule(7, &one, a, 0, 1)
	e.Schedule(7, &one, a, 0, 2)
	e.RunUntil(7)
	if want := []string{"a:1", "a:2", "a:3", "a:4", "a:5", "a:6"}; !slices.Equal(log, want) {
		t.Errorf("delivered %v, want %v", log, want)
	}
}

func TestAdvance(t *testing.T) {
	e := New()
	n := e.AddHandler(&recorder{})
	e.Post(5, e.NewSources(1), 0, n, 0, 0)
	e.Advance(5)
	if e.Now() != 5 || e.Pending() != 1 {
		t.Errorf("now %v with %d pending", e.Now(), e.Pending())
	}
	for name, to := range map[string]units.Time{"past an event": 6, "back": 4} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			e.Advance(to)
		}()
	}
	e.RunUntil(9)
	if e.Now() != 9 || e.Events() != 1 || e.Stopped() {
		t.Errorf("now %v after %d events, stopped: %v", e.Now(), e.Events(), e.Stopped())
	}
}
