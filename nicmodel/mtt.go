package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// TranslationConfig describes the caches of what the NIC has to know of memory for each
// piece of a payload, of a packet that it sends or receives: of the region, by its key
// (the drivers' MPT, or mkey), and where its pages lie (MTT). Both tables are in host
// memory. Pages' entries have 8 bytes and are read by cache lines of eight.
//
// A transfer whose entries are not on the chip waits for them, first the key's, then the
// pages', and so does the acknowledgement of what it brought, with those behind it. Others
// go on: only packets to send that are behind it in the packetiser, and
// writes to host memory, which are seen in order, wait with it. If as many entries are
// being read as can be, receiving stops until that changes. Queues need no entries: their
// pages are named by their contexts.
type TranslationConfig struct {
	// Keys is how many regions' entries are on the chip, of which the least recently
	// used goes; 0 is no limit.
	Keys int `yaml:"keys"`
	// Lines is how many lines of eight pages' entries are; 0 is no limit.
	Lines int `yaml:"lines"`
	// Fetches is how many of both are read at a time; 0 is no limit.
	Fetches int `yaml:"fetches"`
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

// Where the tables lie, above all regions and queues.
const (
	keyTable  = contextTable + 1<<59
	pageTable = keyTable + 1<<58

	keyBytes  = 64
	pageBytes = 8
	perLine   = cacheLine / pageBytes
)

func newTranslation(c TranslationConfig) (keys, pages icm) {
	fetches := make(inflight, c.Fetches)
	one := icm{bytes: cacheLine, fetches: &fetches, why: ForTranslation}
	keys, pages = one, one
	keys.name, keys.capacity = "keys", c.Keys
	pages.name, pages.capacity = "pages", c.Lines
	return keys, pages
}

func keyAddr(key uint32) uint64 { return keyTable + uint64(key>>8)*keyBytes }

// lines returns how many lines a region's pages take.
func (r *region) lines() int {
	pages := (r.length + r.page - 1) / r.page
	return int((pages + perLine - 1) / perLine)
}

// enter says that a region has been registered, of that page size.
func (n *NIC) enter(key uint32, page uint64) {
	r := n.mem.region(key)
	r.page, r.table = page, pageTable+n.mem.tables
	lines := r.lines()
	n.mem.tables += uint64(lines) * cacheLine
	n.keys.add(keyAddr(key), 1)
	n.pages.add(r.table, lines)
}

// forget takes a region away and reports whether there was one.
func (n *NIC) forget(key uint32) bool {
	if r := n.mem.region(key); r != nil {
		n.keys.drop(keyAddr(key), 1)
		n.pages.drop(r.table, r.lines())
	}
	return n.mem.deregister(key)
}

// translates reports whether translations may have to be waited for.
func (n *NIC) translates() bool { return n.keys.full() || n.pages.full() }

// translate returns when length bytes of a region, which it has, can be accessed that
// are to be at t. The region is as its address is: the first page begins with it.
func (n *NIC) translate(t units.Time, r *region, addr, length uint64) units.Time {
	known := t
	if n.keys.full() {
		known, _ = n.keys.need(n.pcie, t, keyAddr(r.key))
	}
	if !n.pages.full() {
		return known
	}
	const line = perLine
	first, last := (addr-r.base)/r.page/line, (addr-r.base+max(length, 1)-1)/r.page/line
	done := known
	for i := first; i <= last; i++ {
		ready, _ := n.pages.need(n.pcie, t, r.table+i*cacheLine)
		if known > t && ready > t { // read after the key
			ready = max(ready, known+n.pcie.alone(cacheLine))
		}
		done = max(done, ready)
	}
	return done
}

// translateSGL is translate for the pieces of a list that hold length bytes from offset
// on. What may not be accessed takes no time.
func (n *NIC) translateSGL(t units.Time, q *qp, sgl []SGE, offset uint32, length int) units.Time {
	done := t
	n.walk(q, sgl, offset, length, 0, func(r *region, addr, size uint64, _ int) {
		done = max(done, n.translate(t, r, addr, size))
	})
	return done
}

// holdBack has what a queue pair answers wait for the translation of what it received, and
// receiving while no other could be read.
func (n *NIC) holdBack(now units.Time, q *qp, known units.Time) {
	if known > now {
		q.translatedAt = known
		n.rxHeld = n.keys.fetches.free(now)
	}
}

// writePayload writes what has been received, as soon as its translation is at hand, at
// known. It returns when the host sees it.
func (n *NIC) writePayload(now, known units.Time, addr uint64, length int) units.Time {
	sent, visible := n.pcie.Write(now, addr, length, ForPayload)
	if known > now {
		visible = n.pcie.left(sent + known - now)
	}
	return visible
}

// translateSource is translate for the payload of a packet to send.
func (n *NIC) translateSource(t units.Time, q *qp, d *rc.Descriptor) units.Time {
	if d.Source != rc.SourceMemory {
		return n.translateSGL(t, q, q.sq[d.Slot].sgl, d.Offset, d.Payload)
	}
	if r := n.mem.region(d.RKey); r != nil {
		return n.translate(t, r, d.VA, uint64(d.Payload))
	}
	return t
}

// translateTarget is translate for a received payload.
func (n *NIC) translateTarget(t units.Time, q *qp, p *rc.Place) units.Time {
	switch p.Kind {
	case rc.PlaceRecv:
		return n.translateSGL(t, q, q.recv.wqes[p.Slot].sgl, p.Offset, int(p.Length))
	case rc.PlaceRead, rc.PlaceAtomic:
		return n.translateSGL(t, q, q.sq[p.Slot].sgl, p.Offset, int(p.Length))
	}
	if r := n.mem.check(p.RKey, q.cfg.PD, p.VA, uint64(p.Length), ib.AccessRemoteWrite); r != nil {
		return n.translate(t, r, p.VA, uint64(p.Length))
	}
	return t
}
