package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// This file is the way of a request and its packets through two NICs, step by step in the order of time. What a step does and
// what it costs is its part's; which part is next is here. Between steps time passes: a part schedules an event,
// and NIC.Handle passes it to the next.

// Ring writes the doorbell for the last count requests posted: their number, by
// which the NIC fetches them, or for a single request the element itself
// (BlueFlame) through write-combining stores of a cache line each. A BlueFlame
// element must not overtake earlier ones. It counts as a plain doorbell while an
// earlier one is being fetched or, unless Config.BlueFlameBusy is set, is under way
// at all.
//
// First the host has written the request to its send queue (PostSend). Ringing puts a store on the link.
func (n *NIC) Ring(now units.Time, num uint32, count int) { n.doorbell.ring(now, num, count) }

// serveStore takes a store that has reached the NIC: it reads the elements of the send queue over PCIe, or has the one that came.
func (d *doorbell) serveStore(now units.Time, b chip.Stores) {
	q := d.pairs.find(b.QPN)
	if q == nil || q.resets != b.Resets {
		d.elements.queued.Add(now, -b.Count)
		return
	}
	done := d.Serve(now, now, stage.StallNone, d.Config.DoorbellCycles)
	context, _ := d.contexts.lookUp(now, q)
	if d.Spans.Report != nil {
		d.Spans.Request(q.num, len(q.sq), chip.AtDoorbell, d.Began(d.Config.DoorbellCycles), done, q.doorbelled, b.Count)
	}
	q.doorbelled += uint32(b.Count)
	if b.BlueFlame {
		d.elements.decode(done, context, q)
		return
	}
	q.fetching--
	d.elements.fetch(now, done, context, q)
}

// hand gives the transport the decoded elements of a queue pair, as far as they wait for no time, and the scheduler the
// queue pair.
func (e *elements) hand(now units.Time, q *qp) {
	count := e.ready(now, q)
	e.transport.countRequests(now, q, count)
	for range count {
		e.give(now, q)
	}
	e.admit(now, q)
	if failed(q.rc.State()) {
		e.transport.reap(now, q)
		return
	}
	e.scheduler.file(now, q)
	e.scheduler.choose(now)
}

// issue has the next packet of the queue pair that the scheduler has chosen built.
func (s *scheduler) issue(now units.Time, q *qp) {
	var d rc.Descriptor
	if s.next(now, q, &d) {
		s.packetiser.build(now, q, &d, false)
		s.transport.armTimer(now, q)
	}
}

// build makes a packet of a descriptor, reads its payload over PCIe and queues it for the wire.
func (k *packetiser) build(now units.Time, q *qp, d *rc.Descriptor, response bool) {
	if d.Source == rc.SourceLocalInv || d.Source == rc.SourceBindMW {
		k.changeKey(now, q, d)
		return
	}
	h, f := k.frame(now, q, d, response)
	if response && d.Payload == 0 {
		k.acknowledge(now, q, h, f)
		return
	}
	var in inputs
	k.choose(now, &in, q, d, f, response)
	if d.Payload > 0 && !k.fetch(&in, q, d, f) {
		k.Release(h)
		k.refuse(now, q, d, response)
		return
	}
	k.pack(&in, f, response)
	k.mac.lineUp(now, q, h, f, response)
}

// transmit puts the frame whose turn it is on the wire, unless it is of before a reset. An unreliable request may be over with
// that.
func (m *mac) transmit(now units.Time, h fabric.Handle, f *frames.Frame, from *frames.FIFO) bool {
	q := m.pairs.find(f.SrcQPN)
	m.makeRoom(now, q, f, from)
	if !fresh(q, f) {
		m.stale++
		m.Release(h)
		return false
	}
	m.leaves(now, q, h, f, from)
	m.occupy(now, h, f)
	if q.cfg.Type != ib.RC {
		m.transport.leftUnreliably(now, q, &f.Desc)
	}
	m.refill(now)
	return true
}

// Arrive implements fabric.Endpoint: a packet's last bit has reached the MAC of the other NIC.
func (n *NIC) Arrive(x *fabric.Lane, now units.Time, h fabric.Handle, f *fabric.Frame) {
	n.enter(x, now)
	n.receiver.arrive(now, h, f)
}

// arrive takes a packet into the receive buffer, and through the stages to the transport.
func (r *receiver) arrive(now units.Time, h fabric.Handle, w *fabric.Frame) {
	if !r.buffer.admit(now, w) {
		r.Release(h)
		return
	}
	f := r.Frames.At(h)
	f.Wire, f.Arrived = *w, now
	done := r.take(now, f)
	if h := &f.Desc.Header; h.Opcode == ib.Acknowledge && h.Syndrome == rc.SyndromeSequence && r.Config.Transport.Loss == config.GoBackN {
		done += r.Config.Transport.NAKTime
	}
	r.queued.Add(now, 1)
	if r.Spans.Report != nil {
		r.Spans.Packet(f, chip.AtReceive, now, done, r.Net.Packet(h).Src)
	}
	r.Schedule(done, chip.EvReceive, uint64(h))
}

// handle has the transport say what a packet means to its queue pair, once it has a receive if it needs one
// (transport.receive), and carries that out.
func (t *transport) handle(now units.Time, q *qp, h fabric.Handle) {
	f := t.Frames.At(h)
	t.payload += units.Bytes(f.Desc.Payload)
	from := arrival{f, units.Bytes(f.Wire.Size), t.Net.Packet(h).Src}
	had := q.recv.queue.Len()
	t.receiver.buffer.take(now)
	var eff rc.Effects
	q.rc.Receive(now, &f.Desc.Header, f.Desc.Payload, &eff)
	answer := q.report.read(t.Lane, h, f)
	notify := !answer && marked(f)
	kept := !answer && q.noteEcho(t.Chip, h, f)
	gap := t.notifiesOf(q, &eff)
	t.carryOut(now, q, &eff, from)
	if !answer && q.recv.queue.Len() < had {
		t.tookReceive(now, q)
	}
	t.receiver.buffer.leave(now, int(from.size))
	if !kept {
		t.Release(h)
	}
	switch {
	case notify:
		t.notify(now, q)
	case gap && t.notify(now, q):
		q.restarts.CNPs++
	}
}

// carryOut performs the effects that the transport returned: data are placed, receives and requests completed, and
// acknowledgements sent, which go the same way back. from is the packet that caused them, if any. Calls to the transport on
// the way write its answers to eff again.
func (t *transport) carryOut(now units.Time, q *qp, eff *rc.Effects, from arrival) {
	if eff.Do&rc.DoCheck != 0 {
		c := eff.Check
		q.rc.Checked(now, t.dma.allowed(q, &c), eff)
		if c.Access == ib.AccessRemoteRead && eff.Do&rc.DoRespond != 0 {
			t.atomics.pass(now, q, c.VA)
		}
	}
	t.offload.account(now, q, eff, from.Frame)
	do, events := eff.Do, eff.Events
	if do&(rc.DoPlace|rc.DoAtomic|rc.DoRecv) != 0 {
		do, events = t.deliver(now, q, eff, from)
	}
	if events != 0 {
		t.async.raiseAll(now, q.num, events)
	}
	if do&rc.DoComplete != 0 {
		t.reap(now, q)
	}
	if do&rc.DoRespond != 0 {
		t.packetiser.respond(now, q)
	}
	t.armTimer(now, q)
	// An acknowledgement may have opened the window even where the transport
	// had nothing to wait for.
	t.scheduler.file(now, q)
	t.scheduler.choose(now)
}
