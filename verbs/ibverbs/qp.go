//go:build ibverbs

package ibverbs

// #cgo noescape shim_post_send
// #cgo nocallback shim_post_send
// #include "shim.h"
import "C"

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
)

// maxBatch is the number of requests one call into C posts. More would save little: at
// this size the call costs 1 ns a request.
const maxBatch = 64

// QP is a queue pair. It is also a verbs.RateLimitQP; where the device does not
// limit, SetRateLimit fails with ErrNotSupported.
type QP struct {
	dev    *Device
	c      *C.struct_shim_qp
	num    uint32
	kind   ib.QPType
	cap    verbs.QPCap
	wr     []sendWR // the array in C, by its layout
	sge    []verbs.SGE
	inline []byte
	recv   recvArray
	direct *mlx5.QP    // nil where libibverbs posts
	recvs  atomic.Bool // has been to INIT or ERR since RESET
	sends  atomic.Bool // has been to RTS since RESET
	gone   atomic.Bool
}

// sendWR has the layout of struct ibv_send_wr. next and sgList are set once.
type sendWR struct {
	wrID         uint64
	next, sgList uintptr
	numSGE       int32
	opcode       uint32
	flags        uint32
	imm          [4]byte // big-endian, or a key to invalidate in the host's order
	wr           [32]byte
	_            [sizeofSendWR - 72]byte
}

const sizeofSendWR = C.sizeof_struct_ibv_send_wr

// What sendWR.wr has, by the opcode and type of queue pair.
type (
	rdmaPart struct {
		remoteAddr uint64
		rkey       uint32
	}
	atomicPart struct {
		remoteAddr, compareAdd, swap uint64
		rkey                         uint32
	}
	udPart struct {
		ah                    uintptr
		remoteQPN, remoteQKey uint32
	}
)

// recvWR has the layout of struct ibv_recv_wr.
type recvWR struct {
	wrID         uint64
	next, sgList uintptr
	numSGE       int32
}

var (
	_ = [1]struct{}{}[unsafe.Sizeof(sendWR{})-C.sizeof_struct_ibv_send_wr]
	_ = [1]struct{}{}[unsafe.Offsetof(sendWR{}.sgList)-unsafe.Offsetof(C.struct_ibv_send_wr{}.sg_list)]
	_ = [1]struct{}{}[unsafe.Offsetof(sendWR{}.flags)-unsafe.Offsetof(C.struct_ibv_send_wr{}.send_flags)]
	_ = [1]struct{}{}[unsafe.Offsetof(sendWR{}.wr)-unsafe.Offsetof(C.struct_ibv_send_wr{}.wr)]
	_ = [1]struct{}{}[unsafe.Sizeof(sendWR{}.wr)-unsafe.Sizeof(C.struct_ibv_send_wr{}.wr)]
	_ = [1]struct{}{}[unsafe.Sizeof(recvWR{})-C.sizeof_struct_ibv_recv_wr]
	_ = [1]struct{}{}[unsafe.Offsetof(recvWR{}.numSGE)-unsafe.Offsetof(C.struct_ibv_recv_wr{}.num_sge)]
	_ = [1]struct{}{}[unsafe.Sizeof(verbs.SGE{})-C.sizeof_struct_ibv_sge]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.SGE{}.Length)-unsafe.Offsetof(C.struct_ibv_sge{}.length)]
	_ = [1]struct{}{}[unsafe.Offsetof(verbs.SGE{}.LKey)-unsafe.Offsetof(C.struct_ibv_sge{}.lkey)]
)

