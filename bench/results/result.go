package results

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// Result is the result of one scenario.
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

	// Sums over the systems, but for WallS: that of systems that run beside each other
	// overlaps.
	Events     uint64      `json:"events"`
	PacketHops uint64      `json:"packet_hops"` // traversals of a link by a packet, data and ACK
	SimS       stats.Float `json:"sim_s"`       // simulated seconds
	WallS      float64     `json:"wall_s"`      // elapsed seconds

	// Ties are groups of systems that gave the same figures, to the last digit.
	Ties [][]string `json:"ties,omitempty"`

	// Warnings name settings of the scenario that make figures mislead.
	Warnings []string `json:"warnings,omitempty"`
	// Notes describe how files beside the scenario were read.
	Notes []string `json:"notes,omitempty"`

	// Misses are the scenario's expectations that were not met; see Misses.
	Misses []Miss `json:"misses,omitempty"`
}

// System is the result of one system of a scenario.
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
	Trouble

	// Labels are the same figures for the flows of each label, in the order in
	// which the scenario first names them.
	Labels []Label `json:"labels,omitempty"`
	// Priorities are those of the fabric in use, if there are several.
	Priorities []Priority `json:"priorities,omitempty"`
	// Links are the links that the scenario measures.
	Links []Link `json:"links,omitempty"`
	// LinkUse is of every link of the topology.
	LinkUse *LinkUse `json:"link_use,omitempty"`
	// NICs are the NICs that the scenario inspects.
	NICs []NICUse `json:"nics,omitempty"`

	// Timeline is of the scenario's failures (fabric.failures), and what they set off; nil without.
	Timeline *Timeline `json:"timeline,omitempty"`

	// Programs are the programs that hosts ran, in the order in which the scenario
	// has them.
	Programs []HostProgram `json:"programs,omitempty"`

	Series        []Series             `json:"series,omitempty"`
	Distributions []stats.Distribution `json:"distributions,omitempty"`

	// Undivided is the reason why the network ran on one core, event by event; empty
	// if it ran in windows.
	Undivided  string      `json:"undivided,omitempty"`
	Events     uint64      `json:"events"`
	PacketHops uint64      `json:"packet_hops"`
	SimS       stats.Float `json:"sim_s"`
	WallS      float64     `json:"wall_s"`
}

// NewSystem returns a System whose measured values are all Unmeasured.
func NewSystem(name, engine, mode string) *System {
	return &System{Name: name, Engine: engine, Mode: mode, Flows: NewFlows(), Network: NewNetwork(), Clocks: NewClocks(), Ruling: newRuling(), SimS: stats.Unmeasured}
}

// Flows holds the measurements at the ends of a set of flows. Rates, round trips, bytes,
// retransmissions, timeouts and notifications count from the end of the warm-up. Flows
// and their completion times count if the flow started after it.
type Flows struct {
	FlowsStarted uint64 `json:"flows_started"`
	FlowsDone    uint64 `json:"flows_done"`
	Bytes        int64  `json:"bytes"` // payload delivered, each byte once

	ThroughputGbps stats.Float `json:"throughput_gbps"` // of payload, over the whole measurement
	// GoodputGbps is of payload over ActiveUs, the time in which a request was under
	// way: posted and not completed. Spans that overlap count once.
	GoodputGbps stats.Float `json:"goodput_gbps"`
	ActiveUs    stats.Float `json:"active_us"`
	WireGbps    stats.Float `json:"wire_gbps"` // all of the data packets: headers, preamble and gap included

	// AlgBW and BusBW are of collectives, as nccl-tests defines both: the operation's
	// size over its mean time, and that times the operation's factor.
	AlgBW stats.Float `json:"algbw_gbytes_per_s"`
	BusBW stats.Float `json:"busbw_gbytes_per_s"`

	RTTSamples uint64      `json:"rtt_samples"`
	RTTAvgUs   stats.Float `json:"rtt_avg_us"`
	RTTP50Us   stats.Float `json:"rtt_p50_us"`
	RTTP99Us   stats.Float `json:"rtt_p99_us"`
	RTTP1Us    stats.Float `json:"rtt_p1_us"`
	// RTTSpreadUs is from the 1st to the 99th percentile.
	RTTSpreadUs stats.Float `json:"rtt_spread_us"`

	// Jain is Jain's index of the payload throughput of flows, 1/n to 1.
	Jain stats.Float `json:"jain"`
	// JainWindow and MaxMinDistance are means over measure.window of flows
	// without end: Jain's index within a window, and how far the flows' rates are
	// from the max-min fair ones, 0 for exactly those (maxmin.Distance).
	JainWindow     stats.Float `json:"jain_window"`
	MaxMinDistance stats.Float `json:"maxmin_distance"`

	FCTAvgUs stats.Float `json:"fct_avg_us"` // of flows that end
	FCTP50Us stats.Float `json:"fct_p50_us"`
	FCTP99Us stats.Float `json:"fct_p99_us"`
	// Slowdown is by size: completion time over what it is in an idle network.
	Slowdown []SlowdownBin `json:"slowdown,omitempty"`

	Retransmissions uint64 `json:"retransmissions"` // packets sent again
	Timeouts        uint64 `json:"timeouts"`
	AdpRetrans      uint64 `json:"roce_adp_retrans,omitempty"` // of the timeouts, those of adaptive retransmission
	CNPs            uint64 `json:"cnps"`                       // congestion notification packets received
	// Losses for which slow restart was used, and rates that it lowered.
	SlowRestarts     uint64 `json:"roce_slow_restart,omitempty"`
	SlowRestartTrans uint64 `json:"roce_slow_restart_trans,omitempty"`
}

