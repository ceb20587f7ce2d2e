package paced

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// shard is the part of a Shim that the queue pairs of one send CQ have for themselves:
// a core, and what is around it. Threads of which each has a CQ of its own share no
// shard, and so no lock.
type shard struct {
	*Shim // what all shards share: fixed, or guarded by its own locks

	// making is held while the shard's own objects at the provider are made or destroyed.
	// mu is never held before it, so that the data path does not wait for the provider's
	// control calls.
	making  sync.Mutex
	tenants int // CQs of the program; guarded by housing

	mu   sync.Mutex // guards everything below, and the state of the shard's QPs and CQs
	core *core.Core
	qps  []*QP // by the index in their WRIDs
	gens []uint8
	// groups are those that have members.
	groups map[groupKey]*core.Group
	// vacant indices of qps; gens goes on counting.
	vacant []int
	stats  Stats

	// cqs are replaced with the lock held, never changed in place: they are iterated over
	// without it.
	cqs atomic.Pointer[[]*sendCQ]

	clock     *completions.Clock // nil without timestamps
	reading   bool               // the NIC's counter, without the lock
	readAgain units.LongTime     // not before, after an error

	unread  int   // posts since the clock was read, at most mostUnread
	doomed  []*QP // to be taken to ERR at the provider, see bury
	drained []*QP // to be taken to SQD at the provider, see drain

	// turned is the time of its last progress, in ticks, if it has work; else noWork.
	turned atomic.Int64
}

const (
	noWork = math.MaxInt64

	// mostShards bounds what a program with very many CQs has; CQs share shards then.
	mostShards = 64
)

// newShard returns a shard whose instants count from origin.
func (s *Shim) newShard(origin units.LongTime, clock *completions.Clock) (*shard, error) {
	c := core.Config{
		Batch: s.cfg.Batch, CatchUp: s.cfg.CatchUp, BaseRTT: s.cfg.BaseRTT, Origin: origin,
		NICClock: s.cfg.Clock == NICClock, ClockBits: s.attr.ClockBits, CoreClockHz: s.attr.CoreClockHz,
		Bypass: s.cfg.Bypass,
	}
	x := &shard{Shim: s, clock: clock}
	x.turned.Store(noWork)
	x.cqs.Store(new([]*sendCQ))
	var err error
	x.core, err = core.New(c, clock)
	return x, err
}

// home returns the shard of the queue pairs that send to c. The first of them takes one
// that no other CQ has, which is made if there is none, or beyond mostShards the one that
// the fewest have.
func (c *CQ) home() (*shard, error) {
	s := c.shim
	s.housing.Lock()
	defer s.housing.Unlock()
	if x := c.shard.Load(); x != nil {
		return x, nil
	}
	all := *s.shards.Load()
	x := slices.MinFunc(all, func(a, b *shard) int { return a.tenants - b.tenants })
	if x.tenants > 0 && len(all) < mostShards && !s.grouped() { // a group's queue pairs share a core
		var err error
		if x, err = another(all); err != nil {
			return nil, err
		}
		more := append(all[:len(all):len(all)], x)
		s.shards.Store(&more)
	}
	x.tenants++
	c.shard.Store(x)
	return x, nil
}

// vacate takes back what home did, for a CQ that no queue pair uses.
func (c *CQ) vacate() {
	c.shim.housing.Lock()
	defer c.shim.housing.Unlock()
	if x := c.shard.Swap(nil); x != nil {
		x.tenants--
	}
}

// another returns a shard whose instants count from where those of one of the shards do,
// and whose clock knows what that one's does: the first that no thread has locked.
func another(all []*shard) (*shard, error) {
	i := slices.IndexFunc(all, func(s *shard) bool { return s.mu.TryLock() })
	if i < 0 {
		i = 0
		all[0].mu.Lock()
	}
	s := all[i]
	origin, clock := s.core.Long(0), s.clock.Clone()
	s.mu.Unlock()
	return s.newShard(origin, clock)
}

// A tick is 2^14 ns: shards that are at work take note of the time once a tick.
const tickShift = 14

// neglected is the number of ticks for which the progress of a shard may be left to the threads that
// use it, before one that polls another CQ makes it: 49 to 66 us.
const neglected = 4

func tick(t units.LongTime) int64 { return int64(t.Duration()) >> tickShift }

// tend makes the progress of shards other than those of c that nobody has made for a
// while: a program may poll one CQ and count on what another one's queue pairs do.
func (c *CQ) tend() {
	own := c.shard.Load()
	present := int64(-1)
	for _, x := range *c.shim.shards.Load() {
		last := x.turned.Load()
		if last == noWork || x == own {
			continue
		}
		if present < 0 {
			present = tick(c.shim.Clock())
		}
		if present-last >= neglected && x.mu.TryLock() {
			_ = x.turn(c.shim.now()) // an error is for who polls that CQ
			x.mu.Unlock()
		}
	}
}

// publish lets other threads know whether the shard has work, at the present of its last
// turn or post: the threads that tend it, and the one that rests. Each call that may
// leave work
// ends with it.
func (s *shard) publish(now units.LongTime) {
	at := int64(noWork)
	if !s.idle() {
		at = tick(now)
	}
	if s.turned.Load() != at {
		s.turned.Store(at)
	}
	s.alert()
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

// addTo adds what the shard and its queue pairs count.
func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.merge(&s.stats)
	now := s.instant()
	for _, q := range s.qps {
		if q != nil {
			all, failed := q.core.Finished()
			sum.Messages += all
			sum.Failed += failed
			sum.add(&q.tally, heldOf(q.core.Held(now)))
		}
	}
}

