package completions

import (
	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// Clock turns a NIC's timestamps into times of the host's clock. A nil Clock is
// one without timestamps.
type Clock struct{ cal *calibration.Calibrator }

// NewClock returns a clock for a counter of that width and rate
// (verbs.DeviceAttr), which should be read at least every longest while it is in
// use.
func NewClock(bits int, hz float64, longest units.Time) (*Clock, error) {
	c := calibration.DefaultConfig(bits, hz)
	c.MaxInterval = longest
	c.MinInterval = min(c.MinInterval, longest)
	cal, err := calibration.New(c)
	if err != nil {
		return nil, err
	}
	return &Clock{cal}, nil
}

// Add takes a reading of the counter between two of the host's clock.
func (c *Clock) Add(before units.Time, ticks uint64, after units.Time) {
	c.cal.Add(calibration.Sample{HostBefore: before, NIC: ticks, HostAfter: after})
}

// Due returns when the counter should be read next.
func (c *Clock) Due() units.Time {
	if c == nil {
		return units.Never
	}
	return c.cal.NextSample()
}

// HostTime returns the host time of a completion with that timestamp, polled at
// polled, and true. It returns polled itself and false if the calibration can't be
// trusted for the timestamp. The time is never after polled.
func (c *Clock) HostTime(timestamp uint64, polled units.Time) (units.Time, bool) {
	if c == nil {
		return polled, false
	}
	m, ok := c.cal.ToHost(timestamp)
	if !ok {
		return polled, false
	}
	return min(m.Host, polled), true
}

// Mapping returns the base of HostTime: when, by the host's clock, the
// counter showed that timestamp, and how far off that can be. It returns false if
// the calibration can't be trusted for the timestamp.
func (c *Clock) Mapping(timestamp uint64) (calibration.Mapping, bool) {
	if c == nil {
		return calibration.Mapping{}, false
	}
	return c.cal.ToHost(timestamp)
}

// Status returns the state of the calibration.
func (c *Clock) Status(now units.Time) calibration.Status {
	if c == nil {
		return calibration.Status{Reason: calibration.TooFewSamples, Bound: units.Never}
	}
	return c.cal.Status(now)
}

// SetBack sets back the host's clock: see calibration.Calibrator.SetBack.
func (c *Clock) SetBack(by units.Time) {
	if c != nil {
		c.cal.SetBack(by)
	}
}

// Clone returns a Clock in the same state, which goes its own way from then on.
func (c *Clock) Clone() *Clock {
	if c == nil {
		return nil
	}
	cal := *c.cal
	return &Clock{&cal}
}
