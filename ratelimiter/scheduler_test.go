package ratelimiter

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func newScheduler(t testing.TB, c Config) *Scheduler {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func addFlow(t testing.TB, s *Scheduler, r units.Rate) FlowID {
	t.Helper()
	id, err := s.AddFlow(r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// release goes to the next due time and returns it, with the flow that leaves.
func release(t testing.TB, s *Scheduler) (FlowID, units.Time) {
	t.Helper()
	for s.Len() > 0 {
		now := s.NextDue()
		if id, ok := s.Dequeue(now); ok {
			return id, now
		}
	}
	t.Fatal("nothing enqueued")
	return 0, 0
}

func TestLongRunRateIsExact(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: eight million segments")
	}
	const segments = 1_000_000
	for _, r := range []units.Rate{7 * units.Gbps, 3 * units.Mbps, 100*units.Gbps + 1, 999_999_937} {
		for _, n := range []units.Bytes{1, 16384} {
			s := newScheduler(t, DefaultConfig())
			id := addFlow(t, s, r)
			var now units.Time
			for range segments {
				s.Enqueue(now, id, n)
				_, now = release(t, s)
			}
			// The first leaves at 0, the last after the gaps of all before it.
			want := big.NewInt((segments - 1) * int64(n) * 8)
			want.Mul(want, big.NewInt(int64(units.Second)))
			want.Quo(want, big.NewInt(int64(r)))
			if !want.IsInt64() || units.Time(want.Int64()) != now {
				t.Errorf("%v in segments of %d bytes: the last left at %d ps, want %v", r, int64(n), int64(now), want)
			}
		}
	}
}

func TestLatenessIsMadeUpForWithinCatchUp(t *testing.T) {
	const gap = 100 * units.Nanosecond // 1250 bytes at 100 Gbps
	for late, want := range map[units.Time]units.Time{
		30 * units.Nanosecond: 2 * gap, // within CatchUp: the schedule stands
		70 * units.Nanosecond: 2*gap + 20*units.Nanosecond,
	} {
		s := newScheduler(t, Config{CatchUp: 50 * units.Nanosecond})
		id := addFlow(t, s, 100*units.Gbps)
		s.Enqueue(0, id, 1250)
		s.Dequeue(0)
		s.Enqueue(0, id, 1250)
		if _, ok := s.Dequeue(gap + late); !ok {
			t.Fatal("not released")
		}
		s.Enqueue(gap+late, id, 1250)
		if got := s.NextDue(); got != want {
			t.Errorf("polled %v late: the next is due at %v, want %v", late, got, want)
		}
	}
}

func TestIdleFlowsGetNoMoreThanBurst(t *testing.T) {
	for _, burst := range []units.Bytes{0, 3000} {
		s := newScheduler(t, Config{Burst: burst, CatchUp: 10 * units.Microsecond})
		id := addFlow(t, s, 8*units.Gbps)
		s.Enqueue(0, id, 1000)
		s.Dequeue(0)
		now := units.Second
		sent := 0
		for {
			s.Enqueue(now, id, 1000)
			if _, ok := s.Dequeue(now); !ok {
				break
			}
			sent++
		}
		// Its own segment, and the burst.
		if want := 1 + int(burst/1000); sent != want {
			t.Errorf("burst %v: %d segments left at once after a pause, want %d", burst, sent, want)
		}
		if got, want := s.NextDue(), now+units.Microsecond; got != want {
			t.Errorf("burst %v: the next is due at %v, want %v", burst, got, want)
		}
	}
}

func TestBurstIsLostWhenTheRateShowsThatTheFlowWasNotIdle(t *testing.T) {
	s := newScheduler(t, Config{Burst: 3000})
	id := addFlow(t, s, 8*units.Gbps)
	s.Enqueue(0, id, 1000)
	s.Dequeue(0)
	s.Enqueue(10*units.Microsecond, id, 1000) // idle for long by this rate
	if err := s.SetRate(id, 400*units.Mbps); err != nil {
		t.Fatal(err)
	}
	// The gap is 20 us now, and the first segment counts as sent at -3 us, for
	// a new flow has its burst.
	for _, want := range []units.Time{17 * units.Microsecond, 37 * units.Microsecond} {
		s.Dequeue(10 * units.Microsecond)
		if _, now := release(t, s); now != want {
			t.Errorf("released at %v, want %v", now, want)
		}
		s.Enqueue(want, id, 1000)
	}
}

// TestNeverAboveTheRate polls a flow at odd times and lets it pause, and holds
// what it sends against the bound that doc.go states.
func TestNeverAboveTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Burst:   units.Bytes(rapid.Int64Range(0, 1<<17).Draw(t, "burst")),
			CatchUp: units.Time(rapid.Int64Range(0, int64(50*units.Microsecond)).Draw(t, "catchup")),
		}
		r := units.Rate(rapid.Int64Range(int64(units.Mbps), int64(400*units.Gbps)).Draw(t, "rate"))
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.AddFlow(r)
		if err != nil {
			t.Fatal(err)
		}
		type send struct {
			at units.Time
			n  units.Bytes
		}
		var sends []send
		var now units.Time
		for range rapid.IntRange(2, 60).Draw(t, "steps") {
			now += units.Time(rapid.Int64Range(0, 1<<rapid.IntRange(0, 30).Draw(t, "scale")).Draw(t, "wait"))
			n := units.Bytes(rapid.Int64Range(0, 1<<16).Draw(t, "bytes"))
			if !s.Queued(id) {
				s.Enqueue(now, id, n)
				sends = append(sends, send{n: n})
			}
			if _, ok := s.Dequeue(now); ok {
				sends[len(sends)-1].at = now
			}
		}
		if s.Queued(id) {
			sends = sends[:len(sends)-1]
		}
		for i := range sends {
			var total units.Bytes // before send j
			for j := i; j < len(sends); j++ {
				// One byte more for what rounding a picosecond down gives.
				if bound := r.BytesIn(sends[j].at-sends[i].at+cfg.CatchUp+1) + cfg.Burst + 1; total > bound {
					t.Fatalf("%d bytes in %v, more than %d", total, sends[j].at-sends[i].at, bound)
				}
				total += sends[j].n
			}
		}
	})
}

