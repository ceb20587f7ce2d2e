//go:build ibverbs

package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/libsluice/internal/settings"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// The functions here are called by C. They return 0 or an errno unless they say
// otherwise, and keep what failed in the thread's error text.

// errnos are those of package verbs' causes, where no errno is in the error.
var errnos = []struct {
	cause error
	errno syscall.Errno
}{
	{verbs.ErrQueueFull, syscall.ENOMEM}, {verbs.ErrState, syscall.EINVAL}, {verbs.ErrInvalid, syscall.EINVAL},
	{verbs.ErrAccess, syscall.EFAULT}, {verbs.ErrNotSupported, syscall.EOPNOTSUPP}, {verbs.ErrBusy, syscall.EBUSY},
	{verbs.ErrClosed, syscall.EINVAL}, {verbs.ErrTimeout, syscall.ETIMEDOUT}, {verbs.ErrNoDevice, syscall.ENODEV},
}

func errnoOf(err error) C.int {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return C.int(e)
	}
	for _, x := range errnos {
		if errors.Is(err, x.cause) {
			return C.int(x.errno)
		}
	}
	return C.int(syscall.EINVAL)
}

func failed(err error) C.int {
	text := err.Error()
	room := unsafe.Slice((*byte)(unsafe.Pointer(C.sl_error_buffer())), C.SL_ERROR_SIZE)
	room[copy(room[:len(room)-1], text)] = 0
	slog.Debug(text)
	return errnoOf(err)
}

func settingsOf(c *C.struct_sl_create) (settings.Settings, error) {
	if c.environment {
		e, err := environment()
		return e.Settings, err
	}
	o := c.options
	if o == nil {
		return settings.Settings{}, nil
	}
	ns := func(n C.uint64_t) units.Time { return units.Time(min(n, 1e12)) * units.Nanosecond }
	whole := func(n C.uint64_t) int64 { return int64(min(n, 1<<62)) }
	return settings.Settings{
		CC: text(o.engine), CCConfig: text(o.engine_config),
		Rate: units.Rate(whole(o.rate)), Segment: units.Bytes(o.segment), Batch: int(o.batch),
		MaxOutstanding: units.Bytes(whole(o.max_outstanding)), LineRate: units.Rate(whole(o.line_rate)),
		BaseRTT: ns(o.base_rtt_ns), NICRate: units.Rate(whole(o.nic_rate)), CalibrateEvery: ns(o.calibrate_ns),
		ProgressThread: o.progress_thread != 0,
	}, nil
}

func text(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}

// slShim finds or makes the shim for c.
//
//export slShim
func slShim(ctx *C.struct_ibv_context, c *C.struct_sl_create) C.int {
	world.mu.Lock()
	defer world.mu.Unlock()
	set, err := settingsOf(c)
	if err != nil {
		return failed(err)
	}
	s, err := shimOf(unsafe.Pointer(ctx), set)
	if err != nil {
		return failed(err)
	}
	c.shim = s.c
	return 0
}

// slCreateQP makes a queue pair of c.shim.
//
//export slCreateQP
func slCreateQP(c *C.struct_sl_create) C.int {
	world.mu.Lock()
	defer world.mu.Unlock()
	s := world.shims.get(c.shim.id)
	a := c.attr
	send, sendChannel, sendCQ, err := s.attach(a.send_cq)
	if err != nil {
		return failed(err)
	}
	// What is attached C is to know of, also if the rest fails.
	c.send_id, c.channel_id[0] = C.uint32_t(send), C.uint32_t(sendChannel)
	recv, recvChannel, recvCQ, err := s.attach(a.recv_cq)
	if err != nil {
		return failed(err)
	}
	c.recv_id, c.channel_id[1] = C.uint32_t(recv), C.uint32_t(recvChannel)
	pd := s.s.AdoptPD(s.dev.ibv.AdoptPD(unsafe.Pointer(c.pd)))
	init := verbs.QPInitAttr{
		Type: ib.RC, SendCQ: sendCQ, RecvCQ: recvCQ, SigAll: a.sq_sig_all != 0,
		Cap: verbs.QPCap{
			MaxSendWR: int(a.cap.max_send_wr), MaxRecvWR: int(a.cap.max_recv_wr),
			MaxSendSGE: int(a.cap.max_send_sge), MaxRecvSGE: int(a.cap.max_recv_sge),
			MaxInlineData: int(a.cap.max_inline_data),
		},
	}
	if a.srq != nil { // ibv_create_qp(3): they are ignored then
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = 0, 0
	}
	made, err := pd.CreateQP(init)
	if err != nil {
		_ = pd.Close()
		return failed(err)
	}
	q := made.(*paced.QP)
	inner := q.Unwrap().(*ibverbs.QP)
	have, got := inner.Cap(), init.Cap
	c.cap = C.struct_ibv_qp_cap{
		max_send_wr: C.uint32_t(max(got.MaxSendWR, 1)), max_recv_wr: C.uint32_t(have.MaxRecvWR),
		max_send_sge: C.uint32_t(max(got.MaxSendSGE, 1)), max_recv_sge: C.uint32_t(have.MaxRecvSGE),
		max_inline_data: C.uint32_t(got.MaxInlineData),
	}
	c.qp_id = C.uint32_t(world.qps.add(&qp{shim: s, pd: pd, q: q}))
	c.qp = (*C.struct_ibv_qp)(inner.Handle())
	hidden := q.SendCQ().(*ibverbs.CQ)
	s.hidden[hidden.Handle()] = hidden
	slog.Debug("queue pair made", "device", s.dev.ibv.Name(), "qpn", q.Num(), "engine", s.engine)
	return 0
}

