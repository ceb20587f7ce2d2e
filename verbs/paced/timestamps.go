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
func (s *Shim) calibrate(origin units.LongTime) (*completions.Clock, error) {
	if s.cfg.Clock == SoftwareClock || s.attr.CoreClockHz <= 0 {
		return nil, nil
	}
	if s.reader, _ = s.dev.(verbs.ClockReader); s.reader == nil || s.cfg.CalibrateEvery <= 0 {
		return nil, nil
	}
	clock, err := completions.NewClock(s.attr.ClockBits, s.attr.CoreClockHz, s.cfg.CalibrateEvery)
	if err != nil {
		return nil, err
	}
	for range firstSamples {
		before := s.Clock()
		ticks, err := s.reader.ReadClock()
		if err != nil {
			return nil, nil // it can't be read after all
		}
		clock.Add(before.Sub(origin), ticks, s.Clock().Sub(origin))
	}
	return clock, nil
}

// readNIC reads the NIC's counter if it is time. Reading a simulated one takes
// time, so the lock is not held meanwhile.
func (s *shard) readNIC(t *instant) {
	if s.clock == nil || s.reading || t.now < s.clock.Due() || t.long.Before(s.readAgain) {
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
		s.readAgain = t.long.Add(s.cfg.CalibrateEvery)
		t.in(s.core)
		return
	}
	now := s.core.Now(after)
	s.clock.Add(s.core.Instant(before), ticks, now)
	if s.clock.Due() <= now {
		s.readAgain = after.Add(units.Millisecond) // a reading of no use
	}
	if t.clock != nil {
		t.long = after
	}
	t.in(s.core)
}

// ToHost maps a timestamp of the NIC to the host's clock (Clock); the truth is within
// bound of it. It is refused, with false, without calibration, and where calibration
// can't be trusted for it.
func (s *Shim) ToHost(timestamp uint64) (host units.LongTime, bound units.Time, ok bool) {
	x := (*s.shards.Load())[0]
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok := x.clock.Mapping(timestamp)
	return x.core.Long(m.Host), m.Bound, ok
}

// Calibration reports how well completion timestamps are known on the host's clock.
// The status is not trusted where there are no timestamps. Each CQ that queue pairs
// send to has a calibration for itself; this one is of the first.
func (s *Shim) Calibration() calibration.Status {
	x := (*s.shards.Load())[0]
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.clock.Status(x.instant())
}
