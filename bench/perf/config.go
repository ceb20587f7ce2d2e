package perf

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
)

// Config is how to run a test. DefaultConfig has perftest's values. Where the two
// ends must agree, they must be given the same: perftest compares nothing but the
// path MTU.
type Config struct {
	Test Test

	// Size is the bytes of a message, 1 to 1 GiB. An atomic has 8, a datagram at most
	// the path MTU; 0 means the path MTU. With All, the sizes are 2 to 8388608, or to
	// the path MTU, doubling. Both ends must agree.
	Size int
	All  bool
	// Iterations is how many messages each queue pair sends, 5 to 100 million. With
	// Duration, the test runs for that long instead, and what counts is what
	// completes between Margin after its beginning and Margin before its end; Margin
	// 0 is a quarter. Both ends must agree.
	Iterations       int
	Duration, Margin time.Duration

	QPs     int       // 1 to 16384; latency tests use the first. Both ends must agree.
	Service ib.QPType // RC; UC for writes and sends; UD for sends. Both ends must agree.
	MTU     ib.MTU    // path MTU, 0 for what the route to the other end carries; the smaller of both ends' counts
	Port    int       // from 1
	GID     int       // index in the port's table; -1 takes the address by which the other end is reached (route.Choose)
	IPv6    bool      // without GID, take an IPv6 address
	SL      uint8     // service level, 0 to 7
	TClass  uint8     // traffic class: DSCP and ECN

	TxDepth  int // requests that a queue pair has outstanding, 1 to 15000
	RxDepth  int // receives posted, of tests with sends; DefaultRxDepth is more where what finds none is lost
	PostList int // requests of one call; bandwidth tests only
	// CQMod requests a completion only for every so many requests, up to TxDepth. 0
	// takes PostList if that is above 1, else 1 for messages above 8 KiB, else 100.
	CQMod int
	// Inline is the largest write or send that is posted with its data. -1 takes
	// perftest's: 220 and 236 bytes in latency tests, up to the device's limit, and 0
	// in others.
	Inline int
	// OutReads is how many reads and atomics are answered at a time, and sent at a
	// time if the other end answers as many; 0 takes what the device can.
	OutReads int
	// CompareSwap makes atomics Compare & Swap, in place of Fetch & Add.
	CompareSwap bool

	Bidirectional bool // both ends send at once; bandwidth tests only. Both ends must agree.
	Events        bool // wait for completion events, in place of polling
	NoPeak        bool // leave out the peak

	QPTimeout uint8 // acknowledgement timeout 4.096us * 2^n, 0 to 31

	// MiBytes makes the figures that go to the other end MiB/s, as perftest's are
	// unless it is given --report_gbits. Those returned are in Gbit/s always.
	MiBytes bool

	// Stall ends a test in which nothing has completed, or come in, for so long, of
	// the device's time; 0 takes 60 s, and on simulated devices 2 s. What UC and UD
	// lose never comes: there, receiving ends after a tenth of it, without error.
	Stall time.Duration
	// Patience is how long one end waits for the other to finish; 0 takes an hour.
	Patience time.Duration

	// Interval is how often an Interval is added to the row, by the device's time; 0
	// for never, at least a microsecond. The server of a test in which its memory does
	// all, write_bw and the like, has none.
	Interval time.Duration
	// Unwatched leaves out of Engine what is told of each round trip: round trips, the
	// lowest and the highest rate, the share at the floor.
	Unwatched bool
	// OnInterval, if set, is called with each.
	OnInterval func(*Interval)

	// Started, if set, is called once the ends are connected.
	Started func(*Result)
	// Row, if set, is called with each row as it is measured.
	Row func(*Row)
	// Progress, if set, is called now and then with the share of a run that is
	// done, 0 to 1, and what is running. It costs measured time.
	Progress func(done float64, what string)
}

// DefaultConfig returns what the program of perftest has without flags.
func DefaultConfig(t Test) Config {
	c := Config{
		Test: t, Size: 65536, Iterations: 1000, QPs: 1, Service: ib.RC, Port: 1, GID: -1,
		TxDepth: 128, RxDepth: DefaultRxDepth, PostList: 1, Inline: -1, QPTimeout: 14,
	}
	switch {
	case t.Verb == Atomic:
		c.Size = 8
	case t.Latency:
		c.Size = 2
	}
	if t.Latency {
		c.TxDepth = 1
	}
	if t == (Test{Verb: Write}) {
		c.Iterations = 5000
	}
	return c
}

// DefaultRxDepth is perftest's; with UC and UD it has as many receives as there
// are messages, up to 16000.
const DefaultRxDepth = 512

const (
	maxSize    = 1 << 30
	maxMemory  = 16 << 30 // of one end's buffer
	largestAll = 1 << 23
)