// slModifyQP tells the shim of what it must know of a modification; the device gets
// the application's own attributes (sl_pending).
//
//export slModifyQP
func slModifyQP(id C.uint32_t, a *C.struct_ibv_qp_attr, mask C.int) C.int {
	q := world.qps.get(id)
	to := verbs.QPAttr{State: ib.QPState(a.qp_state), Port: int(a.port_num), PathMTU: mtu(a.path_mtu), MaxRdAtomic: uint8(a.max_rd_atomic)}
	var bits verbs.QPAttrMask
	for _, m := range []struct {
		c  C.int
		of verbs.QPAttrMask
	}{
		{C.IBV_QP_STATE, verbs.AttrState}, {C.IBV_QP_PORT, verbs.AttrPort},
		{C.IBV_QP_PATH_MTU, verbs.AttrPathMTU}, {C.IBV_QP_MAX_QP_RD_ATOMIC, verbs.AttrMaxQPRdAtomic},
	} {
		if mask&m.c != 0 {
			bits |= m.of
		}
	}
	err := q.q.Modify(to, bits)
	if err != nil {
		return failed(err)
	}
	return 0
}

// mtu is the bytes of an enum ibv_mtu. The device has refused others.
func mtu(code uint32) ib.MTU {
	if code < 1 || code > 5 {
		return 1024
	}
	return ib.MTU(128 << code)
}

//export slDestroyQP
func slDestroyQP(id C.uint32_t) C.int {
	q := world.qps.get(id)
	var stats paced.QPStats
	q.q.Stats(&stats)
	// Without the lock: the device waits until the program has acknowledged the
	// queue pair's events, and the program may make another one before it does.
	if err := q.q.Close(); err != nil {
		return failed(err)
	}
	world.mu.Lock()
	defer world.mu.Unlock()
	q.shim.totals.add(&stats)
	world.qps.remove(uint32(id))
	if err := q.pd.Close(); err != nil {
		return failed(err)
	}
	return 0
}

// chunk is how many requests go to the shim in one call.
const chunk = 16

// slPostSend posts a list. Requests are read where they are; SGEs are not even
// copied, since libibverbs' struct ibv_sge and verbs.SGE are one layout.
//
//export slPostSend
func slPostSend(id C.uint32_t, wr *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	q := world.qps.get(id)
	var wrs [chunk]verbs.SendWR
	for wr != nil {
		first, n := wr, 0
		var wrong error
		for ; wr != nil && n < chunk; wr = wr.next {
			if wrong = read(wr, &wrs[n]); wrong != nil {
				break
			}
			n++
		}
		taken, err := n, error(nil)
		if n > 0 {
			taken, err = q.q.PostSend(wrs[:n])
		}
		if err == nil {
			err = wrong
		}
		if err != nil {
			for range taken {
				first = first.next
			}
			if bad != nil {
				*bad = first
			}
			if errors.Is(err, verbs.ErrQueueFull) {
				return C.int(syscall.ENOMEM)
			}
			return failed(err)
		}
	}
	return 0
}

