package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// transport makes the decisions of the stage of that name. Package roce/rc says what a
// packet means. transport carries that out: it places data, starts atomics, completes
// receives and requests, sends answers and arms timers.
type transport struct {
	*chip.Chip
	pairs       *pairs
	receives    *receives
	receiver    *receiver
	dma         *dma
	atomics     *atomics
	completions *completions
	elements    *elements
	scheduler   *scheduler
	packetiser  *packetiser
	mac         *mac
	offload     *offload
	async       *async

	requests stage.Gauge // that are not over
	active   stage.Gauge // queue pairs that have some

	packets, noQP, badQKey uint64
	payload                units.Bytes
}

// receive takes a packet through the transport.
func (t *transport) receive(now units.Time, h fabric.Handle) {
	t.packets++
	t.receiver.queued.Add(now, -1)
	f := t.Frames.At(h)
	q := t.pairs.find(f.DstQPN)
	switch {
	case q == nil || q.rc == nil || q.to == nil && (int(t.Net.Packet(h).Src) != q.peer.Host || f.SrcQPN != q.peer.QPN):
		t.noQP++
		t.drop(now, h)
		return
	case q.to != nil && f.QKey != q.qkey:
		t.badQKey++
		t.drop(now, h)
		return
	}
	if f.Desc.Header.Opcode == ib.CNP {
		t.drop(now, h)
		t.cnpArrived(now, q)
		return
	}
	if q.recv.fetched {
		if !frames.IsResponse(f.Desc.Header.Opcode) && t.receives.park(now, q, h, f) {
			return
		}
	} else if q.recv.refill != nil && q.recv.queue.Len() == 0 && needsRecv(f) && q.rc.State() != ib.Err {
		q.recv.look()
	}
	t.handle(now, q, h)
}

// drop frees a packet of which nothing is left to do.
func (t *transport) drop(now units.Time, h fabric.Handle) {
	t.receiver.buffer.take(now)
	t.receiver.buffer.leave(now, int(t.Frames.At(h).Wire.Size))
	t.Release(h)
}

// arrival is a packet that the transport handles; the zero value is none.
type arrival struct {
	*frames.Frame
	size units.Bytes // on the wire
	src  int32       // the host that sent it
}

// completeReceive completes a receive; f is the packet that did, or nil for a flush.
func (t *transport) completeReceive(now units.Time, q *qp, r *rc.RecvCompletion, f *frames.Frame) {
	q.recv.free(r.Slot)
	e := CQE{
		WRID: r.ID, QPN: q.num, ByteLen: r.Bytes, Imm: r.Imm, Status: r.Status, Opcode: r.Opcode,
		HasImm: r.HasImm, HasInv: r.HasInvalidate, Solicited: r.Solicited,
	}
	if q.to != nil && f != nil {
		e.SrcQPN, e.HasGRH, e.IPv6 = f.SrcQPN, t.HasGRH(), f.IPv6
	}
	t.completions.complete(now, now, q.cfg.RecvCQ, e)
}

// reap turns finished requests into completions.
func (t *transport) reap(now units.Time, q *qp) {
	if q.waiting > 0 && failed(q.rc.State()) {
		t.elements.hand(now, q) // none waits any more
		return
	}
	if q.cfg.SRQ == nil && q.rc.State() == ib.Err {
		t.receives.surrender(now, q)
	}
	var c rc.SendCompletion
	for q.rc.PollSend(&c) {
		if q.reports != nil {
			q.reports[c.Slot] = q.report
		}
		t.completions.complete(now, t.elements.answered(now, q, c.Slot), q.cfg.SendCQ, CQE{
			WRID: c.ID, QPN: q.num, Slot: c.Slot, ByteLen: c.Bytes, Status: c.Status, Opcode: c.Opcode,
			frees: true, upTo: q.reaped + (c.Slot-q.reaped)&uint32(len(q.sq)-1) + 1,
		})
	}
	var r rc.RecvCompletion
	for q.rc.PollRecv(&r) {
		t.completeReceive(now, q, &r, nil)
	}
	reaped := q.handed - uint32(q.rc.SendQueued())
	t.countRequests(now, q, int(int32(q.reaped-reaped)))
	t.elements.release(now, q, q.reaped, reaped)
	q.reaped = reaped
	if int32(reaped-q.admitted) > 0 {
		q.admitted = reaped
	}
	t.elements.admit(now, q)
	if int32(reaped-q.started) > 0 { // some ended without a packet
		q.started = reaped
	}
	if q.fetchIssued != q.doorbelled {
		t.elements.fetch(now, now, now, q)
	}
}

