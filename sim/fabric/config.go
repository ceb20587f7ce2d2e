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

// Config configures the switches and links of a network. Start from Default.
type Config struct {
	// Priorities is the number of priorities, and so queues a port, there are: 1 to
	// MaxPriorities. Priority Priorities-1 is the most urgent.
	Priorities int `yaml:"priorities" range:"[1,8]"`
	// MaxFrame is the largest Packet.Size that will be sent. Headroom and the
	// quanta of round robin are computed from it.
	MaxFrame units.Bytes `yaml:"max_frame" range:"[64B,64KiB]"`
	// Switch holds for every switch that Switches does not name.
	Switch   SwitchConfig
	Switches map[string]SwitchConfig
	// Faults make links lose packets.
	Faults []Fault `yaml:"faults"`
	// Failures are links that are down, slow or lossy for a while.
	Failures []Failure `yaml:"failures"`
	// Reroute is the time from when a link goes down or comes up until switches
	// have other paths; 0 is never.
	Reroute units.Time `yaml:"reroute" range:"(0,1000s]" zero:"never"`
	// Circuits is for an RDCN alone.
	Circuits CircuitConfig `yaml:"circuits"`
	// HostSend and HostReceive are what a host adds to each packet beside its
	// link: between Transmit and the first bit on the wire, and from the last bit
	// to Endpoint.Arrive. Like a switch's latency they cost no event. Packets
	// that are in between are not stopped by a pause.
	HostSend    units.Time `yaml:"host_send" range:"[0,1s]"`
	HostReceive units.Time `yaml:"host_receive" range:"[0,1s]"`
	// INT is the form of per-hop records, which says what they add to a packet.
	INT telemetry.INTForm
}

// grown bounds what records of a form add to a packet.
func grown(f telemetry.INTForm) units.Bytes { return units.Bytes(f.Bytes(f.MaxHops()) - f.Bytes(0)) }

