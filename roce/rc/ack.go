package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// receiveResponse takes an acknowledgement, a READ response or an atomic's
// answer (IBA 9.7.5.2, 9.7.6, 9.9.2).
func (q *QP) receiveResponse(now units.Time, h *Header, payload int, eff *Effects) {
	if q.state == ib.RTR {
		eff.Drop = DropState
		return
	}
	p := near(h.PSN, q.una)
	if p < q.una || p >= q.sent {
		// A ghost (9.7.5.1), or a positive acknowledgement repeated to grant more credits
		// (9.7.7.2).
		q.ctr.GhostResponses++
		eff.Drop = DropGhost
		if p < q.una && h.Opcode == ib.Acknowledge {
			q.takeCredits(h, eff)
		}
		return
	}
	if q.reorders {
		q.receiveSelective(now, h, p, payload, eff)
		return
	}
	switch h.Opcode {
	case ib.Acknowledge:
		q.receiveAck(now, h, p, eff)
	case ib.AtomicAcknowledge:
		if !q.ackTo(now, p, eff) {
			q.impliedNAK(eff)
			return
		}
		w := &q.wqes[q.head&q.wqeMask]
		if w.kind != kindAtomic || payload != 0 {
			q.badResponse(ib.WCBadRespErr, eff)
			return
		}
		eff.Do |= DoPlace
		eff.Place = Place{Kind: PlaceAtomic, Slot: q.head & q.wqeMask, Length: 8}
		q.takeCredits(h, eff)
		q.answered(now, 0, eff)
	default:
		q.receiveReadResponse(now, h, p, payload, eff)
	}
}

func (q *QP) receiveAck(now units.Time, h *Header, p int64, eff *Effects) {
	switch h.Syndrome & syndromeKind {
	case syndromeKindACK:
		done := q.ackTo(now, p+1, eff)
		q.takeCredits(h, eff)
		if !done {
			q.impliedNAK(eff)
		}
	case syndromeKindRNR:
		switch {
		case !q.ackTo(now, p, eff):
			q.impliedNAK(eff)
		case q.next == q.una:
			eff.Drop = DropGhost // the same once more
		default:
			q.notReady(now, h.Syndrome, eff)
		}
	case syndromeKindNAK:
		if h.Syndrome > SyndromeOperation {
			q.ctr.GhostResponses++
			eff.Drop = DropGhost
			return
		}
		switch {
		case !q.ackTo(now, p, eff):
			q.impliedNAK(eff)
		case h.Syndrome == SyndromeSequence:
			if q.next == q.una || q.recovering {
				eff.Drop = DropGhost
				return
			}
			q.ctr.PacketSeqErr++
			q.retry(RewindSequence, eff)
		default:
			q.failedRemotely(h.Syndrome, eff)
		}
	default:
		q.ctr.GhostResponses++
		eff.Drop = DropGhost
	}
}

// failedRemotely takes a fatal NAK.
func (q *QP) failedRemotely(syndrome uint8, eff *Effects) {
	switch syndrome {
	case SyndromeInvalid:
		q.ctr.ReqRemoteInvalid++
		q.fail(ib.WCRemInvReqErr, eff)
	case SyndromeAccess:
		q.ctr.ReqRemoteAccessErrors++
		q.fail(ib.WCRemAccessErr, eff)
	default:
		q.ctr.ReqRemoteOpErr++
		q.fail(ib.WCRemOpErr, eff)
	}
}

