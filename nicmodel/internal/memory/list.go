package memory

import "github.com/sluice-rdma/sluice/ib"

// SGE names a piece of registered memory.
type SGE struct {
	Addr   uint64
	Length uint32
	Key    uint32
}

// Piece returns where the bytes of a list from offset on lie, and how many there are in one piece, at
// most length. It returns 0 for n past the end.
func Piece(sgl []SGE, offset uint32, length int) (key uint32, addr uint64, n int) {
	for i := range sgl {
		e := &sgl[i]
		if offset < e.Length {
			return e.Key, e.Addr + uint64(offset), int(min(uint64(e.Length-offset), uint64(length)))
		}
		offset -= e.Length
	}
	return 0, 0, 0
}

// Walk visits the pieces of a scatter-gather list that hold length bytes from
// offset on, and reports whether all of them may be accessed so.
func (m *Regions) Walk(pd uint32, sgl []SGE, offset uint32, length int, want ib.AccessFlags, visit func(r *Extent, addr, length uint64, at int)) bool {
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

// Peer reports whether a key's region lies in a peer device.
func (m *Regions) Peer(key uint32) bool {
	if m.peers == 0 {
		return false
	}
	if r := m.Find(key); r != nil {
		return r.peer
	}
	w := m.boundWindow(key)
	return w != nil && m.Find(w.bound).peer
}
