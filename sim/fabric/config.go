package fabric

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/telemetry"
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
	// INT is the form of per-hop records, which says what they add to a packet.
	INT telemetry.INTForm
}

// grown bounds what records of a form add to a packet.
func grown(f telemetry.INTForm) units.Bytes { return units.Bytes(f.Bytes(f.MaxHops()) - f.Bytes(0)) }

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
	Queue
	ECN ECN
	EIN Notice
	PFC PFC
}

// Queue has the settings of a queue that scenarios give as keys of `fabric`, by the tags of
// package field.
type Queue struct {
	// Dynamic Thresholds: a queue may grow to this many times the shared buffer
	// that is free.
	Alpha float64 `yaml:"alpha" eg:"0.5"` // above 0, kept to 1/1024; of a lossless priority without an XOFF for what an ingress port holds
}

var queueSettings = field.Of[Queue]("fabric")

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

// FieldError is what Config.Validate returns of a field that is out of range, several
// joined. Its Key is the field's name in scenarios: "reroute", "faults[0].loss"; a
// switch's fields have theirs alone ("buffer") or, of one that Switches names, behind
// its name ("switches.tor0.buffer"), and those of a priority stand behind its number
// ("classes[3].ecn.kmax").
type FieldError = field.Error

// faults collects FieldErrors of the fields below a key.
type faults struct {
	below string // "" or ends with a dot
	errs  *[]error
}

// within is the faults of the fields below another key.
func (f faults) within(key string, args ...any) faults {
	return faults{f.below + fmt.Sprintf(key, args...), f.errs}
}

// check notes a fault of a field unless it is ok.
func (f faults) check(key string, v any, ok bool, want string, args ...any) {
	if !ok {
		*f.errs = append(*f.errs, field.Bad("fabric", f.below+key, v, want, args...))
	}
}

func (f faults) size(key string, v units.Bytes) {
	f.check(key, v, v >= 0 && v < 2*units.GiB, "choose a size from 0 to below 2GiB")
}

func (f faults) probability(key string, v float64) {
	f.check(key, v, v >= 0 && v <= 1, "choose a probability, 0 to 1")
}

// maxSpan bounds the times of what goes on for a while.
const maxSpan = 1000 * units.Second

// Validate returns a *FieldError for every field that is out of range, joined.
func (c *Config) Validate() error {
	var errs []error
	f := faults{errs: &errs}
	f.check("priorities", c.Priorities, c.Priorities >= 1 && c.Priorities <= MaxPriorities, "choose 1 to %d", MaxPriorities)
	f.check("max_frame", c.MaxFrame, c.MaxFrame >= 64 && c.MaxFrame <= 64*units.KiB, "choose 64B to 64KiB")
	if len(errs) == 0 {
		c.Switch.validate(c, f)
		for _, name := range slices.Sorted(maps.Keys(c.Switches)) {
			s := c.Switches[name]
			s.validate(c, f.within("switches.%s.", name))
		}
	}
	f.check("host_send", c.HostSend, c.HostSend >= 0 && c.HostSend <= units.Second, "choose 0 to 1s")
	f.check("host_receive", c.HostReceive, c.HostReceive >= 0 && c.HostReceive <= units.Second, "choose 0 to 1s")
	f.check("reroute", c.Reroute, c.Reroute >= 0 && c.Reroute <= maxSpan, "choose a span up to %v, or 0 for never", maxSpan)
	for i := range c.Failures {
		c.Failures[i].validate(f.within("failures[%d]", i))
	}
	c.Circuits.validate(f.within("circuits."))
	for i := range c.Faults {
		f.probability(fmt.Sprintf("faults[%d].loss", i), c.Faults[i].Loss)
	}
	return errors.Join(errs...)
}

func (s *SwitchConfig) validate(c *Config, f faults) {
	f.check("switch_latency", s.Latency, s.Latency >= 0 && s.Latency <= units.Second, "choose 0 to 1s")
	f.check("buffer", s.Buffer, s.Buffer >= c.MaxFrame && s.Buffer < 2*units.GiB, "choose a size of at least one packet, %v, and below 2GiB", c.MaxFrame)
	if s.Report != nil {
		f.check("telemetry.per_hop", s.Report.INT.Form, s.Report.INT.Form == c.INT, "choose the network's form, %v", c.INT)
	}
	for i := range c.Priorities {
		s.Classes[i].validate(f.within("classes[%d].", i))
	}
}

func (k *Class) validate(f faults) {
	f.check("weight", k.Weight, k.Weight >= 0 && k.Weight <= 1000, "choose 0 (strict) to 1000")
	f.check("alpha", k.Alpha, k.Alpha >= 1.0/alphaOne && k.Alpha <= 1<<20, "choose a number from 1/%d to 2^20", alphaOne)
	fields, _ := field.Errors(queueSettings.Check(&k.Queue))
	for _, e := range fields {
		f.check(e.Key, e.Value, false, "%s", e.Want)
	}
	k.ECN.validate(f.within("ecn."))
	k.EIN.validate(f.within("ein."))
	k.PFC.validate(f.within("pfc."))
}

func (e *ECN) validate(f faults) {
	f.size("kmin", e.Kmin)
	f.size("kmax", e.Kmax)
	f.check("kmax", e.Kmax, e.Kmax >= e.Kmin, "choose at least kmin, %v", e.Kmin)
	f.probability("pmax", e.Pmax)
	f.check("at_rate", e.AtRate, e.AtRate >= 0, "choose a rate, or 0")
}

func (e *Notice) validate(f faults) {
	f.check("gradient", e.Gradient, e.Gradient >= 0 && e.Gradient <= 1000, "choose a share of the link's rate, such as 0.25, or 0 for no marks")
	idle := e.Gradient == 0 && e.Window == 0
	f.check("window", e.Window, idle || e.Window >= 1 && e.Window <= maxNoticeWindow, "choose 1 to %d dequeues, such as 50", maxNoticeWindow)
	f.check("high_water", e.HighWater, e.HighWater >= 0 && e.HighWater < 2*units.GiB, "choose a size from 0 to below 2GiB, above ecn.kmax")
}

func (p *PFC) validate(f faults) {
	f.size("xoff", p.XOFF)
	f.size("xon", p.XON)
	f.size("headroom", p.Headroom)
	f.check("xon", p.XON, p.XON <= 0 || p.XON < p.XOFF, "choose less than xoff, %v", p.XOFF)
	f.check("watchdog", p.Watchdog, p.Watchdog >= 0 && p.Watchdog <= maxSpan, "choose a span up to %v, or 0 for none", maxSpan)
}
