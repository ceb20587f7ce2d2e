package scenario

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Scenario describes a simulation. The comments of the exported fields with a yaml
// tag, here and in the types below, are the text of docs/scenarios.md, and the tags eg
// its examples; the tag apart is the value in a second item of a list, for what does
// not go with the others. A quantity with the tag plain is written without its unit.
type Scenario struct {
	// What the scenario is called in tables and reports. A file's default is its
	// name without the ending.
	Name string `yaml:"name" eg:"my-incast"`
	// One paragraph on what it shows.
	Description string `yaml:"description" eg:"Ten senders, one receiver."`
	// The publication that it restates, if any.
	Source string `yaml:"source" eg:"TIMELY (SIGCOMM 2015), table 1"`
	// From which all random choices follow. `--seed` replaces it.
	Seed uint64 `yaml:"seed" eg:"7"`
	// Simulated time. The run ends earlier if all flows have ended.
	Duration units.Time `yaml:"duration" eg:"20ms"`
	// Measurements begin here: rates, round trips and queues before it do not
	// count, nor do the completion times of flows that started before it.
	Warmup units.Time `yaml:"warmup" eg:"5ms"`

	// Hosts, switches and links.
	Topology Topology `yaml:"topology" req:"yes"`
	// How switches behave.
	Fabric Fabric `yaml:"fabric"`
	// The hosts' NICs and their queue pairs.
	NIC NIC `yaml:"nic"`
	// The pacing layer in the host, used where the engine runs there.
	Shim Shim `yaml:"shim"`
	// The hosts' processors.
	Host Host `yaml:"host"`
	// How applications use their queue pairs.
	Verbs Verbs `yaml:"verbs"`

	// What to compare: each system runs the same workloads on the same network
	// by itself, and has a row in the table.
	Systems []*System `yaml:"systems" req:"yes"`
	// Who sends what to whom, when. Required, unless there are programs.
	Workloads []*workload.Workload `yaml:"workloads"`
	// RDMA programs that hosts run, unmodified, in place of workloads.
	Programs []*HostProgram `yaml:"programs"`
	// What to sample over time.
	Measure Measure `yaml:"measure"`
	// Limits on results. A limit that is missed makes `sluice run` exit with
	// status 3.
	Expect []Expectation `yaml:"expect"`

	graph  *fabric.Topology
	plans  *workload.Plans // of Workloads
	nics   []int           // of Measure.NIC
	source *tree.Document
}

// Errorf says that what stands at a key, such as "systems[0].config", is wrong, with
// the file and line where the scenario has it or what contains it: for checks that
// only a run can make.
func (s *Scenario) Errorf(key, format string, args ...any) error {
	e := &Error{Key: key, Msg: fmt.Sprintf(format, args...)}
	if s.source != nil {
		e.Pos = s.source.Pos(key)
	} else {
		e.Pos = Pos{File: s.Name}
	}
	return Errors{e}
}

// Graph returns the topology as a graph. It is shared and must not be changed.
func (s *Scenario) Graph() *fabric.Topology { return s.graph }

// MeasuredNICs lists the hosts of measure.nic.
func (s *Scenario) MeasuredNICs() []int { return s.nics }

// Labels lists the labels of all flows, in the order in which the scenario first
// names them. Flow.Label is an index into it.
func (s *Scenario) Labels() []string { return s.plans.Labels() }

// Flows starts the flows of all workloads over, for a run with that seed. The same seed
// gives the same flows, whatever the system.
func (s *Scenario) Flows(seed uint64) *workload.Flows { return s.plans.Flows(seed) }

// Traffic starts over the workloads that are no plain flows, for a run with that
// seed. The same seed gives the same choices, whatever the system.
func (s *Scenario) Traffic(seed uint64) []*workload.Traffic { return s.plans.Traffic(seed) }

