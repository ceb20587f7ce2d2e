package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

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
