package ratelimiter

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

const (
	slotBits = 6 // so that a level's occupied slots fit one word
	slots    = 1 << slotBits
	levels   = (64 + slotBits - 1) / slotBits
)

const none = ^uint32(0)

// links are the neighbours of a flow in its slot or in the ready ring. They are
// apart from the rest of its state because walking a list waits for one link after
// the other, while reads of the flows themselves overlap. The links are so small
// that those of 100,000 flows stay in the cache.
type links struct{ prev, next uint32 }

// list is a queue of flows.
type list struct{ head, tail uint32 }

func (q *list) append(ls []links, id uint32) {
	ls[id] = links{q.tail, none}
	if q.tail == none {
		q.head = id
	} else {
		ls[q.tail].next = id
	}
	q.tail = id
}

func (q *list) prepend(ls []links, id uint32) {
	ls[id] = links{none, q.head}
	if q.head == none {
		q.tail = id
	} else {
		ls[q.head].prev = id
	}
	q.head = id
}

func (q *list) remove(ls []links, id uint32) {
	l := ls[id]
	if l.prev == none {
		q.head = l.next
	} else {
		ls[l.prev].next = l.next
	}
	if l.next == none {
		q.tail = l.prev
	} else {
		ls[l.next].prev = l.prev
	}
}

// slot holds flows whose due times agree in all bits above the slot's. They
// keep the order in which they were filed, also from level to level, so flows
// due at the same time leave in that order.
type slot struct {
	min units.Time // the earliest due time, or before it if stale
	list
}

// wheel is a hierarchical timing wheel. A flow's level is the highest group of
// slotBits in which its due time differs from base, its slot the value of that
// group. Hence everything on a level is due before everything above it, the first
// occupied slot of the lowest level holds the earliest flow, and moving base to
// that flow's time changes the place of no flow outside that slot. This is the
// invariant of a radix heap. It allows the place to be computed and not stored.
type wheel struct {
	base     units.Time // at or before every due time in the wheel and every now
	occupied uint16     // levels with a flow
	filled   [levels]uint64
	stale    [levels]uint64 // slots that lost the flow that min was the time of
	slots    [levels][slots]slot
	batch    [64]filing // of expire
}

type filing struct {
	due units.Time
	id  uint32
}

func (w *wheel) init() {
	for l := range w.slots {
		for k := range w.slots[l] {
			w.slots[l][k].list = list{none, none}
		}
	}
}

// place returns the slot of a flow that is due then.
func (w *wheel) place(due units.Time) (level, k uint) {
	level = (uint(bits.Len64(uint64(due^w.base)|1)) - 1) / slotBits
	// Flipping the sign bit orders negative times before the others.
	k = uint((uint64(due)^1<<63)>>(level*slotBits)) & (slots - 1)
	return level, k
}

// file adds a flow that is due then, later than every now so far.
func (w *wheel) file(ls []links, id uint32, due units.Time) {
	level, k := w.place(due)
	s := &w.slots[level][k]
	if s.head == none {
		w.occupied |= 1 << level
		w.filled[level] |= 1 << k
		s.min = due
	} else if due < s.min {
		s.min = due
		w.stale[level] &^= 1 << k
	}
	s.append(ls, id)
}

// vacate marks a slot that has lost its flows.
func (w *wheel) vacate(level, k uint) {
	w.stale[level] &^= 1 << k
	if w.filled[level] &^= 1 << k; w.filled[level] == 0 {
		w.occupied &^= 1 << level
	}
}

// remove takes out a flow that was filed for that time.
func (w *wheel) remove(ls []links, id uint32, due units.Time) {
	level, k := w.place(due)
	s := &w.slots[level][k]
	s.remove(ls, id)
	switch {
	case s.head == none:
		w.vacate(level, k)
	case due == s.min:
		w.stale[level] |= 1 << k
	}
}

// first returns the slot of the earliest flow; the wheel must not be empty.
func (w *wheel) first() (level, k uint) {
	level = uint(bits.TrailingZeros16(w.occupied))
	return level, uint(bits.TrailingZeros64(w.filled[level]))
}

// earliest returns the earliest due time, exactly, or Never.
func (w *wheel) earliest(ls []links, flows []flow) units.Time {
	if w.occupied == 0 {
		return units.Never
	}
	level, k := w.first()
	s := &w.slots[level][k]
	if w.stale[level]&(1<<k) != 0 {
		w.stale[level] &^= 1 << k
		least := units.Never
		for id := s.head; id != none; id = ls[id].next {
			least = min(least, flows[id].due)
		}
		s.min = least
	}
	return s.min
}

// expire moves the flows due at or before now to the end of ready, in order of
// their due times. No later file may be for a time before now.
func (w *wheel) expire(ls []links, flows []flow, now units.Time, ready *list) {
	for w.occupied != 0 {
		level, k := w.first()
		s := &w.slots[level][k]
		if s.min > now {
			return
		}
		// A stale min is still at or before every flow of the slot and within
		// the slot's range, which is all that base needs.
		w.base = s.min
		id := s.head
		s.list = list{none, none}
		w.vacate(level, k)
		for id != none {
			// First the reads, which may miss the cache, then the branches that
			// depend on them: so the reads overlap.
			n := 0
			for ; id != none && n < len(w.batch); n++ {
				w.batch[n] = filing{flows[id].due, id}
				id = ls[id].next
			}
			for _, f := range w.batch[:n] {
				if f.due == w.base {
					ready.append(ls, f.id)
				} else {
					w.file(ls, f.id, f.due)
				}
			}
		}
	}
	w.base = now
}

// drain takes out all flows, in order of the slots and so, where two are due at the
// same time, in that in which they were filed.
func (w *wheel) drain(ls []links) (all list) {
	all = list{none, none}
	for w.occupied != 0 {
		level, k := w.first()
		s := &w.slots[level][k]
		for id := s.head; id != none; {
			next := ls[id].next
			all.append(ls, id)
			id = next
		}
		s.list = list{none, none}
		w.vacate(level, k)
	}
	return all
}
