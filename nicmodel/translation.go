package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// TranslationConfig describes what the NIC has to know of memory for each
// piece of a payload, of a packet that it sends or receives: of the region, by its key
// (the drivers' MPT, or mkey), and where its pages lie (MTT). Both tables are in host
// memory, and on the chip too as StateConfig says. Pages' entries have 8 bytes and are read by cache lines of eight.
//
// A transfer whose entries are not on the chip waits for them, first the key's, then the
// pages', and so does the acknowledgement of what it brought, with those behind it. Others
// go on: only packets to send that are behind it in the packetiser, and
// writes to host memory, which are seen in order, wait with it. Queues need no entries: their
// pages are named by their contexts.
type TranslationConfig struct {
	// PageSize is that of the host's memory, a power of two from 4 KiB; 0 is 4 KiB.
	PageSize units.Bytes `yaml:"page_size"`
	// HugePageSize is that of regions registered with ib.AccessHugeTLB, as those of
	// scenarios are, a power of two from 4 KiB; 0 is 2 MiB.
	HugePageSize units.Bytes `yaml:"huge_page_size"`
}

const (
	leastPage     = 4 * units.KiB
	usualPage     = 4 * units.KiB
	usualHugePage = 2 * units.MiB
	mostPage      = units.Bytes(1) << 40
)

// pageSize returns the page size of a region with that access.
func (c *TranslationConfig) pageSize(access ib.AccessFlags) uint64 {
	size, usual := c.PageSize, usualPage
	if access&ib.AccessHugeTLB != 0 {
		size, usual = c.HugePageSize, usualHugePage
	}
	if size == 0 {
		size = usual
	}
	return uint64(size)
}

const (
	keyBytes  = 64
	pageBytes = 8
	perLine   = cacheLine / pageBytes
)

// translation looks up those entries.
type translation struct {
	*chip
	regions   *memory
	state     *state
	heldUntil units.Time // until when packets can't be taken, since too many entries are being read
}

func (x *translation) keyAddr(key uint32) uint64 {
	return keyTable + x.tables + uint64(key>>8)*keyBytes
}

// lines returns how many lines a region's pages take.
func (r *region) lines() int {
	pages := (r.length + r.page - 1) / r.page
	return int((pages + perLine - 1) / perLine)
}

// enter says that a region has been registered, of that page size.
func (x *translation) enter(key uint32, page uint64) {
	r := x.regions.region(key)
	r.page, r.table = page, pageTable+x.regions.tables
	lines := r.lines()
	x.regions.tables += uint64(lines) * cacheLine
	x.state.write(x.keyAddr(key), keyBytes)
	x.state.write(r.table, lines*cacheLine)
}

// forget takes a region away and reports whether its key was valid.
func (x *translation) forget(key uint32) bool {
	x.erase(key)
	return x.regions.deregister(key)
}

// invalidate ends a region's key and reports whether it was valid.
func (x *translation) invalidate(key uint32) bool {
	valid := x.erase(key)
	if valid {
		x.regions.invalidate(key)
	}
	return valid
}

// erase erases the translations of a region whose key is valid, and reports whether it is.
func (x *translation) erase(key uint32) bool {
	r := x.regions.region(key)
	if r == nil {
		return false
	}
	x.state.erase(x.keyAddr(key), keyBytes)
	x.state.erase(r.table, r.lines()*cacheLine)
	return true
}

// active reports whether translations may have to be waited for.
func (x *translation) active() bool { return x.state.full() }

// region returns when length bytes of a region, within its bounds, can be accessed
// that are needed at t. Translation is active. The first page begins at the region's address.
func (x *translation) region(t units.Time, r *region, addr, length uint64) units.Time {
	known, _ := x.state.need(t, entryKey, x.keyAddr(r.key), x.keyAddr(r.key), keyBytes)
	const line = perLine
	first, last := (addr-r.base)/r.page/line, (addr-r.base+max(length, 1)-1)/r.page/line
	done := known
	for i := first; i <= last; i++ {
		at := r.table + i*cacheLine
		ready, _ := x.state.need(t, entryPages, at, at, cacheLine)
		if known > t && ready > t { // read after the key
			ready = max(ready, known+x.pcie.alone(cacheLine))
		}
		done = max(done, ready)
	}
	return done
}

// list is region for the pieces of a list that hold length bytes from offset
// on. What may not be accessed takes no time.
func (x *translation) list(t units.Time, q *qp, sgl []SGE, offset uint32, length int) units.Time {
	done := t
	x.regions.walk(q.cfg.PD, sgl, offset, length, 0, func(r *region, addr, size uint64, _ int) {
		done = max(done, x.region(t, r, addr, size))
	})
	return done
}

// holdBack has what a queue pair answers wait for the translation of what it received, and
// receiving while no other could be read.
func (x *translation) holdBack(now units.Time, q *qp, known units.Time) {
	if known > now {
		q.translatedAt = known
		x.heldUntil = x.state.fetches.free(now)
	}
}

// translateSource is translation for the payload of a packet to send.
func (m *dma) translateSource(t units.Time, q *qp, d *rc.Descriptor) units.Time {
	if !m.translation.active() {
		return t
	}
	if d.Source != rc.SourceMemory {
		return m.translation.list(t, q, q.sq[d.Slot].sgl, d.Offset, d.Payload)
	}
	if r := m.regions.remote(q, d.RKey, d.VA, uint64(d.Payload), ib.AccessRemoteRead); r != nil {
		return m.translation.region(t, r, d.VA, uint64(d.Payload))
	}
	return t
}

// translateTarget is translation for a received payload.
func (m *dma) translateTarget(t units.Time, q *qp, p *rc.Place) units.Time {
	switch p.Kind {
	case rc.PlaceRecv:
		return m.translation.list(t, q, q.recv.wqes[p.Slot].sgl, p.Offset, int(p.Length))
	case rc.PlaceRead, rc.PlaceAtomic:
		return m.translation.list(t, q, q.sq[p.Slot].sgl, p.Offset, int(p.Length))
	}
	if r := m.regions.remote(q, p.RKey, p.VA, uint64(p.Length), ib.AccessRemoteWrite); r != nil {
		return m.translation.region(t, r, p.VA, uint64(p.Length))
	}
	return t
}
