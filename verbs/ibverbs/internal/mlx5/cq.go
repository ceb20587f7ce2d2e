package mlx5

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// CQMemory is a completion queue's memory, as mlx5dv_init_obj shows it.
type CQMemory struct {
	Record    *[2]uint32 // the doorbell record
	Ring      []byte     // a power of two of CQEs
	EntrySize int        // 64 or 128
	Doorbell  *uint64    // the register of arms
}

// CQConfig describes a completion queue that nothing was taken from.
type CQConfig struct {
	Num        uint32
	Memory     CQMemory
	Table      *Table // finds the queue pairs
	Timestamps bool   // completions have WC.Timestamp
}

// CQ is a completion queue.
type CQ struct {
	num      uint32
	record   *[2]uint32
	doorbell *uint64
	first    unsafe.Pointer // the CQE at index 0: the last 64 bytes of its entry
	mask     uint32         // indices
	shift    uint8          // log2 of EntrySize
	lap      uint8          // log2 of the entries
	stamps   bool
	table    *Table

	next   atomic.Uint32 // index of the next CQE; stored with the lock held
	events atomic.Uint32 // taken from the channel

	mu   sync.Mutex
	last *QP // of the CQE before, nil for none
}

// NewCQ makes a completion queue of its memory. It fails for a ring that is not as described.
func NewCQ(c *CQConfig) (*CQ, error) {
	m := &c.Memory
	if m.EntrySize != connectx.CQEBytes && m.EntrySize != 2*connectx.CQEBytes {
		return nil, fmt.Errorf("mlx5: CQEs of %d bytes, expected 64 or 128", m.EntrySize)
	}
	n := len(m.Ring) / m.EntrySize
	if err := powerOfTwo("CQEs of a ring", n, 1<<22); err != nil {
		return nil, err
	}
	return &CQ{
		num: c.Num, record: m.Record, doorbell: m.Doorbell, first: unsafe.Pointer(&m.Ring[m.EntrySize-connectx.CQEBytes]),
		mask: uint32(n - 1), shift: uint8(bits.TrailingZeros(uint(m.EntrySize))), lap: uint8(bits.TrailingZeros(uint(n))),
		stamps: c.Timestamps, table: c.Table,
	}, nil
}

// cqe is a CQE of 64 bytes.
type cqe [connectx.CQEBytes]byte

func (c *CQ) at(index uint32) *cqe {
	return (*cqe)(unsafe.Add(c.first, uintptr(index&c.mask)<<c.shift))
}

// has reports whether the device has written the CQE at an index.
func (c *CQ) has(index uint32) bool {
	// The word with the last byte, which is the word's highest.
	opOwn := atomic.LoadUint32((*uint32)(unsafe.Pointer(&c.at(index)[connectx.CQEBytes-4]))) >> 24
	return opOwn>>4 != connectx.CQEInvalid && opOwn&connectx.OwnerBit == index>>c.lap&1
}

// Ready reports whether Poll would find anything.
func (c *CQ) Ready() bool { return c.has(c.next.Load()) }

// Poll moves completions to wc, oldest first, and returns how many. It fails for a CQE that it
// can't read, which is dropped: one of a queue pair that the table does not have, or of a kind
// that is not asked for. Those before it come first.
func (c *CQ) Poll(wc []verbs.WC) (n int, err error) {
	if !c.Ready() || len(wc) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	next := c.next.Load()
	for n < len(wc) && c.has(next) {
		acquire()
		e := c.at(next)
		q, known := c.owner(e)
		if !known {
			if n > 0 {
				break // it is the first the next time
			}
			next++
			err = unknown(e)
			break
		}
		c.read(&wc[n], e, q)
		next++
		n++
	}
	// What was read is read before the device may write there.
	publish(&c.record[connectx.RecordConsumer], bits.ReverseBytes32(next&connectx.IndexMask))
	c.next.Store(next)
	c.mu.Unlock()
	return n, err
}

