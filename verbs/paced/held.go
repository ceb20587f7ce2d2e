package paced

import (
	"math"

	"github.com/sluice-rdma/sluice/units"
)

// Held is where the time of queue pairs with requests under way went, by what kept the
// next segment from the NIC. Of several queue pairs it is the sum.
type Held struct {
	// Rate and Window are the engine's: the segment was not due, or its window had
	// no room.
	Rate, Window units.Time
	// Bound is Config.MaxOutstanding alone: it had no room, and the engine would
	// have let the segment go.
	Bound units.Time
	// Late is the host's: the segment was due, and nobody made progress.
	Late units.Time
	// Other is a fence, the limit on reads and atomics, a provider's queue without
	// room, or a queue pair that may not send.
	Other units.Time
	// Sent is with nothing left to send: the NIC had all of the requests.
	Sent units.Time
}

// Active is how long there were requests under way: the sum of all.
func (h *Held) Active() units.Time {
	return h.Rate + h.Window + h.Bound + h.Late + h.Other + h.Sent
}

// Add adds what happened to other queue pairs.
func (h *Held) Add(other Held) {
	h.Rate += other.Rate
	h.Window += other.Window
	h.Bound += other.Bound
	h.Late += other.Late
	h.Other += other.Other
	h.Sent += other.Sent
}

// Since returns what happened after an earlier look.
func (h Held) Since(before Held) Held {
	return Held{
		Rate: h.Rate - before.Rate, Window: h.Window - before.Window, Bound: h.Bound - before.Bound,
		Late: h.Late - before.Late, Other: h.Other - before.Other, Sent: h.Sent - before.Sent,
	}
}

// hold is what keeps a queue pair's next segment from the NIC.
type hold uint8

const (
	holdIdle   hold = iota // there is no request under way
	holdNone               // nothing does
	holdFiled              // it is with the scheduler
	holdWindow             // the engine's
	holdBound              // Config.MaxOutstanding, and nothing of the engine's
	holdOther
	holdSent // there is none: the NIC has all
)

// held takes note of what holds the queue pair from now on.
func (q *QP) held(now units.Time, why hold) {
	if q.hold != why {
		q.settle(now)
		q.hold = why
	}
}

// settle counts the time until now for what holds the queue pair.
func (q *QP) settle(now units.Time) {
	from := q.heldFrom
	if now <= from {
		return
	}
	q.heldFrom = now
	q.tally.held.count(q.hold, from, now, q.dueBy())
}

// dueBy is until when the rate alone holds the next segment back.
func (q *QP) dueBy() units.Time {
	switch {
	case q.hold == holdFiled:
		return q.shim.sched.Due(q.flow)
	case q.hold == holdBound && q.control.Rate < q.line:
		return q.shim.sched.Next(q.flow)
	}
	return math.MinInt64
}

// count adds the time from one instant to another, of which that until due is the
// rate's.
func (h *Held) count(why hold, from, to, due units.Time) {
	if due > from {
		until := min(due, to)
		h.Rate += until - from
		from = until
	}
	switch n := to - from; why {
	case holdFiled:
		h.Late += n
	case holdWindow:
		h.Window += n
	case holdBound:
		h.Bound += n
	case holdOther:
		h.Other += n
	case holdSent:
		h.Sent += n
	}
}

// heldUntil returns the counts as of now.
func (q *QP) heldUntil(now units.Time) Held {
	h := q.tally.held
	if now > q.heldFrom {
		h.count(q.hold, q.heldFrom, now, q.dueBy())
	}
	return h
}
