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

// udQueue is the state of an unreliable datagram queue pair beside its send
// queue: no connection, no acknowledgement. A datagram completes as it is handed
// to the driver.
type udQueue struct {
	psn units.PSN
	to  Route // of the datagram in hand

	recvs    []udRecv // a ring
	first, n int
	sges     int
}

type udRecv struct {
	id  uint64
	sgl []verbs.SGE
}

func newUDQueue(depth, sges int) *udQueue {
	return &udQueue{recvs: make([]udRecv, depth), sges: sges}
}

func (u *udQueue) clear() { u.first, u.n = 0, 0 }

func (q *QP) postRecvUD(wrs []verbs.RecvWR) (int, error) {
	u := q.ud
	for i := range wrs {
		wr := &wrs[i]
		if len(wr.SGL) > u.sges {
			return i, verbs.Errorf("post_recv", q.object(), verbs.ErrInvalid, "%d pieces: the queue was made for %d", len(wr.SGL), u.sges)
		}
		if u.n == len(u.recvs) {
			return i, verbs.Errorf("post_recv", q.object(), verbs.ErrQueueFull, "it holds %d receives", u.n)
		}
		r := &u.recvs[(u.first+u.n)%len(u.recvs)]
		r.id = wr.WRID
		r.sgl = append(r.sgl[:0], wr.SGL...)
		u.n++
	}
	return len(wrs), nil
}

func (u *udQueue) take() *udRecv {
	r := &u.recvs[u.first]
	u.first = (u.first + 1) % len(u.recvs)
	u.n--
	return r
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
	case q.ud.n == 0:
		e.Counters.UDNoReceive++
		return
	}
	r := &q.ud.recvs[q.ud.first]
	room := 0
	for _, s := range r.sgl {
		room += int(s.Length)
	}
	if room < GRHBytes+len(in.payload) {
		// Dropped, so that no stranger can bring the queue pair down (IBA
		// 9.9.3.1.2, class E).
		e.Counters.UDTooLong++
		return
	}
	q.ud.take()
	wc := verbs.WC{
		WRID: r.id, Opcode: ib.WCRecv, Flags: verbs.WCGRH, ByteLen: uint32(GRHBytes + len(in.payload)),
		QPN: q.num, SrcQP: in.SrcQP, Timestamp: e.stamp,
	}
	if op.Operation() == ib.SendOnlyImm {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = in.Imm
	}
	e.writeGRH(p)
	if !e.scatter(q.pd, r.sgl, 0, e.grh[:]) || !e.scatter(q.pd, r.sgl, GRHBytes, in.payload) {
		e.Counters.LocalFaults++
		wc.Status = ib.WCLocProtErr
	}
	q.init.RecvCQ.push(&wc, ecn(p.TrafficClass) == roce.ECNCE, in.Solicited)
	if wc.Status != ib.WCSuccess {
		q.state = ib.Err
		q.flushUD()
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

// flushUD ends what is queued on a datagram queue pair in error.
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
	if q.state != ib.Err {
		return
	}
	for q.ud.n > 0 {
		r := q.ud.take()
		q.init.RecvCQ.push(&verbs.WC{
			WRID: r.id, Status: ib.WCWRFlushErr, Opcode: ib.WCRecv, QPN: q.num, Timestamp: q.e.stamp,
		}, false, false)
	}
}