// System is one of the things compared: a rate engine with its parameters, and
// whatever of fabric, NIC and shim is different for it.
type System struct {
	// Shown in tables; the default is the engine's name.
	Name string `yaml:"name" eg:"TIMELY"`
	// The rate engine; `sluice list` names them. `none` is no congestion control.
	Engine string `yaml:"engine" eg:"timely" req:"yes"`
	// Where parameters that `config` leaves out come from: `paper`, the default, or
	// `artefact`, the paper's public code, for engines whose page says so.
	Set string `yaml:"set" eg:"paper"`
	// Parameters of the engine, by its own keys, listed below; what is left out
	// has the value of `set`.
	Config Raw `yaml:"config" eg:"{t_low: 50us}"`
	// Keys of `fabric`, `nic`, `shim`, `host` and `verbs` that differ for this system.
	Override Raw `yaml:"override" eg:"{nic: {mode: offload}}"`

	// Scheme is the scheme that Engine names.
	Scheme cc.Scheme `yaml:"-"`
	// EngineConfig is a pointer to the engine's configuration, as
	// Scheme.DefaultConfig returns it, with Config applied.
	EngineConfig any `yaml:"-"`
	// Fabric, NIC, Shim, Host and Verbs are the scenario's, with Override applied.
	Fabric Fabric `yaml:"-"`
	NIC    NIC    `yaml:"-"`
	Shim   Shim   `yaml:"-"`
	Host   Host   `yaml:"-"`
	Verbs  Verbs  `yaml:"-"`

	priority int  // the most urgent of the workloads'
	pathed   bool // the engine has a say in the choice of path
	// nic is the preset with what With changes; nil where either is at fault.
	nic *nicmodel.Config
}

// Fabric configures switches and links.
type Fabric struct {
	// From the last bit of a packet into a switch to its first bit out, where
	// nothing waits.
	SwitchLatency units.Time `yaml:"switch_latency" eg:"245ns"`
	// Packet memory of each switch, shared by its ports.
	Buffer       units.Bytes `yaml:"buffer" eg:"64MiB"`
	fabric.Queue `yaml:",inline"`
	// Whether switches write telemetry on packets that ask for it.
	INT bool `yaml:"int" eg:"false"`
	// How coarse that telemetry is.
	Telemetry Telemetry `yaml:"telemetry"`
	// A P4 program that every switch runs on each packet that it takes off a queue,
	// and which writes the telemetry: a file, found from where the scenario is or
	// where the command runs, or one of Sluice's own, such as p4/poseidon_mpd.p4;
	// `none` is none. `telemetry.form` has to be the program's.
	Program string `yaml:"program" eg:"none"`
	// Macros that the program is read with, as `NAME` or `NAME=VALUE`.
	ProgramDefine []string `yaml:"program_define" eg:"[STEP=2]"`
	// A file of entries for the program's tables, by the lines of .stf files that add
	// entries and set defaults, registers and groups. Every switch gets them.
	ProgramEntries string `yaml:"program_entries" eg:"entries.stf"`
	// Priority flow control: lossless where enabled.
	PFC PFC `yaml:"pfc"`
	// Marking by queue length.
	ECN ECN `yaml:"ecn"`
	// Switches that differ, by name.
	Switches map[string]Switch `yaml:"switches" eg:"{tor0: {int: false}}"`
	// Marking of incasts.
	EIN EIN `yaml:"ein"`
	// Priorities that differ.
	Classes []Class `yaml:"classes"`
	// Links that lose packets at random.
	Faults []Fault `yaml:"faults"`
	// Links that are down, slow or lossy for a while.
	Failures []Failure `yaml:"failures"`
	// Time from when a link goes down or comes up until switches have other paths;
	// 0 is never.
	Reroute units.Time `yaml:"reroute" eg:"1ms"`
	// What leaves do about circuits, in an `rdcn`.
	Circuits Circuits `yaml:"circuits"`
}

