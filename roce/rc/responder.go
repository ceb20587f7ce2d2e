package rc

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// responder is the state of the receive side.
type responder struct {
	expected int64 // ePSN

	// The message in progress.
	va      uint64
	rkey    uint32
	length  uint32 // WRITE: of the whole message
	left    uint32 // WRITE: bytes to come
	msn     uint32
	message kind // kindSend or kindWrite, else kindNone

	awaiting awaiting // what pending waits for Checked for

	// The answers owed to the peer. One ACK covers all packets before it, and one NAK
	// the current state, so neither needs a queue.
	ackPending bool
	gapNAKed   bool   // a NAK or RNR NAK was sent and the expected PSN has not come
	nak        uint8  // syndrome, or 0
	answering  bool   // in state Err: responses are still owed, a fatal NAK last
	ackMSN     uint32 // the messages completed up to ackPSN and nakPSN: a peer may
	nakMSN     uint32 // complete requests by them (IBA 9.7.7)
	ackPSN     int64
	nakPSN     int64 // of a fatal one; others carry the expected PSN
	// The packet last executed in its turn, and the messages before it.
	turnPSN int64
	turnMSN uint32

	// Selective repeat.
	last  int64 // the packet last received, if it was kept, or -1
	most  int64 // one past the highest PSN that was kept
	nakAt int64 // the packet that caused the NAK
	owes  int   // how many of ahead.owed there are
	*ahead

	// res are the responder resources (IBA 9.7.7): one for each READ or atomic,
	// numbered in order of arrival; the number's low bits are the place in
	// the ring. resDone <= resNew: all before resDone were answered once.
	// resSend is the oldest that has something to send.
	resMask                  uint32
	resNew, resDone, resSend uint32
	res                      []resource
	staleFrom, staleTo       int64 // a READ that was restarted: see freshResponse
	resEpoch                 uint32
	communicating            bool // EventCommEst was raised

	// The receive that a SEND holds, or that failed and will be flushed.
	holds      bool
	recvSlot   uint32
	recv       Recv
	recvStatus ib.WCStatus
	offset     uint32 // SEND: bytes received

	// What waits for Checked.
	pending      Header
	pendingBytes int
	pendingRes   uint32
}

// takesRecv is the set of opcodes of the packets that need a receive.
const takesRecv = 1<<ib.SendFirst | 1<<ib.SendOnly | 1<<ib.SendOnlyImm | 1<<ib.SendOnlyInv |
	1<<ib.WriteLastImm | 1<<ib.WriteOnlyImm

// awaiting is the step at which Checked goes on.
type awaiting uint8

const (
	awaitNothing awaiting = iota
	awaitRequest
	awaitDuplicate
	awaitAhead
)

// resource is a READ or atomic that was accepted, kept so that a duplicate can
// be answered (IBA 9.7.5.1).
type resource struct {
	psn, end   int64 // the PSNs of its responses
	from       int64 // where the responses begin this time
	next, stop int64 // the response to send next, and one past the last
	va         uint64
	rkey       uint32
	length     uint32
	bytes      uint32 // of the message up to where the responses end this time
	orig       uint64
	msn        uint32
	atomic     bool
	waiting    bool // for AtomicDone
}

// receiveRequest takes a request packet (IBA 9.7.4).
func (q *QP) receiveRequest(h *Header, payload int, eff *Effects) {
	if q.state == ib.RTR && !q.communicating {
		q.communicating = true
		eff.Events.add(ib.EventCommEst)
	}
	if p := near(h.PSN, q.expected); p != q.expected {
		switch {
		case p < q.expected:
			q.receiveDuplicate(h, p, eff)
		case q.reorders:
			q.receiveAhead(h, p, payload, eff)
		default:
			q.outOfSequence(eff)
		}
		return
	}
	q.receiveValid(h, payload, eff)
}

// receiveValid takes the packet with the expected PSN.
func (q *QP) receiveValid(h *Header, payload int, eff *Effects) {
	if bad := q.validate(h, payload); bad != 0 {
		q.refuse(bad, eff)
		return
	}
	if 1<<h.Opcode.Operation()&takesRecv != 0 && q.cfg.Recv.Len() == 0 && !q.holds {
		q.refuseNotReady(eff)
		return
	}
	if q.needsCheck(h, &eff.Check) {
		eff.Do |= DoCheck
		q.awaiting, q.pending, q.pendingBytes = awaitRequest, *h, payload
		return
	}
	q.executeInTurn(h, payload, eff)
}

