//go:build linux

package virtual

import (
	"math/bits"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/turns"
)

// clockShift scales the ticks of a nanosecond.
const clockShift = 32

// clockBits is the width of the counter in completions and where programs read it
// (timestamp_mask), as in mlx5.
const clockBits = 63

// clock is the device's free-running counter: ticks of CLOCK_MONOTONIC_RAW with an
// offset and a drift that are known.
type clock struct {
	start uint64 // CLOCK_MONOTONIC_RAW in ns at which the counter was first
	first uint64
	mult  uint64 // ticks a nanosecond, times 1<<clockShift
	// simulated says that the back end stamps completions by the counter, and that the counter
	// was first at simulated time 0. Then what follows is not used.
	simulated bool

	// The back end stamps completions by its own clock. What both showed at one time is
	// read again when it is older than resampleAfter: the two differ by what the kernel
	// slews.
	backend verbs.Device
	mu      sync.Mutex
	at, raw time.Duration
	wall    int64 // the time of day in ns since 1970
	known   bool
}

const resampleAfter = time.Millisecond

// newClock returns a counter of hz, which is ppb faster than it says, and that shows
// first now.
func newClock(backend verbs.Device, hz, ppb int64, first uint64) *clock {
	product := uint64(hz) * uint64(1_000_000_000+ppb) // below 1<<64: hz is 1e9 at most
	mult, _ := bits.Div64(product>>(64-clockShift), product<<clockShift, 1_000_000_000_000_000_000)
	return &clock{start: rawNow(), first: first, mult: mult, backend: backend}
}

// newSimulatedClock returns the counter of a back end in simulated time: of that time itself, which is
// 0 at the start. Completions are stamped by the counter itself.
func newSimulatedClock(b simulatedBackend) *clock {
	first := b.CounterAt(0)
	aSecond := b.CounterAt(units.Second) - first
	mult, _ := bits.Div64(aSecond>>(64-clockShift), aSecond<<clockShift, uint64(time.Second))
	return &clock{first: first, mult: mult, simulated: true}
}

// rawNow reads CLOCK_MONOTONIC_RAW in ns.
func rawNow() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
		return 0 // every Linux has it
	}
	return uint64(t.Nano())
}

// atRaw returns the counter at a reading of CLOCK_MONOTONIC_RAW.
func (c *clock) atRaw(raw uint64) uint64 {
	hi, lo := bits.Mul64(raw-c.start, c.mult)
	return (c.first + (hi<<(64-clockShift) | lo>>clockShift)) & (1<<clockBits - 1)
}

// stamped returns the counter when the back end's clock showed ns; a simulated
// back end's clock is the counter.
func (c *clock) stamped(ns uint64) uint64 {
	if c.simulated {
		return ns
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sampleFor(ns)
	return c.atRaw(uint64(c.raw + time.Duration(ns) - c.at))
}

// stampedWall returns the time of day, in ns since 1970, when the back end's clock showed ns.
func (c *clock) stampedWall(ns uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sampleFor(ns)
	return uint64(c.wall + int64(time.Duration(ns)-c.at))
}

// readings is the number of times that two clocks are read together; the closest readings
// count: between others the thread may have stood still.
const readings = 4

// now returns the counter, and the time of day in ns since 1970.
func (c *clock) now() (ticks uint64, wall int64) {
	if c.simulated { // by what both were at first, programs have them for all times
		return c.first, turns.Epoch * int64(time.Second)
	}
	best := ^uint64(0)
	for range readings {
		before := rawNow()
		w := time.Now().UnixNano()
		if took := rawNow() - before; took < best {
			best, wall, ticks = took, w, c.atRaw(before+took/2)
		}
	}
	return ticks, wall
}

// sampleFor reads the clocks if what they showed is too old for a time of the back end's.
func (c *clock) sampleFor(ns uint64) {
	if d := time.Duration(ns) - c.at; !c.known || d > resampleAfter || d < -resampleAfter {
		c.sample()
	}
}

// sample reads the clocks, the host's between two readings of the back end's: the
// closest of a few.
func (c *clock) sample() {
	best := time.Duration(-1)
	for range readings {
		before := c.backend.Now()
		raw, wall := time.Duration(rawNow()), time.Now().UnixNano()
		after := c.backend.Now()
		if took := after - before; best < 0 || took < best {
			best, c.at, c.raw, c.wall, c.known = took, before+took/2, raw, wall, true
		}
	}
}
