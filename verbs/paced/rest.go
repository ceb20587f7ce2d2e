package paced

import "github.com/sluice-rdma/sluice/units"

// rest is what a thread that makes progress was told when it last looked.
type rest struct {
	until units.Time
	idle  bool   // nothing was with the provider
	kick  func() // nil if nobody rests
}

// Rest is for the one thread that makes progress so that the program need not. It
// returns until when that thread may rest, by Clock: to Deadline, or, while
// segments are with the provider, of whose completion nobody may tell the shim, no
// further than look from now; units.Never if there is nothing to do. kick, unless
// nil, is called once if that time comes earlier meanwhile, and then no more until
// the next Rest. It is called with the shim locked: it must not call the shim, nor
// wait.
func (s *Shim) Rest(look units.Time, kick func()) (until units.Time) {
	now := s.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	until = s.deadline()
	if s.core.InFlight() > 0 {
		until = min(until, now+look)
	}
	s.rest = rest{until: until, idle: s.core.InFlight() == 0, kick: kick}
	return until
}

// alert wakes who rests too long for what there is to do now.
func (s *Shim) alert() {
	if s.rest.kick == nil || s.deadline() >= s.rest.until && (!s.rest.idle || s.core.InFlight() == 0) {
		return
	}
	kick := s.rest.kick
	s.rest.kick = nil
	kick()
}