// executeInTurn accepts the packet with the expected PSN, and with it what was kept behind it.
func (q *QP) executeInTurn(h *Header, payload int, eff *Effects) {
	q.execute(h, payload, eff)
	q.turnPSN, q.turnMSN = q.expected-1, q.msn
	if q.message == kindNone {
		q.turnMSN-- // it was the last packet of its message
	}
	if q.reorders {
		q.catchUp(eff)
	}
}

// validate applies the checks of a request packet with the expected PSN that
// need no memory table: sequence of opcodes, operations the queue pair admits,
// lengths and alignment (IBA 9.7.4). It returns the syndrome
// of the NAK, or 0.
func (q *QP) validate(h *Header, payload int) uint8 {
	const ok = 0
	bytes := int64(payload)
	if bytes < 0 || bytes > q.mtu {
		return SyndromeInvalid
	}
	op := h.Opcode.Operation()
	switch op {
	case ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv:
		if q.message != kindSend {
			return SyndromeInvalid
		}
	case ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm:
		if q.message != kindWrite {
			return SyndromeInvalid
		}
	default:
		if q.message != kindNone {
			return SyndromeInvalid
		}
	}
	switch op {
	case ib.SendFirst, ib.SendMiddle:
		if bytes != q.mtu || int64(q.offset)+bytes > ib.MaxMessage {
			return SyndromeInvalid
		}
	case ib.SendLast, ib.SendLastImm, ib.SendLastInv:
		if bytes == 0 || int64(q.offset)+bytes > ib.MaxMessage {
			return SyndromeInvalid
		}
	case ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv:
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm:
		return q.validateWrite(h, op, bytes)
	case ib.WriteMiddle:
		if bytes != q.mtu || int64(q.left) <= bytes {
			return SyndromeInvalid
		}
	case ib.WriteLast, ib.WriteLastImm:
		if bytes != int64(q.left) {
			return SyndromeInvalid
		}
	case ib.ReadRequest:
		if q.cfg.Access&ib.AccessRemoteRead == 0 || h.DMALen > ib.MaxMessage || bytes != 0 || !q.hasResource() {
			return SyndromeInvalid
		}
		if wraps(h.VA, h.DMALen) {
			return SyndromeAccess
		}
	case ib.CompareSwap, ib.FetchAdd:
		if q.cfg.Access&ib.AccessRemoteAtomic == 0 || h.VA%8 != 0 || bytes != 0 || !q.hasResource() {
			return SyndromeInvalid
		}
	default:
		return SyndromeInvalid // a reserved opcode
	}
	return ok
}

// validateWrite is validate for the first packet of a WRITE.
func (q *QP) validateWrite(h *Header, op ib.Opcode, bytes int64) uint8 {
	switch {
	case q.cfg.Access&ib.AccessRemoteWrite == 0 || h.DMALen > ib.MaxMessage || bytes > q.mtu:
		return SyndromeInvalid
	case op == ib.WriteFirst && (bytes != q.mtu || int64(h.DMALen) <= bytes):
		return SyndromeInvalid
	case op != ib.WriteFirst && int64(h.DMALen) != bytes:
		return SyndromeInvalid
	case wraps(h.VA, h.DMALen):
		return SyndromeAccess
	}
	return 0
}

// wraps reports whether a range goes past the end of the address space.
func wraps(va uint64, length uint32) bool {
	return length > 0 && va+uint64(length-1) < va
}