// receiveReadResponse takes the READ response with number p, which says that
// everything before p was executed (IBA 9.7.5.1.2).
func (q *QP) receiveReadResponse(now units.Time, h *Header, p int64, payload int, eff *Effects) {
	if !q.ackTo(now, p, eff) {
		if q.recovering && p <= q.beyond && q.state != ib.Err {
			q.answerLostAgain(eff)
		} else {
			q.impliedNAK(eff)
		}
		q.beyond = p
		return
	}
	w := &q.wqes[q.head&q.wqeMask]
	last := h.Opcode == ib.ReadResponseLast || h.Opcode == ib.ReadResponseOnly
	if w.kind != kindRead || last != (p+1 == q.readEnd(w, p)) {
		q.badResponse(ib.WCBadRespErr, eff)
		return
	}
	offset := (p - w.psn) * q.mtu
	if int64(payload) != min(int64(w.Length)-offset, q.mtu) {
		q.badResponse(ib.WCLocLenErr, eff)
		return
	}
	if payload > 0 {
		eff.Do |= DoPlace
		eff.Place = Place{Kind: PlaceRead, Slot: q.head & q.wqeMask, Offset: uint32(offset), Length: uint32(payload)}
	}
	if h.Opcode != ib.ReadResponseMiddle {
		q.takeCredits(h, eff)
	}
	q.answered(now, int64(payload), eff)
}

// ackTo acknowledges all PSNs before p. It stops short and returns false at a
// READ or atomic that was not answered: an acknowledgement beyond it means that
// its answer was lost (IBA 9.7.5.1.2, implied NAK). It returns false also when a
// request that failed locally was reached and the queue pair is now in Err.
func (q *QP) ackTo(now units.Time, p int64, eff *Effects) bool {
	if q.una == p {
		return true
	}
	from := q.una
	var bytes int64
	for q.una < p {
		w := &q.wqes[q.head&q.wqeMask]
		if w.kind.returnsData() || w.status != ib.WCSuccess {
			break
		}
		if p < w.end {
			bytes += (p - q.una) * q.mtu
			q.una = p
			break
		}
		bytes += int64(w.Length) - (q.una-w.psn)*q.mtu
		q.una = w.end
		q.retire()
	}
	if q.una != from {
		q.advanced(now, q.una-from, bytes, eff)
	}
	return q.una == p && q.state != ib.Err
}

// answered acknowledges the one PSN una of a READ or atomic.
func (q *QP) answered(now units.Time, bytes int64, eff *Effects) {
	w := &q.wqes[q.head&q.wqeMask]
	if q.una+1 == q.readEnd(w, q.una) {
		q.rdDone++
	}
	q.una++
	if q.una == w.end {
		q.retire()
	}
	q.advanced(now, 1, bytes, eff)
}

// retire moves head past all that is complete.
func (q *QP) retire() {
	for q.head != q.tail {
		w := &q.wqes[q.head&q.wqeMask]
		if w.end > q.una || w.kind == kindLocal && !w.issued || w.status != ib.WCSuccess {
			return
		}
		q.head++
	}
}

// advanced does what follows from progress of una.
func (q *QP) advanced(now units.Time, packets, bytes int64, eff *Effects) {
	eff.Do |= DoSend | DoComplete
	eff.AckedBytes += units.Bytes(bytes)
	eff.AckedPackets += int32(packets)
	q.inflight -= bytes
	if q.next < q.una { // acknowledged what was sent before going back
		q.next, q.cur, q.inflight = q.una, q.head, 0
	}
	q.retries, q.rnrRetries = q.sender.RetryCount, q.sender.RNRRetry
	q.recovering = false
	q.progress = now
	if q.adjusted {
		q.shorten()
	}
	if q.head != q.tail && q.wqes[q.head&q.wqeMask].status != ib.WCSuccess {
		q.answering = false // FailSend: those before it are done
		q.enterErr(eff)
	}
	q.checkDrained(eff)
}

func (q *QP) checkDrained(eff *Effects) {
	if q.state != ib.SQD || q.drained || q.una != q.sent {
		return
	}
	if q.head == q.tail || q.wqes[q.head&q.wqeMask].psn >= q.una {
		q.drained = true
		eff.Events.add(ib.EventSQDrained)
	}
}