// slPostWhole posts a list if there is room for all of it, and else nothing. The
// caller sees to it that it is called for a queue pair once at a time.
//
//export slPostWhole
func slPostWhole(id C.uint32_t, wr *C.struct_ibv_send_wr) C.int {
	q := world.qps.get(id)
	defer func() { clear(q.list[:cap(q.list)]) }() // it points into the program's memory
	q.list = q.list[:0]
	for ; wr != nil; wr = wr.next {
		q.list = append(q.list, verbs.SendWR{})
		if err := read(wr, &q.list[len(q.list)-1]); err != nil {
			return failed(err)
		}
	}
	switch err := q.q.PostWhole(q.list); {
	case errors.Is(err, verbs.ErrQueueFull):
		return C.int(syscall.ENOMEM)
	case err != nil:
		return failed(err)
	}
	return 0
}

var (
	_ = [1]struct{}{}[unsafe.Sizeof(verbs.SGE{})-C.sizeof_struct_ibv_sge]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.SGE{}.Length)-unsafe.Offsetof(C.struct_ibv_sge{}.length)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.SGE{}.LKey)-unsafe.Offsetof(C.struct_ibv_sge{}.lkey)]
)

// rdmaPart and atomicPart are what struct ibv_send_wr has in its union.
type (
	rdmaPart struct {
		remoteAddr uint64
		rkey       uint32
	}
	atomicPart struct {
		remoteAddr, compareAdd, swap uint64
		rkey                         uint32
	}
)

func bad(what string) error {
	return &verbs.OpError{Op: "post_send", Err: verbs.ErrInvalid, Detail: what}
}

// read makes to of a request. It keeps pointers into the program's memory, which
// the shim does not.
func read(wr *C.struct_ibv_send_wr, to *verbs.SendWR) error {
	if wr.opcode > C.IBV_WR_SEND_WITH_INV || wr.opcode == C.IBV_WR_BIND_MW {
		return bad("an opcode that is not paced")
	}
	if wr.num_sge < 0 || wr.num_sge > 0 && wr.sg_list == nil {
		return bad("sg_list is NULL, or num_sge negative")
	}
	*to = verbs.SendWR{WRID: uint64(wr.wr_id), Opcode: ib.WROpcode(wr.opcode), Flags: verbs.SendFlags(wr.send_flags)}
	part := unsafe.Pointer(&wr.wr)
	if to.Opcode.IsAtomic() {
		a := (*atomicPart)(part)
		to.RemoteAddr, to.RKey, to.CompareAdd, to.Swap = a.remoteAddr, a.rkey, a.compareAdd, a.swap
	} else {
		r := (*rdmaPart)(part)
		to.RemoteAddr, to.RKey = r.remoteAddr, r.rkey
	}
	imm := (*[4]byte)(unsafe.Pointer(&wr.anon0))
	if to.Opcode.HasImm() {
		to.Imm = uint32(imm[0])<<24 | uint32(imm[1])<<16 | uint32(imm[2])<<8 | uint32(imm[3])
	} else {
		to.Imm = *(*uint32)(unsafe.Pointer(imm))
	}
	// Nothing may be pointed to that is not there: a program need not set sg_list
	// then, and Go's runtime stops at a pointer that can't be one.
	var sges []verbs.SGE
	if wr.num_sge > 0 {
		sges = unsafe.Slice((*verbs.SGE)(unsafe.Pointer(wr.sg_list)), int(wr.num_sge))
	}
	if to.Flags&verbs.SendInline == 0 {
		to.SGL = sges
		return nil
	}
	if len(sges) == 1 {
		if err := inlineable(&sges[0]); err != nil {
			return err
		}
		to.Inline = data(&sges[0])
		return nil
	}
	n := 0
	for i := range sges {
		if err := inlineable(&sges[i]); err != nil {
			return err
		}
		if n += int(sges[i].Length); n > mostInline {
			return bad("more inline data than any queue pair takes")
		}
	}
	// Pieces have to be put together. That is rare enough to allocate.
	to.Inline = make([]byte, 0, n)
	for i := range sges {
		to.Inline = append(to.Inline, data(&sges[i])...)
	}
	return nil
}

// mostInline is far above what devices take.
const mostInline = 1 << 16

