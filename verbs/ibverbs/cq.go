//go:build ibverbs

package ibverbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
)

// CQ is a completion queue. It is a verbs.ModifiableCQ where the driver is.
type CQ struct {
	dev     *Device
	c       *C.struct_shim_cq
	direct  *mlx5.CQ // nil where libibverbs polls
	cap     int
	channel *CompChannel
	gone    atomic.Bool
}

// C writes completions where they are wanted: the layouts are the same.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(verbs.WC{})-C.sizeof_struct_shim_wc]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.Opcode)-unsafe.Offsetof(C.struct_shim_wc{}.opcode)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.Flags)-unsafe.Offsetof(C.struct_shim_wc{}.flags)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.ByteLen)-unsafe.Offsetof(C.struct_shim_wc{}.byte_len)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.Imm)-unsafe.Offsetof(C.struct_shim_wc{}.imm)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.QPN)-unsafe.Offsetof(C.struct_shim_wc{}.qpn)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.SrcQP)-unsafe.Offsetof(C.struct_shim_wc{}.src_qp)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.VendorErr)-unsafe.Offsetof(C.struct_shim_wc{}.vendor_err)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.WC{}.Timestamp)-unsafe.Offsetof(C.struct_shim_wc{}.timestamp)]
)

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	q := &CQ{dev: d}
	var channel *C.struct_ibv_comp_channel
	if a.Channel != nil {
		ch, ok := a.Channel.(*CompChannel)
		if !ok || ch.dev != d || ch.gone.Load() {
			return nil, verbs.Errorf("create_cq", d.name, verbs.ErrInvalid, "the channel belongs to another device, or is destroyed")
		}
		q.channel, channel = ch, ch.ch
	}
	if a.CQE < 1 || a.CQE > d.attr.MaxCQE {
		return nil, verbs.Errorf("create_cq", d.name, verbs.ErrInvalid, "%d entries: 1 to %d", a.CQE, d.attr.MaxCQE)
	}
	var flag C.uint64_t
	if a.Timestamps {
		if flag = d.timestampFlag(); flag == 0 {
			return nil, verbs.Errorf("create_cq", d.name, verbs.ErrNotSupported, "completion timestamps: %s", d.timestampsWhyNot())
		}
	}
	if err := d.add("create_cq"); err != nil {
		return nil, err
	}
	q.c = (*C.struct_shim_cq)(C.calloc(1, C.sizeof_struct_shim_cq))
	if e := C.shim_create_cq(d.calls, d.ctx, C.int(a.CQE), channel, flag, q.c); e != 0 {
		C.free(unsafe.Pointer(q.c))
		d.remove()
		return nil, fail("create_cq", d.name, int(e), "")
	}
	if d.direct {
		if err := q.mapDirect(a.Timestamps); err != nil {
			C.shim_destroy_cq(d.calls, q.c)
			C.free(unsafe.Pointer(q.c))
			d.remove()
			return nil, err
		}
	}
	q.cap = int(q.c.cq.cqe)
	d.register(q)
	return q, nil
}

func (d *Device) register(q *CQ) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cqs[q.c.cq] = q
	if q.channel != nil {
		q.channel.users++
	}
}

// Handle is the struct ibv_cq *.
func (q *CQ) Handle() unsafe.Pointer { return unsafe.Pointer(q.c.cq) }

// Poll implements verbs.CQ. Where the device is direct, no call goes into C; elsewhere one
// takes all completions for which there is room.
func (q *CQ) Poll(wc []verbs.WC) (int, error) {
	if len(wc) == 0 {
		return 0, nil
	}
	if q.gone.Load() {
		return 0, closed("poll_cq", q.dev.name)
	}
	if q.direct != nil {
		n, err := q.direct.Poll(wc)
		if err != nil {
			return n, fail("poll_cq", q.dev.name, int(syscall.EIO), "%v", err)
		}
		return n, nil
	}
	n := C.shim_poll(q.c, (*C.struct_shim_wc)(unsafe.Pointer(&wc[0])), C.int(len(wc)))
	if n < 0 {
		return 0, fail("poll_cq", q.dev.name, int(-n), "")
	}
	return int(n), nil
}

// ReqNotify implements verbs.CQ.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	if q.gone.Load() {
		return closed("req_notify_cq", q.dev.name)
	}
	if q.direct != nil {
		q.direct.Arm(solicitedOnly)
		return nil
	}
	var solicited C.int
	if solicitedOnly {
		solicited = 1
	}
	if e := C.shim_req_notify(q.c, solicited); e != 0 {
		return fail("req_notify_cq", q.dev.name, int(e), "")
	}
	return nil
}

// Modify implements verbs.ModifiableCQ (ibv_modify_cq).
func (q *CQ) Modify(a verbs.CQAttr) error {
	if q.gone.Load() {
		return closed("modify_cq", q.dev.name)
	}
	if e := C.shim_modify_cq(q.c.cq, C.uint16_t(a.Count), C.uint16_t(a.Period)); e != 0 {
		return fail("modify_cq", q.dev.name, int(e), "an event after %d completions or %d us: the driver or the device does not moderate events so", a.Count, a.Period)
	}
	return nil
}

// Resize implements verbs.ResizableCQ (ibv_resize_cq). Queues of a direct device keep their
// size (verbs.ErrNotSupported).
func (q *CQ) Resize(cqe int) error {
	d := q.dev
	switch {
	case q.gone.Load():
		return closed("resize_cq", d.name)
	case q.direct != nil: // libmlx5 copies the entries by a consumer index of its own, which stands still
		return verbs.Errorf("resize_cq", d.name, verbs.ErrNotSupported, "its queues are in Go: open the device with direct=off")
	case cqe < 1 || cqe > d.attr.MaxCQE:
		return verbs.Errorf("resize_cq", d.name, verbs.ErrInvalid, "%d completions: 1 to %d", cqe, d.attr.MaxCQE)
	}
	if e := C.shim_resize_cq(q.c.cq, C.int(cqe)); e != 0 {
		return fail("resize_cq", d.name, int(e), "to %d completions: more wait, or the driver does not resize queues", cqe)
	}
	q.cap = int(q.c.cq.cqe)
	return nil
}

// Cap implements verbs.CQ.
func (q *CQ) Cap() int { return q.cap }

// Close implements verbs.CQ.
func (q *CQ) Close() error {
	d := q.dev
	if !q.gone.CompareAndSwap(false, true) {
		return closed("destroy_cq", d.name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := C.shim_destroy_cq(d.calls, q.c); e != 0 {
		q.gone.Store(false)
		return fail("destroy_cq", d.name, int(e), "")
	}
	d.objects--
	delete(d.cqs, q.c.cq)
	if q.channel != nil {
		q.channel.users--
	}
	C.free(unsafe.Pointer(q.c))
	return nil
}

// taken splits the result of a post: how many requests the device took, and an
// errno.
func taken(r C.int64_t) (n int, errno syscall.Errno) {
	return int(int32(r)), syscall.Errno(r >> 32)
}
