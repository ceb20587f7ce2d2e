package fabric

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/units"
)

// MaxPriorities bounds the priorities: IEEE 802.1Q has eight.
const MaxPriorities = 8

// Config is how the switches and links of a network behave. Start from Default.
type Config struct {
	// Priorities is how many priorities, and so queues a port, there are: 1 to
	// MaxPriorities. Priority Priorities-1 is the most urgent.
	Priorities int
	// MaxFrame is the largest Packet.Size that will be sent. Headroom and the
	// quanta of round robin are computed from it.
	MaxFrame units.Bytes
	// Switch holds for every switch that Switches does not name.
	Switch   SwitchConfig
	Switches map[string]SwitchConfig
	// Faults make links lose packets.
	Faults []Fault
	// Failures are links that are down, slow or lossy for a while.
	Failures []Failure
	// Reroute is the time from when a link goes down or comes up until switches
	// have other paths; 0 is never.
	Reroute units.Time
	// Circuits is for an RDCN alone.
	Circuits CircuitConfig
	// HostSend and HostReceive are what a host adds to each packet beside its
	// link: between Transmit and the first bit on the wire, and from the last bit
	// to Endpoint.Arrive. Like a switch's latency they cost no event. Packets
	// that are in between are not stopped by a pause.
	HostSend, HostReceive units.Time
}

// SwitchConfig is how one switch behaves.
type SwitchConfig struct {
	// Latency is from the last bit of a packet in to its entry into a queue, or
	// its first bit out where none waits. It is no part of a queueing delay.
	Latency units.Time
	// Buffer is the packet memory, shared by all ports, below 2 GiB.
	Buffer units.Bytes
	// INT makes the switch write telemetry on the packets that ask for it.
	INT bool
	// Report, if there is one, is how coarse that telemetry is; without one it is
	// exact.
	Report *Report
	// Stage, if there is one, writes the telemetry instead. Each switch needs one of
	// its own, so it belongs into Config.Switches. An RDCN takes none.
	Stage Stage
	// Classes says how each priority is treated; those beyond
	// Config.Priorities are ignored.
	Classes [MaxPriorities]Class
}

// Class is how a switch treats a priority.
type Class struct {
	// Weight is 0 for strict priority: the queue is served before all of lower
	// number that are strict and before all that have a weight. Queues with
	// weights share what remains in proportion, by deficit round robin.
	Weight int
	// Alpha is the factor of Dynamic Thresholds, above 0: a lossy queue (or, for
	// a lossless priority without an XOFF, what an ingress port holds) may grow
	// to Alpha times the shared buffer that is free. It is kept to 1/1024.
	Alpha float64
	ECN   ECN
	EIN   Notice
	PFC   PFC
}

// Notice is when packets are marked EIN, Pulser's explicit incast notification: all
// that leave a queue from when its gradient, averaged over the last Window of them, is
// above Gradient, to the first that leaves HighWater or less behind while it is not.
type Notice struct {
	// Gradient is by what share of the port's rate the queue grows in an incast: 0.25
	// is Pulser's. 0 turns EIN off.
	Gradient float64
	// Window is how many dequeues the gradient is averaged over, 1 to 4096: 50 is
	// Pulser's.
	Window int
	// HighWater is the queue that ends an incast. It should be above the threshold of
	// ECN, and ECN.AtRate goes for it as well.
	HighWater units.Bytes
}

// maxNoticeWindow keeps the sum of a window's gradients exact.
const maxNoticeWindow = 4096

// ECN is random early marking. A packet that leaves a queue, more than Kmin
// bytes of which stay behind, is marked with a probability that rises linearly
// from 0 at Kmin to Pmax at Kmax, and is 1 above Kmax. Kmin equal to Kmax is
// DCTCP's step. Kmax of 0 turns marking off.
type ECN struct {
	Kmin, Kmax units.Bytes
	Pmax       float64 // 0 to 1
	// AtRate says that Kmin and Kmax are meant for ports of this rate: others
	// get them in proportion to theirs. 0 means the same for all.
	AtRate units.Rate
}

// PFC is priority flow control (IEEE 802.1Qbb) of a priority, per ingress port.
type PFC struct {
	// Lossless turns it on. Packets of a lossless priority are dropped only if
	// they overflow the headroom.
	Lossless bool
	// XOFF is how many bytes of the priority an ingress port may hold in shared
	// buffer before it pauses its sender; 0 makes that dynamic, by Class.Alpha.
	XOFF units.Bytes
	// XON is where the sender may resume: below XOFF; 0 means two MaxFrames
	// below what XOFF is at the time.
	XON units.Bytes
	// Headroom is set aside for each ingress port, for what arrives after it has
	// decided to pause; 0 computes it from the link so that nothing is lost.
	Headroom units.Bytes
	// Watchdog is for how long an egress queue may be paused without a break
	// before the switch takes it for a storm or a deadlock: it drops what is in
	// the queue and what comes until the pause ends. 0 is for ever.
	Watchdog units.Time
	// WatchdogForwards makes the watchdog send in spite of the pause instead.
	WatchdogForwards bool
}

