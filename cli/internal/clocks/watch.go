package clocks

import (
	"context"
	"time"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Point is the state of a calibration at one time.
type Point struct {
	At units.Time // since Watch began, by the host's clock
	// Offset is what the source has gained on the host's clock since the first
	// sample of this generation, counting its ticks at the nominal rate. It is
	// 0 until the calibration is trusted.
	Offset units.Time
	calibration.Status
	// Bracket is the narrowest between which the source was read since the last
	// Point.
	Bracket units.Time
	// Taken and Failed are the readings since the last Point.
	Taken, Failed int
}

// Summary is what a Watch saw.
type Summary struct {
	Last     Point
	Points   int
	Restarts int // steps, resets and gaps
	// MinBound and MaxBound are those of trusted Points; 0 without any.
	MinBound, MaxBound units.Time
	Err                error     // of the last reading that failed
	Compared           *Compared // with the choice's PTP clock, if it has one
}

// Watch calibrates against the choice's source for a time of the device's clock,
// and calls each with a Point at every interval. It samples as the calibration advises, as
// a shim does. ctx ends it early, which is no error. It fails if the source has an
// impossible rate or width. On a simulated device it must be called in verbs.Run.
func Watch(ctx context.Context, c *Choice, duration, interval units.Time, each func(Point)) (*Summary, error) {
	w, err := newWatched(c.Source)
	if err != nil {
		return nil, err
	}
	var other *watched
	var compare *Comparison
	if c.PTP != nil {
		if other, err = newWatched(c.PTP); err != nil {
			return nil, err
		}
		compare = NewComparison(c.Source, c.PTP)
	}
	now := HostClock(c.Device)
	begin := now()
	row := begin + interval
	sum := &Summary{}
	for ctx.Err() == nil {
		t := now()
		if t >= row || t >= begin+duration {
			p := w.point(t, begin)
			sum.add(p)
			each(p)
			if other != nil {
				compare.Add(t, w.cal, other.cal)
				r := compare.Result()
				sum.Compared = &r
			}
			if t >= begin+duration {
				break
			}
			row += interval * (1 + (t-row)/interval)
		}
		due := w.due
		if other != nil {
			due = min(due, other.due)
		}
		if t < due {
			sleep(ctx, c.Device, min(due, row, begin+duration)-t)
			continue
		}
		if err := w.read(now); err != nil {
			sum.Err = err
		}
		if other != nil {
			if err := other.read(now); err != nil {
				sum.Err = err
			}
		}
	}
	sum.Restarts = w.restarts
	return sum, nil
}

func (s *Summary) add(p Point) {
	s.Last = p
	s.Points++
	if p.Reason != calibration.Trusted {
		return
	}
	if s.MinBound == 0 || p.Bound < s.MinBound {
		s.MinBound = p.Bound
	}
	s.MaxBound = max(s.MaxBound, p.Bound)
}

// watched is a source with its calibration.
type watched struct {
	src      *Source
	cal      *calibration.Calibrator
	due      units.Time
	restarts int
	taken    int
	failed   int
	bracket  units.Time
	// Where Offset counts from.
	clock comparedClock
	host0 units.Time
	last  units.Time
	base  bool
}

func newWatched(s *Source) (*watched, error) {
	cal, err := calibration.New(calibration.DefaultConfig(s.Bits, s.Hz))
	return &watched{src: s, cal: cal, due: -units.Never, bracket: units.Never, clock: comparedClock{hz: s.Hz, bits: s.Bits}}, err
}

// read takes one sample.
func (w *watched) read(now func() units.Time) error {
	x, err := w.src.Sample()
	if err != nil {
		w.failed++
		w.due = now() + 10*units.Millisecond
		return err
	}
	w.taken++
	w.bracket = min(w.bracket, x.HostAfter-x.HostBefore)
	switch w.cal.Add(x) {
	case calibration.Stepped, calibration.Reset, calibration.Gap:
		w.restarts++
	}
	w.due = max(w.cal.NextSample(), x.HostAfter+units.Millisecond)
	return nil
}

func (w *watched) point(t, begin units.Time) Point {
	p := Point{At: t - begin, Status: w.cal.Status(t), Taken: w.taken, Failed: w.failed}
	if w.bracket != units.Never {
		p.Bracket = w.bracket
	}
	w.taken, w.failed, w.bracket = 0, 0, units.Never
	ticks, _, ok := w.cal.ToNIC(t)
	switch {
	case !ok || p.Reason != calibration.Trusted:
		w.base = false
	case !w.base || p.Generation != w.clock.gen:
		w.base, w.host0 = true, t
		w.clock.gen, w.clock.raw, w.clock.ticks = p.Generation, ticks, 0
	default:
		w.clock.advance(ticks, (t - w.last).Seconds())
		p.Offset = units.FromSeconds(w.clock.ticks/w.clock.hz - (t - w.host0).Seconds())
	}
	w.last = t
	return p
}

// sleep lets d of the device's time pass, or less if ctx ends.
func sleep(ctx context.Context, dev verbs.Device, d units.Time) {
	if d <= 0 {
		return
	}
	if r, ok := dev.(verbs.Runner); ok {
		r.Sleep(max(d.Duration(), time.Nanosecond))
		return
	}
	t := time.NewTimer(max(d.Duration(), time.Microsecond))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
