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
	holdRate               // the engine's
	holdFiled              // it is with the scheduler: held by the rate until it is due
	holdWindow             // the engine's
	holdBound              // Config.MaxOutstanding, and nothing of the engine's
	holdOther
	holdSent // there is none: the NIC has all
	numHolds

	holdNone = holdRate // nothing but perhaps the rate
)

// holds is how long a queue pair was held, by what.
type holds [numHolds]units.Time

func (t *holds) sums() Held {
	return Held{
		Rate: t[holdRate], Window: t[holdWindow], Bound: t[holdBound], Late: t[holdFiled], Other: t[holdOther], Sent: t[holdSent],
	}
}

// held takes note of what holds the queue pair from now on.
func (q *QP) held(now units.Time, why hold) {
	if q.hold != why {
		q.settle(now)
		q.hold = why
	}
}

// settle counts the time until now for what holds the queue pair.
func (q *QP) settle(now units.Time) {
	if now > q.heldFrom {
		q.count(&q.tally.held, now)
		q.heldFrom = now
	}
}

// count adds the time from heldFrom to now for what holds the queue pair, of which that
// in which the rate alone would hold it is the rate's.
func (q *QP) count(to *holds, now units.Time) {
	from, due := q.heldFrom, units.Time(math.MinInt64)
	switch {
	case q.hold == holdFiled:
		due = q.shim.sched.Due(q.flow)
	case q.hold == holdBound && q.driver.Control().Rate < q.line:
		due = q.shim.sched.Next(q.flow)
	}
	if due > from {
		due = min(due, now)
		to[holdRate] += due - from
		from = due
	}
	to[q.hold] += now - from
}

// heldUntil returns the counts as of now.
func (q *QP) heldUntil(now units.Time) Held {
	t := q.tally.held
	if now > q.heldFrom {
		q.count(&t, now)
	}
	return t.sums()
}
