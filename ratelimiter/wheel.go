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

// link is a flow's place in a slot or in the ready ring. Links are apart from
// the rest of the flows' state because turning the wheel touches nothing else.
type link struct {
	due        units.Time
	prev, next uint32
}

// list is a queue of flows through their links.
type list struct{ head, tail uint32 }

func (q *list) append(links []link, id uint32) {
	l := &links[id]
	l.prev, l.next = q.tail, none
	if q.tail == none {
		q.head = id
	} else {
		links[q.tail].next = id
	}
	q.tail = id
}

func (q *list) remove(links []link, id uint32) {
	l := &links[id]
	if l.prev == none {
		q.head = l.next
	} else {
		links[l.prev].next = l.next
	}
	if l.next == none {
		q.tail = l.prev
	} else {
		links[l.next].prev = l.prev
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
// invariant of a radix heap, and what lets the place be computed and not stored.
type wheel struct {
	base     units.Time // at or before every due time in the wheel and every now
	occupied uint16     // levels with a flow
	filled   [levels]uint64
	stale    [levels]uint64 // slots that lost the flow that min was the time of
	slots    [levels][slots]slot
	touched  units.Rate // keeps the compiler from dropping reads; see expire
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

// file adds a flow whose due time is set and later than every now so far.
func (w *wheel) file(links []link, id uint32) {
	due := links[id].due
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
	s.append(links, id)
}

// vacate marks a slot that has lost its flows.
func (w *wheel) vacate(level, k uint) {
	w.stale[level] &^= 1 << k
	if w.filled[level] &^= 1 << k; w.filled[level] == 0 {
		w.occupied &^= 1 << level
	}
}

// remove takes a filed flow out.
func (w *wheel) remove(links []link, id uint32) {
	due := links[id].due
	level, k := w.place(due)
	s := &w.slots[level][k]
	s.remove(links, id)
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
func (w *wheel) earliest(links []link) units.Time {
	if w.occupied == 0 {
		return units.Never
	}
	level, k := w.first()
	s := &w.slots[level][k]
	if w.stale[level]&(1<<k) != 0 {
		w.stale[level] &^= 1 << k
		least := units.Never
		for id := s.head; id != none; id = links[id].next {
			least = min(least, links[id].due)
		}
		s.min = least
	}
	return s.min
}

// expire moves the flows due at or before now to the end of ready, in order of
// their due times. No later file may be for a time before now.
//
// On the way it reads the record of every flow that it moves. Nothing is done
// with it here, but these reads overlap, and Dequeue then finds the record in the
// cache where it would wait for memory: with 100,000 flows that is two thirds of
// the time of a segment.
func (w *wheel) expire(links []link, flows []flow, now units.Time, ready *list) {
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
			next := links[id].next
			w.touched += flows[id].rate
			if links[id].due == w.base {
				ready.append(links, id)
			} else {
				w.file(links, id)
			}
			id = next
		}
	}
	w.base = now
}
