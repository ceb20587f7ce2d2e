package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Topology is hosts, switches and links. Except in a `graph`, hosts are h0, h1, ..., and
// the switches above them tor0, tor1, ...
type Topology struct {
	// The shape; it decides which keys there are besides these.
	Kind string `yaml:"kind" eg:"star" req:"yes"`
	// Shape holds the keys of the kind, such as a *Star.
	Shape Shape `yaml:",variant"`
	// Rate of the links from hosts to switches.
	HostRate units.Rate `yaml:"host_rate" eg:"25Gbps" range:"(0,)"`
	// Hosts whose link has another rate.
	HostRates map[string]units.Rate `yaml:"host_rates" eg:"{h10: 20Gbps}"`
	// Propagation delay of the links from hosts to switches.
	HostDelay units.Time `yaml:"host_delay" eg:"245ns" range:"[0s,1s]"`
	// Rate of the links between switches.
	TrunkRate units.Rate `yaml:"trunk_rate" eg:"100Gbps" range:"(0,)" zero:"that of the hosts' links"`
	// Propagation delay of the links between switches.
	TrunkDelay units.Time `yaml:"trunk_delay" eg:"1us" range:"(0s,1s]" zero:"that of the hosts' links"`
	// What links add to each frame: `ethernet`, preamble and gap, or `infiniband`,
	// nothing.
	Framing string `yaml:"framing" eg:"infiniband" one:"ethernet infiniband"`
}

// Shape is the kind of a topology with its dimensions.
type Shape interface {
	build(host, trunk fabric.Link) *fabric.Topology
	// links is how many links the dimensions make at most.
	links() float64
	// extent returns how large the network is, without its links.
	extent() extent
}

// checkedShape is a shape with rules of its own: what the graph
// would not name by its key.
type checkedShape interface {
	check(d *tree.Document, t *Topology)
}

// Star joins all hosts by one switch, `tor0`.
type Star struct {
	// Number of hosts.
	Hosts int `yaml:"hosts" eg:"11" req:"yes" range:"[1,2^21]"`
}

// Dumbbell has two switches, `tor0` and `tor1`, joined by one link.
type Dumbbell struct {
	// Hosts on `tor0`: `h0` and following.
	Left int `yaml:"left" eg:"4" req:"yes" range:"[1,2^21]"`
	// Hosts on `tor1`, numbered after the left ones.
	Right int `yaml:"right" eg:"4" req:"yes" range:"[1,2^21]"`
}

// Chain is switches `tor0`, `tor1`, ... in a row: the parking lot. Hosts are
// numbered switch by switch.
type Chain struct {
	// Number of switches.
	Switches int `yaml:"switches" eg:"3" req:"yes" range:"[1,2^21]"`
	// Hosts on each switch.
	HostsPerSwitch int `yaml:"hosts_per_switch" eg:"2" req:"yes" range:"[1,2^21]"`
}

// LeafSpine joins each leaf, `tor0`, `tor1`, ..., with each spine, `spine0`, ... Hosts
// are numbered leaf by leaf. With several planes there is all of this once for each,
// numbered plane by plane: hosts of different planes have no link and no flow between them.
type LeafSpine struct {
	// Number of leaves.
	Leaves int `yaml:"leaves" eg:"4" req:"yes" range:"[1,2^21]"`
	// Number of spines.
	Spines int `yaml:"spines" eg:"2" req:"yes" range:"[1,2^21]"`
	// Hosts on each leaf.
	HostsPerLeaf int `yaml:"hosts_per_leaf" eg:"16" req:"yes" range:"[1,2^21]"`
	// Links from a leaf to a spine.
	ParallelLinks int `yaml:"parallel_links" eg:"2" range:"[1,2^21]"`
	// How many networks alike there are, which share nothing.
	Planes int `yaml:"planes" eg:"1" range:"[1,2^21]"`
}

// ThreeTier is pods of leaves `tor0`, ... and aggregation switches `agg0`, ..., each of
// a pod's leaves joined with each of its aggregation switches, and core switches
// `core0`, ... above them. Leaves, aggregation switches and hosts are numbered pod by
// pod.
type ThreeTier struct {
	// Number of pods.
	Pods int `yaml:"pods" eg:"4" req:"yes" range:"[1,2^21]"`
	// Leaves in a pod.
	TorsPerPod int `yaml:"tors_per_pod" eg:"2" req:"yes" range:"[1,2^21]"`
	// Aggregation switches in a pod.
	AggsPerPod int `yaml:"aggs_per_pod" eg:"2" req:"yes" range:"[1,2^21]"`
	// Core switches.
	Cores int `yaml:"cores" eg:"2" req:"yes" range:"[1,2^21]"`
	// Hosts on each leaf.
	HostsPerTor int `yaml:"hosts_per_tor" eg:"32" req:"yes" range:"[1,2^21]"`
	// Whether every core switch has a link to every aggregation switch. Otherwise
	// it has one to each pod, as in a fat tree.
	Mesh bool `yaml:"mesh" eg:"true"`
	// Rate of the links to core switches.
	CoreRate units.Rate `yaml:"core_rate" eg:"400Gbps" range:"(0,)" zero:"that of the other trunks"`
	// Propagation delay of the links to core switches.
	CoreDelay units.Time `yaml:"core_delay" eg:"5us" range:"(0s,1s]" zero:"that of the other trunks"`
}

