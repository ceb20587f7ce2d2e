package nicmodel

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// dma moves payloads out of host memory and into it, and knows where they lie there and
// whether they may be read or written. Time and bytes are PCIe's, translations are the
// translation's; what is written appears in memory when the host sees it (landings).
type dma struct {
	*chip.Chip
	regions     *memory.Regions
	translation *memory.Translation
	landings    *memory.Landings
	buffer      *receiveBuffer
	writeGRH    func(header *[rc.GRHBytes]byte, d Datagram) // nil: it stays zeros
}

// allowed makes an access check for a queue pair.
func (m *dma) allowed(q *qp, c *rc.Check) bool {
	if c.Invalidate { // by the peer
		r := m.regions.Find(c.RKey)
		return (r == nil || r.Access&ib.AccessRemoteInvalidate != 0) && m.invalidate(q, c.RKey)
	}
	return m.regions.Remote(q.owner(), c.RKey, c.VA, uint64(c.Length), c.Access) != nil
}

// invalidate takes a key away, if that is a region's of the protection domain or a window's
// of the queue pair.
func (m *dma) invalidate(q *qp, key uint32) bool {
	r := m.regions.Find(key)
	if r == nil {
		return m.regions.Unbind(q.owner(), key)
	}
	return r.PD == q.cfg.PD && m.translation.Invalidate(key)
}

// gather checks and fetches the payload of a packet. inline says that the payload
// arrived with the work queue element and needs no further PCIe read.
func (m *dma) gather(q *qp, d *rc.Descriptor, f *frames.Frame) (inline, ok bool) {
	if d.Source == rc.SourceMemory {
		r := m.regions.Remote(q.owner(), d.RKey, d.VA, uint64(d.Payload), ib.AccessRemoteRead)
		if r == nil {
			return false, false
		}
		if r.Other != nil {
			var to []byte
			f.Buffer, to = m.Frames.Payload(d.Payload)
			return false, m.landings.ReadOther(to, r, d.VA)
		}
		if b := r.At(d.VA, uint64(d.Payload)); b != nil {
			var to []byte
			f.Buffer, to = m.Frames.Payload(d.Payload)
			m.landings.Read(to, b)
		}
		return false, true
	}
	w := &q.sq[d.Slot]
	if len(w.inline) > 0 {
		var to []byte
		f.Buffer, to = m.Frames.Payload(d.Payload)
		copy(to, w.inline[d.Offset:])
		return true, true
	}
	readable := true
	allowed := m.regions.Walk(q.cfg.PD, w.sgl, d.Offset, d.Payload, 0, func(r *memory.Extent, addr, length uint64, at int) {
		b := r.At(addr, length)
		if b == nil && r.Other == nil {
			return
		}
		if f.Buffer == 0 {
			f.Buffer, _ = m.Frames.Payload(d.Payload)
			clear(m.Frames.Bytes(f.Buffer)[:d.Payload])
		}
		to := m.Frames.Bytes(f.Buffer)[at:d.Payload]
		if b != nil {
			m.landings.Read(to, b)
		} else if !m.landings.ReadOther(to[:length], r, addr) {
			readable = false
		}
	})
	return false, allowed && readable
}

// place writes a received payload to where it belongs. It returns false after
// telling the transport if that memory may not be written.
func (m *dma) place(now units.Time, q *qp, eff *rc.Effects, f arrival) bool {
	if q.to != nil {
		return m.placeDatagram(now, q, eff, f)
	}
	p := &eff.Place
	known := now
	if m.translation.Active() {
		known = m.translateTarget(now, q, p)
		m.translation.HoldBack(now, known)
		q.translated(now, known)
	}
	visible := m.write(now, known, q, p)
	if p.Kind == rc.PlaceAtomic {
		if f.Buffer == 0 {
			f.Buffer, _ = m.Frames.Payload(8)
		}
		binary.LittleEndian.PutUint64(m.Frames.Bytes(f.Buffer), f.Desc.Header.Orig)
	} else {
		q.delivered.add(units.Bytes(p.Length), f.size)
	}
	under := false
	reached := true
	ok := m.visit(q, p, func(r *memory.Extent, addr, length uint64, at int) {
		if b := r.At(addr, length); len(b) > 0 {
			m.landings.Put(visible, r.Key, b, f.Buffer, at)
			under = true
		} else if r.Other != nil && length > 0 {
			if !r.Reaches(addr, length) {
				reached = false
				return
			}
			m.landings.PutOther(visible, r, addr, length, f.Buffer, at)
			under = true
		}
	})
	if under {
		m.landings.Own(m.landings.Newest())
		f.Buffer = 0
	}
	if ok && reached {
		return true
	}
	switch p.Kind {
	case rc.PlaceMemory:
		q.rc.FailRecv(now, ib.WCRemAccessErr, eff)
	case rc.PlaceRecv:
		q.rc.FailRecv(now, ib.WCLocProtErr, eff)
	case rc.PlaceRead, rc.PlaceAtomic:
		q.rc.FailSend(now, p.Slot, ib.WCLocProtErr, eff)
	}
	return false
}

