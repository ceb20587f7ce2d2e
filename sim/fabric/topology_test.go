package fabric

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

func TestShapes(t *testing.T) {
	l, fast := gig(25, units.Microsecond), gig(100, 5*units.Microsecond)
	for _, c := range []struct {
		name                   string
		topo                   *Topology
		hosts, switches, links int // links are full duplex
		far                    int // a host far from host 0, and how many links away
		hops                   int
	}{
		{"star", Star(5, l), 5, 1, 5, 4, 2},
		{"dumbbell", Dumbbell(3, 2, l, fast), 5, 2, 6, 4, 3},
		{"chain", Chain(4, 2, l, fast), 8, 4, 11, 7, 5},
		{"leaf-spine", LeafSpine(LeafSpineSpec{Leaves: 4, Spines: 2, HostsPerLeaf: 3, Parallel: 2, Host: l, Trunk: fast}), 12, 6, 28, 11, 4},
		{"fat tree", FatTree(4, 1, l, l, l), 16, 20, 48, 15, 6},
		{"oversubscribed fat tree", FatTree(4, 3, l, l, l), 48, 20, 80, 47, 6},
		// PowerTCP section 4.1: 256 servers in four pods of two ToR and two
		// aggregation switches, 25 and 100 Gbps, 5 us to the two core switches.
		{"powertcp", powerTCP(), 256, 18, 256 + 16 + 16, 255, 6},
		{"host to host", backToBack(l), 2, 0, 1, 1, 1},
	} {
		n, err := New(des.New(), c.topo, Default(), 1)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.topo.Hosts() != c.hosts || c.topo.Switches() != c.switches || c.topo.Links() != 2*c.links {
			t.Errorf("%s: %d hosts, %d switches, %d directions of links; want %d, %d, %d",
				c.name, c.topo.Hosts(), c.topo.Switches(), c.topo.Links(), c.hosts, c.switches, 2*c.links)
		}
		if h := len(n.Path(nil, 0, c.far, 0)); h != c.hops {
			t.Errorf("%s: %d links to the far side, want %d", c.name, h, c.hops)
		}
	}
}

func powerTCP() *Topology {
	return ThreeTier(ThreeTierSpec{Pods: 4, TorsPerPod: 2, AggsPerPod: 2, Cores: 2, HostsPerTor: 32, Mesh: true,
		Host: gig(25, units.Microsecond), Agg: gig(100, units.Microsecond), Core: gig(100, 5*units.Microsecond)})
}

func backToBack(l Link) *Topology {
	t := &Topology{}
	t.Connect(t.AddHost("a"), t.AddHost("b"), l)
	return t
}

func TestNames(t *testing.T) {
	l := gig(25, 0)
	topo := LeafSpine(LeafSpineSpec{Leaves: 2, Spines: 1, HostsPerLeaf: 2, Parallel: 2, Host: l, Trunk: l})
	for _, name := range []string{"tor0->h1", "h3->tor1", "tor1->spine0", "spine0->tor1#2"} {
		id, err := topo.FindLink(name)
		if err != nil || topo.LinkName(id) != name {
			t.Errorf("%s is link %d, %q, %v", name, id, topo.LinkName(id), err)
		}
		if back := topo.LinkName(id.Reverse()); back == name || strings.Contains(back, "#") != strings.Contains(name, "#") {
			t.Errorf("the reverse of %s is %s", name, back)
		}
	}
	if h, err := topo.Host("h2"); err != nil || h != 2 || topo.HostName(2) != "h2" {
		t.Errorf("h2 is host %d, %v, named %q", h, err, topo.HostName(2))
	}
}

