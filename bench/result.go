package bench

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/version"
)

// FormatVersion is the version of the JSON that WriteJSON writes. It changes
// when a field changes its meaning or goes, not when one is added. Up to version 1 queues
// and buffers were samples: those of their series, and of queue_avg_bytes the mean.
const FormatVersion = 2

// Options is how to run a scenario.
type Options struct {
	// Seed replaces the scenario's seed unless it is nil.
	Seed *uint64
	// Progress, unless it is nil, is called now and then, never concurrently,
	// with the share of the whole run that is done, from 0 to 1, and what is
	// running: "TIMELY (2 of 3)".
	Progress func(done float64, what string)
	// Flows, unless it is nil, is called with the record of each flow when it has
	// ended, and of those still under way at the end of a system's run; never
	// concurrently. The record is valid during the call. An error ends the run.
	Flows func(*FlowRecord) error
	// Series, unless it is nil, is called with every point of the time series as
	// the run comes to it; never concurrently. The row is valid during the call. An
	// error ends the run.
	Series func(*SeriesRow) error
	// Interrupted, unless it is nil, is asked at every step of the measurement. Its
	// error ends the run, after the records of the flows under way.
	Interrupted func() error
	// NICTrace, unless it is nil, is given what becomes of requests inside NICs.
	NICTrace *NICTrace
	// NICVCD, likewise, what the stages of NICs do.
	NICVCD *NICVCD
	// Workers, where it is above 0, run the networks that can be divided in windows:
	// those of reduced NICs whose links all have a delay, without failures, watchdogs,
	// circuits, programs and oracles. Others run as with 0. Results are the same to
	// the byte but for System.Events and WallS, which say how they came about.
	Workers int
	// NoSeries leaves series out of the result, and so holds none in memory.
	NoSeries bool
}