// impliedNAK goes back to the first missing answer, once.
func (q *QP) impliedNAK(eff *Effects) {
	if q.state == ib.Err {
		return // a request before it had failed locally
	}
	eff.Drop = DropOutOfOrder
	if q.recovering || q.next == q.una {
		return
	}
	q.ctr.ImpliedNakSeqErr++
	q.retry(RewindImplied, eff)
}

// answerLostAgain goes back once more: answers come in order, so that one that is not behind the last is to the
// new request, and what is missing was lost with it. The peer answers, so the retry counter stays; the timer
// runs on and bounds how often that is.
func (q *QP) answerLostAgain(eff *Effects) {
	eff.Drop = DropOutOfOrder
	if q.next == q.una {
		return
	}
	q.ctr.ImpliedNakSeqErr++
	q.rewind(RewindImplied, eff)
	q.asked = q.una + 1
}

// retry goes back for a lost packet if the retry counter allows (IBA
// 9.9.2), else it fails the oldest request.
func (q *QP) retry(why Rewind, eff *Effects) {
	if q.retries == 0 {
		q.ctr.RetryExceeded++
		q.fail(ib.WCRetryExcErr, eff)
		return
	}
	q.retries--
	// After a timeout a NAK would be news: nothing was known to be lost.
	q.recovering = why != RewindTimeout
	q.rewind(why, eff)
}

// notReady takes an RNR NAK (IBA 9.7.5.2.8).
func (q *QP) notReady(now units.Time, syndrome uint8, eff *Effects) {
	q.ctr.RNRNakRetryErr++
	if q.rnrRetries == 0 {
		q.ctr.RNRRetryExceeded++
		q.fail(ib.WCRNRRetryExcErr, eff)
		return
	}
	if q.sender.RNRRetry != 7 {
		q.rnrRetries--
	}
	q.recovering = false
	q.rewind(RewindNotReady, eff)
	q.rnrUntil = now + RNRTime(syndrome)
	if q.rnrUntil < q.deadline {
		q.deadline = q.rnrUntil
		eff.Do |= DoTimer
	}
}

func (q *QP) rewind(why Rewind, eff *Effects) {
	if q.reorders {
		q.repeatAll(why, eff)
		return
	}
	q.epoch++
	q.next, q.cur, q.inflight, q.asked = q.una, q.head, 0, q.una
	q.beyond = q.una
	eff.Rewind = why
	eff.Do |= DoSend
}

// fail ends the oldest request with status, and with it the queue pair.
func (q *QP) fail(status ib.WCStatus, eff *Effects) {
	if w := &q.wqes[q.head&q.wqeMask]; w.status == ib.WCSuccess {
		w.status = status
	}
	q.answering = false
	q.enterErr(eff)
}

func (q *QP) badResponse(status ib.WCStatus, eff *Effects) {
	q.ctr.BadResponses++
	eff.Drop = DropBadResponse
	q.fail(status, eff)
}

// takeCredits raises the limit sequence number by the credits of an AETH (IBA
// 9.7.7.2).
func (q *QP) takeCredits(h *Header, eff *Effects) {
	if !q.credits || h.Syndrome&syndromeKind != syndromeKindACK {
		return
	}
	code := h.Syndrome & syndromeValue
	if code == SyndromeUnlimited {
		q.unlimited = true
		eff.Do |= DoSend
		return
	}
	// MSN counts the messages completed there, SSN those posted here.
	msn := near(units.MakePSN(h.MSN), q.limit)
	if limit := msn + credits(code); limit > q.limit && msn <= q.ssn {
		q.limit = limit
		eff.Do |= DoSend
	}
}

// credits decodes a credit count (IBA 9.7.7.2): 0, 1, 2, 3, 4, 6, 8, 12, ...
func credits(code uint8) int64 {
	if code < 2 {
		return int64(code)
	}
	return int64(2|code&1) << (code/2 - 1)
}

// creditCode encodes the largest credit count that is not above n.
func creditCode(n int) uint8 {
	code := uint8(0)
	for code < SyndromeUnlimited-1 && credits(code+1) <= int64(n) {
		code++
	}
	return code
}
