package paced

import "github.com/sluice-rdma/sluice/verbs"

// Adoption puts a Shim under a program that made its objects at the provider
// before, or that makes them there without knowing of a Shim. An adopted object
// stays its owner's: destroying what is returned here forgets it, and the inner
// object is then to be destroyed by whoever made it.

// AdoptPD returns inner, a protection domain of the provider's device, as one of
// the Shim. Its CreateQP returns a *QP, given CQs of the Shim; everything else it
// passes on. Close leaves inner alone.
func (s *Shim) AdoptPD(inner verbs.PD) verbs.PD {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects++
	return &pd{PD: inner, shim: s, adopted: true}
}

// AdoptChannel returns inner, a completion channel of the provider's device, as one
// of the Shim. Only the returned channel's Wait may fetch events of inner. A
// program may sleep on inner's own file descriptor and then call Wait(0). The
// descriptor is readable when Wait has an event, and each time a segment completes;
// for a segment, Wait makes progress and returns ErrTimeout. While a program sleeps
// this way, someone has to call Progress at Deadline.
//
// Close does not destroy inner; it destroys the Shim's own CQs on inner.
func (s *Shim) AdoptChannel(inner verbs.CompChannel) verbs.CompChannel {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects++
	return &channel{shim: s, inner: inner, adopted: true}
}

// AdoptCQ returns inner, a CQ of the provider's device, as one of the Shim, for
// queue pairs that its CreateQP makes. Receives and requests that are not paced
// complete on inner. Poll of the returned CQ returns these completions too, so a
// program polls and arms inner only through the returned CQ. ch is the Shim's
// channel, made or adopted, over the channel of inner; nil if inner has none.
//
// It fails with ErrInvalid if ch is not the Shim's or inner is adopted already.
// Close leaves inner alone.
func (s *Shim) AdoptCQ(inner verbs.CQ, ch verbs.CompChannel) (*CQ, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &CQ{shim: s, recv: inner, adopted: true}
	if ch != nil {
		own, ok := ch.(*channel)
		if !ok || own.shim != s {
			return nil, verbs.Errorf("adopt_cq", s.dev.Name(), verbs.ErrInvalid, "the channel must be made or adopted by this device")
		}
		c.channel = own
	}
	if _, taken := s.byInner[inner]; taken {
		return nil, verbs.Errorf("adopt_cq", s.dev.Name(), verbs.ErrInvalid, "the CQ is the shim's already")
	}
	s.enter(c)
	return c, nil
}

// enter counts a CQ. The lock is held.
func (s *Shim) enter(c *CQ) {
	s.objects++
	s.byInner[c.recv] = c
	if c.channel != nil {
		c.channel.refs++
	}
}
