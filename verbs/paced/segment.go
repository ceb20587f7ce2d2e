package paced

import (
	"errors"

	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// PostSend implements verbs.QP. It takes requests while the queue has room,
// cuts them, and sends at once what is due. It returns what can be known without
// the NIC to be wrong with a request; that memory is not registered as the
// request has it may show in the completion only.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	return q.post(q.shim.Clock(), wrs, true, false)
}

// PostSendAt is PostSend at the time now, a reading of Shim.Clock.
func (q *QP) PostSendAt(now units.Time, wrs []verbs.SendWR) (int, error) {
	return q.post(now, wrs, false, false)
}

// post takes requests up to the first that is wrong or has no room; if whole, all or
// none.
func (q *QP) post(now units.Time, wrs []verbs.SendWR, live, whole bool) (int, error) {
	s := q.shim
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q.state {
	case ib.RTS, ib.SQD, ib.SQE, ib.Err:
	default:
		return 0, q.errorf("post_send", verbs.ErrState, "the queue pair is in %s: take it to RTS", q.state)
	}
	if s.sched.Len() > 0 {
		s.release(now, live)
	}
	var err error
	if whole {
		for i := range wrs {
			if err = q.check(&wrs[i]); err != nil {
				return 0, err
			}
		}
		if len(wrs) > q.table.Room() {
			return 0, errQueueFull
		}
	}
	n := 0
	for ; n < len(wrs); n++ {
		if err = q.check(&wrs[n]); err != nil {
			break
		}
		if !q.accept(&wrs[n]) {
			err = errQueueFull
			break
		}
	}
	if n > 0 {
		switch {
		case q.state == ib.Err:
			q.finish(false)
		case !q.filed:
			q.offer(now, now)
			s.release(now, live)
		}
		s.alert()
	}
	return n, err
}

// errQueueFull is made once: running into the bound is part of a sender's normal
// work and must not allocate.
var errQueueFull error = &verbs.OpError{Op: "post_send", Err: verbs.ErrQueueFull}

// check says what is wrong with a request that only the application can mend.
func (q *QP) check(wr *verbs.SendWR) error {
	n := wr.Length()
	switch op := wr.Opcode; {
	case op > ib.WRSendWithInv || op == 8:
		return q.errorf("post_send", verbs.ErrInvalid, "%v is no opcode of a send request", op)
	case n > maxMessage:
		return q.errorf("post_send", verbs.ErrInvalid, "a message of %d bytes: at most %d fit", n, maxMessage)
	case op.IsAtomic() && n != 8:
		return q.errorf("post_send", verbs.ErrInvalid, "an atomic returns 8 bytes, and the request has room for %d", n)
	case wr.Flags&verbs.SendInline == 0:
		if len(wr.SGL) > q.cap.MaxSendSGE {
			return q.errorf("post_send", verbs.ErrInvalid, "%d SGEs: the queue pair was made for %d", len(wr.SGL), q.cap.MaxSendSGE)
		}
	case op == ib.WRRDMARead || op.IsAtomic() || op == ib.WRLocalInv:
		return q.errorf("post_send", verbs.ErrInvalid, "%v can't be inline: there is no data to send", op)
	case n > q.cap.MaxInlineData:
		return q.errorf("post_send", verbs.ErrInvalid, "%d bytes inline: the queue pair was made for %d", n, q.cap.MaxInlineData)
	}
	return nil
}

// accept copies a request into the queue, or reports that it is full.
func (q *QP) accept(wr *verbs.SendWR) bool {
	signaled := q.sigAll || wr.Flags&verbs.SendSignaled != 0
	slot, ok := q.table.Add(completions.Message{WRID: wr.WRID, Opcode: wr.Opcode, Signaled: signaled})
	if !ok {
		return false
	}
	if q.state == ib.Err {
		return true // it will be flushed
	}
	r := &q.requests[slot]
	r.opcode, r.flags, r.length = wr.Opcode, wr.Flags, uint32(wr.Length())
	r.remoteAddr, r.rkey, r.imm = wr.RemoteAddr, wr.RKey, wr.Imm
	r.compareAdd, r.swap, r.sges = wr.CompareAdd, wr.Swap, 0
	if wr.Flags&verbs.SendInline != 0 {
		copy(q.inlineOf(slot), wr.Inline)
	} else {
		r.sges = copy(q.sglOf(slot), wr.SGL)
	}
	if q.unsent == 0 {
		q.at = cursor{slot: slot}
	}
	q.unsent++
	return true
}

