package fabric

// Star joins hosts h0, h1, ... by one switch, tor0.
func Star(hosts int, host Link) *Topology { panic("being written") }

// Dumbbell has hosts h0 to h(left-1) on tor0, the following on tor1, and a trunk
// between the two switches.
func Dumbbell(left, right int, host, trunk Link) *Topology { panic("being written") }

// Chain is switches tor0, tor1, ... in a row, hosts of each by links of their own:
// the parking lot. Hosts are numbered switch by switch.
func Chain(switches, hostsPerSwitch int, host, trunk Link) *Topology { panic("being written") }

// LeafSpineSpec is a two-tier Clos network.
type LeafSpineSpec struct {
	Leaves, Spines, HostsPerLeaf int
	Parallel                     int // links from a leaf to a spine; 0 means 1
	Host, Trunk                  Link
}

// LeafSpine joins leaves tor0, tor1, ... by spines spine0, spine1, ...: each leaf to
// each spine. Hosts are numbered leaf by leaf.
func LeafSpine(s LeafSpineSpec) *Topology { panic("being written") }

// ThreeTierSpec is a network of pods, joined by core switches.
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
// switches and hosts are numbered pod by pod.
func ThreeTier(s ThreeTierSpec) *Topology { panic("being written") }

// FatTree is the k-ary fat tree of Al-Fares et al. (SIGCOMM 2008), with k even:
// k pods of k/2 tors and k/2 aggregation switches, (k/2)^2 core switches. A tor
// has oversubscription * k/2 hosts; 1 is the paper's, with full bisection.
func FatTree(k, oversubscription int, host, agg, core Link) *Topology { panic("being written") }
