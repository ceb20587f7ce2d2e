package bench

import (
	"context"
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// host is an application on a simulated machine: it posts what flows have to
// send through the verbs layer and polls what completes, as events.
type host struct {
	sim    *simulation
	nic    *nicmodel.NIC
	dev    *simverbs.Device
	events fabric.HostEvents
	wake   units.Time // of the pending event, or Never

	// active is the device to which flows post: the shim, or the NIC itself where the
	// engine runs in it. passive is the NIC, for the other end of flows.
	shim            *paced.Shim
	bound           units.Bytes // of the shim: what a queue pair has with the NIC
	active, passive side
	flowOf          []*flow // by provider queue pair number, see index
	wc              [32]verbs.WC
	requests        []verbs.SendWR // put together, and not posted yet
	pieces          []verbs.SGE    // of theirs
	zeros           []byte         // what is sent inline
	busy            bool
	thread          *thread // nil: all is done at once
	armed           bool    // an event has been requested and has not arrived
	measures        bool    // it has taken a round trip
}

// side holds the resources that a host has made of a device.
type side struct {
	dev     verbs.Device
	pd      verbs.PD
	cq      verbs.CQ
	mr      verbs.MR // phantom
	access  ib.AccessFlags
	peer    bool              // memory is in the NIC's peer device
	channel verbs.CompChannel // nil where the host polls
}

// memoryBytes is the size of each host's region: that of the largest message.
const memoryBytes = uint64(workload.MaxMessage)

// cqEntries holds the completions of all the flows of a host between two turns
// of its polling loop.
const cqEntries = 1 << 14

func newHost(s *simulation, world *simverbs.World, name string, nic *nicmodel.NIC) (*host, error) {
	h := &host{sim: s, nic: nic, events: s.net.HostEvents(nic.Host(), nicmodel.AlarmHost), wake: units.Never, zeros: make([]byte, s.sys.Verbs.InlineSize)}
	nic.OnAlarm(nicmodel.AlarmHost, h.alarmed)
	dev := world.AddDevice("sim:"+name, nic, s.congestionFor(nic.LineRate()))
	if v := &s.sys.Verbs; v.Events {
		dev.OnEvent(h.told)
	} else {
		dev.OnCompletion(h.progress)
	}
	h.dev = dev
	var err error
	if h.thread, err = newThread(s, name); err != nil {
		return nil, err
	}
	if h.thread != nil {
		dev.RunOn(h.thread.core)
	}
	if s.sys.Shim.Clock == scenario.ClockNIC {
		dev.StampSends()
	}
	if h.passive, err = newSide(dev, &s.sys.Verbs); err != nil {
		return nil, err
	}
	if s.sys.Offload() {
		h.active = h.passive
		nic.OnAck(h.acked)
		return h, h.arm()
	}
	cfg := s.shimConfig(h, name, nic.LineRate())
	if h.shim, err = paced.Wrap(dev, cfg); err != nil {
		return nil, err
	}
	h.bound = cfg.Outstanding(nic.LineRate())
	h.active, err = newSide(h.shim, &s.sys.Verbs)
	return h, err
}

// phantomer is a protection domain of the model, or one that wraps it.
type phantomer interface {
	RegPhantom(length uint64, access ib.AccessFlags) (verbs.MR, error)
	RegPeer(length uint64, access ib.AccessFlags) (verbs.MR, error)
}

func newSide(dev verbs.Device, v *scenario.Verbs) (side, error) {
	x := side{dev: dev, access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite}
	x.peer = v.CUDA
	if v.HugePages {
		x.access |= ib.AccessHugeTLB
	}
	var err error
	if x.pd, err = dev.AllocPD(); err != nil {
		return x, err
	}
	attr := verbs.CQInitAttr{CQE: cqEntries}
	if v.Events {
		if x.channel, err = dev.CreateCompChannel(); err != nil {
			return x, err
		}
		attr.Channel = x.channel
	}
	if x.cq, err = dev.CreateCQ(attr); err != nil {
		return x, err
	}
	if m, ok := x.cq.(verbs.ModifiableCQ); ok && v.Events {
		if err := m.Modify(verbs.CQAttr{Count: uint16(v.CQCount), Period: uint16(v.CQPeriod / units.Microsecond)}); err != nil {
			return x, err
		}
	}
	x.mr, err = x.register(memoryBytes)
	return x, err
}

// register registers phantom memory.
func (x *side) register(length uint64) (verbs.MR, error) {
	pd := x.pd
	if u, ok := pd.(interface{ Unwrap() verbs.PD }); ok {
		pd = u.Unwrap()
	}
	p, ok := pd.(phantomer)
	if !ok {
		return nil, fmt.Errorf("bench: a %T has no phantom memory", pd)
	}
	if x.peer {
		return p.RegPeer(length, x.access)
	}
	return p.RegPhantom(length, x.access)
}

// alarmed handles the host's next event.
func (h *host) alarmed(now units.Time) {
	ev, ok := h.events.Take(now)
	switch {
	case !ok:
		return
	case ev.Kind == evTurn:
		h.turn(now)
		return
	case ev.Kind == evOwn:
		if err := h.sim.alone(now, ev.Arg); err != nil {
			h.fail(now, err)
		}
		return
	}
	if now == h.wake {
		h.wake = units.Never
	}
	h.progress(now)
}

// progress handles a completion or the alarm.
func (h *host) progress(now units.Time) {
	if h.thread != nil {
		h.wakeUp(now)
		return
	}
	h.poll(now)
}

// told handles an event of the completion queue.
func (h *host) told(now units.Time) {
	if _, err := h.passive.channel.Wait(context.Background(), 0); err != nil {
		h.fail(now, err)
		return
	}
	h.armed = false
	h.progress(now)
}

// arm asks for an event at the next completion, where the host does not poll: once it
// has seen what there was.
func (h *host) arm() error {
	if h.passive.channel == nil || h.armed {
		return nil
	}
	h.armed = true
	return h.passive.cq.ReqNotify(false)
}

// poll polls until there is nothing, lets flows post more, and sets the alarm for the
// shim's next deadline.
func (h *host) poll(now units.Time) {
	if h.busy {
		return // a completion of the moment, which the loop below will see
	}
	h.busy = true
	h.drain(now, h.active.cq)
	if h.shim != nil {
		h.drain(now, h.passive.cq)
	}
	h.busy = false
	h.alarm(now)
	if err := h.arm(); err != nil {
		h.fail(now, err)
	}
}

func (h *host) drain(now units.Time, cq verbs.CQ) {
	for {
		n, err := cq.Poll(h.wc[:])
		if err != nil {
			h.fail(now, err)
			return
		}
		if n == 0 {
			return
		}
		for i := range h.wc[:n] {
			if err := h.completed(now, &h.wc[i]); err != nil {
				h.fail(now, err)
				return
			}
		}
	}
}

// alarm schedules the next turn, if the shim needs one though nothing completes.
func (h *host) alarm(now units.Time) {
	if h.shim == nil {
		return
	}
	if at := h.shim.Deadline().Time(); at < h.wake {
		h.wake = max(at, now)
		h.events.Schedule(h.wake, evWake, 0)
	}
}

// index is the place of a queue pair number in host.flowOf: the model numbers
// queue pairs densely, with a few bits of generation below.
func index(qpn uint32) int { return int(qpn >> 4) }

func (h *host) bind(qpn uint32, f *flow) {
	for index(qpn) >= len(h.flowOf) {
		h.flowOf = append(h.flowOf, nil)
	}
	h.flowOf[index(qpn)] = f
}

func (h *host) flow(qpn uint32) *flow {
	if i := index(qpn); i < len(h.flowOf) {
		return h.flowOf[i]
	}
	return nil
}

// observe takes a round trip from the shim, acked one from the NIC. What a host
// sees is its completion less the segment's serialisation (TIMELY section 3.1);
// what a NIC sees is the whole round trip of a packet.
func (h *host) observe(qp *paced.QP, a *cc.Ack, _ cc.Control) {
	h.measures = true
	if f := h.flow(qp.Num()); f != nil && h.sim.measure != nil {
		h.sim.measure.roundTrip(h.nic.Lane().Index(), f, a.NetRTT)
	}
}

func (h *host) acked(qpn uint32, a *cc.Ack) {
	if f := h.flow(qpn); f != nil && h.sim.measure != nil {
		h.sim.measure.roundTrip(h.nic.Lane().Index(), f, a.RTT)
	}
}
