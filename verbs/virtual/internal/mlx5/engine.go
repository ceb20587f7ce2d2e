package mlx5

import (
	"fmt"
	"sync"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Piece is a part of a program's memory.
type Piece struct {
	Addr uint64
	Data []byte
}

// Vectors is a verbs.Memory that moves several pieces with one call.
type Vectors interface {
	// ReadVector fills the pieces, each with what lies at its address, or fails.
	ReadVector(pieces []Piece) error
	// WriteVector writes the pieces in order: who sees a piece sees those before it.
	WriteVector(pieces []Piece) error
}

// Config describes an Engine.
type Config struct {
	// Memory is the program's. If it is a Vectors, the Engine makes fewer calls.
	Memory verbs.Memory
	// Ticks turns verbs.WC.Timestamp of the back end into the CQE's timestamp; nil for
	// the same.
	Ticks func(uint64) uint64
	// Wake is called when a call other than Scan has left work for Scan; nil for nobody.
	Wake func()
}

// Engine is the data path of one opened device.
type Engine struct {
	cfg Config
	mem vectors

	mu    sync.Mutex
	pages []*Page
	cqs   []*CQ
	qps   []*QP // by slot, nil where free
	free  []int
	byNum map[uint32]*QP
}

// NewEngine returns an Engine without objects.
func NewEngine(c Config) *Engine {
	e := &Engine{cfg: c, byNum: map[uint32]*QP{}}
	e.mem.init(c.Memory)
	return e
}

// Scan looks once at everything that may have changed: doorbells, queues that wait, and
// completions of the back end. It reports whether it found anything to do. Its work is
// bounded by the sizes of the rings.
func (e *Engine) Scan() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return false
}

// Arm arms the back end's completion queues (verbs.CQ.ReqNotify). To sleep, a caller
// makes sure that it learns of stores to the pages, calls Arm, then Scan, and sleeps if
// Scan found nothing, until a page is stored to, a back-end queue's channel has an event,
// or Config.Wake is called. If MustPoll is true, it may only nap.
func (e *Engine) Arm() error {
	return nil
}

// MustPoll reports whether there is something that no event will announce: queue pairs
// in ERR, whose receives are flushed as they are posted but ring no doorbell, and
// requests that wait for room in the back end. Call Scan every millisecond or so then.
func (e *Engine) MustPoll() bool {
	return false
}

// Page is a UAR page that a program rings doorbells on.
type Page struct {
	e     *Engine
	words []uint64
}

// PageBytes is the size of a UAR page.
const PageBytes = 4096

// AddPage adds a UAR page: memory of PageBytes that begins at a multiple of 8 and that
// the program has mapped too. The Engine looks at the doorbells of CQs, at offset 0x20,
// and at those of the four blue-flame registers from 0x800 on, each with two buffers of
// 0x100 bytes. It sets a doorbell to 0 when it has seen it.
func (e *Engine) AddPage(mem []byte) (*Page, error) {
	if len(mem) != PageBytes {
		return nil, fmt.Errorf("mlx5: a UAR page of %d bytes, expected %d", len(mem), PageBytes)
	}
	return &Page{e: e}, nil
}

// Remove ends the use of the page's memory. No object may use it any more.
func (p *Page) Remove() {}

// CQConfig describes a completion queue.
type CQConfig struct {
	Number    uint32   // 1 to 1<<24-1
	Buffer    uint64   // address of the ring
	Record    uint64   // address of the doorbell record: consumer index, arm word
	Entries   int      // of the ring: a power of two, up to 1<<22
	EntrySize int      // 64 or 128
	Backend   verbs.CQ // with a channel, for Arm
	// Event is called when the queue is armed and has a completion that fires it; nil if
	// the queue has no channel. Once for each arm.
	Event func()
	// Failed is called once, when the queue has overrun (IBV_EVENT_CQ_ERR) or its memory
	// can't be written. The queue takes no completions any more.
	Failed func()
}

// CQ is a completion queue.
type CQ struct {
	e   *Engine
	cfg CQConfig
}

// CreateCQ adds a completion queue. It writes the arm word of the doorbell record, so that
// the program's first arm changes it.
func (e *Engine) CreateCQ(c CQConfig) (*CQ, error) {
	return &CQ{e: e, cfg: c}, nil
}

