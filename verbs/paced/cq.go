package paced

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// sendCQ is a CQ of the provider on which the segments of many QPs complete. The
// application never sees it: its own CQs get the requests. It is apart from the
// CQ for receives because a failed completion does not say which of the two it
// belongs to.
type sendCQ struct {
	cq         verbs.CQ
	channel    *channel // what it wakes, nil if nothing
	size, used int      // entries; QPs' depths

	// rounds counts the polls that ended. What one took that ran while the CQ was
	// armed made no event, and shows when lookAfter rounds have ended.
	rounds, lookAfter uint64

	// waker is a queue pair of the shim's own, in error: a receive that is posted to it
	// completes at once, which makes an event. It was never in RTS, so a driver may
	// refuse sends (mlx5 does). nil until one is needed.
	waker   verbs.QP
	wakerPD verbs.PD

	inFlight int            // segments that will complete here
	stale    bool           // there may be completions of QPs that were reset or destroyed
	busy     bool           // being polled, without the lock
	polled   units.LongTime // when it was last
	armed    bool           // with an event to come
	kicked   bool           // with a kick to come
	buf      [64]verbs.WC
	sample   core.Sample // of the completion that is being taken
}

// kickRoom is what a sendCQ keeps for a kick.
const kickRoom = 1

// sendCQFor returns the sendCQ with room for n segments of a QP with these CQs, and
// reserves it. Its events go to where the application sleeps: the channel of its send
// CQ or else, since segments must go on while it waits for receives, of its receive CQ.
func (s *Shim) sendCQFor(send, recv *CQ, n int) (*sendCQ, error) {
	s.making.Lock()
	defer s.making.Unlock()
	ch := send.channel
	if ch == nil {
		ch = recv.channel
	}
	g, size := s.reserve(ch, n)
	if g != nil {
		return g, nil
	}
	g = &sendCQ{channel: ch, size: size, used: n, polled: s.Clock()}
	g.sample.Stamped = s.stamped()
	attr := verbs.CQInitAttr{CQE: size, Timestamps: g.sample.Stamped}
	if ch != nil {
		attr.Channel = ch.inner
	}
	cq, err := s.dev.CreateCQ(attr)
	if g.sample.Stamped && errors.Is(err, verbs.ErrNotSupported) {
		g.sample.Stamped, attr.Timestamps = false, false
		cq, err = s.dev.CreateCQ(attr)
	}
	if err != nil {
		return nil, err
	}
	g.cq = cq
	if ch != nil {
		// Someone may be asleep on the channel already.
		g.armed = true
		if err := cq.ReqNotify(false); err != nil {
			return nil, errors.Join(err, cq.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cqs = append(s.cqs[:len(s.cqs):len(s.cqs)], g)
	s.byInner[cq] = g
	return g, nil
}

// reserve takes room for n segments on a sendCQ of a channel. If none has room it
// returns the size of the next one.
func (s *Shim) reserve(ch *channel, n int) (g *sendCQ, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size = 4096
	for _, g := range s.cqs {
		if g.channel != ch {
			continue
		}
		if g.size-g.used >= n+kickRoom {
			g.used += n
			return g, 0
		}
		size = max(size, 2*g.size) // few CQs, since each is polled
	}
	size = max(size, n+kickRoom)
	if most := s.attr.MaxCQE; most > 0 {
		size = min(size, most)
	}
	return nil, size
}

// arm arms g for the next completion, if it is not.
func (s *Shim) arm(g *sendCQ) error {
	s.mu.Lock()
	if g.armed {
		s.mu.Unlock()
		return nil
	}
	g.armed = true
	g.lookAfter = math.MaxUint64 // not settled
	s.mu.Unlock()
	err := g.cq.ReqNotify(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.lookAfter = g.rounds; g.busy {
		g.lookAfter++
	}
	if err != nil {
		g.armed = false
	}
	return err
}

// settled reports whether everything that completed before g was armed has been
// taken, if it has been looked for since.
func (g *sendCQ) settled() bool { return g.rounds >= g.lookAfter }

// wake makes an event on g's channel, whatever goes on on its queue pairs.
func (s *Shim) wake(g *sendCQ) error {
	s.making.Lock()
	defer s.making.Unlock()
	if err := g.makeWaker(s.dev); err != nil {
		return err
	}
	s.mu.Lock()
	kicked := g.kick()
	s.mu.Unlock()
	if kicked {
		return nil
	}
	_, err := g.waker.PostRecv([]verbs.RecvWR{{WRID: kickWRID}})
	if err != nil {
		s.mu.Lock()
		g.unkick()
		s.mu.Unlock()
	}
	return err
}

func (g *sendCQ) makeWaker(dev verbs.Device) (err error) {
	if g.wakerPD == nil {
		if g.wakerPD, err = dev.AllocPD(); err != nil {
			return err
		}
	}
	if g.waker != nil {
		return nil
	}
	q, err := g.wakerPD.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: g.cq, RecvCQ: g.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return err
	}
	if err = q.Modify(verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err == nil {
		err = q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
	}
	if err != nil {
		return errors.Join(err, q.Close())
	}
	g.waker = q
	return nil
}

// destroy destroys what g has at the provider, from the last on: what could not
// be stays for the next try.
func (g *sendCQ) destroy() error {
	if g.waker != nil {
		if err := g.waker.Close(); err != nil {
			return err
		}
		g.waker = nil
	}
	if g.wakerPD != nil {
		if err := g.wakerPD.Close(); err != nil {
			return err
		}
		g.wakerPD = nil
	}
	return g.cq.Close()
}

// destroySendCQs destroys those of a channel, or those of none. What can't be
// destroyed stays.
func (s *Shim) destroySendCQs(ch *channel) error {
	s.making.Lock()
	defer s.making.Unlock()
	s.mu.Lock()
	for s.polling(ch) {
		s.mu.Unlock()
		verbs.Sleep(s.dev, time.Microsecond)
		s.mu.Lock()
	}
	var keep, gone []*sendCQ
	for _, g := range s.cqs {
		if g.channel == ch {
			g.busy = true // for a goroutine that iterates over an earlier list of them
			gone = append(gone, g)
		} else {
			keep = append(keep, g)
		}
	}
	s.cqs = keep
	s.mu.Unlock()
	var errs []error
	for i, g := range gone {
		if err := g.destroy(); err != nil {
			errs = append(errs, err)
			continue
		}
		gone[i] = nil
		s.mu.Lock()
		delete(s.byInner, g.cq)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range gone {
		if g != nil {
			g.busy = false
			s.cqs = append(s.cqs[:len(s.cqs):len(s.cqs)], g)
		}
	}
	return errors.Join(errs...)
}

func (s *Shim) polling(ch *channel) bool {
	for _, g := range s.cqs {
		if g.channel == ch && g.busy {
			return true
		}
	}
	return false
}

// CQ is the application's completion queue on a Shim. It implements verbs.CQ.
// Completions of sends wait in it until they are polled; there is always room
// for them, since a queue pair takes no more requests than were polled. Those of
// receives wait in a CQ of the provider.
type CQ struct {
	shim    *Shim
	channel *channel
	refs    int // queue pairs, counted for send and for receive

	sends     completions.Queue
	capacity  int      // of all queue pairs that send here
	recv      verbs.CQ // the provider's, of receives only
	recvFirst bool     // whose turn it is
	adopted   bool     // recv is the program's to destroy

	armed     arming
	pending   bool // in channel.events
	nextEvent *CQ
}

// arming says which event a CQ is armed for.
type arming uint8

const (
	disarmed arming = iota
	armedSolicited
	armedAny
)

// CreateCQ implements verbs.Device.
func (s *Shim) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	c := &CQ{shim: s}
	if a.Channel != nil {
		ch, ok := a.Channel.(*channel)
		if !ok || ch.shim != s {
			return nil, verbs.Errorf("create_cq", s.dev.Name(), verbs.ErrInvalid, "Channel must be made by this device")
		}
		c.channel, a.Channel = ch, ch.inner
	}
	var err error
	if c.recv, err = s.dev.CreateCQ(a); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(c)
	return c, nil
}

// addQP makes room for a queue pair's completions.
func (c *CQ) addQP(messages int) {
	c.refs++
	c.capacity += messages
	c.sends.Reserve(c.capacity)
}

// removeQP takes it back.
func (c *CQ) removeQP(messages int) {
	c.refs--
	c.capacity -= messages
}

// Poll implements verbs.CQ. It makes the progress of the whole Shim.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	s := c.shim
	// Sends and receives take turns, so that neither starves; the provider's
	// CQ is not polled for receives if there is something to return already.
	if c.recvFirst {
		if err := s.progress(s.now()); err != nil {
			return 0, err
		}
		n, err := c.recv.Poll(wc)
		if err != nil || n == len(wc) {
			c.recvFirst = false
			return n, err
		}
		s.mu.Lock()
		sends := c.sends.Pop(wc[n:])
		s.mu.Unlock()
		c.recvFirst = sends > 0
		return n + sends, nil
	}
	s.mu.Lock()
	if err := s.turn(s.now()); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	sends := c.sends.Pop(wc)
	s.mu.Unlock()
	if sends > 0 {
		c.recvFirst = true
		return sends, nil
	}
	return c.recv.Poll(wc)
}

// ReqNotify implements verbs.CQ.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	to := armedAny
	if solicitedOnly {
		to = armedSolicited
	}
	// First here: an event of the provider's that comes at once is for the program.
	before := c.arm(to)
	err := c.recv.ReqNotify(solicitedOnly)
	if err != nil {
		c.arm(before)
	}
	return err
}

// arm sets for which event c is armed, and returns for which it was.
func (c *CQ) arm(to arming) (before arming) {
	c.shim.mu.Lock()
	defer c.shim.mu.Unlock()
	before, c.armed = c.armed, to
	return before
}

// Cap implements verbs.CQ.
func (c *CQ) Cap() int { return c.recv.Cap() }

// Close implements verbs.CQ.
func (c *CQ) Close() error {
	s := c.shim
	s.mu.Lock()
	refs := c.refs
	s.mu.Unlock()
	if refs > 0 {
		return verbs.Errorf("destroy_cq", s.dev.Name(), verbs.ErrBusy, "%d queue pairs use it: destroy them first", refs)
	}
	if !c.adopted {
		if err := c.recv.Close(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byInner, c.recv)
	s.objects--
	if c.channel != nil {
		c.channel.refs--
		c.channel.forget(c)
	}
	return nil
}

// notify puts the event that c was armed for on its channel, if the completion wc
// of a request calls for one. fromNIC says that a completion of the provider caused
// wc.
func (c *CQ) notify(wc *verbs.WC, q *QP, fromNIC bool) {
	if c.armed == armedAny || c.armed == armedSolicited && wc.Status != ib.WCSuccess {
		c.fire()
		if ch := c.channel; !fromNIC && ch != nil && (ch.waiting > 0 || ch.adopted) {
			q.kick()
		}
	}
}

// fire puts the event that c was armed for on its channel.
func (c *CQ) fire() {
	c.armed = disarmed
	if c.channel != nil {
		c.channel.add(c)
	}
}

// kick wakes goroutines that sleep on the channel of the QP's completions. The QP
// is in error. Where its queue has no room for one request more, what fills the queue
// makes events.
func (q *QP) kick() {
	if q.sends.kick() {
		return
	}
	wr := verbs.SendWR{WRID: kickWRID, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}
	if _, err := q.inner.PostSend([]verbs.SendWR{wr}); err != nil {
		q.sends.unkick()
	}
}

// kick takes note that an event on g's channel is made by a request to a queue pair in
// error: one that names no memory, and that comes back as flushed. It reports true if
// one is on its way already.
func (g *sendCQ) kick() bool {
	if g.kicked {
		return true
	}
	g.kicked = true
	g.inFlight++
	return false
}

// unkick takes that back.
func (g *sendCQ) unkick() {
	g.kicked = false
	g.inFlight--
}
