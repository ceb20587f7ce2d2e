package softroce

import (
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// clock is the device's counter: the host's monotonic clock, in nanoseconds since
// the device was opened; or simulated time.
type clock struct {
	start time.Time
	world *World // nil in real time
}

func (c *clock) read() units.LongTime {
	if c.world != nil {
		return c.world.engine.Now().Long().Add(c.world.cfg.Start)
	}
	return units.Long(time.Since(c.start))
}

// longestRun is for how long instants are counted from one origin.
const longestRun units.Time = 1 << 60 // 13 days

// now is the present by the device's clock as an instant of the endpoint and of all
// that the lock guards, which the caller holds. Instants of an earlier call are void
// where now sets the clock back.
func (d *device) now() units.Time {
	l := d.clock.read()
	t := l.Sub(d.origin)
	if t < longestRun {
		return t
	}
	by := min(t, units.MostSetBack)
	d.origin = l
	d.core.SetBack(by, l)
	if d.shaper != nil {
		d.shaper.setBack(by)
	}
	d.mads.filled, d.mads.ended, d.timerAt = d.mads.filled.SetBack(by), d.mads.ended.SetBack(by), d.timerAt.SetBack(by)
	return 0
}

// long returns an instant of now's on the device's clock.
func (d *device) long(t units.Time) units.LongTime {
	if t == units.Never {
		return units.LongNever
	}
	return d.origin.Add(t)
}

// alarm is a timer that calls a device's expire: a time.Timer, or one in simulated time.
type alarm interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// longestQueue bounds the age of a packet in a socket's buffer. A timestamp that
// implies more is from before the wall clock was set.
const longestQueue = int64(time.Second)

// stamp converts the kernel's receive time stamp, on the wall clock, to the
// device's counter, by a reading of both clocks. Only the packet's age is taken
// from the wall clock, so that setting it spoils no more than the packets under
// way.
func stamp(kernel, wall, monotonic int64) uint64 {
	age := wall - kernel
	if kernel == 0 || age < 0 || age > longestQueue {
		age = 0
	}
	return uint64(max(0, monotonic-age))
}
