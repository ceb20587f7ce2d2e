package paced

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// longestNap bounds a sleep on a channel while work may arrive without an event on that
// channel: completions of a CQ that has another channel or none, and segments that
// another goroutine posts during their flow's gap.
const longestNap = 200 * units.Microsecond

// settleNap is the time for which another goroutine's poll is awaited at once.
const settleNap = units.Microsecond

// channel is a completion channel of the application on a Shim.
type channel struct {
	shim    *Shim
	inner   verbs.CompChannel
	refs    int          // CQs; guarded by shim.mu
	waiting atomic.Int32 // goroutines in Wait

	mu          sync.Mutex // guards what follows; the last one, with a shard's lock held or not
	first, last *CQ        // with an event, in order, through nextEvent
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
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.append(c)
}

func (ch *channel) append(c *CQ) {
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

// take takes the oldest event, nil if there is none. If more are left, and somebody has to
// be reminded of them, it returns the sendCQ to do that by.
func (ch *channel) take() (c *CQ, more *sendCQ) {
	ch.mu.Lock()
	if c = ch.first; c == nil {
		ch.mu.Unlock()
		return nil, nil
	}
	if ch.first = c.nextEvent; ch.first == nil {
		ch.last = nil
	}
	c.pending = false
	left := ch.first != nil
	ch.mu.Unlock()
	if !left || ch.waiting.Load() < 2 {
		return c, nil
	}
	return c, ch.waker() // without one, no segment has caused an event
}

// forget drops the event of a CQ that is destroyed.
func (ch *channel) forget(c *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	first := ch.first
	ch.first, ch.last = nil, nil
	for first != nil {
		next := first.nextEvent
		first.pending = false
		if first != c {
			ch.append(first)
		}
		first = next
	}
}

// waker returns a sendCQ whose segments wake the channel, nil if there is none.
func (ch *channel) waker() *sendCQ {
	for _, x := range *ch.shim.shards.Load() {
		if g := x.waker(ch); g != nil {
			return g
		}
	}
	return nil
}

func (s *shard) waker(ch *channel) *sendCQ {
	for _, g := range *s.cqs.Load() {
		if g.channel == ch {
			return g
		}
	}
	return nil
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
	ch.waiting.Add(1)
	s.waiting.Add(1)
	defer func() {
		ch.waiting.Add(-1)
		s.waiting.Add(-1)
	}()
	// How often an event was found once the time was over. Behind one of the shim's own there may be one
	// of the program's, but no more than one of each other CQ is before it.
	over := 0
	for looked := false; ; {
		// Arm, then look: what completes after the look makes an event.
		if err := ch.arm(); err != nil {
			return nil, err
		}
		if err := ch.progress(instant{clock: s, long: now}); err != nil {
			return nil, err
		}
		// First how things stand, then the events: another goroutine's poll that look
		// finds ended has put its events here.
		nap, settled := ch.look()
		now = s.Clock()
		if c, more := ch.take(); c != nil {
			if err := ch.remind(c, more); err != nil {
				return nil, err
			}
			return c, nil
		}
		if !settled {
			// Even a Wait that is not to wait: what it would miss makes no event.
			nap = settleNap
		} else if !now.Before(end) && (looked || over > ch.cqs()) {
			return nil, &verbs.OpError{Op: "get_cq_event", Object: s.dev.Name(), Err: verbs.ErrTimeout}
		}
		if left := end.Sub(now); settled && end != units.LongNever {
			nap = min(nap, max(left, 0))
		}
		inner, err := ch.inner.Wait(ctx, sleep(nap))
		now = s.Clock()
		looked = err != nil
		switch {
		case err == nil:
			ch.fired(inner)
			if !now.Before(end) {
				over++
			}
		case !errors.Is(err, verbs.ErrTimeout):
			return nil, err
		}
	}
}

// cqs returns how many CQs of the provider have their events on the channel.
func (ch *channel) cqs() int {
	ch.shim.mu.Lock()
	n := ch.refs
	ch.shim.mu.Unlock()
	for _, x := range *ch.shim.shards.Load() {
		for _, g := range *x.cqs.Load() {
			if g.channel == ch {
				n++
			}
		}
	}
	return n
}

// progress makes the progress of all shards but the ones that wake another channel, or none,
// and whose lock another goroutine has: it sees to them.
func (ch *channel) progress(t instant) error {
	var failed error
	for _, x := range *ch.shim.shards.Load() {
		if !ch.lock(x) {
			continue
		}
		if err := x.turn(t); err != nil && failed == nil {
			failed = err
		}
		x.mu.Unlock()
	}
	return failed
}

// lock locks a shard. It does not wait for one whose segments do not wake the channel, and
// reports whether it has the lock.
func (ch *channel) lock(x *shard) bool {
	if x.mu.TryLock() {
		return true
	}
	if x.waker(ch) == nil {
		return false
	}
	x.mu.Lock()
	return true
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
	for _, x := range *ch.shim.shards.Load() {
		for _, g := range *x.cqs.Load() {
			if g.channel != ch {
				continue
			}
			if err := g.arm(); err != nil {
				return err
			}
		}
	}
	return nil
}

// remind makes sure that the remaining events are fetched after c's: one event of the
// provider may have caused several, and may be consumed. It is for a second goroutine in
// Wait. c and g are what take returned. If it fails, the event of c waits again.
func (ch *channel) remind(c *CQ, g *sendCQ) error {
	if g == nil {
		return nil
	}
	err := g.wake()
	if err != nil {
		ch.add(c)
	}
	return err
}

// look returns after how long a goroutine that sleeps on the channel must look again,
// or units.Never, and whether no other goroutine is about to take completions that
// arrived before the channel was armed.
func (ch *channel) look() (nap units.Time, settled bool) {
	nap, settled = units.Never, true
	for _, x := range *ch.shim.shards.Load() {
		if !ch.lock(x) {
			nap = min(nap, longestNap)
			continue
		}
		n, ok := x.nap(ch)
		x.mu.Unlock()
		nap, settled = min(nap, n), settled && ok
	}
	return nap, settled
}

// nap looks at one shard's state.
func (s *shard) nap(ch *channel) (nap units.Time, settled bool) {
	at := s.deadline()
	now := s.instant()
	if s.core.GapsEnd() > now {
		at = min(at, now+longestNap)
	}
	settled = true
	for _, g := range *s.cqs.Load() {
		if g.channel == ch && !g.settled() {
			settled = false
			at = min(at, now+settleNap)
		}
		if g.channel != ch && g.inFlight > 0 {
			at = min(at, max(s.core.Instant(g.polled)+longestNap, now+units.Nanosecond))
		}
	}
	if at == units.Never {
		return at, settled
	}
	return max(at-now, 0), settled
}

// fired takes an event of the provider: of a CQ of receives, which is the
// application's, or of one of segments, which is not.
func (ch *channel) fired(inner verbs.CQ) {
	switch c := ch.shim.known(inner).(type) {
	case *sendCQ:
		c.fired()
	case *CQ:
		c.fire(true)
	}
}

// fired takes note that the event came for which g was armed.
func (g *sendCQ) fired() {
	g.shard.mu.Lock()
	defer g.shard.mu.Unlock()
	g.armed = false
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
	if err := ch.inner.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	s.objects--
	s.mu.Unlock()
	return nil
}
