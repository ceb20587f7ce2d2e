package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// GRHBytes is what a datagram's receive holds before the payload (IBA 11.4.2.1):
// the IPv6 header, or 20 bytes without meaning and the IPv4 header (annex
// A17.4.5.2).
const GRHBytes = 40

// udState is the state of an unreliable datagram queue pair beside its send
// queue: no connection, no acknowledgement. A datagram completes as it is handed
// to the driver.
type udState struct {
	psn units.PSN
	to  Route // of the datagram in hand
}

// nextDatagram writes the next datagram of a queue pair.
func (e *Endpoint) nextDatagram(now units.Time, q *QP, buf []byte) int {
	s := &q.sq
	if q.state != ib.RTS || s.fed == s.posted {
		return 0
	}
	w := s.at(s.fed)
	e.stamp = stampOf(now)
	q.ud.to = w.to
	e.out = roce.Packet{
		Header: rc.Header{Opcode: ib.ServiceUD | ib.SendOnly, PSN: q.ud.psn, Solicited: w.flags&verbs.SendSolicited != 0},
		DestQP: w.qpn, PKey: roce.DefaultPKey, QKey: w.qkey, SrcQP: q.num,
	}
	if w.op == ib.WRSendWithImm {
		e.out.Opcode, e.out.Imm = ib.ServiceUD|ib.SendOnlyImm, w.imm
	}
	n, payload := e.put(buf, int(w.length))
	ok := true
	if w.flags&verbs.SendInline != 0 {
		copy(payload, w.inline)
	} else {
		ok = e.gather(q.pd, w.sgl, 0, payload)
	}
	s.fed++
	s.freed++
	if !ok {
		// IBA 10.3.1.6: the send queue alone is in error.
		e.Counters.LocalFaults++
		q.completeSend(w, ib.WCLocProtErr)
		q.state = ib.SQE
		q.flushUD()
		return 0
	}
	q.ud.psn = q.ud.psn.Add(1)
	if w.signaled {
		q.completeSend(w, ib.WCSuccess)
	}
	return n
}

// receiveDatagram takes a datagram to a UD queue pair.
func (e *Endpoint) receiveDatagram(q *QP, p *Packet, in *inbound) {
	op := in.Opcode
	switch {
	case op != ib.ServiceUD|ib.SendOnly && op != ib.ServiceUD|ib.SendOnlyImm:
		e.Counters.WrongService++
		return
	case q.state != ib.RTR && q.state != ib.RTS && q.state != ib.SQE:
		e.Counters.NoQP++
		return
	case in.QKey != q.attr.QKey:
		e.Counters.BadQKey++
		return
	}
	r, ok := q.recv.queue.Peek()
	if !ok {
		e.Counters.UDNoReceive++
		return
	}
	if int64(r.Length) < int64(GRHBytes+len(in.payload)) || len(in.payload) > int(e.cfg.MTU) {
		// Dropped, so that no stranger can bring the queue pair down (IBA
		// 9.9.3.1.2, class E).
		e.Counters.UDTooLong++
		return
	}
	var events rc.EventSet
	slot, _, _ := q.recv.queue.Take(&events)
	wc := verbs.WC{
		WRID: r.ID, Opcode: ib.WCRecv, Flags: verbs.WCGRH, ByteLen: uint32(GRHBytes + len(in.payload)),
		QPN: q.num, SrcQP: in.SrcQP, Timestamp: e.stamp,
	}
	if op.Operation() == ib.SendOnlyImm {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = in.Imm
	}
	e.writeGRH(p)
	sgl := q.recv.sgls[slot]
	if !e.scatter(q.pd, sgl, 0, e.grh[:]) || !e.scatter(q.pd, sgl, GRHBytes, in.payload) {
		e.Counters.LocalFaults++
		wc.Status = ib.WCLocProtErr
	}
	q.recv.queue.Free(slot)
	q.init.RecvCQ.push(&wc, noticed{ecn: ecn(p.TrafficClass) == roce.ECNCE}, nil, in.Solicited)
	if events.Has(ib.EventSRQLimit) {
		e.raise(Event{Type: ib.EventSRQLimit, QP: q})
	}
	if wc.Status != ib.WCSuccess {
		q.failUD()
	}
}

// writeGRH makes the header that the packet came with from what the driver knows
// of it.
func (e *Endpoint) writeGRH(p *Packet) {
	g := &e.grh
	*g = [GRHBytes]byte{}
	src, dst := p.Src.Addr(), e.cfg.GIDs[p.GID]
	length := len(p.Data) + roce.UDPBytes
	if dst.Is4() {
		h := roce.IPv4Fields{
			TOS: p.TrafficClass, TotalLen: roce.IPv4Bytes + length, DontFragment: true, TTL: p.HopLimit, Src: src, Dst: dst,
		}
		h.Put(g[GRHBytes-roce.IPv4Bytes:])
		return
	}
	h := roce.IPv6Fields{TrafficClass: p.TrafficClass, PayloadLen: length, HopLimit: p.HopLimit, Src: src, Dst: dst}
	h.Put(g[:])
}

// failUD takes a datagram queue pair to the error state.
func (q *QP) failUD() {
	if q.state != ib.Err && q.init.SRQ != nil {
		q.e.raise(Event{Type: ib.EventQPLastWQE, QP: q})
	}
	q.state = ib.Err
	q.flushUD()
}

// flushUD ends what is queued on a datagram queue pair in error. What an SRQ holds
// stays there.
func (q *QP) flushUD() {
	s := &q.sq
	if q.state == ib.SQE || q.state == ib.Err {
		for s.fed != s.posted {
			w := s.at(s.fed)
			s.fed++
			s.freed++
			q.completeSend(w, ib.WCWRFlushErr)
		}
	}
	if q.state != ib.Err || q.init.SRQ != nil {
		return
	}
	var none rc.EventSet
	for {
		slot, r, ok := q.recv.queue.Take(&none)
		if !ok {
			return
		}
		q.recv.queue.Free(slot)
		q.init.RecvCQ.push(&verbs.WC{
			WRID: r.ID, Status: ib.WCWRFlushErr, Opcode: ib.WCRecv, QPN: q.num, Timestamp: q.e.stamp,
		}, noticed{}, nil, false)
	}
}
