package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// address is where a datagram goes, and the Q_Key that it carries.
type address struct {
	peer Peer
	qkey uint32
}

// SetQKey sets the Q_Key that datagrams must carry to be received by a queue pair.
func (n *NIC) SetQKey(num, key uint32) { n.pairs.find(num).qkey = key }

// leftUnreliably reports to an unreliable queue pair that a packet is on the wire, which
// may complete its request: there will be no answer. The instant is that of its first
// bit. The data have been read, so the buffer is the host's again, and neither a pause
// nor a reset can stop the packet.
func (t *transport) leftUnreliably(now units.Time, q *qp, d *rc.Descriptor) {
	var eff rc.Effects
	if q.rc.Sent(d, &eff); eff.Do != 0 || eff.Events != 0 {
		t.carryOut(now, q, &eff, arrival{})
	}
	if room := t.completions.waiting.free(now); room > now { // nothing else would keep requests from completing
		t.scheduler.hold(room, StallPCIe)
	}
}

// hasGRH reports whether packets have a global route header: over Ethernet the IP
// header is the route header; packets within an InfiniBand subnet have none (IBA
// 8.3).
func (c *chip) hasGRH() bool { return c.cfg.Framing != fabric.InfiniBand }

// placeDatagram moves a datagram to its receive, behind the room for the global route
// header, which the NIC writes if the packet has one. The model knows no IP addresses,
// so that the header it writes is zeros. It returns false after telling the transport if
// that memory may not be written.
func (m *dma) placeDatagram(now units.Time, q *qp, eff *rc.Effects, f arrival) bool {
	p := &eff.Place
	payload := p.Length - rc.GRHBytes
	from, length := uint32(rc.GRHBytes), payload
	if m.hasGRH() {
		from, length = 0, p.Length
	}
	q.delivered.add(units.Bytes(payload), f.size)
	if length == 0 {
		return true
	}
	sgl := q.recv.wqes[p.Slot].sgl
	known := now
	if m.translation.active() {
		known = m.translation.list(now, q, sgl, from, int(length))
		m.translation.holdBack(now, q, known)
	}
	visible := m.scatter(now, known, sgl, from, int(length))
	skip := int(rc.GRHBytes - from) // of what is written, before the payload
	under, reached := false, true
	ok := m.regions.walk(q.cfg.PD, sgl, from, int(length), ib.AccessLocalWrite, func(r *region, addr, length uint64, at int) {
		if r.other != nil {
			if !r.reaches(addr, length) {
				reached = false
				return
			}
			under = m.putDatagram(visible, r, addr, length, f.buffer, at-skip) || under
			return
		}
		b := r.at(addr, length)
		header := min(max(skip-at, 0), len(b))
		if header > 0 {
			m.landings.put(visible, r.key, b[:header], 0, 0)
		}
		if b = b[header:]; len(b) > 0 {
			m.landings.put(visible, r.key, b, f.buffer, at+header-skip)
			under = true
		}
	})
	if under {
		m.landings.own()
		f.buffer = 0
	}
	if ok = ok && reached; !ok {
		q.rc.FailRecv(now, ib.WCLocProtErr, eff)
	}
	return ok
}

// putDatagram puts a piece of a datagram to a region of a Memory: zeros up to offset 0 of
// the payload, and reports whether there is payload in it.
func (m *dma) putDatagram(visible units.Time, r *region, addr, length uint64, buffer uint32, offset int) bool {
	if header := min(uint64(max(-offset, 0)), length); header > 0 {
		m.landings.putOther(visible, r, addr, header, 0, 0)
		addr, length, offset = addr+header, length-header, 0
	}
	if length > 0 {
		m.landings.putOther(visible, r, addr, length, buffer, offset)
	}
	return length > 0
}
