package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// scheduler is the stage that says which queue pair's packet is next. Those that have something due wait
// in the limiter's ring, one turn each (package ratelimiter).
//
// State: the limiter's flows, and for each queue pair since when it is held back, and by
// what (hold). Cost: SchedulerCycles a packet. It stalls for room in TxBuffer
// before the wire (StallTxBuffer), for a processing unit (StallUnits), and while a packet that it chose needs an
// entry of the NIC's tables and as many are being read as can be (StallContext, StallTranslation).
type scheduler struct {
	*chip.Chip
	stage.Stage
	pairs      *pairs
	transport  *transport
	packetiser *packetiser
	mac        *mac

	units     *processingUnits // of requests, or nil
	ring      ring             // all queue pairs, where there is no arbiter
	arbiter   *arbiter         // between rings, or nil
	rates     rateTable
	holds     [numHolds]units.Time // what queue pairs were held for, summed over them
	wakeAt    units.Time           // of the pending EvSchedule, or Never
	limiterAt units.Time           // of the pending EvLimiter, or Never
	unitsFrom units.Time           // since when requests have waited for a unit, or Never
	fullFrom  units.Time           // since when a due queue pair has waited for room, or Never
	missFrom  units.Time           // since when one has waited for a packet that waits for an entry, or Never
	missUntil units.Time           // until when that packet's read can't begin
	missFor   stage.Stall
}

// add lets a queue pair send, at its current rate.
func (s *scheduler) add(q *qp) error {
	rate := q.Control().Rate
	if q.limit.entry != 0 {
		rate = ratelimiter.Unpaced // here
	}
	r := &s.ring
	if s.arbiter != nil {
		var err error
		if r, err = s.arbiter.ringOf(int(q.class), int(q.function)); err != nil {
			return err
		}
	}
	flow, err := r.limiter.AddFlow(rate)
	if err != nil {
		return err
	}
	if q.weight > 0 {
		if err := r.limiter.SetWeight(flow, q.weight); err != nil {
			return err
		}
	}
	q.ring, q.flow, q.hasFlow = r, flow, true
	for int(flow) >= len(r.flows) {
		r.flows = append(r.flows, nil)
	}
	r.flows[flow] = q
	return nil
}

// remove takes a queue pair away, and its limit off.
func (s *scheduler) remove(now units.Time, q *qp) {
	s.noteHold(now, q, holdNone)
	if q.hasFlow {
		q.ring.limiter.RemoveFlow(q.flow)
		q.ring.flows[q.flow] = nil
		q.hasFlow = false
	}
	s.unlimit(q)
}

// file puts a queue pair before the scheduler if it has a packet that transport,
// window and rate let it send. A queue pair that is held back is not there.
func (s *scheduler) file(now units.Time, q *qp) {
	if !q.hasFlow || q.ring.limiter.Queued(q.flow) {
		return
	}
	bytes, ok := q.rc.PeekRequest(now)
	if !ok {
		s.noteHold(now, q, holdNone)
		q.limit.waits = false
		return
	}
	if q.txUntil > now {
		s.noteHold(now, q, holdUnit)
		return // EvUnit comes
	}
	if q.pull != nil {
		s.takeSteering(now, q)
	}
	if out := q.rc.Inflight(); !q.next.Fits(out, units.Bytes(bytes)) && (q.rc.AnswerDue() || !q.next.MayAsk()) || out > 0 && q.Turns() {
		if !q.Turns() {
			q.next.Shut()
		}
		s.noteHold(now, q, holdWindow)
		q.limit.waits = false
		return
	}
	if q.limit.entry != 0 && !s.withinLimit(now, q, units.Bytes(bytes)) {
		s.noteHold(now, q, holdPace)
		return // EvLimit comes
	}
	q.ring.limiter.Enqueue(now, q.flow, units.Bytes(bytes))
	if s.arbiter != nil && s.arbiter.rates[q.function].due > now {
		s.noteHold(now, q, holdFunction)
		return
	}
	s.noteHold(now, q, holdPace)
}

// choose chooses queue pairs for as long as there is room before the MAC, one each time
// the scheduler is free.
func (s *scheduler) choose(now units.Time) {
	for s.arbiter != nil || s.mac.requestRoom[0].takes() {
		if free := s.freeFrom(now); free > now {
			s.wake(free)
			return
		}
		r := &s.ring
		if s.arbiter != nil {
			var due units.Time
			var full bool
			if r, due, full = s.arbiter.choose(now, &s.mac.requestRoom); r == nil {
				if full {
					s.fullFrom = min(s.fullFrom, now)
				}
				s.limiterDue(due)
				return
			}
		}
		flow, ok := r.limiter.Dequeue(now)
		if !ok {
			s.limiterDue(r.limiter.NextDue())
			return
		}
		q := r.flows[flow]
		s.noteHold(now, q, holdNone)
		s.issue(now, q)
		s.file(now, q)
	}
	if s.fullFrom == units.Never && s.nextDue() <= now {
		s.fullFrom = now
	}
}

// limiterDue schedules a look at the due queue pairs for the time due.
func (s *scheduler) limiterDue(due units.Time) {
	if due < s.limiterAt {
		s.limiterAt = due
		s.Schedule(due, chip.EvLimiter, 0)
	}
}

// nextDue returns when a queue pair is due, in the past too; Never for none.
func (s *scheduler) nextDue() units.Time {
	if s.arbiter != nil {
		return s.arbiter.nextDue()
	}
	return s.ring.limiter.NextDue()
}

