package endpoint

import (
	"encoding/binary"
	"math"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/verbs"
)

// foreign is memory of another program.
type foreign struct {
	memory verbs.Memory       // nil for none
	vector verbs.VectorMemory // memory, if it is one
	start  uint64             // where the region begins in it
}

// RegMemory registers length bytes of another program's memory from addr on, as a
// region that begins at iova. The page offsets of both have to be the same, as Linux
// requires it, so that what is aligned in one is aligned in the other.
func (p *PD) RegMemory(memory verbs.Memory, addr, length, iova uint64, access ib.AccessFlags) (*MR, error) {
	name := p.e.cfg.Name
	switch {
	case memory == nil:
		return nil, verbs.Errorf("reg_mr", name, verbs.ErrInvalid, "no memory given")
	case length > math.MaxInt64 || addr+length < addr || iova+length < iova:
		return nil, verbs.Errorf("reg_mr", name, verbs.ErrInvalid, "%d bytes from %#x on, or from iova %#x on, pass the end of the address space", length, addr, iova)
	case (addr^iova)&(pageBytes-1) != 0:
		return nil, verbs.Errorf("reg_mr", name, verbs.ErrInvalid, "address %#x and iova %#x differ in their offset within a page", addr, iova)
	}
	m, err := p.newRegion(length, access)
	if err != nil {
		return nil, err
	}
	m.base, m.other = iova, foreign{memory: memory, start: addr}
	m.other.vector, _ = memory.(verbs.VectorMemory)
	m.insert()
	return m, nil
}

// elsewhere is where the region's byte at addr lies in the memory of the other program.
func (m *MR) elsewhere(addr uint64) uint64 { return m.other.start + (addr - m.base) }

// atomicElsewhere performs an atomic operation on another program's memory, atomic among
// those of this device (IBV_ATOMIC_HCA). It returns what was there, and reports whether
// the memory could be read, and written if that was due.
func (e *Endpoint) atomicElsewhere(m *MR, a *rc.Atomic) (orig uint64, ok bool) {
	word, addr := e.orig[:], m.elsewhere(a.VA)
	if m.other.memory.ReadMemory(word, addr) != nil {
		return 0, false
	}
	orig = binary.NativeEndian.Uint64(word)
	next := a.Swap
	switch {
	case a.Op == ib.FetchAdd:
		next += orig
	case orig != a.Compare:
		return orig, true // what the program stores meanwhile stays
	}
	binary.NativeEndian.PutUint64(word, next)
	return orig, m.other.memory.WriteMemory(word, addr) == nil
}
