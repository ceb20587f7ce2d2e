//go:build ibverbs

package ibverbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// On a direct device all queues that it makes are Go's: a completion queue that Go polls can't
// have a queue pair that libmlx5 posts to, which would not hear of what has completed.

// signatures is libmlx5's way to have requests signed, which a queue's memory does not show.
const signatures = "MLX5_QP_SIGNATURE"

// chooseDirect decides whether the data path is Go's. want is the option.
func (d *Device) chooseDirect(want string) error {
	able := &d.caps.Direct
	*able = d.probeDirect()
	if able.Found && want == "off" {
		*able = Ability{Why: "the device was opened with direct=off"}
	}
	d.direct = able.Found
	if want == "on" && !d.direct {
		return verbs.Errorf("open", d.name, verbs.ErrNotSupported, "direct=on: %s", able.Why)
	}
	return nil
}

func (d *Device) probeDirect() Ability {
	switch {
	case !mlx5.Supported:
		return Ability{Why: "this architecture's barriers are not known"}
	case d.mode == wallclock && !d.realTime:
		return Ability{Why: "libmlx5 converts timestamps to the wall clock"}
	case os.Getenv(signatures) != "":
		return Ability{Why: "libmlx5 signs requests: unset " + signatures}
	}
	switch e := C.shim_mlx5_maps(d.ctx); e {
	case C.ENOSYS:
		return Ability{Why: "libmlx5.so.1 or its header was not found, or it lacks mlx5dv_init_obj"}
	case C.EOPNOTSUPP:
		return Ability{Why: "the device is not driven by mlx5"}
	}
	q := &CQ{dev: d, c: (*C.struct_shim_cq)(C.calloc(1, C.sizeof_struct_shim_cq))}
	defer C.free(unsafe.Pointer(q.c))
	if e := C.shim_create_cq(d.calls, d.ctx, 1, nil, 0, q.c); e != 0 {
		return ability("create_cq", int(e))
	}
	defer C.shim_destroy_cq(d.calls, q.c)
	if _, err := q.memory(); err != nil {
		return Ability{Why: err.Error()}
	}
	return Ability{Found: true, Why: "mlx5dv_init_obj works"}
}

func (d *Device) initFailed(e C.int) error { return fail("mlx5dv_init_obj", d.name, int(e), "") }

func (d *Device) unmapped(op string, err error) error {
	return verbs.Errorf(op, d.name, verbs.ErrNotSupported, "%v: open the device with direct=off", err)
}

// memory is the queue as Go polls it. libmlx5 drops no completions from it after this.
func (q *CQ) memory() (mlx5.CQConfig, error) {
	var m C.struct_shim_mlx5_cq
	if e := C.shim_mlx5_map_cq(q.c.cq, &m); e != 0 {
		return mlx5.CQConfig{}, q.dev.initFailed(e)
	}
	return mlx5.CQConfig{Num: uint32(m.num), Table: &q.dev.queues, Memory: mlx5.CQMemory{
		Record: (*[2]uint32)(unsafe.Pointer(m.record)), EntrySize: int(m.entry_size),
		Ring:     unsafe.Slice((*byte)(m.ring), int(m.entries)*int(m.entry_size)),
		Doorbell: (*uint64)(unsafe.Add(m.uar, connectx.CQDoorbell)),
	}}, nil
}

// mapDirect has Go poll the queue.
func (q *CQ) mapDirect(stamps bool) error {
	c, err := q.memory()
	if err != nil {
		return err
	}
	c.Timestamps = stamps
	if q.direct, err = mlx5.NewCQ(&c); err != nil {
		return q.dev.unmapped("create_cq", err)
	}
	return nil
}

// memory is the queue's, whose list begins at its first WQE. What libmlx5 has behind the list it
// uses after page faults only.
func (s *SRQ) memory() (mlx5.SRQMemory, error) {
	var m C.struct_shim_mlx5_srq
	if e := C.shim_mlx5_map_srq(s.c.srq, &m); e != 0 {
		return mlx5.SRQMemory{}, s.dev.initFailed(e)
	}
	return mlx5.SRQMemory{
		Record: (*uint32)(unsafe.Pointer(m.record)), Stride: int(m.stride), Head: int(m.head), Tail: int(m.tail),
		Ring: unsafe.Slice((*byte)(m.ring), (int(m.tail)+1)*int(m.stride)),
	}, nil
}

