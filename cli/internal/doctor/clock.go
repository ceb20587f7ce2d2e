package doctor

import (
	"time"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/cli/internal/clocks"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// clock looks for the best clock for completion times and calibrates against it.
func (e *examination) clock() error {
	s := e.report.section("completion times")
	a := e.dev.Attr()
	if a.CoreClockHz > 0 {
		s.add(OK, "timestamps", "completions have them: %.6g MHz, %d bits", a.CoreClockHz/1e6, a.ClockBits)
	} else {
		s.add(Warn, "timestamps", "completions have none: round trips end when they are polled, so a busy host looks like a busy network").
			mend(perf.Stamped)
	}
	choice, err := clocks.Choose(e.dev, clocks.Options{})
	if err != nil {
		s.add(Fail, "clock", "%v", err)
		return nil
	}
	for _, p := range choice.Passed {
		s.add(Note, p.Kind.String()+" clock", "not taken: %s", p.Why)
	}
	s.add(OK, "source", "%s, by %s: %s", choice.Source.Name, choice.Source.Method, choice.Source.Why)
	if choice.Source.Kind != clocks.Host {
		e.calibrate(s, choice.Source)
	}
	if err := choice.Close(); err != nil {
		s.add(Warn, "clock", "%v", err)
	}
	return nil
}

// calibrate takes a few samples, as the start of any program does.
func (e *examination) calibrate(s *Section, source *clocks.Source) {
	c, err := calibration.New(calibration.DefaultConfig(source.Bits, source.Hz))
	if err != nil {
		s.add(Fail, "calibration", "%v", err)
		return
	}
	const samples, apart = 32, 2 * time.Millisecond
	narrowest := units.Never
	var last units.Time
	for range samples {
		sample, err := source.Sample()
		if err != nil {
			s.add(Fail, "calibration", "the clock can't be read: %v", err)
			return
		}
		c.Add(sample)
		narrowest, last = min(narrowest, sample.HostAfter-sample.HostBefore), sample.HostAfter
		verbs.Sleep(e.dev, apart)
	}
	status := c.Status(last)
	if status.Reason != calibration.Trusted {
		s.add(Warn, "calibration", "not trusted after %d samples: %v; the clock is read within %v", samples, status.Reason, narrowest).
			mend("see sluice calibrate -d %s", e.dev.Name())
		return
	}
	level := OK
	if status.Bound > 2*units.Microsecond {
		level = Warn
	}
	s.add(level, "calibration", "error at most %v after %d samples, drift %.3f ppm within %.3f; the clock is read within %v",
		status.Bound, samples, status.DriftPPM, status.DriftBoundPPM, narrowest)
}