// needsCheck fills in the check that the driver must do before h can be executed.
func (q *QP) needsCheck(h *Header, c *Check) bool {
	switch h.Opcode.Operation() {
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm:
		*c = Check{Access: ib.AccessRemoteWrite, RKey: h.RKey, VA: h.VA, Length: h.DMALen}
	case ib.ReadRequest:
		*c = Check{Access: ib.AccessRemoteRead, RKey: h.RKey, VA: h.VA, Length: h.DMALen}
	case ib.CompareSwap, ib.FetchAdd:
		*c = Check{Access: ib.AccessRemoteAtomic, RKey: h.RKey, VA: h.VA, Length: 8}
	case ib.SendLastInv, ib.SendOnlyInv:
		*c = Check{Invalidate: true, RKey: h.Imm}
		return true
	default:
		return false
	}
	return c.Length > 0 // the R_Key of a message without bytes is not looked at (IBA 9.7.4)
}

// Checked answers DoCheck.
func (q *QP) Checked(now units.Time, ok bool, eff *Effects) {
	eff.reset()
	what := q.awaiting
	q.awaiting = awaitNothing
	switch {
	case what == awaitNothing:
	case what == awaitAhead:
		p := near(q.pending.PSN, q.expected)
		if ok {
			q.placeAhead(&q.pending, p, q.pendingBytes, eff)
		} else {
			q.dropAhead(p, eff) // and refused in its turn
		}
	case !ok && what == awaitDuplicate:
		msn := q.res[q.pendingRes&q.resMask].msn - 1
		q.refuseAt(SyndromeAccess, near(q.pending.PSN, q.expected), msn, eff)
	case !ok:
		q.refuse(SyndromeAccess, eff)
	case what == awaitDuplicate:
		q.readAgain(eff)
	default:
		q.executeInTurn(&q.pending, q.pendingBytes, eff)
	}
}

// execute accepts a valid request packet.
func (q *QP) execute(h *Header, payload int, eff *Effects) {
	bytes := uint32(payload)
	switch op := h.Opcode.Operation(); op {
	case ib.SendFirst, ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv,
		ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv:
		if !q.holds && !q.takeRecv(eff) {
			q.refuseNotReady(eff)
			return
		}
		if q.recv.Length-q.offset < bytes {
			q.ctr.RespLocalLengthError++
			if !q.unreliable() {
				q.recvStatus = ib.WCLocLenErr
			}
			q.refuse(SyndromeInvalid, eff)
			return
		}
		if bytes > 0 {
			eff.Do |= DoPlace
			eff.Place = Place{Kind: PlaceRecv, Slot: q.recvSlot, Offset: q.offset, Length: bytes}
		}
		q.offset += bytes
		if op == ib.SendFirst || op == ib.SendMiddle {
			q.message = kindSend
			q.accept(h, false, eff)
			return
		}
		q.ctr.RxSendRequests++
		q.completeRecv(h, ib.WCRecv, q.offset, eff)
		q.accept(h, true, eff)

	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm:
		q.va, q.rkey, q.length, q.left = h.VA, h.RKey, h.DMALen, h.DMALen
		q.write(h, bytes, eff)
	case ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm:
		q.write(h, bytes, eff)

	case ib.ReadRequest:
		q.ctr.RxReadRequests++
		q.msn++
		packets := q.responses(h.DMALen)
		q.addResource(resource{
			psn: q.expected, end: q.expected + packets,
			va: h.VA, rkey: h.RKey, length: h.DMALen, bytes: h.DMALen,
		})
		q.advanceExpected(packets)
		eff.Do |= DoRespond
	default: // atomics
		q.ctr.RxAtomicRequests++
		q.msn++
		eff.Do |= DoAtomic
		eff.Atomic = Atomic{
			Op: op, Slot: q.resNew & q.resMask, RKey: h.RKey, VA: h.VA, Swap: h.Swap, Compare: h.Compare,
		}
		q.addResource(resource{psn: q.expected, end: q.expected + 1, va: h.VA, rkey: h.RKey, length: 8, atomic: true, waiting: true})
		q.advanceExpected(1)
	}
}

// write accepts a packet of a WRITE.
func (q *QP) write(h *Header, bytes uint32, eff *Effects) {
	op := h.Opcode.Operation()
	imm := op == ib.WriteLastImm || op == ib.WriteOnlyImm
	if imm && !q.holds && !q.takeRecv(eff) {
		q.refuseNotReady(eff)
		return
	}
	if bytes > 0 {
		eff.Do |= DoPlace
		eff.Place = Place{Kind: PlaceMemory, Length: bytes, VA: q.va, RKey: q.rkey}
	}
	q.va += uint64(bytes)
	q.left -= bytes
	if q.left > 0 {
		q.message = kindWrite
		q.accept(h, false, eff)
		return
	}
	q.ctr.RxWriteRequests++
	if imm {
		q.completeRecv(h, ib.WCRecvRDMAWithImm, q.length, eff)
	}
	q.accept(h, true, eff)
}

