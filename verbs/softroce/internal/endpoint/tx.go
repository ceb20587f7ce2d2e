package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Pending reports whether Next may have a packet.
func (e *Endpoint) Pending() bool { return e.gsi.n > 0 || e.ready.first != nil }

// Next writes the next packet to send to buf, from its Base Transport Header to the
// four bytes of the ICRC, which the driver fills in, since only the driver knows
// the IP header. It returns the length and the route, which is valid until the next
// call, or 0 when there is nothing to send. buf must hold MaxPacket bytes.
//
// Packets of one queue pair come in turns of up to 64.
func (e *Endpoint) Next(now units.Time, buf []byte) (int, *Route) {
	e.carried = Carried{}
	if e.gsi.n > 0 {
		n, to := e.nextMAD(buf)
		return e.sent(n), to
	}
	for q := e.ready.first; q != nil; q = e.ready.first {
		if q.ready.sent >= turn && e.ready.last != q {
			e.ready.remove(q)
			e.ready.push(q)
			continue
		}
		if n := e.nextOf(now, q, buf); n > 0 {
			q.ready.sent++
			to := &q.route
			if q.datagrams() {
				to = &q.to
			}
			return e.sent(n), to
		}
		e.ready.remove(q)
	}
	return 0, nil
}

func (e *Endpoint) sent(n int) int {
	e.Counters.TxPackets++
	e.Counters.TxBytes += uint64(n)
	return n
}

// nextOf writes the next packet of one queue pair: notifications first, then
// what it owes as a responder, then its requests.
func (e *Endpoint) nextOf(now units.Time, q *QP, buf []byte) int {
	if q.rc == nil {
		return 0
	}
	if q.congestion.cnpDue {
		return e.nextCNP(q, buf)
	}
	d := &e.desc
	for {
		if !q.rc.NextResponse(now, d) && !q.rc.NextRequest(now, d) {
			e.arm(q)
			return 0
		}
		if d.Source == rc.SourceLocalInv || d.Source == rc.SourceBindMW {
			e.changeKey(now, q, d)
			continue
		}
		e.out = roce.Packet{Header: d.Header, DestQP: q.destQPN, PKey: roce.DefaultPKey}
		if q.datagrams() {
			e.direct(q, d)
		}
		if q.congestion.echo && (d.Header.Opcode == ib.Acknowledge || d.Header.Opcode == ib.AtomicAcknowledge) {
			q.congestion.echo, e.out.BECN = false, true
		}
		if q.congestion.echoEIN && (d.Header.Opcode == ib.Acknowledge || d.Header.Opcode == ib.AtomicAcknowledge) {
			q.congestion.echoEIN, e.out.Reserved6 = false, telemetry.EINEcho
		}
		if e.asks(q, &d.Header) {
			e.out.Reserved6 |= roce.TurnaroundBit
		}
		if q.tells(&d.Header) {
			n := e.putTurnaround(now, q, buf)
			e.carry(q, d.Header.Opcode)
			e.arm(q)
			return n
		}
		n, payload := e.put(buf, d.Payload)
		if d.Payload > 0 && !e.fetch(now, q, d, payload) {
			continue
		}
		e.carry(q, d.Header.Opcode)
		if q.service != ib.ServiceRC {
			e.left(now, q, d)
		}
		e.arm(q)
		return n
	}
}

// left reports to an unreliable connection or datagram queue pair that a packet left,
// which may complete its request.
func (e *Endpoint) left(now units.Time, q *QP, d *rc.Descriptor) {
	if q.rc.Sent(d, &e.eff); e.eff.Do != 0 || e.eff.Events != 0 {
		e.effects(now, q, nil)
	}
}

// put writes the headers in e.out and the padding of n bytes of payload. It
// returns the packet's length and where its payload goes.
func (e *Endpoint) put(buf []byte, n int) (total int, payload []byte) {
	e.pieces = e.pieces[:0]
	e.out.Pad = roce.Pad(n)
	at := e.out.Put(buf)
	end := at + n
	end += roce.PutPad(buf[end:], e.out.Pad)
	return end + roce.ICRCBytes, buf[at : at+n]
}

// fetch loads the payload of a packet. It returns false after telling the
// transport that its memory may not be read.
func (e *Endpoint) fetch(now units.Time, q *QP, d *rc.Descriptor, to []byte) bool {
	if d.Source == rc.SourceMemory {
		m := e.remote(q, d.RKey, d.VA, uint64(d.Payload), ib.AccessRemoteRead)
		if m == nil || !e.load(to, m, d.VA, 0) {
			e.Counters.RemoteKeyFaults++
			q.rc.FailResponse(now, d, ib.WCRemAccessErr, &e.eff)
			e.effects(now, q, nil)
			return false
		}
		q.congestion.served, q.congestion.servedAt = true, now
		return true
	}
	p := q.sq.part(d.Slot)
	w := q.sq.at(p.wr)
	if w.flags&verbs.SendInline != 0 {
		copy(to, w.inline[d.Offset:])
		return true
	}
	if !e.gather(q.pd, w.sgl, d.Offset, to) {
		e.Counters.LocalFaults++
		e.stamp = e.stampOf(now)
		q.rc.FailSend(now, d.Slot, ib.WCLocProtErr, &e.eff)
		e.effects(now, q, nil)
		return false
	}
	return true
}

// changeKey carries out a local invalidate, or the bind of a window, whose turn has come.
func (e *Endpoint) changeKey(now units.Time, q *QP, d *rc.Descriptor) {
	e.stamp = e.stampOf(now)
	ok := false
	if d.Source == rc.SourceBindMW {
		ok = e.bind(q, q.sq.at(q.sq.part(d.Slot).wr))
	} else {
		ok = e.invalidate(q, d.Header.Imm, false)
	}
	if !ok {
		e.Counters.LocalFaults++
		q.rc.FailSend(now, d.Slot, ib.WCMWBindErr, &e.eff)
		e.effects(now, q, nil)
		return
	}
	e.reap(q)
	e.failOverrun(now)
}

// stampOf is the device's counter at an instant: nanoseconds.
func (e *Endpoint) stampOf(now units.Time) uint64 { return uint64(e.origin.Add(now).Duration()) }
