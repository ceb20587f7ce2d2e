package rc

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// wqe is a request in the send queue.
type wqe struct {
	Request
	psn, end int64  // the PSNs it uses: from psn up to end
	ssn      int64  // its number among the messages, from 1 (IBA 9.7.7.2)
	rdBefore uint32 // how many READ requests and atomics were posted before it
	kind     kind
	issued   bool        // a local invalidate or a bind was handed out; a datagram has left
	status   ib.WCStatus // why it failed, if it did; others are flushed
}

// kind classes the WROpcodes.
type kind uint8

const (
	kindNone kind = iota
	kindSend
	kindWrite
	kindRead
	kindAtomic
	kindLocal
)

// returnsData says that an acknowledgement alone does not complete it.
func (k kind) returnsData() bool { return k == kindRead || k == kindAtomic }

// requester is the state of the send queue. Requests are numbered in the order
// of posting; the number's low bits are the slot. poll <= head <= cur <= tail.
//
//	poll  the oldest whose completion was not polled
//	head  the oldest not acknowledged
//	cur   the one that the next packet belongs to
//	tail  the next to be posted
//
// una <= sent and una <= next: una is the oldest PSN not acknowledged, or not
// answered where an answer brings data; it lies in head. next is the PSN of the
// next packet; it lies in cur. sent is one past the highest ever used. Going
// back always goes back to una.
type requester struct {
	wqes                  []wqe
	wqeMask               uint32
	poll, head, cur, tail uint32
	epoch                 uint32
	una, next, sent       int64
	asked                 int64 // one past the last packet under way that asks for an answer
	window                int64
	inflight              int64
	away                  int64      // bytes of inflight that have arrived or are lost, see repeats
	resend, lostTo        int64      // see repeats
	rnrUntil              units.Time // end of an RNR wait, or 0
	deadline              units.Time
	progress              units.Time // when the timer was last restarted
	timeout               units.Time
	timeoutLow            units.Time // instead of timeout, with few packets outstanding; 0 for none
	bound                 int64      // see BoundInflight; 0 for none
	sinceAckReq           int
	rdPosted, rdDone      uint32
	retries, rnrRetries   uint8
	repeat                bool // the next packet, as sendable found it, is one that was lost
	recovering            bool // went back to una for a lost packet; further reports of that loss are stale
	failed                bool // PollSend has returned a failure: what follows is flushed
	drained               bool // EventSQDrained was raised
	adjusted              bool // progress may lower the timeout, see adaptive
	unlimited             bool // the peer signalled that it does not use credits

	posted int64 // the PSN of the next request to be posted
	ssn    int64 // messages posted
	limit  int64 // LSN: what the peer's credits reach to (IBA 9.7.7.2)
	beyond int64 // the last READ response behind a lost one, of those since going back
}

// PostSend queues a request and returns its slot, which is free again when PollSend
// has gone past it. It fails with ErrFull, or with an error that says what is wrong
// with r. In state Err or SQE the request is taken, and flushed.
func (q *QP) PostSend(r *Request) (slot uint32, err error) {
	if q.state == ib.RTR {
		return 0, fmt.Errorf("rc: PostSend in state RTR: call ReadyToSend first")
	}
	if q.tail-q.poll >= uint32(q.cfg.SendDepth) {
		return 0, ErrFull
	}
	slot = q.tail & q.wqeMask
	w := &q.wqes[slot]
	*w = wqe{Request: *r, psn: q.posted, rdBefore: q.rdPosted}
	packets, reliable := int64(1), false
	switch r.Op {
	case ib.WRSend, ib.WRSendWithImm:
		w.kind = kindSend
	case ib.WRSendWithInv:
		w.kind = kindSend
		reliable = true
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		w.kind = kindWrite
	case ib.WRRDMARead:
		w.kind, reliable = kindRead, true
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		w.kind, reliable = kindAtomic, true
		w.Length = 8
	case ib.WRLocalInv, ib.WRBindMW:
		w.kind = kindLocal
		w.Length = 0
		packets = 0
	default:
		return 0, fmt.Errorf("rc: send work request with opcode %v: not one of a reliable connection", r.Op)
	}
	if q.unreliable() {
		switch {
		case q.service == ib.ServiceUD:
			if err := q.isDatagram(w); err != nil {
				return 0, err
			}
		case reliable:
			return 0, fmt.Errorf("rc: %v on an unreliable connection, which has SEND and RDMA WRITE, with or without immediate data", r.Op)
		}
	}
	if w.Length > ib.MaxMessage {
		return 0, fmt.Errorf("rc: %v of %d bytes, expected at most 2^31", r.Op, r.Length)
	}
	if w.kind.returnsData() {
		if q.sender.MaxRdAtomic == 0 {
			return 0, fmt.Errorf("rc: %v on a queue pair with MaxRdAtomic 0", r.Op)
		}
		q.rdPosted++
	}
	if int64(w.Length) > q.mtu {
		packets = (int64(w.Length) + q.mtu - 1) / q.mtu
	}
	if part := int64(q.sender.ReadPackets); part > 0 && w.kind == kindRead {
		q.rdPosted += uint32((packets - 1) / part)
	}
	if w.kind != kindLocal {
		q.ssn++
	}
	w.ssn = q.ssn
	q.posted += packets
	w.end = q.posted
	q.tail++
	if q.state == ib.SQE {
		q.flushSends()
	}
	return slot, nil
}