// Fault makes a direction of a link lose packets, as if their FCS were wrong:
// they take their time on the wire and do not arrive.
type Fault struct {
	Link string  // such as "tor0->h3", or "*" for all
	Loss float64 // probability for each packet, 0 to 1
}

// Default returns a network of switches with eight strict priorities, all lossy
// without ECN, 16 MiB of buffer, an Alpha of 1, a latency of 600 ns and
// telemetry.
func Default() Config {
	s := SwitchConfig{Latency: 600 * units.Nanosecond, Buffer: 16 * units.MiB, INT: true}
	for i := range s.Classes {
		s.Classes[i].Alpha = 1
	}
	return Config{Priorities: MaxPriorities, MaxFrame: 4352, Switch: s}
}

// alphaOne is an Alpha of 1 in fixed point.
const alphaOne = 1024

// Validate names every field that is out of range, and the mend.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Priorities < 1 || c.Priorities > MaxPriorities {
		bad("Priorities is %d: set 1 to %d", c.Priorities, MaxPriorities)
	}
	if c.MaxFrame < 64 || c.MaxFrame > 64*units.KiB {
		bad("MaxFrame is %v: set 64B to 64KiB", c.MaxFrame)
	}
	if len(errs) == 0 {
		errs = append(errs, c.Switch.validate(c, "Switch")...)
		for _, name := range sortedKeys(c.Switches) {
			s := c.Switches[name]
			errs = append(errs, s.validate(c, name)...)
		}
	}
	if c.HostSend < 0 || c.HostSend > units.Second || c.HostReceive < 0 || c.HostReceive > units.Second {
		bad("HostSend is %v and HostReceive %v: set 0 to 1s", c.HostSend, c.HostReceive)
	}
	if c.Reroute < 0 || c.Reroute > 1000*units.Second {
		bad("Reroute is %v: set 0 (never) to 1000s", c.Reroute)
	}
	for i := range c.Failures {
		if err := c.Failures[i].validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.Circuits.validate(); err != nil {
		errs = append(errs, err)
	}
	for _, f := range c.Faults {
		if !(f.Loss >= 0 && f.Loss <= 1) {
			bad("loss on link %s is %v: set 0 to 1", f.Link, f.Loss)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("fabric: %w", errors.Join(errs...))
	}
	return nil
}

func (s *SwitchConfig) validate(c *Config, name string) (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("switch %s: "+format, append([]any{name}, args...)...))
	}
	if s.Latency < 0 || s.Latency > units.Second {
		bad("Latency is %v: set 0 to 1s", s.Latency)
	}
	if s.Buffer < c.MaxFrame || s.Buffer >= 2*units.GiB {
		bad("Buffer is %v: set at least one MaxFrame, %v, and less than 2GiB", s.Buffer, c.MaxFrame)
	}
	for i := range c.Priorities {
		k := &s.Classes[i]
		if k.Weight < 0 || k.Weight > 1000 {
			bad("priority %d: Weight is %d: set 0 (strict) to 1000", i, k.Weight)
		}
		if !(k.Alpha >= 1.0/alphaOne && k.Alpha <= 1<<20) {
			bad("priority %d: Alpha is %v: set 1/%d to 2^20", i, k.Alpha, alphaOne)
		}
		if e := k.ECN; e.Kmin < 0 || e.Kmax < e.Kmin || e.Kmax >= 2*units.GiB {
			bad("priority %d: ECN has Kmin %v and Kmax %v: set 0 <= Kmin <= Kmax < 2GiB", i, e.Kmin, e.Kmax)
		}
		if e := k.ECN; !(e.Pmax >= 0 && e.Pmax <= 1) || e.AtRate < 0 {
			bad("priority %d: ECN has Pmax %v and AtRate %v: set a probability and a rate, or 0", i, e.Pmax, e.AtRate)
		}
		if e := k.EIN; !(e.Gradient >= 0 && e.Gradient <= 1000) {
			bad("priority %d: EIN has Gradient %v: set a share of the port's rate up to 1000, such as 0.25, or 0", i, e.Gradient)
		} else if e.Gradient > 0 && (e.Window < 1 || e.Window > maxNoticeWindow) {
			bad("priority %d: EIN has a Window of %d: set 1 to %d dequeues, such as 50", i, e.Window, maxNoticeWindow)
		} else if e.HighWater < 0 || e.HighWater >= 2*units.GiB {
			bad("priority %d: EIN has HighWater %v: set 0 to 2GiB", i, e.HighWater)
		}
		p := k.PFC
		if p.Watchdog < 0 || p.Watchdog > 1000*units.Second {
			bad("priority %d: Watchdog is %v: set 0 (none) to 1000s", i, p.Watchdog)
		}
		if p.XOFF < 0 || p.XON < 0 || p.Headroom < 0 || p.XOFF >= 2*units.GiB || p.Headroom >= 2*units.GiB {
			bad("priority %d: PFC has XOFF %v, XON %v, Headroom %v: set 0 to 2GiB", i, p.XOFF, p.XON, p.Headroom)
		}
		if p.XON > 0 && p.XON >= p.XOFF {
			bad("priority %d: PFC has XON %v and XOFF %v: set XON below XOFF", i, p.XON, p.XOFF)
		}
	}
	return errs
}

func sortedKeys(m map[string]SwitchConfig) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
