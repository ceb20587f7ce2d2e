package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// hold is why a queue pair with a packet to send is not before the scheduler.
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

// heldFor returns how long a queue pair has been held for what holds it now.
func (s *scheduler) heldFor(now units.Time, q *qp) units.Time {
	if q.hold == holdPace && q.hasFlow && q.limit.wake == 0 {
		// Behind that it waits for the scheduler, as others do.
		now = min(now, q.ring.limiter.Due(q.flow))
	}
	return max(now-q.holdFrom, 0)
}

// holdSums is how long queue pairs were held back until now, by what.
func (s *scheduler) holdSums(now units.Time) [numHolds]units.Time {
	sums := s.holds
	for _, q := range s.pairs.all {
		if q != nil {
			sums[q.hold] += s.heldFor(now, q)
		}
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

// countRequests counts requests that the transport of a queue pair is given, or that are over
// if there are fewer. It is called before the queue pair's own counts change.
func (t *transport) countRequests(now units.Time, q *qp, change int) {
	before := int(q.handed - q.reaped)
	t.requests.Add(now, change)
	switch after := before + change; {
	case before == 0 && after > 0:
		t.active.Add(now, 1)
	case before > 0 && after == 0:
		t.active.Add(now, -1)
	}
}

// Steered is what engines inside a NIC did until some instant.
type Steered struct {
	Cuts uint64 // how often one lowered its rate or its window
	// Rate and Window are how long queue pairs were held back by them, Active how long
	// they had requests: summed over the queue pairs.
	Rate, Window, Active units.Time
}

// Steered reports what the engines inside the NIC did until now. A rate limit that was
// set counts as theirs.
func (n *NIC) Steered(now units.Time) Steered {
	sums := n.scheduler.holdSums(now)
	return Steered{Cuts: n.offload.cuts, Rate: sums[holdPace], Window: sums[holdWindow], Active: units.Time(n.transport.active.Use("", now).Area)}
}