// sendable returns the request that the next packet belongs to, or nil if none
// may be sent now.
func (q *QP) sendable(now units.Time) *wqe {
	if q.rnrUntil != 0 {
		if now < q.rnrUntil {
			return nil
		}
		q.rnrUntil = 0
	}
	if q.resend < q.lostTo {
		if w := q.repeatable(); w != nil {
			return w
		}
	}
	q.repeat = false
	for q.cur != q.tail {
		w := &q.wqes[q.cur&q.wqeMask]
		if w.issued { // a local invalidate that the requester went back past
			q.cur++
			continue
		}
		if w.status != 0 {
			return nil // FailSend: nothing goes out from here on
		}
		switch q.state {
		case ib.RTS:
		case ib.SQD:
			if w.psn >= q.sent {
				return nil
			}
		default:
			return nil
		}
		if (q.next == w.psn || w.kind == kindRead) && !q.mayStart(w) {
			return nil
		}
		if q.next-q.una >= q.window && w.kind != kindLocal {
			return nil
		}
		if q.credits && !q.hasCredit(w) {
			return nil
		}
		return w
	}
	return nil
}

// mayStart applies the limits that hold back a whole request, or a part of a READ: a
// fence (IBA 10.8), the READs and atomics outstanding (9.7.7), and half of the PSN space
// for a READ's responses (9.7.2).
func (q *QP) mayStart(w *wqe) bool {
	before := w.rdBefore
	if part := int64(q.sender.ReadPackets); part > 0 {
		before += uint32((q.next - w.psn) / part)
	}
	if outstanding := before - q.rdDone; outstanding > 0 {
		if w.Fence && q.next == w.psn || w.kind.returnsData() && outstanding >= uint32(q.sender.MaxRdAtomic) {
			return false
		}
	}
	return w.kind != kindRead || w.end-q.una <= maxOutstandingPSNs
}

// hasCredit applies the peer's credits (IBA 9.7.7.2): a request that consumes a
// receive is free up to the limit sequence number. Of the one beyond it the
// first packet may go, which asks for an acknowledgement; the rest once that
// packet is acknowledged.
func (q *QP) hasCredit(w *wqe) bool {
	if q.unlimited || w.ssn <= q.limit || !w.Op.ConsumesRecv() {
		return true
	}
	return w.ssn == q.limit+1 && (q.next == w.psn || q.una > w.psn)
}

// PeekRequest returns the bytes that NextRequest would send: the payload of the
// packet, or the length of a READ's responses. ok is false when nothing may be sent
// now: the queue is empty, or a fence, the limit of outstanding READs and atomics,
// the PSN window, missing credits, an RNR wait or the state forbid it.
func (q *QP) PeekRequest(now units.Time) (bytes int, ok bool) {
	w := q.sendable(now)
	if w == nil {
		return 0, false
	}
	if q.repeat {
		return int(q.repeatSize(w)), true
	}
	switch w.kind {
	case kindSend, kindWrite:
		return int(min(int64(w.Length)-(q.next-w.psn)*q.mtu, q.mtu)), true
	case kindRead:
		return int(q.readBytes(w, q.next, q.readEnd(w, q.next))), true
	}
	return 0, true
}

// readEnd returns the end of the READ request that a PSN of w belongs to.
func (q *QP) readEnd(w *wqe, psn int64) int64 {
	part := int64(q.sender.ReadPackets)
	if part == 0 {
		return w.end
	}
	return min(w.end, psn+part-(psn-w.psn)%part)
}

// readBytes returns how many bytes a READ request for the responses from at to end asks for.
func (q *QP) readBytes(w *wqe, at, end int64) int64 {
	return min(int64(w.Length)-(at-w.psn)*q.mtu, (end-at)*q.mtu)
}