// FatTree is the k-ary fat tree of Al-Fares et al. (SIGCOMM 2008): k pods of k/2
// leaves and k/2 aggregation switches, (k/2)^2 core switches, named as in
// `three-tier`.
type FatTree struct {
	// Ports of a switch, an even number.
	K int `yaml:"k" eg:"4" req:"yes" range:"[1,2^21]"`
	// A leaf has this many times k/2 hosts.
	Oversubscription int `yaml:"oversubscription" eg:"2" range:"[1,2^21]"`
	// Rate of the links to core switches.
	CoreRate units.Rate `yaml:"core_rate" eg:"400Gbps" range:"(0,)" zero:"that of the other trunks"`
	// Propagation delay of the links to core switches.
	CoreDelay units.Time `yaml:"core_delay" eg:"5us" range:"(0s,1s]" zero:"that of the other trunks"`
}

// RDCN is a reconfigurable network: racks `tor0`, ... joined by a packet network, one
// switch `core0`, and by a circuit switch that gives each leaf one circuit at a time:
// on day s of a week, leaf i has that to leaf i+s+1, counted around. Links between
// leaves are circuits: the queue of `tor0->tor1` is the virtual output queue of tor0 for
// what goes to tor1, by circuit or by the packet network. Trunks are the links of the
// packet network.
type RDCN struct {
	// Number of leaves. A week has a day less.
	Tors int `yaml:"tors" eg:"25" req:"yes" range:"[3,2^21]" why:"fewer have no matchings to rotate"`
	// Hosts on each leaf.
	HostsPerTor int `yaml:"hosts_per_tor" eg:"10" req:"yes" range:"[1,2^21]"`
	// How long a matching of the circuit switch lasts.
	Day units.Time `yaml:"day" eg:"225us" req:"yes" range:"(0s,1s]"`
	// How long it takes to set up the next.
	Night units.Time `yaml:"night" eg:"20us" req:"yes" range:"[0s,1s]"`
	// Rate of circuits.
	CircuitRate units.Rate `yaml:"circuit_rate" eg:"100Gbps" req:"yes" range:"(0,)"`
	// Propagation delay from leaf to leaf through the circuit switch.
	CircuitDelay units.Time `yaml:"circuit_delay" eg:"4us" range:"(0s,1s]" zero:"twice that of trunks"`
}

// Build returns the topology as a graph. It must have been validated.
func (t *Topology) Build() *fabric.Topology {
	framing := fabric.Ethernet
	if t.Framing == "infiniband" {
		framing = fabric.InfiniBand
	}
	host := fabric.Link{Rate: t.HostRate, Delay: t.HostDelay, Framing: framing}
	trunk := host
	if t.TrunkRate > 0 {
		trunk.Rate = t.TrunkRate
	}
	if t.TrunkDelay > 0 {
		trunk.Delay = t.TrunkDelay
	}
	g := t.Shape.build(host, trunk)
	if len(t.HostRates) > 0 && g.Validate() == nil {
		g = t.withHostRates(g)
	}
	return g
}

// withHostRates builds the graph again, with the links of some hosts changed.
func (t *Topology) withHostRates(g *fabric.Topology) *fabric.Topology {
	changed := &fabric.Topology{}
	nodes := map[string]fabric.Node{}
	for h := range g.Hosts() {
		nodes[g.HostName(h)] = changed.AddHost(g.HostName(h))
	}
	for _, name := range g.SwitchNames() {
		nodes[name] = changed.AddSwitch(name)
	}
	for l := fabric.LinkID(0); int(l) < g.Links(); l += 2 {
		from, to := g.From(l), g.To(l)
		link := g.Link(l)
		for _, end := range []string{from, to} {
			if r, ok := t.HostRates[end]; ok {
				link.Rate = r
			}
		}
		changed.Connect(nodes[from], nodes[to], link)
	}
	return changed
}

// core is the link to core switches.
func core(trunk fabric.Link, rate units.Rate, delay units.Time) fabric.Link {
	if rate > 0 {
		trunk.Rate = rate
	}
	if delay > 0 {
		trunk.Delay = delay
	}
	return trunk
}

func (s *Star) build(host, _ fabric.Link) *fabric.Topology { return fabric.Star(s.Hosts, host) }

func (s *Dumbbell) build(host, trunk fabric.Link) *fabric.Topology {
	return fabric.Dumbbell(s.Left, s.Right, host, trunk)
}

