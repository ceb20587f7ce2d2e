package bench

import (
	"strings"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

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
	Link     string `json:"link"` // such as "tor0->h10", and "tor0->h10#2" for a second one
	From     string `json:"from"` // the nodes
	To       string `json:"to"`
	RateGbps Float  `json:"rate_gbps"`
	DelayUs  Float  `json:"delay_us"` // of propagation
}

// LinkUse is what happened at every direction of a link, from the end of the
// warm-up. Entry i of each list is of Topology.Links[i].
type LinkUse struct {
	Busy          []Float  `json:"busy"` // share of the time spent sending, 0 to 1
	QueueMaxBytes []int64  `json:"queue_max_bytes"`
	Drops         []uint64 `json:"drops"`
	PauseUs       []Float  `json:"pause_us"` // summed over priorities
}

// topologyOf describes a graph.
func topologyOf(g *fabric.Topology) *Topology {
	t := &Topology{}
	for h := range g.Hosts() {
		t.Nodes = append(t.Nodes, TopologyNode{g.HostName(h), NodeHost})
	}
	for _, name := range g.SwitchNames() {
		t.Nodes = append(t.Nodes, TopologyNode{name, NodeSwitch})
	}
	for i := range g.Links() {
		l := g.Link(fabric.LinkID(i))
		name := g.LinkName(fabric.LinkID(i))
		// No name of a node has "->" or "#" in it.
		from, to, _ := strings.Cut(name, "->")
		to, _, _ = strings.Cut(to, "#")
		t.Links = append(t.Links, TopologyLink{name, from, to, Float(l.Rate.Gbps()), Float(l.Delay.Microseconds())})
	}
	return t
}

// linkUse returns what happened at every link.
func (m *measurement) linkUse() *LinkUse {
	u := &LinkUse{}
	span := m.sim.end - m.warmup
	for i := range m.ports {
		b := &m.ports[i]
		s := m.sim.net.Port(fabric.LinkID(i)).Stats()
		busy := Unmeasured
		if span > 0 {
			busy = Float(min(float64(s.Busy-b.stats.Busy)/float64(span), 1))
		}
		var paused units.Time
		for p := range s.Paused {
			paused += s.Paused[p] - b.stats.Paused[p]
		}
		u.Busy = append(u.Busy, busy)
		u.QueueMaxBytes = append(u.QueueMaxBytes, m.longestQueue(fabric.LinkID(i)))
		u.Drops = append(u.Drops, s.Drops+s.Lost-b.stats.Drops-b.stats.Lost)
		u.PauseUs = append(u.PauseUs, Float(paused.Microseconds()))
	}
	return u
}