// PeekRead reports whether the packet whose size PeekRequest returns is a READ
// request.
func (q *QP) PeekRead(now units.Time) bool {
	if q.rdPosted == q.rdDone {
		return false
	}
	w := q.sendable(now)
	return w != nil && w.kind == kindRead
}

// requestOpcode is the opcode of a packet by the work request's opcode and
// whether the packet is the first (1) and the last (2) of its message.
var requestOpcode = [16][4]ib.Opcode{
	ib.WRSend:              {ib.SendMiddle, ib.SendFirst, ib.SendLast, ib.SendOnly},
	ib.WRSendWithImm:       {ib.SendMiddle, ib.SendFirst, ib.SendLastImm, ib.SendOnlyImm},
	ib.WRSendWithInv:       {ib.SendMiddle, ib.SendFirst, ib.SendLastInv, ib.SendOnlyInv},
	ib.WRRDMAWrite:         {ib.WriteMiddle, ib.WriteFirst, ib.WriteLast, ib.WriteOnly},
	ib.WRRDMAWriteWithImm:  {ib.WriteMiddle, ib.WriteFirst, ib.WriteLastImm, ib.WriteOnlyImm},
	ib.WRAtomicCmpAndSwp:   {3: ib.CompareSwap},
	ib.WRAtomicFetchAndAdd: {3: ib.FetchAdd},
}

// NextRequest describes the next request packet in d and counts it as sent now,
// or returns false as PeekRequest does. Packets must be sent in the order of
// the calls. After a SourceLocalInv or SourceBindMW there may be completions to poll.
func (q *QP) NextRequest(now units.Time, d *Descriptor) bool {
	w := q.sendable(now)
	if w == nil {
		return false
	}
	d.Slot = q.cur & q.wqeMask
	d.VA, d.RKey = 0, 0
	d.response, d.epoch = false, q.epoch
	h := &d.Header
	if w.kind == kindLocal {
		*h = Header{PSN: wire(q.next), Imm: w.Imm}
		d.Source, d.Payload, d.Offset, d.Expect = SourceLocalInv, 0, 0, 0
		if w.Op == ib.WRBindMW {
			d.Source = SourceBindMW
		}
		d.Last, d.Retransmit = true, false
		w.issued = true
		q.cur++
		q.retire()
		return true
	}

	at := q.next
	if q.repeat {
		at, d.Slot = q.at, q.atWQE&q.wqeMask
	}
	end := at + 1
	offset := (at - w.psn) * q.mtu
	left := int64(w.Length) - offset
	var bytes int64
	switch w.kind {
	case kindRead:
		end = q.readEnd(w, at)
		if q.repeat {
			end = q.missing(w, at)
		}
		left = q.readBytes(w, at, end)
		*h = Header{
			Opcode: ib.ReadRequest, PSN: wire(at), AckReq: true,
			VA: w.RemoteAddr + uint64(offset), RKey: w.RKey, DMALen: uint32(left),
		}
		d.Source, d.Payload, d.Expect, d.Last = SourceNone, 0, uint32(left), true
		bytes = left
	case kindAtomic:
		*h = Header{
			Opcode: requestOpcode[w.Op][3], PSN: wire(at), AckReq: true,
			VA: w.RemoteAddr, RKey: w.RKey, Swap: w.Swap, Compare: w.Compare,
		}
		d.Source, d.Payload, d.Expect, d.Last = SourceNone, 0, 0, true
	default:
		bytes = min(left, q.mtu)
		var which int
		if at == w.psn {
			which = 1
		}
		last := end == w.end
		if last {
			which |= 2
		}
		*h = Header{Opcode: q.service | requestOpcode[w.Op&15][which], PSN: wire(at)}
		if which&1 != 0 && w.kind == kindWrite {
			h.VA, h.RKey, h.DMALen = w.RemoteAddr, w.RKey, w.Length
		}
		if last {
			h.Imm = w.Imm
			if w.Op == ib.WRSend || w.Op == ib.WRRDMAWrite {
				h.Imm = 0
			}
			h.Solicited = w.Solicited && w.Op.ConsumesRecv()
		}
		h.AckReq = q.service == ib.ServiceRC && (q.repeat || q.wantAck(w, end, last, bytes))
		d.Source, d.Payload, d.Expect, d.Last = SourceRequest, int(bytes), 0, last
		if bytes == 0 {
			d.Source = SourceNone
		}
	}
	d.Offset = uint32(offset)
	d.Retransmit = at < q.sent
	if d.Retransmit {
		q.ctr.RetransmittedPackets++
	}
	q.ctr.SentPackets++
	if q.asked <= q.una { // no answer is due yet: the timer waits for the one to come
		q.startTimer(now)
	}
	if q.repeat {
		if at == q.una {
			q.guarded, q.guard = at, q.sent
		}
		q.repeated(w, end)
		q.asked = max(q.asked, end)
		return true
	}
	q.next = end
	if h.AckReq {
		q.asked = end
	}
	q.inflight += bytes
	q.sent = max(q.sent, q.next)
	if q.next == w.end {
		q.cur++
	}
	return true
}