// visit visits the pieces of memory that a received payload goes to, and reports whether
// all of them may be written.
func (m *dma) visit(q *qp, p *rc.Place, visit func(r *memory.Extent, addr, length uint64, at int)) bool {
	if p.Kind == rc.PlaceMemory {
		r := m.regions.Remote(q.owner(), p.RKey, p.VA, uint64(p.Length), ib.AccessRemoteWrite)
		if r != nil {
			visit(r, p.VA, uint64(p.Length), 0)
		}
		return r != nil
	}
	var sgl []memory.SGE
	if p.Kind == rc.PlaceRecv {
		sgl = q.recv.wqes[p.Slot].sgl
	} else {
		sgl = q.sq[p.Slot].sgl
	}
	return m.regions.Walk(q.cfg.PD, sgl, p.Offset, int(p.Length), ib.AccessLocalWrite, visit)
}

// translateSource is translation for the payload of a packet to send.
func (m *dma) translateSource(t units.Time, q *qp, d *rc.Descriptor) units.Time {
	if !m.translation.Active() {
		return t
	}
	if d.Source != rc.SourceMemory {
		return m.translation.List(t, q.cfg.PD, q.sq[d.Slot].sgl, d.Offset, d.Payload)
	}
	if r := m.regions.Remote(q.owner(), d.RKey, d.VA, uint64(d.Payload), ib.AccessRemoteRead); r != nil {
		return m.translation.Reach(t, r, d.VA, uint64(d.Payload))
	}
	return t
}

// translateTarget is translation for a received payload.
func (m *dma) translateTarget(t units.Time, q *qp, p *rc.Place) units.Time {
	switch p.Kind {
	case rc.PlaceRecv:
		return m.translation.List(t, q.cfg.PD, q.recv.wqes[p.Slot].sgl, p.Offset, int(p.Length))
	case rc.PlaceRead, rc.PlaceAtomic:
		return m.translation.List(t, q.cfg.PD, q.sq[p.Slot].sgl, p.Offset, int(p.Length))
	}
	if r := m.regions.Remote(q.owner(), p.RKey, p.VA, uint64(p.Length), ib.AccessRemoteWrite); r != nil {
		return m.translation.Reach(t, r, p.VA, uint64(p.Length))
	}
	return t
}

// A payload in several pieces of memory is a transfer on PCIe for each of them, with TLPs of its own:
// no request or completion holds bytes of two.

// read reads the payload of a packet from t on, and returns when it is in the NIC.
func (m *dma) read(t units.Time, q *qp, d *rc.Descriptor) (arrived units.Time) {
	if d.Source == rc.SourceMemory {
		return m.Link.ReadMemory(t, d.VA, d.Payload, pcie.ForPayload, m.regions.Peer(d.RKey))
	}
	sgl, offset, left := q.sq[d.Slot].sgl, d.Offset, d.Payload
	for left > 0 {
		key, addr, n := memory.Piece(sgl, offset, left)
		if n == 0 {
			break
		}
		arrived = max(arrived, m.Link.ReadMemory(t, addr, n, pcie.ForPayload, m.regions.Peer(key)))
		offset += uint32(n)
		left -= n
	}
	return arrived
}

// write writes a received payload, as soon as its translation is available, at known.
// It returns when the host sees all of it.
func (m *dma) write(now, known units.Time, q *qp, p *rc.Place) (visible units.Time) {
	switch p.Kind {
	case rc.PlaceRecv:
		return m.scatter(now, known, q.recv.wqes[p.Slot].sgl, p.Offset, int(p.Length))
	case rc.PlaceRead, rc.PlaceAtomic:
		return m.scatter(now, known, q.sq[p.Slot].sgl, p.Offset, int(p.Length))
	}
	return m.writePiece(now, known, p.VA, int(p.Length), m.regions.Peer(p.RKey))
}

// scatter writes length bytes to where those of a list from offset on lie.
func (m *dma) scatter(now, known units.Time, sgl []memory.SGE, offset uint32, length int) (visible units.Time) {
	for {
		key, addr, n := memory.Piece(sgl, offset, length)
		if n == 0 {
			addr, n = 0, length // past the end, which is an error that takes as long
		}
		visible = m.writePiece(now, known, addr, n, m.regions.Peer(key))
		offset += uint32(n)
		if length -= n; length <= 0 {
			return visible
		}
	}
}

func (m *dma) writePiece(now, known units.Time, addr uint64, n int, peer bool) (visible units.Time) {
	sent, visible := m.Link.WriteMemory(now, addr, n, pcie.ForPayload, peer)
	if known > now {
		sent += known - now
		visible = m.Link.Left(sent)
	}
	m.buffer.hold(sent)
	return visible
}
