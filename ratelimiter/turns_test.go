package ratelimiter

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// turn has n segments leave, each followed at once by the flow's next, and returns whose
// they were.
func turn(t *testing.T, s *Scheduler, n int) []FlowID {
	t.Helper()
	var left []FlowID
	for range n {
		id, ok := s.Dequeue(0)
		if !ok {
			t.Fatal("nothing is due")
		}
		left = append(left, id)
		s.Enqueue(0, id, 1000)
	}
	return left
}

func TestFlowsHaveTurnsOfTheirWeights(t *testing.T) {
	s := newScheduler(t, Config{})
	for i, w := range []int{1, 3, 2} {
		id := addFlow(t, s, Unpaced)
		if err := s.SetWeight(id, w); err != nil {
			t.Fatal(err)
		}
		if int(id) != i {
			t.Fatalf("flow %d has the ID %d", i, id)
		}
		s.Enqueue(0, id, 1000)
	}
	if got, want := turn(t, s, 12), []FlowID{0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("%v left, want %v", got, want)
	}

	// A flow that pauses loses what is left of its turn, and has a whole one later.
	s.Withdraw(0)
	if got, want := turn(t, s, 1), []FlowID{1}; !slices.Equal(got, want) {
		t.Fatalf("%v left, want %v", got, want)
	}
	s.Withdraw(1)
	if got, want := turn(t, s, 1), []FlowID{2}; !slices.Equal(got, want) {
		t.Fatalf("%v left, want %v", got, want)
	}
	s.Enqueue(0, 1, 1000)
	if got, want := turn(t, s, 6), []FlowID{2, 1, 1, 1, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("%v left, want %v", got, want)
	}

	for _, w := range []int{0, -1, MaxWeight + 1} {
		if err := s.SetWeight(1, w); err == nil {
			t.Errorf("a weight of %d was taken", w)
		}
	}
}

// A flow that nobody contends with begins one turn after the other; who comes then waits until
// the present one is over.
func TestAFlowAloneBeginsTurns(t *testing.T) {
	for alone := 1; alone <= 4; alone++ {
		s := newScheduler(t, Config{})
		a, b := addFlow(t, s, Unpaced), addFlow(t, s, Unpaced)
		if err := s.SetWeight(a, 2); err != nil {
			t.Fatal(err)
		}
		s.Enqueue(0, a, 1000)
		turn(t, s, alone-1)
		s.Enqueue(0, b, 1000)
		want := []FlowID{a, b, a, a, b}
		if alone%2 == 1 {
			want = []FlowID{a, a, b, a, a, b}
		}
		if got := turn(t, s, len(want)); !slices.Equal(got, want) {
			t.Errorf("after %d alone %v left, want %v", alone-1, got, want)
		}
	}
}

// The ID of a removed flow comes back with weight 1.
func TestRemovedFlowsHaveNoWeight(t *testing.T) {
	s := newScheduler(t, Config{})
	a, b := addFlow(t, s, Unpaced), addFlow(t, s, Unpaced)
	if err := s.SetWeight(a, 5); err != nil {
		t.Fatal(err)
	}
	s.RemoveFlow(a)
	a = addFlow(t, s, Unpaced)
	s.Enqueue(0, a, 1000)
	s.Enqueue(0, b, 1000)
	if got, want := turn(t, s, 4), []FlowID{a, b, a, b}; !slices.Equal(got, want) {
		t.Errorf("%v left, want %v", got, want)
	}
}

// Weights are shares of the segments while flows contend, and no matter to a paced
// flow that has the line to itself.
func TestWeightsDoNotHastenPacedFlows(t *testing.T) {
	s := newScheduler(t, Config{})
	id := addFlow(t, s, 8*units.Gbps)
	if err := s.SetWeight(id, 10); err != nil {
		t.Fatal(err)
	}
	now := units.Time(0)
	for k := range 20 {
		s.Enqueue(now, id, 1000)
		now = max(now, s.NextDue())
		if _, ok := s.Dequeue(now); !ok || now != units.Time(k)*units.Microsecond {
			t.Fatalf("segment %d left at %v", k, now)
		}
	}
}
