package endpoint

import (
	"math/bits"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// CQ is a completion queue: a ring with one writer, the owner of the Endpoint,
// and one reader, whoever polls.
type CQ struct {
	Owner any // what the driver likes to find here

	e          *Endpoint
	cap        uint64
	ring       []completion
	mask       uint64
	head, tail atomic.Uint64 // head belongs to the reader, tail to the writer
	overrun    atomic.Bool
	armed      atomic.Uint32 // an arming
	notify     func()
	users      int
	gone       bool

	stale atomic.Bool // a queue pair has ended since the reader last looked for its completions

	reports []Report // of the ring's completions; nil where connections collect nothing

	// The network's telemetry for the completions of the last Poll.
	polled []polled
	told   []Report
}

type completion struct {
	wc      verbs.WC
	of      *incarnation
	noticed noticed
	told    bool // there is a report of it
	places  places
}

// places are those of a send queue that polling a completion frees.
type places struct {
	frees bool   // false of a receive
	upTo  uint32 // the count of the request after
}

// noticed is what marks, and the peer, say of a request.
type noticed struct {
	ecn, ein          bool
	turned, coalesced bool
	turnaround        units.Time // with turned
}

// incarnation is a queue pair between two RESETs. When it ends, what it has completed
// and nobody has polled is gone (ibv_modify_qp, ibv_destroy_qp).
type incarnation struct {
	completed bool // something; the writer's
	ended     atomic.Bool
	// freed is the count of the oldest request that keeps its place in the send queue.
	freed atomic.Uint32
}

type polled struct {
	id      uint64
	qpn     uint32
	noticed noticed
	report  int // in told, -1 for none
}

const (
	notArmed uint32 = iota
	armedSolicited
	armedAll
)

// CreateCQ makes a completion queue for at least cqe completions. The owner of the
// Endpoint calls notify when a completion is added for which the queue is armed;
// nil if it can't be armed.
func (e *Endpoint) CreateCQ(cqe int, notify func()) (*CQ, error) {
	if cqe < 1 || cqe > MaxCQE {
		return nil, verbs.Errorf("create_cq", e.cfg.Name, verbs.ErrInvalid, "%d completions, expected 1 to %d", cqe, MaxCQE)
	}
	if e.cqs >= MaxCQ {
		return nil, e.full("create_cq", "completion queues", MaxCQ)
	}
	size := uint64(1) << bits.Len(uint(cqe-1))
	e.cqs++
	c := &CQ{e: e, cap: size, ring: make([]completion, size), mask: size - 1, notify: notify}
	if e.cfg.Collect.any() {
		c.reports = make([]Report, size)
	}
	return c, nil
}

// Resize changes the capacity to at least cqe completions. The owner of the Endpoint calls
// it, and nobody polls meanwhile.
func (c *CQ) Resize(cqe int) error {
	bad := func(cause error, format string, args ...any) error {
		return verbs.Errorf("resize_cq", c.e.cfg.Name, cause, format, args...)
	}
	head, tail := c.head.Load(), c.tail.Load()
	switch {
	case c.gone:
		return bad(verbs.ErrClosed, "")
	case cqe < 1 || cqe > MaxCQE:
		return bad(verbs.ErrInvalid, "%d completions, expected 1 to %d", cqe, MaxCQE)
	case tail-head > uint64(cqe):
		return bad(verbs.ErrInvalid, "%d completions wait, and %d would fit: poll first", tail-head, cqe)
	}
	size := uint64(1) << bits.Len(uint(cqe-1))
	ring, mask := make([]completion, size), size-1
	var reports []Report
	if c.reports != nil {
		reports = make([]Report, size)
	}
	for at := head; at != tail; at++ {
		ring[at&mask] = c.ring[at&c.mask]
		if reports != nil {
			reports[at&mask] = c.reports[at&c.mask]
		}
	}
	c.cap, c.ring, c.mask, c.reports = size, ring, mask, reports
	return nil
}

// Cap is how many completions the queue holds.
func (c *CQ) Cap() int { return int(c.cap) }

// Poll moves completions to wc, oldest first. One goroutine at a time may call
// it.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	c.polled, c.told = c.polled[:0], c.told[:0]
	if c.stale.Load() {
		c.compact()
	}
	head := c.head.Load()
	n := min(uint64(len(wc)), c.tail.Load()-head)
	for i := range n {
		from := &c.ring[(head+i)&c.mask]
		wc[i] = from.wc
		if from.places.frees {
			from.of.freed.Store(from.places.upTo)
		}
		if from.told || from.noticed != (noticed{}) {
			p := polled{from.wc.WRID, from.wc.QPN, from.noticed, -1}
			if from.told {
				p.report = len(c.told)
				c.told = append(c.told, c.reports[(head+i)&c.mask])
			}
			c.polled = append(c.polled, p)
		}
	}
	if n > 0 {
		c.head.Store(head + n)
		return int(n), nil
	}
	if c.overrun.Load() {
		return 0, verbs.Errorf("poll_cq", c.e.cfg.Name, verbs.ErrQueueFull, "the queue of %d completions has overrun; make it as large as the work that may be outstanding", c.cap)
	}
	return 0, nil
}

