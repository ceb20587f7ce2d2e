//go:build ibverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// PD is a protection domain.
type PD struct {
	dev  *Device
	pd   *C.struct_ibv_pd
	gone atomic.Bool
}

// closed is the error of a call on an object that was destroyed.
func closed(op, object string) error { return verbs.Errorf(op, object, verbs.ErrClosed, "") }

// AllocPD implements verbs.Device.
func (d *Device) AllocPD() (verbs.PD, error) {
	if err := d.add("alloc_pd"); err != nil {
		return nil, err
	}
	p := &PD{dev: d}
	if e := C.shim_alloc_pd(d.calls, d.ctx, &p.pd); e != 0 {
		d.remove()
		return nil, fail("alloc_pd", d.name, int(e), "")
	}
	return p, nil
}

// Handle is the struct ibv_pd *.
func (p *PD) Handle() unsafe.Pointer { return unsafe.Pointer(p.pd) }

// Close implements verbs.PD.
func (p *PD) Close() error {
	if !p.gone.CompareAndSwap(false, true) {
		return closed("dealloc_pd", p.dev.name)
	}
	if e := C.shim_dealloc_pd(p.dev.calls, p.pd); e != 0 {
		p.gone.Store(false)
		return fail("dealloc_pd", p.dev.name, int(e), "")
	}
	p.dev.remove()
	return nil
}

// MR is a memory region.
type MR struct {
	dev    *Device
	mr     *C.struct_ibv_mr
	addr   uint64 // by which requests name its first byte
	pin    runtime.Pinner
	access ib.AccessFlags
	gone   atomic.Bool
}

// RegMR implements verbs.PD. The memory of buf stays where it is and in use until
// Close, whoever else refers to it. It need not be Go's: what mmap returned may be
// registered too, and unmapped only after Close.
func (p *PD) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	if len(buf) == 0 {
		return nil, verbs.Errorf("reg_mr", p.dev.name, verbs.ErrInvalid, "the buffer is empty")
	}
	return p.register("reg_mr", len(buf), access, func(m *MR) C.int {
		m.pin.Pin(&buf[0])
		m.addr = uint64(uintptr(unsafe.Pointer(&buf[0])))
		return C.shim_reg_mr(p.dev.calls, p.pd, unsafe.Pointer(&buf[0]), C.size_t(len(buf)), C.int(access), &m.mr)
	})
}

// RegDMABuf implements verbs.DMABufPD (ibv_reg_dmabuf_mr).
func (p *PD) RegDMABuf(fd int, offset uint64, length int, iova uint64, access ib.AccessFlags) (verbs.MR, error) {
	if length < 1 {
		return nil, verbs.Errorf("reg_dmabuf_mr", p.dev.name, verbs.ErrInvalid, "%d bytes of a dma-buf", length)
	}
	return p.register("reg_dmabuf_mr", length, access, func(m *MR) C.int {
		m.addr = iova
		return C.shim_reg_dmabuf_mr(p.pd, C.uint64_t(offset), C.size_t(length), C.uint64_t(iova), C.int(fd), C.int(access), &m.mr)
	})
}

// register makes a region by a call of libibverbs.
func (p *PD) register(op string, length int, access ib.AccessFlags, call func(*MR) C.int) (verbs.MR, error) {
	d := p.dev
	switch {
	case p.gone.Load():
		return nil, closed(op, d.name)
	case access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0 && access&ib.AccessLocalWrite == 0:
		return nil, verbs.Errorf(op, d.name, verbs.ErrInvalid, "access %v: remote writes and atomics need LOCAL_WRITE too", access)
	case access&ib.AccessRemoteInvalidate != 0:
		return nil, verbs.Errorf(op, d.name, verbs.ErrNotSupported, "access %v: libibverbs lets peers invalidate memory windows only", access)
	}
	if err := d.add(op); err != nil {
		return nil, err
	}
	m := &MR{dev: d, access: access}
	if e := call(m); e != 0 {
		m.pin.Unpin()
		d.remove()
		if e == C.ENOMEM || e == C.EPERM || e == C.EAGAIN {
			return nil, fail(op, d.name, int(e), "%d bytes: %s", length, locked)
		}
		return nil, fail(op, d.name, int(e), "")
	}
	return m, nil
}

// Addr implements verbs.MR.
func (m *MR) Addr() uint64 { return m.addr }

// Length implements verbs.MR.
func (m *MR) Length() int { return int(m.mr.length) }

// LKey implements verbs.MR.
func (m *MR) LKey() uint32 { return uint32(m.mr.lkey) }

// RKey implements verbs.MR.
func (m *MR) RKey() uint32 { return uint32(m.mr.rkey) }

// Access implements verbs.MR.
func (m *MR) Access() ib.AccessFlags { return m.access }

// Close implements verbs.MR.
func (m *MR) Close() error {
	if !m.gone.CompareAndSwap(false, true) {
		return closed("dereg_mr", m.dev.name)
	}
	if e := C.shim_dereg_mr(m.dev.calls, m.mr); e != 0 {
		m.gone.Store(false)
		return fail("dereg_mr", m.dev.name, int(e), "")
	}
	m.pin.Unpin()
	m.dev.remove()
	return nil
}
