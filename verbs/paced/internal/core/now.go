package core

import "github.com/sluice-rdma/sluice/units"

// longestRun is the time for which instants are counted from one origin. Spans between any
// two of them, and some past and future, then fit units.Time.
const longestRun units.Time = 1 << 60 // 13 days

// Now returns the instant of a reading of the driver's clock, which may go on for
// years. Each call of the Core is by such instants. Now sets them back from time to
// time: what it returned before is void with the next call, and so is what the Core
// returned. Long makes them last.
func (c *Core) Now(now units.LongTime) units.Time {
	t := now.Sub(c.origin)
	if t >= longestRun {
		c.setBack(now, t)
		return 0
	}
	return t
}

// Instant is Now for an instant other than the present.
func (c *Core) Instant(l units.LongTime) units.Time { return l.Sub(c.origin) }

// Long returns an instant as a reading of the driver's clock.
func (c *Core) Long(t units.Time) units.LongTime {
	if t == units.Never {
		return units.LongNever
	}
	return c.origin.Add(t)
}

// setBack makes now, the instant t, the origin.
func (c *Core) setBack(now units.LongTime, t units.Time) {
	by := min(t, units.MostSetBack)
	for _, q := range c.flows {
		if q != nil {
			q.setBack(by)
		}
	}
	for _, g := range c.groups {
		if g != nil {
			g.setBack(by)
		}
	}
	c.sched.SetBack(by)
	c.clock.SetBack(by)
	c.gapsEnd = c.gapsEnd.SetBack(by)
	c.origin = now
}

// setBack sets the queue pair's instants back. The scheduler's are not set back yet.
func (q *QP) setBack(by units.Time) {
	q.bank(by)
	if q.member != nil {
		q.member.shutSeen, q.member.boundSeen = 0, 0 // the group's sums begin again
		q.member.lastAck = q.member.lastAck.SetBack(by)
	}
	q.heldFrom = q.heldFrom.SetBack(by)
	q.loop.setBack(by)
	q.table.SetBack(by)
}
