package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// network is the workloads' knowledge of the hosts.
type network struct {
	*fabric.Topology
	rack   []int        // of each host: the number of its switch
	line   []units.Rate // of each host: its link
	uplink []units.Rate // of each switch: its links to other switches
	labels []string
	chosen int // a host of the workload that is being checked, or -1
}

func newNetwork(g *fabric.Topology) *network {
	number := map[string]int{}
	for i, name := range g.SwitchNames() {
		number[name] = i
	}
	n := &network{Topology: g, rack: make([]int, g.Hosts()), line: make([]units.Rate, g.Hosts()), uplink: make([]units.Rate, len(number)), chosen: -1}
	for h := range g.Hosts() {
		l := g.HostLink(h)
		n.rack[h], n.line[h] = number[g.To(l)], g.Link(l).Rate // rack 0 where hosts are joined directly
	}
	for l := fabric.LinkID(0); int(l) < g.Links(); l++ {
		if _, _, _, circuit := g.Circuit(l); circuit { // it comes and goes
			continue
		}
		from, fromSwitch := number[g.From(l)]
		if _, toSwitch := number[g.To(l)]; fromSwitch && toSwitch {
			n.uplink[from] += g.Link(l).Rate
		}
	}
	return n
}

// label returns the number of a label, a new one if need be.
func (n *network) label(name string) int {
	if i := slices.Index(n.labels, name); i >= 0 {
		return i
	}
	n.labels = append(n.labels, name)
	return len(n.labels) - 1
}

// host returns the number of a host, or -1.
func (n *network) host(d *tree.Document, path, name string) int {
	if name == "" && !d.Given(path) {
		d.Fail(path, "it is missing: name a host, from %s to %s", n.HostName(0), n.HostName(n.Hosts()-1))
		return -1
	}
	h, err := n.Host(name)
	if err != nil {
		d.Fail(path, "%v", err)
		return -1
	}
	n.samePlane(d, path, h)
	return h
}

// samePlane checks that a host of a workload is of the plane of its others.
func (n *network) samePlane(d *tree.Document, path string, h int) bool {
	if n.chosen < 0 {
		n.chosen = h
	}
	if n.Planes() > 1 && n.Plane(h) != n.Plane(n.chosen) {
		d.Fail(path, "%s is in another plane than %s, and planes share no link: let a workload have hosts of one plane, such as [%s..%s]",
			n.HostName(h), n.HostName(n.chosen), n.HostName(0), n.HostName(n.Hosts()/n.Planes()-1))
		return false
	}
	return true
}

// hosts returns the numbers of the hosts that a set chooses, except one (or -1).
func (n *network) hosts(d *tree.Document, path string, set HostSet, except int) []int {
	var chosen []int
	if set.All || set.Count > 0 {
		for h := range n.Hosts() {
			if h != except && (set.All || len(chosen) < set.Count) {
				if !n.samePlane(d, path, h) {
					return nil
				}
				chosen = append(chosen, h)
			}
		}
		if len(chosen) < set.Count {
			d.Fail(path, "is %d: there are only %d", set.Count, len(chosen))
		}
		return chosen
	}
	seen := map[int]bool{}
	for i, item := range set.Names {
		at := fmt.Sprintf("%s[%d]", path, i)
		first, last, isRange := strings.Cut(item, "..")
		if !isRange {
			last = first
		}
		from, err := n.Host(first)
		to, err2 := n.Host(last)
		switch {
		case err != nil:
			d.Fail(at, "%v", err)
			continue
		case err2 != nil:
			d.Fail(at, "%v", err2)
			continue
		case from > to:
			d.Fail(at, "%q begins after its end: write it as %s..%s", item, last, first)
		}
		for h := from; h <= to; h++ {
			switch {
			case seen[h]:
				d.Fail(at, "%s is listed twice: name each host once, and give it more connections if that is meant", n.HostName(h))
			case h == except:
				d.Fail(at, "%s is the receiver itself: leave it out", n.HostName(h))
			case !n.samePlane(d, at, h):
				return nil
			default:
				chosen = append(chosen, h)
			}
			seen[h] = true
		}
	}
	return chosen
}
