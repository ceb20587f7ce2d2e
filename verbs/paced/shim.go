package paced

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
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
	epoch   units.Time
	cfg     Config
	scheme  *cc.Scheme // nil with Config.Engine, or without an engine

	mu    sync.Mutex // guards everything below, and the state of QPs, CQs and channels
	sched *ratelimiter.Scheduler
	flows []*QP // by ratelimiter.FlowID
	qps   []*QP // by the index in their WRIDs
	gens  []uint8
	// vacant indices of qps; gens goes on counting.
	vacant []int
	cqs    []*sendCQ // replaced, never changed in place: progress iterates without the lock
	stats  Stats

	clock     *completions.Clock // nil without timestamps
	reader    verbs.ClockReader
	reading   bool       // the NIC's counter, without the lock
	readAgain units.Time // not before, after an error

	waiting  int        // goroutines in Wait, of all channels
	inFlight int        // segments with the provider, of all queue pairs
	gapsEnd  units.Time // when the last gap after a segment ends, of all queue pairs
	objects  int        // PDs, CQs and channels that exist
	rest     rest
	byInner  map[any]any

	// Scratch, so that nothing on the data path allocates.
	claims  []claim
	nClaims int
	wrs     []verbs.SendWR
	sges    []verbs.SGE // maxSGE for each of wrs
	maxSGE  int
	segment completions.Segment
	ack     cc.Ack
	report  verbs.Telemetry
	// ack has something of a report.
	reported bool
}

// claim is a segment that the scheduler released and that is about to be posted.
type claim struct {
	qp   *QP
	at   cursor
	n    uint32
	seq  uint32
	last bool
	next int32 // the QP's next claim, or none
}

const none = -1

// Wrap returns a Shim over dev. It fails if c is out of range or its engine
// can't be made. The provider's device is to be used through the Shim alone
// from then on, and is closed by the Shim's Close.
func Wrap(dev verbs.Device, c Config) (*Shim, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	pacing := ratelimiter.DefaultConfig()
	pacing.CatchUp = c.CatchUp
	sched, err := ratelimiter.New(pacing)
	if err != nil {
		return nil, err
	}
	s := &Shim{
		dev: dev, attr: dev.Attr(), cfg: c, sched: sched, byInner: map[any]any{},
		claims: make([]claim, c.Batch), wrs: make([]verbs.SendWR, c.Batch),
	}
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
	if s.precise, _ = dev.(verbs.PreciseClock); s.precise == nil {
		s.epoch = units.FromDuration(dev.Now())
	}
	if err := s.calibrate(); err != nil {
		return nil, err
	}
	return s, nil
}

// newEngine returns an engine, or nil if there is none.
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
// verbs.PreciseClock where it has one, else its Now, counted from Wrap. Times
// that go into and come out of a Shim are on this clock.
func (s *Shim) Clock() units.Time {
	if s.precise != nil {
		return s.precise.NowPrecise()
	}
	return units.FromDuration(s.dev.Now()) - s.epoch
}

// Progress takes what the provider has completed and sends all that is due at
// now, a reading of Clock. Completions of requests are then ready in their CQs.
// It returns the error of a provider's CQ that can't be polled; the queue pairs
// of other CQs go on.
func (s *Shim) Progress(now units.Time) error { return s.progress(now, false) }

// Deadline is when Progress has something to do though nothing completes: a
// segment comes due, or a calibration sample while there is work. It is
// units.Never if nothing is waiting, and lies in the future right after Progress.
func (s *Shim) Deadline() units.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline()
}

func (s *Shim) deadline() units.Time {
	due := s.sched.NextDue()
	if s.inFlight > 0 || due != units.Never {
		due = min(due, max(s.clock.Due(), s.readAgain))
	}
	return due
}

// Stats returns the counters so far.
func (s *Shim) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	now := s.Clock()
	for _, q := range s.qps {
		if q != nil {
			all, failed := q.table.Finished()
			stats.Messages += all
			stats.Failed += failed
			stats.add(&q.tally, q.heldUntil(now))
		}
	}
	return stats
}

// progress is Progress; now means nothing to a live one.
func (s *Shim) progress(now units.Time, live bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn(now, live)
}

// turn is progress with the lock held, which it gives up for a while. A live one
// reads the clock itself, where it must know the time and may have lost it since
// the last reading, so that a long call does not smear the times.
//
// On a simulated device a poll that finds nothing, or a reading of the NIC's
// clock, lets time pass and other goroutines run, so the lock is not held
// meanwhile; busy and reading keep the others off.
func (s *Shim) turn(now units.Time, live bool) error {
	fresh := !live
	if live && (s.sched.Len() > 0 || s.inFlight > 0 && s.clock != nil) {
		now, fresh = s.Clock(), true
	}
	if s.inFlight > 0 || s.sched.Len() > 0 {
		now = s.sample(now, live)
	}
	// What is due by now goes before what the completions below let go, which
	// the scheduler will hear of at a later time.
	s.release(now, live)
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
			if n == 0 {
				fresh = !live
			}
			// Also after a reading before the poll: posting and polling take time, and
			// what was polled is at least as old as that, which no round trip may
			// leave out.
			if live && (n > 0 || !fresh && s.waiting > 0) {
				now, fresh = s.Clock(), true
			}
			for i := range n {
				s.take(g, now, &g.buf[i])
			}
			if err != nil && failed == nil {
				failed = err
			}
			if n < len(g.buf) || err != nil {
				break
			}
		}
		g.busy, g.stale, g.polled = false, false, now
		g.rounds++
	}
	if s.sched.Len() > 0 {
		if !fresh {
			now = s.Clock()
		}
		s.release(now, live)
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
	before := q.table.InFlight()
	if !q.table.Complete(uint32(wc.WRID), wc, &s.segment) {
		s.stats.Stray++
		return
	}
	done := before - q.table.InFlight()
	g.inFlight -= done
	s.inFlight -= done
	if wc.Status == ib.WCSuccess {
		q.steer(now, wc)
	} else {
		q.fail()
	}
	q.finish(true)
	q.file(now)
}

// release posts the claims there are and all segments that are due. The scheduler
// is told of each as if it left on time, so that several gaps may lie between two
// calls; what it makes up for is bounded by Config.CatchUp. A live one reads the clock
// anew after each full batch.
func (s *Shim) release(now units.Time, live bool) {
	for {
		for s.nClaims < len(s.claims) {
			at := max(s.sched.NextDue(), now-s.cfg.CatchUp)
			if at > now {
				break
			}
			id, ok := s.sched.DequeueAt(at, now)
			if !ok {
				continue // its rate has fallen, and it is due later
			}
			q := s.flows[id]
			q.settle(now)
			q.filed = false
			q.claim(now)
			q.offer(now, at)
		}
		n := s.nClaims
		if n == 0 {
			return
		}
		s.flush(now)
		if n < len(s.claims) {
			return
		}
		if live {
			now = s.Clock()
		}
	}
}

// flush posts the claims, one call for each queue pair that has some.
func (s *Shim) flush(now units.Time) {
	n := s.nClaims
	s.nClaims = 0
	for i := range n {
		q := s.claims[i].qp
		if q.firstClaim != i {
			continue
		}
		k := 0
		for c := i; c != none; c = int(s.claims[c].next) {
			q.build(&s.claims[c], &s.wrs[k], s.sges[k*s.maxSGE:][:0:s.maxSGE])
			k++
		}
		q.firstClaim = none
		taken, err := q.inner.PostSend(s.wrs[:k])
		s.stats.Posts++
		if err == nil {
			taken = k
		}
		q.posted(now, i, taken, err)
	}
}
