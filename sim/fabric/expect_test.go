package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Shapes know how many nodes and links they will have: nothing of theirs is copied.
func TestShapesExpectTheirSize(t *testing.T) {
	l := Link{Rate: 100 * units.Gbps, Delay: units.Microsecond}
	for name, topo := range map[string]*Topology{
		"leaf-spine":          LeafSpine(LeafSpineSpec{Leaves: 5, Spines: 3, HostsPerLeaf: 7, Host: l, Trunk: l}),
		"planes":              LeafSpine(LeafSpineSpec{Leaves: 5, Spines: 3, HostsPerLeaf: 7, Parallel: 2, Planes: 3, Host: l, Trunk: l}),
		"fat tree":            FatTree(4, 3, l, l, l),
		"three tiers":         ThreeTier(ThreeTierSpec{Pods: 3, TorsPerPod: 2, AggsPerPod: 2, Cores: 6, HostsPerTor: 5, Host: l, Agg: l, Core: l}),
		"three tiers, a mesh": ThreeTier(ThreeTierSpec{Pods: 3, TorsPerPod: 2, AggsPerPod: 2, Cores: 6, HostsPerTor: 5, Mesh: true, Host: l, Agg: l, Core: l}),
	} {
		if err := topo.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for what, of := range map[string][2]int{
			"nodes": {len(topo.nodes), cap(topo.nodes)},
			"hosts": {len(topo.hosts), cap(topo.hosts)},
			"links": {len(topo.edges), cap(topo.edges)},
		} {
			if of[0] != of[1] {
				t.Errorf("%s: %d %s, and room for %d", name, of[0], what, of[1])
			}
		}
	}
}