// CreateQP implements verbs.PD.
func (p *PD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	bad := func(text string) (verbs.QP, error) {
		return nil, verbs.Errorf("create_qp", d.name, verbs.ErrInvalid, "%s", text)
	}
	if p.gone.Load() {
		return nil, closed("create_qp", d.name)
	}
	send, ok1 := a.SendCQ.(*CQ)
	recv, ok2 := a.RecvCQ.(*CQ)
	switch {
	case !ok1 || !ok2 || send.dev != d || recv.dev != d || send.gone.Load() || recv.gone.Load():
		return bad("give a send and a receive CQ of this device")
	case a.Type != ib.RC && a.Type != ib.UC && a.Type != ib.UD:
		return bad("a type that is neither RC nor UC nor UD")
	case min(a.Cap.MaxSendWR, a.Cap.MaxRecvWR, a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE, a.Cap.MaxInlineData) < 0:
		return bad("a capacity below 0")
	case a.Cap.MaxInlineData > math.MaxUint32: // the others are within the device's limits
		return nil, verbs.Errorf("create_qp", d.name, verbs.ErrInvalid, "%d bytes of inline data: at most %d", a.Cap.MaxInlineData, uint32(math.MaxUint32))
	case max(a.Cap.MaxSendWR, a.Cap.MaxRecvWR) > d.attr.MaxQPWR || max(a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE) > d.attr.MaxSGE:
		return nil, verbs.Errorf("create_qp", d.name, verbs.ErrInvalid,
			"the device has at most %d requests in a queue and %d pieces of memory in a request", d.attr.MaxQPWR, d.attr.MaxSGE)
	}
	init := C.struct_ibv_qp_init_attr{
		send_cq: send.c.cq, recv_cq: recv.c.cq, qp_type: uint32(a.Type),
		cap: C.struct_ibv_qp_cap{
			max_send_wr: C.uint32_t(a.Cap.MaxSendWR), max_recv_wr: C.uint32_t(a.Cap.MaxRecvWR),
			max_send_sge: C.uint32_t(a.Cap.MaxSendSGE), max_recv_sge: C.uint32_t(a.Cap.MaxRecvSGE),
			max_inline_data: C.uint32_t(a.Cap.MaxInlineData),
		},
	}
	if a.SigAll {
		init.sq_sig_all = 1
	}
	var srq *SRQ
	if a.SRQ != nil {
		s, ok := a.SRQ.(*SRQ)
		if !ok || s.dev != d || s.gone.Load() {
			return bad("the SRQ belongs to another device, or is destroyed")
		}
		srq = s
		init.srq = s.c.srq
		init.cap.max_recv_wr, init.cap.max_recv_sge = 0, 0
	}
	if err := d.add("create_qp"); err != nil {
		return nil, err
	}
	var qp *C.struct_ibv_qp
	if e := C.shim_create_qp(d.calls, p.pd, &init, &qp); e != 0 {
		d.remove()
		return nil, fail("create_qp", d.name, int(e), "")
	}
	q := &QP{dev: d, num: uint32(qp.qp_num), kind: a.Type, cap: capOf(&init.cap)}
	err := q.prepare(qp)
	if err == nil && send.direct != nil {
		if err = q.mapDirect(a.SigAll, send, recv, srq); err != nil {
			q.unprepare()
		}
	}
	if err != nil {
		C.shim_destroy_qp(d.calls, qp)
		d.remove()
		return nil, err
	}
	return q, nil
}

func capOf(c *C.struct_ibv_qp_cap) verbs.QPCap {
	return verbs.QPCap{
		MaxSendWR: int(c.max_send_wr), MaxRecvWR: int(c.max_recv_wr),
		MaxSendSGE: int(c.max_send_sge), MaxRecvSGE: int(c.max_recv_sge), MaxInlineData: int(c.max_inline_data),
	}
}

