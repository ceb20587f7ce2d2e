package des

import "github.com/sluice-rdma/sluice/units"

// Own is the pending events of one destination that keeps them itself: in order of
// time, and at one instant in the order in which they were scheduled. It is for what a
// divided network runs, at times that are not the engine's Now. The zero value is
// empty.
type Own struct {
	queue heap
	seq   uint32
}

// Schedule adds an event.
func (o *Own) Schedule(at units.Time, kind uint32, arg uint64) {
	o.seq++
	o.queue.push(Event{At: at, Arg: arg, seq: o.seq, Kind: kind})
}

// Next returns the time of the earliest event, or units.Never.
func (o *Own) Next() units.Time {
	if len(o.queue) == 0 {
		return units.Never
	}
	return o.queue[0].At
}

// Take removes the earliest event, of which there is one, and returns it.
func (o *Own) Take() Event { return o.queue.pop() }
