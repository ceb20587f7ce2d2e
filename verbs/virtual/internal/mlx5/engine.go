package mlx5

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Config describes an Engine.
type Config struct {
	// Memory is the program's. If it is a verbs.VectorMemory, the Engine makes fewer calls.
	Memory verbs.Memory
	// Ticks turns verbs.WC.Timestamp of the back end into the CQE's timestamp; nil for
	// the same.
	Ticks func(uint64) uint64
	// Wake is called when something other than Scan has left work for Scan; nil for
	// nobody. It may run with locks of the back end held, and must not call it or the
	// Engine.
	Wake func()
	// Now is a clock, for events that moderation holds back; nil for one that stands still.
	Now func() time.Duration
}

// Engine is the data path of one opened device.
type Engine struct {
	cfg Config
	mem vectors

	mu    sync.Mutex
	pages []*Page
	cqs   []*CQ
	srqs  []*SRQ
	qps   []*QP // by slot, nil where free
	byNum map[uint32]*QP
	last  *QP   // the queue pair of the last receive of a shared queue
	todo  []*QP // whose records are to be read
	spare []*QP // for todo
	// erring are the queue pairs in ERR.
	erring []*QP
	broken atomic.Bool // a receive ring is
	judge  bool        // events may be due although nothing has happened: one is held back

	// For one call of Scan, so that it allocates nothing.
	wcs     [batch]verbs.WC
	wrs     [batch]verbs.SendWR
	recvs   [batch]verbs.RecvWR
	ring    [batch * connectx.BlockBytes]byte
	sges    [batch*connectx.BlockBytes/connectx.DataBytes + maxPieces]verbs.SGE
	blocks  [batch]uint8 // of wrs
	request request
	poison  [1]verbs.SGE
	word    [8]byte
	records [4 * maxRecords]byte
	armed   []*CQ

	recordPieces, ringPieces []verbs.MemoryPiece
}

// maxRecords is the number of doorbell records read with one call.
const maxRecords = 256

// NewEngine returns an Engine without objects.
func NewEngine(c Config) *Engine {
	if c.Ticks == nil {
		c.Ticks = func(t uint64) uint64 { return t }
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	if c.Now == nil {
		c.Now = func() time.Duration { return 0 }
	}
	e := &Engine{cfg: c, byNum: map[uint32]*QP{}, armed: make([]*CQ, 0, maxRecords)}
	e.recordPieces, e.ringPieces = make([]verbs.MemoryPiece, 0, maxRecords+1), make([]verbs.MemoryPiece, 0, 2)
	e.mem.init(c.Memory)
	return e
}

// Scan looks once at everything that may have changed: doorbells, queues that wait, and
// completions of the back end. It reports whether it found anything to do. Its work is
// bounded by the sizes of the rings.
func (e *Engine) Scan() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	arms := e.doorbells()
	posted := len(e.todo) > 0 && e.send()
	if e.flushRecvs() {
		posted = true
	}
	completed := e.complete()
	if e.broken.Swap(false) {
		e.onBroken()
	}
	if arms {
		e.readArms()
	}
	if arms || completed || e.judge {
		e.raise()
	}
	if arms || completed {
		for _, s := range e.srqs {
			s.checkLimit()
		}
	}
	return posted || arms || completed
}

// onBroken takes notice of receive rings that can't be read.
func (e *Engine) onBroken() {
	for _, q := range e.qps {
		if q != nil {
			q.onBroken()
		}
	}
	for _, s := range e.srqs {
		s.onBroken()
	}
}

// flushRecvs posts the receives of queue pairs in ERR, so that the back end flushes them,
// and reports whether there were any.
func (e *Engine) flushRecvs() (any bool) {
	for _, q := range e.erring {
		if q.cfg.RecvCount == 0 {
			continue
		}
		for range max(1, q.cfg.RecvCount/batch) {
			n := q.recv.FetchRecv(e.recvs[:])
			if n == 0 {
				break
			}
			any = true
			_, _ = q.cfg.Backend.PostRecv(e.recvs[:n])
		}
	}
	return any
}

