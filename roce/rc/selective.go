package rc

import (
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Selective repeat after IRN (Mittal et al., "Revisiting Network Support for RDMA",
// SIGCOMM 2018, sections 3 and 5): the receiver keeps what arrives beyond a gap, each
// such packet is acknowledged by itself, and only what is missing is sent again.
//
// Departures from IRN:
//   - Packets have no headers beyond RoCE's. So a Middle or Last is placed beyond a gap
//     only if the First of its WRITE has arrived, which has the address. SENDs, WRITEs
//     with immediate data, READ requests and atomics beyond a gap are dropped, and the NAK
//     says so.
//   - A NAK has the PSN of the packet that caused it in place of the MSN.
//   - Missing READ responses are requested again by READ requests for them alone.
//   - A packet that is lost when it is sent again shows by those sent after it, if it is
//     the first that is missing: IRN waits for the timeout.
//   - After a timeout all that is not known to have arrived is sent again.

// firstsAhead is the number of WRITEs of several packets a responder follows beyond a gap.
const firstsAhead = 16

// repeatsOwed is the number of requests for missing responses a responder remembers.
const repeatsOwed = 16

// lowPackets is IRN's N: RTOLow applies with at most this many packets outstanding.
const lowPackets = 3

// bitmap is a set of PSNs within a window, whose length in bits is a power of two.
type bitmap []uint64

func newBitmap(bits int) bitmap { return make(bitmap, bits/64) }

func (b bitmap) has(p int64) bool { return b[p>>6&int64(len(b)-1)]>>(p&63)&1 != 0 }
func (b bitmap) set(p int64)      { b[p>>6&int64(len(b)-1)] |= 1 << (p & 63) }
func (b bitmap) clear(p int64)    { b[p>>6&int64(len(b)-1)] &^= 1 << (p & 63) }

// repeats is a requester's state of selective repeat. With go-back-N it is zero.
//
// Of the PSNs from una on, those in marked have arrived: requests by a NAK that names
// them, READ responses and atomics' answers in person. Those below lostTo that are not
// marked are lost; those of them from resend on have not been sent again.
type repeats struct {
	marked    bitmap
	executed  int64 // one past the last request that the responder has executed
	recoverTo int64 // sent, when the present recovery began
	guarded   int64 // the packet una that was sent again, or -1
	guard     int64 // sent, at that time
	at        int64 // the packet of requester.repeat begins there
	atWQE     uint32
}

// find returns the number of the request that has p, which is outstanding. It searches
// from head on by bisection.
func (q *QP) find(p int64) uint32 {
	i, n := q.head, q.tail-q.head
	for n > 0 {
		half := n / 2
		if q.wqes[(i+half)&q.wqeMask].end <= p {
			i, n = i+half+1, n-half-1
		} else {
			n = half
		}
	}
	return i
}

// sizeAt returns the bytes in flight that packet p of w adds.
func (q *QP) sizeAt(w *wqe, p int64) int64 {
	if w.kind == kindAtomic {
		return 0
	}
	return min(int64(w.Length)-(p-w.psn)*q.mtu, q.mtu)
}

// arrived reports whether p is known to have arrived, as request or as answer.
func (q *QP) arrived(w *wqe, p int64) bool {
	return q.marked.has(p) || p < q.executed && !w.kind.returnsData()
}

// repeatable returns the request of the first packet that is to be sent again, or nil.
func (q *QP) repeatable() *wqe {
	if q.state != ib.RTS && q.state != ib.SQD {
		return nil
	}
	q.resend = max(q.resend, q.una)
	for i := q.find(q.resend); q.resend < q.lostTo; {
		w := &q.wqes[i&q.wqeMask]
		switch {
		case q.resend >= w.end:
			i++
		case w.status != ib.WCSuccess:
			return nil
		case q.arrived(w, q.resend):
			q.repeated(w, q.resend+1)
		default:
			q.repeat, q.at, q.atWQE = true, q.resend, i
			return w
		}
	}
	return nil
}

// missing returns the end of the responses that a READ request for a lost one asks for:
// those missing in a row, or all of a request that may not have been executed.
func (q *QP) missing(w *wqe, p int64) int64 {
	end := q.readEnd(w, p)
	if p >= q.executed {
		return end
	}
	to := p + 1
	for to < min(end, q.lostTo) && !q.marked.has(to) {
		to++
	}
	return to
}

// repeatSize returns the bytes in flight that the next repeated packet adds.
func (q *QP) repeatSize(w *wqe) int64 {
	if w.kind == kindRead {
		return q.readBytes(w, q.at, q.missing(w, q.at))
	}
	return q.sizeAt(w, q.at)
}

// repeated moves resend to end: what is before it is lost no more.
func (q *QP) repeated(w *wqe, end int64) {
	for end = min(end, q.lostTo); q.resend < end; q.resend++ {
		if !q.marked.has(q.resend) {
			q.away -= q.sizeAt(w, q.resend)
		}
	}
}

// isLost reports whether p is among what is to be sent again.
func (q *QP) isLost(p int64) bool { return q.resend <= p && p < q.lostTo }

// lost says that what is missing before p is lost.
func (q *QP) lost(p int64, why Rewind, eff *Effects) {
	if q.guarded == q.una && p > q.guard {
		q.lostAgain(eff)
	}
	from := max(q.lostTo, q.una)
	if p = min(p, q.sent); p <= from {
		return
	}
	if q.resend >= q.lostTo {
		q.resend = from
	}
	missing := false
	for i := q.find(from); from < p; {
		w := &q.wqes[i&q.wqeMask]
		if from >= w.end {
			i++
			continue
		}
		if !q.marked.has(from) {
			q.away += q.sizeAt(w, from)
		}
		missing = missing || !q.arrived(w, from)
		from++
	}
	q.lostTo = p
	if !missing {
		return
	}
	eff.Do |= DoSend
	if q.una < q.recoverTo {
		return // of the recovery under way
	}
	q.recoverTo = q.sent
	eff.Rewind = why
	if why == RewindSequence {
		q.ctr.PacketSeqErr++
	} else {
		q.ctr.ImpliedNakSeqErr++
	}
}

// lostAgain sends what is missing once more: a packet that left behind the repetition of
// una has arrived, and una has not. IRN leaves that to the timeout.
func (q *QP) lostAgain(eff *Effects) {
	q.guarded = -1
	to := min(q.resend, q.lostTo)
	for p, i := q.una, q.head; p < to; {
		w := &q.wqes[i&q.wqeMask]
		if p >= w.end {
			i++
			continue
		}
		if !q.marked.has(p) {
			q.away += q.sizeAt(w, p)
		}
		p++
	}
	q.resend = q.una
	eff.Do |= DoSend
}

// repeatAll sends everything again that is not known to have arrived.
func (q *QP) repeatAll(why Rewind, eff *Effects) {
	q.resend, q.lostTo, q.recoverTo, q.asked = q.una, q.sent, q.sent, q.una
	q.away = q.inflight
	eff.Rewind = why
	eff.Do |= DoSend
}

// receiveSelective takes a response with number p, between una and sent.
func (q *QP) receiveSelective(now units.Time, h *Header, p int64, payload int, eff *Effects) {
	if h.Opcode != ib.Acknowledge {
		q.receiveAnswer(now, h, p, payload, eff)
		return
	}
	switch h.Syndrome & syndromeKind {
	case syndromeKindACK:
		q.executedTo(now, p+1, eff)
	case syndromeKindRNR:
		switch {
		case !q.executedTo(now, p, eff):
		case q.rnrUntil != 0:
			eff.Drop = DropGhost // the same once more
		default:
			q.notReady(now, h.Syndrome, eff)
		}
	case syndromeKindNAK:
		if h.Syndrome > SyndromeOperation && h.Syndrome != SyndromeSelective {
			q.ctr.GhostResponses++
			eff.Drop = DropGhost
			return
		}
		all := q.executedTo(now, p, eff)
		switch {
		case q.state == ib.Err:
		case h.Syndrome == SyndromeSelective || h.Syndrome == SyndromeSequence:
			q.selective(h, eff)
		case all:
			q.failedRemotely(h.Syndrome, eff)
		}
	default:
		q.ctr.GhostResponses++
		eff.Drop = DropGhost
	}
}

// selective takes a NAK, which names the packet that arrived beyond the gap: kept with
// SyndromeSelective, else dropped.
func (q *QP) selective(h *Header, eff *Effects) {
	x := near(units.MakePSN(h.MSN), q.una)
	if x < q.una || x >= q.sent {
		eff.Drop = DropGhost
		return
	}
	if h.Syndrome == SyndromeSequence {
		q.lost(x+1, RewindSequence, eff)
		return
	}
	w := &q.wqes[q.find(x)&q.wqeMask]
	if x < q.una+int64(q.cfg.Reorder) && !q.arrived(w, x) && !w.kind.returnsData() {
		if !q.isLost(x) { // else it is counted already
			q.away += q.sizeAt(w, x)
			eff.Do |= DoSend
		}
		q.marked.set(x)
	}
	q.lost(x, RewindSequence, eff)
}

// executedTo says that all requests before p were executed. The answers that are missing
// of these are lost. It reports whether none is.
func (q *QP) executedTo(now units.Time, p int64, eff *Effects) bool {
	q.executed = max(q.executed, p)
	q.settle(now, eff)
	if q.una < p && q.state != ib.Err {
		q.lost(p, RewindImplied, eff)
	}
	return q.una >= p && q.state != ib.Err
}

// settle moves una past all that has been executed and answered.
func (q *QP) settle(now units.Time, eff *Effects) {
	from := q.una
	var packets, bytes int64
	for q.head != q.tail {
		w := &q.wqes[q.head&q.wqeMask]
		if w.kind == kindLocal || w.status != ib.WCSuccess {
			break
		}
		at := q.una
		for q.una < w.end && q.arrived(w, q.una) {
			if w.kind.returnsData() {
				if q.una+1 == q.readEnd(w, q.una) {
					q.rdDone++
				}
			} else {
				size := q.sizeAt(w, q.una)
				if q.marked.has(q.una) || q.isLost(q.una) {
					q.away -= size
				}
				packets, bytes = packets+1, bytes+size
			}
			q.marked.clear(q.una)
			q.una++
		}
		if q.una == at || q.una < w.end {
			break
		}
		q.retire()
	}
	if q.una == from {
		return
	}
	q.advanced(now, packets, bytes, eff)
	if q.next != q.una { // fewer may be left than RTOLow is for
		if due := now + q.rto(); q.rto() != units.Never && due < q.deadline {
			q.deadline = due
			eff.Do |= DoTimer
		}
	}
}

// receiveAnswer takes the READ response or the atomic's answer with number p. All requests
// before it were executed.
func (q *QP) receiveAnswer(now units.Time, h *Header, p int64, payload int, eff *Effects) {
	i := q.find(p)
	w := &q.wqes[i&q.wqeMask]
	atomic := h.Opcode == ib.AtomicAcknowledge
	if !atomic && w.kind != kindRead || atomic && w.kind != kindAtomic {
		q.failAt(now, p, ib.WCBadRespErr, eff)
		return
	}
	if q.marked.has(p) || p >= q.una+int64(q.cfg.Reorder) {
		// Here already; or so far beyond what is missing that there is no bit for it.
		q.ctr.GhostResponses++
		eff.Drop = DropGhost
		q.executedTo(now, w.psn, eff)
		return
	}
	var size int64
	place := Place{Kind: PlaceAtomic, Slot: i & q.wqeMask, Length: 8}
	end := q.readEnd(w, p)
	if atomic {
		end = w.end
		if payload != 0 {
			q.failAt(now, p, ib.WCBadRespErr, eff)
			return
		}
	} else {
		size = q.sizeAt(w, p)
		last := h.Opcode == ib.ReadResponseLast || h.Opcode == ib.ReadResponseOnly
		switch {
		case p+1 == end && !last:
			q.failAt(now, p, ib.WCBadRespErr, eff)
			return
		case int64(payload) != size:
			q.failAt(now, p, ib.WCLocLenErr, eff)
			return
		}
		place = Place{Kind: PlaceRead, Slot: i & q.wqeMask, Offset: uint32((p - w.psn) * q.mtu), Length: uint32(payload)}
	}
	if q.isLost(p) {
		q.away -= size
	}
	q.inflight -= size
	eff.AckedBytes += units.Bytes(size)
	eff.AckedPackets++
	q.marked.set(p)
	if place.Length > 0 {
		eff.Do |= DoPlace | DoSend
		eff.Place = place
	}
	q.executed = max(q.executed, end)
	q.settle(now, eff)
	if q.una < p && q.state != ib.Err {
		q.lost(p, RewindImplied, eff)
	}
}

// failAt ends the queue pair for a response that its request can't have, if all before it
// is there.
func (q *QP) failAt(now units.Time, p int64, status ib.WCStatus, eff *Effects) {
	if q.executedTo(now, p, eff) {
		q.badResponse(status, eff)
		return
	}
	eff.Drop = DropOutOfOrder
}

// ahead holds a responder's packets beyond a gap, in selective repeat.
type ahead struct {
	got, ends bitmap // packets beyond the gap that were kept, and those of them that end a message
	firsts    [firstsAhead]writeAhead
	begun     int // how many of them there are
	owed      [repeatsOwed]owedRepeat
}

// writeAhead is a WRITE whose First was kept.
type writeAhead struct {
	psn    int64
	va     uint64
	length uint32
	rkey   uint32
}

// owedRepeat is answers of a resource that are to be sent again.
type owedRepeat struct {
	res              uint32
	from, next, stop int64
}

// receiveAhead takes a request packet beyond the expected one.
func (q *QP) receiveAhead(h *Header, p int64, payload int, eff *Effects) {
	q.ctr.OutOfSequence++
	if p >= q.expected+int64(q.cfg.Reorder) {
		q.dropAhead(p, eff)
		return
	}
	if q.got.has(p) {
		eff.Drop = DropDuplicate
		q.nakGap(SyndromeSelective, p, eff)
		return
	}
	switch h.Opcode.Operation() {
	case ib.WriteFirst, ib.WriteOnly:
		op := h.Opcode.Operation()
		if q.validateWrite(h, op, int64(payload)) != 0 || op == ib.WriteFirst && q.begun == firstsAhead {
			q.dropAhead(p, eff)
			return
		}
		if q.needsCheck(h, &eff.Check) {
			eff.Do |= DoCheck
			q.awaiting, q.pending, q.pendingBytes = awaitAhead, *h, payload
			return
		}
		q.placeAhead(h, p, payload, eff)
	case ib.WriteMiddle, ib.WriteLast:
		q.continueAhead(h, p, payload, eff)
	default:
		q.dropAhead(p, eff)
	}
}

// placeAhead keeps a First or Only that may be written.
func (q *QP) placeAhead(h *Header, p int64, payload int, eff *Effects) {
	if h.Opcode.Operation() == ib.WriteFirst {
		q.firsts[q.begun] = writeAhead{p, h.VA, h.DMALen, h.RKey}
		q.begun++
	} else {
		q.ends.set(p)
	}
	q.keep(p, h.VA, h.RKey, payload, eff)
}

// continueAhead takes a Middle or Last, which has its place if the First has arrived.
func (q *QP) continueAhead(h *Header, p int64, payload int, eff *Effects) {
	from, va, left, rkey, found := q.expected, q.va, int64(q.left), q.rkey, false
	if q.message == kindWrite {
		found = (p-from)*q.mtu < left
	}
	for i := 0; i < q.begun && !found; i++ {
		m := &q.firsts[i]
		from, va, left, rkey = m.psn, m.va, int64(m.length), m.rkey
		found = p > from && (p-from)*q.mtu < left
	}
	offset := (p - from) * q.mtu
	left -= offset
	last := h.Opcode.Operation() == ib.WriteLast
	if !found || last && int64(payload) != left || !last && (int64(payload) != q.mtu || left <= q.mtu) {
		q.dropAhead(p, eff)
		return
	}
	if last {
		q.ends.set(p)
	}
	q.keep(p, va+uint64(offset), rkey, payload, eff)
}

func (q *QP) keep(p int64, va uint64, rkey uint32, payload int, eff *Effects) {
	if payload > 0 {
		eff.Do |= DoPlace
		eff.Place = Place{Kind: PlaceMemory, Length: uint32(payload), VA: va, RKey: rkey}
	}
	q.got.set(p)
	q.last, q.most = p, max(q.most, p+1)
	q.nakGap(SyndromeSelective, p, eff)
}

// dropAhead says that a packet beyond the gap is not kept.
func (q *QP) dropAhead(p int64, eff *Effects) {
	eff.Drop = DropSequence
	q.nakGap(SyndromeSequence, p, eff)
}

// nakGap owes a NAK for the gap before p.
func (q *QP) nakGap(syndrome uint8, p int64, eff *Effects) {
	if q.nak == 0 || q.nak == SyndromeSelective || q.nak == SyndromeSequence {
		q.nak, q.nakAt = syndrome, p
		eff.Do |= DoRespond
	}
}

// forget gives up the packet kept last: its payload could not be placed. It comes again,
// in its turn.
func (q *QP) forget() {
	q.got.clear(q.last)
	q.ends.clear(q.last)
	q.takeFirst(q.last)
	if q.nak == SyndromeSelective {
		q.nak = SyndromeSequence
	}
}

// takeFirst takes the WRITE whose First is p out of the kept ones, if there is one.
func (q *QP) takeFirst(p int64) (m writeAhead, ok bool) {
	i := slices.IndexFunc(q.firsts[:q.begun], func(m writeAhead) bool { return m.psn == p })
	if i < 0 {
		return m, false
	}
	m = q.firsts[i]
	q.begun--
	q.firsts[i] = q.firsts[q.begun]
	return m, true
}

// catchUp counts as executed what was kept from the expected packet on.
func (q *QP) catchUp(eff *Effects) {
	if q.expected < q.most && q.got.has(q.expected) && q.state != ib.Err {
		for q.expected < q.most && q.got.has(q.expected) {
			q.executeKept()
		}
		q.ackPending, q.ackPSN, q.ackMSN = true, q.expected-1, q.msn
		eff.Do |= DoRespond
	}
	if (q.nak == SyndromeSelective || q.nak == SyndromeSequence) && q.nakAt < q.expected {
		q.nak = 0 // it was not sent yet, and is no longer true
		q.ackPending, q.ackPSN, q.ackMSN = true, q.expected-1, q.msn
	}
}

// executeKept counts the expected packet as executed, which was kept.
func (q *QP) executeKept() {
	p := q.expected
	q.got.clear(p)
	if m, ok := q.takeFirst(p); ok {
		q.message, q.va, q.rkey, q.length, q.left = kindWrite, m.va, m.rkey, m.length, m.length
	}
	if q.message == kindWrite {
		n := min(q.left, uint32(q.mtu))
		q.va += uint64(n)
		q.left -= n
	}
	if q.ends.has(p) {
		q.ends.clear(p)
		q.message = kindNone
		q.msn++
		q.ctr.RxWriteRequests++
	}
	q.advanceExpected(1)
}

// oweRepeat owes the answers from p to stop of resource i once more, unless they are yet
// to be sent for the first time or there are too many.
func (q *QP) oweRepeat(i uint32, p, stop int64, eff *Effects) {
	r := &q.res[i&q.resMask]
	if int32(i-q.resSend) >= 0 {
		// What is yet to be sent for the first time is not owed: were it sent by that, the
		// requester would go on before the resource is free.
		stop = min(stop, r.next)
	}
	if p >= stop || r.waiting || q.owes == repeatsOwed {
		return
	}
	q.owed[q.owes] = owedRepeat{i, p, p, min(stop, r.end)}
	q.owes++
	eff.Do |= DoRespond
}

// nextRepeat describes the next answer that is owed once more, or returns false.
func (q *QP) nextRepeat(d *Descriptor) bool {
	for q.owes > 0 {
		o := &q.owed[0]
		r := q.res[o.res&q.resMask]
		gone := q.resNew-o.res > uint32(len(q.res))
		if !gone {
			r.from, r.next, r.stop, r.bytes = o.from, o.next, o.stop, r.length
			if r.atomic {
				q.describeAtomic(&r, d)
			} else {
				q.describeRead(&r, d)
			}
			o.next++
		}
		if gone || o.next == o.stop {
			q.owes--
			copy(q.owed[:q.owes], q.owed[1:])
		}
		if !gone {
			return true
		}
	}
	return false
}