// Circuits configures what the leaves of an `rdcn` do about circuits. Packets that leave a
// virtual output queue while its circuit is up or announced say so.
type Circuits struct {
	// What a virtual output queue may hold, besides what `buffer` and `alpha` allow; 0
	// is no bound.
	VOQ units.Bytes `yaml:"voq" eg:"144KB"`
	// The same while its circuit is up or announced; 0 is no bound.
	AnnouncedVOQ units.Bytes `yaml:"announced_voq" eg:"450KB"`
	// How long before it is up a circuit is announced: the prebuffering of reTCP.
	Ahead units.Time `yaml:"ahead" eg:"600us"`
	// How long before its circuit is up a queue stops draining into the packet
	// network, so that no packet overtakes an earlier one there; at most a night.
	Guard units.Time `yaml:"guard" eg:"5us"`
}

// PFC is priority flow control (IEEE 802.1Qbb).
type PFC struct {
	// Whether the priorities in use are lossless.
	Enabled bool `yaml:"enabled" eg:"false"`
	// What an ingress port may hold before it pauses its sender; 0 makes that
	// dynamic, by `alpha`.
	XOFF units.Bytes `yaml:"xoff" eg:"100KiB"`
	// Where the sender may resume; 0 is two packets below `xoff`.
	XON units.Bytes `yaml:"xon" eg:"90KiB"`
	// Set aside for each ingress port, for what arrives after it has paused its
	// sender; 0 computes it from rate and length of the link.
	Headroom units.Bytes `yaml:"headroom" eg:"40KiB"`
	// How long an egress queue may be paused without a break before the switch
	// takes it for a deadlock; 0 is for ever.
	Watchdog units.Time `yaml:"watchdog" eg:"200us"`
	// What it does then, until the pause ends: `drop` what is in the queue and what
	// comes, or `forward` in spite of it.
	WatchdogAction string `yaml:"watchdog_action" eg:"forward" one:"drop forward"`
}

// ECN is marking by the length of the queue (RED without averaging).
type ECN struct {
	// Below this queue nothing is marked.
	Kmin units.Bytes `yaml:"kmin" eg:"100KiB"`
	// Above this queue everything is marked; 0 turns marking off. Equal to
	// `kmin` it makes DCTCP's step.
	Kmax units.Bytes `yaml:"kmax" eg:"400KiB"`
	// Probability of a mark at `kmax`.
	Pmax float64 `yaml:"pmax" eg:"0.2"`
	// The link rate for which `kmin` and `kmax` are meant: ports of other rates
	// get them in proportion. 0 is the same for all.
	AtRate units.Rate `yaml:"at_rate" eg:"25Gbps"`
}

// Switch overrides the fabric's settings at one switch.
type Switch struct {
	// Packet memory.
	Buffer *units.Bytes `yaml:"buffer" eg:"32MiB"`
	// Whether it writes telemetry.
	INT *bool `yaml:"int" eg:"false"`
	// Its program; `none` is none.
	Program *string `yaml:"program" eg:"none"`
	// Its latency.
	SwitchLatency *units.Time `yaml:"switch_latency" eg:"1us"`
}

// Fault makes a direction of a link lose packets.
type Fault struct {
	// The direction, such as `tor0->h3`, or `*` for all.
	Link string `yaml:"link" eg:"tor0->h3" req:"yes"`
	// Probability of loss for each packet.
	Loss float64 `yaml:"loss" eg:"0.001" req:"yes"`
}

// Modes of a NIC.
const (
	modeAuto    = "auto"
	ModeHost    = "host"
	ModeOffload = "offload"
)

// Models of a NIC.
const (
	ModelStaged  = "staged"
	ModelReduced = "reduced"
)

