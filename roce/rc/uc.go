package rc

import (
	"github.com/sluice-rdma/sluice/ib"
)

// Unreliable connections (IBA 9.8): the same messages, cut and checked as on a
// reliable connection, but nothing is acknowledged. The requester is done with a
// packet as it leaves. The responder silently drops a message with an error or a
// gap, and goes on with the next.

// ucPast is the number of PSNs before the expected one that are taken for packets that the
// network has delayed or doubled. Any other PSN than the expected one is a gap.
const ucPast = 1 << 16

// ucOpcodes is the set of an unreliable connection's operations, ucStarts the subset that
// begins a message.
const (
	ucStarts = 1<<ib.SendFirst | 1<<ib.SendOnly | 1<<ib.SendOnlyImm |
		1<<ib.WriteFirst | 1<<ib.WriteOnly | 1<<ib.WriteOnlyImm
	ucOpcodes = ucStarts | 1<<ib.SendMiddle | 1<<ib.SendLast | 1<<ib.SendLastImm |
		1<<ib.WriteMiddle | 1<<ib.WriteLast | 1<<ib.WriteLastImm
)

// unreliable reports whether the queue pair is an unreliable connection, or one of
// datagrams: nothing is acknowledged.
func (q *QP) unreliable() bool { return q.service != ib.ServiceRC }

// receiveUnreliable takes a packet of an unreliable connection (IBA 9.8.3).
func (q *QP) receiveUnreliable(h *Header, payload int, eff *Effects) {
	if q.state == ib.RTR && !q.communicating {
		q.communicating = true
		eff.Events.add(ib.EventCommEst)
	}
	op := h.Opcode.Operation()
	p := near(h.PSN, q.expected)
	if p < q.expected && p >= q.expected-ucPast {
		q.ctr.DuplicateRequest++
		eff.Drop = DropDuplicate
		return
	}
	if p != q.expected {
		q.ctr.OutOfSequence++
		q.breakOff()
		q.expected = p
	}
	switch starts := 1<<op&ucStarts != 0; {
	case 1<<op&ucOpcodes == 0:
		q.dropMessage(DropOpcode, eff)
	case q.message == kindNone && !starts:
		q.dropMessage(DropSequence, eff) // the rest of a message that was dropped
	default:
		if starts {
			q.breakOff() // the message before ended without its last packet
		}
		q.receiveValid(h, payload, eff)
	}
}

// breakOff ends the message in hand. A receive that it held is for the next
// message that needs one.
func (q *QP) breakOff() {
	q.message, q.offset = kindNone, 0
}

// dropMessage drops the packet with the expected PSN, and with it its message.
func (q *QP) dropMessage(why Drop, eff *Effects) {
	eff.Drop = why
	q.breakOff()
	q.advanceExpected(1)
}

// refuseMessage drops the message that a reliable connection would answer with the
// syndrome given, and counts it like that.
func (q *QP) refuseMessage(syndrome uint8, eff *Effects) {
	if syndrome == SyndromeAccess {
		q.ctr.RespRemoteAccessErrors++
		q.dropMessage(DropAccess, eff)
		return
	}
	q.ctr.RespRemoteInvalidRequest++
	q.dropMessage(DropInvalid, eff)
}

// failUnreliable is FailRecv of an unreliable connection.
func (q *QP) failUnreliable(status ib.WCStatus, eff *Effects) {
	switch {
	case status == ib.WCRemAccessErr: // the key was deregistered in the middle of the message
		q.ctr.RespRemoteAccessErrors++
		q.breakOff()
		return
	case q.holds:
		q.recvStatus = status
	case q.service == ib.ServiceUD: // the completion of the datagram's receive says it
	default:
		eff.Events.add(ib.EventQPFatal)
	}
	q.enterErr(eff)
}

// Sent reports that the packet d of NextRequest has left, or is certain to: its
// payload was fetched. An unreliable connection waits for nothing else: the last
// packet of a request completes it (IBA 9.8.2), as the one packet of a datagram
// does. Packets are reported in the order of NextRequest, except that datagrams,
// which may go to different places, may be reported in any; they complete in the
// order of posting. Reliable connections, and packets that are not Fresh any more,
// are ignored.
func (q *QP) Sent(d *Descriptor, eff *Effects) {
	eff.reset()
	if !q.unreliable() || q.state == ib.Err || d.Source == SourceLocalInv || d.Source == SourceBindMW || !q.Fresh(d) {
		return
	}
	q.inflight -= int64(d.Payload)
	switch {
	case q.service == ib.ServiceUD:
		if !q.datagramLeft(d.Slot) {
			return // one before it is still to leave
		}
	case d.Last:
		q.una = near(d.Header.PSN, q.una) + 1
		q.retire()
	default:
		q.una = near(d.Header.PSN, q.una) + 1
		q.checkDrained(eff)
		return
	}
	eff.Do |= DoSend | DoComplete
	if q.head != q.tail && q.wqes[q.head&q.wqeMask].status != ib.WCSuccess {
		q.enterSQE(eff) // FailSend: those before it are done
	}
	q.checkDrained(eff)
}

// enterSQE ends the send queue alone, as a local error does on anything but a
// reliable connection (IBA 10.3.1.6): the responder goes on.
func (q *QP) enterSQE(eff *Effects) {
	eff.Do |= DoComplete
	q.state = ib.SQE
	q.epoch++
	q.inflight = 0
	q.flushSends()
}

// flushSends gives every request from head on its status.
func (q *QP) flushSends() {
	for ; q.head != q.tail; q.head++ {
		if w := &q.wqes[q.head&q.wqeMask]; w.status == ib.WCSuccess {
			w.status = ib.WCWRFlushErr
		}
	}
	q.cur = q.tail
	q.next = q.sent // what was described and may have left has its PSN
	q.una, q.posted, q.asked = q.next, q.next, q.next
}