func (s *shard) deadline() units.Time {
	due := s.core.NextDue()
	if s.core.InFlight() > 0 || due != units.Never {
		due = min(due, max(s.clock.Due(), s.core.Instant(s.readAgain)))
	}
	return due
}

// instant is the present: either the device's clock, read again where time may have
// passed, or a time that the caller fixes for the whole call.
type instant struct {
	clock *Shim // nil where the caller fixed the time
	long  units.LongTime
	now   units.Time // of the core, valid while the lock is held
}

func at(now units.LongTime) instant { return instant{long: now} }

// now is the present by the device's clock, not read yet.
func (s *Shim) now() instant { return instant{clock: s} }

// instant reads the clock for the core. The lock is held.
func (s *shard) instant() units.Time { return s.core.Now(s.Clock()) }

// look reads the device's clock. The lock need not be held.
func (t *instant) look() {
	if t.clock != nil {
		t.long = t.clock.Clock()
	}
}

// in makes the present an instant of the core, whose lock was taken since look.
func (t *instant) in(c *core.Core) { t.now = c.Now(t.long) }

// read updates the present with the lock held.
func (t *instant) read(c *core.Core) {
	t.look()
	t.in(c)
}

// progress is Progress.
func (s *shard) progress(t instant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn(t)
}

// turn is progress with the lock held; it releases the lock for a while. It reads
// the clock again wherever time may have passed since the last reading, so that a
// long call does not smear the times.
//
// On a simulated device a poll that finds nothing, or a reading of the NIC's
// clock, lets time pass and other goroutines run, so the lock is not held
// meanwhile; busy and reading keep the others off.
func (s *shard) turn(t instant) error {
	fresh := false // nothing that takes time since the last reading
	if s.core.Filed() > 0 || s.core.InFlight() > 0 && s.clock != nil {
		t.look()
		fresh = true
	}
	t.in(s.core)
	s.unread = 0
	work := s.core.InFlight() > 0 || s.core.Filed() > 0 || s.turned.Load() != noWork
	if work {
		s.readNIC(&t)
	}
	// What is due by now goes before what the completions below let go, which
	// the scheduler will hear of at a later time.
	s.release(&t)
	var failed error
	for _, g := range *s.cqs.Load() {
		if g.busy || g.inFlight == 0 && !g.stale {
			continue
		}
		g.busy, work = true, true
		for {
			s.mu.Unlock()
			n, err := g.cq.Poll(g.buf[:])
			s.mu.Lock()
			// Also after a reading before the poll: posting and polling take time, and
			// what was polled is at least as old as that, which no round trip may
			// leave out.
			if n > 0 || s.waiting.Load() > 0 {
				t.look()
			}
			t.in(s.core)
			fresh = n > 0 || s.waiting.Load() > 0
			for i := range n {
				s.take(g, t.now, &g.buf[i])
			}
			if err != nil && failed == nil {
				failed = err
			}
			if n < len(g.buf) || err != nil {
				break
			}
		}
		g.busy, g.stale, g.polled = false, false, t.long
		g.rounds++
	}
	if s.core.Filed() > 0 {
		if !fresh {
			t.read(s.core)
		}
		s.release(&t)
	}
	if len(s.drained) > 0 {
		s.takeToSQD()
	}
	if work {
		s.publish(t.long)
	}
	return failed
}

// take takes one completion of the provider.
func (s *shard) take(g *sendCQ, now units.Time, wc *verbs.WC) {
	if wc.WRID == kickWRID {
		g.kicked = false
		g.inFlight--
		return
	}
	q := s.qpOf(wc.WRID)
	if q == nil {
		s.stats.Stray++
		return
	}
	done, ok := q.core.Complete(wc, &g.sample.Segment)
	if !ok {
		s.stats.Stray++
		return
	}
	g.inFlight -= done
	if wc.Status == ib.WCSuccess {
		q.steer(now, wc, &g.sample)
	} else {
		q.core.Fail(now)
	}
	q.finish(true)
	q.core.File(now)
	if q.drain.Load() != nil && !q.core.Begun() {
		s.drained = append(s.drained, q)
	}
}

// release posts all segments that are due, and segments that the core has released
// already, with one call for each queue pair that has some. It reads the clock again
// after each full batch. Where the provider refused something for good, it gives up
// the lock at the end.
func (s *shard) release(t *instant) {
	for {
		n := s.core.Due(t.now)
		if n == 0 {
			break
		}
		var b core.Batch
		for i, ok := s.core.Next(0, &b); ok; i, ok = s.core.Next(i, &b) {
			q := s.qps[b.QP.Index()]
			taken, err := q.inner.PostSend(b.WRs)
			s.stats.Posts++
			q.posted(t.now, &b, taken, err)
		}
		if n < s.cfg.Batch {
			break
		}
		t.read(s.core)
	}
	if len(s.doomed) > 0 {
		s.bury()
		t.in(s.core)
	}
}

// bury takes queue pairs that failed here to ERR at the provider, without the lock,
// and completes their requests. Requests at the provider must complete, and the peer's
// requests must stop, as after any failure. If the provider refuses this too, its
// queue pair is in no state to hold any requests.
func (s *shard) bury() {
	for len(s.doomed) > 0 {
		q := s.doomed[len(s.doomed)-1]
		s.doomed = s.doomed[:len(s.doomed)-1]
		s.mu.Unlock()
		_ = q.inner.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
		s.mu.Lock()
		if s.qps[q.index] == q {
			q.undrain()
			q.finish(false)
		}
	}
}
