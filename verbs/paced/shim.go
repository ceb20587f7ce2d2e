package paced

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// Shim is a verbs.Device over that of a provider, whose RC queue pairs are
// segmented, paced and steered. It passes everything else on: memory regions
// and their keys are the provider's own, so a peer needs no shim. It is also a
// verbs.Runner, a verbs.ClockReader and a verbs.PreciseClock, as far as the
// provider's device is.
type Shim struct {
	dev     verbs.Device
	attr    verbs.DeviceAttr
	precise verbs.PreciseClock // nil if the device's clock counts nanoseconds
	cfg     Config
	scheme  *cc.Scheme // nil with Config.Engine, or without an engine

	// making is held while the shim's own objects at the provider are made or
	// destroyed. mu is never taken before it, so that the data path does not wait for
	// the provider's control calls.
	making sync.Mutex

	mu   sync.Mutex // guards everything below, and the state of QPs, CQs and channels
	core *core.Core
	qps  []*QP // by the index in their WRIDs
	gens []uint8
	// vacant indices of qps; gens goes on counting.
	vacant []int
	cqs    []*sendCQ // replaced, never changed in place: progress iterates without the lock
	stats  Stats

	clock     *completions.Clock // nil without timestamps
	reader    verbs.ClockReader
	reading   bool           // the NIC's counter, without the lock
	readAgain units.LongTime // not before, after an error

	doomed []*QP // to be taken to ERR at the provider, see bury

	waiting int // goroutines in Wait, of all channels
	objects int // PDs, CQs and channels that exist
	rest    rest
	byInner map[any]any
}

// Wrap returns a Shim over dev. It fails if c is out of range or its engine can't
// be made. From then on use the provider's device only through the Shim, whose
// Close closes it.
func Wrap(dev verbs.Device, c Config) (*Shim, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Shim{dev: dev, attr: dev.Attr(), cfg: c, byInner: map[any]any{}}
	if c.Scheme != "" {
		scheme, err := cc.Lookup(c.Scheme)
		if err != nil {
			return nil, err
		}
		if scheme.NewReceiver != nil {
			return nil, fmt.Errorf("paced: the receivers of %s have a say, and no verbs provider carries it: choose an engine that decides at the sender, or run it on the reduced NIC of the model", scheme.Name)
		}
		if scheme.Oracle {
			return nil, fmt.Errorf("paced: the rates of %s come from a simulation that knows the network: choose another engine", scheme.Name)
		}
		s.scheme = &scheme
	}
	// An engine that can't be made is better known now than when the first
	// queue pair connects.
	e, err := s.newEngine(cc.Env{LineRate: 10 * units.Gbps, BaseRTT: c.BaseRTT, MTU: 1024})
	if err != nil {
		return nil, err
	}
	if _, ok := e.(cc.Pathed); ok {
		return nil, errors.New("paced: the engine chooses paths, by a port that is the NIC's alone: turn that off (swift: plb), or run the engine in the NIC")
	}
	var origin units.LongTime
	if s.precise, _ = dev.(verbs.PreciseClock); s.precise == nil {
		origin = s.Clock()
	}
	if err := s.calibrate(origin); err != nil {
		return nil, err
	}
	s.core, err = core.New(core.Config{
		Batch: c.Batch, CatchUp: c.CatchUp, BaseRTT: c.BaseRTT, Origin: origin,
		NICClock: c.Clock == NICClock, ClockBits: s.attr.ClockBits, CoreClockHz: s.attr.CoreClockHz,
	}, s.clock)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newEngine returns an engine, or nil if none is configured.
func (s *Shim) newEngine(env cc.Env) (cc.Engine, error) {
	switch {
	case s.cfg.Engine != nil:
		return s.cfg.Engine(env)
	case s.scheme == nil:
		return nil, nil
	}
	config := s.cfg.SchemeConfig
	if config == nil {
		config = s.scheme.DefaultConfig()
	}
	return s.scheme.New(config, env)
}

// Unwrap returns the provider's device.
func (s *Shim) Unwrap() verbs.Device { return s.dev }

// Clock reads the host clock by which the shim works: the device's
// verbs.PreciseClock where it has one, else its Now. A units.LongTime that goes into
// or comes out of a Shim is on this clock, which goes on for years. A units.Time
// that Config.Observe or Watch gets is an instant of the shim's own, which is set back
// every few days.
func (s *Shim) Clock() units.LongTime {
	if s.precise != nil {
		return s.precise.NowPrecise().Long()
	}
	return units.Long(s.dev.Now())
}

// Progress takes what the provider has completed and sends all that is due at
// now, a reading of Clock. Completions of requests are then ready in their CQs.
// It returns the error of a provider's CQ that can't be polled; the queue pairs
// of other CQs go on.
func (s *Shim) Progress(now units.LongTime) error { return s.progress(at(now)) }

// Deadline is when Progress has something to do even if nothing completes: a
// segment becomes due, or a calibration sample while there is work. It is
// units.LongNever if nothing is waiting, and is in the future right after Progress.
func (s *Shim) Deadline() units.LongTime {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Long(s.deadline())
}

func (s *Shim) deadline() units.Time {
	due := s.core.NextDue()
	if s.core.InFlight() > 0 || due != units.Never {
		due = min(due, max(s.clock.Due(), s.core.Instant(s.readAgain)))
	}
	return due
}

// Stats returns the counters so far.
func (s *Shim) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	now := s.instant()
	for _, q := range s.qps {
		if q != nil {
			all, failed := q.core.Finished()
			stats.Messages += all
			stats.Failed += failed
			stats.add(&q.tally, heldOf(q.core.Held(now)))
		}
	}
	return stats
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
func (s *Shim) instant() units.Time { return s.core.Now(s.Clock()) }

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
func (s *Shim) progress(t instant) error {
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
func (s *Shim) turn(t instant) error {
	fresh := false // nothing that takes time since the last reading
	if s.core.Filed() > 0 || s.core.InFlight() > 0 && s.clock != nil {
		t.look()
		fresh = true
	}
	t.in(s.core)
	if s.core.InFlight() > 0 || s.core.Filed() > 0 {
		s.readNIC(&t)
	}
	// What is due by now goes before what the completions below let go, which
	// the scheduler will hear of at a later time.
	s.release(&t)
	var failed error
	for _, g := range s.cqs {
		if g.busy || g.inFlight == 0 && !g.stale {
			continue
		}
		g.busy = true
		for {
			s.mu.Unlock()
			n, err := g.cq.Poll(g.buf[:])
			s.mu.Lock()
			// Also after a reading before the poll: posting and polling take time, and
			// what was polled is at least as old as that, which no round trip may
			// leave out.
			if n > 0 || s.waiting > 0 {
				t.look()
			}
			t.in(s.core)
			fresh = n > 0 || s.waiting > 0
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
	s.alert()
	return failed
}

// take takes one completion of the provider.
func (s *Shim) take(g *sendCQ, now units.Time, wc *verbs.WC) {
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
}

// release posts all segments that are due, and those that the core has released
// already, with one call for each queue pair that has some. It reads the clock again
// after each full batch. Where the provider refused something for good, it gives up
// the lock at the end.
func (s *Shim) release(t *instant) {
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
func (s *Shim) bury() {
	for len(s.doomed) > 0 {
		q := s.doomed[len(s.doomed)-1]
		s.doomed = s.doomed[:len(s.doomed)-1]
		s.mu.Unlock()
		_ = q.inner.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
		s.mu.Lock()
		if s.qps[q.index] == q {
			q.finish(false)
		}
	}
}
