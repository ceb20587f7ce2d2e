package softroce

import (
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// clock is the device's counter: the host's monotonic clock, in nanoseconds since
// the device was opened.
type clock struct{ start time.Time }

func (c *clock) now() units.Time { return units.FromDuration(time.Since(c.start)) }

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
