package fabric

import (
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// entry is a packet on a link or in a queue: all of it that a switch reads, by
// value, so that a hop touches no slab. Its slot of the slab is written when it
// reaches a host.
type entry struct {
	at    units.Time // on a link, of arrival; in a queue, of entry
	h     Handle
	size  int32
	dst   int32 // host
	hash  uint32
	leaf  uint16 // number of the switch that dst is attached to
	in    uint16 // in a queue, the port it came to the switch by
	prio  uint8
	flags Flags
	tel   uint8 // telemetry.Kind, and from recordsShift on how many records it has
	hops  uint8
}

// Of entry.tel: the kind in two bits, records in four, and overflow.
const (
	kindMask     = 3
	recordsShift = 2
	recordOne    = 1 << recordsShift
	recordsMask  = 15 << recordsShift
	overflowBit  = 1 << 6
)

func (e *entry) telemetry() telemetry.Kind { return telemetry.Kind(e.tel & kindMask) }

// chunkEntries is how many entries a chunk holds: 15 and what is before them are
// eight cache lines.
const chunkEntries = 15

// chunk is a piece of a FIFO of entries.
type chunk struct {
	next uint32 // the chunk after this one in the FIFO
	id   uint32
	_    [24]byte
	e    [chunkEntries]entry
}

// outlet is the end of a link's FIFO at which entries are put in.
type outlet struct {
	tail *chunk
	n    uint8 // entries in tail
}

// put makes room for an entry behind all others.
func (o *outlet) put(x *Lane, first **chunk) *entry {
	if o.tail == nil || o.n == chunkEntries {
		c := x.newChunk()
		if o.tail == nil {
			*first = c
		} else {
			o.tail.next = c.id
		}
		o.tail, o.n = c, 0
	}
	e := &o.tail.e[o.n]
	o.n++
	return e
}

// inlet is the end of a link's FIFO at which entries are taken: the receiving side
// of a port. Of what has been
// put in, its owner has been told of the first known: in a divided network the two
// ends may belong to different workers.
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
		c := i.head
		i.head, i.n = x.chunk(c.next), 0
		x.freeChunk(c)
	}
	return &i.head.e[i.n]
}

// take removes what first returned.
func (i *inlet) take() {
	i.n++
	i.taken++
}

// queue is the packets of one priority that wait at a port.
type queue struct {
	head, tail *chunk
	count      uint32
	bytes      int32
	deficit    int32 // of deficit round robin
	in, out    uint8 // entries of tail that are in it, and entries of head that are out
}

func (q *queue) push(x *Lane) *entry {
	switch {
	case q.count == 0:
		q.head = x.newChunk()
		q.tail, q.in, q.out = q.head, 0, 0
	case q.in == chunkEntries:
		c := x.newChunk()
		q.tail.next = c.id
		q.tail, q.in = c, 0
	}
	q.count++
	e := &q.tail.e[q.in]
	q.in++
	return e
}

// first returns the first entry. There is one.
func (q *queue) first() *entry { return &q.head.e[q.out] }

// drop removes the first entry; what first returned may have become another's.
func (q *queue) drop(x *Lane) {
	q.count--
	q.out++
	switch {
	case q.count == 0:
		x.freeChunk(q.head)
		q.head, q.tail = nil, nil
	case q.out == chunkEntries:
		c := q.head
		q.head, q.out = x.chunk(c.next), 0
		x.freeChunk(c)
	}
}