// NIC configures the hosts' NICs.
type NIC struct {
	// How much of the NIC is modelled: `staged` is all of it, `reduced` the line rate
	// and the fixed latencies below, for studies of the fabric. Reduced NICs carry
	// Writes and READs, of flows and of connections that workloads keep, and run the
	// engine themselves; engines whose receivers grant need them, and have no READs.
	Model string `yaml:"model" eg:"reduced" one:"staged reduced"`
	// The NIC's stages and their costs; `sluice list` names the presets. Its line
	// rate is that of the host's link.
	Preset string `yaml:"preset" eg:"cx7"`
	// The host's processors by generation, which have their PCIe's generation, latency and credits, in place of
	// those of the preset; docs/nic.md has the table.
	Host string `yaml:"host" eg:"icelake"`
	// Ports of a NIC: with 2, the network's first two hosts are the ports of one NIC in one machine, and so
	// are the next two. Ports share PCIe with the memory behind it, the memory on the chip and the processing units.
	Ports int `yaml:"ports" eg:"1" range:"[1,2]"`
	// Parameters of the preset that are other than it has them, below.
	With With `yaml:"with" eg:"{pcie: {rate: gen3x8}, wqe_fetch: 4}"`
	// Where the rate engine runs: `host` is a plain NIC under the pacing shim,
	// which sees a completion a segment; `offload` is inside the NIC, which sees
	// every acknowledgement; `auto` is offload for engines that need what
	// switches report or choose paths and in reduced NICs, and else host.
	Mode string `yaml:"mode" eg:"offload" one:"auto host offload"`
	// Payload of a full packet, in bytes: 256, 512, 1024, 2048 or 4096, the path
	// MTUs of InfiniBand, or with `model: reduced` any number from 64 to 65535, for
	// comparison with other simulators. No unit.
	MTU units.Bytes `yaml:"mtu" eg:"4096" plain:"yes" range:"[64,65535]"`
	// Packets for each acknowledgement; a message's last packet is always
	// acknowledged. Where the engine runs in the NIC, 1 gives it all there is to
	// know. At least one packet of an engine's window asks for an
	// acknowledgement.
	AckEvery int `yaml:"ack_every" eg:"4" range:"[1,2^20]"`
	// Priority of data packets; 7 is the most urgent.
	Priority int `yaml:"priority" eg:"3" range:"[0,7]"`
	// Priority of acknowledgements, and of grants. If left out, the most
	// urgent of the engine's where it chooses priorities.
	AckPriority int `yaml:"ack_priority" eg:"4" range:"[0,7]"`
	// Least time between two congestion notification packets with which a queue pair
	// answers marked ones, for engines that live on them. They have the priority of
	// acknowledgements.
	CNPInterval units.Time `yaml:"cnp_interval" eg:"50us" range:"(0,1s]"`
	// Retransmission timer as InfiniBand encodes it: 4.096 us * 2^n; 0 is
	// none.
	Timeout int `yaml:"timeout" eg:"10" range:"[0,31]"`
	// Retries after a timeout or a sequence error without progress.
	RetryCount int `yaml:"retry_cnt" eg:"3" range:"[0,7]"`
	// Retries after a receiver was not ready; 7 is without end.
	RNRRetry int `yaml:"rnr_retry" eg:"3" range:"[0,7]"`
	// Work requests that a queue pair's send queue holds.
	SendDepth int `yaml:"send_depth" eg:"256" range:"[1,2^15]"`
	// RDMA Reads and atomics that a queue pair may have outstanding.
	MaxRdAtomic int `yaml:"max_rd_atomic" eg:"4" range:"[1,255]"`
	// Of reduced NICs: from a flow's start to the choice of its first packet. If left
	// out, what the preset takes on an idle link for doorbell and element and to fetch
	// that packet's payload.
	HostStart *units.Time `yaml:"host_start" eg:"900ns" range:"[0,1s]"`
	// Of reduced NICs: from the NIC's choice of a packet to its first bit on the
	// wire. If left out, the preset's transmit pipeline, and then round trips begin with
	// that bit, otherwise with the choice.
	HostSend *units.Time `yaml:"host_send" eg:"100ns" range:"[0,1s]"`
	// Of reduced NICs: from a packet's last bit to its transport. If left out, the
	// preset's receive pipeline and the time of its stages.
	HostReceive *units.Time `yaml:"host_receive" eg:"150ns" range:"[0,1s]"`
	// Of reduced NICs: from the arrival of a flow's last acknowledgement to the
	// host's knowledge of it. If left out, the time in which the preset writes a
	// completion.
	Completion *units.Time `yaml:"completion" eg:"300ns" range:"[0,1s]"`
}

