package endpoint

import (
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// PD is a protection domain.
type PD struct {
	e     *Endpoint
	users int
	gone  bool
}

// AllocPD makes a protection domain.
func (e *Endpoint) AllocPD() (*PD, error) {
	if e.pds >= MaxPD {
		return nil, e.full("alloc_pd", "protection domains", MaxPD)
	}
	e.pds++
	return &PD{e: e}, nil
}

// full says that the device has as many objects of a kind as it states.
func (e *Endpoint) full(op, what string, most int) error {
	return verbs.Errorf(op, e.cfg.Name, verbs.ErrBusy, "the device has %d %s and takes no more", most, what)
}

// Close frees the protection domain.
func (p *PD) Close() error {
	if p.gone {
		return verbs.Errorf("dealloc_pd", p.e.cfg.Name, verbs.ErrClosed, "")
	}
	if p.users > 0 {
		return verbs.Errorf("dealloc_pd", p.e.cfg.Name, verbs.ErrBusy, "%d regions, queue pairs, SRQs and address handles made from it still exist", p.users)
	}
	p.gone = true
	p.e.pds--
	return nil
}

// MR is a memory region.
type MR struct {
	pd     *PD
	buf    []byte  // the memory; or
	other  foreign // that of another program
	base   uint64
	size   uint64
	key    uint32
	access ib.AccessFlags
	live   bool // false once its key is invalid
	gone   bool
	// windows is how many windows are bound to it.
	windows int
}

const pageBytes = 4096

// RegMR registers buf. Its key and its address come from the random source: an
// address reveals nothing about the program's memory, and an attacker has to guess
// both. The address has the buffer's offset within a page, so that data aligned in
// memory are aligned in the address too.
func (p *PD) RegMR(buf []byte, access ib.AccessFlags) (*MR, error) {
	m, err := p.newRegion(uint64(len(buf)), access)
	if err != nil {
		return nil, err
	}
	where, err := p.e.random()
	if err != nil {
		return nil, verbs.Errorf("reg_mr", p.e.cfg.Name, err, "no random address")
	}
	// From 2^32 to 2^62: small numbers are never addresses, and none wraps around.
	m.base = (1<<32 + where%(1<<61)) &^ (pageBytes - 1)
	m.base |= uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & (pageBytes - 1)
	m.buf = buf
	m.insert()
	return m, nil
}

// newRegion returns a region that has a key but is not in the table yet.
func (p *PD) newRegion(size uint64, access ib.AccessFlags) (*MR, error) {
	e := p.e
	switch {
	case p.gone:
		return nil, verbs.Errorf("reg_mr", e.cfg.Name, verbs.ErrClosed, "the protection domain is deallocated")
	case size == 0:
		return nil, verbs.Errorf("reg_mr", e.cfg.Name, verbs.ErrInvalid, "the buffer is empty")
	case size > MaxMRSize:
		return nil, verbs.Errorf("reg_mr", e.cfg.Name, verbs.ErrInvalid, "a region of %d bytes: up to %d", size, uint64(MaxMRSize))
	case e.regions.n >= MaxMR:
		return nil, e.full("reg_mr", "memory regions", MaxMR)
	}
	if err := e.checkAccess("reg_mr", access); err != nil {
		return nil, err
	}
	key, err := e.newKey()
	if err != nil {
		return nil, verbs.Errorf("reg_mr", e.cfg.Name, err, "no random key")
	}
	return &MR{pd: p, size: size, key: key, access: access}, nil
}

func (e *Endpoint) checkAccess(op string, access ib.AccessFlags) error {
	const remoteWrites = ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	const known = ib.AccessLocalWrite | remoteWrites | ib.AccessRemoteRead | ib.AccessRemoteInvalidate | ib.AccessMWBind
	switch {
	case access&^(known|ib.AccessHugeTLB) != 0:
		return verbs.Errorf(op, e.cfg.Name, verbs.ErrInvalid, "unknown access flags %#x, expected %v", uint32(access), known)
	case access&remoteWrites != 0 && access&ib.AccessLocalWrite == 0:
		return verbs.Errorf(op, e.cfg.Name, verbs.ErrInvalid, "access %v without LOCAL_WRITE: what the peer may write must be writable locally", access)
	}
	return nil
}

// insert makes the key valid.
func (m *MR) insert() {
	m.live = true
	m.pd.e.regions.put(m.key, m)
	m.pd.users++
}

// newKey draws a key that is not 0 and not in use.
func (e *Endpoint) newKey() (uint32, error) {
	for {
		r, err := e.random()
		if err != nil {
			return 0, err
		}
		if key := uint32(r); key != 0 && e.regions.get(key) == nil && e.windows.get(key>>8) == nil {
			return key, nil
		}
	}
}

// Addr is the address of the region's first byte.
func (m *MR) Addr() uint64 { return m.base }

// Length is the region's size in bytes.
func (m *MR) Length() int { return int(m.size) }

// Key is the region's L_Key and R_Key.
func (m *MR) Key() uint32 { return m.key }

// Access returns what the region was registered for.
func (m *MR) Access() ib.AccessFlags { return m.access }

// SetAccess changes what the region may be used for from now on. Its key and address stay.
func (m *MR) SetAccess(access ib.AccessFlags) error {
	if m.gone {
		return verbs.Errorf("rereg_mr", m.pd.e.cfg.Name, verbs.ErrClosed, "the region was deregistered before")
	}
	if err := m.pd.e.checkAccess("rereg_mr", access); err != nil {
		return err
	}
	m.access = access
	return nil
}

// Close makes the key invalid. No byte of the buffer is touched afterwards. It fails while
// windows are bound to the region.
func (m *MR) Close() error {
	if m.gone {
		return verbs.Errorf("dereg_mr", m.pd.e.cfg.Name, verbs.ErrClosed, "the region was deregistered before")
	}
	if m.windows > 0 {
		return verbs.Errorf("dereg_mr", m.pd.e.cfg.Name, verbs.ErrBusy, "%d memory windows are bound to it", m.windows)
	}
	m.invalidate()
	m.gone, m.buf, m.other = true, nil, foreign{}
	m.pd.users--
	return nil
}

// invalidate ends the key. The region still has to be deregistered.
func (m *MR) invalidate() {
	if m.live {
		m.live = false
		m.pd.e.regions.remove(m.key)
	}
}

// region returns the region if key, protection domain, access and bounds allow n
// bytes at addr.
func (e *Endpoint) region(key uint32, pd *PD, addr, n uint64, want ib.AccessFlags) *MR {
	m := e.regions.get(key)
	if m == nil || m.pd != pd || m.access&want != want {
		return nil
	}
	if addr < m.base || n > m.size || addr-m.base > m.size-n {
		return nil
	}
	return m
}

// at returns n bytes of the region from addr on, whose memory is the program's own.
// The caller has checked the bounds.
func (m *MR) at(addr uint64, n int) []byte {
	off := addr - m.base
	return m.buf[off : off+uint64(n) : off+uint64(n)]
}

// gather loads len(to) bytes from offset on of what the list names, and reports
// whether it may be read.
func (e *Endpoint) gather(pd *PD, sgl []verbs.SGE, offset uint32, to []byte) bool {
	for i := range sgl {
		if len(to) == 0 {
			break
		}
		s := &sgl[i]
		if offset >= s.Length {
			offset -= s.Length
			continue
		}
		n := min(int(s.Length-offset), len(to))
		m := e.region(s.LKey, pd, s.Addr+uint64(offset), uint64(n), 0)
		if m == nil || !e.load(to[:n], m, s.Addr+uint64(offset), int(s.Length-offset)-n) {
			return false
		}
		to, offset = to[n:], 0
	}
	return len(to) == 0
}

// scatter copies from to what the list names from offset on, and reports whether
// it may be written.
func (e *Endpoint) scatter(pd *PD, sgl []verbs.SGE, offset uint32, from []byte) bool {
	for i := range sgl {
		if len(from) == 0 {
			break
		}
		s := &sgl[i]
		if offset >= s.Length {
			offset -= s.Length
			continue
		}
		n := min(int(s.Length-offset), len(from))
		m := e.region(s.LKey, pd, s.Addr+uint64(offset), uint64(n), ib.AccessLocalWrite)
		if m == nil || !e.store(m, s.Addr+uint64(offset), from[:n]) {
			return false
		}
		from, offset = from[n:], 0
	}
	return len(from) == 0
}
