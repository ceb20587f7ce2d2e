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
