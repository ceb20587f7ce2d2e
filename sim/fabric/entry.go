package fabric

import (
	"unsafe"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// entry is a packet on a link or in a queue: all of it that a switch reads, by
// value, so that a hop touches no slab. Its slot of the slab is written when it
// reaches a host. It is three words, read and changed by shifts: networks are slower by a
// tenth for a fourth one, which is more to fetch.
type entry struct {
	when uint64 // on a link, of arrival; in a queue, of entry; below atShift, see below
	name uint64 // Handle and what follows below
	to   uint64 // host, and from hashShift on the flow's hash; from hopsShift on switches passed
}

// In entry.when there are telemetry, as in entry.tel, and the priority before the time's low
// 54 bits: it is one within two and a half hours of now. In entry.name there follow the Handle the number of the
// port by which the packet entered the switch that it waits in; Flags; and the size.
const (
	prioShift = 7
	atShift   = 10
	belowAt   = 1<<atShift - 1

	handleBits = 25 // as maxBlocks allows
	inShift    = handleBits
	flagsShift = inShift + 16
	flagsMask  = 15
	sizeShift  = 47
	maxSize    = 1<<(64-sizeShift) - 1 - telemetry.MaxINTBytes

	hostBits  = 24
	hashShift = hostBits
	hopsShift = hashShift + 32
)

// severed marks an entry on a link that was cut before the entry arrived. It takes the
// place of the port of entry; no switch has that many ports.
const severed = 1<<16 - 1

// Of entry.tel: the telemetry.Kind in two bits, how many records the packet has in
// four, and overflow.
const (
	telMask      = 1<<prioShift - 1
	kindMask     = 3
	recordsShift = 2
	recordOne    = 1 << recordsShift
	recordsMask  = 15 << recordsShift
	overflowBit  = 1 << 6
)

func newEntry(h Handle, f *Frame) entry {
	return entry{
		when: uint64(uint8(f.Telemetry)&kindMask|f.records) | uint64(f.Priority)<<prioShift,
		name: uint64(h) | uint64(f.Flags&flagsMask)<<flagsShift | uint64(uint32(f.Size))<<sizeShift,
		to:   uint64(uint32(f.Dst)) | uint64(f.FlowHash)<<hashShift | uint64(f.Hops)<<hopsShift,
	}
}

// frame is the inverse of newEntry, without MaxDelay.
func (e *entry) frame() Frame {
	return Frame{
		Size: e.size(), Dst: int32(e.dst()), FlowHash: e.hash(), Priority: uint8(e.prio()), Flags: e.flags(),
		Telemetry: telemetry.Kind(e.when & kindMask), Hops: e.hops(), records: e.tel() &^ kindMask,
	}
}

// at returns the time in an entry, by what time it is about.
func (e *entry) at(now units.Time) units.Time {
	return now + units.Time(int64(e.when-uint64(now)<<atShift)>>atShift)
}

func (e *entry) setAt(at units.Time) { e.when = e.when&belowAt | uint64(at)<<atShift }
func (e *entry) prio() uint32        { return uint32(e.when >> prioShift & 7) }
func (e *entry) tel() uint8          { return uint8(e.when & telMask) }
func (e *entry) handle() Handle      { return Handle(e.name & (1<<handleBits - 1)) }
func (e *entry) in() uint32          { return uint32(uint16(e.name >> inShift)) }
func (e *entry) enter(in uint32)     { e.name = e.name&^(0xffff<<inShift) | uint64(in)<<inShift }
func (e *entry) flags() Flags        { return Flags(e.name >> flagsShift & flagsMask) }
func (e *entry) size() int32         { return int32(e.name >> sizeShift) }
func (e *entry) dst() uint32         { return uint32(e.to & (1<<hostBits - 1)) }
func (e *entry) hash() uint32        { return uint32(e.to >> hashShift) }
func (e *entry) hops() uint8         { return uint8(e.to >> hopsShift) }

// chunkEntries is the number of entries a chunk holds: 21 and what is behind them are
// eight cache lines.
const chunkEntries = 21

// chunk is a piece of a FIFO of entries. What names the next one shares a cache line
// with the last entry, after which it is wanted.
type chunk struct {
	e    [chunkEntries]entry
	next uint32 // the chunk after this one in the FIFO
	id   uint32
}

// at returns e[n]. Go's own index looks at the beginning of the chunk, lest c be nil:
// a cache line that is mostly far away.
func (c *chunk) at(n uint8) *entry {
	return (*entry)(unsafe.Add(unsafe.Pointer(c), uintptr(n)*unsafe.Sizeof(entry{})))
}

// outlet is the end of a link's FIFO at which entries are put in.
type outlet struct {
	tail *chunk
	node int32 // at the link's other end
	n    uint8 // entries in tail; chunkEntries or, for pauses, anything if there is no tail yet
}

// put makes room for an entry behind all others. first is the other end's.
func (o *outlet) put(x *Lane, first **chunk) *entry {
	if o.n == chunkEntries || o.tail == nil {
		o.extend(x, first)
	}
	e := o.tail.at(o.n)
	o.n++
	return e
}

func (o *outlet) extend(x *Lane, first **chunk) {
	c := x.newChunk()
	if o.tail == nil {
		*first = c
	} else {
		o.tail.next = c.id
	}
	o.tail, o.n = c, 0
}

// inlet is the end of a link's FIFO at which entries are taken: the receiving side
// of a port. Its owner knows of the first known entries that have been put in. In a
// divided network, where the two ends may belong to different workers, that count is
// in Division.known.
type inlet struct {
	head  *chunk
	n     uint8  // entries of head that have been taken
	taken uint32 // entries so far, counted modulo 2^32 as known
	known uint32
	node  int32  // whose port this is
	link  LinkID // that leads to it
}

// first returns the first entry. There is one.
func (i *inlet) first(x *Lane) *entry {
	if i.n == chunkEntries {
		i.advance(x)
	}
	return i.head.at(i.n)
}

// advance goes to the next chunk.
func (i *inlet) advance(x *Lane) {
	c := i.head
	i.head, i.n = x.chunk(c.next), 0
	x.freeChunk(c)
}

// take removes what first returned.
func (i *inlet) take() {
	i.n++
	i.taken++
}

// each calls f with the given number of a FIFO's entries, from entry from of chunk c on.
func (x *Lane) each(c *chunk, from uint8, entries uint32, f func(*entry)) {
	for ; entries > 0; entries-- {
		if from == chunkEntries {
			c, from = x.chunk(c.next), 0
		}
		f(c.at(from))
		from++
	}
}

// queue is the packets of one priority that wait at a port, one cache line.
type queue struct {
	head, tail *chunk
	count      uint32
	bytes      int32
	deficit    int32  // of deficit round robin
	most       int32  // of bytes, since it was last reset
	held       moment // of bytes
	in, out    uint8  // entries of tail that are in it, and entries of head that are out
	_          [14]byte
}

// push puts an entry behind all others.
func (q *queue) push(x *Lane, e *entry) {
	if q.count == 0 || q.in >= chunkEntries {
		q.extend(x)
	}
	to := q.tail.at(q.in)
	to.when, to.name, to.to = e.when, e.name, e.to // as in put
	q.in++
	q.count++
}

// extend adds a chunk at the end.
func (q *queue) extend(x *Lane) {
	c := x.newChunk()
	if q.count == 0 {
		q.head, q.out = c, 0
	} else {
		q.tail.next = c.id
	}
	q.tail, q.in = c, 0
}

// first returns the first entry. There is one.
func (q *queue) first() *entry { return q.head.at(q.out) }

// drop removes the first entry; what first returned may have become another's.
func (q *queue) drop(x *Lane) {
	q.count--
	q.out++
	if q.count == 0 || q.out == chunkEntries {
		q.shrink(x)
	}
}

// shrink returns the first chunk, which is empty.
func (q *queue) shrink(x *Lane) {
	c := q.head
	if q.count == 0 {
		q.head, q.tail = nil, nil
	} else {
		q.head, q.out = x.chunk(c.next), 0
	}
	x.freeChunk(c)
}
