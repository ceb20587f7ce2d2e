package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// file puts a queue pair before the scheduler if it has a packet that transport,
// window and rate let it send. A queue pair that is held back is not there.
func (n *NIC) file(now units.Time, q *qp) {
	if !q.hasFlow || n.limiter.Queued(q.flow) {
		return
	}
	bytes, ok := q.rc.PeekRequest(now)
	if !ok {
		n.held(now, q, holdNone)
		q.limit.waits = false
		return
	}
	if q.txUntil > now {
		n.held(now, q, holdUnit)
		return // evUnit comes
	}
	if q.pull != nil {
		n.turnTo(now, q)
	}
	if out := q.rc.Inflight(); out > 0 && (out+units.Bytes(bytes) > q.next.control.Window || q.turns()) {
		n.held(now, q, holdWindow)
		q.limit.waits = false
		return
	}
	if q.limit.entry != 0 && !n.paced(now, q, units.Bytes(bytes)) {
		n.held(now, q, holdPace)
		return // evLimit comes
	}
	n.limiter.Enqueue(now, q.flow, units.Bytes(bytes))
	n.held(now, q, holdPace)
}

// turns reports whether requests wait until those under way have been acknowledged, to
// go by another path.
func (q *qp) turns() bool { return q.pathed != nil && q.ackAsked && q.pathed.Path() != q.path }

// schedule chooses queue pairs for as long as there is room before the MAC, one
// each time the scheduler is free.
func (n *NIC) schedule(now units.Time) {
	for n.inRequests < n.cfg.TxPackets {
		if free := n.scheduler.Free(); free > now {
			n.wakeScheduler(free)
			return
		}
		if n.txUnits != nil && n.limiter.NextDue() <= now {
			if free := n.txUnits.free(now); free > now {
				n.unitsFrom = min(n.unitsFrom, now)
				n.wakeScheduler(free)
				return
			}
		}
		flow, ok := n.limiter.Dequeue(now)
		if !ok {
			if due := n.limiter.NextDue(); due < n.limiterAt {
				n.limiterAt = due
				n.engine.Schedule(due, &n.src, n.id, evLimiter, 0)
			}
			return
		}
		q := n.flows[flow]
		n.held(now, q, holdNone)
		q.rc.BoundInflight(q.next.control.Window)
		if q.pathed != nil && q.rc.Inflight() == 0 {
			q.path = q.pathed.Path()
		}
		if q.rc.NextRequest(now, &n.desc) {
			q.ackAsked = n.desc.Header.AckReq
			if q.limit.entry != 0 {
				q.limit.charge(now, n.cfg.Limiter.Tick, units.Bytes(n.desc.Payload)+units.Bytes(n.desc.Expect))
			}
			if !n.desc.Retransmit {
				bytes := units.Bytes(n.desc.Payload) + units.Bytes(n.desc.Expect)
				s := q.next
				s.sent += bytes
				if s.engine != nil {
					s.app.Sent(now, bytes, min(s.control.Rate, n.line), s.gap, s.span)
				}
			}
			n.build(now, q, false)
			n.arm(now, q)
		}
		n.file(now, q)
	}
	if n.txFull == units.Never && n.limiter.NextDue() <= now {
		n.txFull = now
	}
}

// schedulerWaits returns since when a due queue pair has waited, or Never, and for
// what.
func (n *NIC) schedulerWaits() (since units.Time, why Stall) {
	if n.unitsFrom < n.txFull {
		return n.unitsFrom, StallUnits
	}
	return n.txFull, StallTxBuffer
}

func (n *NIC) wakeScheduler(at units.Time) {
	if at < n.schedAt {
		n.schedAt = at
		n.engine.Schedule(at, &n.src, n.id, evSchedule, 0)
	}
}

// respond sends what a queue pair owes as a responder, as far as there is room.
func (n *NIC) respond(now units.Time, q *qp) {
	if q != nil && !q.queuedResponder {
		q.queuedResponder = true
		n.responders = append(n.responders, q)
	}
	for len(n.responders) > 0 && n.inResponses < n.cfg.TxPackets {
		q := n.responders[0]
		n.responders = n.responders[:copy(n.responders, n.responders[1:])]
		q.queuedResponder = false
		if q.rc == nil || !q.rc.NextResponse(now, &n.desc) {
			continue
		}
		n.build(now, q, true)
		if q.rc.ResponseReady() {
			q.queuedResponder = true
			n.responders = append(n.responders, q)
		}
	}
}