// SwitchConfig configures one switch.
type SwitchConfig struct {
	// Latency is from the last bit of a packet in to its entry into a queue, or
	// its first bit out where none waits. It is no part of a queueing delay.
	Latency units.Time `yaml:"switch_latency" range:"[0,1s]"`
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

// Class configures a priority at a switch.
type Class struct {
	// Weight is 0 for strict priority: the queue is served before all of lower
	// number that are strict and before all that have a weight. Queues with
	// weights share what remains in proportion, by deficit round robin.
	Weight int `yaml:"weight" range:"[1,1000]" zero:"strict priority"`
	Queue  `yaml:",inline"`
	ECN    ECN    `yaml:"ecn"`
	EIN    Notice `yaml:"ein"`
	PFC    PFC    `yaml:"pfc"`
}

// Queue has the settings of a queue that scenarios give as keys of `fabric`, by the tags of
// package field.
type Queue struct {
	// Dynamic Thresholds: a queue may grow to this many times the shared buffer
	// that is free.
	Alpha float64 `yaml:"alpha" range:"[1/1024,2^20]" as:"a number" eg:"0.5"` // kept to 1/1024; of a lossless priority without an XOFF for what an ingress port holds
}

// Notice configures EIN, Pulser's explicit incast notification. A queue begins to mark
// departing packets when its gradient, averaged over the last Window of them, exceeds
// Gradient; it ends with the first packet that leaves HighWater or less behind while the
// gradient is no higher.
type Notice struct {
	// Gradient is the queue's growth in an incast, as a share of the port's rate: 0.25
	// is Pulser's. 0 turns EIN off.
	Gradient float64 `yaml:"gradient" range:"(0,1000]" as:"a share of the link's rate" eg:"0.25" zero:"no marks"`
	// Window is how many dequeues the gradient is averaged over, 1 to 4096: 50 is
	// Pulser's.
	Window int
	// HighWater is the queue that ends an incast. It should be above the threshold of
	// ECN, and ECN.AtRate goes for it as well.
	HighWater units.Bytes `yaml:"high_water" range:"[0,2GiB)" why:"it should be above ecn.kmax"`
}

// maxNoticeWindow keeps the sum of a window's gradients exact.
const maxNoticeWindow = 4096

// ECN is random early marking. A packet that leaves a queue, more than Kmin
// bytes of which stay behind, is marked with a probability that rises linearly
// from 0 at Kmin to Pmax at Kmax, and is 1 above Kmax. Kmin equal to Kmax is
// DCTCP's step. Kmax of 0 turns marking off.
type ECN struct {
	Kmin units.Bytes `yaml:"kmin" range:"[0,2GiB)"`
	Kmax units.Bytes `yaml:"kmax" range:"[0,2GiB)" least:"kmin"`
	Pmax float64     `yaml:"pmax" range:"[0,1]" as:"a probability"`
	// AtRate says that Kmin and Kmax are meant for ports of this rate: others
	// get them in proportion to theirs. 0 means the same for all.
	AtRate units.Rate `yaml:"at_rate" range:"(0,)" zero:"the same at all rates"`
}

// PFC is priority flow control (IEEE 802.1Qbb) of a priority, per ingress port.
type PFC struct {
	// Lossless turns it on. Packets of a lossless priority are dropped only if
	// they overflow the headroom.
	Lossless bool
	// XOFF is the number of bytes of the priority an ingress port may hold in shared
	// buffer before it pauses its sender; 0 makes that dynamic, by Class.Alpha.
	XOFF units.Bytes `yaml:"xoff" range:"[0,2GiB)"`
	// XON is where the sender may resume: below XOFF; 0 means two MaxFrames
	// below what XOFF is at the time.
	XON units.Bytes `yaml:"xon" range:"[0,2GiB)"`
	// Headroom is set aside for each ingress port, for what arrives after it has
	// decided to pause; 0 computes it from the link so that nothing is lost.
	Headroom units.Bytes `yaml:"headroom" range:"[0,2GiB)"`
	// Watchdog is for how long an egress queue may be paused without a break
	// before the switch takes it for a storm or a deadlock: it drops what is in
	// the queue and what comes until the pause ends. 0 is for ever.
	Watchdog units.Time `yaml:"watchdog" range:"(0,1000s]" zero:"none"`
	// WatchdogForwards makes the watchdog send in spite of the pause instead.
	WatchdogForwards bool
}

// Fault makes a direction of a link lose packets, as if their FCS were wrong:
// they take their time on the wire and do not arrive.
type Fault struct {
	Link string  // such as "tor0->h3", or "*" for all
	Loss float64 `yaml:"loss" range:"[0,1]" as:"a probability"` // of each packet
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

// FieldError is Config.Validate's error for a field that is out of range, several
// joined. Its Key is the field's name in scenarios: "reroute", "faults[0].loss"; a
// switch's fields have theirs alone ("buffer") or, of one that Switches names, behind
// its name ("switches.tor0.buffer"), and a priority's fields stand behind its number
// ("classes[3].ecn.kmax").
type FieldError = field.Error

// maxSpan bounds the times of what goes on for a while.
const maxSpan = 1000 * units.Second

var (
	settings   = field.Of[Config]("fabric")
	ofSwitches = field.Of[SwitchConfig]("fabric")
	ofClasses  = field.Of[Class]("fabric")
)

// Validate returns a *FieldError for every field that is out of range, joined.
func (c *Config) Validate() error {
	errs := []error{settings.CheckAll(c), c.Switch.validate(c, "")}
	for _, name := range slices.Sorted(maps.Keys(c.Switches)) {
		s := c.Switches[name]
		errs = append(errs, s.validate(c, "switches."+name+"."))
	}
	for i := range c.Failures {
		errs = append(errs, c.Failures[i].rules(fmt.Sprintf("failures[%d]", i)))
	}
	return errors.Join(errs...)
}

func (s *SwitchConfig) validate(c *Config, below string) error {
	errs := []error{ofSwitches.CheckBelow(below, s)}
	if s.Buffer < c.MaxFrame || s.Buffer >= 2*units.GiB {
		errs = append(errs, field.Bad("fabric", below+"buffer", s.Buffer, "choose a size of at least one packet, %v, and below 2GiB", c.MaxFrame))
	}
	if s.Report != nil && s.Report.INT.Form != c.INT {
		errs = append(errs, field.Bad("fabric", below+"telemetry.per_hop", s.Report.INT.Form, "choose the network's form, %v", c.INT))
	}
	for i := range min(c.Priorities, MaxPriorities) {
		k, at := &s.Classes[i], fmt.Sprintf("%sclasses[%d].", below, i)
		errs = append(errs, ofClasses.CheckBelow(at, k), k.rules(at))
	}
	return errors.Join(errs...)
}

// rules holds settings of a class against each other.
func (k *Class) rules(below string) error {
	var errs []error
	if e := &k.EIN; (e.Gradient != 0 || e.Window != 0) && (e.Window < 1 || e.Window > maxNoticeWindow) {
		errs = append(errs, field.Bad("fabric", below+"ein.window", e.Window, "choose 1 to %d dequeues, such as 50", maxNoticeWindow))
	}
	if p := &k.PFC; p.XON > 0 && p.XON >= p.XOFF {
		errs = append(errs, field.Bad("fabric", below+"pfc.xon", p.XON, "choose less than xoff, %v", p.XOFF))
	}
	return errors.Join(errs...)
}
