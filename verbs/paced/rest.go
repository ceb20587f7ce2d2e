package paced

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/units"
)

// rest is the last result of Rest to the thread that makes progress.
type rest struct {
	on atomic.Bool // a thread rests: kick is set. It spares the data path the lock.

	mu    sync.Mutex // the last one: nothing else is locked while it is held
	until units.LongTime
	idle  bool // nothing was with the provider
	kick  func()
}

// Rest is for the one thread that makes progress so that the program need not. It
// returns until when, by Clock, that thread may rest: until Deadline, and no longer
// than look from now while segments are with the provider, since no event may
// announce their completion. It returns units.LongNever if there is nothing to do. If
// that time moves earlier during the rest, the shim calls kick once, unless it is
// nil, and not again until the next Rest. A part of the shim is locked during kick,
// which must not call the shim, nor wait.
func (s *Shim) Rest(look units.Time, kick func()) (until units.LongTime) {
	// What is posted from now on kicks, until it is known how long the rest is.
	s.rest.set(units.LongNever, true, kick)
	until, idle := units.LongNever, true
	for _, x := range *s.shards.Load() {
		x.mu.Lock()
		due := x.deadline()
		if x.core.InFlight() > 0 {
			due = min(due, x.instant()+look)
			idle = false
		}
		if at := x.core.Long(due); at.Before(until) {
			until = at
		}
		x.mu.Unlock()
	}
	s.rest.settle(until, idle)
	return until
}

func (r *rest) set(until units.LongTime, idle bool, kick func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.idle, r.kick = until, idle, kick
	r.on.Store(kick != nil)
}

// settle says how long the rest is, unless it was ended meanwhile.
func (r *rest) settle(until units.LongTime, idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.idle = until, idle
}

// end returns the function that wakes the thread, nil for none, if there is work at due
// or, unless there was before, with the provider.
func (r *rest) end(due units.LongTime, inFlight bool) (kick func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if due.Before(r.until) || r.idle && inFlight {
		kick, r.kick = r.kick, nil
		r.on.Store(false)
	}
	return kick
}

// alert wakes the resting thread if there is work before the end of its rest.
func (s *shard) alert() {
	if !s.rest.on.Load() {
		return
	}
	if kick := s.rest.end(s.core.Long(s.deadline()), s.core.InFlight() > 0); kick != nil {
		kick()
	}
}