func TestDueFlowsAreServedRoundRobin(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	const n = 10
	for range n {
		s.Enqueue(0, addFlow(t, s, Unpaced), 100)
	}
	// Flows of one ring, enqueued again as they leave, take turns.
	for i := range 5 * n {
		id, ok := s.Dequeue(units.Time(i))
		if !ok || int(id) != i%n {
			t.Fatalf("call %d served flow %d, %v", i, id, ok)
		}
		s.Enqueue(units.Time(i), id, 100)
	}
	// A flow whose segment came due while others waited stands behind them, and
	// before one that is enqueued after that time.
	paced, late := addFlow(t, s, 8*units.Gbps), addFlow(t, s, Unpaced)
	s.Enqueue(100, paced, 1)
	for range n {
		id, _ := s.Dequeue(100)
		s.Enqueue(100, id, 100)
	}
	if id, _ := s.Dequeue(100); id != paced {
		t.Fatalf("served flow %d", id)
	}
	s.Enqueue(100, paced, 1) // due at 1100
	s.Enqueue(2000, late, 1)
	for i := range n {
		if id, _ := s.Dequeue(2000); int(id) != i {
			t.Fatalf("place %d went to flow %d", i, id)
		}
	}
	for _, want := range []FlowID{paced, late} {
		if id, _ := s.Dequeue(2000); id != want {
			t.Errorf("served flow %d, want %d", id, want)
		}
	}
}

func TestFlowsOfOneDueTimeLeaveInTheOrderOfTheirEnqueueing(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	const n = 200
	for range n {
		s.Enqueue(0, addFlow(t, s, 8*units.Gbps), 1000)
	}
	for round := range 4 {
		for i := range n {
			id, now := release(t, s)
			if int(id) != i || now != units.Time(round)*units.Microsecond {
				t.Fatalf("round %d, place %d: flow %d at %v", round, i, id, now)
			}
			s.Enqueue(now, id, 1000)
		}
	}
}

func TestDecreaseIsEnforcedWhenTheSegmentIsDue(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	id := addFlow(t, s, 8*units.Gbps)
	s.Enqueue(0, id, 1000)
	s.Dequeue(0)
	s.Enqueue(0, id, 1000)
	if err := s.SetRate(id, 2*units.Gbps); err != nil {
		t.Fatal(err)
	}
	if got := s.NextDue(); got != units.Microsecond {
		t.Errorf("due at %v before its time came; the decrease is to be enforced then", got)
	}
	if _, ok := s.Dequeue(units.Microsecond); ok {
		t.Error("released by the old rate")
	}
	if _, now := release(t, s); now != 4*units.Microsecond {
		t.Errorf("released at %v, want a gap of the new rate after the last transmission, 4us", now)
	}
}

func TestDecreaseInTheRing(t *testing.T) {
	s := newScheduler(t, Config{LineRate: 100 * units.Gbps})
	id := addFlow(t, s, 100*units.Gbps)
	s.Enqueue(0, id, 1000)
	s.Dequeue(0)
	s.Enqueue(0, id, 1000) // unpaced, hence due
	if err := s.SetRate(id, 8*units.Gbps); err != nil {
		t.Fatal(err)
	}
	if _, now := release(t, s); now != units.Microsecond {
		t.Errorf("released at %v, want 1us", now)
	}
}

