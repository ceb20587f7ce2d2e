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

// respond sends what a queue pair owes as a responder, as far as there is room.
func (n *NIC) respond(now units.Time, q *qp) {
	if q != nil && !q.queuedResponder {
		q.queuedResponder = true
		n.responders = append(n.responders, q)
	}
	var d rc.Descriptor
	for len(n.responders) > 0 && n.inResponses < n.cfg.TxPackets {
		q := n.responders[0]
		n.responders = n.responders[:copy(n.responders, n.responders[1:])]
		q.queuedResponder = false
		if q.rc == nil || !q.rc.NextResponse(now, &d) {
			continue
		}
		n.build(now, q, &d, true)
		if q.rc.ResponseReady() {
			q.queuedResponder = true
			n.responders = append(n.responders, q)
		}
	}
}

// build makes a packet of a descriptor, fetches its payload and queues it for the
// MAC.
func (n *NIC) build(now units.Time, q *qp, d *rc.Descriptor, response bool) {
	if d.Source == rc.SourceLocalInv {
		n.begins(now, q, &q.sq[d.Slot])
		if r := n.mem.region(d.Header.Imm); r == nil || r.pd != q.cfg.PD {
			n.failSend(now, q, d.Slot, ib.WCMWBindErr)
			return
		}
		n.forget(d.Header.Imm)
		n.reap(now, q) // nothing comes back that would
		return
	}
	peer, qkey := &q.peer, uint32(0)
	if q.to != nil {
		to := &q.to[d.Slot]
		peer, qkey = &to.peer, to.qkey
	}
	h, f := n.frames.alloc()
	f.desc, f.srcQPN, f.dstQPN, f.resets, f.qkey = *d, q.num, peer.QPN, q.resets, qkey
	p := n.net.Packet(h)
	p.Src, p.Dst, p.FlowHash = int32(n.host), int32(peer.Host), cc.PathHash(peer.FlowHash, q.path)
	size := PacketBytes(n.cfg.Framing, d.Header.Opcode, d.Payload)
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
		size += n.attachEcho(q, h, f)
	}
	size += p.Telemetry.WireBytes(0)
	p.Size = int32(size)

	if !data {
		// Acknowledgements leave by a path of their own.
		f.ready = max(now, q.translatedAt) + n.cfg.PipelineLatency
		if q.responding > 0 {
			// Responses leave in order: overtaking a READ's would say that it was lost.
			n.lineUp(now, q, h, f, true)
			return
		}
		n.control[p.Priority].push(n.frames, h)
		n.kick(now, f.ready)
		return
	}
	chosen := now
	if !response {
		since, why := n.schedulerWaits()
		chosen = n.scheduler.Serve(min(since, now), now, why, n.cfg.SchedulerCycles)
		n.txFull, n.unitsFrom = units.Never, units.Never
	}
	context, _ := n.needContext(chosen, q)
	at := chosen
	if !response {
		at = n.takeWQE(chosen, q, d.Slot)
		if at > chosen && context > chosen { // the context says where it is
			at = max(at, context+n.pcie.alone(q.wqeBytes(&q.sq[d.Slot])))
		}
		if n.txUnits != nil {
			q.txUntil = max(q.txUntil, q.contextAt)
			at = max(at, n.txUnits.serve(chosen, d.Header.Opcode, &q.txUntil))
			n.engine.Schedule(q.txUntil, &n.src, n.id, evUnit, uint64(q.num))
		}
	}
	wait := at - chosen // is this packet's, not the link's
	// The payload can be asked for when the context is here, the rest, and its translation.
	ready := max(context, at)
	arrived, known := ready, ready
	if d.Payload > 0 {
		inline, ok := n.gather(q, d, f)
		if !ok {
			n.frames.free(h)
			if response {
				var eff rc.Effects
				q.rc.FailResponse(now, d, ib.WCRemAccessErr, &eff)
				n.carryOut(now, q, &eff, arrival{})
			} else {
				n.failSend(now, q, d.Slot, ib.WCLocProtErr)
			}
			return
		}
		if !inline {
			if n.translates() {
				known += n.translateSource(chosen, q, d) - chosen
			}
			arrived = n.pcie.Read(chosen, n.source(q, d), d.Payload, ForPayload) + wait
			if known > at {
				arrived = max(arrived, known+n.pcie.alone(d.Payload))
			}
		}
	}
	if context > chosen {
		n.packetiser.await(chosen, context, StallContext)
	}
	if known > ready {
		n.packetiser.await(chosen, ready, StallPCIe)
		n.packetiser.await(chosen, known, StallTranslation)
	}
	packed := n.packetiser.Serve(chosen, arrived, StallPCIe, n.cfg.PacketiserCycles)
	f.ready = packed + n.cfg.PipelineLatency
	if n.onSpan != nil {
		n.buildSpans(f, response, chosen, arrived, packed)
	}
	n.lineUp(now, q, h, f, response)
}

// lineUp puts a packet before the wire, behind those of its kind and priority.
func (n *NIC) lineUp(now units.Time, q *qp, h fabric.Handle, f *frame, response bool) {
	n.inTransmit.add(now, 1)
	priority := n.net.Packet(h).Priority
	if response {
		q.responding++
		n.responses[priority].push(n.frames, h)
		n.inResponses++
	} else {
		n.requests[priority].push(n.frames, h)
		n.inRequests++
	}
	n.kick(now, f.ready)
}
