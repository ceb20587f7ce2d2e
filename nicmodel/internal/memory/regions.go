package memory

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
)

// Regions is the NIC's table of memory regions, indexed by key. A key's lower
// eight bits change with every use of its index, so that a stale key is not
// honoured.
type Regions struct {
	regions []Extent // by key >> 8
	free    []uint32
	next    uint64 // address of the next region
	rings   uint64 // bytes of the host's queues, which lie above all regions
	tables  uint64 // bytes of the regions' translations
	peers   int    // regions in the peer device

	windows     []window // by key >> 8, less windowIndex
	freeWindows []uint32
}

// Extent is a region as the NIC has it.
type Extent struct {
	base, length uint64
	Access       ib.AccessFlags
	PD           uint32
	Key          uint32
	buf          []byte // nil for a phantom, and for memory that lies elsewhere
	Other        Memory // where it lies then
	start        uint64 // the address there of the region's first byte
	page, table  uint64 // page size; where its translations lie
	peer         bool   // it lies in the peer device
	live         bool
	held         bool // its key is invalid, and its own until it is deregistered
}

const (
	firstAddress  = 1 << 32 // so that small numbers are never addresses
	addressGap    = 1 << 20 // between regions, so that an overrun meets nothing
	regionAlign   = 4096
	keyGeneration = 0xff
)

// OfSecondPort are those of a NIC's second port, whose addresses are apart from the first's.
func OfSecondPort() Regions {
	return Regions{next: firstAddress + icm.PortAddresses, rings: icm.PortTables, tables: icm.PortTables}
}

// Memory is memory that lies elsewhere, such as another program's. Values are compared
// (==): two regions of one Memory may overlap.
type Memory interface {
	// ReadMemory fills p with what lies at addr, or fails: then p holds anything.
	ReadMemory(p []byte, addr uint64) error
	// WriteMemory writes p to addr, or fails.
	WriteMemory(p []byte, addr uint64) error
}

// register adds a region; buf is nil for one that has an extent but no content.
func (m *Regions) register(buf []byte, length uint64, access ib.AccessFlags, pd uint32) (Extent, error) {
	if m.next == 0 {
		m.next = firstAddress
	}
	if length > icm.AddressTop-m.next {
		return Extent{}, fmt.Errorf("a region of %d bytes is more than is left of the address space", length)
	}
	r, err := m.add(Extent{base: m.next, length: length, Access: access, PD: pd, buf: buf})
	if err == nil {
		m.next += (length+regionAlign-1)/regionAlign*regionAlign + addressGap
	}
	return r, err
}

// add gives a region its key.
func (m *Regions) add(r Extent) (Extent, error) {
	if r.length == 0 {
		return Extent{}, fmt.Errorf("a memory region needs at least one byte")
	}
	var i uint32
	if n := len(m.free); n > 0 {
		i, m.free = m.free[n-1], m.free[:n-1]
	} else {
		i = uint32(len(m.regions))
		// The first key of an index is not 0: that would be the zero value.
		m.regions = append(m.regions, Extent{Key: (i+1)<<8 | 0x11})
	}
	r.Key, r.live = m.regions[i].Key, true
	m.regions[i] = r
	return r, nil
}

// Reserve returns the address of a queue of length bytes in host memory. It is not
// a region: it has no key.
func (m *Regions) Reserve(length uint64) uint64 {
	at := icm.AddressTop + m.rings
	m.rings += (length + regionAlign - 1) / regionAlign * regionAlign
	return at
}

// invalidate ends a region's key, which no other gets before the region is deregistered.
func (m *Regions) invalidate(key uint32) {
	r := m.Find(key)
	r.live, r.held = false, true
}

// deregister frees a region's key, and reports whether it was valid.
func (m *Regions) deregister(key uint32) bool {
	i := key>>8 - 1
	if int(i) >= len(m.regions) || m.regions[i].Key != key || !m.regions[i].live && !m.regions[i].held {
		return false
	}
	r := &m.regions[i]
	valid := r.live
	if r.peer {
		m.peers--
	}
	*r = Extent{Key: key&^keyGeneration | (key+1)&keyGeneration}
	m.free = append(m.free, i)
	return valid
}

// Find returns the region of a key, or nil.
func (m *Regions) Find(key uint32) *Extent {
	i := key>>8 - 1
	if int(i) >= len(m.regions) || !m.regions[i].live || m.regions[i].Key != key {
		return nil
	}
	return &m.regions[i]
}

// check returns the region if key, protection domain, access and bounds allow
// n bytes at addr.
func (m *Regions) check(key, pd uint32, addr uint64, n uint64, want ib.AccessFlags) *Extent {
	r := m.Find(key)
	if r == nil || r.PD != pd || r.Access&want != want || addr < r.base || n > r.length || addr-r.base > r.length-n {
		return nil
	}
	return r
}

// elsewhere returns the address in the region's Memory of its byte at addr.
func (r *Extent) elsewhere(addr uint64) uint64 { return r.start + (addr - r.base) }

// Reaches reports whether the pages that hold n bytes from addr on can be read, of a region
// of a Memory.
func (r *Extent) Reaches(addr, n uint64) bool {
	at := r.elsewhere(addr)
	for end := at + n; at < end; at = (at + regionAlign) &^ (regionAlign - 1) {
		var b [1]byte
		if r.Other.ReadMemory(b[:], at) != nil {
			return false
		}
	}
	return true
}

// At returns n bytes of the region's content from addr on, or nil for a phantom and for
// what lies elsewhere. The caller has checked the bounds.
func (r *Extent) At(addr, n uint64) []byte {
	if r.buf == nil {
		return nil
	}
	off := addr - r.base
	return r.buf[off : off+n]
}
