package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// datagrams reports whether it is a queue pair of unreliable datagrams.
func (q *QP) datagrams() bool { return q.service == ib.ServiceUD }

// toRTRDatagrams takes a queue pair to RTR that has no peer.
func (q *QP) toRTRDatagrams() error {
	t, err := rc.New(rc.Config{
		Type: ib.UD, MTU: units.Bytes(q.e.cfg.MTU), SendDepth: len(q.sq.parts), Recv: q.recv.queue, SharedRecv: q.init.SRQ != nil,
	})
	if err != nil {
		return q.bad(verbs.ErrInvalid, "%v", err)
	}
	q.rc, q.state = t, ib.RTR
	return nil
}

// direct writes to the headers in e.out where a datagram goes.
func (e *Endpoint) direct(q *QP, d *rc.Descriptor) {
	w := q.sq.at(q.sq.part(d.Slot).wr)
	q.to = w.to
	e.out.DestQP, e.out.QKey, e.out.SrcQP = w.qpn, w.qkey, q.num
}

// receiveDatagram takes a datagram to a UD queue pair.
func (e *Endpoint) receiveDatagram(now units.Time, q *QP, p *Packet, in *inbound) {
	switch {
	case in.Opcode.Service() != ib.ServiceUD:
		e.Counters.WrongService++
		return
	case q.rc == nil:
		e.Counters.NoQP++
		return
	case in.QKey != q.attr.QKey:
		e.Counters.BadQKey++
		return
	}
	q.rc.Receive(now, &in.Header, len(in.payload), &e.eff)
	switch e.eff.Drop {
	case rc.DropNone:
		e.writeGRH(p)
		e.marked = ecn(p.TrafficClass) == roce.ECNCE
	case rc.DropState:
		e.Counters.NoQP++
	case rc.DropNotReady:
		e.Counters.UDNoReceive++
	case rc.DropInvalid:
		e.Counters.UDTooLong++
	default:
		e.Counters.WrongService++
	}
	e.effects(now, q, in)
}

// placeRecv copies the payload to the posted receive; a datagram goes behind its
// header.
func (e *Endpoint) placeRecv(q *QP, in *inbound, p *rc.Place) bool {
	if !q.datagrams() {
		return e.scatter(q.pd, q.recv.list(p.Slot, in.Opcode, p.Length), p.Offset, in.payload[:p.Length])
	}
	sgl := q.recv.sgls[p.Slot]
	return e.scatter(q.pd, sgl, 0, e.grh[:]) && e.scatter(q.pd, sgl, rc.GRHBytes, in.payload[:p.Length-rc.GRHBytes])
}

// writeGRH rebuilds the header that the packet arrived with, from what the driver
// knows of it.
func (e *Endpoint) writeGRH(p *Packet) {
	g := &e.grh
	*g = [rc.GRHBytes]byte{}
	src, dst := p.Src.Addr(), e.cfg.GIDs[p.GID]
	length := len(p.Data) + roce.UDPBytes
	e.grhIPv4 = dst.Is4()
	if e.grhIPv4 {
		h := roce.IPv4Fields{
			TOS: p.TrafficClass, TotalLen: roce.IPv4Bytes + length, DontFragment: true, TTL: p.HopLimit, Src: src, Dst: dst,
		}
		h.Put(g[rc.GRHBytes-roce.IPv4Bytes:])
		return
	}
	h := roce.IPv6Fields{TrafficClass: p.TrafficClass, PayloadLen: length, HopLimit: p.HopLimit, Src: src, Dst: dst}
	h.Put(g[:])
}
