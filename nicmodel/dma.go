package nicmodel

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// dma moves payloads out of host memory and into it, and knows where they lie there and
// whether they may be read or written. Time and bytes are PCIe's, translations are the
// translation's; what is written appears in memory when the host sees it (landings).
type dma struct {
	*chip
	regions     *memory
	translation *translation
	landings    *landings
	buffer      *receiveBuffer
	writeGRH    func(header *[rc.GRHBytes]byte, d Datagram) // nil: it stays zeros
}

// allowed makes an access check for a queue pair.
func (m *dma) allowed(q *qp, c *rc.Check) bool {
	if c.Invalidate { // by the peer
		r := m.regions.region(c.RKey)
		return (r == nil || r.access&ib.AccessRemoteInvalidate != 0) && m.invalidate(q, c.RKey)
	}
	return m.regions.remote(q, c.RKey, c.VA, uint64(c.Length), c.Access) != nil
}

// invalidate takes a key away, if that is a region's of the protection domain or a window's
// of the queue pair.
func (m *dma) invalidate(q *qp, key uint32) bool {
	r := m.regions.region(key)
	if r == nil {
		return m.regions.unbind(q, key)
	}
	return r.pd == q.cfg.PD && m.translation.invalidate(key)
}

// gather checks and fetches the payload of a packet. inline says that the payload
// arrived with the work queue element and needs no further PCIe read.
func (m *dma) gather(q *qp, d *rc.Descriptor, f *frame) (inline, ok bool) {
	if d.Source == rc.SourceMemory {
		r := m.regions.remote(q, d.RKey, d.VA, uint64(d.Payload), ib.AccessRemoteRead)
		if r == nil {
			return false, false
		}
		if r.other != nil {
			var to []byte
			f.buffer, to = m.frames.payload(d.Payload)
			return false, m.landings.readOther(to, r, d.VA)
		}
		if b := r.at(d.VA, uint64(d.Payload)); b != nil {
			var to []byte
			f.buffer, to = m.frames.payload(d.Payload)
			m.landings.read(to, b)
		}
		return false, true
	}
	w := &q.sq[d.Slot]
	if len(w.inline) > 0 {
		var to []byte
		f.buffer, to = m.frames.payload(d.Payload)
		copy(to, w.inline[d.Offset:])
		return true, true
	}
	readable := true
	allowed := m.regions.walk(q.cfg.PD, w.sgl, d.Offset, d.Payload, 0, func(r *region, addr, length uint64, at int) {
		b := r.at(addr, length)
		if b == nil && r.other == nil {
			return
		}
		if f.buffer == 0 {
			f.buffer, _ = m.frames.payload(d.Payload)
			clear(m.frames.bytes(f.buffer)[:d.Payload])
		}
		to := m.frames.bytes(f.buffer)[at:d.Payload]
		if b != nil {
			m.landings.read(to, b)
		} else if !m.landings.readOther(to[:length], r, addr) {
			readable = false
		}
	})
	return false, allowed && readable
}

// walk visits the pieces of a scatter-gather list that hold length bytes from
// offset on, and reports whether all of them may be accessed so.
func (m *memory) walk(pd uint32, sgl []SGE, offset uint32, length int, want ib.AccessFlags, visit func(r *region, addr, length uint64, at int)) bool {
	at := 0
	for i := range sgl {
		e := &sgl[i]
		if offset >= e.Length {
			offset -= e.Length
			continue
		}
		take := min(uint64(e.Length-offset), uint64(length-at))
		r := m.check(e.Key, pd, e.Addr+uint64(offset), take, want)
		if r == nil {
			return false
		}
		visit(r, e.Addr+uint64(offset), take, at)
		at += int(take)
		offset = 0
		if at == length {
			return true
		}
	}
	return at == length
}

// place writes a received payload to where it belongs. It returns false after
// telling the transport if that memory may not be written.
func (m *dma) place(now units.Time, q *qp, eff *rc.Effects, f arrival) bool {
	if q.to != nil {
		return m.placeDatagram(now, q, eff, f)
	}
	p := &eff.Place
	known := now
	if m.translation.active() {
		known = m.translateTarget(now, q, p)
		m.translation.holdBack(now, q, known)
	}
	visible := m.write(now, known, q, p)
	if p.Kind == rc.PlaceAtomic {
		if f.buffer == 0 {
			f.buffer, _ = m.frames.payload(8)
		}
		binary.LittleEndian.PutUint64(m.frames.bytes(f.buffer), f.desc.Header.Orig)
	} else {
		q.delivered.add(units.Bytes(p.Length), f.size)
	}
	under := false
	reached := true
	ok := m.visit(q, p, func(r *region, addr, length uint64, at int) {
		if b := r.at(addr, length); len(b) > 0 {
			m.landings.put(visible, r.key, b, f.buffer, at)
			under = true
		} else if r.other != nil && length > 0 {
			if !r.reaches(addr, length) {
				reached = false
				return
			}
			m.landings.putOther(visible, r, addr, length, f.buffer, at)
			under = true
		}
	})
	if under {
		m.landings.own()
		f.buffer = 0
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
func (m *dma) visit(q *qp, p *rc.Place, visit func(r *region, addr, length uint64, at int)) bool {
	if p.Kind == rc.PlaceMemory {
		r := m.regions.remote(q, p.RKey, p.VA, uint64(p.Length), ib.AccessRemoteWrite)
		if r != nil {
			visit(r, p.VA, uint64(p.Length), 0)
		}
		return r != nil
	}
	var sgl []SGE
	if p.Kind == rc.PlaceRecv {
		sgl = q.recv.wqes[p.Slot].sgl
	} else {
		sgl = q.sq[p.Slot].sgl
	}
	return m.regions.walk(q.cfg.PD, sgl, p.Offset, int(p.Length), ib.AccessLocalWrite, visit)
}