// Shim is the pacing layer in the host (verbs/paced).
type Shim struct {
	// Writes and Reads are cut into segments of this size; the
	// engine sees one completion for each.
	Segment units.Bytes `yaml:"segment" eg:"64KiB" range:"[4KiB,64KiB]"`
	// Most payload that a queue pair has with the NIC and not completed, whatever
	// the engine says. 0 follows the link, so that the engine and not this decides: twice
	// the hosts' rate times the round trip of a packet on the idle network, in whole
	// segments, and no less than four of them and 64KiB. The JSON says what came of it.
	Outstanding units.Bytes `yaml:"outstanding" eg:"256KiB" range:"(0,1GiB]" zero:"what the link asks for" least:"segment"`
	// Rate at which the NIC paces the packets of a segment (TIMELY section 5, the
	// hybrid); 0 is line rate.
	NICRate units.Rate `yaml:"nic_rate" eg:"5Gbps" range:"(0,)" zero:"line rate"`
	// Uniform noise from 0 to this is added to each round trip that the engine is
	// told, to see what it tolerates; reported round trips are without.
	RTTNoise units.Time `yaml:"rtt_noise" eg:"100us" range:"(0,1s]" zero:"none"`
	// How often the NIC's clock is read against the host's; 0 is never, and
	// round trips are then those of polling.
	CalibrateEvery units.Time `yaml:"calibrate_every" eg:"10ms" range:"(0,60s]" zero:"never"`
	// By which clocks round trips are taken: `calibrated`, from the host's post to
	// the NIC's timestamp of the completion, which calibration maps to the host's
	// clock; `nic`, by the NIC's timestamps of a segment's first packet leaving and
	// of its completion; `software`, from the host's post to its poll.
	Clock string `yaml:"clock" eg:"software" one:"calibrated nic software"`
	// Which queue pairs of a host share an engine, with its rate and window: those to one
	// `destination`, those of it by one `path` (source port), or all of a `port`. With `none`, or if
	// left out, each has its own.
	Group *string `yaml:"group" eg:"destination" one:"none destination path port"`
}

// Measure chooses what is sampled over time.
type Measure struct {
	// Step of the series of rates, round trips and queues; 0 keeps no series. Means, extremes
	// and all other figures of the whole run do not depend on it.
	Sample units.Time `yaml:"sample" eg:"20us" range:"(0s,)" zero:"no series"`
	// Span over which the busy share of the links is taken.
	Window units.Time `yaml:"window" eg:"40us" range:"(0s,)"`
	// Directions of links whose queue and busy share are kept: of the queue its mean and its
	// most in each step, and its distribution over time.
	Links []string `yaml:"links" eg:"[tor0->h10]"`
	// Switches of which is kept how much of the shared buffer is taken, the mean and the most
	// in each step.
	Switches []string `yaml:"switches" eg:"[tor0]"`
	// Upper edges of ranges of flow sizes, rising: of each range, of what lies above
	// the last, too, the distribution of completion times is kept.
	Sizes []units.Bytes `yaml:"sizes" eg:"[10KB, 1MB]" range:"(0,)" most:"32" of:"sizes"`
	// Hosts whose NIC is looked into: where the cycles of its stages went, what crossed
	// PCIe, and which of them limits what it carries.
	NIC workload.HostSet `yaml:"nic" eg:"[h0, h1]"`
}

// Expectation is a limit on a figure of the results.
type Expectation struct {
	// The system it holds for; all if left out.
	System string `yaml:"system" eg:"TIMELY"`
	// The label of the flows it holds for; all flows together if left out.
	Label string `yaml:"label" eg:"victim"`
	// The link it holds for, one of `measure.links`, if it is a figure of a link.
	Link string `yaml:"link" apart:"tor0->h10"`
	// Name of the figure in the JSON.
	Metric string `yaml:"metric" eg:"throughput_gbps" apart:"busy" req:"yes"`
	// The figure must not be below; no limit if left out.
	Min *float64 `yaml:"min" eg:"14.5"`
	// The figure must not be above; no limit if left out.
	Max *float64 `yaml:"max" eg:"24.3" apart:"0.9"`
}