// prepare makes the arrays and registers the queue pair.
func (q *QP) prepare(qp *C.struct_ibv_qp) error {
	d := q.dev
	batch := min(max(q.cap.MaxSendWR, q.cap.MaxRecvWR, 1), maxBatch)
	q.c = C.shim_qp_new(d.calls, qp, C.int(batch), C.int(q.cap.MaxSendSGE), C.int(q.cap.MaxRecvSGE), C.int(q.cap.MaxInlineData))
	if q.c == nil {
		return fail("create_qp", d.name, int(syscall.ENOMEM), "")
	}
	q.wr = unsafe.Slice((*sendWR)(unsafe.Pointer(q.c.wr)), batch)
	q.sge = unsafe.Slice((*verbs.SGE)(unsafe.Pointer(q.c.sge)), batch*q.cap.MaxSendSGE)
	q.inline = unsafe.Slice((*byte)(unsafe.Pointer(q.c.inline_data)), batch*q.cap.MaxInlineData)
	q.recv.of(&q.c.rq, q.cap.MaxRecvSGE)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.qps[qp] = q
	return nil
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() ib.QPType { return q.kind }

// Cap is the capacity that the device granted, at least what was requested.
func (q *QP) Cap() verbs.QPCap { return q.cap }

// Handle is the struct ibv_qp *.
func (q *QP) Handle() unsafe.Pointer { return unsafe.Pointer(q.c.qp) }

// PostSend implements verbs.QP: a call into C for each 64 requests, or none where the device
// is direct.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.gone.Load() {
		return 0, closed("post_send", q.object())
	}
	if q.direct != nil {
		return q.postDirect(wrs)
	}
	done := 0
	for done < len(wrs) {
		n, err := q.fill(wrs[done:min(len(wrs), done+len(q.wr))])
		if n > 0 {
			posted, errno := taken(C.shim_post_send(q.c, C.int(n)))
			done += posted
			if errno != 0 {
				return done, q.postFailed("post_send", errno)
			}
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// fill writes requests into the array and returns how many are good, with what
// is wrong with the next.
func (q *QP) fill(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		from, to := &wrs[i], &q.wr[i]
		if q.kind != ib.RC && !unreliable(q.kind, from.Opcode) {
			// Some drivers take it, and complete it with an error.
			return i, verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%v on a %v queue pair, which does not have it", from.Opcode, q.kind)
		}
		to.wrID, to.opcode, to.flags = from.WRID, uint32(from.Opcode), uint32(from.Flags)
		sge := q.sge[i*q.cap.MaxSendSGE : (i+1)*q.cap.MaxSendSGE]
		if from.Flags&verbs.SendInline != 0 {
			if err := q.fillInline(i, from.Inline); err != nil {
				return i, err
			}
		} else {
			if len(from.SGL) > len(sge) {
				return i, verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%d pieces of memory: the queue pair was made for %d", len(from.SGL), len(sge))
			}
			if n := from.Length(); n > ib.MaxMessage { // drivers do not look
				return i, verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "a message of %d bytes or more: at most %d fit, send several", n, ib.MaxMessage)
			}
			to.numSGE = int32(copy(sge, from.SGL))
		}
		switch op := from.Opcode; {
		case q.kind == ib.UD:
			if err := q.fillUD(to, from); err != nil {
				return i, err
			}
		case from.AH != nil:
			return i, verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "an address handle: only UD queue pairs take one")
		case op.IsAtomic():
			a := (*atomicPart)(unsafe.Pointer(&to.wr))
			a.remoteAddr, a.compareAdd, a.swap, a.rkey = from.RemoteAddr, from.CompareAdd, from.Swap, from.RKey
		default:
			r := (*rdmaPart)(unsafe.Pointer(&to.wr))
			r.remoteAddr, r.rkey = from.RemoteAddr, from.RKey
		}
		switch from.Opcode {
		case ib.WRRDMAWriteWithImm, ib.WRSendWithImm:
			to.imm = [4]byte{byte(from.Imm >> 24), byte(from.Imm >> 16), byte(from.Imm >> 8), byte(from.Imm)}
		case ib.WRSendWithInv:
			*(*uint32)(unsafe.Pointer(&to.imm)) = from.Imm
		case ib.WRLocalInv:
			*(*uint32)(unsafe.Pointer(&to.imm)) = from.Imm
		case ib.WRBindMW:
			return i, verbs.Errorf("post_send", q.object(), verbs.ErrNotSupported, "memory windows of libibverbs are not supported")
		case ib.WRRDMAWrite, ib.WRSend, ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		default:
			return i, verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%v is no operation of a send queue", from.Opcode)
		}
	}
	return len(wrs), nil
}

// unreliable reports whether an unreliable queue pair has an operation (ibv_post_send(3)).
func unreliable(kind ib.QPType, op ib.WROpcode) bool {
	switch op {
	case ib.WRSend, ib.WRSendWithImm:
		return true
	case ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		return false
	}
	return kind == ib.UC
}

// fillInline copies the data of the i-th request to where C may read it: Go's own
// memory may be on a stack, which moves.
func (q *QP) fillInline(i int, data []byte) error {
	if len(data) > q.cap.MaxInlineData {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%d bytes inline: the queue pair takes %d", len(data), q.cap.MaxInlineData)
	}
	q.wr[i].numSGE = 0
	if len(data) == 0 {
		return nil
	}
	if q.cap.MaxSendSGE == 0 {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "inline data: the queue pair was made for requests without memory, MaxSendSGE 0")
	}
	room := q.inline[i*q.cap.MaxInlineData : (i+1)*q.cap.MaxInlineData]
	q.sge[i*q.cap.MaxSendSGE] = verbs.SGE{Addr: uint64(uintptr(unsafe.Pointer(&room[0]))), Length: uint32(copy(room, data))}
	q.wr[i].numSGE = 1
	return nil
}

func (q *QP) fillUD(to *sendWR, from *verbs.SendWR) error {
	ah, ok := from.AH.(*AH)
	if !ok || ah.dev != q.dev || ah.gone.Load() {
		return noHandle(q)
	}
	u := (*udPart)(unsafe.Pointer(&to.wr))
	u.ah, u.remoteQPN, u.remoteQKey = uintptr(unsafe.Pointer(ah.ah)), from.RemoteQPN, from.RemoteQKey
	return nil
}