func TestErrorsNameTheThingAndTheMend(t *testing.T) {
	l := gig(25, 0)
	star := func() *Topology { return Star(3, l) }
	with := func(set func(*Config)) Config {
		c := Default()
		set(&c)
		return c
	}
	graph := func(build func(t *Topology, a, b Node)) *Topology {
		t := &Topology{}
		a, b := t.AddHost("a"), t.AddHost("b")
		build(t, a, b)
		return t
	}
	find := func(name string) error { _, err := star().FindLink(name); return err }
	host := func(name string) error { _, err := star().Host(name); return err }
	build := func(topo *Topology, c Config) error { _, err := New(des.New(), topo, c, 1); return err }
	for _, c := range []struct {
		err  error
		says []string
	}{
		{host("h7"), []string{`no host "h7"`, "3 hosts are h0 to h2"}},
		{host("tor0"), []string{`"tor0" is a switch`}},
		{find("tor0"), []string{`"tor0"`, "tor0->h3"}},
		{find("tor0->h9"), []string{`no node is named "h9"`}},
		{find("h0->h1"), []string{`no link "h0->h1"`, "from h0 lead h0->tor0"}},
		{build(Star(0, l), Default()), []string{"hosts is 0", "at least 1"}},
		{build(Star(1, l), Default()), []string{"there is 1 host: a network needs two or more"}},
		{build(FatTree(3, 1, l, l, l), Default()), []string{"k of a fat tree is 3", "even"}},
		{build(ThreeTier(ThreeTierSpec{Pods: 1, TorsPerPod: 1, AggsPerPod: 2, Cores: 3, HostsPerTor: 1}), Default()), []string{"3 core switches", "multiple"}},
		{build(Star(2, Link{Delay: 1}), Default()), []string{"h0->tor0", "rate of 0bps"}},
		{build(Star(2, gig(25, -1)), Default()), []string{"h0->tor0", "delay of -1ps"}},
		{build(graph(func(t *Topology, a, b Node) { t.AddHost("a") }), Default()), []string{`two nodes are named "a"`}},
		{build(graph(func(t *Topology, a, b Node) { t.AddSwitch("x->y") }), Default()), []string{`"x->y" is no name`}},
		{build(graph(func(t *Topology, a, b Node) { t.Connect(a, 9, l) }), Default()), []string{"nodes 0 and 9", "2 nodes"}},
		{build(graph(func(t *Topology, a, b Node) { t.Connect(a, a, l) }), Default()), []string{"a->a", "itself"}},
		{build(graph(func(t *Topology, a, b Node) { t.Connect(a, b, l); t.Connect(a, b, l) }), Default()), []string{"host a has 2 links", "by one"}},
		{build(graph(func(t *Topology, a, b Node) {
			t.Connect(a, t.AddSwitch("x"), l)
			t.Connect(b, t.AddSwitch("y"), l)
		}), Default()), []string{"no path joins a and b", "connect them"}},
		{build(star(), with(func(c *Config) { c.Priorities = 9 })), []string{"priorities is 9", "1 to 8"}},
		{build(star(), with(func(c *Config) { c.MaxFrame = 1 })), []string{"max_frame is 1B"}},
		{build(star(), with(func(c *Config) { c.Switch.Buffer = 100 })), []string{"fabric: buffer is 100B"}},
		{build(star(), with(func(c *Config) { c.Switch.Latency = -1 })), []string{"switch_latency is -1ps"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[3].Alpha = 0 })), []string{"classes[3].alpha is 0"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[3].Weight = -1 })), []string{"classes[3].weight is -1"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[0].ECN = ECN{Kmin: 5, Kmax: 4} })), []string{"classes[0].ecn.kmax is 4B: choose at least kmin, 5B"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[0].ECN = ECN{Kmax: 4, Pmax: 2} })), []string{"classes[0].ecn.pmax is 2"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[0].PFC = PFC{XON: 4} })), []string{"classes[0].pfc.xon is 4B: choose less than xoff, 0B"}},
		{build(star(), with(func(c *Config) { c.Switch.Classes[0].PFC = PFC{Headroom: -1} })), []string{"classes[0].pfc.headroom is -1B"}},
		{build(star(), with(func(c *Config) { c.Switches = map[string]SwitchConfig{"spine0": c.Switch} })), []string{`"spine0"`, "no switch", "tor0"}},
		{build(star(), with(func(c *Config) { c.Switches = map[string]SwitchConfig{"tor0": {}} })), []string{"switches.tor0.buffer is 0B", "switches.tor0.classes[0].alpha is 0"}},
		{build(star(), with(func(c *Config) { c.Faults = []Fault{{"h0->h1", 0.1}} })), []string{"in Faults", `no link "h0->h1"`}},
		{build(star(), with(func(c *Config) { c.Faults = []Fault{{"*", 1.5}} })), []string{"faults[0].loss is 1.5"}},
		{build(star(), with(func(c *Config) {
			c.Switch.Buffer = 20 * units.KB
			c.Switch.Classes[0].PFC.Lossless = true
		})), []string{"switch tor0", "headroom of its 3 ports", "raise Buffer"}},
	} {
		for _, s := range c.says {
			if c.err == nil || !strings.Contains(c.err.Error(), s) {
				t.Errorf("error %q does not say %q", c.err, s)
			}
		}
	}
}
