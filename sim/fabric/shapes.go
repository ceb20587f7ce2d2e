package fabric

import "fmt"

// shape starts a topology and collects what is wrong with its numbers for
// Validate, so that the functions below need no error of their own.
func shape(numbers ...number) (*Topology, bool) {
	t := &Topology{}
	for _, x := range numbers {
		if x.n < 1 {
			t.errs = append(t.errs, fmt.Errorf("%s is %d: set at least 1", x.what, x.n))
		}
	}
	return t, len(t.errs) == 0
}

type number struct {
	what string
	n    int
}

// rack adds a switch and hosts, the next in number, on it.
func (t *Topology) rack(sw string, hosts int, l Link) Node {
	tor := t.AddSwitch(sw)
	for range hosts {
		t.Connect(t.AddHost(fmt.Sprintf("h%d", len(t.hosts))), tor, l)
	}
	return tor
}

// Star joins hosts h0, h1, ... by one switch, tor0.
func Star(hosts int, host Link) *Topology {
	t, ok := shape(number{"hosts", hosts})
	if ok {
		t.rack("tor0", hosts, host)
	}
	return t
}

// Dumbbell has hosts h0 to h(left-1) on tor0, the following on tor1, and a trunk
// between the two switches.
func Dumbbell(left, right int, host, trunk Link) *Topology {
	t, ok := shape(number{"left", left}, number{"right", right})
	if ok {
		t.Connect(t.rack("tor0", left, host), t.rack("tor1", right, host), trunk)
	}
	return t
}

// Chain is switches tor0, tor1, ... in a row, each with hosts of its own: the
// parking lot. Hosts are numbered switch by switch.
func Chain(switches, hostsPerSwitch int, host, trunk Link) *Topology {
	t, ok := shape(number{"switches", switches}, number{"hosts per switch", hostsPerSwitch})
	if !ok {
		return t
	}
	last := t.rack("tor0", hostsPerSwitch, host)
	for i := 1; i < switches; i++ {
		tor := t.rack(fmt.Sprintf("tor%d", i), hostsPerSwitch, host)
		t.Connect(last, tor, trunk)
		last = tor
	}
	return t
}

// LeafSpineSpec is a two-tier Clos network.
type LeafSpineSpec struct {
	Leaves, Spines, HostsPerLeaf int
	Parallel                     int // links from a leaf to a spine; 0 means 1
	Planes                       int // networks alike that share nothing; 0 means 1
	Host, Trunk                  Link
}

// LeafSpine joins leaves tor0, tor1, ... by spines spine0, spine1, ...: each leaf
// to each spine. Hosts are numbered leaf by leaf. With several planes there is all of it
// once for each, numbered plane by plane.
func LeafSpine(s LeafSpineSpec) *Topology {
	t, ok := shape(number{"leaves", s.Leaves}, number{"spines", s.Spines}, number{"hosts per leaf", s.HostsPerLeaf},
		number{"parallel links", s.Parallel + 1}, number{"planes", s.Planes + 1})
	if !ok {
		return t
	}
	t.planes = max(1, s.Planes)
	t.expect(t.planes*s.Leaves*s.HostsPerLeaf, t.planes*(s.Leaves+s.Spines),
		t.planes*s.Leaves*(s.HostsPerLeaf+s.Spines*max(1, s.Parallel)))
	leaves := make([]Node, s.Leaves)
	for plane := range t.planes {
		for i := range leaves {
			leaves[i] = t.rack(fmt.Sprintf("tor%d", plane*s.Leaves+i), s.HostsPerLeaf, s.Host)
		}
		for i := range s.Spines {
			spine := t.AddSwitch(fmt.Sprintf("spine%d", plane*s.Spines+i))
			for _, leaf := range leaves {
				for range max(1, s.Parallel) {
					t.Connect(leaf, spine, s.Trunk)
				}
			}
		}
	}
	return t
}

// ThreeTierSpec is a network of pods joined by core switches.
type ThreeTierSpec struct {
	Pods, TorsPerPod, AggsPerPod, Cores, HostsPerTor int
	// Mesh connects every core switch to every aggregation switch. Otherwise a
	// core switch has one link to a pod, and core c reaches aggregation switch
	// c / (Cores/AggsPerPod) of each, as in a k-ary fat tree.
	Mesh bool

	Host Link // host to tor
	Agg  Link // tor to aggregation
	Core Link // aggregation to core
}

// ThreeTier joins tor0, tor1, ..., agg0, ... and core0, ...; tors, aggregation
// switches and hosts are numbered pod by pod. In a pod every tor has a link to
// every aggregation switch.
func ThreeTier(s ThreeTierSpec) *Topology {
	t, ok := shape(number{"pods", s.Pods}, number{"tors per pod", s.TorsPerPod}, number{"aggregation switches per pod", s.AggsPerPod},
		number{"core switches", s.Cores}, number{"hosts per tor", s.HostsPerTor})
	if ok && !s.Mesh && s.Cores%s.AggsPerPod != 0 {
		t.errs = append(t.errs, fmt.Errorf("%d core switches can't be shared out among the %d aggregation switches of a pod: set a multiple, or a mesh", s.Cores, s.AggsPerPod))
		ok = false
	}
	if !ok {
		return t
	}
	hosts, coreLinks := s.Pods*s.TorsPerPod*s.HostsPerTor, s.Pods*s.Cores
	if s.Mesh {
		coreLinks *= s.AggsPerPod
	}
	t.expect(hosts, s.Pods*(s.TorsPerPod+s.AggsPerPod)+s.Cores, hosts+s.Pods*s.TorsPerPod*s.AggsPerPod+coreLinks)
	aggs := make([]Node, 0, s.Pods*s.AggsPerPod)
	for pod := range s.Pods {
		tors := make([]Node, s.TorsPerPod)
		for i := range tors {
			tors[i] = t.rack(fmt.Sprintf("tor%d", pod*s.TorsPerPod+i), s.HostsPerTor, s.Host)
		}
		for range s.AggsPerPod {
			agg := t.AddSwitch(fmt.Sprintf("agg%d", len(aggs)))
			for _, tor := range tors {
				t.Connect(tor, agg, s.Agg)
			}
			aggs = append(aggs, agg)
		}
	}
	for c := range s.Cores {
		core := t.AddSwitch(fmt.Sprintf("core%d", c))
		for i, agg := range aggs {
			if s.Mesh || c/(s.Cores/s.AggsPerPod) == i%s.AggsPerPod {
				t.Connect(agg, core, s.Core)
			}
		}
	}
	return t
}

// FatTree is the k-ary fat tree of Al-Fares et al. (SIGCOMM 2008) for even k: k
// pods of k/2 tors and k/2 aggregation switches, (k/2)^2 core switches. A tor has
// oversubscription * k/2 hosts; with 1, which is the paper's, there are k^3/4
// hosts and full bisection.
func FatTree(k, oversubscription int, host, agg, core Link) *Topology {
	t, ok := shape(number{"k", k}, number{"oversubscription", oversubscription})
	if k%2 != 0 {
		t.errs = append(t.errs, fmt.Errorf("k of a fat tree is %d: set an even number", k))
		ok = false
	}
	if !ok {
		return t
	}
	h := k / 2
	return ThreeTier(ThreeTierSpec{Pods: k, TorsPerPod: h, AggsPerPod: h, Cores: h * h, HostsPerTor: oversubscription * h,
		Host: host, Agg: agg, Core: core})
}
