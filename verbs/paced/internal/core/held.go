package core

import (
	"math"

	"github.com/sluice-rdma/sluice/units"
)

// Hold is the reason that keeps a queue pair's next segment from the NIC.
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

// held notes the reason that holds the queue pair from now on.
func (q *QP) held(now units.Time, why Hold) {
	if q.hold != why {
		q.settle(now)
		q.hold = why
	}
}

// settle counts the time until now for the reason that holds the queue pair.
func (q *QP) settle(now units.Time) {
	if now > q.heldFrom {
		rate, other := q.since(now)
		q.recent[HeldRate] += rate
		if q.inLine() {
			bound := min(q.member.bound(now), other)
			q.recent[HeldBound] += bound
			q.recent[HeldWindow] += other - bound
			q.member.see(now)
		} else {
			q.recent[q.hold] += other
		}
		q.heldFrom = now
	}
}

// since returns for how much of the time from heldFrom to now the rate alone would hold
// the queue pair, and the rest. In the line of its group that is the time for which the window
// or the limit was shut.
func (q *QP) since(now units.Time) (rate, other units.Time) {
	from, due := q.heldFrom, units.Time(math.MinInt64)
	if q.inLine() {
		shut := min(max(q.member.group.shutTime(now)-q.member.shutSeen, 0), now-from)
		return now - from - shut, shut
	}
	switch {
	case q.hold == HeldFiled:
		due = q.core.sched.Due(q.flow)
	case q.hold == HeldBound && !q.loopOf().driver.Free():
		due = q.core.sched.Next(q.paced())
	}
	if due > from {
		due = min(due, now)
		return due - from, now - due
	}
	return 0, now - from
}

// bound is for how long the group's limit, and nothing of the engine's, has held the member back.
func (m *Member) bound(now units.Time) units.Time {
	return max(m.group.boundTime(now)-m.boundSeen, 0)
}

// inLine reports whether the queue pair waits in the line of its group.
func (q *QP) inLine() bool { return q.member != nil && q.hold == HeldFiled }

// Times are times by the reason that held a queue pair meanwhile.
type Times = [Holds]units.LongTime

// Held returns how long the queue pair was held until now, by reason.
func (q *QP) Held(now units.Time) (sum Times) {
	q.AddHeld(now, &sum)
	return sum
}

// AddHeld adds how long the queue pair was held until now, by reason.
func (q *QP) AddHeld(now units.Time, sum *Times) {
	q.count(now, sum)
	for i := range sum {
		sum[i] = sum[i].Plus(q.holds[i]).Add(q.recent[i])
	}
}

// count adds the time from heldFrom to now.
func (q *QP) count(now units.Time, to *Times) {
	if now > q.heldFrom {
		rate, other := q.since(now)
		to[HeldRate] = to[HeldRate].Add(rate)
		why := q.hold
		if q.inLine() {
			bound := min(q.member.bound(now), other)
			to[HeldBound] = to[HeldBound].Add(bound)
			why, other = HeldWindow, other-bound
		}
		to[why] = to[why].Add(other)
	}
}

// bank settles where the time may be too long for recent, which it empties.
func (q *QP) bank(now units.Time) {
	q.count(now, &q.holds)
	q.heldFrom = max(q.heldFrom, now)
	for i := range q.recent {
		q.holds[i] = q.holds[i].Add(q.recent[i])
		q.recent[i] = 0
	}
}
