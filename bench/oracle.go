package bench

import (
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/maxmin"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// oracle gives the flows of a scheme that is one (cc.Scheme.Oracle) their max-min
// fair rates whenever one starts or ends.
type oracle struct {
	sim      *simulation
	solver   maxmin.Solver
	wire     []float64 // payload that each link carries in full packets, bits per second
	capacity []float64 // of it, what acknowledgements leave
	acks     []float64 // payload whose acknowledgements each link carries, bits per second
	ackShare float64   // of an acknowledgement's time on the wire in that of what it answers
	links    []fabric.LinkID
	paths    [][]int
	flows    []*flow
	every    units.Time
	due      bool // an evRates is pending
	computed int
}

// directed is what the oracle keeps of a flow.
type directed struct {
	engines  []cc.Directed
	to, back []int // links
	rate     units.Rate
}

// Rates are computed at most once in ratesEvery, or in the time of ratesPackets full
// packets on the fastest link if that is longer. Changes within this time of the last
// computation wait for its end.
const (
	ratesEvery   = units.Microsecond
	ratesPackets = 3
)

func (s *simulation) newOracle() *oracle {
	topo := s.net.Topology()
	mtu := s.sys.NIC.MTU
	o := &oracle{sim: s, wire: make([]float64, topo.Links()), acks: make([]float64, topo.Links()), capacity: make([]float64, topo.Links())}
	for i := range o.wire {
		l := topo.Link(fabric.LinkID(i))
		o.wire[i] = float64(l.Rate) * float64(mtu) / float64(s.built.DataFrame(mtu)+l.Framing.Bytes())
	}
	framing := topo.Link(0).Framing.Bytes()
	fastest := topo.Link(0).Rate
	for i := range o.wire {
		fastest = max(fastest, topo.Link(fabric.LinkID(i)).Rate)
	}
	o.every = max(ratesEvery, ratesPackets*fastest.Serialize(s.built.DataFrame(mtu)+framing))
	ack := nicmodel.FrameBytes(ib.Acknowledge, 0) + framing
	o.ackShare = float64(ack) / float64(s.built.DataFrame(mtu)+framing) / float64(s.sys.NIC.AckEvery)
	if d := s.net.Division(); d != nil {
		d.EndEvery(o.every)
	}
	return o
}

// changed is called when a flow has started or ended, at now. In a divided network, where
// a flow's end is heard of after the window, that was before the engine's Now, but no
// window goes beyond the next multiple of every.
func (o *oracle) changed(now units.Time) {
	if o == nil || o.due {
		return
	}
	o.due = true
	s := o.sim
	s.engine.Schedule((now/o.every+1)*o.every, &s.src, s.id, evRates, 0)
}

// rates computes the rates and has the NICs keep to them. What acknowledgements
// take of a link is that of the rates before.
func (o *oracle) rates(now units.Time) error {
	o.due = false
	o.computed++
	o.flows, o.paths = o.flows[:0], o.paths[:0]
	for _, f := range o.sim.active {
		if f.kept != nil && f.outstanding == 0 {
			continue
		}
		if f.directed.to == nil {
			f.directed.to = o.path(f.Src, f.Dst, f.flowHash())
			f.directed.back = o.path(f.Dst, f.Src, f.flowHash())
		}
		o.flows, o.paths = append(o.flows, f), append(o.paths, f.directed.to)
	}
	for i, w := range o.wire {
		o.capacity[i] = max(w-float64(o.ackShare*o.acks[i]), 0)
		o.acks[i] = 0
	}
	fair, err := o.solver.Rates(o.capacity, o.paths)
	if err != nil {
		return err
	}
	for i, f := range o.flows {
		for _, l := range f.directed.back {
			o.acks[l] += fair[i]
		}
		r := units.Rate(min(fair[i], math.MaxInt64/2))
		if r == f.directed.rate {
			continue
		}
		f.directed.rate = r
		for _, e := range f.directed.engines {
			e.Direct(r)
		}
		if f.light != nil {
			o.sim.fleet.Steer(f.light.ref)
		} else {
			f.poster.nic.Steer(now, f.qp.Num())
		}
	}
	return nil
}

func (o *oracle) path(src, dst int, hash uint32) []int {
	o.links = o.sim.net.Path(o.links[:0], src, dst, hash)
	path := make([]int, len(o.links))
	for i, l := range o.links {
		path[i] = int(l)
	}
	return path
}
