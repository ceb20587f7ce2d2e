package workload

import (
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// Workload is a pattern of flows. A flow is a queue pair of its own, which posts
// its messages back to back.
type Workload struct {
	// Distinguishes the workload's flows in results; the default is the kind.
	Name string `yaml:"name" eg:"background"`
	// The pattern; it decides which keys there are besides these.
	Kind string `yaml:"kind" eg:"incast" req:"yes"`
	// Pattern holds the keys of the kind, such as an *Incast.
	Pattern Pattern `yaml:",variant"`
	// What carries the data: `write`, `read` or `send`. The data of a Read come from
	// the flow's source, too: its destination posts it.
	Operation Operation `yaml:"operation" eg:"read" one:"write read send"`
	// Label of the flows: each has rows and curves of its own. The default is the
	// workload's name.
	Label string `yaml:"label" eg:"victim"`
	// Priority of the data packets; if left out, `nic.priority`.
	Priority *int `yaml:"priority" eg:"5" range:"[0,7]"`
	// The function of both ends' NICs to which its queue pairs belong, by its place in `nic.with.functions`.
	Function int `yaml:"function" eg:"0"`
	// Time between the send times of a flow's messages, from the flow's start on: the NIC
	// lets no message leave before its send time. The NIC has to schedule by time (`nic.with.send_time`).
	Every units.Time `yaml:"every" eg:"5us" range:"(0s,1s]" zero:"no send times"`
	// Size of the messages that make up a flow; the last one may be smaller. 0 is
	// one message a flow, and 1MiB for flows without end.
	Message units.Bytes `yaml:"message" eg:"64KiB" range:"(0,2GiB]" zero:"one message a flow"`
	// When the workload begins.
	Start units.Time `yaml:"start" eg:"1ms" range:"[0s,)"`
	// When it ends: no flow starts any more, and flows without end stop posting.
	Stop units.Time `yaml:"stop" eg:"4ms" range:"(0s,)" zero:"never"`
	// Each flow starts later by a random span below this.
	Jitter units.Time `yaml:"jitter" eg:"10us" range:"[0s,)"`
}

// Pattern is the kind of a workload with its parameters.
type Pattern interface {
	// plan checks the keys against the hosts of a network and returns what
	// makes the flows.
	plan(d *tree.Document, path string, w *Workload, net *network) plan
}

// Incast is many hosts that send to one, all from the workload's start on, once or
// over and over.
type Incast struct {
	// The host that all send to.
	Receiver string `yaml:"receiver" eg:"h10" req:"yes"`
	// Who sends: a number takes the first hosts that are not the receiver; or
	// a list of names and ranges; or `all` others.
	Senders HostSet `yaml:"senders" eg:"[h0..h8, h12]"`
	// Flows of each sender.
	Connections int `yaml:"connections" eg:"4" range:"[1,)" of:"flows"`
	// Bytes of each flow, or `unlimited`.
	Size FlowSize `yaml:"size" eg:"unlimited" apart:"32KB" req:"yes"`
	// Rounds; each has flows of its own.
	Rounds int `yaml:"rounds" apart:"50" range:"[1,)" of:"rounds"`
	// With more rounds than one: time from the start of a round to that of the next.
	Period units.Time `yaml:"period" apart:"1ms" range:"(0s,1000s]" zero:"one round"`
}

// Permutation makes each host send to one other and receive from one other, at
// random.
type Permutation struct {
	// Who takes part, as at `senders`.
	Hosts HostSet `yaml:"hosts" eg:"16"`
	// Flows of each pair.
	Connections int `yaml:"connections" eg:"2" range:"[1,)" of:"flows"`
	// Bytes of each flow, or `unlimited`.
	Size FlowSize `yaml:"size" eg:"2MB" req:"yes"`
}

// FlowList is flows one by one.
type FlowList struct {
	// The flows.
	Flows []FlowSpec `yaml:"flows" eg:"[{src: h0, dst: h1, size: 1MB}]" req:"yes"`
}

// FlowSpec is one flow, or a row of them.
type FlowSpec struct {
	// Source of the data.
	Src string `yaml:"src" eg:"h0" req:"yes"`
	// Destination of the data.
	Dst string `yaml:"dst" eg:"h1" req:"yes"`
	// Bytes of the flow, or `unlimited`.
	Size FlowSize `yaml:"size" eg:"1MB" apart:"unlimited" req:"yes"`
	// When it starts, counted from the workload's start.
	Start units.Time `yaml:"start" eg:"10us" range:"[0s,)"`
	// When it stops posting, counted from the workload's start.
	Stop units.Time `yaml:"stop" apart:"500us" range:"(0s,)" zero:"the workload's stop"`
	// Its label; the default is the workload's.
	Label string `yaml:"label" eg:"victim"`
	// The number of flows between the same two hosts.
	Connections int `yaml:"connections" eg:"4" range:"[1,)" of:"flows"`
	// The number of flows (each with its connections), which differ by the steps
	// below; 0 is no flow.
	Count int `yaml:"count" eg:"4" range:"[0,2^20]" of:"flows"`
	// Flow i leaves the host i times this number after `src`.
	SrcStep int `yaml:"src_step" eg:"1"`
	// Flow i goes to the host i times this number after `dst`.
	DstStep int `yaml:"dst_step" eg:"2"`
	// Flow i starts i times this later.
	StartStep units.Time `yaml:"start_step" eg:"1ms" range:"[0s,)"`
}

// Poisson is flows that arrive at random: each host starts flows at exponential
// intervals, each to a random other host, of sizes from a distribution. With `fan_in`
// incasts arrive in their place.
type Poisson struct {
	// Who takes part, as at `senders`.
	Hosts HostSet `yaml:"hosts" eg:"16"`
	// The name of a size distribution, as `sluice list` shows them, one size, or a
	// range of which all are equally likely, such as `8KB..32KB`. Or a file of points,
	// found from where the scenario is, such as `sizes.cdf`: on each line a size in bytes
	// and the share of flows of at most that size, as fractions up to 1 or percent up to
	// 100, with blanks or a comma between them. Or such points, as
	// `[[0, 0], [10KB, 0.5], [1MB, 1]]`. Between points sizes are equally likely.
	Sizes Sizes `yaml:"sizes" eg:"websearch" req:"yes"`
	// Mean payload that the flows offer, as a share of the capacity of the links
	// named by `load_on`.
	Load float64 `yaml:"load" eg:"0.6" req:"yes" range:"(0,1]" as:"a share"`
	// `hosts`: the load is that of each sender's own link. `uplinks`: it is the
	// mean over the links that leave a leaf switch upwards, whose traffic is
	// that between leaves.
	LoadOn string `yaml:"load_on" eg:"uplinks" one:"hosts uplinks"`
	// To whom: `any` other host, or one in `other-rack`.
	To string `yaml:"to" eg:"other-rack" one:"any other-rack"`
	// Most flows that start.
	Flows int `yaml:"flows" eg:"1000" range:"[1,)" of:"flows" zero:"no bound"`
	// The number of senders of an incast: at exponential intervals this many random
	// others, or hosts of other racks, each start a flow to a host, to every host
	// equally often.
	FanIn int `yaml:"fan_in" apart:"8" range:"[1,)" of:"senders" zero:"no incast"`
}

// Operation is the verb that carries a flow's data.
type Operation uint8

// Operations.
const (
	Write Operation = iota
	Read
	Send
)

// Flow is one flow as a workload makes it.
type Flow struct {
	// ID counts the flows of a scenario from 0 in the order of their starts.
	ID int64
	// Label names the flow's group in results: an index into Scenario.Labels().
	Label int
	// Workload is the index of the workload that the flow belongs to.
	Workload int
	// Src and Dst are host indices. The data go from Src to Dst, also for a
	// Read, which Dst posts.
	Src, Dst int
	// Size is the number of bytes to send; 0 is no end.
	Size units.Bytes
	// Message is the size of the messages that make up the flow; the last may
	// be smaller. It is never 0, and at most MaxMessage.
	Message   units.Bytes
	Start     units.Time
	Stop      units.Time // when a flow without end stops posting; units.Never if it does not
	Operation Operation
	// Class is one more than the priority of the data packets; 0 is the NIC's.
	Class int
	// Function is that of the NICs at both ends.
	Function int
	// Every is the time between the send times of messages, 0 for none.
	Every units.Time
}

// MaxMessage is the largest message of RC (IBA 9.7.7): 2^31 bytes. A flow of one
// message that is larger becomes several.
const MaxMessage = 2 * units.GiB
