package telemetry

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

func TestIncastRules(t *testing.T) {
	v := V1ModelIncast(50, 25*units.Gbps, 120*units.KiB, 2*units.Microsecond)
	if want := (IncastRule{Window: 50, Growth: 640, Time: 25000, HighWater: 1536, MaxGap: 2}); v != want {
		t.Errorf("v1model: %+v, want %+v", v, want)
	}
	for _, c := range []struct {
		rate   units.Rate
		growth uint64
	}{{25 * units.Gbps, 96}, {50 * units.Gbps, 48}, {100 * units.Gbps, 24}, {200 * units.Gbps, 12}, {400 * units.Gbps, 6}} {
		r, ok := TofinoIncast(50, c.rate, 120*units.KiB, 1024*units.Nanosecond)
		if want := (IncastRule{Window: 50, Growth: c.growth, Time: 1, HighWater: 1536, MaxGap: 1024}); !ok || r != want {
			t.Errorf("%v: %+v, want %+v", c.rate, r, want)
		}
		// 640 / growth Gbps is 0.267 of the rate.
		if threshold := 640 * float64(units.Gbps) / float64(r.Growth) / float64(c.rate); threshold < 0.26 || threshold > 0.27 {
			t.Errorf("%v: the threshold is %v of it", c.rate, threshold)
		}
	}
	if _, ok := TofinoIncast(50, 10*units.Gbps, 0, 0); ok {
		t.Error("there is no action for 10 Gbps")
	}
}

func TestIncastHysteresis(t *testing.T) {
	r := IncastRule{Window: 2, Growth: 1, Time: 1, HighWater: 10, MaxGap: 4}
	var s Incast
	for i, step := range []struct {
		now, queue uint64
		want       bool
	}{
		{1000, 4, false}, // 4 units in a gap that counts for 4 ticks
		{1000, 5, true},  // grown by 5 since the switch began, in 4
		{1000, 30, true}, // by 26 in no time
		{1020, 11, true}, // above high water
		{1024, 10, false},
		{1024, 11, false}, // no growth in no time
		{1024, 12, true},
		{1030, 10, false},
	} {
		if got := s.Dequeue(&r, step.now, step.queue); got != step.want {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// What is kept of the last dequeues says the same as the sums of the listing's
// differences, each of the times cut at the longest gap.
func TestIncastIsTheSumOfTheDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := IncastRule{
			Window: rapid.IntRange(1, 8).Draw(t, "window"), Growth: rapid.Uint64Range(1, 700).Draw(t, "growth"),
			Time: rapid.Uint64Range(0, 1000).Draw(t, "time"), HighWater: rapid.Uint64Range(0, 100).Draw(t, "high water"),
			MaxGap: rapid.Uint64Range(0, 50).Draw(t, "max gap"),
		}
		var s Incast
		var queues, gaps []int64
		var now, last, lastQueue uint64
		on := false
		for range rapid.IntRange(1, 60).Draw(t, "dequeues") {
			now += rapid.Uint64Range(0, 60).Draw(t, "dt")
			queue := rapid.Uint64Range(0, 200).Draw(t, "queue")
			queues, gaps = append(queues, int64(queue)-int64(lastQueue)), append(gaps, int64(min(now-last, r.MaxGap)))
			last, lastQueue = now, queue
			var grown, took int64
			for i := max(0, len(queues)-r.Window); i < len(queues); i++ {
				grown, took = grown+queues[i], took+gaps[i]
			}
			if grown*int64(r.Growth) > took*int64(r.Time) {
				on = true
			} else if queue <= r.HighWater {
				on = false
			}
			if got := s.Dequeue(&r, now, queue); got != on {
				t.Fatalf("at %d with %d: %v, want %v", now, queue, got, on)
			}
		}
	})
}
