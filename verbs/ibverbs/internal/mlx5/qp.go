package mlx5

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// QPMemory is a queue pair's memory, as mlx5dv_init_obj shows it.
type QPMemory struct {
	Record     *[2]uint32 // the doorbell record
	Send       []byte     // the send ring: a power of two of blocks, or empty
	Recv       []byte     // the receive ring: a power of two of WQEs, or empty
	RecvStride int        // bytes of a receive WQE
	Doorbell   *uint64    // the send doorbell's register
}

// QPConfig describes a queue pair, which is in RESET.
type QPConfig struct {
	Num            uint32 // 24 bits
	Type           ib.QPType
	SigAll         bool
	Cap            verbs.QPCap // as granted
	Memory         QPMemory
	SendCQ, RecvCQ *CQ  // of one Table
	SRQ            *SRQ // nil for a receive ring of its own
}

// QP is a queue pair.
type QP struct {
	num            uint32
	typ            ib.QPType
	record         *[2]uint32
	send           sendRing
	recv           recvRing
	sendCQ, recvCQ *CQ
	srq            *SRQ
}

// NewQP makes a queue pair of its memory and has its CQs find it. It fails for rings that
// are not as described, and for a number of more than 24 bits.
func NewQP(c *QPConfig) (*QP, error) {
	q := &QP{num: c.Num, typ: c.Type, record: c.Memory.Record, sendCQ: c.SendCQ, recvCQ: c.RecvCQ, srq: c.SRQ}
	if c.Num > connectx.IndexMask {
		return nil, fmt.Errorf("mlx5: queue pair number %#x, expected up to %#x", c.Num, uint32(connectx.IndexMask))
	}
	if err := q.send.init(c); err != nil {
		return nil, err
	}
	if err := q.recv.init(c); err != nil {
		return nil, err
	}
	c.SendCQ.table.add(q)
	return q, nil
}

// Reset forgets the requests, and drops the queue pair's completions from its CQs. Call it
// when the device has brought the queue pair to RESET.
func (q *QP) Reset() {
	q.drop(false)
	q.send.reset()
	q.recv.reset()
	publish(&q.record[connectx.RecordRecv], 0)
	publish(&q.record[connectx.RecordSend], 0)
}

// Close drops the queue pair's completions from its CQs, which do not know it any more. Call
// it when the device has destroyed the queue pair, before another one can have its number.
// The memory is not used again.
func (q *QP) Close() { q.drop(true) }

// drop locks the queue pair's CQs, in the order of their numbers.
func (q *QP) drop(forget bool) {
	a, b := q.sendCQ, q.recvCQ
	if a.num > b.num {
		a, b = b, a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(q)
	if b != a {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(q)
	}
	if forget {
		q.sendCQ.table.remove(q)
	}
}

// powerOfTwo returns an error that names what if n is not a power of two from 1 to most.
func powerOfTwo(what string, n, most int) error {
	if n < 1 || n > most || n&(n-1) != 0 {
		return fmt.Errorf("mlx5: %d %s, expected a power of two up to %d", n, what, most)
	}
	return nil
}