// build makes a packet of the descriptor in n.desc, fetches its payload and
// queues it for the MAC.
func (n *NIC) build(now units.Time, q *qp, response bool) {
	d := &n.desc
	if d.Source == rc.SourceLocalInv {
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
			q.responding++
			n.responses[p.Priority].push(n.frames, h)
			n.inResponses++
			n.inTransmit.add(now, 1)
			n.kick(now, f.ready)
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
				n.eff = rc.Effects{}
				q.rc.FailResponse(now, d, ib.WCRemAccessErr, &n.eff)
				n.effects(now, q, nil, 0)
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
	n.inTransmit.add(now, 1)
	if response {
		q.responding++
		n.responses[p.Priority].push(n.frames, h)
		n.inResponses++
	} else {
		n.requests[p.Priority].push(n.frames, h)
		n.inRequests++
	}
	n.kick(now, f.ready)
}

// attachEcho gives an acknowledgement what the packets since the last one met,
// and returns how many bytes that takes.
func (n *NIC) attachEcho(q *qp, h fabric.Handle, f *frame) units.Bytes {
	f.echo = q.echo
	q.echo = echo{sentAt: q.echo.sentAt}
	var size units.Bytes
	switch q.cong.Telemetry {
	case telemetry.MaxDelay:
		n.net.Packet(h).Telemetry = telemetry.MaxDelay // for the way back
		size = reflectedDelayBytes
	case telemetry.PerHop:
		if q.echoPacket != 0 {
			if s := n.net.INT(q.echoPacket); s != nil {
				size = telemetry.PerHop.WireBytes(int(s.N))
				n.net.MoveINT(q.echoPacket, h)
			}
		}
	}
	n.dropEcho(q)
	return size
}

func (n *NIC) dropEcho(q *qp) {
	if q.echoPacket != 0 {
		n.frames.free(q.echoPacket)
		q.echoPacket = 0
	}
}

// source returns the address that a packet's payload begins at.
func (n *NIC) source(q *qp, d *rc.Descriptor) uint64 {
	if d.Source == rc.SourceMemory {
		return d.VA
	}
	return addressAt(q.sq[d.Slot].sgl, d.Offset)
}

// gather checks and fetches the payload of a packet. inline says that it came
// with the work queue element, so that PCIe is not asked again.
func (n *NIC) gather(q *qp, d *rc.Descriptor, f *frame) (inline, ok bool) {
	if d.Source == rc.SourceMemory {
		r := n.mem.check(d.RKey, q.cfg.PD, d.VA, uint64(d.Payload), ib.AccessRemoteRead)
		if r == nil {
			return false, false
		}
		if b := r.at(d.VA, uint64(d.Payload)); b != nil {
			var to []byte
			f.buffer, to = n.frames.payload(d.Payload)
			n.fetch(to, b)
		}
		return false, true
	}
	w := &q.sq[d.Slot]
	if len(w.inline) > 0 {
		var to []byte
		f.buffer, to = n.frames.payload(d.Payload)
		copy(to, w.inline[d.Offset:])
		return true, true
	}
	return false, n.walk(q, w.sgl, d.Offset, d.Payload, 0, func(r *region, addr, length uint64, at int) {
		b := r.at(addr, length)
		if b == nil {
			return
		}
		if f.buffer == 0 {
			f.buffer, _ = n.frames.payload(d.Payload)
			clear(n.frames.buffers[f.buffer-1][:d.Payload])
		}
		n.fetch(n.frames.buffers[f.buffer-1][at:d.Payload], b)
	})
}

// walk visits the pieces of a scatter-gather list that hold length bytes from
// offset on, and reports whether all of them may be accessed so.
func (n *NIC) walk(q *qp, sgl []SGE, offset uint32, length int, want ib.AccessFlags, visit func(r *region, addr, length uint64, at int)) bool {
	at := 0
	for i := range sgl {
		e := &sgl[i]
		if offset >= e.Length {
			offset -= e.Length
			continue
		}
		take := min(uint64(e.Length-offset), uint64(length-at))
		r := n.mem.check(e.Key, q.cfg.PD, e.Addr+uint64(offset), take, want)
		if r == nil {
			return false
		}
		visit(r, e.Addr+uint64(offset), take, at)
		at += int(take)
		offset = 0
		if at == length {
			return true
		}
	}
	return at == length
}

// kick makes sure that the MAC looks at its queues when a frame is ready and the
// wire free.
func (n *NIC) kick(now, ready units.Time) {
	at := max(now, ready, n.wireFree)
	if at < n.wireAt {
		n.wireAt = at
		n.engine.Schedule(at, &n.src, n.id, evWire, 0)
	}
}

// send puts the next frame on the wire. Within a priority acknowledgements go
// first; READ responses and requests take turns.
func (n *NIC) send(now units.Time) {
	if now < n.wireFree {
		n.kick(now, n.wireFree)
		return
	}
	next := units.Never
	for priority := fabric.MaxPriorities - 1; priority >= 0; priority-- {
		if n.paused&(1<<priority) != 0 {
			continue
		}
		first, second := &n.requests[priority], &n.responses[priority]
		if n.turn {
			first, second = second, first
		}
		for i, from := range [...]*fifo{&n.control[priority], first, second} {
			for from.head != 0 {
				h := from.head
				f := &n.frames.frames[h]
				if f.ready > now {
					next = min(next, f.ready)
					break
				}
				from.pop(n.frames)
				if n.transmit(now, h, f, from) {
					if i > 0 {
						n.turn = !n.turn
					}
					return
				}
			}
		}
	}
	if next != units.Never {
		n.kick(now, next)
	}
	n.refill(now)
}

// refill lets the stages before the MAC use the room that it has made.
func (n *NIC) refill(now units.Time) {
	if len(n.responders) > 0 {
		n.respond(now, nil)
	}
	n.schedule(now)
}

// transmit puts one frame on the wire, unless its queue pair has gone back since
// it was built.
func (n *NIC) transmit(now units.Time, h fabric.Handle, f *frame, from *fifo) bool {
	p := n.net.Packet(h)
	q := n.qp(f.srcQPN)
	switch from {
	case &n.requests[p.Priority]:
		n.inRequests--
		n.inTransmit.add(now, -1)
	case &n.responses[p.Priority]:
		n.inResponses--
		n.inTransmit.add(now, -1)
		if q != nil && q.resets == f.resets {
			q.responding--
		}
	}
	if q == nil || q.rc == nil || q.resets != f.resets || f.desc.Header.Opcode != ib.CNP && !q.rc.Fresh(&f.desc) {
		n.stat.Stale++
		n.frames.free(h)
		return false
	}
	f.sentAt = now
	if q.pull != nil && f.desc.Header.Opcode == ib.ReadRequest {
		q.pull.requested(now, &f.desc)
	}
	if q.departures != nil && from == &n.requests[p.Priority] {
		q.departures[f.desc.Slot].leaves(n.ReadClock(now), &f.desc)
	}
	n.stat.TxPackets++
	n.stat.TxPayload += units.Bytes(f.desc.Payload)
	ready, why := f.ready, StallWire
	if n.resumed[p.Priority] > ready {
		why = StallPause
	}
	n.wireFree = n.net.Transmit(now, n.host, h)
	n.mac.Serve(ready, now, why, int64(n.wireFree-now))
	if n.onSpan != nil {
		n.packetSpan(f, AtWire, now, n.wireFree, int32(n.host))
	}
	// The wire is looked at again when it is free: the frame that goes next
	// may not be there yet, and this one makes room.
	n.kick(now, n.wireFree)
	if q.cfg.Type != ib.RC {
		n.left(now, q, &f.desc)
	}
	n.refill(now)
	return true
}

// Pause implements fabric.Endpoint.
func (n *NIC) Pause(now units.Time, paused uint8) {
	resumed := n.paused &^ paused
	n.paused = paused
	if resumed == 0 {
		return
	}
	for priority := range n.resumed {
		if resumed&(1<<priority) != 0 {
			n.resumed[priority] = now
		}
	}
	n.kick(now, now)
}
