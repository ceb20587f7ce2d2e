package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Where all paths of a pair of leaves are alike, delays follow from the paths' parts, and
// equal a search's over all paths. A faster link in one path leaves the search.
func TestWaysGiveWhatTheSearchFinds(t *testing.T) {
	host, agg, core := gig(25, units.Microsecond), gig(100, 2*units.Microsecond), gig(400, 3*units.Microsecond)
	uneven := FatTree(4, 1, host, agg, core)
	uneven.edges[len(uneven.edges)-1].Rate /= 2
	for _, c := range []struct {
		name  string
		topo  *Topology
		alike bool
	}{
		{"star", Star(3, host), true},
		{"chain", Chain(5, 2, host, core), true},
		{"leaf and spine", LeafSpine(LeafSpineSpec{Leaves: 3, Spines: 4, HostsPerLeaf: 2, Parallel: 2, Host: host, Trunk: agg}), true},
		{"fat tree", FatTree(4, 1, host, agg, core), true},
		{"uneven", uneven, false},
	} {
		n := newRig(t, c.topo, Default(), 1).n
		if n.ways.differ == c.alike {
			t.Errorf("%s: the paths of all pairs are alike: %v, want %v", c.name, !n.ways.differ, c.alike)
		}
		const data, ack = 1500, 64
		type delay struct{ data, rtt units.Time }
		all := func() (longest units.Time, of []delay) {
			for a := range c.topo.Hosts() {
				for b := range c.topo.Hosts() {
					if a != b {
						of = append(of, delay{n.BaseDelay(a, b, data), n.BaseRTT(a, b, data, ack)})
					}
				}
			}
			return n.MaxBaseRTT(data, ack), of
		}
		longest, got := all()
		n.ways = ways{differ: true}
		without, want := all()
		if longest != without {
			t.Errorf("%s: MaxBaseRTT is %v, and %v by search", c.name, longest, without)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: the %dth pair's delays are %v, and %v by search", c.name, i, got[i], want[i])
			}
		}
	}
}
