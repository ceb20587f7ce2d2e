//go:build ibverbs

package ibverbs

// #cgo noescape shim_post_recv
// #cgo nocallback shim_post_recv
// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
)

// recvArray is the receives about to be posted: an array in C, by its layout.
type recvArray struct {
	c      *C.struct_shim_rq
	wr     []recvWR
	sge    []verbs.SGE
	maxSGE int
}

func (r *recvArray) of(c *C.struct_shim_rq, maxSGE int) {
	r.c, r.maxSGE = c, maxSGE
	r.wr = unsafe.Slice((*recvWR)(unsafe.Pointer(c.wr)), int(c.batch))
	r.sge = unsafe.Slice((*verbs.SGE)(unsafe.Pointer(c.sge)), int(c.batch)*maxSGE)
}

// post posts receives, and returns how many were taken and why not all: an errno
// of the device's, or what is wrong with the request.
func (r *recvArray) post(wrs []verbs.RecvWR) (int, syscall.Errno, error) {
	done := 0
	for done < len(wrs) {
		part := wrs[done:min(len(wrs), done+len(r.wr))]
		var err error
		n := len(part)
		for i := range part {
			if len(part[i].SGL) > r.maxSGE {
				err = fmt.Errorf("%d pieces of memory: the queue was made for %d", len(part[i].SGL), r.maxSGE)
			} else {
				err = verbs.CheckRecv(r.maxSGE, &part[i])
			}
			if err != nil {
				n = i
				break
			}
			r.wr[i].wrID = part[i].WRID
			r.wr[i].numSGE = int32(copy(r.sge[i*r.maxSGE:(i+1)*r.maxSGE], part[i].SGL))
		}
		if n > 0 {
			posted, errno := taken(C.shim_post_recv(r.c, C.int(n)))
			done += posted
			if errno != 0 {
				return done, errno, nil
			}
		}
		if err != nil {
			return done, 0, err
		}
	}
	return done, 0, nil
}

// SRQ is a shared receive queue. Its PostRecv must be called by one goroutine at
// a time.
type SRQ struct {
	dev    *Device
	depth  int
	c      *C.struct_shim_rq
	direct *mlx5.SRQ // nil where libibverbs posts
	recv   recvArray
	gone   atomic.Bool
}

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(a verbs.SRQInitAttr) (verbs.SRQ, error) {
	d := p.dev
	switch {
	case p.gone.Load():
		return nil, closed("create_srq", d.name)
	case a.MaxWR < 1 || a.MaxWR > d.attr.MaxSRQWR || a.MaxSGE < 1 || a.MaxSGE > d.attr.MaxSGE:
		return nil, verbs.Errorf("create_srq", d.name, verbs.ErrInvalid, "%d requests with %d pieces of memory: 1 to %d with 1 to %d",
			a.MaxWR, a.MaxSGE, d.attr.MaxSRQWR, d.attr.MaxSGE)
	}
	if err := d.add("create_srq"); err != nil {
		return nil, err
	}
	init := C.struct_ibv_srq_init_attr{attr: C.struct_ibv_srq_attr{max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE)}}
	var srq *C.struct_ibv_srq
	if e := C.shim_create_srq(d.calls, p.pd, &init, &srq); e != 0 {
		d.remove()
		return nil, fail("create_srq", d.name, int(e), "")
	}
	s := &SRQ{dev: d, depth: a.MaxWR, c: C.shim_srq_new(d.calls, srq, C.int(min(a.MaxWR, maxBatch)), C.int(a.MaxSGE))}
	if s.c == nil {
		C.shim_destroy_srq(d.calls, srq)
		d.remove()
		return nil, fail("create_srq", d.name, int(syscall.ENOMEM), "")
	}
	s.recv.of(s.c, a.MaxSGE)
	if d.direct {
		if err := s.mapDirect(a.MaxSGE); err != nil {
			C.shim_destroy_srq(d.calls, srq)
			C.shim_srq_free(s.c)
			d.remove()
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.srqs[srq] = s
	return s, nil
}

// Handle is the struct ibv_srq *.
func (s *SRQ) Handle() unsafe.Pointer { return unsafe.Pointer(s.c.srq) }

// PostRecv implements verbs.SRQ.
func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if s.gone.Load() {
		return 0, closed("post_srq_recv", s.dev.name)
	}
	n, errno, err := s.post(wrs)
	switch {
	case errno == syscall.ENOMEM || errno == syscall.ENOSPC || errno == syscall.EAGAIN:
		return n, verbs.Errorf("post_srq_recv", s.dev.name, &cause{errno, verbs.ErrQueueFull}, "the queue is full: wait until receives are consumed")
	case errno != 0:
		return n, fail("post_srq_recv", s.dev.name, int(errno), "")
	case err != nil:
		return n, verbs.Errorf("post_srq_recv", s.dev.name, verbs.ErrInvalid, "%v", err)
	}
	return n, nil
}

