package paced

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// longestNap bounds a sleep on a channel while work may arrive without an event on that
// channel: completions of a CQ that has another channel or none, and segments that
// another goroutine posts during their flow's gap.
const longestNap = 200 * units.Microsecond

// settleNap is for how long another goroutine's poll is awaited at a time.
const settleNap = units.Microsecond

// channel is a completion channel of the application on a Shim.
type channel struct {
	shim    *Shim
	inner   verbs.CompChannel
	refs    int // CQs
	waiting int // goroutines in Wait
	adopted bool

	first, last *CQ // with an event, in order, through nextEvent
}

// CreateCompChannel implements verbs.Device.
func (s *Shim) CreateCompChannel() (verbs.CompChannel, error) {
	inner, err := s.dev.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects++
	return &channel{shim: s, inner: inner}, nil
}

// add appends an event of c. A second one before the first was waited for adds
// nothing.
func (ch *channel) add(c *CQ) {
	if c.pending {
		return
	}
	c.pending, c.nextEvent = true, nil
	if ch.last == nil {
		ch.first = c
	} else {
		ch.last.nextEvent = c
	}
	ch.last = c
}

func (ch *channel) take() *CQ {
	c := ch.first
	if c == nil {
		return nil
	}
	if ch.first = c.nextEvent; ch.first == nil {
		ch.last = nil
	}
	c.pending = false
	return c
}

// forget drops the event of a CQ that is destroyed.
func (ch *channel) forget(c *CQ) {
	first := ch.first
	ch.first, ch.last = nil, nil
	for first != nil {
		next := first.nextEvent
		first.pending = false
		if first != c {
			ch.add(first)
		}
		first = next
	}
}

// Wait implements verbs.CompChannel. It makes the progress of the whole Shim
// each time it wakes: when a segment completes, when one is due, and when a
// receive completes on one of the channel's CQs.
func (ch *channel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	s := ch.shim
	now := s.Clock()
	end := units.LongNever
	if timeout >= 0 {
		if end = now.Plus(units.Long(timeout)); end.Before(now) {
			end = units.LongNever
		}
	}
	s.mu.Lock()
	ch.waiting++
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		ch.waiting--
		s.waiting--
		s.mu.Unlock()
	}()
	for first := true; ; first = false {
		// Arm, then look: what completes after the look makes an event.
		if err := ch.arm(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if err := s.turn(instant{clock: s, long: now}); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		now = s.Clock()
		c := ch.take()
		nap, settled := ch.nap(s.core.Now(now)), ch.settled()
		more := ch.more()
		s.mu.Unlock()
		if c != nil {
			if err := ch.remind(c, more); err != nil {
				return nil, err
			}
			return c, nil
		}
		if !settled {
			// Even a Wait that is not to wait: what it would miss makes no event.
			nap = settleNap
		} else if !now.Before(end) && !first {
			return nil, &verbs.OpError{Op: "get_cq_event", Object: s.dev.Name(), Err: verbs.ErrTimeout}
		}
		if left := end.Sub(now); settled && end != units.LongNever {
			nap = min(nap, max(left, 0))
		}
		inner, err := ch.inner.Wait(ctx, sleep(nap))
		now = s.Clock()
		switch {
		case err == nil:
			ch.fired(inner)
		case !errors.Is(err, verbs.ErrTimeout):
			return nil, err
		}
	}
}

// sleep is a span for a provider's Wait, rounded up to whole nanoseconds; negative if
// there is no end.
func sleep(span units.Time) time.Duration {
	if span == units.Never {
		return -1
	}
	return (span + units.Nanosecond - 1).Duration()
}

// arm arms the CQs of the provider whose segments wake this channel.
func (ch *channel) arm() error {
	s := ch.shim
	s.mu.Lock()
	cqs := s.cqs
	s.mu.Unlock()
	for _, g := range cqs {
		if g.channel == ch {
			if err := s.arm(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// settled reports whether no other goroutine is about to take completions that
// arrived before the channel was armed.
func (ch *channel) settled() bool {
	for _, g := range ch.shim.cqs {
		if g.channel == ch && !g.settled() {
			return false
		}
	}
	return true
}

// remind makes sure that the remaining events are fetched after c's: one event of the
// provider may have caused several, and may be consumed. It is for programs that
// sleep on the descriptor of an adopted channel and fetch one event each time it is
// readable, and for a second goroutine in Wait. g is what more returned. If it fails,
// the event of c waits again.
func (ch *channel) remind(c *CQ, g *sendCQ) error {
	if g == nil {
		return nil
	}
	err := ch.shim.wake(g)
	if err != nil {
		ch.shim.mu.Lock()
		defer ch.shim.mu.Unlock()
		ch.add(c)
	}
	return err
}

// more returns the sendCQ by which to remind of the events that wait; nil if there are
// none, nobody has to be reminded, or no segment can have caused an event.
func (ch *channel) more() *sendCQ {
	if ch.first == nil || !ch.adopted && ch.waiting < 2 {
		return nil
	}
	for _, g := range ch.shim.cqs {
		if g.channel == ch {
			return g
		}
	}
	return nil
}

// nap is after how long a goroutine that sleeps on the channel must look again, or
// units.Never.
func (ch *channel) nap(now units.Time) units.Time {
	s := ch.shim
	at := s.deadline()
	if s.core.GapsEnd() > now {
		at = min(at, now+longestNap)
	}
	if !ch.settled() {
		at = min(at, now+settleNap)
	}
	for _, g := range s.cqs {
		if g.channel != ch && g.inFlight > 0 {
			at = min(at, max(s.core.Instant(g.polled)+longestNap, now+units.Nanosecond))
		}
	}
	if at == units.Never {
		return at
	}
	return max(at-now, 0)
}

// fired takes an event of the provider: of a CQ of receives, which is the
// application's, or of one of segments, which is not.
func (ch *channel) fired(inner verbs.CQ) {
	s := ch.shim
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.byInner[inner].(type) {
	case *sendCQ:
		c.armed = false
	case *CQ:
		if c.armed != disarmed {
			c.fire()
		}
	}
}

// Close implements verbs.CompChannel.
func (ch *channel) Close() error {
	s := ch.shim
	s.mu.Lock()
	refs := ch.refs
	s.mu.Unlock()
	if refs > 0 {
		return verbs.Errorf("destroy_comp_channel", s.dev.Name(), verbs.ErrBusy, "%d CQs use it: destroy them first", refs)
	}
	if err := s.destroySendCQs(ch); err != nil {
		return err
	}
	if !ch.adopted {
		if err := ch.inner.Close(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.objects--
	s.mu.Unlock()
	return nil
}
