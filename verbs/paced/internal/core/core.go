package core

import (
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Config is the configuration that all queue pairs of a Core share.
type Config struct {
	Batch   int            // the most segments between two calls of Due, at least 1
	CatchUp units.Time     // the most lateness that is made up for
	BaseRTT units.Time     // the idle network's round trip
	Origin  units.LongTime // where the instants of the driver's clock are counted from at first

	// Bypass leaves out acknowledgements that a cc.Bypassed engine need not see.
	Bypass bool

	// NICClock takes round trips between two of the NIC's timestamps, which count at
	// CoreClockHz and wrap at ClockBits bits, where a segment has both of them.
	NICClock    bool
	ClockBits   int
	CoreClockHz float64
}

// Core is the scheduler of a set of queue pairs and the segments that it has
// released.
type Core struct {
	cfg    Config
	origin units.LongTime     // of all instants here
	clock  *completions.Clock // the NIC's, nil without one
	sched  *ratelimiter.Scheduler
	flows  []*QP    // by ratelimiter.FlowID; nil for a group's
	groups []*Group // likewise; nil for a queue pair's, or short

	inFlight int        // segments with the provider, of all queue pairs
	gapsEnd  units.Time // when the last gap after a segment ends

	// What Due has let go and Next is yet to hand out.
	claims  []claim
	nClaims int
	scratch Scratch
}

// Scratch is memory in which Next makes requests: as many of WRs as claims, and MaxSGE
// of SGEs for each.
type Scratch struct {
	WRs    []verbs.SendWR
	SGEs   []verbs.SGE
	MaxSGE int
}

// claim is a segment that the scheduler released and that is about to be posted.
type claim struct {
	qp   *QP
	at   cursor
	n    uint32
	seq  uint32
	last bool
	next int32 // the queue pair's next claim, or none
}

const none = -1

// New returns a Core without queue pairs. clock maps the NIC's timestamps to the
// instants of the Core, and the driver keeps it up to date; nil means that there is no
// such map.
func New(c Config, clock *completions.Clock) (*Core, error) {
	pacing := ratelimiter.DefaultConfig()
	pacing.CatchUp = c.CatchUp
	sched, err := ratelimiter.New(pacing)
	if err != nil {
		return nil, err
	}
	core := cacheline.New(Core{})
	core.start(c, clock, sched, make([]claim, c.Batch), Scratch{WRs: make([]verbs.SendWR, c.Batch)}, nil, nil)
	return core, nil
}

// start makes c a Core without queue pairs, in the memory given: a scheduler that was
// started, Config.Batch claims, scratch for the same number of requests, and a place
// for the queue pair, and one for the group, of each of the scheduler's flows.
func (c *Core) start(cfg Config, clock *completions.Clock, sched *ratelimiter.Scheduler, claims []claim, scratch Scratch, flows []*QP, groups []*Group) {
	*c = Core{cfg: cfg, origin: cfg.Origin, clock: clock, sched: sched, claims: claims, scratch: scratch, flows: flows, groups: groups}
}

// NextDue returns when Due has something to let go, or units.Never.
func (c *Core) NextDue() units.Time { return c.sched.NextDue() }

// Filed returns the number of queue pairs that wait for the time of their next segment.
func (c *Core) Filed() int { return c.sched.Len() }

// InFlight is the number of segments the provider has.
func (c *Core) InFlight() int { return c.inFlight }

// GapsEnd returns the end of the last gap that an engine's rate asks for after a segment.
func (c *Core) GapsEnd() units.Time { return c.gapsEnd }

// Due releases the segments that are due at now and returns their number, including
// segments that Offer released before: Config.Batch at most. Next returns them, and must
// have returned all before Due is called again. The scheduler counts each as if it
// left on time, so that several gaps may lie between two calls; what it makes up for
// is bounded by Config.CatchUp.
func (c *Core) Due(now units.Time) int {
	for c.nClaims < len(c.claims) {
		at := c.sched.NextDue()
		at = max(at, now-c.cfg.CatchUp)
		if at > now {
			break
		}
		id, ok := c.sched.DequeueAt(at, now)
		if !ok {
			if c.sched.NextDue() <= at {
				break // which can't be: nothing that is due is kept back
			}
			continue // its rate has fallen, and it is due later
		}
		q := c.flows[id]
		if q == nil {
			c.groups[id].due(now, at)
			continue
		}
		q.settle(now)
		q.filed = false
		q.claim(now)
		q.release(now, at)
	}
	return c.nClaims
}

// Batch holds the requests of one queue pair to post in one call.
type Batch struct {
	QP    *QP
	WRs   []verbs.SendWR // valid until the next call of Next
	first int
}

// Next returns the segments that the first queue pair from claim i on has to post,
// and the next claim. After the last one it returns false and drops the claims.
func (c *Core) Next(i int, b *Batch) (next int, ok bool) {
	for ; i < c.nClaims; i++ {
		q := c.claims[i].qp
		if int(q.firstClaim) != i {
			continue
		}
		k := 0
		for x := i; x != none; x = int(c.claims[x].next) {
			n := c.scratch.MaxSGE
			q.build(&c.claims[x], &c.scratch.WRs[k], c.scratch.SGEs[k*n:(k+1)*n])
			k++
		}
		q.firstClaim = none
		b.QP, b.WRs, b.first = q, c.scratch.WRs[:k], i
		return i + 1, true
	}
	c.nClaims = 0
	return 0, false
}

// Refusal is the reason why a provider took no more of a Batch.
type Refusal struct {
	// Full says that its queue has no room, though the Core counted on it.
	Full bool
	// Status completes the requests that it refused for another reason.
	Status ib.WCStatus
}

// Posted handles a provider's answer to a Batch: the provider took taken requests, and
// their payload is returned. If it refused some, why is the reason. Requests refused for
// want of room are posted again when something completes; otherwise the queue pair fails,
// which is reported.
func (c *Core) Posted(now units.Time, b *Batch, taken int, why Refusal) (bytes units.Bytes, failed bool) {
	q := b.QP
	x := b.first
	for range taken {
		if x == none {
			break
		}
		bytes += units.Bytes(c.claims[x].n)
		x = int(c.claims[x].next)
	}
	c.inFlight += taken
	if x == none {
		return bytes, false
	}

	// Back to the first segment that was refused. The scheduler has counted it;
	// a full queue costs its flow some pace.
	q.withdraw()
	refused := &c.claims[x]
	q.at = refused.at
	n := 0
	for ; x != none; x = int(c.claims[x].next) {
		n++
		if c.claims[x].last {
			q.unsent++
		}
	}
	before := q.table.Outstanding()
	q.table.Unpost(n)
	q.left(before)
	if why.Full && q.table.InFlight() > 0 {
		q.held(now, HeldOther)
		return bytes, false // until something completes
	}
	q.table.Fail(int(refused.at.slot), why.Status)
	q.Fail(now)
	return bytes, true
}
