package core

import (
	"math"

	"github.com/sluice-rdma/sluice/units"
)

// Hold is what keeps a queue pair's next segment from the NIC.
type Hold uint8

// Holds.
const (
	HeldIdle   Hold = iota // there is no request under way
	HeldRate               // the engine's
	HeldFiled              // it is with the scheduler: held by the rate until it is due
	HeldWindow             // the engine's
	HeldBound              // Config.MaxOutstanding, and nothing of the engine's
	HeldOther
	HeldSent // no segment: the NIC has all
	Holds

	HeldNone = HeldRate // nothing but perhaps the rate
)

// held takes note of what holds the queue pair from now on.
func (q *QP) held(now units.Time, why Hold) {
	if q.hold != why {
		q.settle(now)
		q.hold = why
	}
}

// settle counts the time until now for what holds the queue pair.
func (q *QP) settle(now units.Time) {
	if now > q.heldFrom {
		q.count(&q.holds, now)
		q.heldFrom = now
	}
}

// count adds the time from heldFrom to now for what holds the queue pair. The part in
// which the rate alone would hold it counts for the rate.
func (q *QP) count(to *Times, now units.Time) {
	from, due := q.heldFrom, units.Time(math.MinInt64)
	switch {
	case q.hold == HeldFiled:
		due = q.core.sched.Due(q.flow)
	case q.hold == HeldBound && q.driver.Control().Rate < q.line:
		due = q.core.sched.Next(q.flow)
	}
	if due > from {
		due = min(due, now)
		to[HeldRate] = to[HeldRate].Add(due - from)
		from = due
	}
	to[q.hold] = to[q.hold].Add(now - from)
}

// Times are times by what held a queue pair meanwhile.
type Times = [Holds]units.LongTime

// Held returns how long the queue pair was held until now, by what.
func (q *QP) Held(now units.Time) (sum Times) {
	q.AddHeld(now, &sum)
	return sum
}

// AddHeld adds how long the queue pair was held until now, by what.
func (q *QP) AddHeld(now units.Time, sum *Times) {
	if now > q.heldFrom {
		q.count(sum, now)
	}
	for i := range sum {
		sum[i] = sum[i].Plus(q.holds[i])
	}
}