func (s *SRQ) post(wrs []verbs.RecvWR) (int, syscall.Errno, error) {
	if s.direct == nil {
		return s.recv.post(wrs)
	}
	n, err := s.direct.PostRecv(wrs)
	return full(n, err)
}

// SetLimit implements verbs.LimitSRQ (ibv_modify_srq).
func (s *SRQ) SetLimit(n int) error {
	switch {
	case s.gone.Load():
		return closed("modify_srq", s.dev.name)
	case n < 0 || n > s.depth:
		return verbs.Errorf("modify_srq", s.dev.name, verbs.ErrInvalid, "a limit of %d receives: 0 to %d, which it holds", n, s.depth)
	}
	if e := C.shim_limit_srq(s.c.srq, C.uint32_t(n)); e != 0 {
		return fail("modify_srq", s.dev.name, int(e), "a limit of %d receives: the driver or the device does not take it", n)
	}
	return nil
}

// Close implements verbs.SRQ.
func (s *SRQ) Close() error {
	d := s.dev
	if !s.gone.CompareAndSwap(false, true) {
		return closed("destroy_srq", d.name)
	}
	srq := s.c.srq
	if e := C.shim_destroy_srq(d.calls, srq); e != 0 {
		s.gone.Store(false)
		return fail("destroy_srq", d.name, int(e), "")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.srqs[srq] == s {
		delete(d.srqs, srq)
	}
	d.objects--
	C.shim_srq_free(s.c)
	return nil
}

// AH is an address handle.
type AH struct {
	dev    *Device
	ah     *C.struct_ibv_ah
	vector mlx5.Vector // where the device is direct
	gone   atomic.Bool
}

// CreateAH implements verbs.PD. Unless the AddressVector names a port, it is for the first
// one that is Ethernet, is active and has a GID that reaches the address.
func (p *PD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	d := p.dev
	if p.gone.Load() {
		return nil, closed("create_ah", d.name)
	}
	attr, err := d.route("create_ah", d.portFor(av), av)
	if err != nil {
		return nil, err
	}
	if err := d.add("create_ah"); err != nil {
		return nil, err
	}
	a := &AH{dev: d}
	if e := C.shim_create_ah(d.calls, p.pd, &attr, &a.ah); e != 0 {
		d.remove()
		return nil, fail("create_ah", d.name, int(e), "%v can't be reached from GID %d, or there is no memory: see ip route get", av.GID, int(attr.grh.sgid_index))
	}
	if d.direct {
		if err := a.mapDirect(); err != nil {
			C.shim_destroy_ah(d.calls, a.ah)
			d.remove()
			return nil, err
		}
	}
	return a, nil
}

// portFor is the port of an address handle.
func (d *Device) portFor(av verbs.AddressVector) int {
	if av.Port != 0 {
		return av.Port
	}
	for port := 1; port <= d.attr.PhysPorts; port++ {
		p, err := d.queryPort(port)
		if err != nil || verbs.PortState(p.state) != verbs.PortActive || p.link_layer != C.IBV_LINK_LAYER_ETHERNET {
			continue
		}
		if _, err := d.gidFor(port, av.GID.WithZone("")); err == nil {
			return port
		}
	}
	return 1
}

// Handle is the struct ibv_ah *.
func (a *AH) Handle() unsafe.Pointer { return unsafe.Pointer(a.ah) }

// Close implements verbs.AH.
func (a *AH) Close() error {
	if !a.gone.CompareAndSwap(false, true) {
		return closed("destroy_ah", a.dev.name)
	}
	if e := C.shim_destroy_ah(a.dev.calls, a.ah); e != 0 {
		a.gone.Store(false)
		return fail("destroy_ah", a.dev.name, int(e), "")
	}
	a.dev.remove()
	return nil
}

// What a provider implements.
var (
	_ verbs.Device      = (*Device)(nil)
	_ verbs.PD          = (*PD)(nil)
	_ verbs.MR          = (*MR)(nil)
	_ verbs.CQ          = (*CQ)(nil)
	_ verbs.CompChannel = (*CompChannel)(nil)
	_ verbs.Pollable    = (*CompChannel)(nil)
	_ verbs.Pollable    = (*Device)(nil)
	_ verbs.QP          = (*QP)(nil)
	_ verbs.RateLimitQP = (*QP)(nil)
	_ verbs.SRQ         = (*SRQ)(nil)
	_ verbs.DMABufPD    = (*PD)(nil)
	_ verbs.AH          = (*AH)(nil)
	_ verbs.LimitSRQ    = (*SRQ)(nil)
	_ verbs.ResizableCQ = (*CQ)(nil)
)
