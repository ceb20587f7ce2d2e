package des

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

func core(t interface{ Fatal(args ...any) }, c CoreConfig, name string) *Core {
	k, err := NewCore(c, NewStream(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The M/M/1 queue: how often a thread has to wait, and for how long.
func TestWaitsAreThoseOfTheQueue(t *testing.T) {
	for _, load := range []float64{0.1, 0.3, 0.5, 0.7} {
		const burst = 20 * us
		k := core(t, CoreConfig{Load: load, Burst: burst}, "wait")
		// Asked so seldom that one answer says little of the next.
		const n = 200_000
		var sum units.Time
		waits := 0
		for i := range units.Time(n) {
			at := i * 100 * burst
			w := k.Free(at) - at
			if w > 0 {
				waits++
			}
			sum += w
		}
		share, mean := float64(waits)/n, float64(sum)/n
		if want := load; math.Abs(share-want) > 0.01 {
			t.Errorf("load %v: a share of %.3f has to wait, want %.3f", load, share, want)
		}
		if want := load * float64(burst) / ((1 - load) * (1 - load)); math.Abs(mean-want) > 0.05*want {
			t.Errorf("load %v: the mean wait is %.2f us, want %.2f", load, mean/float64(us), want/float64(us))
		}
	}
}

// A thread that always has something to do gets what the other work leaves.
func TestRunGetsTheRestOfTheCore(t *testing.T) {
	for _, load := range []float64{0.2, 0.5, 0.8} {
		k := core(t, CoreConfig{Load: load, Burst: 10 * us}, "run")
		var now units.Time
		const work = 2 * units.Second
		for range 1000 {
			now = k.Run(now, work/1000)
		}
		if want := float64(work) / (1 - load); math.Abs(float64(now)-want) > 0.02*want {
			t.Errorf("load %v: %v of work took %v, want %v", load, work, now, units.Time(want))
		}
	}
}

// What the thread asks changes nothing of the other work, and no answer is early.
func TestOtherWorkIsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := CoreConfig{Load: rapid.Float64Range(0.01, 0.95).Draw(t, "load"), Burst: units.Time(rapid.Int64Range(int64(leastBurst), int64(100*us)).Draw(t, "burst"))}
		one, two := core(t, cfg, "x"), core(t, cfg, "x")
		end := units.Time(0)
		for range rapid.IntRange(0, 50).Draw(t, "questions") {
			from := end + units.Time(rapid.Int64Range(0, int64(200*us)).Draw(t, "later"))
			if rapid.Bool().Draw(t, "work") {
				work := units.Time(rapid.Int64Range(0, int64(50*us)).Draw(t, "length"))
				if end = one.Run(from, work); end < from+work {
					t.Fatalf("%v of work from %v on was done at %v", work, from, end)
				}
			} else if end = one.Free(from); end < from {
				t.Fatalf("free at %v, asked for %v", end, from)
			}
			if again := one.Free(end); again != end {
				t.Fatalf("free at %v, and asked again at %v", end, again)
			}
		}
		at := end + 1000*us
		if a, b := one.Free(at), two.Free(at); a != b {
			t.Fatalf("the core that was asked before is free at %v, the other at %v", a, b)
		}
	})
}

func TestIdleHost(t *testing.T) {
	k := core(t, CoreConfig{Post: us}, "idle")
	if at := k.Free(7 * us); at != 7*us {
		t.Errorf("free at %v", at)
	}
	if at := k.Run(7*us, 3*us); at != 10*us {
		t.Errorf("done at %v", at)
	}
	for c, instant := range map[CoreConfig]bool{
		{}: true, {Burst: us}: true, {Load: 0.1, Burst: us}: false, {Wakeup: 1}: false, {Post: 1}: false,
	} {
		if c.Instant() != instant {
			t.Errorf("%+v: instant is %v", c, !instant)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		CoreConfig
		field string
	}{
		{CoreConfig{Load: -0.1, Burst: us}, "load"},
		{CoreConfig{Load: 0.96, Burst: us}, "load"},
		{CoreConfig{Load: math.NaN(), Burst: us}, "load"},
		{CoreConfig{Load: 0.5}, "burst"},
		{CoreConfig{Load: 0.5, Burst: 2 * units.Second}, "burst"},
		{CoreConfig{Wakeup: -1}, "wakeup"},
		{CoreConfig{Wakeup: 2 * units.Second}, "wakeup"},
		{CoreConfig{Post: -1}, "post"},
		{CoreConfig{Post: 2 * units.Millisecond}, "post"},
	} {
		if _, err := NewCore(c.CoreConfig, NewStream(1, "x")); err == nil || !strings.Contains(err.Error(), c.field+" is") {
			t.Errorf("%+v: %v", c.CoreConfig, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	k := core(t, CoreConfig{Load: 0.5, Burst: us}, "alloc")
	var now units.Time
	if n := testing.AllocsPerRun(1000, func() { now = k.Run(k.Free(now+10*us), us) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