func (q *QP) sglOf(slot int) []verbs.SGE {
	n := q.cap.MaxSendSGE
	return q.sgl[slot*n : (slot+1)*n]
}

func (q *QP) inlineOf(slot int) []byte {
	n := q.cap.MaxInlineData
	return q.inline[slot*n : (slot+1)*n]
}

// next is the size of the segment at the cursor.
func (q *QP) next() uint32 {
	r := &q.requests[q.at.slot]
	if left := r.length - q.at.off; left <= uint32(q.largest) || !r.cut() {
		return left
	}
	return uint32(q.largest)
}

// file gives the segment at the cursor to the scheduler if it could leave now as
// far as everything but the pace is concerned. It is tried again whenever
// something completes, so a segment that has to wait keeps its place.
func (q *QP) file(now units.Time) {
	if q.filed {
		return
	}
	n, why := q.ready(now)
	if why == holdNone {
		q.shim.sched.Enqueue(now, q.flow, units.Bytes(n))
		q.filed, why = true, holdFiled
	}
	q.held(now, why)
}

// offer is file where the shim sends what is due: segments that the scheduler lets
// go at once are claimed at now. It is told the time at, not after now.
func (q *QP) offer(now, at units.Time) {
	s := q.shim
	if q.filed {
		return
	}
	for s.nClaims < len(s.claims) {
		n, why := q.ready(at)
		if why != holdNone {
			q.held(now, why)
			return
		}
		if !s.sched.Offer(at, q.flow, units.Bytes(n)) {
			q.filed = true
			q.held(now, holdFiled)
			return
		}
		q.claim(now)
	}
	q.file(at)
}

// ready returns the size of the segment at the cursor, and what but the pace is against
// its leaving now. The segment is not with the scheduler.
func (q *QP) ready(now units.Time) (uint32, hold) {
	switch {
	case q.unsent == 0 && q.table.InFlight() == 0:
		return 0, holdIdle
	case q.unsent == 0:
		return 0, holdSent
	case q.state != ib.RTS:
		return 0, holdOther
	}
	n := q.next()
	if q.table.InFlight() >= q.depth {
		return 0, holdOther
	}
	if why := q.room(now, units.Bytes(n)); why != holdNone {
		return 0, why
	}
	// A fenced request waits for reads and atomics before it, and one of those
	// for its turn at the responder's resources. The NIC would see to both, but
	// then the wait would look like congestion.
	if reads := q.table.Reads(); reads > 0 {
		r := &q.requests[q.at.slot]
		if r.flags&verbs.SendFence != 0 && q.at.off == 0 {
			return 0, holdOther
		}
		if q.rdMax > 0 && reads >= q.rdMax && (r.opcode == ib.WRRDMARead || r.opcode.IsAtomic()) {
			return 0, holdOther
		}
	}
	return n, holdNone
}

// room says what is against n more bytes being outstanding. One segment always may.
func (q *QP) room(now units.Time, n units.Bytes) hold {
	out := q.table.Outstanding()
	fits, bounded := q.driver.Fits(out, n), out > 0 && out+n > q.limit
	switch {
	case fits && bounded:
		return holdBound
	case fits:
		return holdNone
	case !bounded:
		q.driver.Shut()
	}
	return holdWindow
}

// claim takes the segment at the cursor, which the scheduler released, and moves
// the cursor on.
func (q *QP) claim(now units.Time) {
	s := q.shim
	r := &q.requests[q.at.slot]
	n := q.next()
	last := q.at.off+n == r.length
	seq := q.table.Post(q.at.slot, units.Bytes(n), last, now)

	s.claims[s.nClaims] = claim{qp: q, at: q.at, n: n, seq: seq, last: last, next: none}
	if q.firstClaim == none {
		q.firstClaim = s.nClaims
	} else {
		s.claims[q.lastClaim].next = int32(s.nClaims)
	}
	q.lastClaim = s.nClaims
	s.nClaims++

	q.sent(now, units.Bytes(n))
	if last {
		q.unsent--
		q.at = cursor{slot: (q.at.slot + 1) & (len(q.requests) - 1)}
		return
	}
	q.at.off += n
	if r.flags&verbs.SendInline != 0 {
		return
	}
	sgl := q.sglOf(q.at.slot)
	for n > 0 {
		left := sgl[q.at.sge].Length - q.at.into
		if n < left {
			q.at.into += n
			return
		}
		n -= left
		q.at.sge, q.at.into = q.at.sge+1, 0
	}
}