// failSend reports to the transport that a request's memory may not be used.
func (t *transport) failSend(now units.Time, q *qp, slot uint32, status ib.WCStatus) {
	var eff rc.Effects
	q.rc.FailSend(now, slot, status, &eff)
	t.carryOut(now, q, &eff, arrival{})
}

// armTimer schedules the queue pair's transport timer. A deadline that has moved
// later meanwhile costs a look when the old one comes, not a cancelled event.
func (t *transport) armTimer(now units.Time, q *qp) {
	if at := q.rc.Deadline(); at < q.timerAt {
		q.timerAt = max(at, now)
		t.Schedule(q.timerAt, chip.EvTimer, uint64(q.num))
	}
}

func (t *transport) expire(now units.Time, q *qp) {
	if q == nil || q.rc == nil || q.timerAt != now {
		return
	}
	q.timerAt = units.Never
	if q.rc.Deadline() <= now {
		var eff rc.Effects
		q.rc.Expire(now, &eff)
		t.carryOut(now, q, &eff, arrival{})
	}
	if q.rc != nil {
		t.armTimer(now, q)
	}
}

// count counts for NIC.Stats.
func (t *transport) count(s *Stats) {
	s.RxPackets, s.RxPayload, s.NoQP, s.BadQKey = t.packets, t.payload, t.noQP, t.badQKey
}

// countRequests counts requests that the transport of a queue pair is given, or that are over
// if there are fewer. It is called before the queue pair's own counts change.
func (t *transport) countRequests(now units.Time, q *qp, change int) {
	before := int(q.handed - q.reaped)
	t.requests.Add(now, change)
	switch after := before + change; {
	case before == 0 && after > 0:
		t.active.Add(now, 1)
	case before > 0 && after == 0:
		t.active.Add(now, -1)
	}
}

// deliver places data, starts atomic operations and completes the receive, as eff says. It returns what else is to be done: what
// the transport says of memory that may not be reached is added to what it said before.
func (t *transport) deliver(now units.Time, q *qp, eff *rc.Effects, from arrival) (do rc.Do, events rc.EventSet) {
	do, events = eff.Do, eff.Events
	recv := eff.Recv
	if do&rc.DoPlace != 0 && !t.dma.place(now, q, eff, from) {
		// The transport's answer to that replaces its earlier one.
		do |= eff.Do
		events |= eff.Events
		if eff.Do&rc.DoRecv != 0 {
			recv = eff.Recv
		} else if recv.Status == ib.WCSuccess {
			recv.Status = ib.WCLocProtErr
		}
	}
	if do&rc.DoAtomic != 0 {
		switch answered, ok := t.atomics.start(now, q, eff); {
		case answered:
			do |= rc.DoRespond
		case !ok:
			do |= eff.Do
			events |= eff.Events
		}
	}
	if do&rc.DoRecv != 0 {
		t.completeReceive(now, q, &recv, from.Frame)
	}
	return do, events
}

// tookReceive fetches more receives after a request's packet that took one.
func (t *transport) tookReceive(now units.Time, q *qp) {
	if !q.recv.fetched || q.rc.State() == ib.Err {
		return
	}
	t.receives.prefetch(now, q.recv)
	if q.recv.limit > 0 && q.recv.ranLow() {
		t.async.raise(now, AsyncEvent{Type: ib.EventSRQLimit, QPN: q.num})
	}
}