// compact moves the completions that will be polled towards the tail, over those of
// ended incarnations, and the head to the first of them. The entries between head and
// tail belong to the reader.
func (c *CQ) compact() {
	c.stale.Store(false) // before the look: who ends from here on says so again
	head, to := c.head.Load(), c.tail.Load()
	for at := to; at != head; at-- {
		from := &c.ring[(at-1)&c.mask]
		if from.of.ended.Load() {
			continue
		}
		if to--; to != at-1 {
			c.ring[to&c.mask] = *from
			if from.told {
				c.reports[to&c.mask] = c.reports[(at-1)&c.mask]
			}
		}
	}
	c.head.Store(to)
}

// Telemetry writes to t the network's telemetry for a request whose completion the
// last Poll returned, and reports whether there was any. Only the goroutine that
// polls may call it.
func (c *CQ) Telemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	for i := range c.polled {
		p := &c.polled[i]
		if p.id != wc.WRID || p.qpn != wc.QPN {
			continue
		}
		t.Turnaround, t.HasTurnaround, t.Coalesced = p.noticed.turnaround, p.noticed.turned, p.noticed.coalesced
		t.ECN, t.EIN, t.HasMaxDelay, t.MaxHopDelay, t.ReverseMaxHopDelay, t.Path.N = p.noticed.ecn, p.noticed.ein, false, 0, 0, 0
		if p.report >= 0 {
			r := &c.told[p.report]
			t.HasMaxDelay, t.MaxHopDelay, t.ReverseMaxHopDelay = r.HasMaxDelay, r.MaxHopDelay, r.ReverseMaxHopDelay
			if r.Path.N > 0 {
				t.Path = r.Path
			}
		}
		return true
	}
	return false
}

// ReqNotify arms the queue.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	if c.notify == nil {
		return verbs.Errorf("req_notify_cq", c.e.cfg.Name, verbs.ErrInvalid, "the queue was made without a completion channel")
	}
	if solicitedOnly {
		c.armed.CompareAndSwap(notArmed, armedSolicited)
	} else {
		c.armed.Store(armedAll)
	}
	return nil
}

// Close frees the queue.
func (c *CQ) Close() error {
	if c.gone {
		return verbs.Errorf("destroy_cq", c.e.cfg.Name, verbs.ErrClosed, "")
	}
	if c.users > 0 {
		return verbs.Errorf("destroy_cq", c.e.cfg.Name, verbs.ErrBusy, "%d queue pairs use it", c.users)
	}
	c.gone = true
	c.e.cqs--
	return nil
}

// push adds a completion, with the places that it frees and a report or nil, and reports whether there was room. If
// there was none, the queue has overrun and the completion is lost.
func (c *CQ) push(wc *verbs.WC, of *incarnation, p places, n noticed, r *Report, solicited bool) bool {
	if c.overrun.Load() {
		return false
	}
	tail := c.tail.Load()
	if tail-c.head.Load() == c.cap {
		c.overrun.Store(true)
		c.e.raise(Event{Type: ib.EventCQErr, CQ: c})
		return false
	}
	to := &c.ring[tail&c.mask]
	to.wc, to.of, to.places, to.noticed = *wc, of, p, n
	if to.told = r != nil; to.told {
		c.reports[tail&c.mask] = *r
	}
	of.completed = true
	c.tail.Store(tail + 1)
	if a := c.armed.Load(); a == armedAll || a == armedSolicited && (solicited || wc.Status != ib.WCSuccess) {
		c.armed.Store(notArmed)
		c.notify()
	}
	return true
}

// complete adds a completion of q to cq, one of its queues. A queue pair whose
// completion is lost can't go on: the application would not learn what it has done
// (IBA 11.6.3.1).
func (q *QP) complete(cq *CQ, wc *verbs.WC, p places, n noticed, r *Report, solicited bool) {
	if !cq.push(wc, q.incarnation, p, n, r, solicited) && !q.overrun {
		q.overrun = true
		q.e.overrun = append(q.e.overrun, q)
	}
}

// endIncarnation discards the completions of q that wait in its queues, and begins
// another incarnation.
func (q *QP) endIncarnation() {
	q.overrun = false
	if !q.incarnation.completed {
		return
	}
	q.incarnation.ended.Store(true)
	q.init.SendCQ.stale.Store(true)
	q.init.RecvCQ.stale.Store(true)
	q.incarnation = new(incarnation)
}

// failOverrun fails the queue pairs that have lost a completion.
func (e *Endpoint) failOverrun(now units.Time) {
	for len(e.overrun) > 0 {
		q := e.overrun[len(e.overrun)-1]
		e.overrun = e.overrun[:len(e.overrun)-1]
		if q.gone || q.State() == ib.Err {
			continue
		}
		e.raise(Event{Type: ib.EventQPFatal, QP: q})
		q.fail(now)
	}
}
