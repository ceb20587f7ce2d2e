package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// driven is a workload.Traffic as it runs: its connections are flows that post what
// it says, and that stay until it is over. On staged NICs a host's part of it runs with
// the host (in a divided network on the host's lane); what hosts do together, and what is
// counted, is settled between windows.
type driven struct {
	*workload.Traffic
	sim    *simulation
	number int // among the simulation's
	flows  []*flow
	agents []agent    // by place
	wake   units.Time // of the pending evTraffic, or Never
	opened bool
	closed bool
}

// agent is a host of a Traffic.
type agent struct {
	host *host      // nil with reduced NICs
	wake units.Time // of the pending evAlone or evOwn, or Never
}

// kept is the state of a flow as a connection of a Traffic.
type kept struct {
	workload.Conn
	by     *driven
	number int // of the connection
	flow   *flow
	// waiting are the messages to post, from the first that is not posted on.
	waiting []workload.Post
	next    int
	passing passing // not yet known by the receiver to have arrived
}

// passing is messages that a host posts and another one learns of, in that order, a
// window or more later. Each end touches its own part, and no message that the other has
// touched in the same window.
type passing struct {
	tail   *passage // the poster's
	posted int      // in it
	_      [48]byte // the ends share no cache line
	head   *passage // the receiver's
	taken  int      // of it
}

type passage struct {
	posts [15]workload.Post
	next  *passage
}

func (q *passing) put(p workload.Post) {
	if q.posted == len(q.tail.posts) {
		q.tail.next = new(passage)
		q.tail, q.posted = q.tail.next, 0
	}
	q.tail.posts[q.posted] = p
	q.posted++
}

func (q *passing) take() workload.Post {
	if q.taken == len(q.head.posts) {
		q.head, q.taken = q.head.next, 0
	}
	q.taken++
	return q.head.posts[q.taken-1]
}

// shares reports whether a flow without end has a share of the network.
func (k *kept) shares() bool { return k == nil || k.Share }

// notifies reports whether a receive completes for each message.
func (k *kept) notifies() bool { return k != nil && k.Notify }

// beginTraffic has each Traffic begin at its time.
func (s *simulation) beginTraffic() {
	if s.fleet != nil && len(s.traffic) > 0 {
		s.fleet.OnMessage(s.fleet.learned)
	}
	for i, t := range s.traffic {
		s.driven = append(s.driven, &driven{Traffic: t, sim: s, number: i, wake: t.Start})
		s.engine.Schedule(t.Start, &s.src, s.id, evTraffic, uint64(i))
	}
}

// allOver reports whether no further flow will start.
func (s *simulation) allOver() bool {
	for _, d := range s.driven {
		if !d.closed {
			return false
		}
	}
	return !s.pending
}

// setWake has hosts do something together at a time.
func (d *driven) setWake(at units.Time) {
	if at >= d.wake {
		return
	}
	s := d.sim
	d.wake = at
	to := s.id
	if s.fleet == nil && at == s.engine.Now() {
		to = s.lastID // after what hosts do at this instant, as in windows
	}
	s.engine.Schedule(at, &s.src, to, evTraffic, uint64(d.number))
}

// wakeUp is the event: at first the connections are opened.
func (d *driven) wakeUp(now units.Time) {
	if d.closed || now != d.wake {
		return // an earlier event took its place
	}
	d.wake = units.Never
	err := d.open(now)
	if err == nil {
		err = d.carryOut(now, nil, d.Tick(now))
	}
	for place := 0; place < len(d.agents) && err == nil; place++ {
		if d.NextOf(place) <= now {
			err = d.carryOut(now, nil, d.TickOf(now, place))
		}
		d.setWakeOf(now, place)
	}
	if err == nil {
		err = d.hasActed(now)
	}
	if err != nil {
		d.sim.fail(err)
	}
}

// setWakeOf has a host do something by itself at its time.
func (d *driven) setWakeOf(now units.Time, place int) {
	a := &d.agents[place]
	at := d.NextOf(place)
	if at >= a.wake {
		return
	}
	a.wake = at
	at = max(at, now)
	arg := uint64(d.number)<<32 | uint64(place)
	if a.host != nil {
		a.host.events.Schedule(at, evOwn, arg)
		return
	}
	d.sim.engine.Schedule(at, &d.sim.src, d.sim.id, evAlone, arg)
}

// alone is the event of a host that does something by itself.
func (s *simulation) alone(now units.Time, arg uint64) error {
	d, place := s.driven[arg>>32], int(uint32(arg))
	a := &d.agents[place]
	if d.closed || now != a.wake {
		return nil // an earlier event took its place
	}
	a.wake = units.Never
	return d.acted(now, place, d.TickOf(now, place))
}

// open makes the connections. They count as flows without end, and only the bytes
// that they carry are measured; tasks start and end.
func (d *driven) open(now units.Time) error {
	if d.opened {
		return nil
	}
	d.opened = true
	before := 0
	for _, other := range d.sim.driven[:d.number] {
		before += len(other.Connections())
	}
	for i, c := range d.Connections() {
		f := &flow{Flow: workload.Flow{
			// Below -1, which is a task's, so that no flow has a connection's hash.
			ID: -2 - int64(before+i), Label: c.Label, Workload: d.Workload, Src: c.Src, Dst: c.Dst,
			Message: c.Message, Start: now, Stop: units.Never, Operation: c.Operation, Class: c.Class, Function: c.Function,
		}}
		f.kept = &kept{Conn: c, by: d, number: i, flow: f}
		if c.Notify {
			f.kept.passing.tail = new(passage)
			f.kept.passing.head = f.kept.passing.tail
		}
		if err := d.sim.connect(f); err != nil {
			return err
		}
		d.flows = append(d.flows, f)
	}
	d.agents = make([]agent, len(d.Hosts()))
	for place, h := range d.Hosts() {
		d.agents[place].wake = units.Never
		if d.sim.fleet == nil {
			d.agents[place].host = d.sim.hosts[h]
		}
	}
	return nil
}

