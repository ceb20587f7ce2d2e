package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// hasResource reports whether another READ or atomic may be taken. A requester
// that keeps to its MaxRdAtomic never finds them all in use by requests that
// were not answered (IBA 9.7.7).
func (q *QP) hasResource() bool {
	return q.resNew-q.resDone < uint32(q.cfg.MaxDestRdAtomic)
}

func (q *QP) addResource(r resource) {
	r.from, r.next, r.stop, r.msn = r.psn, r.psn, r.end, q.msn
	if q.resNew-q.resSend == uint32(len(q.res)) {
		// The oldest is being answered again, though its requester has gone
		// on: that was a stale duplicate.
		q.resSend++
		q.resourceSent()
	}
	q.res[q.resNew&q.resMask] = r
	q.resNew++
}

// receiveDuplicate handles a request that was executed before (IBA 9.7.5.1, C9-105
// and following): a SEND or WRITE is acknowledged again, a READ is executed again,
// an atomic is answered with the result that was saved. A READ or atomic that is
// not among the resources is dropped.
func (q *QP) receiveDuplicate(h *Header, p int64, eff *Effects) {
	q.ctr.DuplicateRequest++
	eff.Drop = DropDuplicate
	switch h.Opcode {
	case ib.ReadRequest, ib.CompareSwap, ib.FetchAdd:
	case ib.SendFirst, ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv,
		ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv,
		ib.WriteFirst, ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm, ib.WriteOnly, ib.WriteOnlyImm:
		if !q.ackPending {
			// Up to the next READ or atomic: its own duplicate comes behind
			// this one, and an acknowledgement beyond it would imply that
			// its answer was lost.
			q.ackPending, q.ackPSN, q.ackMSN = true, q.expected-1, q.msn
			for i := q.resNew; i != q.oldest(); {
				i--
				if r := &q.res[i&q.resMask]; r.psn > p {
					q.ackPSN, q.ackMSN = r.psn-1, r.msn-1
				} else {
					break
				}
			}
		}
		eff.Do |= DoRespond
		return
	default:
		eff.Drop = DropOpcode
		return
	}

	for i := q.resNew; i != q.oldest(); {
		i--
		r := &q.res[i&q.resMask]
		if p < r.psn {
			continue
		}
		if p >= r.end || r.atomic != (h.Opcode != ib.ReadRequest) || h.RKey != r.rkey {
			return
		}
		if r.atomic {
			switch {
			case h.VA != r.va:
			case q.reorders:
				q.oweRepeat(i, p, p+1, eff)
			default:
				q.answerAgain(i, p)
				eff.Do |= DoRespond
			}
			return
		}
		// It must lie within the original request, and fit its PSN.
		offset := (p - r.psn) * q.mtu
		if h.VA != r.va+uint64(offset) || int64(h.DMALen) > int64(r.length)-offset {
			return
		}
		q.pending, q.pendingRes = *h, i
		if h.DMALen == 0 {
			q.readAgain(eff)
			return
		}
		// The key may have been deregistered since.
		q.awaiting = awaitDuplicate
		eff.Do |= DoCheck
		eff.Check = Check{Access: ib.AccessRemoteRead, RKey: h.RKey, VA: h.VA, Length: h.DMALen}
		return
	}
}

// oldest returns the number of the oldest resource still in the ring.
func (q *QP) oldest() uint32 {
	if n := uint32(len(q.res)); q.resNew > n {
		return q.resNew - n
	}
	return 0
}

// readAgain executes the duplicate READ in pending.
func (q *QP) readAgain(eff *Effects) {
	r := &q.res[q.pendingRes&q.resMask]
	p := near(q.pending.PSN, q.expected)
	if q.reorders {
		eff.Drop = DropDuplicate
		q.oweRepeat(q.pendingRes, p, p+q.responses(q.pending.DMALen), eff)
		return
	}
	r.stop = p + q.responses(q.pending.DMALen)
	r.bytes = uint32((p-r.psn)*q.mtu) + q.pending.DMALen
	q.resEpoch++
	q.staleFrom, q.staleTo = p, r.end
	q.answerAgain(q.pendingRes, p)
	eff.Drop = DropDuplicate
	eff.Do |= DoRespond
}

// answerAgain makes resource i the one to answer, from PSN p on. A later READ that
// was partly answered starts over: the requester does not take the rest before it
// has requested it again. If this duplicate was only an old packet, the requester
// loses nothing.
func (q *QP) answerAgain(i uint32, p int64) {
	if q.resSend != q.resNew && int32(q.resSend-i) > 0 {
		cur := &q.res[q.resSend&q.resMask]
		cur.next = cur.from
	}
	r := &q.res[i&q.resMask]
	r.from, r.next = p, p
	if int32(q.resSend-i) > 0 {
		q.resSend = i
	}
}

// freshResponse reports whether a response is still wanted: a READ that is
// restarted makes the responses stale that were described before. The driver may
// send a stale one without harm.
func (q *QP) freshResponse(d *Descriptor) bool {
	if q.state == ib.Err && !q.answering {
		return false
	}
	if d.epoch == q.resEpoch || d.Source != SourceMemory {
		return true
	}
	p := near(d.Header.PSN, q.expected)
	return p < q.staleFrom || p >= q.staleTo
}

// AtomicDone answers DoAtomic with the value that the memory had before. Its
// response is then ready.
func (q *QP) AtomicDone(slot uint32, orig uint64) {
	if slot >= uint32(len(q.res)) {
		return
	}
	if r := &q.res[slot]; r.atomic && r.waiting {
		r.waiting, r.orig = false, orig
	}
}