// responses returns how many packets, and so PSNs, a READ of n bytes is
// answered with (IBA 9.7.5.1.2).
func (q *QP) responses(n uint32) int64 {
	if int64(n) <= q.mtu {
		return 1
	}
	return (int64(n) + q.mtu - 1) / q.mtu
}

// accept counts a packet of a SEND or WRITE as executed, and acknowledges it if it
// has AckReq (IBA 9.7.5.1).
func (q *QP) accept(h *Header, last bool, eff *Effects) {
	if last {
		q.message = kindNone
		q.offset = 0
		q.msn++
	}
	q.advanceExpected(1)
	if h.AckReq && !q.unreliable() {
		q.ackPending, q.ackPSN, q.ackMSN = true, q.expected-1, q.msn
		eff.Do |= DoRespond
	}
}

func (q *QP) advanceExpected(n int64) {
	q.expected += n
	q.gapNAKed = false
	if q.nak&syndromeKind == syndromeKindRNR {
		q.nak = 0 // it was not sent yet, and is no longer true
	}
}

// takeRecv takes the oldest receive.
func (q *QP) takeRecv(eff *Effects) bool {
	slot, r, ok := q.cfg.Recv.take(&eff.Events)
	if !ok {
		return false
	}
	q.holds, q.recvSlot, q.recv, q.recvStatus = true, slot, r, ib.WCWRFlushErr
	return true
}

func (q *QP) completeRecv(h *Header, op ib.WCOpcode, bytes uint32, eff *Effects) {
	q.holds = false
	c := &eff.Recv
	*c = RecvCompletion{
		ID: q.recv.ID, Slot: q.recvSlot, Bytes: bytes, Opcode: op, Solicited: h.Solicited,
	}
	switch h.Opcode.Operation() {
	case ib.SendLastImm, ib.SendOnlyImm, ib.WriteLastImm, ib.WriteOnlyImm:
		c.HasImm, c.Imm = true, h.Imm
	case ib.SendLastInv, ib.SendOnlyInv:
		c.HasInvalidate, c.Imm = true, h.Imm
	}
	eff.Do |= DoRecv
}

// outOfSequence answers the first packet beyond a gap with a NAK and drops the
// rest in silence until the expected PSN comes (IBA 9.7.5.1, 9.7.5.2.8).
func (q *QP) outOfSequence(eff *Effects) {
	q.ctr.OutOfSequence++
	eff.Drop = DropSequence
	if q.gapNAKed || q.nak != 0 {
		return
	}
	q.nak = SyndromeSequence
	eff.Do |= DoRespond
}

func (q *QP) refuseNotReady(eff *Effects) {
	q.ctr.OutOfBuffer++
	if q.unreliable() {
		q.dropMessage(DropNotReady, eff)
		return
	}
	eff.Drop = DropNotReady
	eff.Do |= DoRespond
	q.nak = SyndromeRNR | q.cfg.MinRNRTimer
}

// refuse answers the packet with the expected PSN with a fatal NAK, behind all
// responses owed before, and ends the queue pair (IBA 9.9.3, class C and A).
func (q *QP) refuse(syndrome uint8, eff *Effects) {
	if q.unreliable() {
		q.refuseMessage(syndrome, eff)
		return
	}
	q.refuseAt(syndrome, q.expected, q.msn, eff)
}

