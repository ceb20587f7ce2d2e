package scenario

import (
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// checkCircuits refuses what leaves can't do about circuits, and what a network with
// circuits does not have. fabric says what else is wrong.
func (f *Fabric) checkCircuits(d *tree.Document, at func(string) string, g *fabric.Topology) {
	c := &f.Circuits
	if g == nil {
		return
	}
	_, day, week, circuits := anyCircuit(g)
	if !circuits {
		if *c != (Circuits{}) {
			d.Fail(at("fabric.circuits"), "the topology has no circuits: leave it out, or set topology.kind to rdcn")
		}
		return
	}
	if away := week - day; c.Ahead > away && c.Ahead <= units.Second {
		d.Fail(at("fabric.circuits.ahead"), "is %v: choose a span up to %v, for which a circuit is away", c.Ahead, away)
	}
	if night := g.Night(); c.Guard > night && c.Guard <= units.Second {
		d.Fail(at("fabric.circuits.guard"), "is %v: choose a span up to that of a night, %v", c.Guard, night)
	}
	if f.PFC.Enabled {
		d.Fail(at("fabric.pfc.enabled"), "pause frames have no way back on a circuit: set it to false with topology.kind rdcn")
	}
}

// anyCircuit is Circuit of the last link, which is one if there are any.
func anyCircuit(g *fabric.Topology) (dawn, day, week units.Time, ok bool) {
	return g.Circuit(fabric.LinkID(g.Links() - 1))
}

func hasCircuits(g *fabric.Topology) bool {
	_, _, _, ok := anyCircuit(g)
	return ok
}
