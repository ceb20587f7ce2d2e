package scenario

import (
	"fmt"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// What the simulation of a network takes at least, measured as the program's largest
// resident size with stars, chains, leaf-spines and fat trees of 1000 to 131072 links
// (docs/limits.md). Workloads come on top: a connection of staged NICs takes some
// 50 KiB.
const (
	memoryProgram = 20 * units.MiB
	memoryHost    = 26 * units.KiB // with a staged NIC that runs the engine; a host that runs it takes 20 more
	memoryLink    = 1150 * units.Byte
	memoryRoute   = 11 * units.Byte // from a switch to a leaf, as they are built
)

// extent is a network's size, in numbers that may be far beyond what can be built.
type extent struct {
	hosts, switches, links float64
	leaves                 float64 // switches with hosts
}

// memory returns the least memory of the network's simulation, in bytes.
func (e extent) memory(staged bool) float64 {
	host := 0.0
	if staged {
		host = float64(memoryHost)
	}
	return float64(memoryProgram) + e.hosts*host + e.links*float64(memoryLink) + e.switches*e.leaves*float64(memoryRoute)
}

// checkMemory refuses, before anything is built, a network that does not fit. A limit of
// 0 is none.
func (s *Scenario) checkMemory(d *tree.Document, limit units.Bytes) {
	if limit <= 0 || s.Topology.Shape == nil {
		return
	}
	need, e, staged := s.leastMemory()
	if need > float64(limit) {
		nics, mend := "reduced", ""
		if staged {
			nics, mend = "staged", "set nic.model to reduced, which takes a tenth, or "
		}
		d.Fail("topology", "%.0f hosts with %s NICs, %.0f switches and %.0f links take at least %s of memory, and there are %s: make it smaller, %sgive --memory SIZE if there is more",
			e.hosts, nics, e.switches, e.links, binary(need), binary(float64(limit)), mend)
	}
}

// leastMemory returns the least memory of the simulation, in bytes, the network's size,
// and whether its NICs are staged.
func (s *Scenario) leastMemory() (need float64, e extent, staged bool) {
	staged = s.NIC.Model != ModelReduced
	for _, sys := range s.Systems {
		if o := sys.Override.n.Get("nic").Get("model"); o != nil {
			staged = staged && o.Text != ModelReduced
		}
	}
	e = s.Topology.Shape.extent()
	e.links = s.Topology.Shape.links()
	return e.memory(staged), e, staged
}

// LeastMemory returns the least memory of the simulation of one system at a time, by
// hosts, links and routes; connections come on top.
func (s *Scenario) LeastMemory() units.Bytes {
	need, _, _ := s.leastMemory()
	return units.Bytes(need)
}

// binary shows a size in the unit that suits it.
func binary(n float64) string {
	if n < float64(units.GiB) {
		return fmt.Sprintf("%.0f MiB", n/float64(units.MiB))
	}
	return fmt.Sprintf("%.3g GiB", n/float64(units.GiB))
}

func (s *Star) extent() extent { return extent{hosts: product(s.Hosts), switches: 1, leaves: 1} }

func (s *Dumbbell) extent() extent {
	return extent{hosts: product(s.Left) + product(s.Right), switches: 2, leaves: 2}
}

func (s *Chain) extent() extent {
	return extent{hosts: product(s.Switches, s.HostsPerSwitch), switches: product(s.Switches), leaves: product(s.Switches)}
}

func (s *LeafSpine) extent() extent {
	return extent{hosts: product(s.Planes, s.Leaves, s.HostsPerLeaf), switches: product(s.Planes, s.Leaves) + product(s.Planes, s.Spines), leaves: product(s.Planes, s.Leaves)}
}

func (s *ThreeTier) extent() extent {
	tors := product(s.Pods, s.TorsPerPod)
	return extent{hosts: product(s.Pods, s.TorsPerPod, s.HostsPerTor), switches: tors + product(s.Pods, s.AggsPerPod) + product(s.Cores), leaves: tors}
}

func (s *FatTree) extent() extent {
	half := float64(s.K / 2)
	leaves := product(s.K) * half
	return extent{hosts: leaves * half * product(s.Oversubscription), switches: 2*leaves + half*half, leaves: leaves}
}

func (s *RDCN) extent() extent {
	return extent{hosts: product(s.Tors, s.HostsPerTor), switches: product(s.Tors) + 1, leaves: product(s.Tors)}
}

func (g *Graph) extent() extent {
	return extent{hosts: product(len(g.Hosts)), switches: product(len(g.Switches))} // of leaves, nothing is known yet
}
