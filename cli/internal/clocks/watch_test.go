package clocks

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// watchedWorld is a choice over a world's NIC and PTP clock.
func watchedWorld(w *world) (*Choice, *device) {
	w.rng = rand.New(rand.NewPCG(8, 9))
	d := &device{w: w}
	read := func(f func() uint64) func() (calibration.Sample, error) {
		return func() (calibration.Sample, error) {
			before := w.now
			w.pass()
			x := f()
			w.pass()
			return calibration.Sample{HostBefore: before, NIC: x, HostAfter: w.now}, d.fails
		}
	}
	return &Choice{
		Device: runner{d},
		Source: &Source{Kind: NIC, Hz: w.nicHz, Bits: w.nicBits, sample: read(w.nic)},
		PTP:    &Source{Kind: PTP, Hz: 1e9, Bits: 64, sample: read(func() uint64 { return uint64(w.ptp()) })},
	}, d
}

func TestWatch(t *testing.T) {
	w := &world{nicHz: 156.25e6, nicBits: 32, nicPPM: 40, ptpPPM: 47, now: 3 * units.Second}
	c, _ := watchedWorld(w)
	var points []Point
	s, err := Watch(t.Context(), c, 10*units.Second, 100*units.Millisecond, func(p Point) { points = append(points, p) })
	if err != nil {
		t.Fatal(err)
	}
	// Reading takes time, so a point may be a little late, never early.
	if len(points) != 100 || s.Points != 100 || s.Restarts != 0 || s.Err != nil {
		t.Fatalf("%d points, %+v", len(points), s)
	}
	first := points[0]
	for i, p := range points {
		nominal := units.Time(i+1) * 100 * units.Millisecond
		if p.At < nominal || p.At > nominal+units.Millisecond {
			t.Errorf("point %d at %v", i, p.At)
		}
		if p.Reason != calibration.Trusted || p.Taken == 0 || p.Bracket <= 0 || p.Failed != 0 {
			t.Errorf("point %d: %+v", i, p)
		}
		// The counter gains 40 ppm on the host.
		want := (p.At - first.At).Seconds() * 40e-6
		if got := p.Offset.Seconds(); math.Abs(got-want) > (p.Bound+first.Bound).Seconds()+2/w.nicHz {
			t.Errorf("point %d: offset %v, want %gs within %v", i, p.Offset, want, p.Bound+first.Bound)
		}
	}
	// The period is shorter by 40 ppm, less the square.
	if last := s.Last; math.Abs(last.DriftPPM+40) > last.DriftBoundPPM+0.01 || s.MinBound <= 0 || s.MaxBound < s.MinBound {
		t.Errorf("last %+v, bounds %v to %v", last, s.MinBound, s.MaxBound)
	}
	if s.Compared == nil || s.Compared.Verdict != TwoClocks || math.Abs(s.Compared.RatePPM-7) > s.Compared.RateBoundPPM {
		t.Errorf("compared %+v", s.Compared)
	}
}

func TestWatchOfWhatFails(t *testing.T) {
	w := &world{nicHz: 1e9, nicBits: 64}
	c, d := watchedWorld(w)
	d.fails = errTest
	failed := 0
	s, err := Watch(t.Context(), c, units.Second, 100*units.Millisecond, func(p Point) { failed += p.Failed })
	if err != nil || s.Err != errTest || failed < 50 || s.Last.Reason != calibration.TooFewSamples || s.MaxBound != 0 || s.Last.Offset != 0 {
		t.Errorf("%d failed, %+v, %v", failed, s, err)
	}
}

func TestWatchThroughAReset(t *testing.T) {
	w := &world{nicHz: 1e9, nicBits: 64, nicStart: 1 << 40}
	c, _ := watchedWorld(w)
	n := 0
	s, err := Watch(t.Context(), c, 2*units.Second, 100*units.Millisecond, func(p Point) {
		if n++; n == 10 {
			w.nicStart = 0 // its counter starts over, 1.1e12 ns lower
		}
		if p.Reason == calibration.Trusted && p.Offset.Seconds() > 1e-3 {
			t.Errorf("point %d: offset %v counts the reset", n, p.Offset)
		}
	})
	if err != nil || s.Restarts != 1 || s.Last.Generation != 2 || s.Last.Reason != calibration.Trusted {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	c, _ := watchedWorld(&world{nicHz: 1e9, nicBits: 64})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Watch(ctx, c, 3600*units.Second, units.Second, func(p Point) {
		if p.At > 5*units.Second {
			cancel()
		}
	})
	if err != nil || s.Points != 6 && s.Points != 5 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWatchOfAnImpossibleClock(t *testing.T) {
	c, _ := watchedWorld(&world{nicHz: 1, nicBits: 64})
	if _, err := Watch(t.Context(), c, units.Second, units.Second, func(Point) {}); err == nil {
		t.Error("a counter of 1 Hz was watched")
	}
}

func TestKindText(t *testing.T) {
	for k := Any; k <= Host; k++ {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	if _, err := ParseKind("gps"); err == nil {
		t.Error("gps was taken")
	}
	for _, s := range []string{Kind(99).String(), Verdict(99).String()} {
		if s != "Kind(99)" && s != "Verdict(99)" {
			t.Error(s)
		}
	}
}
