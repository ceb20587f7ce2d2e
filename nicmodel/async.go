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

// async holds the events that were not yet taken. Its exported methods are the NIC's.
type async struct {
	queue   []AsyncEvent
	handler func(now units.Time)
}

// TakeEvent returns the oldest asynchronous event that was not yet taken.
func (a *async) TakeEvent() (AsyncEvent, bool) {
	if len(a.queue) == 0 {
		return AsyncEvent{}, false
	}
	e := a.queue[0]
	a.queue = a.queue[1:]
	return e, true
}

// OnAsyncEvent calls f when an asynchronous event has been raised.
func (a *async) OnAsyncEvent(f func(now units.Time)) { a.handler = f }

func (a *async) raise(now units.Time, e AsyncEvent) {
	a.queue = append(a.queue, e)
	if a.handler != nil {
		a.handler(now)
	}
}

// raiseAll raises all of a set that is about a queue pair.
func (a *async) raiseAll(now units.Time, qpn uint32, events rc.EventSet) {
	for event := range ib.EventType(32) {
		if events.Has(event) {
			a.raise(now, AsyncEvent{Type: event, QPN: qpn})
		}
	}
}
