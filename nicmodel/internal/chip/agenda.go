package chip

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// agenda is the events of a NIC in a divided network: in order of time, and at one instant
// in the order in which they were scheduled. Most of them need no heap. Of three kinds there
// is mostly one; and received packets reach the transport mostly in the order of arrival.
//
// It is not the calendar of package des: with a thousand NICs in turn, eight events each, a calendar
// a NIC takes 36 ns an event and this 27, which has fewer cache lines.
type agenda struct {
	seq   uint32
	ones  [3]entry // EvSchedule, EvLimiter, EvWire: at is Never where there is none
	queue []entry  // EvReceive: a ring of a power of two
	head  uint32   // running counts
	tail  uint32
	last  units.Time // of the newest in it
	heap  []entry    // a 4-ary heap of the others
}

type entry struct {
	at   units.Time
	arg  uint64
	seq  uint32
	kind uint32
}

func (a *entry) before(b *entry) bool {
	return a.at < b.at || a.at == b.at && int32(a.seq-b.seq) < 0 // the number may wrap
}

func newAgenda() agenda {
	a := agenda{queue: make([]entry, 16)}
	for i := range a.ones {
		a.ones[i].at = units.Never
	}
	return a
}

// one is the place of a kind in ones, or -1.
func one(kind uint32) int {
	switch kind {
	case EvSchedule:
		return 0
	case EvLimiter:
		return 1
	case EvWire:
		return 2
	}
	return -1
}

func (a *agenda) add(at units.Time, kind uint32, arg uint64) {
	a.seq++
	e := entry{at, arg, a.seq, kind}
	if kind == EvReceive && (a.head == a.tail || at >= a.last) {
		a.line(e)
		return
	}
	if i := one(kind); i >= 0 {
		// The earlier one is mostly the newer.
		if old := a.ones[i]; old.at != units.Never {
			a.push(old)
		}
		a.ones[i] = e
		return
	}
	a.push(e)
}

// line appends a received packet to the waiting ones.
func (a *agenda) line(e entry) {
	if a.tail-a.head == uint32(len(a.queue)) {
		ring := make([]entry, 2*len(a.queue))
		for i := a.head; i != a.tail; i++ {
			ring[i&uint32(len(ring)-1)] = a.queue[i&uint32(len(a.queue)-1)]
		}
		a.queue = ring
	}
	a.queue[a.tail&uint32(len(a.queue)-1)] = e
	a.tail++
	a.last = e.at
}

// inHeap and inQueue are places of an event beside its index in ones.
const (
	inHeap  = -1
	inQueue = -2
)

// first returns the earliest event and its place, or nil.
func (a *agenda) first() (e *entry, place int) {
	place = inHeap
	if len(a.heap) > 0 {
		e = &a.heap[0]
	}
	if a.head != a.tail {
		if q := &a.queue[a.head&uint32(len(a.queue)-1)]; e == nil || q.before(e) {
			e, place = q, inQueue
		}
	}
	for i := range a.ones {
		if o := &a.ones[i]; o.at != units.Never && (e == nil || o.before(e)) {
			e, place = o, i
		}
	}
	return e, place
}

// next returns the time of the earliest event, or Never.
func (a *agenda) next() units.Time {
	if e, _ := a.first(); e != nil {
		return e.at
	}
	return units.Never
}

// take takes out an event of now into ev, if there is one, and returns its time; if not, it returns when the earliest is.
func (a *agenda) take(now units.Time, ev *des.Event) (at units.Time) {
	e, place := a.first()
	switch {
	case e == nil:
		return units.Never
	case e.at > now:
		return e.at
	}
	at = e.at
	ev.At, ev.Arg, ev.Kind = at, e.arg, e.kind
	switch place {
	case inHeap:
		a.pop()
	case inQueue:
		a.head++
	default:
		e.at = units.Never
	}
	return at
}

func (a *agenda) push(e entry) {
	q := append(a.heap, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
	a.heap = q
}

// pop removes the first of the heap.
func (a *agenda) pop() {
	q := a.heap
	e := q[len(q)-1]
	q = q[:len(q)-1]
	a.heap = q
	if len(q) == 0 {
		return
	}
	i := 0
	for {
		least := 4*i + 1
		if least >= len(q) {
			break
		}
		for c, end := least+1, min(least+4, len(q)); c < end; c++ {
			if q[c].before(&q[least]) {
				least = c
			}
		}
		if !q[least].before(&e) {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = e
}
