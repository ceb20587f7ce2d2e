package endpoint

import (
	"math/bits"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
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

	// What of the completions of the last Poll had met congestion.
	marked []mark
}

type completion struct {
	wc  verbs.WC
	ecn bool
}

type mark struct {
	id  uint64
	qpn uint32
}

const (
	notArmed uint32 = iota
	armedSolicited
	armedAll
)

// CreateCQ makes a completion queue for at least cqe completions. notify is
// called, by the owner of the Endpoint, when a completion comes for which the
// queue is armed; nil if it can't be armed.
func (e *Endpoint) CreateCQ(cqe int, notify func()) (*CQ, error) {
	if cqe < 1 || cqe > MaxCQE {
		return nil, verbs.Errorf("create_cq", e.cfg.Name, verbs.ErrInvalid, "%d completions: 1 to %d", cqe, MaxCQE)
	}
	size := uint64(1) << bits.Len(uint(cqe-1))
	e.objects++
	return &CQ{e: e, cap: size, ring: make([]completion, size), mask: size - 1, notify: notify}, nil
}

// Cap is how many completions the queue holds.
func (c *CQ) Cap() int { return int(c.cap) }

// Poll moves completions to wc, oldest first. One goroutine at a time may call
// it.
func (c *CQ) Poll(wc []verbs.WC) (int, error) {
	head := c.head.Load()
	n := min(uint64(len(wc)), c.tail.Load()-head)
	c.marked = c.marked[:0]
	for i := range n {
		from := &c.ring[(head+i)&c.mask]
		wc[i] = from.wc
		if from.ecn {
			c.marked = append(c.marked, mark{from.wc.WRID, from.wc.QPN})
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

// Marked reports whether the network has marked packets of the request whose
// completion the last Poll returned. It belongs to whoever polls.
func (c *CQ) Marked(wc *verbs.WC) bool {
	for _, m := range c.marked {
		if m.id == wc.WRID && m.qpn == wc.QPN {
			return true
		}
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

// push adds a completion.
func (c *CQ) push(wc *verbs.WC, ecn, solicited bool) {
	if c.overrun.Load() {
		return
	}
	tail := c.tail.Load()
	if tail-c.head.Load() == c.cap {
		c.overrun.Store(true)
		c.e.raise(Event{Type: ib.EventCQErr, CQ: c})
		return
	}
	to := &c.ring[tail&c.mask]
	to.wc, to.ecn = *wc, ecn
	c.tail.Store(tail + 1)
	if a := c.armed.Load(); a == armedAll || a == armedSolicited && (solicited || wc.Status != ib.WCSuccess) {
		c.armed.Store(notArmed)
		c.notify()
	}
}
