package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Stage transport, as far as it decides: package roce/rc says what a packet means, and
// what it says is done here: data placed, atomics begun, receives and requests
// completed, answers sent, timers armed.

// receive takes a packet through the transport.
func (n *NIC) receive(now units.Time, h fabric.Handle) {
	n.stat.RxPackets++
	n.inReceive.add(now, -1)
	f := &n.frames.frames[h]
	q := n.qp(f.dstQPN)
	p := n.net.Packet(h)
	switch {
	case q == nil || q.rc == nil || q.to == nil && (int(p.Src) != q.peer.Host || f.srcQPN != q.peer.QPN):
		n.stat.NoQP++
		n.frames.free(h)
		return
	case q.to != nil && f.qkey != q.qkey:
		n.stat.BadQKey++
		n.frames.free(h)
		return
	}
	if f.desc.Header.Opcode == ib.CNP {
		n.frames.free(h)
		n.notified(now, q)
		return
	}
	if q.recv.fetched && !isResponse(f.desc.Header.Opcode) && n.park(now, q, h, f) {
		return
	}
	n.handle(now, q, h)
}

// handle takes a packet of a queue pair through the transport.
func (n *NIC) handle(now units.Time, q *qp, h fabric.Handle) {
	f := &n.frames.frames[h]
	p := n.net.Packet(h)
	n.stat.RxPayload += units.Bytes(f.desc.Payload)
	n.frameSize = units.Bytes(p.Size)
	had := q.recv.queue.Len()
	q.rc.Receive(now, &f.desc.Header, f.desc.Payload, &n.eff)
	switch f.desc.Header.Opcode {
	case ib.Acknowledge, ib.AtomicAcknowledge:
		q.report.fromAck(n.net, h, p, f)
	case ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly:
		q.report.fromData(n.net, h, p)
	default:
		notify := marked(p, &f.desc)
		kept := n.noteEcho(q, h, p, f)
		n.effects(now, q, f, h)
		if q.recv.fetched && q.recv.queue.Len() < had && q.rc.State() != ib.Err {
			n.prefetch(now, q.recv)
		}
		if !kept {
			n.frames.free(h)
		}
		if notify {
			n.notify(now, q)
		}
		return
	}
	n.effects(now, q, f, h)
	n.frames.free(h)
}

// effects carries out what the transport asks for in n.eff. f and h are the
// packet that it is about, or nil and 0.
func (n *NIC) effects(now units.Time, q *qp, f *frame, h fabric.Handle) {
	eff := &n.eff
	if eff.Do&rc.DoCheck != 0 {
		c := &eff.Check
		ok := false
		if c.Invalidate {
			r := n.mem.region(c.RKey)
			if ok = r != nil && r.pd == q.cfg.PD && r.access&ib.AccessRemoteInvalidate != 0; ok {
				n.forget(c.RKey)
			}
		} else {
			ok = n.mem.check(c.RKey, q.cfg.PD, c.VA, uint64(c.Length), c.Access) != nil
		}
		q.rc.Checked(now, ok, eff)
	}
	n.accounts(now, q, f)
	do, recv, events := eff.Do, eff.Recv, eff.Events
	if do&rc.DoPlace != 0 && !n.place(now, q, f, &eff.Place) {
		// The transport's answer to that replaces what it said before.
		do |= eff.Do
		events |= eff.Events
		if eff.Do&rc.DoRecv != 0 {
			recv = eff.Recv
		} else if recv.Status == ib.WCSuccess {
			recv.Status = ib.WCLocProtErr
		}
	}
	if do&rc.DoAtomic != 0 {
		switch answered, ok := n.atomic(now, q, &eff.Atomic); {
		case answered:
			do |= rc.DoRespond
		case !ok:
			do |= eff.Do
			events |= eff.Events
		}
	}
	if do&rc.DoRecv != 0 {
		n.received(now, q, &recv, f)
	}
	for t := range ib.EventType(32) {
		if events == 0 {
			break
		}
		if events.Has(t) {
			n.raise(now, AsyncEvent{Type: t, QPN: q.num})
		}
	}
	if do&rc.DoComplete != 0 {
		n.reap(now, q)
	}
	if do&rc.DoRespond != 0 {
		n.respond(now, q)
	}
	n.arm(now, q)
	// An acknowledgement may have opened the window even where the transport
	// had nothing to wait for.
	n.file(now, q)
	n.schedule(now)
}

// received completes a receive; f is the packet that did, or nil for a flush.
func (n *NIC) received(now units.Time, q *qp, r *rc.RecvCompletion, f *frame) {
	q.recv.free(r.Slot)
	e := CQE{
		WRID: r.ID, QPN: q.num, ByteLen: r.Bytes, Imm: r.Imm, Status: r.Status, Opcode: r.Opcode,
		HasImm: r.HasImm, HasInv: r.HasInvalidate, Solicited: r.Solicited,
	}
	if q.to != nil && f != nil {
		e.SrcQPN, e.HasGRH = f.srcQPN, n.hasGRH()
	}
	n.complete(now, now, q.cfg.RecvCQ, e)
}

// reap turns finished requests into completions.
func (n *NIC) reap(now units.Time, q *qp) {
	if q.cfg.SRQ == nil && q.rc.State() == ib.Err {
		n.surrender(now, q)
	}
	var c rc.SendCompletion
	for q.rc.PollSend(&c) {
		if q.reports != nil {
			q.reports[c.Slot] = q.report
		}
		n.complete(now, n.answered(now, q, c.Slot), q.cfg.SendCQ, CQE{
			WRID: c.ID, QPN: q.num, Slot: c.Slot, ByteLen: c.Bytes, Status: c.Status, Opcode: c.Opcode,
		})
	}
	var r rc.RecvCompletion
	for q.rc.PollRecv(&r) {
		n.received(now, q, &r, nil)
	}
	reaped := q.handed - uint32(q.rc.SendQueued())
	n.underWay(now, q, int(int32(q.reaped-reaped)))
	n.releaseWQEs(now, q, q.reaped, reaped)
	q.reaped = reaped
	if int32(reaped-q.begun) > 0 { // some ended without a packet
		q.begun = reaped
	}
	if q.asked != q.told {
		n.fetchWQEs(now, now, now, q)
	}
}

// failSend tells the transport that a request's memory may not be used.
func (n *NIC) failSend(now units.Time, q *qp, slot uint32, status ib.WCStatus) {
	n.eff = rc.Effects{}
	q.rc.FailSend(now, slot, status, &n.eff)
	n.effects(now, q, nil, 0)
}

// arm schedules the queue pair's transport timer. A deadline that has moved
// later meanwhile costs a look when the old one comes, not a cancelled event.
func (n *NIC) arm(now units.Time, q *qp) {
	if at := q.rc.Deadline(); at < q.timerAt {
		q.timerAt = max(at, now)
		n.engine.Schedule(q.timerAt, &n.src, n.id, evTimer, uint64(q.num))
	}
}

func (n *NIC) expire(now units.Time, num uint32) {
	q := n.qp(num)
	if q == nil || q.rc == nil || q.timerAt != now {
		return
	}
	q.timerAt = units.Never
	if q.rc.Deadline() <= now {
		q.rc.Expire(now, &n.eff)
		n.effects(now, q, nil, 0)
	}
	if q.rc != nil {
		n.arm(now, q)
	}
}
