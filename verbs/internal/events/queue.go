// Package events holds a device's asynchronous events until the program reads them.
package events

import (
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// A Queue holds the asynchronous events that nobody has read yet. An event that
// recurs before it is read is one event, and destroying an object removes its events.
// So a program that never reads events keeps at most one of each type for each
// object. The zero value is empty. The caller locks.
type Queue struct {
	pending map[verbs.AsyncEvent]struct{}
	order   []verbs.AsyncEvent // in order of arrival; events that are not pending were removed
}

// Add notes an event. One of a port that recurs is as late as its last occurrence, so
// that the last that a program reads of a port is the port's state.
func (q *Queue) Add(e verbs.AsyncEvent) {
	if _, known := q.pending[e]; known {
		if e.QP == nil && e.CQ == nil && e.SRQ == nil {
			q.order = append(slices.DeleteFunc(q.order, func(o verbs.AsyncEvent) bool { return o == e }), e)
		}
		return
	}
	if q.pending == nil {
		q.pending = map[verbs.AsyncEvent]struct{}{}
	}
	q.pending[e] = struct{}{}
	q.order = append(q.order, e)
}

// Take returns the oldest event.
func (q *Queue) Take() (e verbs.AsyncEvent, ok bool) {
	for len(q.order) > 0 && !ok {
		e = q.order[0]
		q.order = q.order[1:]
		_, ok = q.pending[e]
	}
	delete(q.pending, e)
	return e, ok
}

// Waiting reports whether Take would return an event.
func (q *Queue) Waiting() bool { return len(q.pending) > 0 }

// Forget drops the events of an object that is destroyed, given as an event that names
// it.
func (q *Queue) Forget(of verbs.AsyncEvent) {
	for of.Type = 0; of.Type <= ib.EventQPLastWQE; of.Type++ {
		delete(q.pending, of)
	}
	if len(q.order) <= 2*len(q.pending) {
		return
	}
	kept := make([]verbs.AsyncEvent, 0, len(q.pending))
	for _, e := range q.order {
		if _, ok := q.pending[e]; ok {
			kept = append(kept, e)
		}
	}
	q.order = kept
}
