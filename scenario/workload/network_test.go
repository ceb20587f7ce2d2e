package workload

import (
	"testing"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Circuits come and go: they are no uplinks.
func TestCircuitsAreNoUplinks(t *testing.T) {
	link := func(r units.Rate) fabric.Link { return fabric.Link{Rate: r, Delay: units.Microsecond} }
	g := fabric.RDCN(fabric.RDCNSpec{
		Tors: 5, HostsPerTor: 2, Day: 225 * units.Microsecond, Night: 20 * units.Microsecond,
		Host: link(10 * units.Gbps), Packet: link(25 * units.Gbps), Circuit: link(100 * units.Gbps),
	})
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	n := newNetwork(g)
	for i := range 5 {
		if n.uplink[i] != 25*units.Gbps {
			t.Errorf("switch %d has uplinks of %v, expected 25Gbps", i, n.uplink[i])
		}
	}
	if n.rack[0] != 0 || n.rack[9] != 4 || n.line[3] != 10*units.Gbps {
		t.Errorf("racks %v, links %v", n.rack, n.line)
	}
}