func (s *Chain) build(host, trunk fabric.Link) *fabric.Topology {
	return fabric.Chain(s.Switches, s.HostsPerSwitch, host, trunk)
}

func (s *LeafSpine) build(host, trunk fabric.Link) *fabric.Topology {
	return fabric.LeafSpine(fabric.LeafSpineSpec{
		Leaves: s.Leaves, Spines: s.Spines, HostsPerLeaf: s.HostsPerLeaf, Parallel: s.ParallelLinks, Planes: s.Planes, Host: host, Trunk: trunk,
	})
}

func (s *ThreeTier) build(host, trunk fabric.Link) *fabric.Topology {
	return fabric.ThreeTier(fabric.ThreeTierSpec{
		Pods: s.Pods, TorsPerPod: s.TorsPerPod, AggsPerPod: s.AggsPerPod, Cores: s.Cores, HostsPerTor: s.HostsPerTor,
		Mesh: s.Mesh, Host: host, Agg: trunk, Core: core(trunk, s.CoreRate, s.CoreDelay),
	})
}

func (s *FatTree) build(host, trunk fabric.Link) *fabric.Topology {
	return fabric.FatTree(s.K, s.Oversubscription, host, trunk, core(trunk, s.CoreRate, s.CoreDelay))
}

func (s *RDCN) build(host, trunk fabric.Link) *fabric.Topology {
	circuit := trunk
	circuit.Rate, circuit.Delay = s.CircuitRate, 2*trunk.Delay
	if s.CircuitDelay > 0 {
		circuit.Delay = s.CircuitDelay
	}
	return fabric.RDCN(fabric.RDCNSpec{
		Tors: s.Tors, HostsPerTor: s.HostsPerTor, Day: s.Day, Night: s.Night, Host: host, Packet: trunk, Circuit: circuit,
	})
}

func (s *RDCN) links() float64 {
	return product(s.Tors, s.HostsPerTor+1) + product(s.Tors, s.Tors-1)/2
}

func (s *LeafSpine) check(d *tree.Document, t *Topology) {
	if s.Planes > 1 && len(t.HostRates) > 0 {
		d.Fail("topology.host_rates", "hosts of several planes have links of one rate, host_rate: leave it out")
	}
}

func (s *FatTree) check(d *tree.Document, _ *Topology) {
	if s.K%2 != 0 {
		d.Fail("topology.k", "is %d: choose an even number", s.K)
	}
}

func (*RDCN) check(d *tree.Document, t *Topology) {
	if len(t.HostRates) > 0 {
		d.Fail("topology.host_rates", "hosts of an rdcn have links of one rate, host_rate: leave it out")
	}
}

// maxLinks bounds a topology, and each dimension by its tag: more would be a slip of the pen.
const maxLinks = 1 << 21

// product multiplies without overflow.
func product(ns ...int) float64 {
	p := 1.0
	for _, n := range ns {
		p *= float64(n)
	}
	return p
}

func (s *Star) links() float64 { return product(s.Hosts) }

func (s *Dumbbell) links() float64 { return product(s.Left) + product(s.Right) + 1 }

func (s *Chain) links() float64 { return product(s.Switches, s.HostsPerSwitch+1) }

func (s *LeafSpine) links() float64 {
	return product(s.Planes, s.Leaves, s.HostsPerLeaf) + product(s.Planes, s.Leaves, s.Spines, s.ParallelLinks)
}

func (s *ThreeTier) links() float64 {
	return product(s.Pods, s.TorsPerPod, s.HostsPerTor) + product(s.Pods, s.TorsPerPod, s.AggsPerPod) +
		product(s.Pods, s.AggsPerPod, s.Cores)
}

func (s *FatTree) links() float64 { return product(s.K, s.K, s.K, s.Oversubscription+2) / 4 }

// validate checks the topology and returns its graph, or nil.
func (t *Topology) validate(d *tree.Document) *fabric.Topology {
	errs := d.Check("topology", t)
	if t.Shape == nil {
		d.Fail("topology", "missing: give its kind, one of %s", strings.Join(t.VariantKinds(), ", "))
		return nil
	}
	d.Check("topology", t.Shape)
	if s, ok := t.Shape.(checkedShape); ok {
		s.check(d, t)
	}
	if links := t.Shape.links(); len(d.Errs) == errs && links > maxLinks {
		d.Fail("topology", "it has some %.3g links: the most there can be is %d", links, maxLinks)
	}
	if len(d.Errs) > errs {
		return nil
	}
	g := t.Build()
	if err := g.Validate(); err != nil {
		for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
			d.Fail("topology", "%v", one)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.HostRates)) {
		path := "topology.host_rates." + name
		if _, err := g.Host(name); err != nil {
			d.Fail(path, "%v", err)
		} else if t.HostRates[name] <= 0 {
			d.Fail(path, "is %v: choose a rate above 0", t.HostRates[name])
		}
	}
	if len(d.Errs) > errs {
		return nil
	}
	return g
}

// plain takes the package's name off an error of fabric.
