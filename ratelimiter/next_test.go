package ratelimiter

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Next is a gap after what left last, whether or not a segment is there.
func TestNext(t *testing.T) {
	s, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.AddFlow(units.Gbps)
	if err != nil {
		t.Fatal(err)
	}
	want := func(at units.Time) {
		t.Helper()
		if got := s.Next(id); got != at {
			t.Errorf("next at %v, expected %v", got, at)
		}
	}
	want(math.MinInt64) // nothing has left
	const start = 3 * units.Microsecond
	if !s.Offer(start, id, segment) {
		t.Fatal("the first segment has to wait")
	}
	want(start + units.Gbps.Serialize(segment))
	for _, r := range []units.Rate{100 * units.Mbps, 10 * units.Gbps} {
		if err := s.SetRate(id, r); err != nil {
			t.Fatal(err)
		}
		want(start + r.Serialize(segment))
	}
	if err := s.SetRate(id, Unpaced); err != nil {
		t.Fatal(err)
	}
	want(math.MinInt64)
}

// A segment that left counts as long as it proved to be, for the one after it.
func TestResize(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.AddFlow(units.Gbps)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []units.Bytes{0, 64, 2 * segment} {
		s.Enqueue(s.Next(id)+units.Second, id, segment)
		now := s.NextDue()
		if got, ok := s.Dequeue(now); !ok || got != id {
			t.Fatal("the segment is not due")
		}
		s.Resize(id, n)
		if at := s.Next(id); at != now+units.Gbps.Serialize(n) {
			t.Errorf("after one of %v the next is due at %v, expected %v", n, at, now+units.Gbps.Serialize(n))
		}
	}
}
