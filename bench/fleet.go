package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/reduced"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// fleet is the reduced NICs of a simulation and the flows that they carry.
type fleet struct {
	*reduced.Fleet
	sim        *simulation
	flows      []*flow // by slot, which is what the NICs know them by
	free       []int   // slots
	placed     units.Bytes
	completion units.Time // from the end of a flow to the host's knowledge of it
}

// lightFlow is a flow on reduced NICs.
type lightFlow struct {
	fleet *fleet
	slot  int
	hash  uint32
	ref   reduced.Ref

	// Once the flow has ended, the NIC has no state of it.
	ended     bool
	delivered nicmodel.Delivered
	events    events
}

func (s *simulation) addFleet() error {
	fl, err := s.built.NewFleet(s.fail)
	if err != nil {
		return err
	}
	s.fleet = &fleet{Fleet: fl, sim: s, completion: s.sys.ReducedLatencies().Completion}
	fl.OnDone(s.fleet.ended)
	fl.OnAck(s.fleet.acked)
	return nil
}

// start has the NICs carry a flow.
func (x *fleet) start(f *flow) error {
	if err := x.connect(f); err != nil {
		return err
	}
	// What an endless flow has posted only its NIC knows.
	if f.posted = f.Size; f.Size == 0 {
		f.posted = units.Bytes(1<<63 - 1)
	}
	if x.sim.measure != nil {
		x.sim.measure.started(f)
	}
	return nil
}

// connect makes a flow's ends at the NICs. A connection has then posted nothing yet.
func (x *fleet) connect(f *flow) error {
	s := x.sim
	if len(x.free) == 0 {
		x.flows = append(x.flows, nil)
		x.free = append(x.free, len(x.flows)-1)
	}
	// The same entropy as the flow label of staged NICs.
	f.light = &lightFlow{fleet: x, slot: x.free[len(x.free)-1], hash: uint32(f.ID) & 0xfffff}
	s.opening = f
	from := f.Src
	if f.Operation == workload.Read {
		from = f.Dst // the engine is the requester's
	}
	c, err := s.congestion(s.net.LineRate(from))
	s.opening = nil
	if err != nil {
		return err
	}
	f.light.ref, err = x.Start(&reduced.Flow{
		ID: uint64(f.light.slot), Src: f.Src, Dst: f.Dst, Size: f.Size, Message: f.Message, Stop: f.Stop,
		Read: f.Operation == workload.Read, FlowHash: f.light.hash, Congestion: c, Class: uint8(f.Class), Kept: f.kept != nil, Notify: f.kept.notifies(),
	})
	if err != nil {
		return err
	}
	x.free = x.free[:len(x.free)-1]
	x.flows[f.light.slot] = f
	f.index = len(s.active)
	s.active = append(s.active, f)
	s.oracle.changed(s.engine.Now())
	return nil
}

// learned is told when a host has learned of a message of a connection.
func (x *fleet) learned(m *reduced.Message) {
	f, now := x.flows[m.ID], x.sim.engine.Now()
	if f == nil {
		return // it has been closed
	}
	var err error
	if m.Arrived {
		err = f.kept.received(now)
	} else {
		if f.outstanding--; f.outstanding == 0 {
			x.sim.busy(f, now, false)
		}
		err = f.kept.completed(now, int(m.Tag))
	}
	if err != nil {
		x.sim.fail(err)
	}
}

// postLight is post between reduced NICs.
func (k *kept) postLight() error {
	f, s := k.flow, k.by.sim
	limit := s.sys.NIC.SendDepth
	if k.Depth > 0 {
		limit = min(limit, k.Depth)
	}
	for f.outstanding < limit {
		p, ok := k.take()
		if !ok {
			break
		}
		if err := s.fleet.Post(f.light.ref, p.Size, uint64(p.Tag)); err != nil {
			return err
		}
		f.posted += p.Size
		if f.outstanding++; f.outstanding == 1 {
			s.busy(f, s.engine.Now(), true)
		}
	}
	return nil
}

// ended takes leave of a flow.
func (x *fleet) ended(d *reduced.Done) {
	f := x.flows[d.ID]
	l := f.light
	l.ended, l.delivered = true, d.Delivered
	l.events = resent(d.Counters)
	l.events.cnps = d.CNPs
	x.placed += d.Delivered.Payload
	x.flows[d.ID] = nil
	x.free = append(x.free, l.slot)
	if d.Status != ib.WCSuccess {
		x.sim.fail(x.sim.broken(f, d.Status))
		return
	}
	if f.kept != nil {
		return // who closed it takes leave of it
	}
	f.done = f.Size
	if err := x.sim.finished(f, d.At); err != nil {
		x.sim.fail(err)
	}
}

// acked takes the round trip of a packet.
func (x *fleet) acked(lane int, slot uint64, a *cc.Ack) {
	if m := x.sim.measure; m != nil {
		m.roundTrip(lane, x.flows[slot], a.RTT)
	}
}

func (l *lightFlow) arrived() nicmodel.Delivered {
	if l.ended {
		return l.delivered
	}
	return l.fleet.Delivered(l.ref)
}

// counted are the flow's events.
func (l *lightFlow) counted() events {
	if l.ended {
		return l.events
	}
	var e events
	if c := l.fleet.Counters(l.ref); c != nil {
		e = resent(c)
	}
	e.cnps = l.fleet.Notifications(l.ref)
	return e
}