// Resize moves the queue to another ring. It writes the RESIZE_CQ entry to the old one,
// after which libmlx5 copies what it has not polled. It fails if what was not polled has
// no room in the old ring with that entry, or in the new one.
func (c *CQ) Resize(buffer uint64, entries, entrySize int) error { return nil }

// Destroy destroys the back end's queue and ends the use of the ring. It fails with
// verbs.ErrBusy while queue pairs use it.
func (c *CQ) Destroy() error { return nil }

// SRQConfig describes a shared receive queue.
type SRQConfig struct {
	Number  uint32
	Buffer  uint64 // address of the WQEs
	Record  uint64 // address of the doorbell record: the counter of posted WQEs
	Entries int    // a power of two, up to 1<<15
	Stride  int    // bytes of a WQE: a power of two, 32 to 2048
	Backend verbs.SRQ
	// Limit is called when fewer receives are left than SetLimit said (IBV_EVENT_SRQ_LIMIT_REACHED).
	Limit func()
	// Failed is called once, when the list of WQEs is broken or can't be read
	// (IBV_EVENT_SRQ_ERR). The queue gives no receives any more.
	Failed func()
}

// SRQ is a shared receive queue.
type SRQ struct {
	e   *Engine
	cfg SRQConfig
}

// CreateSRQ adds a shared receive queue. The back end's has to take a verbs.RecvSource.
func (e *Engine) CreateSRQ(c SRQConfig) (*SRQ, error) { return &SRQ{e: e, cfg: c}, nil }

// SetLimit arms the limit event: fewer than n receives left. 0 disarms it.
func (s *SRQ) SetLimit(n int) {}

// Limit returns the limit that is armed, or 0.
func (s *SRQ) Limit() int { return 0 }

// Destroy destroys the back end's queue and ends the use of the ring.
func (s *SRQ) Destroy() error { return nil }

// QPConfig describes a queue pair.
type QPConfig struct {
	Type       ib.QPType
	UserIndex  uint32 // 24 bits; what CQEs name the queue pair by
	Page       *Page  // that the send doorbell is on
	Record     uint64 // address of the doorbell record: receive counter, send counter
	SendBuffer uint64 // address of the send ring
	SendBlocks int    // basic blocks of 64 bytes: 0, or a power of two up to 1<<15
	RecvBuffer uint64 // address of the receive ring
	RecvCount  int    // receives: 0, or a power of two up to 1<<15
	RecvStride int    // bytes of a receive WQE: a power of two, 16 to 2048
	SendCQ     *CQ
	RecvCQ     *CQ
	SRQ        *SRQ // nil for a receive ring of its own
	SigAll     bool // every request gives a completion
	// ScatterRecv and ScatterSend put received data, and the data of READs and atomics,
	// into the CQE where they fit: up to 32 bytes of a CQE of 64, and of received data up
	// to 64 of one of 128. RC only.
	ScatterRecv, ScatterSend bool

	PD      verbs.PD // of Backend; its memory regions hold inline data that goes with pointers
	Backend verbs.QP // in RESET, and made without SigAll; its Num is the queue pair's
	// AH makes the address handle of a datagram's address vector, in the back end's PD.
	// The Engine keeps and destroys it. nil for connections.
	AH func(verbs.AddressVector) (verbs.AH, error)
	// Failed is called once between two RESETs, when the queue pair's rings or records
	// can't be read (IBV_EVENT_QP_FATAL). The queue pair is then in ERR.
	Failed func()
}

// QP is a queue pair.
type QP struct {
	e   *Engine
	cfg QPConfig
}

// CreateQP adds a queue pair in RESET. The back end's has to take a verbs.RecvSource if
// it has a receive ring of its own.
func (e *Engine) CreateQP(c QPConfig) (*QP, error) { return &QP{e: e, cfg: c}, nil }

// Modify modifies the back end's queue pair. A change of state takes effect here as well:
// doorbells count from RTS on, RESET sets both counters to 0, ERR flushes.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	return q.cfg.Backend.Modify(a, mask)
}

// OnError is to be called when the back end has brought the queue pair to ERR by itself
// (ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr).
func (q *QP) OnError() {}

// Destroy destroys the back end's queue pair. When it returns, no CQE of it will be
// written.
func (q *QP) Destroy() error { return nil }
