package bench

import (
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// driven is a workload.Traffic as it runs: its connections are flows that post what
// it says, and that stay until it is over.
type driven struct {
	*workload.Traffic
	sim    *simulation
	number int // of the evTraffic
	flows  []*flow
	wake   units.Time // of the pending event, or Never
	opened bool
	closed bool
}

// kept is what a flow is as a connection of a Traffic.
type kept struct {
	workload.Conn
	by     *driven
	number int // of the connection
	flow   *flow
	// waiting are the messages to post, from the first that is not posted on; coming
	// are the tags of messages that the receiver does not yet know to have arrived.
	waiting []workload.Post
	next    int
	coming  []int
	came    int
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
		d := &driven{Traffic: t, sim: s, number: i, wake: units.Never}
		s.driven = append(s.driven, d)
		d.setWake(t.Start)
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

func (d *driven) setWake(at units.Time) {
	if at < d.wake {
		d.wake = at
		d.sim.engine.Schedule(max(at, d.sim.engine.Now()), &d.sim.src, d.sim.id, evTraffic, uint64(d.number))
	}
}

// wakeUp is the event: at first the connections are opened.
func (d *driven) wakeUp(now units.Time) {
	if d.closed || now != d.wake {
		return // an earlier event took its place
	}
	d.wake = units.Never
	if !d.opened {
		if err := d.open(now); err != nil {
			d.sim.fail(err)
			return
		}
	}
	if err := d.carryOut(now, d.Tick(now)); err != nil {
		d.sim.fail(err)
	}
}

// open makes the connections. They count as flows without end, and only the bytes
// that they carry are measured; tasks start and end.
func (d *driven) open(now units.Time) error {
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
		if err := d.sim.connect(f); err != nil {
			return err
		}
		d.flows = append(d.flows, f)
	}
	return nil
}

// carryOut does what the Traffic answered.
func (d *driven) carryOut(now units.Time, act *workload.Actions) error {
	if m := d.sim.measure; m != nil {
		for i := range act.Begun {
			m.taskBegun(&act.Begun[i])
		}
		for i := range act.Ended {
			m.taskEnded(&act.Ended[i], now)
		}
	}
	if d.sim.onTask != nil {
		for i := range act.Ended {
			d.sim.onTask(&act.Ended[i], now)
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
	if d.Over() {
		return d.close(now)
	}
	d.setWake(d.Next())
	return nil
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
		k.coming = append(k.coming, p.Tag)
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
	if err := k.post(); err != nil {
		return err
	}
	if k.by.closed {
		return nil
	}
	if k.by.Over() {
		return k.by.close(now)
	}
	return k.by.carryOut(now, k.by.Completed(now, k.number, tag))
}

// received reports to the Traffic that a message has arrived: the one posted first,
// since a queue pair keeps the order.
func (k *kept) received(now units.Time) error {
	if !k.notifies() || k.by.closed {
		return nil
	}
	tag := k.coming[k.came]
	if k.came++; 2*k.came >= len(k.coming) {
		k.coming = k.coming[:copy(k.coming, k.coming[k.came:])]
		k.came = 0
	}
	return k.by.carryOut(now, k.by.Arrived(now, k.number, tag))
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
		if err := f.over(now); err != nil {
			return err
		}
	}
	return nil
}
