package bench

import (
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// oracle gives the flows of a scheme that is one (cc.Scheme.Oracle) their max-min
// fair rates whenever one starts or ends: rates of payload, at which the data of all
// flows and their acknowledgements fill no link beyond its usable share.
type oracle struct {
	sim      *simulation
	solver   fabric.FairSolver
	usable   []float64 // bits on the wire that each link may carry in a second
	capacity []float64 // of it, what acknowledgements leave
	acks     []float64 // bits of acknowledgements that each link carries in a second
	carried  []float64 // the same, of the rates just computed; then all bits
	links    []fabric.LinkID
	paths    [][]int
	costs    []float64
	flows    []*flow
	every    units.Time
	due      bool // an evRates is pending
	computed int
}

// usableShare is the share of a link that the rates fill. What is left drains the queues of
// flows that began or grew while packets sent at earlier rates were under way: on a link
// that is full to the last bit they would stay for ever. A hundredth drains, in the time
// of a thousand packets, ten, and leaves rates within half of the 2 percent to which the
// oracle is held.
const usableShare = 0.99

// Acknowledgements take capacity of links from data, and the rates of data determine the
// acknowledgements: both are computed in turn, until the acknowledgements' share of a
// link changes by less than a tenth of what usableShare leaves, and at most mostTurns
// times. Acknowledgements are a small part of what they answer, so that two or three
// turns do; later ones go half of the way, lest they alternate.
const (
	mostTurns = 20
	fullTurns = 8
	settled   = (1 - usableShare) / 10
)

// directed is the oracle's state of a flow.
type directed struct {
	engines  []cc.Directed
	to, back []int // links
	// Bits on the wire for each of payload: of data, and of what goes back for them.
	cost, ack float64
	rate      units.Rate
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
	links := topo.Links()
	o := &oracle{sim: s, usable: make([]float64, links), capacity: make([]float64, links), acks: make([]float64, links), carried: make([]float64, links)}
	fastest := topo.Link(0).Rate
	for i := range o.usable {
		rate := topo.Link(fabric.LinkID(i)).Rate
		o.usable[i] = usableShare * float64(rate)
		fastest = max(fastest, rate)
	}
	o.every = max(ratesEvery, ratesPackets*fastest.Serialize(s.built.DataFrame(s.sys.NIC.MTU)+topo.Link(0).Framing.Bytes()))
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

// rates computes the rates and has the NICs keep to them.
func (o *oracle) rates(now units.Time) error {
	o.due = false
	o.computed++
	o.flows, o.paths, o.costs = o.flows[:0], o.paths[:0], o.costs[:0]
	for _, f := range o.sim.active {
		if f.kept != nil && f.outstanding == 0 {
			continue
		}
		if f.directed.to == nil {
			o.learn(f)
		}
		o.flows, o.paths, o.costs = append(o.flows, f), append(o.paths, f.directed.to), append(o.costs, f.directed.cost)
	}
	fair, err := o.fair()
	if err != nil {
		return err
	}
	for i, f := range o.flows {
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

// fair returns the rates of the flows. It begins with the acknowledgements of the last
// rates, which are near the new ones.
func (o *oracle) fair() (fair []float64, err error) {
	for turn := range mostTurns {
		for l, usable := range o.usable {
			o.capacity[l], o.carried[l] = max(usable-o.acks[l], 0), 0
		}
		if fair, err = o.solver.Rates(o.capacity, o.paths, o.costs); err != nil {
			return nil, err
		}
		for i, f := range o.flows {
			for _, l := range f.directed.back {
				o.carried[l] += float64(f.directed.ack * fair[i])
			}
		}
		step := 1.
		if turn >= fullTurns {
			step = 0.5
		}
		off := 0.
		for l, usable := range o.usable {
			change := o.carried[l] - o.acks[l]
			off = max(off, math.Abs(change)/usable)
			o.acks[l] += float64(step * change)
		}
		if off < settled {
			break
		}
	}
	o.fit(fair)
	return fair, nil
}

// fit slows the flows of links that would carry more than they can: where the
// acknowledgements alone fill a link, whose data then have no room, or nothing settled.
func (o *oracle) fit(fair []float64) {
	for i, f := range o.flows {
		for _, l := range f.directed.to {
			o.carried[l] += float64(f.directed.cost * fair[i])
		}
	}
	for i, f := range o.flows {
		over := 1 + settled
		for _, path := range [][]int{f.directed.to, f.directed.back} {
			for _, l := range path {
				over = max(over, o.carried[l]/o.usable[l])
			}
		}
		if over > 1+settled {
			fair[i] /= over
		}
	}
}

// learn finds a flow's paths, and what its data and the answers to them take on the wire:
// a message's packets with their headers and gaps, and the acknowledgements of these; or
// of a Read, whose data need none, its request.
func (o *oracle) learn(f *flow) {
	d := &f.directed
	d.to, d.back = o.path(f.Src, f.Dst, f.flowHash()), o.path(f.Dst, f.Src, f.flowHash())
	s := o.sim
	framing := s.net.Topology().Link(fabric.LinkID(d.to[0])).Framing.Bytes()
	message, mtu, every := max(f.Message, 1), s.sys.NIC.MTU, units.Bytes(s.sys.NIC.AckEvery)
	packets := (message + mtu - 1) / mtu
	last := message - (packets-1)*mtu
	request := nicmodel.FrameBytes(ib.ReadRequest, 0) + framing
	wire := (packets-1)*(s.built.DataFrame(mtu)+framing) + s.built.DataFrame(last) + framing
	back := request
	if f.Operation != workload.Read {
		wire += nicmodel.FrameBytes(ib.WriteOnly, int(last)) - nicmodel.FrameBytes(ib.WriteMiddle, int(last))
		back = (packets + every - 1) / every * (s.built.AckFrame() + framing)
	}
	d.cost, d.ack = float64(wire)/float64(message), float64(back)/float64(message)
}

func (o *oracle) path(src, dst int, hash uint32) []int {
	o.links = o.sim.net.Path(o.links[:0], src, dst, hash)
	path := make([]int, len(o.links))
	for i, l := range o.links {
		path[i] = int(l)
	}
	return path
}