func noHandle(q *QP) error {
	return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "a UD queue pair needs an address handle of its device: PD.CreateAH makes one")
}

func (q *QP) object() string { return "qp " + itoa(q.num) + " of " + q.dev.name }

// postFailed says why a post failed. What drivers call EINVAL is the state most
// of the time; mlx5 calls it ENOMEM, as a full queue.
func (q *QP) postFailed(op string, errno syscall.Errno) error {
	if errno == syscall.ENOMEM || errno == syscall.ENOSPC || errno == syscall.EAGAIN {
		if a, err := q.Query(); err == nil {
			if early := a.State == ib.Reset || op == "post_send" && (a.State == ib.Init || a.State == ib.RTR); early {
				return verbs.Errorf(op, q.object(), &cause{errno, verbs.ErrState}, "the queue pair is in state %v", a.State)
			}
			if op == "post_send" && a.State == ib.Err && !q.sends.Load() {
				return verbs.Errorf(op, q.object(), &cause{errno, verbs.ErrState}, "the queue pair went to ERR before it was in RTS, and the driver takes no sends then")
			}
		}
		return &verbs.OpError{Op: op, Object: q.object(), Err: &cause{errno, verbs.ErrQueueFull},
			Detail: "the queue is full: poll completions before posting more"}
	}
	if errno == syscall.EINVAL {
		if a, err := q.Query(); err == nil && (a.State == ib.Reset || op == "post_send" && (a.State == ib.Init || a.State == ib.RTR)) {
			return verbs.Errorf(op, q.object(), &cause{errno, verbs.ErrState}, "the queue pair is in state %v", a.State)
		}
	}
	return fail(op, q.object(), int(errno), "")
}

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.gone.Load() {
		return 0, closed("post_recv", q.object())
	}
	n, errno, err := q.postRecv(wrs)
	if errno != 0 {
		err = q.postFailed("post_recv", errno)
	} else if err != nil {
		err = verbs.Errorf("post_recv", q.object(), verbs.ErrInvalid, "%v", err)
	}
	return n, err
}

// Close implements verbs.QP.
func (q *QP) Close() error {
	d := q.dev
	if !q.gone.CompareAndSwap(false, true) {
		return closed("destroy_qp", q.object())
	}
	// Without the lock: it waits until events are acknowledged.
	if e := q.destroy(); e != 0 {
		q.gone.Store(false)
		return fail("destroy_qp", q.object(), e, "")
	}
	defer d.remove()
	q.unprepare()
	return nil
}

func (q *QP) destroy() int {
	if q.direct == nil {
		return int(C.shim_destroy_qp(q.dev.calls, q.c.qp))
	}
	q.dev.numbers.Lock()
	defer q.dev.numbers.Unlock()
	e := int(C.shim_destroy_qp(q.dev.calls, q.c.qp))
	if e == 0 {
		q.direct.Close()
	}
	return e
}

// unprepare undoes what prepare did.
func (q *QP) unprepare() {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.qps[q.c.qp] == q { // C may have used the address again
		delete(d.qps, q.c.qp)
	}
	C.shim_qp_free(q.c)
}

// SetRateLimit implements verbs.RateLimitQP (ibv_modify_qp_rate_limit), which
// counts in kilobits per second. The queue pair must be in RTS.
func (q *QP) SetRateLimit(bps int64) error {
	return q.ModifyRateLimit(verbs.RateLimitAttr{Rate: bps})
}

// ModifyRateLimit implements verbs.RateLimitAttrQP, in the same way.
func (q *QP) ModifyRateLimit(a verbs.RateLimitAttr) error {
	if q.gone.Load() {
		return closed("modify_qp_rate_limit", q.object())
	}
	kbps := (a.Rate + 500) / 1000
	if a.Rate < 0 || a.Rate > 0 && kbps == 0 || kbps > 1<<32-1 {
		return verbs.Errorf("modify_qp_rate_limit", q.object(), verbs.ErrInvalid, "%d bit/s: 0 for none, or 1 kbit/s to 4.29 Tbit/s", a.Rate)
	}
	if e := C.shim_rate_limit(q.dev.calls, q.c.qp, C.uint32_t(kbps), C.uint32_t(a.MaxBurst), C.uint16_t(a.TypicalSize)); e != 0 {
		err := fail("modify_qp_rate_limit", q.object(), int(e), "%s", q.dev.rateLimitWhyNot(q.kind, a.Rate))
		if syscall.Errno(e) == syscall.EINVAL && q.dev.refusesRates(q.kind) {
			return as(err, verbs.ErrNotSupported)
		}
		return err
	}
	return nil
}
