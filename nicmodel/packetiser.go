package nicmodel

import (
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// packetiser is the stage that builds a packet's headers, and its payload as PCIe
// delivers it.
//
// State: packets in the slab (package frames), in order. Cost: PacketiserCycles a packet that
// carries data or asks for them; acknowledgements bypass it. It stalls for a payload or
// an element (StallPCIe), a queue pair's context (StallContext) and a page's address
// (StallTranslation).
type packetiser struct {
	*chip.Chip
	stage.Stage
	scheduler *scheduler
	elements  *elements
	contexts  *contexts
	dma       *dma
	transport *transport
	mac       *mac

	responders []*qp // queue pairs with responses to send, in order
}

// respond sends what a queue pair owes as a responder, as far as there is room.
func (k *packetiser) respond(now units.Time, q *qp) {
	if q != nil && !q.queuedResponder {
		q.queuedResponder = true
		k.responders = append(k.responders, q)
	}
	var d rc.Descriptor
	for len(k.responders) > 0 {
		i := k.nextResponder(now)
		if i < 0 {
			return
		}
		if until := k.scheduler.missUntil; until > now {
			k.scheduler.wake(until)
			return
		}
		q := k.responders[i]
		k.responders = slices.Delete(k.responders, i, i+1)
		q.queuedResponder = false
		if q.rc == nil || !q.rc.NextResponse(now, &d) {
			continue
		}
		k.build(now, q, &d, true)
		if q.rc.ResponseReady() {
			q.queuedResponder = true
			k.responders = append(k.responders, q)
		}
	}
}

// nextResponder returns which queue pair's response is next, or -1 if there is no room for any or its function has to
// wait.
func (k *packetiser) nextResponder(now units.Time) int {
	a := k.scheduler.arbiter
	switch {
	case a != nil:
		i, due := a.responder(now, k.responders, k.mac)
		if i < 0 && due != units.Never {
			k.scheduler.wake(due)
		}
		return i
	case k.mac.responseRoom[0].takes():
		return slices.IndexFunc(k.responders, k.mac.takesAck)
	}
	return -1
}

// inputs holds the times at which a packet's parts are there.
type inputs struct {
	chosen  units.Time // the packet was
	context units.Time
	element units.Time
	ready   units.Time // the element, and the context
	known   units.Time // and where the payload lies
	arrived units.Time // and the payload
}

// frame makes a packet with its addresses and its size, and without its payload.
func (k *packetiser) frame(now units.Time, q *qp, d *rc.Descriptor, response bool) (fabric.Handle, *frames.Frame) {
	peer, qkey := &q.peer, uint32(0)
	if q.to != nil {
		to := &q.to[d.Slot]
		peer, qkey = &to.peer, to.qkey
	}
	h, f := k.Alloc()
	f.Desc, f.SrcQPN, f.DstQPN, f.Resets, f.QKey, f.IPv6 = *d, q.num, peer.QPN, q.resets, qkey, peer.IPv6
	k.Net.Packet(h).Src = int32(k.Host)
	p := &f.Wire
	p.Dst, p.FlowHash = int32(peer.Host), cc.PathHash(peer.FlowHash, q.path)
	size := frames.PacketBytes(k.Config.Framing, d.Header.Opcode, d.Payload)
	if f.IPv6 {
		size = frames.IPv6PacketBytes(k.Config.Framing, d.Header.Opcode, d.Payload)
	}
	p.Priority = peer.Priority
	if response && d.Payload == 0 {
		if q.responding == 0 {
			p.Priority = q.cong.AckPriority
		}
		size += q.attachEcho(now, k.Chip, h, f)
	} else {
		// Requests and READ responses collect telemetry; acknowledgements return that of
		// the forward path.
		p.Telemetry = q.cong.Telemetry
		if q.cong.ECT {
			p.Flags = fabric.ECT
		}
	}
	p.Size = int32(size + k.Net.TelemetryBytes(p.Telemetry, 0))
	return h, f
}

// acknowledge sends an acknowledgement. It leaves by a path of its own, unless responses
// leave before it: overtaking a READ's would say that it was lost.
func (k *packetiser) acknowledge(now units.Time, q *qp, h fabric.Handle, f *frames.Frame) {
	f.Ready = max(now, q.translatedAt) + k.Config.PipelineLatency
	if q.responding > 0 {
		k.mac.lineUp(now, q, h, f, true)
		return
	}
	k.mac.lineUpControl(now, h, f)
}

// element returns when a request's element is available and has left its processing
// unit.
func (k *packetiser) element(chosen, context units.Time, q *qp, d *rc.Descriptor) units.Time {
	at := k.elements.take(chosen, q, d.Slot, d.Last)
	missed := at > chosen && awaitsAnswer(q.sq[d.Slot].req.Op)
	if at > chosen && context > chosen { // the context says where it is
		at = max(at, context+k.Link.Alone(q.wqeBytes(&q.sq[d.Slot])))
	}
	if k.scheduler.units != nil {
		at = max(at, k.scheduler.occupyUnit(chosen, q, missed))
	}
	return at
}

// fetch gets a packet's payload, and reports whether that may be read. The read can
// start when the context, the other inputs and the translation are on the chip.
func (k *packetiser) fetch(in *inputs, q *qp, d *rc.Descriptor, f *frames.Frame) (ok bool) {
	inline, ok := k.dma.gather(q, d, f)
	if inline || !ok {
		return ok
	}
	if known := k.dma.translateSource(in.chosen, q, d); known > in.chosen {
		in.known += known - in.chosen
		if free := k.dma.translation.Fetchable(in.chosen); free > in.chosen {
			k.scheduler.hold(free, stage.StallTranslation)
		}
	}
	wait := in.element - in.chosen // is this packet's, not the link's
	in.arrived = k.dma.read(in.chosen, q, d) + wait
	if in.known > in.element {
		in.arrived = max(in.arrived, in.known+k.Link.Alone(d.Payload))
	}
	return true
}

// refuse reports to the transport that a packet's payload may not be read.
func (k *packetiser) refuse(now units.Time, q *qp, d *rc.Descriptor, response bool) {
	if !response {
		k.transport.failSend(now, q, d.Slot, ib.WCLocProtErr)
		return
	}
	var eff rc.Effects
	q.rc.FailResponse(now, d, ib.WCRemAccessErr, &eff)
	k.transport.carryOut(now, q, &eff, arrival{})
}

// changeKey carries out a local invalidation, or the bind of a window: no packets.
func (k *packetiser) changeKey(now units.Time, q *qp, d *rc.Descriptor) {
	w := &q.sq[d.Slot]
	k.elements.start(now, q, w)
	ok := false
	if d.Source == rc.SourceBindMW {
		ok = k.dma.regions.Bind(q.owner(), &w.req)
	} else {
		ok = k.dma.invalidate(q, d.Header.Imm)
	}
	if !ok {
		k.transport.failSend(now, q, d.Slot, ib.WCMWBindErr)
		return
	}
	k.transport.reap(now, q) // nothing comes back that would
}

// traceBuild reports a packet's spans before the wire.
func (k *packetiser) traceBuild(f *frames.Frame, response bool, chosen, arrived, packed units.Time) {
	if !response {
		k.Spans.Packet(f, chip.AtScheduler, k.scheduler.Began(k.Config.SchedulerCycles), chosen, int32(k.Host))
	}
	if arrived > chosen {
		k.Spans.Packet(f, chip.AtPayload, chosen, arrived, int32(k.Host))
	}
	k.Spans.Packet(f, chip.AtPacketiser, k.Began(k.Config.PacketiserCycles), packed, int32(k.Host))
}

// choose has the scheduler choose a packet, looks its context and its element up, and notes in in when they are there.
func (k *packetiser) choose(now units.Time, in *inputs, q *qp, d *rc.Descriptor, f *frames.Frame, response bool) {
	if a := k.scheduler.arbiter; a != nil {
		a.sent(now, q, int(f.Wire.Size))
	}
	chosen := now
	if !response {
		chosen = k.scheduler.chosen(now)
	}
	context, free := k.contexts.lookUp(chosen, q)
	if free > chosen {
		k.scheduler.hold(free, stage.StallContext)
	}
	at := chosen
	if !response {
		at = k.element(chosen, context, q, d)
	}
	in.chosen, in.context, in.element, in.ready = chosen, context, at, max(context, at)
	in.known, in.arrived = in.ready, in.ready
}

// pack accounts for the building of a packet, whose inputs come as they say.
func (k *packetiser) pack(in *inputs, f *frames.Frame, response bool) {
	if in.context > in.chosen {
		k.Await(in.chosen, in.context, stage.StallContext)
	}
	if in.known > in.ready {
		k.Await(in.chosen, in.ready, stage.StallPCIe)
		k.Await(in.chosen, in.known, stage.StallTranslation)
	}
	packed := k.Serve(in.chosen, in.arrived, stage.StallPCIe, k.Config.PacketiserCycles)
	f.Ready = packed + k.Config.PipelineLatency
	if k.Spans.Report != nil {
		k.traceBuild(f, response, in.chosen, in.arrived, packed)
	}
}
