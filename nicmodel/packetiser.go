package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Stage packetiser: a packet's headers, and its payload as PCIe brings it.
//
// State: packets in the slab (frame.go), in order. Cost: PacketiserCycles a packet that
// carries data or asks for them; acknowledgements pass beside it. It stalls for a
// payload or an element (StallPCIe), a queue pair's context (StallContext) and a page's
// address (StallTranslation).

type packetiser struct {
	*chip
	Stage
	scheduler   *scheduler
	elements    *elements
	contexts    *contexts
	regions     *memory
	translation *translation
	dma         *dma
	transport   *transport
	mac         *mac

	responders []*qp // queue pairs with responses to send, in order
}

// respond sends what a queue pair owes as a responder, as far as there is room.
func (k *packetiser) respond(now units.Time, q *qp) {
	if q != nil && !q.queuedResponder {
		q.queuedResponder = true
		k.responders = append(k.responders, q)
	}
	var d rc.Descriptor
	for len(k.responders) > 0 && k.mac.waitingResponses < k.cfg.TxPackets {
		q := k.responders[0]
		k.responders = k.responders[:copy(k.responders, k.responders[1:])]
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

// build makes a packet of a descriptor, fetches its payload and queues it for the
// MAC.
func (k *packetiser) build(now units.Time, q *qp, d *rc.Descriptor, response bool) {
	if d.Source == rc.SourceLocalInv {
		k.elements.start(now, q, &q.sq[d.Slot])
		if r := k.regions.region(d.Header.Imm); r == nil || r.pd != q.cfg.PD {
			k.transport.failSend(now, q, d.Slot, ib.WCMWBindErr)
			return
		}
		k.translation.forget(d.Header.Imm)
		k.transport.reap(now, q) // nothing comes back that would
		return
	}
	peer, qkey := &q.peer, uint32(0)
	if q.to != nil {
		to := &q.to[d.Slot]
		peer, qkey = &to.peer, to.qkey
	}
	h, f := k.frames.alloc()
	f.desc, f.srcQPN, f.dstQPN, f.resets, f.qkey = *d, q.num, peer.QPN, q.resets, qkey
	p := k.net.Packet(h)
	p.Src, p.Dst, p.FlowHash = int32(k.host), int32(peer.Host), cc.PathHash(peer.FlowHash, q.path)
	size := PacketBytes(k.cfg.Framing, d.Header.Opcode, d.Payload)
	p.Priority = peer.Priority
	if q.cong.ECT {
		p.Flags = fabric.ECT
	}
	data := d.Payload > 0 || !response
	if data {
		// Requests and READ responses collect telemetry; acknowledgements
		// bring the forward path's back.
		p.Telemetry = q.cong.Telemetry
	} else {
		p.Flags = 0
		if q.responding == 0 {
			p.Priority = q.cong.AckPriority
		}
		size += q.attachEcho(k.frames, h, f)
	}
	size += p.Telemetry.WireBytes(0)
	p.Size = int32(size)

	if !data {
		// Acknowledgements leave by a path of their own.
		f.ready = max(now, q.translatedAt) + k.cfg.PipelineLatency
		if q.responding > 0 {
			// Responses leave in order: overtaking a READ's would say that it was lost.
			k.mac.lineUp(now, q, h, f, true)
			return
		}
		k.mac.control[p.Priority].push(k.frames, h)
		k.mac.wake(now, f.ready)
		return
	}
	chosen := now
	if !response {
		since, why := k.scheduler.waits()
		chosen = k.scheduler.Serve(min(since, now), now, why, k.cfg.SchedulerCycles)
		k.scheduler.fullFrom, k.scheduler.unitsFrom = units.Never, units.Never
	}
	context, _ := k.contexts.lookUp(chosen, q)
	at := chosen
	if !response {
		at = k.elements.take(chosen, q, d.Slot)
		if at > chosen && context > chosen { // the context says where it is
			at = max(at, context+k.pcie.alone(q.wqeBytes(&q.sq[d.Slot])))
		}
		if k.scheduler.units != nil {
			q.txUntil = max(q.txUntil, q.contextAt)
			at = max(at, k.scheduler.units.serve(chosen, d.Header.Opcode, &q.txUntil))
			k.schedule(q.txUntil, evUnit, uint64(q.num))
		}
	}
	wait := at - chosen // is this packet's, not the link's
	// The payload can be asked for when the context is here, the rest, and its translation.
	ready := max(context, at)
	arrived, known := ready, ready
	if d.Payload > 0 {
		inline, ok := k.dma.gather(q, d, f)
		if !ok {
			k.frames.free(h)
			if response {
				var eff rc.Effects
				q.rc.FailResponse(now, d, ib.WCRemAccessErr, &eff)
				k.transport.carryOut(now, q, &eff, arrival{})
			} else {
				k.transport.failSend(now, q, d.Slot, ib.WCLocProtErr)
			}
			return
		}
		if !inline {
			if k.translation.active() {
				known += k.dma.translateSource(chosen, q, d) - chosen
			}
			arrived = k.pcie.Read(chosen, q.source(d), d.Payload, ForPayload) + wait
			if known > at {
				arrived = max(arrived, known+k.pcie.alone(d.Payload))
			}
		}
	}
	if context > chosen {
		k.await(chosen, context, StallContext)
	}
	if known > ready {
		k.await(chosen, ready, StallPCIe)
		k.await(chosen, known, StallTranslation)
	}
	packed := k.Serve(chosen, arrived, StallPCIe, k.cfg.PacketiserCycles)
	f.ready = packed + k.cfg.PipelineLatency
	if k.spans.report != nil {
		k.traceBuild(f, response, chosen, arrived, packed)
	}
	k.mac.lineUp(now, q, h, f, response)
}

// lineUp puts a packet before the wire, behind those of its kind and priority.
func (m *mac) lineUp(now units.Time, q *qp, h fabric.Handle, f *frame, response bool) {
	m.queued.add(now, 1)
	priority := m.net.Packet(h).Priority
	if response {
		q.responding++
		m.responses[priority].push(m.frames, h)
		m.waitingResponses++
	} else {
		m.requests[priority].push(m.frames, h)
		m.waitingRequests++
	}
	m.wake(now, f.ready)
}
