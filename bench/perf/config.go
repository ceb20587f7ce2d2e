package perf

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
)

// Path says from where an end sends: the port, its address, and the path MTU.
type Path struct {
	Port int    `flag:"ib-port,i" default:"1" range:"[1,255]" help:"<PORT> of the device"`
	GID  int    `flag:"gid-index,x" default:"-1" range:"[0,1023]" minus:"the address of the route to the other end" help:"index in the port's table of addresses"` // by route.Choose
	IPv6 bool   `flag:"ipv6" help:"without -x, take an IPv6 address"`
	MTU  ib.MTU `flag:"mtu,m" one:"256 512 1024 2048 4096" zero:"what the route to the other end carries" help:"path MTU"` // the smaller of both ends' counts
}

// Config is how to run a test. DefaultConfig has perftest's values. Each setting's tags describe
// it and its flag, as package internal/field says. Where the two ends must agree, they must be
// given the same: perftest compares nothing but the path MTU.
type Config struct {
	Test Test
	Path

	// Size 0 means the path MTU, of UD. Both ends must agree.
	Size int `flag:"size,s" unit:"B" default:"65536, of latency tests 2, of atomics 8" range:"[0,2^30]" help:"<BYTES> of a message; for UD, 0 is the path MTU, and the default"`
	// With All, the sizes of UD end at the path MTU.
	All bool `flag:"all,a" help:"run all sizes from 2 to 2^23; not with -D"`
	// Both ends must agree on Iterations, or Duration. With Duration, what counts is what
	// completes between Margin after its beginning and Margin before its end.
	Iterations int           `flag:"iters,n" default:"1000, of write_bw 5000" range:"[5,100000000]" help:"messages of each queue pair"`
	Duration   time.Duration `flag:"duration,D" unit:"s" range:"(0s,1000000s]" zero:"as long as -n takes" help:"run for a <TIME> in place of -n: 5s, 10ms, or a number of seconds"`
	Margin     time.Duration `flag:"margin,f" unit:"s" range:"(0s,1000000s]" zero:"a quarter of -D" help:"<TIME> at beginning and end of -D that does not count"`
	// Interval is by the device's time. The server of a test in which its memory does all,
	// write_bw and the like, has none.
	Interval time.Duration `flag:"interval" unit:"s" range:"[1us,1000000s]" zero:"no such rows" help:"print a row every <TIME>, as iperf3 -i does: 500ms, or a number of seconds"`

	Outage bool `flag:"outage" help:"print the longest time in which no message completed, and what was repaired"`

	// Both ends must have Reconnect, or none. It takes Outage with it.
	Reconnect time.Duration `flag:"reconnect" unit:"s" range:"[1ms,1000000s]" zero:"a lost connection ends the test" help:"make lost connections anew, and go on; a <TIME> in which nothing completes ends the test: 10s, or a number of seconds"`

	QPs     int `flag:"qp,q" default:"1" range:"[1,16384]" help:"queue pairs; latency tests use the first"` // Both ends must agree.
	TxDepth int `flag:"tx-depth,t" default:"128, of latency tests 1" range:"[1,15000]" least:"post-list" help:"requests outstanding on a queue pair"`
	RxDepth int `flag:"rx-depth,r" default:"512" range:"[1,16384]" help:"receives posted, of tests with sends; 512 is up to 16000 for UC and UD"`
	// CQMod 0 takes PostList if that is above 1.
	CQMod    int `flag:"cq-mod,Q" range:"[1,1024]" zero:"100, above 8 KiB 1" help:"requests for each completion"`
	PostList int `flag:"post-list,l" default:"1" range:"[1,15000]" help:"requests posted by one call, of bandwidth tests"`
	// Inline -1 is up to the device's limit.
	Inline int `flag:"inline-size,I" default:"-1" range:"[0,4096]" minus:"perftest's" help:"post messages of up to this number of bytes inline; perftest has 220 and 236 for writes and sends of latency tests, else 0"`
	// OutReads is how many are answered at a time, and sent at a time if the other end
	// answers as many.
	OutReads    int       `flag:"outs,o" range:"[1,255]" zero:"what the device can" help:"reads and atomics outstanding"`
	CompareSwap bool      `flag:"atomic-type,A" default:"FETCH_AND_ADD" one:"FETCH_AND_ADD CMP_AND_SWAP" help:"atomic operation"`
	Service     ib.QPType `flag:"connection,c" default:"RC" one:"RC UC UD" help:"transport service, UC for writes and sends, UD for sends"` // Both ends must agree.

	Bidirectional bool  `flag:"bidirectional,b" help:"both ends send at once, of bandwidth tests; the row is the sum"` // Both ends must agree.
	Events        bool  `flag:"events,e" help:"wait for completion events in place of polling; not with write_lat or -D"`
	NoPeak        bool  `flag:"noPeak,N" help:"leave out the peak"`
	SL            uint8 `flag:"sl,S" default:"0" range:"[0,7]" help:"service level"`
	TClass        uint8 `flag:"tclass" default:"0" range:"[0,255]" help:"traffic class: DSCP and ECN"`
	QPTimeout     uint8 `flag:"qp-timeout,u" default:"14" range:"[0,31]" help:"acknowledgement timeout, 4.096us * 2^n"`
	// Patience 0 takes an hour.
	Patience time.Duration `flag:"timeout" default:"1h" range:"[0s,)" help:"time to wait for the other end to finish its test"`

	// MiBytes makes the figures that go to the other end MiB/s, as perftest's are
	// unless it is given --report_gbits. Those returned are in Gbit/s always.
	MiBytes bool

	// Stall ends a test in which nothing has completed, or come in, for so long, of
	// the device's time; 0 takes 60 s, and on simulated devices 2 s. What UC and UD
	// lose never comes: there, receiving ends after a tenth of it, without error.
	Stall time.Duration `range:"[0s,)"`

	// Unwatched leaves out of Engine what is told of each round trip: round trips, the
	// lowest and the highest rate, the share at the floor.
	Unwatched bool
	// OnInterval, if set, is called with each Interval of the row.
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
	c := Config{Test: t}
	cases := []string{t.String()}
	if t.Latency {
		cases = append(cases, "latency tests")
	}
	if t.Verb == Atomic {
		cases = append(cases, "atomics")
	}
	field.Fill(&c, cases...)
	return c
}

