package rc

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
)

// Unreliable datagrams (IBA 9.8.3): every request is one packet to a place of its
// own, which the driver knows, and nothing is acknowledged or put in order.

// GRHBytes is the length of the header before a datagram's payload in a receive (IBA 11.4.2.1):
// the global route header, which over IPv4 is 20 bytes without meaning and the IPv4
// header (annex A17.4.5.2).
const GRHBytes = 40

// udOpcodes is the set of operations of datagrams.
const udOpcodes = 1<<ib.SendOnly | 1<<ib.SendOnlyImm

// QKey returns the Q_Key that a datagram carries: that of the request, or if its top
// bit is set, the queue pair's own (IBA 10.2.5).
func QKey(request, own uint32) uint32 {
	if request&(1<<31) != 0 {
		return own
	}
	return request
}

// isDatagram returns what is wrong with a request of a datagram queue pair, nil if
// nothing is.
func (q *QP) isDatagram(w *wqe) error {
	if w.Op != ib.WRSend && w.Op != ib.WRSendWithImm {
		return fmt.Errorf("rc: %v on a datagram queue pair, which has SEND, with or without immediate data", w.Op)
	}
	if int64(w.Length) > q.mtu {
		return fmt.Errorf("rc: a datagram of %d bytes, expected at most %d, one packet", w.Length, q.mtu)
	}
	return nil
}

// datagramLeft takes note that the datagram in slot has left, and reports whether
// requests are over by that: they are in the order of posting.
func (q *QP) datagramLeft(slot uint32) bool {
	q.wqes[slot].issued = true
	head := q.head
	for q.head != q.cur && q.wqes[q.head&q.wqeMask].issued {
		q.una = q.wqes[q.head&q.wqeMask].end
		q.head++
	}
	return q.head != head
}

// receiveDatagram takes a datagram whose Q_Key is the queue pair's.
func (q *QP) receiveDatagram(h *Header, payload int, eff *Effects) {
	if 1<<h.Opcode.Operation()&udOpcodes == 0 {
		eff.Drop = DropOpcode
		return
	}
	r, ok := q.cfg.Recv.peek()
	switch {
	case !ok:
		q.ctr.OutOfBuffer++
		eff.Drop = DropNotReady
		return
	case payload < 0 || int64(payload) > q.mtu || int64(r.Length) < int64(GRHBytes+payload):
		q.ctr.RespLocalLengthError++
		eff.Drop = DropInvalid
		return
	}
	q.takeRecv(eff)
	bytes := uint32(GRHBytes + payload)
	eff.Do |= DoPlace
	eff.Place = Place{Kind: PlaceRecv, Slot: q.recvSlot, Length: bytes}
	q.ctr.RxSendRequests++
	q.completeRecv(h, ib.WCRecv, bytes, eff)
}