// ResponseReady reports whether NextResponse has a packet.
func (q *QP) ResponseReady() bool {
	if q.state == ib.Err && !q.answering {
		return false
	}
	if q.owes > 0 {
		return true
	}
	if q.resSend == q.resNew {
		return q.ackPending || q.nak != 0
	}
	r := &q.res[q.resSend&q.resMask]
	return !r.waiting || q.ackPending && q.ackPSN < r.next
}

// ResponsesLeft returns how many packets the READs that have been asked for still take, as far
// as to most; repeats and acknowledgements are not counted.
func (q *QP) ResponsesLeft(most int) int {
	packets := int64(0)
	for i := q.resSend; i != q.resNew && packets < int64(most); i++ {
		r := &q.res[i&q.resMask]
		packets += r.stop - r.next
	}
	return int(min(packets, int64(most)))
}

// NextResponse describes the next response packet in d, or returns false.
// Packets must be sent in the order of the calls: that of the requests (IBA
// 9.7.5.1.2).
func (q *QP) NextResponse(now units.Time, d *Descriptor) bool {
	if q.state == ib.Err && !q.answering {
		return false
	}
	d.Slot, d.Offset, d.Expect, d.Retransmit = 0, 0, 0, false
	d.response, d.epoch = true, q.resEpoch
	if q.owes > 0 && q.nextRepeat(d) {
		return true
	}
	if q.resSend != q.resNew {
		r := &q.res[q.resSend&q.resMask]
		switch {
		case q.ackPending && q.ackPSN < r.next:
			q.sendAck(d)
		case r.waiting:
			return false
		case r.atomic:
			q.describeAtomic(r, d)
			r.next++
			q.resourceSent()
		default:
			q.describeRead(r, d)
			r.next++
			if d.Last {
				q.resourceSent()
			}
		}
		return true
	}
	switch {
	case q.nak != 0: // it acknowledges all before it
		psn, msn := q.expected, q.msn
		switch {
		case q.nak == SyndromeSelective, q.nak == SyndromeSequence && q.reorders:
			msn = uint32(wire(q.nakAt))
		case q.nak&syndromeKind == syndromeKindNAK && q.nak != SyndromeSequence:
			psn, msn = q.nakPSN, q.nakMSN
		}
		d.Header = Header{Opcode: ib.Acknowledge, PSN: wire(psn), Syndrome: q.nak, MSN: msn & maxPSN}
		d.Source, d.Payload, d.Last, d.VA, d.RKey = SourceNone, 0, true, 0, 0
		q.nak, q.ackPending = 0, false
		q.gapNAKed = true
		q.ctr.SentNaks++
	case q.ackPending:
		q.sendAck(d)
	default:
		return false
	}
	return true
}

func (q *QP) sendAck(d *Descriptor) {
	d.Header = Header{Opcode: ib.Acknowledge, PSN: wire(q.ackPSN), Syndrome: q.syndrome(), MSN: q.ackMSN & maxPSN}
	d.Source, d.Payload, d.Last, d.VA, d.RKey = SourceNone, 0, true, 0, 0
	q.ackPending = false
	q.ctr.SentAcks++
}

// describeAtomic describes an atomic's answer.
func (q *QP) describeAtomic(r *resource, d *Descriptor) {
	d.Header = Header{
		Opcode: ib.AtomicAcknowledge, PSN: wire(r.psn), Syndrome: q.syndrome(), MSN: r.msn & maxPSN, Orig: r.orig,
	}
	d.Source, d.Payload, d.Last, d.VA, d.RKey = SourceNone, 0, true, 0, 0
}

// describeRead describes the next response of a READ.
func (q *QP) describeRead(r *resource, d *Descriptor) {
	offset := uint32((r.next - r.psn) * q.mtu)
	last := r.next+1 == r.stop
	op := ib.ReadResponseMiddle
	switch {
	case r.next == r.from && last:
		op = ib.ReadResponseOnly
	case r.next == r.from:
		op = ib.ReadResponseFirst
	case last:
		op = ib.ReadResponseLast
	}
	d.Header = Header{Opcode: op, PSN: wire(r.next)}
	if op != ib.ReadResponseMiddle {
		d.Header.Syndrome, d.Header.MSN = q.syndrome(), r.msn&maxPSN
	}
	d.Source = SourceMemory
	d.Payload = int(min(int64(r.bytes-offset), q.mtu))
	if d.Payload == 0 {
		d.Source = SourceNone
	}
	d.VA, d.RKey, d.Last = r.va+uint64(offset), r.rkey, last
}

// resourceSent moves on to the oldest resource that has something to send.
func (q *QP) resourceSent() {
	for q.resSend != q.resNew {
		if r := &q.res[q.resSend&q.resMask]; r.next < r.stop {
			break
		}
		q.resSend++
	}
	if int32(q.resSend-q.resDone) > 0 {
		q.resDone = q.resSend
	}
}

// syndrome is the AETH syndrome of a positive answer: with end-to-end flow
// control the number of receives that the requester may count on beyond the
// messages completed (IBA 9.7.7.2).
func (q *QP) syndrome() uint8 {
	if !q.credits {
		return SyndromeUnlimited
	}
	n := q.cfg.Recv.Len()
	if q.holds {
		n++ // of the message in progress, which MSN does not count yet
	}
	return creditCode(n)
}
