package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Graph is any hosts and switches, joined link by link. A host has one link.
type Graph struct {
	// Names of the hosts, in the order in which numbers and ranges of hosts mean
	// them.
	Hosts []string `yaml:"hosts" eg:"[client, server]" req:"yes"`
	// Names of the switches.
	Switches []string `yaml:"switches" eg:"[left, right]"`
	// What joins them.
	Links []GraphLink `yaml:"links" eg:"[{a: client, b: left}, {a: left, b: right, rate: 40Gbps, delay: 2us, count: 2}, {a: right, b: server}]" req:"yes"`
}

// GraphLink joins two nodes, in both directions.
type GraphLink struct {
	// A host or switch.
	A string `yaml:"a" eg:"client" req:"yes"`
	// Another one.
	B string `yaml:"b" eg:"left" req:"yes"`
	// Its rate; 0 is `host_rate` where it leads to a host, and else `trunk_rate`.
	Rate units.Rate `yaml:"rate" eg:"40Gbps" range:"(0,)" zero:"host_rate or trunk_rate"`
	// Its propagation delay; if left out, `host_delay` where it leads to a host, and
	// else `trunk_delay`.
	Delay *units.Time `yaml:"delay" eg:"2us" range:"[0s,1s]"`
	// The number of links between the two.
	Count int `yaml:"count" eg:"2" range:"[1,2^21]"`
}

// SetDefaults implements tree.Defaulter.
func (l *GraphLink) SetDefaults() { *l = GraphLink{Count: 1} }

func (*Graph) links() float64 { return 0 }

// check refuses what build could not make sense of; fabric checks the graph.
func (g *Graph) check(d *tree.Document, _ *Topology) {
	if len(g.Hosts) == 0 {
		d.Fail("topology.hosts", "there are none: list their names")
	}
	if len(g.Links) == 0 {
		d.Fail("topology.links", "there are none: list them, such as - {a: %s, b: s0}", strings.Join(g.Hosts[:min(1, len(g.Hosts))], ""))
	}
	known := map[string]bool{}
	for _, list := range []struct {
		key   string
		names []string
	}{{"hosts", g.Hosts}, {"switches", g.Switches}} {
		for i, name := range list.names {
			path := fmt.Sprintf("topology.%s[%d]", list.key, i)
			switch {
			case known[name]:
				d.Fail(path, "%q is there twice: give each host and switch a name of its own", name)
			case name == "" || name == "all" || strings.ContainsAny(name, "# \t\n,[]{}*") || strings.Contains(name, "->") || strings.Contains(name, ".."):
				d.Fail(path, "%q is no name: use letters and digits", name)
			}
			known[name] = true
		}
	}
	total, degree := 0, map[string]int{}
	for i := range g.Links {
		l, path := &g.Links[i], fmt.Sprintf("topology.links[%d]", i)
		for _, end := range []struct{ key, name string }{{"a", l.A}, {"b", l.B}} {
			if !known[end.name] {
				d.Fail(path+"."+end.key, "there is no host or switch %q: list it in hosts or switches", end.name)
			}
			degree[end.name] += l.Count
		}
		if l.A == l.B {
			d.Fail(path+".b", "the link leads from %q to itself: name another node", l.A)
		}
		if total += min(max(l.Count, 0), maxLinks); total > maxLinks {
			d.Fail(path+".count", "is %d: choose less, so that there are at most %d links", l.Count, maxLinks)
			return
		}
	}
	for i, name := range g.Hosts {
		if n := degree[name]; n != 1 && len(g.Links) > 0 {
			d.Fail(fmt.Sprintf("topology.hosts[%d]", i), "%s has %d links: give it one (a server with several ports is several hosts)", name, n)
		}
	}
}

func (g *Graph) build(host, trunk fabric.Link) *fabric.Topology {
	t := &fabric.Topology{}
	nodes := map[string]fabric.Node{}
	for _, name := range g.Hosts {
		nodes[name] = t.AddHost(name)
	}
	for _, name := range g.Switches {
		nodes[name] = t.AddSwitch(name)
	}
	for _, l := range g.Links {
		link := trunk
		if slices.Contains(g.Hosts, l.A) || slices.Contains(g.Hosts, l.B) {
			link = host
		}
		if l.Rate > 0 {
			link.Rate = l.Rate
		}
		if l.Delay != nil {
			link.Delay = *l.Delay
		}
		for range l.Count {
			t.Connect(nodes[l.A], nodes[l.B], link)
		}
	}
	return t
}