// wantAck decides AckReq for the packet before end (IBA 9.7.5.1 leaves it to
// the requester). Without it on the packet that uses up the window, or that has
// outrun the credits, nothing but a timeout could go on. With a driver's bound the next
// packet asks where no answer is due: see AnswerDue.
func (q *QP) wantAck(w *wqe, end int64, last bool, bytes int64) bool {
	q.sinceAckReq++
	if last || q.sinceAckReq == q.sender.AckReqEvery || end-q.una >= q.window ||
		q.credits && w.ssn > q.limit ||
		q.bound > 0 && (q.asked <= q.una || q.inflight+bytes > q.bound-int64(q.cfg.MTU)) {
		q.sinceAckReq = 0
		return true
	}
	return false
}

// BoundInflight declares that the driver keeps at most n bytes in flight, from the
// next packet on; 0 and [math.MaxInt64] mean no bound. The requester then asks for an
// acknowledgement by the packet that fills the bound, and by any that is sent while none
// is due. Holding packets back is up to the driver. Where its bound shrinks below what is
// in flight and no answer is due ([QP.AnswerDue]), it must let one more packet go.
func (q *QP) BoundInflight(n units.Bytes) {
	if n == math.MaxInt64 {
		n = 0
	}
	q.bound = int64(n)
}

// AnswerDue reports whether a packet under way asks for an answer.
func (q *QP) AnswerDue() bool { return q.asked > q.una }

// Inflight returns the bytes that are sent, or requested by READs, and not yet
// acknowledged or arrived; after going back it begins at zero again. With selective
// repeat, what is known to be lost or to have arrived does not count.
func (q *QP) Inflight() units.Bytes { return units.Bytes(q.inflight - q.away) }

// PollSend returns the next completion in the order of posting. Requests that
// succeeded and were not signaled are skipped; their slots are free after it.
func (q *QP) PollSend(c *SendCompletion) bool {
	for q.poll != q.tail {
		w := &q.wqes[q.poll&q.wqeMask]
		status := w.status
		if int32(q.poll-q.head) >= 0 { // not acknowledged
			if q.state != ib.Err {
				return false
			}
			if status == ib.WCSuccess {
				status = ib.WCWRFlushErr
			}
		}
		slot := q.poll & q.wqeMask
		q.poll++
		if q.failed {
			status = ib.WCWRFlushErr
		}
		if status == ib.WCSuccess && !w.Signaled {
			continue
		}
		q.failed = status != ib.WCSuccess
		*c = SendCompletion{ID: w.ID, Slot: slot, Bytes: w.Length, Status: status, Opcode: w.Op.Completion(), PSN: wire(w.end - 1)}
		return true
	}
	return false
}

// FailSend reports that the driver could not do its part for the request in slot:
// fetch its payload (WCLocProtErr), place the data that a READ or atomic returned
// (WCLocProtErr), or invalidate a key or bind a window (WCMWBindErr). Earlier requests complete with
// their own status. Then the request fails with the given status, and the queue
// pair goes to Err, an unreliable one to SQE. A request that PollSend has gone past
// can no longer fail.
func (q *QP) FailSend(now units.Time, slot uint32, status ib.WCStatus, eff *Effects) {
	eff.reset()
	n := (slot - q.poll) & q.wqeMask
	if n >= q.tail-q.poll || q.state == ib.SQE || status == ib.WCSuccess {
		return
	}
	i := q.poll + n
	behind := int32(i-q.head) > 0
	if q.state == ib.Err && (behind || i == q.head) {
		return // it is flushed
	}
	if w := &q.wqes[slot&q.wqeMask]; w.status == ib.WCSuccess {
		w.status = status
	}
	if behind && int32(q.cur-i) > 0 {
		q.cur = i // what follows does not leave: the peer would miss this one's packets before it
	}
	switch {
	case behind, q.state == ib.Err:
	case q.unreliable():
		q.enterSQE(eff)
	default:
		q.answering = false
		q.enterErr(eff)
	}
}
