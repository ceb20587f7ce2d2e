package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// waitBytes is what the element that waits takes in the queue.
const waitBytes = pcie.CacheLine

// sendTimes draws how late waits end.
type sendTimes struct {
	stream des.Stream
	waited units.Time // by elements that were in the NIC, summed over them
}

// WaitUntil has the next request that is posted, and those behind it, leave no earlier than at: a wait before it in
// the send queue. A time that has passed is no wait. It fails on a NIC that does not schedule by time.
func (n *NIC) WaitUntil(num uint32, at units.Time) error {
	c := &n.chip.Config.SendTime
	if c.Tick == 0 {
		return fmt.Errorf("a send time of %v: the NIC does not schedule by time (nic.with.send_time.tick)", at)
	}
	if at < 0 || at >= units.Never-c.Tick-c.Jitter {
		return fmt.Errorf("a send time of %v: it must lie within the run", at)
	}
	at = (at + c.Tick - 1) / c.Tick * c.Tick
	if c.Jitter > 0 {
		at += units.Time(n.elements.times.stream.Float64() * float64(c.Jitter))
	}
	n.pairs.find(num).waitUntil = at
	return nil
}

// due returns how many of a queue pair's elements in the NIC the transport may have now, and when it may have the next, Never for
// none.
func (e *elements) due(now units.Time, q *qp) (n int, next units.Time) {
	if s := q.rc.State(); failed(s) {
		return q.waiting, units.Never // they are flushed
	}
	for n < q.waiting {
		if at := q.wqe(q.handed + uint32(n)).waitUntil; at > now {
			return n, at
		}
		n++
	}
	return n, units.Never
}

// waitedFor returns how long elements have waited until now, summed over them.
func (e *elements) waitedFor(now units.Time) units.Time {
	sum := e.times.waited
	for _, q := range e.pairs.all {
		if q != nil {
			sum += units.Time(q.waiting) * (now - q.waitFrom)
		}
	}
	return sum
}
