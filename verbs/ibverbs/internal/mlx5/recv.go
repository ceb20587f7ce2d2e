package mlx5

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// recvRing is a queue pair's own ring of receive WQEs.
type recvRing struct {
	ring   []byte
	record *uint32
	stride int
	sges   int
	max    uint32
	ids    []uint64

	put  uint32        // WQEs in the ring
	rung atomic.Uint32 // that the device was told of
	done atomic.Uint32 // that have completed
}

func (r *recvRing) init(c *QPConfig) error {
	r.ring, r.record, r.stride = c.Memory.Recv, &c.Memory.Record[connectx.RecordRecv], c.Memory.RecvStride
	if len(r.ring) == 0 {
		return nil
	}
	if err := powerOfTwo("bytes of a receive WQE", r.stride, 2048); err != nil {
		return err
	}
	n := len(r.ring) / r.stride
	if err := powerOfTwo("WQEs of a receive ring", n, 1<<15); err != nil {
		return err
	}
	r.max, r.ids = uint32(min(c.Cap.MaxRecvWR, n)), make([]uint64, n)
	r.sges = min(c.Cap.MaxRecvSGE, r.stride/connectx.DataBytes)
	return nil
}

func (r *recvRing) reset() {
	r.put = 0
	r.rung.Store(0)
	r.done.Store(0)
}

// PostRecv posts receives to the queue pair's own ring in order, and returns how many. It
// fails with verbs.ErrQueueFull or what is wrong with the next.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	r := &q.recv
	done := r.done.Load()
	for n < len(wrs) {
		wr := &wrs[n]
		if len(wr.SGL) > r.sges {
			err = tooMany(len(wr.SGL), r.sges)
			break
		}
		if r.put-done >= r.max {
			if done = r.done.Load(); r.put-done >= r.max {
				err = verbs.ErrQueueFull
				break
			}
		}
		index := int(r.put) & (len(r.ids) - 1)
		putRecvList(r.ring[index*r.stride:][:r.stride], wr.SGL, false)
		r.ids[index] = wr.WRID
		r.put++
		n++
	}
	if n > 0 {
		r.rung.Store(r.put)
		publish(r.record, bits.ReverseBytes32(r.put&0xffff))
	}
	return n, err
}

func tooMany(pieces, most int) error {
	return fmt.Errorf("%d pieces of memory: the queue was made for %d", pieces, most)
}

// putRecvList writes the list of a receive WQE, and its end if it is not full. Pieces of no bytes
// are in that of a shared queue only, as with libmlx5.
func putRecvList(b []byte, sgl []verbs.SGE, shared bool) {
	be := binary.BigEndian
	at := 0
	for i := range sgl {
		if sge := &sgl[i]; sge.Length != 0 || shared {
			be.PutUint64(b[at:], uint64(sge.Length)<<32|uint64(sge.LKey))
			be.PutUint64(b[at+8:], sge.Addr)
			at += connectx.DataBytes
		}
	}
	if at < len(b) {
		be.PutUint64(b[at:], connectx.InvalidLKey)
		be.PutUint64(b[at+8:], 0)
	}
}

// scatter copies data that came in a CQE to where a list of data segments says, and reports
// whether there was room. The addresses are of registered memory, which stays where it is.
func scatter(list, data []byte) bool {
	be := binary.BigEndian
	for at := 0; at+connectx.DataBytes <= len(list) && len(data) > 0; at += connectx.DataBytes {
		if n := min(int(be.Uint32(list[at:])), len(data)); n > 0 {
			addr := uintptr(be.Uint64(list[at+8:]))
			copy(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n), data)
			data = data[n:]
		}
	}
	return len(data) == 0
}