// owner returns a CQE's queue pair, and whether it is known with the kind of CQE.
func (c *CQ) owner(e *cqe) (*QP, bool) {
	const kinds = 1<<connectx.CQEReq | 1<<connectx.CQERespWrImm | 1<<connectx.CQERespSend | 1<<connectx.CQERespSendImm |
		1<<connectx.CQERespSendInv | 1<<connectx.CQEReqErr | 1<<connectx.CQERespErr
	last := e[connectx.CQEOpOwn]
	num := binary.BigEndian.Uint32(e[connectx.CQEOpcodeQPN:]) & connectx.IndexMask
	q := c.last
	if q == nil || q.num != num {
		q = c.table.find(num)
		c.last = q
	}
	if q == nil || kinds>>(last>>4)&1 == 0 || last&connectx.FormatMask == connectx.Compressed {
		return nil, false
	}
	if kind := last >> 4; kind == connectx.CQEReq || kind == connectx.CQEReqErr {
		return q, q.sendCQ == c && q.send.max > 0
	}
	return q, q.recvCQ == c && (q.srq != nil || q.recv.max > 0)
}

func unknown(e *cqe) error {
	num := binary.BigEndian.Uint32(e[connectx.CQEOpcodeQPN:]) & connectx.IndexMask
	return fmt.Errorf("a completion of kind %#x for queue pair %d, which was not made here", e[connectx.CQEOpOwn], num)
}

// completions has the operation of each opcode of a request.
var completions = [32]ib.WCOpcode{
	connectx.OpSend: ib.WCSend, connectx.OpSendImm: ib.WCSend, connectx.OpSendInval: ib.WCSend,
	connectx.OpWrite: ib.WCRDMAWrite, connectx.OpWriteImm: ib.WCRDMAWrite, connectx.OpRead: ib.WCRDMARead,
	connectx.OpAtomicCS: ib.WCCompSwap, connectx.OpAtomicFA: ib.WCFetchAdd,
}

// read makes a completion of a CQE, and takes its WQE from the device.
func (c *CQ) read(wc *verbs.WC, e *cqe, q *QP) {
	be := binary.BigEndian
	word := be.Uint32(e[connectx.CQEOpcodeQPN:])
	*wc = verbs.WC{QPN: word & connectx.IndexMask}
	last := e[connectx.CQEOpOwn]
	kind := last >> 4
	switch kind {
	case connectx.CQEReqErr, connectx.CQERespErr:
		wc.Status, wc.VendorErr = connectx.Status(e[connectx.CQESyndrome]), uint32(e[connectx.CQEVendor])
	default:
		if c.stamps {
			wc.Timestamp = be.Uint64(e[connectx.CQETimestamp:])
		}
	}
	counter := be.Uint16(e[connectx.CQECounter:])
	if kind == connectx.CQEReq || kind == connectx.CQEReqErr {
		s := &q.send
		_ = s.rung.Load() // what was posted before is seen
		index := int(counter) & (len(s.slots) - 1)
		slot := &s.slots[index]
		wc.WRID = slot.id
		if kind == connectx.CQEReq {
			opcode := word >> 24 & 0x1f
			wc.Opcode = completions[opcode]
			switch opcode {
			case connectx.OpRead:
				wc.ByteLen = be.Uint32(e[connectx.CQECount:])
			case connectx.OpAtomicCS, connectx.OpAtomicFA:
				wc.ByteLen = 8
			}
			if last&connectx.FormatMask != 0 && !q.send.scatter(index, c.data(e, wc.ByteLen)) {
				wc.Status = ib.WCLocLenErr
			}
		}
		s.done.Store(slot.end)
		return
	}
	var data []byte
	if kind != connectx.CQERespErr {
		wc.ByteLen = be.Uint32(e[connectx.CQECount:])
		wc.Opcode = ib.WCRecv
		switch kind {
		case connectx.CQERespWrImm:
			wc.Opcode, wc.Flags = ib.WCRecvRDMAWithImm, verbs.WCWithImm
		case connectx.CQERespSendImm:
			wc.Flags = verbs.WCWithImm
		case connectx.CQERespSendInv:
			wc.Flags = verbs.WCWithInv
		}
		if wc.Flags != 0 {
			wc.Imm = be.Uint32(e[connectx.CQEImm:])
		}
		if q.typ == ib.UD {
			from := be.Uint32(e[connectx.CQEFlagsRQPN:])
			wc.SrcQP = from & connectx.IndexMask
			if from&connectx.GRHMask != 0 {
				wc.Flags |= verbs.WCGRH
			}
		}
		data = c.data(e, wc.ByteLen)
	}
	var room bool
	if q.srq != nil {
		wc.WRID, room = q.srq.complete(int(counter), data)
	} else {
		wc.WRID, room = q.recv.complete(data)
	}
	if !room {
		wc.Status = ib.WCLocLenErr
	}
}

