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

func (c *clock) now() units.Time {
	if c.world != nil {
		return c.world.engine.Now()
	}
	return units.FromDuration(time.Since(c.start))
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
