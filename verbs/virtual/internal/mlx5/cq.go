package mlx5

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// CQConfig describes a completion queue.
type CQConfig struct {
	Number    uint32 // 1 to 1<<24-1
	Buffer    uint64 // address of the ring
	Record    uint64 // address of the doorbell record: consumer index, arm word
	Entries   int    // of the ring: a power of two, up to 1<<22
	EntrySize int    // 64 or 128
	// Compression has CQEs of 64 bytes compressed where they can be.
	Compression Compression
	Backend     verbs.CQ // with a channel, for Arm
	// Ticks replaces Config.Ticks for this queue's completions; nil for Config's.
	Ticks func(uint64) uint64
	// Event is called when the queue is armed and has a completion that fires it; nil if
	// the queue has no channel. Once for each arm.
	Event func()
	// Produced is called after CQEs were written, with how many there have been, modulo 1<<32.
	// nil for nobody.
	Produced func(count uint32)
	// Failed is called once, when the queue has overrun (IBV_EVENT_CQ_ERR) or its memory
	// can't be written. The queue takes no completions any more.
	Failed func()
}

// CQ is a completion queue.
type CQ struct {
	e      *Engine
	cfg    CQConfig
	users  int // queue pairs, each once for sending and once for receiving
	gone   bool
	failed bool

	produced   uint32 // index of the next CQE
	consumed   uint32 // the program's consumer index as last read, 24 bits
	staged     int    // CQEs in buf that are not in the ring yet
	buf        [batch * 2 * connectx.CQEBytes]byte
	owners     [batch]byte
	pieces     []verbs.MemoryPiece
	packer     *packer // nil without compression
	wantsEvent uint32  // the index after the last CQE that fires an arm for solicited ones
	arm        arming
}

// batch is the number of completions polled, or requests posted, at a time.
const batch = 64

// CreateCQ adds a completion queue. It writes the arm word of the doorbell record, so that
// the program's first arm changes it.
func (e *Engine) CreateCQ(c CQConfig) (*CQ, error) {
	if err := checkRing(c.Entries, c.EntrySize); err != nil {
		return nil, err
	}
	if c.Number == 0 || c.Number > connectx.IndexMask {
		return nil, fmt.Errorf("mlx5: completion queue number %#x, expected 1 to %#x", c.Number, connectx.IndexMask)
	}
	if c.Ticks == nil {
		c.Ticks = e.cfg.Ticks
	}
	q := &CQ{e: e, cfg: c, pieces: make([]verbs.MemoryPiece, 0, batch+2)}
	switch c.Compression {
	case Uncompressed:
	case CompressHash, CompressSum:
		if c.EntrySize != connectx.CQEBytes {
			return nil, fmt.Errorf("mlx5: completion queue entries of %d bytes with compression, expected 64", c.EntrySize)
		}
		q.packer = &packer{pieces: make([]verbs.MemoryPiece, 0, 3*batch)}
	default:
		return nil, fmt.Errorf("mlx5: compression %#x of completion queue entries, expected 1 or 2", uint8(c.Compression))
	}
	var word [4]byte
	binary.BigEndian.PutUint32(word[:], neverArmed)
	if err := e.mem.WriteMemory(word[:], c.Record+4); err != nil {
		return nil, fmt.Errorf("mlx5: the completion queue's doorbell record: %w", err)
	}
	q.arm.word = neverArmed
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cqs = append(e.cqs, q)
	return q, nil
}

func checkRing(entries, size int) error {
	if size != connectx.CQEBytes && size != 2*connectx.CQEBytes {
		return fmt.Errorf("mlx5: completion queue entries of %d bytes, expected 64 or 128", size)
	}
	return powerOfTwo("completion queue entries", entries, 1, 1<<22)
}

// unpolled returns how many CQEs the program has not polled, which it reads if there
// seem to be most or more. A consumer index that makes no sense counts as a full ring.
func (c *CQ) unpolled(most int) (int, error) {
	n := int((c.produced - c.consumed) & connectx.IndexMask)
	if n < most {
		return n, nil
	}
	word := c.e.word[:4]
	if err := c.e.mem.ReadMemory(word, c.cfg.Record); err != nil {
		return 0, err
	}
	c.consumed = binary.BigEndian.Uint32(word) & connectx.IndexMask
	return int((c.produced - c.consumed) & connectx.IndexMask), nil
}