// data returns a CQE's data: n bytes, or none.
func (c *CQ) data(e *cqe, n uint32) []byte {
	switch e[connectx.CQEOpOwn] & connectx.FormatMask {
	case connectx.Scatter32:
		return e[:min(n, 32)]
	case connectx.Scatter64:
		if 1<<c.shift == 2*connectx.CQEBytes {
			return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(e), -connectx.CQEBytes)), min(n, connectx.CQEBytes))
		}
	}
	return nil
}

// complete takes the oldest WQE from the device.
func (r *recvRing) complete(data []byte) (id uint64, room bool) {
	_ = r.rung.Load() // what was posted before is seen
	done := r.done.Load()
	index := int(done) & (len(r.ids) - 1)
	room = len(data) == 0 || scatter(r.ring[index*r.stride:][:r.stride], data)
	id = r.ids[index]
	r.done.Store(done + 1)
	return id, room
}

// scatter copies what came back for the request at an index to where its WQE says, and
// reports whether there was room. The list may go on at the ring's beginning.
func (s *sendRing) scatter(index int, data []byte) bool {
	at := index * connectx.BlockBytes
	b := s.ring[at:]
	from := connectx.CtrlBytes + connectx.RaddrBytes
	if b[3] != connectx.OpRead {
		from += connectx.AtomicBytes
	}
	end := int(b[7]&connectx.MaxOctowords) * connectx.Octoword
	for ; from < end && len(data) > 0; from += connectx.DataBytes {
		segment := s.ring[(at+from)&(len(s.ring)-1):][:connectx.DataBytes]
		n := min(int(binary.BigEndian.Uint32(segment)), len(data))
		scatter(segment, data[:n])
		data = data[n:]
	}
	return len(data) == 0
}

// Arm has the queue's next completion, or next solicited or failed one, put an event on its
// channel. It may come while another goroutine polls.
func (c *CQ) Arm(solicitedOnly bool) {
	word := c.events.Load()<<connectx.ArmSequenceShift&connectx.ArmSequence | c.next.Load()&connectx.IndexMask
	if solicitedOnly {
		word |= connectx.ArmSolicited
	}
	ring(&c.record[connectx.RecordArm], bits.ReverseBytes32(word), c.doorbell, bits.ReverseBytes64(uint64(word)<<32|uint64(c.num)))
}

// OnEvent says that an event of the queue was taken from its channel.
func (c *CQ) OnEvent() { c.events.Add(1) }

// drop takes a queue pair's completions out of the ring, with the lock held. libmlx5 does not,
// in a ring that mlx5dv_init_obj has shown. The completions that stay move towards the newest, in
// their order, and what is free is then at the beginning, which is given back.
func (c *CQ) drop(q *QP) {
	if c.last == q {
		c.last = nil
	}
	next := c.next.Load()
	end := next
	for end-next <= c.mask && c.has(end) {
		end++
	}
	acquire()
	dropped := uint32(0)
	for i := end; i != next; {
		i--
		e := c.at(i)
		if binary.BigEndian.Uint32(e[connectx.CQEOpcodeQPN:])&connectx.IndexMask == q.num {
			dropped++
			if kind := e[connectx.CQEOpOwn] >> 4; q.srq != nil && kind != connectx.CQEReq && kind != connectx.CQEReqErr {
				q.srq.complete(int(binary.BigEndian.Uint16(e[connectx.CQECounter:])), nil)
			}
			continue
		}
		if dropped > 0 {
			c.move(i+dropped, i)
		}
	}
	if dropped > 0 {
		next += dropped
		publish(&c.record[connectx.RecordConsumer], bits.ReverseBytes32(next&connectx.IndexMask))
		c.next.Store(next)
	}
}

// move copies an entry to another index, which keeps its owner bit.
func (c *CQ) move(to, from uint32) {
	size := 1 << c.shift
	entry := func(i uint32) []byte {
		return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(c.at(i)), connectx.CQEBytes-size)), size)
	}
	src, dst := entry(from), entry(to)
	owner := dst[size-1] & connectx.OwnerBit
	copy(dst, src)
	dst[size-1] = dst[size-1]&^connectx.OwnerBit | owner
}
