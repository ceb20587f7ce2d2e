package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// address is a datagram's destination, and its Q_Key.
type address struct {
	peer Peer
	qkey uint32
}

// SetQKey sets the Q_Key that datagrams must carry to be received by a queue pair.
func (p *pairs) SetQKey(num, key uint32) { p.find(num).qkey = key }

// leftUnreliably reports to an unreliable queue pair that a packet is on the wire, which
// may complete its request: there will be no answer. The instant is that of its first
// bit. The data have been read, so the buffer is the host's again, and neither a pause
// nor a reset can stop the packet.
func (t *transport) leftUnreliably(now units.Time, q *qp, d *rc.Descriptor) {
	var eff rc.Effects
	if q.rc.Sent(d, &eff); eff.Do != 0 || eff.Events != 0 {
		t.carryOut(now, q, &eff, arrival{})
	}
	if room := t.completions.waiting.Free(now); room > now { // nothing else would keep requests from completing
		t.scheduler.hold(room, stage.StallPCIe)
	}
}

// Datagram is a NIC's knowledge of a received datagram.
type Datagram struct {
	Src   int32         // the host that sent it
	IPv6  bool          // it came by IPv6
	Frame *fabric.Frame // as it arrived; read-only, and valid during the call
}

// OnDatagram has f write the global route header of each datagram, which is zeros when f is
// called, and which nicmodel leaves so otherwise: it knows no addresses. It is not called for
// packets that have none (InfiniBand).
func (n *NIC) OnDatagram(f func(header *[rc.GRHBytes]byte, d Datagram)) { n.dma.writeGRH = f }

// placeDatagram moves a datagram to its receive, behind the room for the global route
// header, which the NIC writes if the packet has one. It returns false after telling the
// transport if that memory may not be written.
func (m *dma) placeDatagram(now units.Time, q *qp, eff *rc.Effects, f arrival) bool {
	p := &eff.Place
	payload := p.Length - rc.GRHBytes
	from, length := uint32(rc.GRHBytes), payload
	if m.HasGRH() {
		from, length = 0, p.Length
	}
	q.delivered.add(units.Bytes(payload), f.size)
	if length == 0 {
		return true
	}
	sgl := q.recv.wqes[p.Slot].sgl
	known := now
	if m.translation.Active() {
		known = m.translation.List(now, q.cfg.PD, sgl, from, int(length))
		m.translation.HoldBack(now, known)
		q.translated(now, known)
	}
	d := datagramPieces{
		landings: m.landings, visible: m.scatter(now, known, sgl, from, int(length)), payload: part{buffer: f.Buffer}, skip: int(rc.GRHBytes - from),
	}
	if d.skip > 0 && m.writeGRH != nil {
		var b []byte
		d.header.buffer, b = m.Frames.Payload(rc.GRHBytes)
		header := (*[rc.GRHBytes]byte)(b)
		clear(header[:])
		m.writeGRH(header, Datagram{Src: f.src, IPv6: f.IPv6, Frame: &f.Wire})
	}
	reached := true
	ok := m.regions.Walk(q.cfg.PD, sgl, from, int(length), ib.AccessLocalWrite, func(r *memory.Extent, addr, length uint64, at int) {
		if r.Other != nil && !r.Reaches(addr, length) {
			reached = false
			return
		}
		header := min(uint64(max(d.skip-at, 0)), length)
		d.put(r, addr, header, &d.header, at)
		d.put(r, addr+header, length-header, &d.payload, at+int(header)-d.skip)
	})
	if !d.header.end(m.landings) && d.header.buffer != 0 {
		m.Frames.GiveBack(d.header.buffer)
	}
	if d.payload.end(m.landings) {
		f.Buffer = 0
	}
	if ok = ok && reached; !ok {
		q.rc.FailRecv(now, ib.WCLocProtErr, eff)
	}
	return ok
}

// datagramPieces puts the pieces of a datagram to memory.
type datagramPieces struct {
	landings        *memory.Landings
	visible         units.Time
	header, payload part
	skip            int // bytes of header, which what is written begins with
}

// part is the header of a datagram, or its payload.
type part struct {
	buffer uint32 // 0 for zeros
	last   uint32 // the running count of its newest piece
	under  bool   // it has one
}

// put puts length bytes of a part, from offset on, to a region.
func (d *datagramPieces) put(r *memory.Extent, addr, length uint64, p *part, offset int) {
	if length == 0 {
		return
	}
	if r.Other != nil {
		d.landings.PutOther(d.visible, r, addr, length, p.buffer, offset)
	} else if b := r.At(addr, length); len(b) > 0 {
		d.landings.Put(d.visible, r.Key, b, p.buffer, offset)
	} else {
		return // a phantom
	}
	p.last, p.under = d.landings.Newest(), true
}

// end has the part's newest piece give its buffer back, and reports whether there is one.
func (p *part) end(l *memory.Landings) bool {
	if p.under {
		l.Own(p.last)
	}
	return p.under
}
