package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// AsyncEvent is an asynchronous event; QPN and CQ are valid where Type is about
// one. That an SRQ has reached its limit is told by a queue pair that draws on it.
type AsyncEvent struct {
	Type ib.EventType
	QPN  uint32
	CQ   uint32
}

// asyncEvents is those that were not yet taken.
type asyncEvents struct {
	queue   []AsyncEvent
	handler func(now units.Time)
}

// TakeEvent returns the oldest asynchronous event that was not yet taken.
func (n *NIC) TakeEvent() (AsyncEvent, bool) {
	if len(n.async.queue) == 0 {
		return AsyncEvent{}, false
	}
	e := n.async.queue[0]
	n.async.queue = n.async.queue[1:]
	return e, true
}

// OnAsyncEvent calls f when an asynchronous event has been raised.
func (n *NIC) OnAsyncEvent(f func(now units.Time)) { n.async.handler = f }

func (a *asyncEvents) raise(now units.Time, e AsyncEvent) {
	a.queue = append(a.queue, e)
	if a.handler != nil {
		a.handler(now)
	}
}

// raiseAll raises all of a set that is about a queue pair.
func (a *asyncEvents) raiseAll(now units.Time, qpn uint32, events rc.EventSet) {
	for event := range ib.EventType(32) {
		if events.Has(event) {
			a.raise(now, AsyncEvent{Type: event, QPN: qpn})
		}
	}
}