// Validate reports what is out of range or does not go together.
func (c *Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: "+format, append([]any{c.Test}, args...)...)
	}
	switch {
	case (c.Size < 1 || c.Size > maxSize) && !(c.Size == 0 && c.Service == ib.UD):
		return bad("a message of %d bytes: give 1 to %d", c.Size, maxSize)
	case c.Test.Verb == Atomic && c.Size != 8:
		return bad("a size of %d: an atomic has 8 bytes", c.Size)
	case c.Duration == 0 && (c.Iterations < 5 || c.Iterations > 100_000_000):
		return bad("%d iterations: give 5 to 100000000", c.Iterations)
	case c.Duration < 0 || c.Margin < 0 || c.Duration > 0 && 2*c.Margin >= c.Duration:
		return bad("a duration of %v with margins of %v: the duration must be above twice the margin", c.Duration, c.Margin)
	case c.Interval != 0 && c.Interval < leastInterval.Duration():
		return bad("an interval of %v: give at least %v", c.Interval, leastInterval)
	case c.Duration > 0 && c.All:
		return bad("a duration and all sizes: choose one")
	case c.QPs < 1 || c.QPs > 16384:
		return bad("%d queue pairs: give 1 to 16384", c.QPs)
	case c.Service != ib.RC && c.Service != ib.UC && c.Service != ib.UD:
		return bad("the service %v: take RC, UC or UD", c.Service)
	case c.Service != ib.RC && (c.Test.Verb == Read || c.Test.Verb == Atomic):
		return bad("%ss need RC: %v has none", c.Test.Verb, c.Service)
	case c.Service == ib.UD && c.Test.Verb == Write:
		return bad("writes need RC or UC: UD has none")
	case c.Service == ib.UD && c.Size > 4096:
		return bad("a datagram of %d bytes: give at most the path MTU, which is 4096 at most", c.Size)
	case c.MTU != 0 && !c.MTU.Valid():
		return bad("a path MTU of %d: take 256, 512, 1024, 2048 or 4096", c.MTU)
	case c.Port < 1 || c.Port > 255:
		return bad("port %d: ports count from 1", c.Port)
	case c.GID < -1 || c.GID > 1023:
		return bad("GID index %d: give 0 to 1023, or none", c.GID)
	case c.SL > 7:
		return bad("service level %d: give 0 to 7", c.SL)
	case c.TxDepth < 1 || c.TxDepth > 15000:
		return bad("a send queue of %d: give 1 to 15000", c.TxDepth)
	case c.RxDepth < 1 || c.RxDepth > 16384:
		return bad("a receive queue of %d: give 1 to 16384", c.RxDepth)
	case c.PostList < 1 || c.PostList > c.TxDepth:
		return bad("a post list of %d: give 1 to the send queue's %d", c.PostList, c.TxDepth)
	case c.PostList > 1 && c.Test.Latency:
		return bad("a post list: only bandwidth tests have it")
	case c.PostList > 1 && c.Duration == 0 && c.Iterations%c.PostList != 0:
		return bad("%d iterations with a post list of %d: give a multiple of it", c.Iterations, c.PostList)
	case c.CQMod < 0 || c.CQMod > 1024:
		return bad("a completion of every %d requests: give 1 to 1024", c.CQMod)
	case c.CQMod > 0 && c.PostList > 1 && c.PostList%c.CQMod != 0:
		return bad("a post list of %d with a completion of every %d: give a multiple of it", c.PostList, c.CQMod)
	case c.Inline < -1 || c.Inline > 4096:
		return bad("%d bytes inline: give 0 to 4096", c.Inline)
	case c.OutReads < 0 || c.OutReads > 255:
		return bad("%d outstanding reads: give 1 to 255", c.OutReads)
	case c.Bidirectional && c.Test.Latency:
		return bad("bidirectional: only bandwidth tests are")
	case c.Events && c.Test == (Test{Write, true}):
		return bad("events: the other end's writes give none; poll")
	case c.Events && c.Duration > 0:
		return bad("events with a duration: choose one")
	case c.QPTimeout > 31:
		return bad("a timeout code of %d: give 0 to 31", c.QPTimeout)
	case c.Stall < 0 || c.Patience < 0:
		return bad("a negative timeout")
	case 2*int64(c.QPs)*int64(max(c.largest(4096), 4096)) > maxMemory:
		return bad("%d queue pairs with messages of %d bytes need more than %d GiB of buffer", c.QPs, c.largest(4096), maxMemory>>30)
	}
	return nil
}

// sizes are the message sizes, in order, at a path MTU.
func (c *Config) sizes(mtu ib.MTU) []int {
	switch {
	case c.All && c.Test.Verb != Atomic:
		most := largestAll
		if c.Service == ib.UD {
			most = int(mtu)
		}
		var all []int
		for s := 2; s <= most; s *= 2 {
			all = append(all, s)
		}
		return all
	case c.Size == 0:
		return []int{int(mtu)}
	}
	return []int{c.Size}
}

// largest is the largest message.
func (c *Config) largest(mtu ib.MTU) int {
	s := c.sizes(mtu)
	return s[len(s)-1]
}

// settle returns c with what depends on other fields.
func (c Config) settle() Config {
	if c.Service != ib.RC && c.RxDepth == DefaultRxDepth {
		c.RxDepth = 16000
	}
	if c.Duration > 0 {
		c.Iterations = 0
		if c.Margin == 0 {
			c.Margin = c.Duration / 4
		}
	} else {
		c.TxDepth = min(c.TxDepth, c.Iterations)
		c.RxDepth = min(c.RxDepth, c.Iterations)
		c.PostList = min(c.PostList, c.TxDepth)
	}
	if c.Patience == 0 {
		c.Patience = time.Hour
	}
	return c
}

// moderation is how many requests of a size have one completion.
func (c *Config) moderation(size int) int {
	mod := c.CQMod
	switch {
	case mod > 0:
	case c.PostList > 1:
		mod = c.PostList
	case size > 8192:
		mod = 1
	default:
		mod = 100
	}
	return min(mod, c.TxDepth)
}
