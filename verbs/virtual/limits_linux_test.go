package virtual

import (
	"encoding/binary"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// stated returns the device's limits as a program queries them.
func (p *player) stated() (a uverbs.QueryDeviceResp) {
	p.t.Helper()
	data, errno := p.do(uverbs.QueryDevice, uverbs.ResponseReq{}, nil, uverbs.Sizeof(a), 0)
	n, err := binary.Decode(data, binary.LittleEndian, &a)
	if errno != 0 || err != nil && !errors.Is(err, io.EOF) || n != len(data) {
		p.t.Fatalf("query_device: %v, %v, %d of %d bytes", errno, err, n, len(data))
	}
	return a
}

// As many objects as the device states can be made, and then ENOMEM, until one goes. The
// counts begin two below: nobody makes 2^24 regions here.
func TestObjectLimits(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	a := p.stated()
	pd, cq := p.pd(), p.cq(-1)
	var ah uverbs.AHAttr
	copy(ah.DGID[10:], []byte{0xff, 0xff, 127, 9, 8, 1})
	ah.IsGlobal, ah.PortNum = 1, 1
	qp, qpRing := p.qpRequest(ib.RC, pd, cq)
	for _, c := range []struct {
		name    string
		kind    kind
		most    uint32
		make    func() ([]byte, syscall.Errno)
		destroy uverbs.Op
		events  bool // the response counts those of the object
	}{
		{"max_pd", domains, a.MaxPD, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.AllocPD, uverbs.ResponseReq{}, nil, 4, 4)
		}, uverbs.DeallocPD, false},
		{"max_mr", regions, a.MaxMR, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.RegMR, uverbs.RegMRReq{Start: p.base + data, Length: 4096, HCAVA: p.base + data, PDHandle: pd, AccessFlags: 1}, nil, 12, 0)
		}, uverbs.DeregMR, false},
		{"max_cq", completionQueues, a.MaxCQ, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.CreateCQ, uverbs.CreateCQReq{CQE: 63, CompChannel: -1}, uverbs.Mlx5CreateCQReq{BufAddr: p.base, DBAddr: p.base + cqDB, CQESize: 64}, 8, 8)
		}, uverbs.DestroyCQ, true},
		{"max_srq", sharedQueues, a.MaxSRQ, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.CreateSRQ, uverbs.CreateSRQReq{PDHandle: pd, MaxWR: 15, MaxSGE: 1}, uverbs.Mlx5CreateSRQReq{BufAddr: p.base + 0xc000, DBAddr: p.base + 0x8080}, 16, 8)
		}, uverbs.DestroySRQ, true},
		{"max_qp", queuePairs, a.MaxQP, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.CreateQP, qp, qpRing, 32, 32)
		}, uverbs.DestroyQP, true},
		{"max_ah", addressHandles, a.MaxAH, func() ([]byte, syscall.Errno) {
			return p.do(uverbs.CreateAH, uverbs.CreateAHReq{PDHandle: pd, Attr: ah}, nil, 4, 16)
		}, uverbs.DestroyAH, false},
	} {
		destroy := func(handle uint32) {
			t.Helper()
			req, out := any(uverbs.HandleReq{Handle: handle}), 0
			if c.events {
				req, out = uverbs.DestroyReq{Handle: handle}, 8
			}
			if _, errno := p.do(c.destroy, req, nil, out, 0); errno != 0 {
				t.Errorf("%s: destroyed: %v", c.name, errno)
			}
		}
		count := &d.objects.n[c.kind]
		before := *count
		*count = c.most - 2
		var handles []uint32
		for _, at := range []string{"one below", "at"} {
			r, errno := c.make()
			if errno != 0 {
				t.Fatalf("%s is %d: %s: %v", c.name, c.most, at, errno)
			}
			handles = append(handles, binary.LittleEndian.Uint32(r))
		}
		if _, errno := c.make(); errno != syscall.ENOMEM {
			t.Errorf("%s is %d: one above: %v, expected %v", c.name, c.most, errno, syscall.ENOMEM)
		}
		for i, h := range handles {
			destroy(h)
			if i > 0 {
				continue
			}
			r, errno := c.make()
			if errno != 0 {
				t.Fatalf("%s: once one has gone: %v", c.name, errno)
			}
			destroy(binary.LittleEndian.Uint32(r))
		}
		if *count != c.most-2 {
			t.Errorf("%s: %d objects are counted, %d are there", c.name, *count, c.most-2)
		}
		*count = before
	}
	// What a program leaves, and what could not be made, is not counted either.
	p.qp(ib.RC, pd, cq)
	if _, errno := p.do(uverbs.RegMR, uverbs.RegMRReq{Start: 4096, Length: 1, HCAVA: 4096, PDHandle: pd, AccessFlags: 1}, nil, 12, 0); errno != syscall.EFAULT {
		t.Errorf("memory that is not there: %v", errno)
	}
	closed(t, d, p)
	if d.objects.n != [kinds]uint32{} {
		t.Errorf("counts of a device without objects: %v", d.objects.n)
	}
}

