package fabric

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Leaves with equal surroundings share the routes of the first of them. Routes and delays
// equal a search's: a network with a failure that never comes gets both by search.
func TestRoutesOfLikeLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leaves, spines := rapid.IntRange(1, 6).Draw(t, "leaves"), rapid.IntRange(1, 4).Draw(t, "spines")
		topo := &Topology{}
		var tors []Node
		for i := range leaves {
			hosts := rapid.IntRange(1, 2).Draw(t, "hosts")
			tors = append(tors, topo.rack(fmt.Sprintf("tor%d", i), hosts, gig(100, units.Microsecond)))
		}
		for i := range spines {
			spine := topo.AddSwitch(fmt.Sprintf("spine%d", i))
			for _, tor := range tors {
				for range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "links") {
					topo.Connect(tor, spine, gig(rapid.SampledFrom([]units.Rate{100, 100, 100, 50}).Draw(t, "rate"), units.Microsecond))
				}
			}
		}
		if topo.Validate() != nil {
			t.Skip("no such network")
		}
		searched := Default()
		searched.Failures = []Failure{{Link: "tor0->h0", From: units.Second, Down: true}}
		a, err := New(des.New(), topo, Default(), 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(des.New(), topo, searched, 1)
		if err != nil {
			t.Fatal(err)
		}
		for src := range topo.Hosts() {
			for dst := range topo.Hosts() {
				if src == dst {
					continue
				}
				for hash := range uint32(8) {
					if x, y := a.Path(nil, src, dst, hash), b.Path(nil, src, dst, hash); !slices.Equal(x, y) {
						t.Fatalf("from %d to %d by %v, want %v", src, dst, x, y)
					}
				}
				if x, y := a.BaseDelay(src, dst, 1000), b.BaseDelay(src, dst, 1000); x != y {
					t.Fatalf("from %d to %d in %v, want %v", src, dst, x, y)
				}
			}
		}
		if x, y := a.MaxBaseRTT(1000, 64), b.MaxBaseRTT(1000, 64); x != y {
			t.Fatalf("a round trip takes %v, want %v", x, y)
		}
	})
}
