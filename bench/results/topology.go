package results

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// Topology is the network that a scenario ran on, the same for all its systems.
type Topology struct {
	Nodes []TopologyNode `json:"nodes"` // hosts, then switches, in the order of their numbers
	// Links are the directions of all links; the two of one link follow each
	// other.
	Links []TopologyLink `json:"links"`
}

// TopologyNode is a host or a switch.
type TopologyNode struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // NodeHost or NodeSwitch
}

// Kinds of nodes.
const (
	NodeHost   = "host"
	NodeSwitch = "switch"
)

// TopologyLink is one direction of a link.
type TopologyLink struct {
	Link     string      `json:"link"` // such as "tor0->h10", and "tor0->h10#2" for a second one
	From     string      `json:"from"` // the nodes
	To       string      `json:"to"`
	RateGbps stats.Float `json:"rate_gbps"`
	DelayUs  stats.Float `json:"delay_us"` // of propagation
}

// LinkUse holds the measurements at every direction of a link, from the end of the
// warm-up. Entry i of each list is of Topology.Links[i].
type LinkUse struct {
	Busy          []stats.Float `json:"busy"` // share of the time spent sending, 0 to 1
	QueueMaxBytes []int64       `json:"queue_max_bytes"`
	Drops         []uint64      `json:"drops"`
	PauseUs       []stats.Float `json:"pause_us"` // summed over priorities
}