func TestIncreasePullsASegmentIn(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	id := addFlow(t, s, units.Mbps)
	s.Enqueue(0, id, 16*units.KiB)
	s.Dequeue(0)
	s.Enqueue(0, id, 16*units.KiB)
	if got, want := s.NextDue(), 131072*units.Microsecond; got != want {
		t.Fatalf("due at %v, want %v", got, want)
	}
	if err := s.SetRate(id, units.Gbps); err != nil || s.NextDue() != 131072*units.Nanosecond {
		t.Errorf("at 1 Gbps due at %v, want 131.072us; %v", s.NextDue(), err)
	}
	// 131.059 us: not worth a move.
	if err := s.SetRate(id, units.Gbps+100*units.Kbps); err != nil || s.NextDue() != 131072*units.Nanosecond {
		t.Errorf("a gain below PullIn moved the segment to %v", s.NextDue())
	}
	if err := s.SetRate(id, Unpaced); err != nil || s.NextDue() != 0 {
		t.Errorf("unpaced, it is due at %v", s.NextDue())
	}
}

func TestAnIncreaseLeavesNoSegmentLateByMoreThanPullIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DefaultConfig()
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := units.Rate(rapid.Int64Range(int64(units.Mbps), int64(20*units.Gbps)).Draw(t, "rate"))
		id, err := s.AddFlow(r)
		if err != nil {
			t.Fatal(err)
		}
		s.Enqueue(0, id, segment)
		s.Dequeue(0)
		s.Enqueue(0, id, segment)
		for range rapid.IntRange(1, 200).Draw(t, "increases") {
			r += units.Rate(rapid.Int64Range(1, int64(units.Gbps)).Draw(t, "by"))
			if err := s.SetRate(id, r); err != nil {
				t.Fatal(err)
			}
			if late := s.NextDue() - r.Serialize(segment); late > cfg.PullIn {
				t.Fatalf("at %v the segment is %v late", r, late)
			}
		}
	})
}

func TestTimesFarApart(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	// One byte each at these rates: from 8 ps to 92 days, and never.
	rates := []units.Rate{units.Tbps, units.Gbps, units.Kbps, 1}
	for _, r := range rates {
		id := addFlow(t, s, r)
		s.Enqueue(0, id, 1)
		s.Dequeue(0)
		s.Enqueue(0, id, 1)
	}
	for i, want := range []units.Time{8, 8 * units.Nanosecond, 8 * units.Millisecond, 8 * units.Second} {
		if id, now := release(t, s); now != want || int(id) != i {
			t.Errorf("flow %d left at %v, want flow %d at %v", id, now, i, want)
		}
	}
	slow := addFlow(t, s, 1)
	s.Enqueue(8*units.Second, slow, 1_000_000)
	s.Dequeue(8 * units.Second)
	s.Enqueue(8*units.Second, slow, 1)
	if got, want := s.NextDue(), 8_000_008*units.Second; got != want {
		t.Errorf("92 days ahead: due at %v, want %v", got, want)
	}
	s.Dequeue(s.NextDue())
	s.Enqueue(8_000_008*units.Second, slow, 1<<31)
	s.Dequeue(s.NextDue())
	s.Enqueue(8_000_008*units.Second, slow, 1)
	if got := s.NextDue(); got != units.Never {
		t.Errorf("a gap of 500 years ends at %v", got)
	}
	if err := s.SetRate(slow, units.Gbps); err != nil {
		t.Fatal(err)
	}
	if _, now := release(t, s); now != 8_000_016*units.Second+units.Gbps.Serialize(1<<31) {
		t.Errorf("after the increase the flow was freed at %v", now)
	}
}

func TestTimeDoesNotRunBackwards(t *testing.T) {
	s := newScheduler(t, Config{})
	id := addFlow(t, s, 8*units.Gbps)
	s.Enqueue(units.Second, id, 1000)
	if _, ok := s.Dequeue(0); !ok {
		t.Error("a segment that was due is due no more")
	}
	s.Enqueue(0, id, 1000)
	if got, want := s.NextDue(), units.Second+units.Microsecond; got != want {
		t.Errorf("due at %v, want %v", got, want)
	}
}

