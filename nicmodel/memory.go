package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
)

// memory is the NIC's table of memory regions, indexed by key. A key's lower
// eight bits change with every use of its index, so that a stale key is not
// honoured.
type memory struct {
	regions []region // by key >> 8
	free    []uint32
	next    uint64 // address of the next region
	rings   uint64 // bytes of the host's queues, which lie above all regions
	tables  uint64 // bytes of the regions' translations
	peers   int    // regions in the peer device

	windows     []window // by key >> 8, less windowIndex
	freeWindows []uint32
}

type region struct {
	base, length uint64
	access       ib.AccessFlags
	pd           uint32
	key          uint32
	buf          []byte // nil for a phantom, and for memory that lies elsewhere
	other        Memory // where it lies then
	start        uint64 // the address there of the region's first byte
	page, table  uint64 // page size; where its translations lie
	peer         bool   // it lies in the peer device
	live         bool
	held         bool // its key is invalid, and its own until it is deregistered
}

const (
	firstAddress  = 1 << 32 // so that small numbers are never addresses
	addressGap    = 1 << 20 // between regions, so that an overrun meets nothing
	addressTop    = 1 << 62
	regionAlign   = 4096
	keyGeneration = 0xff
)

// Memory is memory that lies elsewhere, such as another program's. Values are compared
// (==): two regions of one Memory may overlap.
type Memory interface {
	// ReadMemory fills p with what lies at addr, or fails: then p holds anything.
	ReadMemory(p []byte, addr uint64) error
	// WriteMemory writes p to addr, or fails.
	WriteMemory(p []byte, addr uint64) error
}

// register adds a region; buf is nil for one that has an extent but no content.
func (m *memory) register(buf []byte, length uint64, access ib.AccessFlags, pd uint32) (region, error) {
	if m.next == 0 {
		m.next = firstAddress
	}
	if length > addressTop-m.next {
		return region{}, fmt.Errorf("a region of %d bytes is more than is left of the address space", length)
	}
	r, err := m.add(region{base: m.next, length: length, access: access, pd: pd, buf: buf})
	if err == nil {
		m.next += (length+regionAlign-1)/regionAlign*regionAlign + addressGap
	}
	return r, err
}

// add gives a region its key.
func (m *memory) add(r region) (region, error) {
	if r.length == 0 {
		return region{}, fmt.Errorf("a memory region needs at least one byte")
	}
	var i uint32
	if n := len(m.free); n > 0 {
		i, m.free = m.free[n-1], m.free[:n-1]
	} else {
		i = uint32(len(m.regions))
		// The first key of an index is not 0: that would be the zero value.
		m.regions = append(m.regions, region{key: (i+1)<<8 | 0x11})
	}
	r.key, r.live = m.regions[i].key, true
	m.regions[i] = r
	return r, nil
}

// reserve returns the address of a queue of so many bytes in host memory. It is not
// a region: it has no key.
func (m *memory) reserve(length uint64) uint64 {
	at := addressTop + m.rings
	m.rings += (length + regionAlign - 1) / regionAlign * regionAlign
	return at
}

// invalidate ends a region's key, which no other gets before the region is deregistered.
func (m *memory) invalidate(key uint32) {
	r := m.region(key)
	r.live, r.held = false, true
}

// deregister frees a region's key, and reports whether it was valid.
func (m *memory) deregister(key uint32) bool {
	i := key>>8 - 1
	if int(i) >= len(m.regions) || m.regions[i].key != key || !m.regions[i].live && !m.regions[i].held {
		return false
	}
	r := &m.regions[i]
	valid := r.live
	if r.peer {
		m.peers--
	}
	*r = region{key: key&^keyGeneration | (key+1)&keyGeneration}
	m.free = append(m.free, i)
	return valid
}

func (m *memory) region(key uint32) *region {
	i := key>>8 - 1
	if int(i) >= len(m.regions) || !m.regions[i].live || m.regions[i].key != key {
		return nil
	}
	return &m.regions[i]
}

// check returns the region if key, protection domain, access and bounds allow
// n bytes at addr.
func (m *memory) check(key, pd uint32, addr uint64, n uint64, want ib.AccessFlags) *region {
	r := m.region(key)
	if r == nil || r.pd != pd || r.access&want != want || addr < r.base || n > r.length || addr-r.base > r.length-n {
		return nil
	}
	return r
}

// elsewhere is where the region's byte at addr lies in its Memory.
func (r *region) elsewhere(addr uint64) uint64 { return r.start + (addr - r.base) }

// reaches reports whether the pages that hold n bytes from addr on can be read, of a region
// of a Memory.
func (r *region) reaches(addr, n uint64) bool {
	at := r.elsewhere(addr)
	for end := at + n; at < end; at = (at + regionAlign) &^ (regionAlign - 1) {
		var b [1]byte
		if r.other.ReadMemory(b[:], at) != nil {
			return false
		}
	}
	return true
}

// at returns n bytes of the region's content from addr on, or nil for a phantom and for
// what lies elsewhere. The caller has checked the bounds.
func (r *region) at(addr, n uint64) []byte {
	if r.buf == nil {
		return nil
	}
	off := addr - r.base
	return r.buf[off : off+n]
}