const (
	maxSize    = 1 << 30
	maxMemory  = 16 << 30 // of one end's buffer
	largestAll = 1 << 23
)

var (
	settings = field.Of[Config]("perf")
	paths    = field.Of[Path]("perf")
)

// Validate reports what is out of range or does not go together.
func (c *Config) Validate() error {
	given := *c
	if c.Duration > 0 {
		given.Iterations = DefaultConfig(c.Test).Iterations // nobody counts them
	}
	if err := paths.Check(&c.Path); err != nil {
		return err
	}
	if err := settings.Check(&given); err != nil {
		return err
	}
	if err := c.operation(); err != nil {
		return err
	}
	return c.together()
}

// operation reports what the test's operation or the service does not have.
func (c *Config) operation() error {
	t, datagrams := c.Test, c.Service == ib.UD
	return c.first([]fault{
		{c.Size == 0 && !datagrams, "a message of 0 bytes: give at least 1; with UD, 0 is the path MTU"},
		{t.Verb == Atomic && c.Size != 8, fmt.Sprintf("a size of %d: an atomic has 8 bytes", c.Size)},
		{c.Service != ib.RC && (t.Verb == Read || t.Verb == Atomic), fmt.Sprintf("%ss need RC: %v has none", t.Verb, c.Service)},
		{datagrams && t.Verb == Write, "writes need RC or UC: UD has none"},
		{datagrams && c.Size > 4096, fmt.Sprintf("a datagram of %d bytes: give at most the path MTU, which is 4096 at most", c.Size)},
		{c.PostList > 1 && t.Latency, "a post list: only bandwidth tests have it"},
		{c.Bidirectional && t.Latency, "bidirectional: only bandwidth tests are"},
		{c.Reconnect > 0 && c.Service != ib.RC, fmt.Sprintf("reconnect needs RC: %v has no connection that is lost", c.Service)},
		{c.Events && t == Test{Write, true}, "events: the other end's writes give none; poll"},
	})
}

// together reports which settings do not go together.
func (c *Config) together() error {
	timed := c.Duration > 0
	return c.first([]fault{
		{timed && 2*c.Margin >= c.Duration, fmt.Sprintf("a duration of %v with margins of %v: the duration must be above twice the margin", c.Duration, c.Margin)},
		{timed && c.All, "a duration and all sizes: choose one"},
		{timed && c.Events, "events with a duration: choose one"},
		{!timed && c.Iterations%c.PostList != 0, fmt.Sprintf("%d iterations with a post list of %d: give a multiple of it", c.Iterations, c.PostList)},
		{c.CQMod > 0 && c.PostList > 1 && c.PostList%max(c.CQMod, 1) != 0, fmt.Sprintf("a post list of %d with a completion of every %d: give a multiple of it", c.PostList, c.CQMod)},
		{2*int64(c.QPs)*int64(max(c.largest(4096), 4096)) > maxMemory, fmt.Sprintf("%d queue pairs with messages of %d bytes need more than %d GiB of buffer", c.QPs, c.largest(4096), maxMemory>>30)},
	})
}

// fault is what breaks a rule across settings.
type fault struct {
	there bool
	says  string
}

// first is the error of the first fault that is there.
func (c *Config) first(faults []fault) error {
	for _, f := range faults {
		if f.there {
			return fmt.Errorf("%s: %s", c.Test, f.says)
		}
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
	if c.Service != ib.RC && c.RxDepth == DefaultConfig(c.Test).RxDepth {
		c.RxDepth = 16000
	}
	c.Outage = c.Outage || c.Reconnect > 0
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
