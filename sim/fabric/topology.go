package fabric

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Framing is a link's overhead for each frame on the wire.
type Framing uint8

// Framings.
const (
	Ethernet   Framing = iota // 8 bytes of preamble and 12 of inter-packet gap
	InfiniBand                // nothing: its delimiters are part of the line code
)

// Bytes returns the bytes that a frame takes on the wire beyond its own.
func (f Framing) Bytes() units.Bytes {
	if f == Ethernet {
		return 20
	}
	return 0
}

func (f Framing) String() string {
	if f == Ethernet {
		return "ethernet"
	}
	return "infiniband"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Framing) UnmarshalText(b []byte) error {
	switch string(b) {
	case Ethernet.String():
		*f = Ethernet
	case InfiniBand.String():
		*f = InfiniBand
	default:
		return fmt.Errorf("unknown value %q, expected ethernet or infiniband", b)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (f Framing) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Link describes a full-duplex link, in each direction.
type Link struct {
	Rate    units.Rate // above 0
	Delay   units.Time // of propagation, not negative
	Framing Framing
}

// LinkID names one direction of a link. The two directions of a link are 2i and
// 2i+1.
type LinkID int32

// Reverse returns the other direction of the same link.
func (l LinkID) Reverse() LinkID { return l ^ 1 }

// Node names a host or switch of a Topology.
type Node int32

// Topology is a graph of hosts and switches. Build one with Star, Dumbbell,
// Chain, LeafSpine, ThreeTier, FatTree or RDCN, or from an empty one with AddHost,
// AddSwitch and Connect; New validates it. Hosts and switches are numbered, each
// from 0, in the order they are added, and that is the order of paths and events.
type Topology struct {
	nodes  []node
	edges  []edge
	byName map[string]Node
	hosts  []Node
	errs   []error
	rdcn   *rdcn // nil without circuits
	planes int   // 0 is 1, too: see Planes
}

type node struct {
	name     string
	isSwitch bool
	index    int32    // among the hosts, or among the switches
	ports    []LinkID // outgoing, in the order they were connected
	// Whether some port leads to an earlier node than the one before it: else what the last
	// leads to bounds all.
	scattered bool
}

type edge struct {
	a, b Node
	Link
	ordinal int32 // 1 for the first link between a and b, 2 for the next
}

// expect makes room in an empty topology, so that large ones are
// not copied as they grow.
func (t *Topology) expect(hosts, switches, links int) {
	if max(hosts, switches, links) > math.MaxInt32 || min(hosts, switches, links) < 0 {
		return // more than links have numbers for
	}
	t.byName = make(map[string]Node, hosts+switches)
	t.nodes = make([]node, 0, hosts+switches)
	t.hosts = make([]Node, 0, hosts)
	t.edges = make([]edge, 0, links)
}

// AddHost adds a host. Its index among the hosts is the number of hosts added
// before it.
func (t *Topology) AddHost(name string) Node {
	v := t.add(node{name: name, index: int32(len(t.hosts))})
	t.hosts = append(t.hosts, v)
	return v
}

// AddSwitch adds a switch.
func (t *Topology) AddSwitch(name string) Node {
	return t.add(node{name: name, isSwitch: true, index: int32(len(t.nodes) - len(t.hosts))})
}

func (t *Topology) add(v node) Node {
	if t.byName == nil {
		t.byName = map[string]Node{}
	}
	id := Node(len(t.nodes))
	if v.name == "" || strings.Contains(v.name, "->") || strings.ContainsAny(v.name, "# \t\n") {
		t.errs = append(t.errs, fmt.Errorf("%q is no name for a node: use one without spaces, # and ->", v.name))
	}
	if _, ok := t.byName[v.name]; ok {
		t.errs = append(t.errs, fmt.Errorf("two nodes are named %q: names must differ", v.name))
	}
	t.byName[v.name] = id
	t.nodes = append(t.nodes, v)
	return id
}

// Connect joins two nodes by a link and returns the direction from a to b. The
// directions are named "a->b" and "b->a"; those of a second link between the
// same nodes "a->b#2" and so on.
func (t *Topology) Connect(a, b Node, l Link) LinkID {
	if a < 0 || b < 0 || int(a) >= len(t.nodes) || int(b) >= len(t.nodes) {
		t.errs = append(t.errs, fmt.Errorf("a link joins nodes %d and %d of a topology with %d nodes", a, b, len(t.nodes)))
		return -1
	}
	id := LinkID(2 * len(t.edges))
	e := edge{a: a, b: b, Link: l, ordinal: t.ordinal(a, b)}
	t.edges = append(t.edges, e)
	t.attach(a, id)
	t.attach(b, id.Reverse())
	return id
}

// ordinal returns the number that the next link between two nodes has among those.
// Nodes are mostly joined in order, so that few links are looked at.
func (t *Topology) ordinal(a, b Node) int32 {
	n := int32(1)
	if t.mayLead(a, b) && t.mayLead(b, a) {
		for _, p := range t.nodes[a].ports {
			if t.head(p) == b {
				n++
			}
		}
	}
	return n
}

// mayLead reports whether a link from a to b is possible, by what the last one from a
// leads to.
func (t *Topology) mayLead(a, b Node) bool {
	v := &t.nodes[a]
	k := len(v.ports)
	return k > 0 && (v.scattered || t.head(v.ports[k-1]) >= b)
}

// attach adds a port to a node.
func (t *Topology) attach(v Node, l LinkID) {
	n := &t.nodes[v]
	if k := len(n.ports); k > 0 && t.head(n.ports[k-1]) > t.head(l) {
		n.scattered = true
	}
	n.ports = append(n.ports, l)
}

// tail and head are the nodes that a direction of a link leaves and reaches.
func (t *Topology) tail(l LinkID) Node { return t.head(l.Reverse()) }

func (t *Topology) head(l LinkID) Node {
	if e := &t.edges[l/2]; l&1 == 0 {
		return e.b
	} else {
		return e.a
	}
}

// Planes returns the number of the topology's equal networks that share no node and no link: 1
// but for a LeafSpine of several planes. Nodes are numbered plane by plane.
func (t *Topology) Planes() int { return max(1, t.planes) }

// Plane returns the plane of a host.
func (t *Topology) Plane(host int) int { return host / (len(t.hosts) / t.Planes()) }

// Hosts counts the hosts.
func (t *Topology) Hosts() int { return len(t.hosts) }

// Switches counts the switches.
func (t *Topology) Switches() int { return len(t.nodes) - len(t.hosts) }

// Links counts the directions of links: every LinkID is below it.
func (t *Topology) Links() int { return 2 * len(t.edges) }

// Host returns the index of the host of that name.
func (t *Topology) Host(name string) (int, error) {
	v, ok := t.byName[name]
	switch {
	case !ok:
		return 0, fmt.Errorf("there is no host %q: the %d hosts are %s", name, len(t.hosts), t.span(t.hosts))
	case t.nodes[v].isSwitch:
		return 0, fmt.Errorf("%q is a switch: the %d hosts are %s", name, len(t.hosts), t.span(t.hosts))
	}
	return int(t.nodes[v].index), nil
}

func (t *Topology) span(vs []Node) string {
	switch len(vs) {
	case 0:
		return "none"
	case 1:
		return t.nodes[vs[0]].name
	}
	return t.nodes[vs[0]].name + " to " + t.nodes[vs[len(vs)-1]].name
}

// HostName returns the name of a host by its index.
func (t *Topology) HostName(host int) string { return t.nodes[t.hosts[host]].name }

// SwitchNames returns the names of the switches in order.
func (t *Topology) SwitchNames() []string {
	var names []string
	for i := range t.nodes {
		if t.nodes[i].isSwitch {
			names = append(names, t.nodes[i].name)
		}
	}
	return names
}

// FindLink returns the direction of that name, such as "tor0->h3".
func (t *Topology) FindLink(name string) (LinkID, error) {
	from, to, ok := strings.Cut(name, "->")
	if !ok {
		return 0, fmt.Errorf("%q is no name of a link: write it as tor0->h3", name)
	}
	to, _, _ = strings.Cut(to, "#")
	if v, ok := t.byName[from]; ok {
		w := t.byName[to]
		for _, l := range t.nodes[v].ports {
			if t.head(l) == w && t.LinkName(l) == name {
				return l, nil
			}
		}
	}
	for _, end := range []string{from, to} {
		if _, ok := t.byName[end]; !ok {
			return 0, fmt.Errorf("there is no link %q: no node is named %q", name, end)
		}
	}
	var to2 []string
	for _, p := range t.nodes[t.byName[from]].ports {
		to2 = append(to2, t.LinkName(p))
	}
	if len(to2) > 4 {
		to2 = append(to2[:2], "...", to2[len(to2)-1])
	}
	return 0, fmt.Errorf("there is no link %q: from %s lead %s", name, from, strings.Join(to2, ", "))
}

// LinkName returns the name of a direction of a link.
func (t *Topology) LinkName(l LinkID) string {
	name := t.nodes[t.tail(l)].name + "->" + t.nodes[t.head(l)].name
	if o := t.edges[l/2].ordinal; o > 1 {
		name = fmt.Sprintf("%s#%d", name, o)
	}
	return name
}

// From returns the name of the node that a link leads from.
func (t *Topology) From(l LinkID) string { return t.nodes[t.tail(l)].name }

// To returns the name of the node that a link leads to.
func (t *Topology) To(l LinkID) string { return t.nodes[t.head(l)].name }

// HostLink returns the direction in which a host of a valid topology sends.
func (t *Topology) HostLink(host int) LinkID { return t.nodes[t.hosts[host]].ports[0] }

// Link returns a link's description.
func (t *Topology) Link(l LinkID) Link { return t.edges[l/2].Link }

// Validate returns the errors, if any, that keep the graph from being a network. It
// joins all errors, each with the node or link and the remedy.
func (t *Topology) Validate() error {
	errs := append([]error(nil), t.errs...)
	if len(t.hosts) < 2 {
		there := "there is no host"
		if len(t.hosts) == 1 {
			there = "there is 1 host"
		}
		errs = append(errs, errors.New(there+": a network needs two or more"))
	}
	for i := range t.edges {
		e := &t.edges[i]
		if e.a != e.b && e.Rate > 0 && e.Delay >= 0 && e.Delay <= units.Second && e.Framing <= InfiniBand {
			continue
		}
		name := t.LinkName(LinkID(2 * i))
		if e.a == e.b {
			errs = append(errs, fmt.Errorf("link %s leads from a node to itself", name))
		}
		if e.Rate <= 0 {
			errs = append(errs, fmt.Errorf("link %s has a rate of %v: set one above 0", name, e.Rate))
		}
		if e.Delay < 0 || e.Delay > units.Second {
			errs = append(errs, fmt.Errorf("link %s has a delay of %v: set one from 0 to 1s", name, e.Delay))
		}
		if e.Framing > InfiniBand {
			errs = append(errs, fmt.Errorf("link %s has framing %d: set Ethernet or InfiniBand", name, e.Framing))
		}
	}
	for _, h := range t.hosts {
		if v := &t.nodes[h]; len(v.ports) != 1 {
			errs = append(errs, fmt.Errorf("host %s has %d links: connect it by one (a server with several ports is several hosts)", v.name, len(v.ports)))
		}
	}
	if len(errs) == 0 {
		errs = t.unreachable(errs)
	}
	return errors.Join(errs...)
}

// unreachable names a host that others can't reach. Hosts do not forward.
func (t *Topology) unreachable(errs []error) []error {
	seen := make([]bool, len(t.nodes))
	queue := make([]Node, 0, len(t.nodes))
	first := map[Node]bool{} // host of each plane
	for p := range t.Planes() {
		v := t.hosts[p*(len(t.hosts)/t.Planes())]
		seen[v], first[v] = true, true
		queue = append(queue, v)
	}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		if !t.nodes[v].isSwitch && !first[v] {
			continue
		}
		for _, p := range t.nodes[v].ports {
			if w := t.head(p); !seen[w] {
				seen[w] = true
				queue = append(queue, w)
			}
		}
	}
	for v := range t.nodes {
		if !seen[v] {
			return append(errs, fmt.Errorf("no path joins %s and %s: connect them", t.nodes[t.hosts[0]].name, t.nodes[v].name))
		}
	}
	return errs
}
