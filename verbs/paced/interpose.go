package paced

import (
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// What a hook under a C program needs beyond Adopt. The hook polls the program's
// CQs and takes the events of its channels itself, in C, and calls the Shim for
// paced requests.

// PollSends is Poll without the receives: it makes the progress of the Shim and
// returns completions of paced requests. idle says that PollSends returns nothing
// more until something is posted, modified or destroyed: the Shim has nothing
// outstanding on any queue pair, and c holds no completion.
func (c *CQ) PollSends(wc []verbs.WC) (n int, idle bool, err error) {
	if n, err = c.pollSends(wc); err != nil {
		return 0, false, err
	}
	return n, c.idle(), nil
}

// idle reports whether no completion waits in c, and no shard has anything to do.
func (c *CQ) idle() bool {
	own := c.shard.Load()
	for _, x := range *c.shim.shards.Load() {
		if x != own && x.turned.Load() != noWork {
			return false
		}
	}
	if own == nil {
		return true
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	return c.sends.Len() == 0 && own.idle()
}

// idle reports whether nothing is with the provider and nothing can be sent. What
// a queue pair keeps in SQD waits for a change of state.
func (s *shard) idle() bool {
	if s.core.InFlight() > 0 || s.core.Filed() > 0 {
		return false
	}
	for _, g := range *s.cqs.Load() {
		if g.inFlight > 0 || g.stale {
			return false
		}
	}
	return true
}

// Unwrap returns the provider's CQ, of receives.
func (c *CQ) Unwrap() verbs.CQ { return c.recv }

// SendCQ returns the provider's CQ on which the segments of q complete.
func (q *QP) SendCQ() verbs.CQ { return q.sends.cq }

// PostWhole is PostSend of all requests or, with an error, of none.
func (q *QP) PostWhole(wrs []verbs.SendWR) error {
	_, err := q.post(q.shard.now(), wrs, true)
	return err
}

// Look replaces Wait on ch, a channel of the Shim, for a program that takes all of
// the provider's events itself. It arms the Shim's own CQs on ch, makes progress
// and returns the CQ that has an event, or nil. With nil, nap is after how long to call
// Look again if no event of the provider arrives, or units.Never. Unless settled, call it again as soon
// as possible, even in a program that does not want to wait: another thread has
// taken completions and not reported them yet, and no event will announce them.
func (s *Shim) Look(ch verbs.CompChannel) (cq *CQ, nap units.Time, settled bool, err error) {
	own, ok := ch.(*channel)
	if !ok || own.shim != s {
		return nil, 0, false, verbs.Errorf("get_cq_event", s.dev.Name(), verbs.ErrInvalid, "the channel must be made or adopted by this device")
	}
	if err := own.arm(); err != nil {
		return nil, 0, false, err
	}
	if err := own.progress(s.now()); err != nil {
		return nil, 0, false, err
	}
	nap, settled = own.look()
	cq, more := own.take()
	if cq != nil {
		if err := own.remind(cq, more); err != nil {
			return nil, 0, false, err
		}
	}
	return cq, nap, settled, nil
}

// Fired reports to the Shim that the program took an event of inner, a CQ of the
// provider. If inner is one of the Shim's own, the event is not for the program:
// call Look next. If inner was adopted, it is the event that the program armed it
// for.
func (s *Shim) Fired(inner verbs.CQ) {
	switch c := s.known(inner).(type) {
	case *sendCQ:
		c.fired()
	case *CQ:
		c.armed.Store(disarmed)
	}
}

// CloseAdopted is Close for a device that others keep using: it destroys the Shim's
// own CQs and leaves the device open. Destroy queue pairs, CQs, channels and PDs
// first.
func (s *Shim) CloseAdopted() error {
	if err := s.unused(); err != nil {
		return err
	}
	return s.destroySendCQs(nil)
}