// add stages a CQE with its scattered data, which may be nil.
func (c *CQ) add(e *entry, data []byte) {
	if c.failed {
		return
	}
	if c.staged == batch {
		c.flush()
	}
	if n, err := c.unpolled(c.cfg.Entries); err != nil || n >= c.cfg.Entries {
		c.flush()
		c.fails()
		return
	}
	size := c.cfg.EntrySize
	b := c.buf[c.staged*size:][:size]
	clear(b)
	switch e.scatter {
	case connectx.Scatter32:
		copy(b[size-connectx.CQEBytes:], data)
	case connectx.Scatter64:
		copy(b, data)
	}
	owner := uint8(0)
	if c.produced&uint32(c.cfg.Entries) != 0 {
		owner = connectx.OwnerBit
	}
	e.put(b[size-connectx.CQEBytes:], owner)
	c.owners[c.staged] = b[size-1]
	b[size-1] = connectx.CQEInvalid<<4 | owner ^ connectx.OwnerBit
	if c.packer != nil {
		c.packer.entries[c.staged] = *e
	}
	c.staged++
	c.produced++
	if e.solicited || e.syndrome != 0 {
		c.wantsEvent = c.produced
	}
}

// flush writes the staged CQEs to the ring: first their bodies, which are not the
// program's yet, then each one's last byte, which makes it so.
func (c *CQ) flush() {
	n, size := c.staged, c.cfg.EntrySize
	if n == 0 || c.failed {
		return
	}
	c.staged = 0
	if c.packer != nil {
		c.write(c.pack(n))
		return
	}
	c.pieces = c.pieces[:0]
	first := int(c.produced-uint32(n)) & (c.cfg.Entries - 1)
	straight := min(n, c.cfg.Entries-first)
	c.pieces = append(c.pieces, verbs.MemoryPiece{Addr: c.cfg.Buffer + uint64(first*size), Data: c.buf[:straight*size]})
	if straight < n {
		c.pieces = append(c.pieces, verbs.MemoryPiece{Addr: c.cfg.Buffer, Data: c.buf[straight*size : n*size]})
	}
	for i := range n {
		at := (first + i) & (c.cfg.Entries - 1)
		c.pieces = append(c.pieces, verbs.MemoryPiece{Addr: c.cfg.Buffer + uint64(at*size+size-1), Data: c.owners[i : i+1]})
	}
	c.write(c.pieces, len(c.pieces)-n)
}

// write writes to the ring: some bodies, and then owner bytes.
func (c *CQ) write(pieces []verbs.MemoryPiece, bodies int) {
	if !storesInOrder {
		if c.e.mem.writeAll(pieces[:bodies]) != nil {
			c.fails()
			return
		}
		pieces = pieces[bodies:]
	}
	if c.e.mem.writeAll(pieces) != nil {
		c.fails()
		return
	}
	if c.cfg.Produced != nil {
		c.cfg.Produced(c.produced)
	}
}

// storesInOrder is whether one call may write what has to be seen in order.
const storesInOrder = runtime.GOARCH == "amd64"

func (c *CQ) fails() {
	if c.failed = true; c.cfg.Failed != nil {
		c.cfg.Failed()
	}
}

// Resize moves the queue to another ring. It writes the RESIZE_CQ entry to the old one,
// after which libmlx5 copies what it has not polled. It fails if what was not polled has
// no room in the old ring with that entry, or in the new one.
func (c *CQ) Resize(buffer uint64, entries, entrySize int) error {
	if err := checkRing(entries, entrySize); err != nil {
		return err
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.failed || c.gone {
		return verbs.ErrState
	}
	if c.packer != nil && entrySize != connectx.CQEBytes {
		return verbs.ErrInvalid
	}
	n, err := c.unpolled(0)
	switch most := min(c.cfg.Entries, entries); {
	case err != nil:
		return fmt.Errorf("mlx5: the completion queue's doorbell record: %w", err)
	case n >= most:
		return fmt.Errorf("mlx5: %d completions were not polled, and %d have room: %w", n, most-1, verbs.ErrInvalid)
	}
	c.add(&entry{opcode: connectx.CQEResize}, nil)
	c.flush()
	if c.failed {
		return verbs.ErrAccess
	}
	c.cfg.Buffer, c.cfg.Entries, c.cfg.EntrySize = buffer, entries, entrySize
	return nil
}

// Close destroys the back end's queue and ends the use of the ring. It fails with
// verbs.ErrBusy while queue pairs use it.
func (c *CQ) Close() error {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.gone {
		return verbs.ErrClosed
	}
	if err := c.cfg.Backend.Close(); err != nil {
		return err
	}
	c.gone = true
	c.e.cqs = without(c.e.cqs, c)
	return nil
}