// Sizes up to the device's limits are taken; more is EINVAL.
func TestSizeLimits(t *testing.T) {
	const (
		mib   = 1 << 20
		rings = mib
	)
	d := openDevice(t, Config{})
	d.attr.MaxMRSize = 64 * mib // less than the arena
	p := play(t, d, 160*mib)
	p.context()
	a := p.stated()
	pd, cq := p.pd(), p.cq(-1)
	qp := func(change func(*uverbs.CreateQPReq)) syscall.Errno {
		core, driver := p.qpRequest(ib.RC, pd, cq)
		core.MaxSendWR, core.MaxRecvWR = 1, 1
		change(&core)
		driver.BufAddr = p.base + rings
		driver.SQWQECount, driver.RQWQECount, driver.RQWQEShift = uint32(ringSize(core.MaxSendWR-1)), uint32(ringSize(core.MaxRecvWR-1)), 9
		r, errno := p.do(uverbs.CreateQP, core, driver, 32, 32)
		if errno == 0 {
			p.must(uverbs.DestroyQP, uverbs.DestroyReq{Handle: binary.LittleEndian.Uint32(r)}, nil, 8, 0)
		}
		return errno
	}
	srq := func(wr, sge uint32) syscall.Errno {
		r, errno := p.do(uverbs.CreateSRQ, uverbs.CreateSRQReq{PDHandle: pd, MaxWR: wr, MaxSGE: sge}, uverbs.Mlx5CreateSRQReq{BufAddr: p.base + rings, DBAddr: p.base + 0x8080}, 16, 8)
		if errno == 0 {
			p.must(uverbs.DestroySRQ, uverbs.DestroyReq{Handle: binary.LittleEndian.Uint32(r)}, nil, 8, 0)
		}
		return errno
	}
	modify := func(change func(*uverbs.ModifyQPReq)) syscall.Errno {
		req := uverbs.ModifyQPReq{}
		change(&req)
		_, errno := d.attributes(&req)
		return errno
	}
	for _, l := range []struct {
		name string
		most uint64
		use  func(n uint32) syscall.Errno
	}{
		{"max_qp_wr, sends", uint64(a.MaxQPWR), func(n uint32) syscall.Errno { return qp(func(r *uverbs.CreateQPReq) { r.MaxSendWR = n }) }},
		{"max_qp_wr, receives", uint64(a.MaxQPWR), func(n uint32) syscall.Errno { return qp(func(r *uverbs.CreateQPReq) { r.MaxRecvWR = n }) }},
		{"max_sge, of a send", uint64(a.MaxSGE), func(n uint32) syscall.Errno { return qp(func(r *uverbs.CreateQPReq) { r.MaxSendSGE = n }) }},
		{"max_sge, of a receive", uint64(a.MaxSGE), func(n uint32) syscall.Errno { return qp(func(r *uverbs.CreateQPReq) { r.MaxRecvSGE = n }) }},
		{"max_srq_wr", uint64(a.MaxSRQWR), func(n uint32) syscall.Errno { return srq(n, 1) }},
		{"max_srq_sge", uint64(a.MaxSRQSGE), func(n uint32) syscall.Errno { return srq(1, n) }},
		{"max_cqe", uint64(a.MaxCQE), func(n uint32) syscall.Errno {
			r, errno := p.do(uverbs.CreateCQ, uverbs.CreateCQReq{CQE: n, CompChannel: -1}, uverbs.Mlx5CreateCQReq{BufAddr: p.base + rings, DBAddr: p.base + 0x8080, CQESize: 64}, 8, 8)
			if errno == 0 {
				p.must(uverbs.DestroyCQ, uverbs.DestroyReq{Handle: binary.LittleEndian.Uint32(r)}, nil, 8, 0)
			}
			return errno
		}},
		{"max_cqe, resized", uint64(a.MaxCQE), func(n uint32) syscall.Errno {
			_, errno := p.do(uverbs.ResizeCQ, uverbs.ResizeCQReq{Handle: cq, CQE: n}, uverbs.Mlx5ResizeCQReq{BufAddr: p.base + rings, CQESize: 64}, 8, 0)
			return errno
		}},
		{"max_mr_size", a.MaxMRSize, func(n uint32) syscall.Errno {
			r, errno := p.do(uverbs.RegMR, uverbs.RegMRReq{Start: p.base, Length: uint64(n), HCAVA: p.base, PDHandle: pd, AccessFlags: 1}, nil, 12, 0)
			if errno == 0 {
				p.must(uverbs.DeregMR, uverbs.HandleReq{Handle: binary.LittleEndian.Uint32(r)}, nil, 0, 0)
			}
			return errno
		}},
		{"max_qp_init_rd_atom", uint64(a.MaxQPInitRdAtom), func(n uint32) syscall.Errno {
			return modify(func(r *uverbs.ModifyQPReq) { r.AttrMask, r.MaxRdAtomic = uverbs.QPMaxQPRdAtomic, uint8(n) })
		}},
		{"max_qp_rd_atom", uint64(a.MaxQPRdAtom), func(n uint32) syscall.Errno {
			return modify(func(r *uverbs.ModifyQPReq) { r.AttrMask, r.MaxDestRdAtomic = uverbs.QPMaxDestRdAtomic, uint8(n) })
		}},
	} {
		for n, want := range map[uint64]syscall.Errno{l.most - 1: 0, l.most: 0, l.most + 1: syscall.EINVAL} {
			if errno := l.use(uint32(n)); errno != want {
				t.Errorf("%s is %d: %d: %v, expected %v", l.name, l.most, n, errno, want)
			}
		}
	}
	closed(t, d, p)
}