func (q *QP) refuseAt(syndrome uint8, psn int64, msn uint32, eff *Effects) {
	eff.Do |= DoRespond
	switch syndrome {
	case SyndromeInvalid:
		q.ctr.RespRemoteInvalidRequest++
		eff.Drop = DropInvalid
		switch {
		case !q.holds:
			eff.Events.add(ib.EventQPReqErr)
		case q.recvStatus == ib.WCWRFlushErr:
			q.recvStatus = ib.WCRemInvReqErr
		}
	case SyndromeAccess:
		q.ctr.RespRemoteAccessErrors++
		eff.Drop = DropAccess
		eff.Events.add(ib.EventQPAccessErr)
	case SyndromeOperation:
		if !q.holds {
			eff.Events.add(ib.EventQPFatal)
		}
	}
	q.nak, q.nakPSN, q.nakMSN = syndrome, psn, msn
	q.answering = true
	q.enterErr(eff)
}

// FailRecv reports that the driver could not place the payload of the packet last
// received, or perform its atomic. The peer gets a NAK (remote access error for
// WCRemAccessErr, else remote operational error), the receive that the message
// holds is flushed with status, and the queue pair goes to Err. If the Effects of
// that packet carried DoRecv, the driver reports that completion with its own
// status. On an unreliable connection there is no NAK, and WCRemAccessErr only
// drops the message.
func (q *QP) FailRecv(now units.Time, status ib.WCStatus, eff *Effects) {
	eff.reset()
	if q.state == ib.Err {
		return
	}
	if q.unreliable() {
		q.failUnreliable(status, eff)
		return
	}
	if q.last >= 0 && (q.resNew == q.resDone || !q.res[(q.resNew-1)&q.resMask].waiting) { // else it may be an atomic
		q.forget()
		eff.Do |= DoRespond
		return
	}
	psn, msn := q.turnPSN, q.turnMSN
	// An atomic that was not performed has no answer.
	if q.resNew != q.resDone && q.res[(q.resNew-1)&q.resMask].waiting {
		q.resNew--
	}
	q.failResponder(psn, msn, status, eff)
}

// FailResponse reports that the driver could not fetch the payload of the READ
// response d. In its place the peer gets a NAK as with FailRecv, no response after
// it is Fresh, and the queue pair goes to Err.
func (q *QP) FailResponse(now units.Time, d *Descriptor, status ib.WCStatus, eff *Effects) {
	eff.reset()
	if q.state == ib.Err && !q.answering {
		return
	}
	psn, msn := near(d.Header.PSN, q.expected), q.msn
	for i := q.resNew; i != q.oldest(); i-- {
		if r := &q.res[(i-1)&q.resMask]; r.end > psn {
			msn = r.msn - 1
		}
	}
	q.resEpoch++
	q.staleFrom, q.staleTo = psn, psn+maxOutstandingPSNs
	q.resSend, q.resDone = q.resNew, q.resNew
	q.failResponder(psn, msn, status, eff)
}

func (q *QP) failResponder(psn int64, msn uint32, status ib.WCStatus, eff *Effects) {
	if q.holds {
		q.recvStatus = status
	}
	if status == ib.WCRemAccessErr {
		q.refuseAt(SyndromeAccess, psn, msn, eff)
	} else {
		q.refuseAt(SyndromeOperation, psn, msn, eff)
	}
	eff.Drop = DropNone
}

// PollRecv returns the next receive that the queue pair flushes because it is in
// state Err: first the one that an unfinished message held, with the status of the
// failure if it has one. It does not flush a shared queue.
func (q *QP) PollRecv(c *RecvCompletion) bool {
	if q.state != ib.Err {
		return false
	}
	if q.holds {
		q.holds = false
		*c = RecvCompletion{ID: q.recv.ID, Slot: q.recvSlot, Status: q.recvStatus, Opcode: ib.WCRecv}
		return true
	}
	if q.cfg.SharedRecv {
		return false
	}
	slot, r, ok := q.cfg.Recv.take(nil)
	if !ok {
		return false
	}
	*c = RecvCompletion{ID: r.ID, Slot: slot, Status: ib.WCWRFlushErr, Opcode: ib.WCRecv}
	return true
}

// SetMinRNRTimer changes the time that RNR NAKs ask the other side to wait, 0 to 31 as in
// Config (IBA 11.2.5.2 lets a connection in RTS change it).
func (q *QP) SetMinRNRTimer(n uint8) error {
	if n > 31 {
		return fmt.Errorf("rc: MinRNRTimer %d, expected 0 to 31", n)
	}
	q.cfg.MinRNRTimer = n
	return nil
}
