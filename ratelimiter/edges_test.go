package ratelimiter

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// A segment that an increase of the rate makes due at once is not late: CatchUp is for
// callers that come late.
func TestAnIncreaseIsNoLateness(t *testing.T) {
	s := newScheduler(t, Config{CatchUp: 10 * units.Microsecond})
	id := addFlow(t, s, 100*units.Mbps)
	s.Offer(0, id, segment)
	s.Enqueue(0, id, segment) // due more than a millisecond later
	const now = 900 * units.Microsecond
	if _, ok := s.Dequeue(now); ok {
		t.Fatal("a segment left before its time")
	}
	if err := s.SetRate(id, 10*units.Gbps); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.Dequeue(now); !ok || got != id {
		t.Fatal("the segment is not due after the increase")
	}
	if got, want := s.Next(id), now+(10*units.Gbps).Serialize(segment); got != want {
		t.Errorf("the next may leave at %v, expected %v", got, want)
	}
}

// A caller whose time runs backwards has no more made up for than one whose time stands.
func TestCatchUpByTheLatestTime(t *testing.T) {
	for _, now := range []units.Time{500 * units.Microsecond, 0} {
		s := newScheduler(t, Config{CatchUp: 10 * units.Microsecond})
		id, other := addFlow(t, s, units.Gbps), addFlow(t, s, Unpaced)
		s.Offer(0, id, segment)
		s.Enqueue(0, id, segment)
		s.Enqueue(500*units.Microsecond, other, 1)
		if got, ok := s.Dequeue(now); !ok || got != id {
			t.Fatalf("flow %d left, %v, expected %d", got, ok, id)
		}
		if got, want := s.Next(id), 490*units.Microsecond+units.Gbps.Serialize(segment); got != want {
			t.Errorf("dequeued at %v: the next may leave at %v, expected %v", now, got, want)
		}
	}
}

// A segment that goes before all others, and is taken back, ends its flow's turn.
func TestAWithdrawalEndsATurn(t *testing.T) {
	s := newScheduler(t, Config{})
	a, b := addFlow(t, s, Unpaced), addFlow(t, s, Unpaced)
	if err := s.SetWeight(a, 3); err != nil {
		t.Fatal(err)
	}
	s.Enqueue(0, a, 1)
	s.Enqueue(0, b, 1)
	if id, _ := s.Dequeue(0); id != a {
		t.Fatalf("flow %d left first", id)
	}
	s.Enqueue(0, a, 1) // its turn goes on
	s.Withdraw(a)
	s.Enqueue(0, a, 1)
	if got, want := turn(t, s, 5), []FlowID{b, a, a, a, b}; !slices.Equal(got, want) {
		t.Errorf("%v left, expected %v", got, want)
	}
}

// The flow behind one whose turn goes on can be taken back too.
func TestAWithdrawalBehindATurn(t *testing.T) {
	s := newScheduler(t, Config{})
	a, b := addFlow(t, s, Unpaced), addFlow(t, s, Unpaced)
	if err := s.SetWeight(a, 2); err != nil {
		t.Fatal(err)
	}
	s.Enqueue(0, a, 1)
	s.Enqueue(0, b, 1)
	if id, _ := s.Dequeue(0); id != a {
		t.Fatalf("flow %d left first", id)
	}
	s.Enqueue(0, a, 1)
	s.Withdraw(b)
	if id, ok := s.Dequeue(0); !ok || id != a {
		t.Errorf("flow %d left, %v, expected %d", id, ok, a)
	}
	if _, ok := s.Dequeue(0); ok || s.Len() != 0 {
		t.Errorf("%d segments are left", s.Len())
	}
}

func TestTheLargestBurst(t *testing.T) {
	if _, err := New(Config{Burst: units.GiB}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{Burst: units.GiB + 1}); err == nil {
		t.Error("a larger burst was taken")
	}
}

// Times before 0 come before times after 0, however far they are apart.
func TestTimesOfBothSigns(t *testing.T) {
	s := newScheduler(t, Config{})
	const begin = units.Time(math.MinInt64) / 4 * 3
	var due []units.Time
	for _, r := range []units.Rate{4000, 6000, 8000} { // 99, 66 and 50 days
		id := addFlow(t, s, r)
		s.Offer(begin, id, math.MaxUint32)
		if s.Next(id) == units.Never {
			t.Fatalf("a gap at %v is too long", r)
		}
		s.Enqueue(begin, id, 1)
		due = append(due, s.Due(id))
	}
	slices.Sort(due)
	if due[0] > 0 || due[2] < 0 {
		t.Fatalf("due times %v have one sign", due)
	}
	for _, want := range due {
		if got := s.NextDue(); got != want {
			t.Errorf("the next is due at %v, expected %v", got, want)
		}
		release(t, s)
	}
}