func inlineable(s *verbs.SGE) error {
	switch {
	case s.Length > mostInline:
		return bad("more inline data than any queue pair takes")
	case s.Addr == 0 && s.Length > 0:
		return bad("inline data at address 0")
	}
	return nil
}

// data is what s names of the program's memory.
func data(s *verbs.SGE) []byte {
	if s.Length == 0 {
		return nil // wherever Addr points
	}
	return unsafe.Slice((*byte)(at(s.Addr)), int(s.Length))
}

// at is a program's address as a pointer, which Go's vet takes for a mistake in
// any other form.
func at(addr uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// slPollSends makes progress and writes completions of paced sends to wc. It
// returns how many, or a negative errno.
//
//export slPollSends
func slPollSends(c *C.struct_sl_cq, n C.int, wc *C.struct_ibv_wc) C.int {
	q := world.cqs.get(c.id)
	out := unsafe.Slice(wc, int(max(n, 0)))
	var buf [chunk]verbs.WC
	done := 0
	for i := range q.shims {
		a := &q.shims[i]
		for {
			before := atomic.LoadUint64((*uint64)(unsafe.Pointer(&a.shim.c.changes)))
			got, idle, err := a.paced.PollSends(buf[:min(chunk, len(out)-done)])
			if err != nil {
				if done > 0 {
					return C.int(done) // it comes again
				}
				return -failed(err)
			}
			for j := range got {
				write(&out[done], &buf[j])
				done++
			}
			if idle {
				nothingLeft(c, a.shim, before)
			}
			if got < chunk || done == len(out) {
				break
			}
		}
	}
	return C.int(done)
}

// nothingLeft tells C that a poll of c has nothing to do in s until something is
// posted after the shim's changes were before.
func nothingLeft(c *C.struct_sl_cq, s *shim, before uint64) {
	for i := range C.SL_CQ_SHIMS {
		if c.shim[i] == s.c {
			atomic.StoreUint64((*uint64)(unsafe.Pointer(&c.idle_at[i])), before)
			return
		}
	}
}

// write makes a struct ibv_wc of a completion.
func write(to *C.struct_ibv_wc, from *verbs.WC) {
	*to = C.struct_ibv_wc{
		wr_id: C.uint64_t(from.WRID), status: uint32(from.Status), opcode: uint32(from.Opcode),
		vendor_err: C.uint32_t(from.VendorErr), byte_len: C.uint32_t(from.ByteLen), qp_num: C.uint32_t(from.QPN),
		wc_flags: C.uint(from.Flags),
	}
}

// slReqNotify arms a CQ.
//
//export slReqNotify
func slReqNotify(id C.uint32_t, solicited C.int) C.int {
	for _, a := range world.cqs.get(id).shims {
		if err := a.paced.ReqNotify(solicited != 0); err != nil {
			return failed(err)
		}
	}
	return 0
}

// slLook finds the CQ of a channel that has an event, NULL if none has; wake is
// then in how many nanoseconds to look again, -1 for never. Unless settled, look
// again at once.
//
//export slLook
func slLook(id C.uint32_t, out *unsafe.Pointer, wake *C.int64_t, settled *C.int) C.int {
	at := int64(-1)
	*settled = 1
	for _, a := range world.channels.get(id).shims {
		got, nap, calm, err := a.shim.s.Look(a.paced)
		if err != nil {
			return failed(err)
		}
		if !calm {
			*settled = 0
		}
		if got != nil {
			*out = got.Unwrap().(*ibverbs.CQ).Handle()
			return 0
		}
		if nap != units.Never {
			ns := int64((nap + units.Nanosecond - 1) / units.Nanosecond)
			if at < 0 || ns < at {
				at = ns
			}
		}
	}
	*wake = C.int64_t(at)
	return 0
}

// slFired takes note of an event of one of the shim's own CQs.
//
//export slFired
func slFired(id C.uint32_t, handle *C.struct_ibv_cq) {
	if s := world.shims.get(id); s != nil {
		world.mu.Lock()
		inner := s.hidden[unsafe.Pointer(handle)]
		world.mu.Unlock()
		s.s.Fired(inner)
	}
}

// slReceived takes note of an event of a CQ of the program's.
//
//export slReceived
func slReceived(id C.uint32_t) {
	for _, a := range world.cqs.get(id).shims {
		a.shim.s.Fired(a.inner)
	}
}
