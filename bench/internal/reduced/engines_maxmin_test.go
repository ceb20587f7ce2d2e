package reduced_test

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// plan is a random network with long flows.
type plan struct {
	topo  *fabric.Topology
	flows [][2]int // hosts
}

// newParkingLot has one flow across that many links between switches, the first of the
// plan, and at each of these links nine others that cross no other.
func newParkingLot(hops int, rate units.Rate, hostDelay units.Time) plan {
	const crossing = 9
	p := plan{topo: &fabric.Topology{}}
	var nodes []fabric.Node
	for i := range hops + 1 {
		nodes = append(nodes, p.topo.AddSwitch(fmt.Sprintf("s%d", i)))
		if i > 0 {
			p.topo.Connect(nodes[i-1], nodes[i], fabric.Link{Rate: rate, Delay: units.Microsecond})
		}
	}
	hosts := 0
	flow := func(from, to int) {
		for _, at := range []int{from, to} {
			p.topo.Connect(p.topo.AddHost(fmt.Sprintf("h%d", hosts)), nodes[at], fabric.Link{Rate: rate, Delay: hostDelay})
			hosts++
		}
		p.flows = append(p.flows, [2]int{hosts - 2, hosts - 1})
	}
	flow(0, hops)
	for i := range hops {
		for range crossing {
			flow(i, i+1)
		}
	}
	return p
}

// newPlan draws a connected network of 3 to 8 switches and 10 to 60 flows between
// random hosts. All links have that rate, or, if they are mixed, those between
// switches that, half or a quarter. Links between switches take 1 us.
func newPlan(seed uint64, rate units.Rate, hostDelay units.Time, mixed bool) plan {
	r := des.NewStream(seed, "max-min plan")
	p := plan{topo: &fabric.Topology{}}
	switches := 3 + r.IntN(6)
	trunk := func() fabric.Link {
		shift := r.IntN(3)
		if !mixed {
			shift = 0
		}
		return fabric.Link{Rate: rate >> shift, Delay: units.Microsecond}
	}
	var nodes []fabric.Node
	for i := range switches {
		nodes = append(nodes, p.topo.AddSwitch(fmt.Sprintf("s%d", i)))
		if i > 0 { // a tree, so that all are joined
			p.topo.Connect(nodes[i], nodes[r.IntN(i)], trunk())
		}
	}
	for range r.IntN(switches) {
		a := r.IntN(switches)
		b := (a + 1 + r.IntN(switches-1)) % switches
		p.topo.Connect(nodes[a], nodes[b], trunk())
	}
	hosts := 2*switches + r.IntN(3*switches)
	for i := range hosts {
		h := p.topo.AddHost(fmt.Sprintf("h%d", i))
		at := i // two a switch at least
		if i >= 2*switches {
			at = r.IntN(switches)
		}
		p.topo.Connect(h, nodes[at%switches], fabric.Link{Rate: rate, Delay: hostDelay})
	}
	for range 10 + r.IntN(51) {
		src := r.IntN(hosts)
		p.flows = append(p.flows, [2]int{src, (src + 1 + r.IntN(hosts-1)) % hosts})
	}
	return p
}

// newTies is two links in a row, each with three flows in either direction, of which two
// cross both, the first of the plan among these: the fair share is a third at both hops.
func newTies(rate units.Rate, hostDelay units.Time) plan {
	p := plan{topo: &fabric.Topology{}}
	var nodes []fabric.Node
	for i := range 3 {
		nodes = append(nodes, p.topo.AddSwitch(fmt.Sprintf("s%d", i)))
		if i > 0 {
			p.topo.Connect(nodes[i-1], nodes[i], fabric.Link{Rate: rate, Delay: units.Microsecond})
		}
	}
	hosts := 0
	for _, span := range [][2]int{{0, 2}, {0, 2}, {0, 1}, {1, 2}, {2, 0}, {2, 0}, {1, 0}, {2, 1}} {
		for _, at := range span {
			p.topo.Connect(p.topo.AddHost(fmt.Sprintf("h%d", hosts)), nodes[at], fabric.Link{Rate: rate, Delay: hostDelay})
			hosts++
		}
		p.flows = append(p.flows, [2]int{hosts - 2, hosts - 1})
	}
	return p
}

// fairness is the result of flows that share networks.
type fairness struct {
	Flows int     `json:"flows"`
	Close int     `json:"close"` // within 15 percent of their max-min fair rate
	Low   float64 `json:"low"`   // the extremes, as shares of the fair rate
	High  float64 `json:"high"`
	First float64 `json:"first"` // that of the first flow
}

// measure runs a plan and adds the flows' mean rates over span, after warm. If half of
// the flows leave, every second one does halfway to warm.
func (f *fairness) measure(n *network, p plan, leave bool, warm, span units.Time) error {
	for i, ends := range p.flows {
		if leave && i%2 == 1 {
			n.addUntil(ends[0], ends[1], 0, warm/2)
		} else {
			n.add(ends[0], ends[1], 0)
		}
	}
	n.engine.RunUntil(warm)
	before := make([]units.Bytes, len(n.flows))
	for i, x := range n.flows {
		before[i] = n.delivered(x)
	}
	n.engine.RunUntil(warm + span)
	capacity, paths := n.capacities()
	if leave {
		for i := 1; i < len(paths); i += 2 {
			paths[i] = nil
		}
	}
	fair, err := fabric.FairRates(capacity, paths)
	if err != nil {
		return err
	}
	for i, x := range n.flows {
		if paths[i] == nil {
			continue
		}
		got := float64(units.RateOf(n.delivered(x)-before[i], span))
		ratio := math.Round(got/fair[i]*1000) / 1000
		if f.Flows == 0 {
			f.Low, f.High, f.First = ratio, ratio, ratio
		}
		f.Flows++
		f.Low, f.High = min(f.Low, ratio), max(f.High, ratio)
		if math.Abs(ratio-1) <= 0.15 {
			f.Close++
		}
	}
	return nil
}