func TestRemovedFlowsAreForgotten(t *testing.T) {
	for _, r := range []units.Rate{units.Mbps, Unpaced} { // in the wheel and in the ring
		s := newScheduler(t, DefaultConfig())
		stays, goes := addFlow(t, s, r), addFlow(t, s, r)
		for _, id := range []FlowID{goes, stays} {
			s.Enqueue(0, id, 1000)
			s.Dequeue(0)
		}
		s.Enqueue(0, goes, 1000)
		s.Enqueue(0, stays, 1000)
		s.RemoveFlow(goes)
		again := addFlow(t, s, 8*units.Gbps)
		if again != goes {
			t.Fatalf("the ID %d is not used again, but %d", goes, again)
		}
		if s.Queued(again) || s.Len() != 1 {
			t.Fatal("the new flow has the old one's segment")
		}
		s.Enqueue(0, again, 1000)
		if due := s.NextDue(); due != 0 {
			t.Errorf("the new flow is held back by the old one's pace, to %v", due)
		}
		seen := map[FlowID]int{}
		for s.Len() > 0 {
			id, _ := release(t, s)
			seen[id]++
		}
		if seen[stays] != 1 || seen[again] != 1 {
			t.Errorf("released %v", seen)
		}
	}
}

func TestWithdrawnSegmentsDoNotCount(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	id := addFlow(t, s, 8*units.Gbps)
	if s.Withdraw(id) {
		t.Error("withdrew nothing")
	}
	s.Enqueue(0, id, 1000)
	s.Dequeue(0)
	s.Enqueue(0, id, 50_000)
	if !s.Withdraw(id) || s.NextDue() != units.Never {
		t.Error("still there")
	}
	s.Enqueue(0, id, 1000)
	if got := s.NextDue(); got != units.Microsecond {
		t.Errorf("due at %v, want 1us", got)
	}
}

func TestBadInput(t *testing.T) {
	good := DefaultConfig()
	for field, c := range map[string]Config{
		"LineRate": {LineRate: -1},
		"Burst":    {Burst: 2 * units.GiB},
		"CatchUp":  {CatchUp: -1},
		"PullIn":   {PullIn: 2 * longest},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
	s := newScheduler(t, good)
	id := addFlow(t, s, units.Gbps)
	for _, r := range []units.Rate{0, -1} {
		if _, err := s.AddFlow(r); err == nil {
			t.Errorf("a flow of rate %v", r)
		}
		if err := s.SetRate(id, r); err == nil || s.Rate(id) != units.Gbps {
			t.Errorf("rate %v was set", r)
		}
	}
	for what, misuse := range map[string]func(){
		"enqueued already": func() { s.Enqueue(0, id, 1); s.Enqueue(0, id, 1) },
		"size":             func() { s.Withdraw(id); s.Enqueue(0, id, -1) },
		"does not exist":   func() { s.RemoveFlow(7) },
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, what) {
					t.Errorf("panic %q does not say %q", said, what)
				}
			}()
			misuse()
		}()
	}
}

func TestNoAllocations(t *testing.T) {
	s := newScheduler(t, DefaultConfig())
	for i := range 1000 {
		s.Enqueue(0, addFlow(t, s, units.Gbps+units.Rate(i)), segment)
	}
	i := 0
	if n := testing.AllocsPerRun(10_000, func() {
		now := s.NextDue()
		id, ok := s.Dequeue(now)
		if !ok {
			return
		}
		s.Enqueue(now, id, segment)
		i++
		other := FlowID(i % 1000)
		if err := s.SetRate(other, units.Rate(1+i%7)*units.Gbps); err != nil {
			t.Fatal(err)
		}
		if s.Withdraw(other) {
			s.Enqueue(now, other, segment)
		}
	}); n != 0 {
		t.Errorf("%v allocations a segment", n)
	}
}

// Who comes late and goes through what came due in the order of time makes up for
// CatchUp from now, and not once more from each of those times.
func TestDequeueAtCatchesUpOnce(t *testing.T) {
	const gap, late, catchUp = 100 * units.Microsecond, 50 * units.Microsecond, 10 * units.Microsecond
	s, err := New(Config{CatchUp: catchUp})
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.AddFlow(units.Gbps)
	if err != nil {
		t.Fatal(err)
	}
	s.Offer(0, id, 12_500)
	s.Enqueue(0, id, 12_500)
	if _, ok := s.DequeueAt(gap-1, gap+late); ok {
		t.Error("a segment that was not due yet at the time given left")
	}
	if _, ok := s.DequeueAt(gap+late-catchUp, gap+late); !ok {
		t.Fatal("nothing is due")
	}
	s.Enqueue(gap+late, id, 12_500)
	if got, want := s.NextDue(), gap+late-catchUp+gap; got != want {
		t.Errorf("the next is due at %v, want %v", got, want)
	}
}
