package endpoint

import (
	"math/bits"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// MaxCQE bounds a completion queue.

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

	// drops lists the completions to discard, those of destroyed queue pairs; nil if
	// there are none. The writer adds to the list, the reader clears it. Each entry
	// covers at least one completion, so the list is no longer than the ring.
	drops   atomic.Pointer[drop]
	dropped map[uint32]uint64 // before, by queue pair number: the reader's, for skip

	reports []Report // of the ring's completions; nil where connections collect nothing

	// The network's telemetry for the completions of the last Poll.
	polled []polled
	told   []Report
}

type completion struct {
	wc      verbs.WC
	noticed noticed
	told    bool // there is a report of it
}

// noticed is what marks, and the peer, say of a request.
type noticed struct {
	ecn, ein          bool
	turned, coalesced bool
	turnaround        units.Time // with turned
}

// drop is an entry of a linked list: the completions of a queue pair before a
// count.
type drop struct {
	qpn    uint32
	before uint64
	next   *drop
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
	size := uint64(1) << bits.Len(uint(cqe-1))
	e.objects++
	c := &CQ{e: e, cap: size, ring: make([]completion, size), mask: size - 1, notify: notify}
	if e.cfg.Collect.any() {
		c.reports = make([]Report, size)
	}
	return c, nil
}

// Cap is how many completions the queue holds.
func (c *CQ) Cap() int { return int(c.cap) }

// Poll moves completions to wc, oldest first. One goroutine at a time may call
// it.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	c.polled, c.told = c.polled[:0], c.told[:0]
	if d := c.drops.Load(); d != nil {
		c.skip(d)
	}
	head := c.head.Load()
	n := min(uint64(len(wc)), c.tail.Load()-head)
	for i := range n {
		from := &c.ring[(head+i)&c.mask]
		wc[i] = from.wc
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

// drop discards the queue pair's completions that are in the queue now, so that
// Poll returns none of them (ibv_destroy_qp). last is what push returned for the
// last of them, 0 if there is none.
func (c *CQ) drop(qpn uint32, last uint64) {
	for {
		if c.head.Load() >= last {
			return // they were all polled
		}
		old := c.drops.Load()
		if c.drops.CompareAndSwap(old, &drop{qpn, last, old}) {
			return
		}
	}
}

// skip compacts the completions that will be polled towards the tail, and moves the
// head to the first of them. The entries between head and tail belong to the reader.
func (c *CQ) skip(list *drop) {
	head := c.head.Load()
	until := head
	if c.dropped == nil {
		c.dropped = map[uint32]uint64{}
	}
	for d := list; d != nil; d = d.next {
		until = max(until, d.before)
		c.dropped[d.qpn] = max(c.dropped[d.qpn], d.before)
	}
	to := until
	for at := until; at != head; at-- {
		from := &c.ring[(at-1)&c.mask]
		if at > c.dropped[from.wc.QPN] {
			to--
			c.ring[to&c.mask] = *from
			if from.told {
				c.reports[to&c.mask] = c.reports[(at-1)&c.mask]
			}
		}
	}
	clear(c.dropped)
	c.head.Store(to)
	c.drops.CompareAndSwap(list, nil) // if there is more by now, the next Poll sees to it
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

// Destroy frees the queue.
func (c *CQ) Destroy() error {
	if c.gone {
		return verbs.Errorf("destroy_cq", c.e.cfg.Name, verbs.ErrClosed, "")
	}
	if c.users > 0 {
		return verbs.Errorf("destroy_cq", c.e.cfg.Name, verbs.ErrBusy, "%d queue pairs use it", c.users)
	}
	c.gone = true
	c.armed.Store(notArmed)
	c.e.objects--
	return nil
}

// push adds a completion, with a report or nil, and returns how many there were with
// it since the queue was made. It returns 0 when the queue has overrun and the
// completion is lost.
func (c *CQ) push(wc *verbs.WC, n noticed, r *Report, solicited bool) (count uint64) {
	if c.overrun.Load() {
		return 0
	}
	tail := c.tail.Load()
	if tail-c.head.Load() == c.cap {
		c.overrun.Store(true)
		c.e.raise(Event{Type: ib.EventCQErr, CQ: c})
		return 0
	}
	to := &c.ring[tail&c.mask]
	to.wc, to.noticed = *wc, n
	if to.told = r != nil; to.told {
		c.reports[tail&c.mask] = *r
	}
	c.tail.Store(tail + 1)
	if a := c.armed.Load(); a == armedAll || a == armedSolicited && (solicited || wc.Status != ib.WCSuccess) {
		c.armed.Store(notArmed)
		c.notify()
	}
	return tail + 1
}

// completed notes what push returned for a completion of q, in the count of its send
// or receive completions. A queue pair whose completion is lost can't go on: the
// application would not learn what it has done (IBA 11.6.3.1).
func (q *QP) completed(last *uint64, count uint64) {
	if count != 0 {
		*last = count
		return
	}
	if !q.overrun {
		q.overrun = true
		q.e.overrun = append(q.e.overrun, q)
	}
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