// carryOut does what the Traffic answered: for a host, or between windows.
func (d *driven) carryOut(now units.Time, h *host, act *workload.Actions) error {
	for i := range act.Begun {
		if err := d.say(h, notice{at: now, kind: taskBegun, task: act.Begun[i]}); err != nil {
			return err
		}
	}
	for i := range act.Ended {
		if err := d.say(h, notice{at: now, kind: taskEnded, task: act.Ended[i]}); err != nil {
			return err
		}
	}
	for _, p := range act.Posts {
		f := d.flows[p.Conn]
		f.kept.waiting = append(f.kept.waiting, p)
		if f.light != nil {
			if err := f.kept.postLight(); err != nil {
				return err
			}
			continue
		}
		if err := f.postsMore(now); err != nil {
			return err
		}
		f.poster.alarm(now)
	}
	return nil
}

// acted does what the Traffic answered for the host at a place.
func (d *driven) acted(now units.Time, place int, act *workload.Actions) error {
	h := d.agents[place].host
	if err := d.carryOut(now, h, act); err != nil {
		return err
	}
	d.setWakeOf(now, place)
	return d.say(h, notice{at: now, kind: hostActed, by: d})
}

func (d *driven) say(h *host, n notice) error {
	if h == nil {
		return d.sim.hear(&n)
	}
	h.say(n)
	return nil
}

// hasActed hears that a host has acted. What follows for all is done when all that hosts
// did at that instant has been heard.
func (d *driven) hasActed(now units.Time) error {
	s := d.sim
	switch {
	case d.closed || !d.Turned():
		return nil
	case s.fleet != nil:
		return d.settle(now)
	case now != s.engine.Now():
		return fmt.Errorf("workload %d turned at %v, within a window that was to have no turn: this is a bug", d.Workload, now)
	}
	if !s.settles {
		s.settles = true
		s.engine.Schedule(now, &s.src, s.lastID, evSettle, 0)
	}
	return nil
}

// settleTraffic is the event.
func (s *simulation) settleTraffic(now units.Time) error {
	s.settles = false
	for _, d := range s.driven {
		if d.closed || !d.opened || !d.Turned() {
			continue
		}
		if err := d.settle(now); err != nil {
			return err
		}
	}
	return nil
}

// settle does what hosts do together.
func (d *driven) settle(now units.Time) error {
	if err := d.carryOut(now, nil, d.Settle(now)); err != nil {
		return err
	}
	if d.Over() {
		return d.close(now)
	}
	d.setWake(d.Next())
	return nil
}

// mayTurn reports whether hosts may do something together in a window that starts at a
// time: only once all that was posted may arrive in it.
func (d *driven) mayTurn(start units.Time) bool {
	if d.closed || !d.opened || !d.MayTurn(start, start+d.sim.net.Division().Longest()) {
		return false
	}
	for _, f := range d.flows {
		if f.kept.next < len(f.kept.waiting) || f.arrived().Payload+d.sim.within(f) < f.posted {
			return false
		}
	}
	return true
}

// take takes the next message that waits.
func (k *kept) take() (p workload.Post, ok bool) {
	if k.next == len(k.waiting) {
		return p, false
	}
	p = k.waiting[k.next]
	if k.next++; 2*k.next >= len(k.waiting) {
		k.waiting = k.waiting[:copy(k.waiting, k.waiting[k.next:])]
		k.next = 0
	}
	if k.Notify {
		k.passing.put(p)
	}
	return p, true
}

// post posts what waits, as far as it may.
func (k *kept) post() error {
	if k.flow.light != nil {
		return k.postLight()
	}
	f, limit := k.flow, k.flow.depth()
	for f.outstanding < limit {
		p, ok := k.take()
		if !ok {
			break
		}
		f.add(p.Size, uint64(p.Tag), true)
		if len(f.poster.requests) == f.poster.sim.sys.Verbs.PostList {
			if err := f.poster.ring(f); err != nil {
				return err
			}
		}
	}
	if len(f.poster.requests) > 0 {
		return f.poster.ring(f)
	}
	return nil
}

// completed reports to the Traffic that a message has completed.
func (k *kept) completed(now units.Time, tag int) error {
	if err := k.post(); err != nil || k.by.closed {
		return err
	}
	return k.by.acted(now, k.by.Poster(k.number), k.by.Completed(now, k.number, tag))
}

// received reports to the Traffic that a message has arrived: the one posted first,
// since a queue pair keeps the order.
func (k *kept) received(now units.Time) error {
	if !k.notifies() || k.by.closed {
		return nil
	}
	return k.by.acted(now, k.by.Receiver(k.number), k.by.Arrived(now, k.passing.take()))
}

// close takes the connections down once nothing is under way on them.
func (d *driven) close(now units.Time) error {
	for _, f := range d.flows {
		if f.outstanding > 0 {
			return nil
		}
	}
	d.closed = true
	for _, f := range d.flows {
		if m := d.sim.measure; m != nil {
			m.connectionCloses(f)
		}
		if err := d.sim.close(f, now); err != nil {
			return err
		}
	}
	return nil
}
