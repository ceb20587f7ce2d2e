package fabric

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// reference is Pulser's Algorithm 1 as its text has it, with all that was dequeued
// kept: the mean of the last n gradients in bytes per second.
type reference struct {
	times     []units.Time
	queues    []int32
	n         int
	threshold float64
	highWater int32
	on        bool
}

func (r *reference) average() float64 {
	sum := 0.0
	for i := max(1, len(r.times)-r.n); i < len(r.times); i++ {
		sum += float64(r.queues[i]-r.queues[i-1]) / (r.times[i] - r.times[i-1]).Seconds()
	}
	return sum / float64(r.n)
}

func (r *reference) dequeue(now units.Time, queue int32) bool {
	r.times, r.queues = append(r.times, now), append(r.queues, queue)
	if r.average() > r.threshold {
		r.on = true
	} else if queue <= r.highWater {
		r.on = false
	}
	return r.on
}

func TestIncastIsAlgorithm1(t *testing.T) {
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		rate := units.Rate(rapid.Int64Range(1, 800).Draw(t, "rate")) * units.Gbps
		n := rapid.IntRange(1, 60).Draw(t, "window")
		gradient := rapid.Float64Range(0.05, 2).Draw(t, "gradient")
		rule := newIncastRule(Notice{Window: n, Gradient: gradient, HighWater: 30_000}, rate, 0)
		s := incast{gradients: make([]int64, n)}
		want := reference{n: n, threshold: gradient * float64(rate) / 8, highWater: 30_000}
		now, queue := units.Time(0), int32(0)
		up := 0
		for range rapid.IntRange(1, 300).Draw(t, "dequeues") {
			if up--; up < -30 {
				up = rapid.IntRange(0, 60).Draw(t, "rises for")
			}
			size := units.Bytes(rapid.IntRange(64, 4352).Draw(t, "size"))
			now += rate.Serialize(size) + units.Time(rapid.SampledFrom([]int{0, 0, 0, 1, 1000}).Draw(t, "idle"))*units.Microsecond
			change := int32(rapid.IntRange(-4000, 2000).Draw(t, "change"))
			if up > 0 {
				change = -change
			}
			queue = max(0, queue+change)
			a := want.dequeue(now, queue)
			b := s.dequeue(&rule, now, queue)
			if d := want.average() - want.threshold; a != b && (d > 1e-6*want.threshold || d < -1e-6*want.threshold) {
				t.Fatalf("dequeue %d: EIN %v, want %v; the average is %v of the threshold", len(want.times), b, a, want.average()/want.threshold)
			}
			s.on, want.on = a, a
			seen[a]++
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("nothing was compared: %v", seen)
	}
}

// A queue that sixteen senders fill is an incast with the first packet that leaves
// after it began; one that two fill with a quarter more than the line takes is none;
// one at half as much again is, when it has lasted for half a window.
func TestIncastDetection(t *testing.T) {
	const rate, size = 10 * units.Gbps, 1500
	service := rate.Serialize(size)
	for _, c := range []struct {
		name   string
		growth float64 // of the line rate
		first  int     // dequeue of the growth, from 1, that is marked; 0: none
	}{
		{"sixteen to one", 15, 1},
		{"four to one", 3, 5},           // 5 of 50 samples at 3 are 0.3
		{"three halves", 0.5, 26},       // 26 of 50 at 0.5 are 0.26
		{"five quarters", 0.25, 0},      // on the threshold itself
		{"a line that is full", 0, 0},   //
		{"and one that drains", -10, 0}, //
	} {
		rule := newIncastRule(Notice{Window: 50, Gradient: 0.25, HighWater: 1 << 30}, rate, 0)
		s := incast{gradients: make([]int64, 50)}
		now, queue, first := units.Time(0), 3_000_000.0, 0
		for i := -100; i < 200; i++ {
			now += service
			if i > 0 {
				queue += c.growth * size
			}
			if s.dequeue(&rule, now, int32(queue)) && first == 0 {
				first = i
			}
		}
		if first != c.first {
			t.Errorf("%s: first marked at dequeue %d, want %d", c.name, first, c.first)
		}
	}
}

// Marks last for as long as the queue is above the high-water mark, and not longer.
func TestIncastHysteresis(t *testing.T) {
	const rate, size = 10 * units.Gbps, 1500
	rule := newIncastRule(Notice{Window: 5, Gradient: 0.25, HighWater: 45_000}, rate, 0)
	s := incast{gradients: make([]int64, 5)}
	now, queue := units.Time(0), int32(0)
	leave := func(change int32) bool {
		now += rate.Serialize(size)
		queue += change
		return s.dequeue(&rule, now, queue)
	}
	leave(0)
	if !leave(90_000) {
		t.Fatal("60 packets at once are no incast")
	}
	for range 3 {
		leave(0)
	}
	for queue > 45_000+size {
		if !leave(-size) {
			t.Fatalf("with %d bytes behind the mark is gone", queue)
		}
	}
	if leave(-size) {
		t.Errorf("with %d bytes behind the packet is marked", queue)
	}
	if leave(size) {
		t.Errorf("above the high-water mark again, without an incast, the packet is marked")
	}
}

// A high-water mark goes with the port's rate as ECN's thresholds do.
func TestIncastAtRate(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].ECN = ECN{Kmin: 50_000, Kmax: 50_000, AtRate: 10 * units.Gbps}
	cfg.Switch.Classes[0].EIN = Notice{Window: 50, Gradient: 0.25, HighWater: 100_000}
	k := newKind(&cfg, &kindKey{link: Link{Rate: 40 * units.Gbps}, from: cfg.Switch})
	if got := k.class[0].ein; got.highWater != 400_000 || got.sum != 50*10_000_000_000 || k.class[0].kmax != 200_000 {
		t.Errorf("at 40 Gbps the rule is %+v, ECN from %d", got, k.class[0].kmax)
	}
}
