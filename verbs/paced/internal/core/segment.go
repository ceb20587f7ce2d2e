package core

import (
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Check returns a request's faults that can be known without the provider
// (verbs.CheckSend).
func (q *QP) Check(wr *verbs.SendWR) error {
	// Most are SENDs and WRITEs, with nothing wrong that is elsewhere in memory.
	if wr.Opcode <= ib.WRSendWithImm && wr.Flags&verbs.SendInline == 0 && len(wr.SGL) <= int(q.sges) && wr.AH == nil && wr.Length() <= int(q.longest) {
		return nil
	}
	l := verbs.SendLimits{Type: ib.RC, Cap: verbs.QPCap{MaxSendSGE: int(q.sges), MaxInlineData: int(q.largestInline)}, Message: int(q.longest)}
	return verbs.CheckSend(&l, wr)
}

// Room is the number of requests Accept takes.
func (q *QP) Room() int { return q.table.Room() }

// Filed reports whether its next segment waits for its time.
func (q *QP) Filed() bool { return q.filed }

// Offer lets go what may leave at now, and files the segment after.
func (q *QP) Offer(now units.Time) { q.release(now, now) }

// Accept copies a request into the queue, or reports that it is full.
func (q *QP) Accept(wr *verbs.SendWR) bool {
	if q.table.Tight() {
		q.grow()
	}
	return q.accept(wr)
}

// accept is Accept where there is room for one more.
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
		sgl := q.sglOf(slot)
		if len(wr.SGL) == 1 && len(sgl) > 0 { // most requests
			sgl[0], r.sges = wr.SGL[0], 1
		} else {
			r.sges = int32(copy(sgl, wr.SGL))
		}
	}
	if q.unsent == 0 {
		q.at = cursor{slot: uint32(slot)}
	}
	q.unsent++
	return true
}

func (q *QP) sglOf(slot int) []verbs.SGE {
	n := int(q.sges)
	return q.sgl[slot*n : (slot+1)*n]
}

func (q *QP) inlineOf(slot int) []byte {
	n := int(q.largestInline)
	return q.inline[slot*n : (slot+1)*n]
}

// next is the size of the segment at the cursor.
func (q *QP) next() uint32 {
	r := &q.requests[q.at.slot]
	if left := r.length - q.at.off; left <= uint32(q.largest) || !q.cuts(r) {
		return left
	}
	return uint32(q.largest)
}

// File gives the segment at the cursor to the scheduler if it could leave now as
// far as everything but the pace is concerned. It is tried again whenever
// something completes, so a segment that has to wait keeps its place.
func (q *QP) File(now units.Time) {
	if q.member != nil {
		q.member.file(now)
		return
	}
	if q.filed {
		return
	}
	n, why := q.ready()
	if why == HeldNone {
		q.core.sched.Enqueue(now, q.flow, units.Bytes(n))
		q.filed, why = true, HeldFiled
	}
	q.held(now, why)
}

// release is File for a shim that sends what is due: it claims, at time now, the
// segments that the scheduler lets go at once. The scheduler gets the time at,
// which is not after now.
func (q *QP) release(now, at units.Time) {
	c := q.core
	if q.member != nil {
		q.member.release(now, at)
		return
	}
	if q.filed {
		return
	}
	for c.nClaims < len(c.claims) {
		n, why := q.ready()
		if why != HeldNone {
			q.held(now, why)
			return
		}
		by, leaves := c.sched.OfferBy(at, now, q.flow, units.Bytes(n))
		if !leaves {
			q.filed = true
			q.held(now, HeldFiled)
			return
		}
		if by > at {
			q.held(now, HeldFiled) // until it was due
			at = by
		}
		q.claim(now)
	}
	q.File(at)
}

// ready returns the size of the segment at the cursor, and what but the pace is against
// its leaving now. The segment is not with the scheduler.
func (q *QP) ready() (uint32, Hold) {
	switch {
	case q.unsent == 0 && q.table.InFlight() == 0:
		return 0, HeldIdle
	case q.unsent == 0:
		return 0, HeldSent
	case q.state != ib.RTS && (q.state != ib.SQD || q.at.off == 0):
		return 0, HeldOther
	}
	n := q.next()
	if q.table.InFlight() >= int(q.depth) {
		return 0, HeldOther
	}
	if why := q.fits(units.Bytes(n)); why != HeldNone {
		return 0, why
	}
	// A fenced request waits for reads and atomics before it, and one of those
	// for its turn at the responder's resources. The NIC would see to both, but
	// then the wait would look like congestion.
	if reads := q.table.Reads(); reads > 0 {
		r := &q.requests[q.at.slot]
		if r.flags&verbs.SendFence != 0 && q.at.off == 0 {
			return 0, HeldOther
		}
		if q.rdMax > 0 && reads >= int(q.rdMax) && (r.opcode == ib.WRRDMARead || r.opcode.IsAtomic()) {
			return 0, HeldOther
		}
	}
	return n, HeldNone
}

// fits returns the reason against n more bytes being outstanding. One segment always may.
func (q *QP) fits(n units.Bytes) Hold {
	out := q.table.Outstanding()
	bounded := out > 0 && out+n > q.limit
	fits := q.member != nil || q.loop.driver.Fits(out, n) // a group sees to its window itself
	switch {
	case fits && bounded:
		return HeldBound
	case fits:
		return HeldNone
	case !bounded:
		q.loop.driver.Shut()
	}
	return HeldWindow
}

// claim takes the segment at the cursor, which the scheduler released, and moves
// the cursor on.
func (q *QP) claim(now units.Time) {
	c := q.core
	r := &q.requests[q.at.slot]
	n := q.next()
	last := q.at.off+n == r.length
	seq := q.table.Post(int(q.at.slot), units.Bytes(n), last, now)

	i := c.nClaims
	c.nClaims = i + 1
	// Field by field: a literal would be made elsewhere and copied.
	x := &c.claims[i]
	if x.qp != q {
		x.qp = q
	}
	x.at.slot, x.at.off, x.at.sge, x.at.into = q.at.slot, q.at.off, q.at.sge, q.at.into
	x.n, x.seq, x.last, x.next = n, seq, last, none
	if q.firstClaim == none {
		q.firstClaim = int16(i)
	} else {
		c.claims[q.lastClaim].next = int32(i)
	}
	q.lastClaim = int16(i)

	if q.member != nil {
		q.member.group.sends(units.Bytes(n))
	}
	if l := q.loopOf(); l.driver.Engine() != nil {
		q.sent(now, units.Bytes(n), l)
	}
	if last {
		q.unsent--
		if q.unsent > 0 {
			q.at = cursor{slot: uint32(q.table.After(int(q.at.slot)))}
		}
		return
	}
	q.at.off += n
	if r.flags&verbs.SendInline != 0 {
		return
	}
	sgl := q.sglOf(int(q.at.slot))
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
		wr.Inline = q.inlineOf(int(c.at.slot))[:r.length]
		return
	case c.n == r.length:
		wr.SGL = q.sglOf(int(c.at.slot))[:r.sges]
		return
	}
	sgl, into := q.sglOf(int(c.at.slot)), c.at.into
	i, n := c.at.sge, 0
	for left := c.n; left > 0; i++ {
		sge := sgl[i]
		sge.Addr += uint64(into)
		sge.Length = min(sge.Length-into, left)
		left -= sge.Length
		into = 0
		if sge.Length > 0 {
			sges[n] = sge
			n++
		}
	}
	wr.SGL = sges[:n]
}
