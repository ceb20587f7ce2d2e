package scenario

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// The estimate of a network is no more than what was measured, the largest resident
// size of sluice run in MiB, and no less than half of it.
func TestMemoryEstimate(t *testing.T) {
	for _, x := range []struct {
		shape    Shape
		staged   bool
		measured float64
	}{
		{&Star{1000}, true, 83},
		{&Star{10000}, true, 513},
		{&Star{20000}, true, 988},
		{&Star{1000}, false, 27},
		{&Star{10000}, false, 49},
		{&Star{40000}, false, 119},
		{&FatTree{K: 16, Oversubscription: 1}, true, 88},
		{&FatTree{K: 32, Oversubscription: 1}, false, 67},
		{&FatTree{K: 48, Oversubscription: 1}, false, 150},
		{&LeafSpine{Leaves: 256, Spines: 64, HostsPerLeaf: 1, ParallelLinks: 1, Planes: 1}, false, 50},
		{&LeafSpine{Leaves: 256, Spines: 64, HostsPerLeaf: 1, ParallelLinks: 8, Planes: 1}, false, 180},
		{&Chain{2000, 1}, false, 128},
		{&Chain{1, 2000}, false, 31},
	} {
		e := x.shape.extent()
		e.links = x.shape.links()
		if got := e.memory(x.staged) / float64(units.MiB); got > x.measured || got < x.measured/2 {
			t.Errorf("%T %+[1]v, staged %v: %.0f MiB, expected up to %v", x.shape, x.staged, got, x.measured)
		}
	}
}

// The extent is that of the graph.
func TestExtent(t *testing.T) {
	link := fabric.Link{Rate: 100 * units.Gbps, Delay: units.Microsecond}
	for _, shape := range []Shape{
		&Star{7},
		&Dumbbell{3, 4},
		&Chain{3, 2},
		&LeafSpine{Leaves: 3, Spines: 2, HostsPerLeaf: 4, ParallelLinks: 2, Planes: 2},
		&ThreeTier{Pods: 2, TorsPerPod: 3, AggsPerPod: 2, Cores: 5, HostsPerTor: 4, Mesh: true},
		&FatTree{K: 4, Oversubscription: 2},
		&RDCN{Tors: 5, HostsPerTor: 2, Day: units.Millisecond, Night: units.Microsecond, CircuitRate: units.Gbps},
	} {
		g, e := shape.build(link, link), shape.extent()
		leaves := map[string]bool{}
		for h := range g.Hosts() {
			leaves[g.To(g.HostLink(h))] = true
		}
		if e.hosts != float64(g.Hosts()) || e.switches != float64(g.Switches()) || e.leaves != float64(len(leaves)) {
			t.Errorf("%T: %+v, and the graph has %d hosts, %d switches, %d leaves", shape, e, g.Hosts(), g.Switches(), len(leaves))
		}
	}
}

// What does not fit is refused before it is built; what fits, or has no limit, is not.
func TestMemoryLimit(t *testing.T) {
	text := []byte("topology: {kind: star, hosts: 1000, host_rate: 100Gbps}\nfabric: {buffer: 1GiB}\nsystems: [{engine: none}, {name: b, engine: none, override: {nic: {mtu: 1024}}}]\nworkloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1KB}]}]\n")
	for _, x := range []struct {
		limit units.Bytes
		set   string
		want  string
	}{
		{0, "seed=1", ""}, {units.GiB, "seed=1", ""}, {30 * units.MiB, "nic.model=reduced", ""}, {30 * units.MiB, "systems[b].override.nic.model=reduced", ""},
		{30 * units.MiB, "seed=1", "x.yaml:1: topology: 1000 hosts with staged NICs, 1 switches and 1000 links take at least 46 MiB of memory, and there are 30 MiB: make it smaller, set nic.model to reduced"},
		{units.GiB, "topology.hosts=2000000", "take at least 51.8 GiB of memory, and there are 1 GiB"},
	} {
		_, err := ParseWithin(x.limit, "x.yaml", text, x.set)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%v, %s: %v, expected %q", x.limit, x.set, err, x.want)
		}
	}
}
