package paced

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
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
	shard      *shard
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

// kickRoom is a sendCQ's room for a kick.
const kickRoom = 1

// sendCQFor returns the sendCQ with room for n segments of a QP with these CQs, and
// reserves it. Its events go to where the application sleeps: the channel of its send
// CQ or else, since segments must go on while it waits for receives, of its receive CQ.
func (s *shard) sendCQFor(send, recv *CQ, n int) (*sendCQ, error) {
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
	g = &sendCQ{shard: s, channel: ch, size: size, used: n, polled: s.Clock()}
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
	s.know(cq, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addSendCQ(g)
	return g, nil
}

// reserve takes room for n segments on a sendCQ of a channel. If none has room it
// returns the size of the next one.
func (s *shard) reserve(ch *channel, n int) (g *sendCQ, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size = 4096
	for _, g := range *s.cqs.Load() {
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

// arm arms g for the next completion, if it is not armed.
func (g *sendCQ) arm() error {
	s := g.shard
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
func (g *sendCQ) wake() error {
	s := g.shard
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
	var errs []error
	for _, x := range *s.shards.Load() {
		errs = append(errs, x.destroySendCQs(ch))
	}
	return errors.Join(errs...)
}

func (s *shard) destroySendCQs(ch *channel) error {
	s.making.Lock()
	defer s.making.Unlock()
	s.mu.Lock()
	for s.polling(ch) {
		s.mu.Unlock()
		verbs.Sleep(s.dev, time.Microsecond)
		s.mu.Lock()
	}
	var keep, gone []*sendCQ
	for _, g := range *s.cqs.Load() {
		if g.channel == ch {
			g.busy = true // for a goroutine that iterates over an earlier list of them
			gone = append(gone, g)
		} else {
			keep = append(keep, g)
		}
	}
	s.cqs.Store(&keep)
	s.mu.Unlock()
	var errs []error
	var left []*sendCQ
	for _, g := range gone {
		if err := g.destroy(); err != nil {
			errs, left = append(errs, err), append(left, g)
			continue
		}
		s.forget(g.cq)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range left {
		g.busy = false
		s.addSendCQ(g)
	}
	return errors.Join(errs...)
}

// addSendCQ enters one. The lock is held.
func (s *shard) addSendCQ(g *sendCQ) {
	cqs := append(slices.Clone(*s.cqs.Load()), g)
	s.cqs.Store(&cqs)
}

// polling reports whether one of a channel is being polled. The lock is held.
func (s *shard) polling(ch *channel) bool {
	for _, g := range *s.cqs.Load() {
		if g.channel == ch && g.busy {
			return true
		}
	}
	return false
}

// know enters an object by the provider's, and forget removes it.
func (s *Shim) know(inner, own any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byInner[inner] = own
}

func (s *Shim) forget(inner any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byInner, inner)
}

// known returns the value that know entered, or nil.
func (s *Shim) known(inner any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byInner[inner]
}

// CQ is the application's completion queue on a Shim. It implements verbs.CQ.
// Completions of sends wait in it until they are polled; there is always room
// for them, since a queue pair takes no more requests than were polled. Those of
// receives wait in a CQ of the provider.
type CQ struct {
	shim    *Shim
	channel *channel
	recv    verbs.CQ // the provider's, of receives only

	shard atomic.Pointer[shard] // of queue pairs that send here; nil before the first
	// others are the shards of queue pairs that receive here and send elsewhere. They are
	// replaced, never changed in place, with shim.mu held.
	others atomic.Pointer[[]other]
	refs   int // queue pairs, counted for send and for receive; guarded by shim.mu

	recvFirst atomic.Bool // whose turn it is

	// Guarded by the shard's lock.
	sends    completions.Queue
	capacity int    // of all queue pairs that send here
	polls    uint32 // of sends

	armed atomic.Uint32 // an arming

	// Guarded by the channel's lock.
	pending   bool // in channel.events
	nextEvent *CQ

	_ [cqSize - 128]byte
}

// other is a shard of queue pairs that receive on a CQ and send to another.
type other struct {
	shard *shard
	qps   int
}

// cqSize is a size class of Go that is whole cache lines, so that threads that poll
// different CQs share none.
const cqSize = 192

// arming says which event a CQ is armed for.
type arming = uint32

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

// addQP makes room for a queue pair's completions. The shard's lock is held.
func (c *CQ) addQP(messages int) {
	c.capacity += messages
	c.sends.Reserve(c.capacity)
}

// refer counts n queue pairs of the shard, 1 or -1, which send to one CQ and receive on
// another.
func (s *shard) refer(send, recv *CQ, n int) {
	s.Shim.mu.Lock()
	defer s.Shim.mu.Unlock()
	send.refs += n
	recv.refs += n
	if send == recv {
		return
	}
	var others []other
	if p := recv.others.Load(); p != nil {
		others = slices.Clone(*p)
	}
	i := slices.IndexFunc(others, func(o other) bool { return o.shard == s })
	switch {
	case i < 0:
		others = append(others, other{s, n})
	case others[i].qps+n > 0:
		others[i].qps += n
	default:
		others = slices.Delete(others, i, i+1)
	}
	recv.others.Store(&others)
}

// Poll implements verbs.CQ. It makes the progress of the queue pairs of c and, now and
// then, of those whose progress nobody makes.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	// Sends and receives take turns, so that neither starves; the provider's
	// CQ is not polled for receives if there is something to return already.
	if c.recvFirst.Load() {
		if _, err := c.pollSends(nil); err != nil {
			return 0, err
		}
		n, err := c.recv.Poll(wc)
		if err != nil || n == len(wc) {
			c.recvFirst.Store(false)
			return n, err
		}
		sends := c.pop(wc[n:])
		c.recvFirst.Store(sends > 0)
		return n + sends, nil
	}
	sends, err := c.pollSends(wc)
	if err != nil {
		return 0, err
	}
	if sends > 0 {
		c.recvFirst.Store(true)
		return sends, nil
	}
	return c.recv.Poll(wc)
}

// turnOthers makes the progress of the shards of queue pairs that receive here.
func (c *CQ) turnOthers() error {
	p := c.others.Load()
	if p == nil {
		return nil
	}
	own := c.shard.Load()
	for _, o := range *p {
		if o.shard == own {
			continue
		}
		if err := o.shard.progress(c.shim.now()); err != nil {
			return err
		}
	}
	return nil
}

// pop takes completions of sends that are there.
func (c *CQ) pop(wc []verbs.WC) int {
	x := c.shard.Load()
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return c.sends.Pop(wc)
}

// pollSends makes progress and takes completions of sends; with no wc, only progress.
func (c *CQ) pollSends(wc []verbs.WC) (n int, err error) {
	tend := true
	if x := c.shard.Load(); x != nil {
		x.mu.Lock()
		if err = x.turn(c.shim.now()); err == nil {
			n = c.sends.Pop(wc)
		}
		c.polls++
		tend = n == 0 && len(wc) > 0 || c.polls%tendEvery == 0
		x.mu.Unlock()
	}
	if n == 0 && err == nil {
		err = c.turnOthers()
	}
	if tend && err == nil {
		c.tend()
	}
	return n, err
}

// tendEvery is the number of successful polls in a row before c.tend.
const tendEvery = 64

// ReqNotify implements verbs.CQ.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	to := armedAny
	if solicitedOnly {
		to = armedSolicited
	}
	// First here: an event of the provider's that comes at once is for the program. Who is armed for any
	// completion stays so, as at the provider (IBA 11.4.2.2): its event of an unsolicited one, which
	// disarms it, would be taken for none.
	before := c.armed.Load()
	for before < to && !c.armed.CompareAndSwap(before, to) {
		before = c.armed.Load()
	}
	err := c.recv.ReqNotify(solicitedOnly)
	if err != nil && before < to {
		c.armed.Store(before)
	}
	return err
}

// enter counts a CQ. The lock is held.
func (s *Shim) enter(c *CQ) {
	s.objects++
	s.byInner[c.recv] = c
	if c.channel != nil {
		c.channel.refs++
	}
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
	if err := c.recv.Close(); err != nil {
		return err
	}
	c.vacate()
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
	if !c.fire(wc.Status != ib.WCSuccess) || fromNIC {
		return
	}
	if ch := c.channel; ch != nil && ch.waiting.Load() > 0 {
		q.kick()
	}
}

// fire puts the event that c is armed for on its channel and reports true, unless it is
// armed for no event, or only for solicited ones and this is none.
func (c *CQ) fire(solicited bool) bool {
	for {
		a := c.armed.Load()
		if a == disarmed || a == armedSolicited && !solicited {
			return false
		}
		if c.armed.CompareAndSwap(a, disarmed) {
			break
		}
	}
	if c.channel != nil {
		c.channel.add(c)
	}
	return true
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
