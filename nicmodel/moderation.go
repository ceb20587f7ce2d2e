package nicmodel

import "github.com/sluice-rdma/sluice/units"

// moderation holds the event of an armed completion queue back (ibv_modify_cq,
// IBV_CQ_ATTR_MODERATE) until so many completions are there, or some time has passed
// since the first of them. Completions can be polled meanwhile. What counts is what the
// arming asks for: with solicited events, the first of these begins the wait.
type moderation struct {
	count   int        // cq_count; 0 or 1 waits for no more
	period  units.Time // cq_period; 0 is without end
	waiting int        // completions since the arming
	until   units.Time // of the pending evModeration, or Never
}

// ModerateCQ sets the moderation of a queue's events: count completions, or period
// microseconds after the first of them. 0 for one leaves it to the other, 0 for both
// raises events at once. It holds from the next completion on, with which a period
// begins that was not there before.
func (n *NIC) ModerateCQ(num uint32, count, period uint16) {
	m := &n.completions.queues[num].events.moderation
	m.count, m.period = int(count), units.Time(period)*units.Microsecond
}

// countArmed takes completions of an armed queue into account.
func (cs *completions) countArmed(at units.Time, num uint32, count int, solicited bool) {
	v := &cs.queues[num].events
	if v.armed == armedSolicited && !solicited {
		return
	}
	v.waiting += count
	switch {
	case v.count == 0 && v.period == 0, v.count > 0 && v.waiting >= v.count:
		cs.interrupt(at, num)
	case v.period > 0 && v.until == units.Never:
		v.until = at + v.period
		cs.schedule(v.until, evModeration, uint64(num))
	}
}

// moderationTimeout is the end of a wait by time.
func (cs *completions) moderationTimeout(now units.Time, num uint32) {
	if v := &cs.queues[num].events; v.armed != disarmed && v.until == now {
		cs.interrupt(now, num)
	}
}
