package bench

import (
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// topologyOf describes a graph.
func topologyOf(g *fabric.Topology) *results.Topology {
	t := &results.Topology{Links: make([]results.TopologyLink, 0, g.Links())}
	for h := range g.Hosts() {
		t.Nodes = append(t.Nodes, results.TopologyNode{Name: g.HostName(h), Kind: results.NodeHost})
	}
	for _, name := range g.SwitchNames() {
		t.Nodes = append(t.Nodes, results.TopologyNode{Name: name, Kind: results.NodeSwitch})
	}
	for i := range g.Links() {
		l := g.Link(fabric.LinkID(i))
		name := g.LinkName(fabric.LinkID(i))
		// No name of a node has "->" or "#" in it.
		from, to, _ := strings.Cut(name, "->")
		to, _, _ = strings.Cut(to, "#")
		t.Links = append(t.Links, results.TopologyLink{Link: name, From: from, To: to, RateGbps: stats.Float(l.Rate.Gbps()), DelayUs: stats.Float(l.Delay.Microseconds())})
	}
	return t
}

// linkUse returns the measurements of every link.
func (m *measurement) linkUse() *results.LinkUse {
	links := len(m.ports)
	u := &results.LinkUse{
		Busy: make([]stats.Float, 0, links), QueueMaxBytes: make([]int64, 0, links),
		Drops: make([]uint64, 0, links), PauseUs: make([]stats.Float, 0, links),
	}
	span := m.sim.end - m.warmup
	for i := range m.ports {
		b := &m.ports[i]
		s := m.sim.net.Port(fabric.LinkID(i)).Stats()
		busy := stats.Unmeasured
		if span > 0 {
			busy = stats.Float(min(float64(s.Busy-b.stats.Busy)/float64(span), 1))
		}
		var paused units.Time
		for p := range s.Paused {
			paused += s.Paused[p] - b.stats.Paused[p]
		}
		u.Busy = append(u.Busy, busy)
		u.QueueMaxBytes = append(u.QueueMaxBytes, m.longestQueue(fabric.LinkID(i)))
		u.Drops = append(u.Drops, s.Drops+s.Lost-b.stats.Drops-b.stats.Lost)
		u.PauseUs = append(u.PauseUs, stats.Float(paused.Microseconds()))
	}
	return u
}