// build makes the provider's request for a claim. sges is scratch.
func (q *QP) build(c *claim, wr *verbs.SendWR, sges []verbs.SGE) {
	r := &q.requests[c.at.slot]
	// Field by field: a literal would be made elsewhere and copied. Those of
	// datagrams are never set.
	wr.WRID, wr.Opcode, wr.Flags = q.wrid|uint64(c.seq), r.opcode, r.flags|verbs.SendSignaled
	wr.SGL, wr.Inline = nil, nil
	wr.RemoteAddr, wr.RKey = r.remoteAddr+uint64(c.at.off), r.rkey
	wr.Imm, wr.CompareAdd, wr.Swap = r.imm, r.compareAdd, r.swap
	if c.at.off != 0 {
		wr.Flags &^= verbs.SendFence
	}
	if !c.last {
		wr.Flags &^= verbs.SendSolicited
		if r.opcode == ib.WRRDMAWriteWithImm {
			wr.Opcode, wr.Imm = ib.WRRDMAWrite, 0
		}
	}
	switch {
	case r.flags&verbs.SendInline != 0:
		wr.Inline = q.inlineOf(c.at.slot)[:r.length]
		return
	case c.n == r.length:
		wr.SGL = q.sglOf(c.at.slot)[:r.sges]
		return
	}
	sgl, into := q.sglOf(c.at.slot), c.at.into
	for i, left := c.at.sge, c.n; left > 0; i++ {
		sge := sgl[i]
		sge.Addr += uint64(into)
		sge.Length = min(sge.Length-into, left)
		left -= sge.Length
		into = 0
		if sge.Length > 0 {
			sges = append(sges, sge)
		}
	}
	wr.SGL = sges
}

// posted takes note of what became of the QP's claims, a chain from first: the
// provider took that many of them, all if err is nil.
func (q *QP) posted(now units.Time, first, taken int, err error) {
	s := q.shim
	c := first
	for range taken {
		if c == none {
			break
		}
		s.stats.SegmentBytes += units.Bytes(s.claims[c].n)
		q.tally.segmentBytes += units.Bytes(s.claims[c].n)
		c = int(s.claims[c].next)
	}
	s.stats.Segments += uint64(taken)
	q.tally.segments += uint64(taken)
	q.sends.inFlight += taken
	s.inFlight += taken
	if c == none {
		return
	}

	// Back to the first segment that was refused. The scheduler has counted it;
	// a full queue costs its flow some pace.
	q.withdraw()
	refused := &s.claims[c]
	q.at = refused.at
	n := 0
	for ; c != none; c = int(s.claims[c].next) {
		n++
		if s.claims[c].last {
			q.unsent++
		}
	}
	q.table.Unpost(n)
	if errors.Is(err, verbs.ErrQueueFull) && q.table.InFlight() > 0 {
		s.stats.ProviderFull += uint64(n)
		q.held(now, holdOther)
		return // until something completes
	}
	q.table.Fail(refused.at.slot, refusal(err))
	q.fail()
	// What the provider has must come back, and what comes from the peer must
	// stop, as after any failure. If that is refused too, the provider's queue
	// pair is in no state to keep anything.
	_ = q.inner.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
	q.finish(false)
}

// refusal is the completion status of a request whose segment the provider did
// not take.
func refusal(err error) ib.WCStatus {
	switch {
	case errors.Is(err, verbs.ErrAccess):
		return ib.WCLocProtErr
	case errors.Is(err, verbs.ErrState), errors.Is(err, verbs.ErrClosed):
		return ib.WCWRFlushErr
	case errors.Is(err, verbs.ErrInvalid), errors.Is(err, verbs.ErrNotSupported):
		return ib.WCLocQPOpErr
	}
	return ib.WCGeneralErr
}

// finish moves requests that have finished to the application's CQ. fromNIC says
// that a completion of the provider's is the cause.
func (q *QP) finish(fromNIC bool) {
	for {
		wc := q.cq.sends.Push(&q.table)
		if wc == nil {
			return
		}
		if q.cq.armed != disarmed {
			q.cq.notify(wc, q, fromNIC)
		}
	}
}