// freeFrom returns from when on the scheduler can choose, now or later: it is free
// itself, and so is a processing unit if a queue pair is due.
func (s *scheduler) freeFrom(now units.Time) units.Time {
	if free := s.FreeAt(); free > now {
		return free
	}
	if s.missUntil > now {
		if s.nextDue() <= now {
			s.missFrom = min(s.missFrom, now)
		}
		return s.missUntil
	}
	if s.units == nil || s.nextDue() > now {
		return now
	}
	free := s.units.free(now)
	if free > now {
		s.unitsFrom = min(s.unitsFrom, now)
	}
	return free
}

// chosen accounts for the choice of a packet, and returns when it is made.
func (s *scheduler) chosen(now units.Time) units.Time {
	since, why := s.waits()
	s.fullFrom, s.unitsFrom, s.missFrom = units.Never, units.Never, units.Never
	return s.Serve(min(since, now), now, why, s.Config.SchedulerCycles)
}

// occupyUnit has a processing unit work on a packet of a request, and returns when it is
// done. missed says that the element of a Read or an atomic was not on the chip.
func (s *scheduler) occupyUnit(t units.Time, q *qp, missed bool) units.Time {
	q.txUntil = max(q.txUntil, q.contextAt)
	done := s.units.send(t, s.units.passes(missed), &q.txUntil)
	s.Schedule(q.txUntil, chip.EvUnit, uint64(q.num))
	return done
}

// unitDone handles that a queue pair's request has left its processing unit.
func (s *scheduler) unitDone(now units.Time, q *qp) {
	if q != nil && q.hasFlow {
		s.file(now, q)
		s.choose(now)
	}
}

// hold keeps the scheduler until an entry's read can begin.
func (s *scheduler) hold(until units.Time, why stage.Stall) {
	if until > s.missUntil {
		s.missUntil, s.missFor = until, why
	}
}

// waits returns since when a due queue pair has waited, or Never, and the reason.
func (s *scheduler) waits() (since units.Time, why stage.Stall) {
	if s.missFrom < min(s.unitsFrom, s.fullFrom) {
		return s.missFrom, s.missFor
	}
	if s.unitsFrom < s.fullFrom {
		return s.unitsFrom, stage.StallUnits
	}
	return s.fullFrom, stage.StallTxBuffer
}

func (s *scheduler) wake(at units.Time) {
	if at < s.wakeAt {
		s.wakeAt = at
		s.Schedule(at, chip.EvSchedule, 0)
	}
}

// refill lets the stages before the MAC use the room that it has made.
func (m *mac) refill(now units.Time) {
	if len(m.packetiser.responders) > 0 {
		m.packetiser.respond(now, nil)
	}
	m.scheduler.choose(now)
}

// SetWeight has the scheduler choose up to w packets of a queue pair at each of its
// turns, instead of one (mlx5's bw_share of a scheduling element). w is 1 to
// ratelimiter.MaxWeight. The weight stays in force over a reset.
func (n *NIC) SetWeight(num uint32, w int) error {
	if w < 1 || w > ratelimiter.MaxWeight {
		return fmt.Errorf("a weight of %d: 1 to %d", w, ratelimiter.MaxWeight)
	}
	q := n.pairs.find(num)
	q.weight = w
	if !q.hasFlow {
		return nil
	}
	return q.ring.limiter.SetWeight(q.flow, w)
}

// hold is the reason why a queue pair with a packet to send is not before the scheduler.
type hold uint8

const (
	holdNone     hold = iota
	holdPace          // its packet is not due by the rate
	holdWindow        // the window has no room, or its way changes when all is acknowledged
	holdFunction      // its function has sent what its rate allows
	holdUnit          // the packet before is in a processing unit
	numHolds
)

var holdNames = [numHolds]string{"", "the pace", "the window", "the rate of its function", "the packet before in its unit"}

// noteHold notes why a queue pair is held from now on.
func (s *scheduler) noteHold(now units.Time, q *qp, why hold) {
	if q.hold == why {
		return
	}
	s.holds[q.hold] += s.heldFor(now, q)
	q.hold, q.holdFrom = why, now
}

// heldFor returns how long a queue pair has been held for the present reason.
func (s *scheduler) heldFor(now units.Time, q *qp) units.Time {
	if q.hold == holdPace && q.hasFlow && q.limit.wake == 0 {
		// Behind that it waits for the scheduler, as others do.
		now = min(now, q.ring.limiter.Due(q.flow))
	}
	return max(now-q.holdFrom, 0)
}

// holdSums returns the times for which queue pairs were held back until now, by reason.
func (s *scheduler) holdSums(now units.Time) [numHolds]units.Time {
	sums := s.holds
	for q := range s.pairs.every {
		sums[q.hold] += s.heldFor(now, q)
	}
	return sums
}

// holdWaits are the waits of queue pairs before the scheduler.
func (s *scheduler) holdWaits(now units.Time) []stage.Wait {
	sums := s.holdSums(now)
	var all []stage.Wait
	for why := holdPace; why < numHolds; why++ {
		if (why != holdUnit || s.units != nil) && (why != holdFunction || s.arbiter != nil) {
			all = append(all, stage.Wait{Where: "queue pairs", For: holdNames[why], Total: sums[why]})
		}
	}
	return all
}

// next returns the next packet of a queue pair's requests in d, if there still is one, and counts it.
func (s *scheduler) next(now units.Time, q *qp, d *rc.Descriptor) bool {
	q.rc.BoundInflight(q.next.Control().Window)
	out := q.rc.Inflight()
	if !q.rc.NextRequest(now, d) {
		return false
	}
	q.path = q.Path(out, d.Header.AckReq)
	bytes := units.Bytes(d.Payload) + units.Bytes(d.Expect)
	if q.limit.entry != 0 {
		q.limit.charge(now, s.Config.Limiter.Tick, bytes)
	}
	if !d.Retransmit {
		q.next.sent += bytes
		q.next.Sent(now, bytes)
	}
	return true
}
