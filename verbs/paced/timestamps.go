package paced

import (
	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// firstSamples are taken by Wrap, so that the first completions have times.
const firstSamples = 8

// calibrate prepares completion timestamps where the device has them and its
// counter can be read. Elsewhere there is no clock.
func (s *Shim) calibrate() error {
	if s.cfg.Clock == SoftwareClock || s.attr.CoreClockHz <= 0 {
		return nil
	}
	if s.reader, _ = s.dev.(verbs.ClockReader); s.reader == nil || s.cfg.CalibrateEvery <= 0 {
		return nil
	}
	clock, err := completions.NewClock(s.attr.ClockBits, s.attr.CoreClockHz, s.cfg.CalibrateEvery)
	if err != nil {
		return err
	}
	for range firstSamples {
		before := s.Clock()
		ticks, err := s.reader.ReadClock()
		if err != nil {
			return nil // it can't be read after all
		}
		clock.Add(before, ticks, s.Clock())
	}
	s.clock = clock
	return nil
}

// readNIC reads the NIC's counter if it is time. Reading a simulated one takes
// time, so the lock is not held meanwhile.
func (s *Shim) readNIC(t *instant) {
	if s.clock == nil || s.reading || t.now < s.clock.Due() || t.now < s.readAgain {
		return
	}
	s.reading = true
	s.mu.Unlock()
	before := s.Clock()
	ticks, err := s.reader.ReadClock()
	after := s.Clock()
	s.mu.Lock()
	s.reading = false
	if err != nil {
		s.stats.ClockErrors++
		s.readAgain = t.now + s.cfg.CalibrateEvery
		return
	}
	s.clock.Add(before, ticks, after)
	if s.clock.Due() <= after {
		s.readAgain = after + units.Millisecond // a reading of no use
	}
	t.passed(after)
}

// ToHost maps a timestamp of the NIC to the host's clock (Clock), and says how far off
// that can be. It is refused, with false, without calibration, and where calibration
// can't be trusted for it.
func (s *Shim) ToHost(timestamp uint64) (calibration.Mapping, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Mapping(timestamp)
}

// Calibration reports how well completion timestamps are known on the host's clock.
// The status is not trusted where there are no timestamps.
func (s *Shim) Calibration() calibration.Status {
	now := s.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Status(now)
}
