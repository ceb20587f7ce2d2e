package paced

import "github.com/sluice-rdma/sluice/units"

// rest is what Rest last returned to the thread that makes progress.
type rest struct {
	until units.LongTime
	idle  bool   // nothing was with the provider
	kick  func() // nil if no thread rests
}

// Rest is for the one thread that makes progress so that the program need not. It
// returns until when, by Clock, that thread may rest: until Deadline, and no longer
// than look from now while segments are with the provider, since no event may
// announce their completion. It returns units.LongNever if there is nothing to do. If
// that time moves earlier during the rest, the shim calls kick once, unless it is
// nil, and not again until the next Rest. The shim is locked during kick, which
// must not call the shim, nor wait.
func (s *Shim) Rest(look units.Time, kick func()) (until units.LongTime) {
	t := s.now()
	t.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.in(s.core)
	due := s.deadline()
	if s.core.InFlight() > 0 {
		due = min(due, t.now+look)
	}
	until = s.core.Long(due)
	s.rest = rest{until: until, idle: s.core.InFlight() == 0, kick: kick}
	return until
}

// alert wakes the resting thread if there is work before the end of its rest.
func (s *Shim) alert() {
	if s.rest.kick == nil || s.deadline() >= s.core.Instant(s.rest.until) && (!s.rest.idle || s.core.InFlight() == 0) {
		return
	}
	kick := s.rest.kick
	s.rest.kick = nil
	kick()
}