// drain moves the back end's completions that there are to c.
func (e *Engine) drain(c *CQ) (any bool) {
	// A round for each batch that the back end may hold: what comes meanwhile can wait.
	for range c.cfg.Backend.Cap()/batch + 1 {
		n, err := c.cfg.Backend.Poll(e.wcs[:])
		if err != nil && !c.failed { // it has overrun
			c.flush()
			c.fails()
		}
		if n == 0 {
			break
		}
		any = true
		for i := range e.wcs[:n] {
			e.onCompletion(c, &e.wcs[i])
		}
		c.flush()
		if n < len(e.wcs) {
			break
		}
	}
	return any
}

// complete moves the back end's completions to the CQs, and reports whether there were
// any. A back end receives as it is polled, so a CQ that was looked at may have got a
// completion before the one that was found in a later CQ, such as the acknowledgement
// before the answer: it is looked at again, so that its event is not the later one.
func (e *Engine) complete() (any bool) {
	const looks = 2
	for range looks {
		later := false
		for i, c := range e.cqs {
			if c.users > 0 && e.drain(c) {
				any, later = true, later || i > 0
			}
		}
		if !later {
			break
		}
	}
	return any
}

// Arm arms the back end's completion queues (verbs.CQ.ReqNotify). To sleep, a caller
// makes sure that it learns of stores to the pages, calls Arm, then Scan, and sleeps if
// Scan found nothing, until a page is stored to, a back-end queue's channel has an event,
// or Config.Wake is called. If MustPoll is true, it may only nap.
func (e *Engine) Arm() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.cqs {
		if c.users > 0 {
			if err := c.cfg.Backend.ReqNotify(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// MustPoll reports whether there is something that no event will announce: queue pairs
// in ERR, whose receives are flushed as they are posted but ring no doorbell, and
// requests that wait for room in the back end. Call Scan every millisecond or so then.
func (e *Engine) MustPoll() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.todo) > 0 || len(e.erring) > 0
}

// readRecords fills the pieces and reports whether it could. Where one can't be read, it
// takes away the Data of each such.
func (e *Engine) readRecords(pieces []verbs.MemoryPiece) bool {
	if e.mem.readAll(pieces) == nil {
		return true
	}
	for i := range pieces {
		if p := &pieces[i]; e.mem.ReadMemory(p.Data, p.Addr) != nil {
			p.Data = nil
		}
	}
	return false
}

// qpOf returns the queue pair of a number, or nil.
func (e *Engine) qpOf(num uint32) *QP {
	if e.last == nil || e.last.num != num {
		e.last = e.byNum[num]
	}
	return e.last
}

// onCompletion makes a CQE of a completion of the back end.
func (e *Engine) onCompletion(c *CQ, wc *verbs.WC) {
	var q *QP
	switch {
	case wc.WRID&sharedRecv == sharedRecv:
		q = e.qpOf(wc.QPN)
	case wc.WRID>>slotShift&slotMask < uint64(len(e.qps)):
		q = e.qps[wc.WRID>>slotShift&slotMask]
	}
	if q == nil || q.num != wc.QPN {
		return // of a queue pair that is gone
	}
	index := uint16(wc.WRID)
	x := entry{userIndex: q.cfg.UserIndex, qpn: q.num, counter: index, timestamp: c.cfg.Ticks(wc.Timestamp)}
	if wc.WRID&recvBit != 0 {
		q.onRecv(c, wc, &x)
		return
	}
	q.onSent(c, wc, &x)
}

// The WRID of the back end's requests: a bit for receives and one for those of SRQs, the
// queue pair's slot, and the counter or index of the WQE in the lower 16 bits.
const (
	recvBit    = 1 << 63
	sharedRecv = recvBit | 1<<62
	slotShift  = 16
	slotMask   = 1<<32 - 1
)

// without returns s without x, in its place.
func without[T comparable](s []T, x T) []T {
	return slices.DeleteFunc(s, func(y T) bool { return y == x })
}