// mapDirect has Go post to the queue, whose receives have up to sges pieces of memory.
func (s *SRQ) mapDirect(sges int) error {
	m, err := s.memory()
	if err != nil {
		return err
	}
	if s.direct, err = mlx5.NewSRQ(m, sges); err != nil {
		return s.dev.unmapped("create_srq", err)
	}
	return nil
}

// mapDirect has datagrams that Go posts go by the address handle.
func (a *AH) mapDirect() error {
	if e := C.shim_mlx5_map_ah(a.ah, (*C.uint8_t)(&a.vector[0])); e != 0 {
		return a.dev.initFailed(e)
	}
	return nil
}

// memory is the queue pair's.
func (q *QP) memory() (mlx5.QPMemory, error) {
	var m C.struct_shim_mlx5_qp
	if e := C.shim_mlx5_map_qp(q.c.qp, &m); e != 0 {
		return mlx5.QPMemory{}, q.dev.initFailed(e)
	}
	return mlx5.QPMemory{
		Record: (*[2]uint32)(unsafe.Pointer(m.record)), Doorbell: (*uint64)(unsafe.Pointer(m.doorbell)),
		Send: unsafe.Slice((*byte)(m.send), int(m.send_blocks)*connectx.BlockBytes),
		Recv: unsafe.Slice((*byte)(m.recv), int(m.recv_count)*int(m.recv_stride)), RecvStride: int(m.recv_stride),
	}, nil
}

// mapDirect has Go post to the queue pair.
func (q *QP) mapDirect(sigAll bool, send, recv *CQ, srq *SRQ) error {
	m, err := q.memory()
	if err != nil {
		return err
	}
	c := mlx5.QPConfig{Num: q.num, Type: q.kind, SigAll: sigAll, Cap: q.cap, Memory: m, SendCQ: send.direct, RecvCQ: recv.direct}
	if srq != nil {
		c.SRQ = srq.direct
	}
	q.dev.numbers.Lock()
	defer q.dev.numbers.Unlock()
	if q.direct, err = mlx5.NewQP(&c); err != nil {
		return q.dev.unmapped("create_qp", err)
	}
	return nil
}

// changed follows the queue pair to a state that Modify has brought it to.
func (q *QP) changed(to ib.QPState) {
	switch to {
	case ib.Reset:
		q.sends.Store(false)
		q.recvs.Store(false)
		if q.direct != nil {
			q.direct.Reset()
		}
		return
	case ib.RTS:
		q.sends.Store(true)
	}
	q.recvs.Store(true)
}

// full is the result of a post in Go as that of a post in C.
func full(n int, err error) (int, syscall.Errno, error) {
	if errors.Is(err, verbs.ErrQueueFull) {
		return n, syscall.ENOMEM, nil
	}
	return n, 0, err
}

// postDirect is PostSend where the device is direct.
func (q *QP) postDirect(wrs []verbs.SendWR) (int, error) {
	if !q.sends.Load() {
		return 0, q.postFailed("post_send", syscall.ENOMEM)
	}
	for i := range wrs {
		wr := &wrs[i]
		var to *mlx5.Vector
		if q.kind == ib.UD {
			ah, ok := wr.AH.(*AH)
			if !ok || ah.dev != q.dev || ah.gone.Load() {
				q.direct.RingSend()
				return i, noHandle(q)
			}
			to = &ah.vector
		}
		if err := q.direct.PutSend(wr, to); err != nil {
			q.direct.RingSend()
			return i, q.refused(err)
		}
	}
	q.direct.RingSend()
	return len(wrs), nil
}

// refused is the error of a send that the ring did not take.
func (q *QP) refused(err error) error {
	switch {
	case errors.Is(err, verbs.ErrQueueFull):
		return q.postFailed("post_send", syscall.ENOMEM)
	case errors.Is(err, mlx5.ErrUnsupported):
		return verbs.Errorf("post_send", q.object(), verbs.ErrNotSupported, "%v", err)
	}
	return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%v", err)
}

// postRecv posts receives, and returns how many and why not all: an errno or what is wrong with
// the next.
func (q *QP) postRecv(wrs []verbs.RecvWR) (int, syscall.Errno, error) {
	switch {
	case q.direct == nil:
		return q.recv.post(wrs)
	case !q.recvs.Load():
		return 0, syscall.EINVAL, nil
	}
	n, err := q.direct.PostRecv(wrs)
	return full(n, err)
}