// NewFlows returns a Flows whose measured values are all Unmeasured.
func NewFlows() Flows {
	u := stats.Unmeasured
	return Flows{
		ThroughputGbps: u, WireGbps: u, GoodputGbps: u, ActiveUs: u, AlgBW: u, BusBW: u, RTTAvgUs: u, RTTP50Us: u, RTTP99Us: u, RTTP1Us: u, RTTSpreadUs: u, Jain: u, JainWindow: u, MaxMinDistance: u,
		FCTAvgUs: u, FCTP50Us: u, FCTP99Us: u,
	}
}

// SlowdownBin is the slowdown of the flows of a range of sizes.
type SlowdownBin struct {
	FromBytes int64       `json:"from_bytes"` // above which
	ToBytes   int64       `json:"to_bytes"`   // up to and including which
	Flows     uint64      `json:"flows"`
	P50       stats.Float `json:"slowdown_p50"`
	P95       stats.Float `json:"slowdown_p95"`
	P99       stats.Float `json:"slowdown_p99"`
}

// Network holds the measurements inside the fabric, over all its ports, from the end of
// the warm-up.
type Network struct {
	Drops uint64 `json:"drops"` // packets that found no buffer or were lost by a fault
	// NICDrops counts packets that found no room in the receive buffer of a NIC, and
	// NICMarks packets that it marked as a congested switch does.
	NICDrops uint64 `json:"nic_drops,omitempty"`
	NICMarks uint64 `json:"nic_marks,omitempty"`
	ECNMarks uint64 `json:"ecn_marks"`
	EINMarks uint64 `json:"ein_marks"` // explicit incast notifications
	// WatchdogTrips are pauses that a PFC watchdog ended, WatchdogDrops the packets
	// that it dropped, which are among the drops.
	WatchdogTrips uint64      `json:"watchdog_trips"`
	WatchdogDrops uint64      `json:"watchdog_drops"`
	PauseFrames   uint64      `json:"pause_frames"`
	PauseUs       stats.Float `json:"pause_us"`        // summed over ports and priorities
	QueueMaxBytes int64       `json:"queue_max_bytes"` // of the port with the largest
	// QueueAvgBytes is the mean over time, of the port where it is largest.
	QueueAvgBytes stats.Float `json:"queue_avg_bytes"`
}

// NewNetwork returns a Network whose measured values are all Unmeasured.
func NewNetwork() Network { return Network{PauseUs: stats.Unmeasured, QueueAvgBytes: stats.Unmeasured} }

// Label holds the measurements of one label's flows.
type Label struct {
	Label string `json:"label"`
	Flows
}

// Priority is the results of one priority. They cover the flows whose data have it,
// unless the engine chooses another for a packet, and all of its packets at all
// ports.
type Priority struct {
	Priority int `json:"priority"`
	Flows

	Drops    uint64      `json:"drops"` // packets that found no buffer
	ECNMarks uint64      `json:"ecn_marks"`
	PauseUs  stats.Float `json:"pause_us"` // summed over ports
	// Of the port where they are largest; the mean is over time.
	QueueMaxBytes int64       `json:"queue_max_bytes"`
	QueueAvgBytes stats.Float `json:"queue_avg_bytes"`
}

// Link holds the measurements at one direction of a link, from the end of the warm-up.
type Link struct {
	Link          string      `json:"link"` // such as "tor0->h10"
	RateGbps      stats.Float `json:"rate_gbps"`
	WireGbps      stats.Float `json:"wire_gbps"`
	Busy          stats.Float `json:"busy"`         // share of the time spent sending, 0 to 1
	BusyMinimum   stats.Float `json:"busy_minimum"` // the least of any whole window
	QueueMaxBytes int64       `json:"queue_max_bytes"`
	QueueAvgBytes stats.Float `json:"queue_avg_bytes"` // over time
	Drops         uint64      `json:"drops"`
	ECNMarks      uint64      `json:"ecn_marks"`
	EINMarks      uint64      `json:"ein_marks"`
	WatchdogTrips uint64      `json:"watchdog_trips"`
	WatchdogDrops uint64      `json:"watchdog_drops"`
	PauseUs       stats.Float `json:"pause_us"`
}
