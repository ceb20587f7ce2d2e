package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// Stage scheduler: which queue pair's packet is next. Those that have something due wait
// in the limiter's ring, one turn each (package ratelimiter).
//
// State: the limiter's flows, and for each queue pair since when it is held back, and by
// what (held.go). Cost: SchedulerCycles a packet. It stalls for room among the TxPackets
// before the wire (StallTxBuffer), and for a processing unit (StallUnits).

// file puts a queue pair before the scheduler if it has a packet that transport,
// window and rate let it send. A queue pair that is held back is not there.
func (n *NIC) file(now units.Time, q *qp) {
	if !q.hasFlow || n.limiter.Queued(q.flow) {
		return
	}
	bytes, ok := q.rc.PeekRequest(now)
	if !ok {
		n.held(now, q, holdNone)
		q.limit.waits = false
		return
	}
	if q.txUntil > now {
		n.held(now, q, holdUnit)
		return // evUnit comes
	}
	if q.pull != nil {
		n.turnTo(now, q)
	}
	if out := q.rc.Inflight(); !q.next.Fits(out, units.Bytes(bytes)) || out > 0 && q.Turns() {
		if !q.Turns() {
			q.next.Shut()
		}
		n.held(now, q, holdWindow)
		q.limit.waits = false
		return
	}
	if q.limit.entry != 0 && !n.paced(now, q, units.Bytes(bytes)) {
		n.held(now, q, holdPace)
		return // evLimit comes
	}
	n.limiter.Enqueue(now, q.flow, units.Bytes(bytes))
	n.held(now, q, holdPace)
}

// schedule chooses queue pairs for as long as there is room before the MAC, one
// each time the scheduler is free.
func (n *NIC) schedule(now units.Time) {
	for n.inRequests < n.cfg.TxPackets {
		if free := n.scheduler.Free(); free > now {
			n.wakeScheduler(free)
			return
		}
		if n.txUnits != nil && n.limiter.NextDue() <= now {
			if free := n.txUnits.free(now); free > now {
				n.unitsFrom = min(n.unitsFrom, now)
				n.wakeScheduler(free)
				return
			}
		}
		flow, ok := n.limiter.Dequeue(now)
		if !ok {
			if due := n.limiter.NextDue(); due < n.limiterAt {
				n.limiterAt = due
				n.engine.Schedule(due, &n.src, n.id, evLimiter, 0)
			}
			return
		}
		q := n.flows[flow]
		n.held(now, q, holdNone)
		q.rc.BoundInflight(q.next.Control().Window)
		if out := q.rc.Inflight(); q.rc.NextRequest(now, &n.desc) {
			q.path = q.Path(out, n.desc.Header.AckReq)
			if q.limit.entry != 0 {
				q.limit.charge(now, n.cfg.Limiter.Tick, units.Bytes(n.desc.Payload)+units.Bytes(n.desc.Expect))
			}
			if !n.desc.Retransmit {
				bytes := units.Bytes(n.desc.Payload) + units.Bytes(n.desc.Expect)
				s := q.next
				s.sent += bytes
				s.Sent(now, bytes)
			}
			n.build(now, q, false)
			n.arm(now, q)
		}
		n.file(now, q)
	}
	if n.txFull == units.Never && n.limiter.NextDue() <= now {
		n.txFull = now
	}
}

// schedulerWaits returns since when a due queue pair has waited, or Never, and for
// what.
func (n *NIC) schedulerWaits() (since units.Time, why Stall) {
	if n.unitsFrom < n.txFull {
		return n.unitsFrom, StallUnits
	}
	return n.txFull, StallTxBuffer
}

func (n *NIC) wakeScheduler(at units.Time) {
	if at < n.schedAt {
		n.schedAt = at
		n.engine.Schedule(at, &n.src, n.id, evSchedule, 0)
	}
}

// refill lets the stages before the MAC use the room that it has made.
func (n *NIC) refill(now units.Time) {
	if len(n.responders) > 0 {
		n.respond(now, nil)
	}
	n.schedule(now)
}

// SetWeight has the scheduler choose up to w packets of a queue pair, 1 to
// ratelimiter.MaxWeight, each time its turn comes among those that wait, instead of
// one (mlx5's bw_share of a scheduling element). It stays in force over a reset.
func (n *NIC) SetWeight(num uint32, w int) error {
	if w < 1 || w > ratelimiter.MaxWeight {
		return fmt.Errorf("a weight of %d: 1 to %d", w, ratelimiter.MaxWeight)
	}
	q := n.qp(num)
	q.weight = w
	if !q.hasFlow {
		return nil
	}
	return n.limiter.SetWeight(q.flow, w)
}
