package des

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// NodeID names a destination of events: the index of its Handler.
type NodeID uint32

// Event is a Handler's argument. The handler and its callers agree on the meaning of Kind
// and Arg.
type Event struct {
	At   units.Time
	Arg  uint64
	dst  NodeID
	src  uint32
	seq  uint32
	Kind uint32
}

// Handler receives the events of one destination.
type Handler interface {
	// Handle is called at ev.At, which is also the engine's Now. It may
	// schedule further events at ev.At or later.
	Handle(ev Event)
}

// Early is a Handler that sees events shortly before Handle does, so that it can
// prefetch the memory that they will touch (package internal/prefetch). It must not
// change anything: other events may run between, and not every event is announced.
type Early interface {
	Handler
	// Soon announces an event for the first time, Next once more when only a few
	// are before it.
	Soon(kind uint32, arg uint64)
	Next(kind uint32, arg uint64)
}

// Source numbers the events that one creator of events schedules. The zero
// value is not usable: Engine.NewSource makes one. Keep it with the state of its
// owner, so that numbering an event touches no other memory.
type Source struct {
	id, seq uint32
}

// Engine holds the pending events of a simulation and the handlers they are for.
// Make one with New.
type Engine struct {
	now       units.Time
	queue     calendar
	handlers  []Handler
	early     []Early // by handler, nil for a handler that is none
	announces bool    // some are not
	sources   uint32
	events    uint64
	stopped   bool
}

// New returns an engine at time 0 with nothing scheduled.
func New() *Engine { return &Engine{queue: newCalendar()} }

// AddHandler registers a destination. The order of registration is part of the
// order of simultaneous events, so it must be the same from run to run.
func (e *Engine) AddHandler(h Handler) NodeID {
	e.handlers = append(e.handlers, h)
	early, is := h.(Early)
	e.early = append(e.early, early)
	e.announces = e.announces || is
	return NodeID(len(e.handlers) - 1)
}

// NewSource returns a source with a number of its own. Like AddHandler's, the
// order of these calls must be the same from run to run.
func (e *Engine) NewSource() Source {
	e.sources++
	return Source{id: e.sources}
}

// Now is the time of the event being handled, or of the last one.
func (e *Engine) Now() units.Time { return e.now }

// Events counts the events delivered so far.
func (e *Engine) Events() uint64 { return e.events }

// Pending counts the events that are scheduled.
func (e *Engine) Pending() int { return e.queue.len() }

// Schedule delivers an event to dst at the given time. It panics if that time
// lies before Now: a model that tries has a bug that would corrupt its results.
func (e *Engine) Schedule(at units.Time, src *Source, dst NodeID, kind uint32, arg uint64) {
	if at < e.now {
		panic(fmt.Sprintf("des: event of kind %d for node %d scheduled at %v, before now, %v", kind, dst, at, e.now))
	}
	src.seq++
	e.queue.push(Event{At: at, Arg: arg, dst: dst, src: src.id, seq: src.seq, Kind: kind})
}

// Next returns the time of the earliest pending event, or units.Never.
func (e *Engine) Next() units.Time {
	if ev := e.queue.min(); ev != nil {
		return ev.At
	}
	return units.Never
}

// Step delivers the earliest event and reports whether there was one.
func (e *Engine) Step() bool {
	ev := e.queue.min()
	if ev == nil {
		return false
	}
	e.deliver(ev)
	return true
}

// deliver delivers the earliest event.
func (e *Engine) deliver(first *Event) {
	ev := *first
	e.queue.drop(first)
	e.now = ev.At
	e.events++
	e.handlers[ev.dst].Handle(ev)
}

// RunUntil delivers every event up to and including the given time, in order,
// and leaves Now there, unless Stop is called on the way.
func (e *Engine) RunUntil(end units.Time) {
	e.stopped = false
	for !e.stopped {
		ev := e.queue.min()
		if ev == nil || ev.At > end {
			break
		}
		if e.announces && e.queue.fresh {
			e.announce()
		}
		e.deliver(ev)
	}
	if !e.stopped && e.now < end && end != units.Never {
		e.now = end
	}
}

// announce announces the events of the bucket that has just been loaded, and those
// of the next one.
func (e *Engine) announce() {
	c := &e.queue
	c.fresh = false
	for i := len(c.sorted) - 1; i >= 0; i-- {
		ev := &c.sorted[i]
		if h := e.early[ev.dst]; h != nil {
			h.Next(ev.Kind, ev.Arg)
		}
	}
	if c.near == 0 {
		return
	}
	slot := uint(c.turn+c.distance()) & uint(len(c.heads)-1)
	for i := c.heads[slot]; i != 0; i = c.nodes[i].next {
		ev := &c.nodes[i].ev
		if h := e.early[ev.dst]; h != nil {
			h.Soon(ev.Kind, ev.Arg)
		}
	}
}

// Stop makes RunUntil return after the event being handled.
func (e *Engine) Stop() { e.stopped = true }

// NewSources returns the number of the first of n sources in a row, for those who
// number their events themselves (Post). It orders them as NewSource would.
func (e *Engine) NewSources(n int) (first uint32) {
	first = e.sources + 1
	e.sources += uint32(n)
	return first
}

// Post is Schedule for a source that numbers its events itself, by seq. Among
// events of a source for one time and destination the lower number goes first;
// events with equal numbers go in any order.
func (e *Engine) Post(at units.Time, src, seq uint32, dst NodeID, kind uint32, arg uint64) {
	if at < e.now {
		panic(fmt.Sprintf("des: event of kind %d for node %d scheduled at %v, before now, %v", kind, dst, at, e.now))
	}
	e.queue.push(Event{At: at, Arg: arg, dst: dst, src: src, seq: seq, Kind: kind})
}

// Advance moves Now to a time before which nothing is pending. It panics if
// something is, or if that time has passed. It is for callers that run part of a
// model outside the engine and have reached that time.
func (e *Engine) Advance(to units.Time) {
	if to < e.now || e.Next() < to {
		panic(fmt.Sprintf("des: moved from %v to %v past an event at %v", e.now, to, e.Next()))
	}
	e.now = to
}

// Stopped reports whether Stop was called since RunUntil was.
func (e *Engine) Stopped() bool { return e.stopped }