// Document is what a call of the program writes: the results of one or more
// scenarios and where they came from. All that is not a function of scenarios
// and seeds is in StartTime, Environment and the fields that end in wall_s.
type Document struct {
	Version     int         `json:"version"`    // FormatVersion
	StartTime   string      `json:"start_time"` // RFC 3339, UTC
	Arguments   []string    `json:"arguments"`
	Environment Environment `json:"environment"`
	Results     []*Result   `json:"results"`
	// Interrupted says that a signal broke the call off.
	Interrupted bool `json:"interrupted,omitempty"`
	// Missing is what an interrupt or a failure kept from being run to its end.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing are systems of a scenario that have no result.
type Missing struct {
	Scenario string   `json:"scenario"`
	Systems  []string `json:"systems"`
}

func (m Missing) String() string { return m.Scenario + " (" + strings.Join(m.Systems, ", ") + ")" }

// Environment is the machine and the program that ran.
type Environment struct {
	version.Identity // the program; documents of before have less of it

	CPUs int `json:"cpus"`
}

// ClearWall empties every field that differs from run to run of one scenario
// and seed, so that two documents can be compared byte by byte.
func (d *Document) ClearWall() {
	d.StartTime, d.Environment = "", Environment{}
	for _, r := range d.Results {
		r.WallS = 0
		for _, s := range r.Systems {
			s.WallS = 0
		}
	}
}

// Result is what one scenario gave.
type Result struct {
	Scenario    string `json:"scenario"`
	Description string `json:"description,omitempty"`
	Source      string `json:"source,omitempty"` // what the scenario restates: paper, table
	// YAML is the scenario as it was run, with every default written out.
	YAML string `json:"yaml,omitempty"`
	Seed uint64 `json:"seed"`

	// Topology is nil in results of versions that did not write it.
	Topology *Topology `json:"topology,omitempty"`

	Systems []*System `json:"systems"`

	// Sums over the systems. Unlike theirs, these are also there for a run of
	// one.
	Events     uint64  `json:"events"`
	PacketHops uint64  `json:"packet_hops"` // traversals of a link by a packet, data and ACK
	SimS       Float   `json:"sim_s"`       // simulated seconds
	WallS      float64 `json:"wall_s"`      // elapsed seconds

	// Ties are groups of systems that gave the same figures, to the last digit.
	Ties [][]string `json:"ties,omitempty"`

	// Misses are the scenario's expectations that were not met; see Misses.
	Misses []Miss `json:"misses,omitempty"`
}

// System is what one system of a scenario gave.
type System struct {
	Name   string `json:"name"`
	Engine string `json:"engine"`
	Mode   string `json:"mode"` // where the engine ran: "host" or "offload"
	// Config is the engine's configuration with its defaults, by the names it
	// has in a scenario.
	Config map[string]any `json:"config,omitempty"`

	Flows
	Network
	Clocks
	Ruling

	// Labels are the same figures for the flows of each label, in the order in
	// which the scenario first names them.
	Labels []Label `json:"labels,omitempty"`
	// Priorities are those of the fabric in use, if there are several.
	Priorities []Priority `json:"priorities,omitempty"`
	// Links are those that the scenario asked to measure.
	Links []Link `json:"links,omitempty"`
	// LinkUse is of every link of the topology.
	LinkUse *LinkUse `json:"link_use,omitempty"`
	// NICs are those that the scenario asked to look into.
	NICs []NICUse `json:"nics,omitempty"`

	Series        []Series       `json:"series,omitempty"`
	Distributions []Distribution `json:"distributions,omitempty"`

	Events     uint64  `json:"events"`
	PacketHops uint64  `json:"packet_hops"`
	SimS       Float   `json:"sim_s"`
	WallS      float64 `json:"wall_s"`
}

// NewSystem returns a System whose measured values are all Unmeasured.
func NewSystem(name, engine, mode string) *System {
	return &System{Name: name, Engine: engine, Mode: mode, Flows: NewFlows(), Network: NewNetwork(), Clocks: NewClocks(), Ruling: newRuling(), SimS: Unmeasured}
}

// Flows is what was measured at the ends of a set of flows. Rates, round trips,
// bytes, and what was sent again, ran out or was notified count from the end of the warm-up; flows and their completion times
// count if the flow started after it.
type Flows struct {
	FlowsStarted uint64 `json:"flows_started"`
	FlowsDone    uint64 `json:"flows_done"`
	Bytes        int64  `json:"bytes"` // payload delivered, each byte once

	ThroughputGbps Float `json:"throughput_gbps"` // of payload, over the whole measurement
	// GoodputGbps is of payload over ActiveUs, the time in which a request was under
	// way: posted and not completed. Spans that overlap count once.
	GoodputGbps Float `json:"goodput_gbps"`
	ActiveUs    Float `json:"active_us"`
	WireGbps    Float `json:"wire_gbps"` // all of the data packets: headers, preamble and gap included

	// AlgBW and BusBW are of collectives, as nccl-tests defines both: the operation's
	// size over its mean time, and that times the operation's factor.
	AlgBW Float `json:"algbw_gbytes_per_s"`
	BusBW Float `json:"busbw_gbytes_per_s"`

	RTTSamples uint64 `json:"rtt_samples"`
	RTTAvgUs   Float  `json:"rtt_avg_us"`
	RTTP50Us   Float  `json:"rtt_p50_us"`
	RTTP99Us   Float  `json:"rtt_p99_us"`
	RTTP1Us    Float  `json:"rtt_p1_us"`
	// RTTSpreadUs is from the 1st to the 99th percentile.
	RTTSpreadUs Float `json:"rtt_spread_us"`

	// Jain is Jain's index of the payload throughput of flows, 1/n to 1.
	Jain Float `json:"jain"`
	// JainWindow and MaxMinDistance are means over measure.window of flows
	// without end: Jain's index within a window, and how far the flows' rates are
	// from the max-min fair ones, 0 for exactly those (maxmin.Distance).
	JainWindow     Float `json:"jain_window"`
	MaxMinDistance Float `json:"maxmin_distance"`

	FCTAvgUs Float `json:"fct_avg_us"` // of flows that end
	FCTP50Us Float `json:"fct_p50_us"`
	FCTP99Us Float `json:"fct_p99_us"`
	// Slowdown is by size: completion time over what it is in an idle network.
	Slowdown []SlowdownBin `json:"slowdown,omitempty"`

	Retransmissions uint64 `json:"retransmissions"` // packets sent again
	Timeouts        uint64 `json:"timeouts"`
	CNPs            uint64 `json:"cnps"` // congestion notification packets received
}

// NewFlows returns a Flows whose measured values are all Unmeasured.
func NewFlows() Flows {
	u := Unmeasured
	return Flows{
		ThroughputGbps: u, WireGbps: u, GoodputGbps: u, ActiveUs: u, AlgBW: u, BusBW: u, RTTAvgUs: u, RTTP50Us: u, RTTP99Us: u, RTTP1Us: u, RTTSpreadUs: u, Jain: u, JainWindow: u, MaxMinDistance: u,
		FCTAvgUs: u, FCTP50Us: u, FCTP99Us: u,
	}
}

// SlowdownBin is the slowdown of the flows of a range of sizes.
type SlowdownBin struct {
	FromBytes int64  `json:"from_bytes"` // above which
	ToBytes   int64  `json:"to_bytes"`   // up to and including which
	Flows     uint64 `json:"flows"`
	P50       Float  `json:"slowdown_p50"`
	P95       Float  `json:"slowdown_p95"`
	P99       Float  `json:"slowdown_p99"`
}

// Network is what was measured inside the fabric, over all its ports, from the
// end of the warm-up.
type Network struct {
	Drops    uint64 `json:"drops"` // packets that found no buffer or were lost by a fault
	ECNMarks uint64 `json:"ecn_marks"`
	EINMarks uint64 `json:"ein_marks"` // early incast notices
	// WatchdogTrips are pauses that a PFC watchdog ended, WatchdogDrops the packets
	// that it dropped, which are among the drops.
	WatchdogTrips uint64 `json:"watchdog_trips"`
	WatchdogDrops uint64 `json:"watchdog_drops"`
	PauseFrames   uint64 `json:"pause_frames"`
	PauseUs       Float  `json:"pause_us"`        // summed over ports and priorities
	QueueMaxBytes int64  `json:"queue_max_bytes"` // of the port with the largest
	// QueueAvgBytes is the mean over time, of the port where it is largest.
	QueueAvgBytes Float `json:"queue_avg_bytes"`
}

// NewNetwork returns a Network whose measured values are all Unmeasured.
func NewNetwork() Network { return Network{PauseUs: Unmeasured, QueueAvgBytes: Unmeasured} }

// Label is what the flows of one label did.
type Label struct {
	Label string `json:"label"`
	Flows
}

// Priority is what happened to one priority: to the flows whose data have it, where
// the engine does not choose another for a packet, and to all of its packets at all
// ports.
type Priority struct {
	Priority int `json:"priority"`
	Flows

	Drops    uint64 `json:"drops"` // packets that found no buffer
	ECNMarks uint64 `json:"ecn_marks"`
	PauseUs  Float  `json:"pause_us"` // summed over ports
	// Of the port where they are largest; the mean is over time.
	QueueMaxBytes int64 `json:"queue_max_bytes"`
	QueueAvgBytes Float `json:"queue_avg_bytes"`
}

// Link is what happened at one direction of a link, from the end of the
// warm-up.
type Link struct {
	Link          string `json:"link"` // such as "tor0->h10"
	RateGbps      Float  `json:"rate_gbps"`
	WireGbps      Float  `json:"wire_gbps"`
	Busy          Float  `json:"busy"`         // share of the time spent sending, 0 to 1
	BusyMinimum   Float  `json:"busy_minimum"` // the least of any whole window
	QueueMaxBytes int64  `json:"queue_max_bytes"`
	QueueAvgBytes Float  `json:"queue_avg_bytes"` // over time
	Drops         uint64 `json:"drops"`
	ECNMarks      uint64 `json:"ecn_marks"`
	EINMarks      uint64 `json:"ein_marks"`
	WatchdogTrips uint64 `json:"watchdog_trips"`
	WatchdogDrops uint64 `json:"watchdog_drops"`
	PauseUs       Float  `json:"pause_us"`
}

// Kinds of series.
const (
	SeriesRate   = "rate"   // payload throughput of a label's flows, Gbps, over the step that ends here
	SeriesWire   = "wire"   // the same on the wire
	SeriesRTT    = "rtt"    // mean round trip over the step that ends here, us
	SeriesQueue  = "queue"  // bytes queued for a link: their mean over the step that ends here, and their most
	SeriesBusy   = "busy"   // share of the window that ends here in which a link was sending
	SeriesFlows  = "flows"  // flows under way, now
	SeriesBuffer = "buffer" // likewise, bytes taken of a switch's shared buffer
	// Of a label's flows without end, over the window that ends here.
	SeriesJain   = "jain"   // Jain's index of their throughput
	SeriesMaxMin = "maxmin" // distance from their max-min fair rates
)

// SeriesAll is the name of a series that stands for all flows, or for the
// deepest of all queues.
const SeriesAll = "all"

// Series is a value at even steps of simulated time: point i is at StartUs +
// i*StepUs.
type Series struct {
	Kind    string  `json:"kind"` // SeriesRate and so on
	Name    string  `json:"name"` // of the label, or of the link; or SeriesAll
	Unit    string  `json:"unit"` // as column headers and axes show it: "Gbps", "us", "B"
	StartUs Float   `json:"start_us"`
	StepUs  Float   `json:"step_us"`
	Values  []Float `json:"values"`
	// Max is the most within each step where Values are the mean, of queues and buffers;
	// else it is left out.
	Max []Float `json:"max,omitempty"`
	// Thinned is how many steps of the measurement a value is of, where the run had
	// more than a result keeps: of flows under way, and in Max, it is their largest
	// value, of everything else their mean.
	Thinned int `json:"thinned,omitempty"`
}

// DistributionBySize is the kind of the completion times of a range of flow sizes,
// of all labels, with the name that SizeRange gives it.
const DistributionBySize = "fct_by_size"

// Distribution is the cumulative distribution of a measured value: the share
// Share[i] of the samples is at or below Values[i]. Of SeriesQueue it is the share of the
// time from the end of the warm-up.
type Distribution struct {
	Kind   string  `json:"kind"` // "rtt", "fct", "slowdown", DistributionBySize, SeriesQueue
	Name   string  `json:"name"` // of the label; "all" for all flows; of the range of sizes; of the link
	Unit   string  `json:"unit"`
	Values []Float `json:"values"`
	Share  []Float `json:"share"`
}

// Float is a measured value. Unmeasured, any other NaN and the infinities are
// null in JSON.
type Float float64

// Unmeasured is the value of what was not measured.
var Unmeasured = Float(math.NaN())

// Measured reports whether f is a number.
func (f Float) Measured() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	if !f.Measured() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Unmeasured
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*f = Float(v)
	return err
}
