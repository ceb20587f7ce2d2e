package virtual

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

func closed(t *testing.T, d *Device, p *player) {
	t.Helper()
	p.file.Close()
	if err := d.Close(); err != nil {
		t.Errorf("something was left over: %v", err)
	}
}

func TestGetContext(t *testing.T) {
	for name, c := range map[string]struct {
		req  uverbs.Mlx5ContextReq
		want syscall.Errno
	}{
		"DEVX":                       {uverbs.Mlx5ContextReq{TotalNumBFRegs: 16, Flags: uverbs.Mlx5ContextDEVX}, syscall.EOPNOTSUPP},
		"of before rdma-core 29":     {uverbs.Mlx5ContextReq{TotalNumBFRegs: 16, MaxCQEVersion: 1, LibCaps: 1}, syscall.EOPNOTSUPP},
		"a mask of a later header":   {uverbs.Mlx5ContextReq{TotalNumBFRegs: 16, CompMask: 1}, syscall.EOPNOTSUPP},
		"as libmlx5 asks in the end": {uverbs.Mlx5ContextReq{TotalNumBFRegs: 16, NumLowLatencyBFRegs: 4, MaxCQEVersion: 1, LibCaps: 3}, 0},
	} {
		d := openDevice(t, Config{})
		p := play(t, d, arenaSz)
		if _, errno := p.do(uverbs.AllocPD, uverbs.ResponseReq{}, nil, 4, 4); errno != syscall.EINVAL {
			t.Errorf("%s: a command without a context: %v", name, errno)
		}
		if _, errno := p.do(uverbs.GetContext, uverbs.GetContextReq{}, c.req, 8, 72); errno != c.want {
			t.Errorf("%s: %v, expected %v", name, errno, c.want)
		}
		if c.want == 0 {
			if _, errno := p.do(uverbs.GetContext, uverbs.GetContextReq{}, c.req, 8, 72); errno != syscall.EINVAL {
				t.Errorf("a second context: %v", errno)
			}
		}
		closed(t, d, p)
	}
}

// Objects go in the order of their use, and unknown handles and those of others are
// told apart.
func TestObjects(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	pd, cq := p.pd(), p.cq(-1)
	qp, _ := p.qp(ib.RC, pd, cq)
	mr := p.must(uverbs.RegMR, uverbs.RegMRReq{Start: p.base + data, Length: 4096, HCAVA: p.base + data, PDHandle: pd, AccessFlags: 1}, nil, 12, 0)[0]
	srq := p.must(uverbs.CreateSRQ, uverbs.CreateSRQReq{UserHandle: 1, PDHandle: pd, MaxWR: 15, MaxSGE: 1}, uverbs.Mlx5CreateSRQReq{BufAddr: p.base + 0xc000, DBAddr: p.base + 0x8080}, 16, 8)[0]
	var ah uverbs.AHAttr
	copy(ah.DGID[10:], []byte{0xff, 0xff, 127, 9, 8, 1})
	ah.IsGlobal, ah.PortNum = 1, 1
	handle := p.must(uverbs.CreateAH, uverbs.CreateAHReq{PDHandle: pd, Attr: ah}, nil, 4, 16)[0]

	one := func(op uverbs.Op, h uint32) syscall.Errno {
		_, errno := p.do(op, uverbs.HandleReq{Handle: h}, nil, 0, 0)
		return errno
	}
	counted := func(op uverbs.Op, h uint32) syscall.Errno {
		_, errno := p.do(op, uverbs.DestroyReq{Handle: h}, nil, 8, 0)
		return errno
	}
	for _, c := range []struct {
		what string
		got  syscall.Errno
		want syscall.Errno
	}{
		{"a PD in use", one(uverbs.DeallocPD, pd), syscall.EBUSY},
		{"a CQ in use", counted(uverbs.DestroyCQ, cq), syscall.EBUSY},
		{"a PD that is a CQ", one(uverbs.DeallocPD, cq), syscall.EINVAL},
		{"a QP that is not there", counted(uverbs.DestroyQP, 1000), syscall.ENOENT},
		{"the QP", counted(uverbs.DestroyQP, qp), 0},
		{"the QP again", counted(uverbs.DestroyQP, qp), syscall.ENOENT},
		{"the CQ", counted(uverbs.DestroyCQ, cq), 0},
		{"the SRQ", counted(uverbs.DestroySRQ, srq), 0},
		{"a PD with an address handle and a region", one(uverbs.DeallocPD, pd), syscall.EBUSY},
		{"the address handle", one(uverbs.DestroyAH, handle), 0},
		{"the region", one(uverbs.DeregMR, mr), 0},
		{"the PD", one(uverbs.DeallocPD, pd), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, expected %v", c.what, c.got, c.want)
		}
	}
	closed(t, d, p)
}

// What a program leaves goes with it.
func TestClose(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	ch := int32(p.must(uverbs.CreateCompChannel, uverbs.ResponseReq{}, nil, 4, 0)[0])
	pd, cq := p.pd(), p.cq(ch)
	p.qp(ib.RC, pd, cq)
	p.must(uverbs.RegMR, uverbs.RegMRReq{Start: p.base + data, Length: 4096, HCAVA: p.base + data, PDHandle: pd, AccessFlags: 1}, nil, 12, 0)
	closed(t, d, p)
}

func TestRegMR(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	pd := p.pd()
	if err := unix.Mprotect(p.mem[secret:secret+4096], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	const write, remoteWrite, read, onDemand, relaxed = 1, 2, 4, 1 << 6, 1 << 20
	for _, c := range []struct {
		what              string
		start, length, va uint64
		access            uint32
		want              syscall.Errno
	}{
		{"memory", p.base + data, 100, p.base + data, write | remoteWrite | read, 0},
		{"at another address", p.base + data + 5, 100, 0x7005, write, 0},
		{"with relaxed order", p.base + data, 100, p.base + data, write | relaxed, 0},
		{"at an address of another offset", p.base + data + 5, 100, 0x7000, write, syscall.EINVAL},
		{"remote writes without local ones", p.base + data, 100, p.base + data, remoteWrite, syscall.EINVAL},
		{"an access that there is not", p.base + data, 100, p.base + data, 1 << 15, syscall.EINVAL},
		{"on demand", p.base + data, 100, p.base + data, write | onDemand, syscall.EOPNOTSUPP},
		{"all, on demand", 0, math.MaxUint64, 0, write | onDemand, syscall.EOPNOTSUPP},
		{"nothing", p.base + data, 0, p.base + data, write, syscall.EINVAL},
		{"beyond the end", 1<<64 - 4096, 8192, 1<<64 - 4096, write, syscall.EINVAL},
		{"what is not mapped", 4096, 4096, 4096, write, syscall.EFAULT},
		{"to be read only", p.base + secret, 100, p.base + secret, read, 0},
		{"to be read only, for writing", p.base + secret, 100, p.base + secret, write, syscall.EFAULT},
	} {
		_, errno := p.do(uverbs.RegMR, uverbs.RegMRReq{Start: c.start, Length: c.length, HCAVA: c.va, PDHandle: pd, AccessFlags: c.access}, nil, 12, 0)
		if errno != c.want {
			t.Errorf("%s: %v, expected %v", c.what, errno, c.want)
		}
	}
	r := p.must(uverbs.RegMR, uverbs.RegMRReq{Start: p.base + data, Length: 100, HCAVA: p.base + data, PDHandle: pd, AccessFlags: write}, nil, 12, 0)
	keys := p.must(uverbs.ReregMR, uverbs.ReregMRReq{MRHandle: r[0], Flags: uverbs.ReregAccess, AccessFlags: write | read}, nil, 8, 0)
	if keys[0] != r[1] {
		t.Error("other access gave the region another key")
	}
	keys = p.must(uverbs.ReregMR, uverbs.ReregMRReq{MRHandle: r[0], Flags: uverbs.ReregTranslation, Start: p.base + data, Length: 50, HCAVA: p.base + data}, nil, 8, 0)
	if keys[0] == r[1] {
		t.Error("the keys of the old region are those of the new one")
	}
	if _, errno := p.do(uverbs.ReregMR, uverbs.ReregMRReq{MRHandle: r[0], Flags: 8}, nil, 8, 0); errno != syscall.EINVAL {
		t.Errorf("a change that there is not: %v", errno)
	}
	closed(t, d, p)
}

func TestCreateCQ(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	good := uverbs.CreateCQReq{CQE: 63, CompChannel: -1}
	ring := uverbs.Mlx5CreateCQReq{BufAddr: p.base, DBAddr: p.base + cqDB, CQESize: 64}
	for _, c := range []struct {
		what   string
		change func(*uverbs.CreateCQReq, *uverbs.Mlx5CreateCQReq)
		want   syscall.Errno
	}{
		{"as it should be", func(*uverbs.CreateCQReq, *uverbs.Mlx5CreateCQReq) {}, 0},
		{"no entries", func(c *uverbs.CreateCQReq, _ *uverbs.Mlx5CreateCQReq) { c.CQE = 0 }, syscall.EINVAL},
		{"more than there are", func(c *uverbs.CreateCQReq, _ *uverbs.Mlx5CreateCQReq) { c.CQE = math.MaxUint32 }, syscall.EINVAL},
		{"a vector that there is not", func(c *uverbs.CreateCQReq, _ *uverbs.Mlx5CreateCQReq) { c.CompVector = 10000 }, syscall.EINVAL},
		{"a channel that is none", func(c *uverbs.CreateCQReq, _ *uverbs.Mlx5CreateCQReq) { c.CompChannel = 0 }, syscall.EBADF},
		{"entries of 96 bytes", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.CQESize = 96 }, syscall.EINVAL},
		{"compression", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.CQECompEn, r.CQECompResFormat = 1, 2 }, 0},
		{"compression in no format", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.CQECompEn = 1 }, syscall.EOPNOTSUPP},
		{"compression of long entries", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) {
			r.CQECompEn, r.CQECompResFormat, r.CQESize = 1, 1, 128
		}, syscall.EOPNOTSUPP},
		{"the wall clock", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.Flags = uverbs.Mlx5CQRealTimeTS }, syscall.EOPNOTSUPP},
		{"a page that there is not", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.Flags = uverbs.Mlx5CQUARPageIndex }, syscall.EINVAL},
		{"a ring that is not mapped", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.BufAddr = 4096 }, syscall.EFAULT},
		{"a record that is not mapped", func(_ *uverbs.CreateCQReq, r *uverbs.Mlx5CreateCQReq) { r.DBAddr = 64 }, syscall.EFAULT},
	} {
		core, driver := good, ring
		c.change(&core, &driver)
		if _, errno := p.do(uverbs.CreateCQ, core, driver, 8, 8); errno != c.want {
			t.Errorf("%s: %v, expected %v", c.what, errno, c.want)
		}
	}
	closed(t, d, p)
}

func TestModifyCQ(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	cq, pd := p.cq(-1), p.pd()
	for _, c := range []struct {
		req  uverbs.ModifyCQExReq
		want syscall.Errno
	}{
		{uverbs.ModifyCQExReq{Handle: cq, AttrMask: uverbs.CQModerate, Count: 65535, Period: 4095}, 0},
		{uverbs.ModifyCQExReq{Handle: cq, AttrMask: uverbs.CQModerate, Period: 4096}, syscall.EINVAL},
		{uverbs.ModifyCQExReq{Handle: pd, AttrMask: uverbs.CQModerate}, syscall.EINVAL},
		{uverbs.ModifyCQExReq{Handle: cq}, syscall.EINVAL},
		{uverbs.ModifyCQExReq{Handle: cq, AttrMask: uverbs.CQModerate, Reserved: 1}, syscall.EINVAL},
		{uverbs.ModifyCQExReq{Handle: cq, AttrMask: 2 * uverbs.CQModerate}, syscall.EOPNOTSUPP},
	} {
		if _, errno := p.do(uverbs.ModifyCQEx, c.req, nil, 0, 0); errno != c.want {
			t.Errorf("%+v: %v, expected %v", c.req, errno, c.want)
		}
	}
	closed(t, d, p)
}

// What the device has not is refused as the kernel does.
func TestRefused(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	pd, cq := p.pd(), p.cq(-1)
	for _, kind := range []uint8{uverbs.QPRawPacket, uverbs.QPXRCSend, uverbs.QPDriver} {
		core, driver := p.qpRequest(ib.QPType(kind), pd, cq)
		if _, errno := p.do(uverbs.CreateQP, core, driver, 32, 32); errno != syscall.EOPNOTSUPP {
			t.Errorf("a queue pair of type %d: %v", kind, errno)
		}
	}
	for op, in := range map[uverbs.Op]int{
		uverbs.AllocMW: 16, uverbs.OpenXRCD: 16, uverbs.AttachMcast: 24, uverbs.DetachMcast: 24, uverbs.OpenQP: 32,
		uverbs.CreateFlowEx: 24, uverbs.CreateWQEx: 40, uverbs.CreateRWQIndTableEx: 8,
		uverbs.PollCQ: 16, uverbs.PostSend: 24,
	} {
		if _, errno := p.do(op, make([]byte, in), nil, 64, 0); errno != syscall.EOPNOTSUPP {
			t.Errorf("command %#x: %v", uint32(op), errno)
		}
	}
	if r := p.file.Ioctl(0xc0181b02, p.base); r.Errno != syscall.ENOTTY {
		t.Errorf("ioctl: %v", r.Errno)
	}
	closed(t, d, p)
}

func TestModifyQP(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	pd, cq := p.pd(), p.cq(-1)
	h, number := p.qp(ib.RC, pd, cq)
	gid := d.gids()[0].As16()
	connect := uverbs.ModifyQPReq{
		Handle: h, AttrMask: uverbs.QPState | connectOfUC | responderOfRC, State: uint8(ib.RTR), PathMTU: 3, DestQPN: number, MaxDestRdAtomic: 4, MinRNRTimer: 12,
		Dest: uverbs.QPDest{DGID: gid, IsGlobal: 1, PortNum: 1, HopLimit: 9, TrafficClass: 104, SL: 3},
	}
	elsewhere, noGlobal, wide := connect, connect, connect
	elsewhere.Dest.SGIDIndex, noGlobal.Dest.IsGlobal, wide.PathMTU = 77, 0, 6
	initial := uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPState | initAttributes | uverbs.QPAccessFlags, State: uint8(ib.Init), PortNum: 1, AccessFlags: 7}
	rts := uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPState | readyToSendOfRC, State: uint8(ib.RTS), Timeout: 14, RetryCnt: 7, RNRRetry: 6, MaxRdAtomic: 3, SQPSN: 0x1000005}
	port2 := initial
	port2.PortNum = 2
	for _, c := range []struct {
		what string
		req  uverbs.ModifyQPReq
		want syscall.Errno
	}{
		{"to RTS at once", rts, syscall.EINVAL},
		{"to INIT without its attributes", uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPState, State: uint8(ib.Init)}, syscall.EINVAL},
		{"to INIT at another port", port2, syscall.EINVAL},
		{"to INIT", initial, 0},
		{"to RTR from another GID", elsewhere, syscall.EINVAL},
		{"to RTR without a GID", noGlobal, syscall.EINVAL},
		{"to RTR with an MTU that there is not", wide, syscall.EINVAL},
		{"to RTR", connect, 0},
		{"to RTS", rts, 0},
		{"to RTS again", uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPState | uverbs.QPCurState, State: uint8(ib.RTS), CurState: uint8(ib.RTS)}, 0},
		{"an alternate path", uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPAltPath}, syscall.EINVAL},
		{"a state that there is not", uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPState, State: 9}, syscall.EINVAL},
		{"a rate by the old command", uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPRateLimit}, syscall.EOPNOTSUPP},
	} {
		if _, errno := p.do(uverbs.ModifyQP, c.req, nil, 0, 0); errno != c.want {
			t.Errorf("%s: %v, expected %v", c.what, errno, c.want)
		}
	}
	rate := uverbs.ModifyQPExReq{Base: uverbs.ModifyQPReq{Handle: h, AttrMask: uverbs.QPRateLimit}, RateLimit: 1000}
	if _, errno := p.do(uverbs.ModifyQPEx, rate, uverbs.Mlx5ModifyQPReq{}, 8, 16); errno != syscall.EINVAL {
		t.Errorf("the rate of a connection: %v, expected EINVAL", errno)
	}
	reply, errno := p.do(uverbs.QueryQP, uverbs.QueryQPReq{Handle: h}, nil, 128, 0)
	var got uverbs.QueryQPResp
	if _, err := binary.Decode(reply, binary.LittleEndian, &got); errno != 0 || err != nil {
		t.Fatal(errno, err)
	}
	want := uverbs.QueryQPResp{
		Dest: connect.Dest, MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1, SQPSN: 5, DestQPN: number, AccessFlags: 7,
		State: uint8(ib.RTS), CurState: uint8(ib.RTS), PathMTU: 3, MaxRdAtomic: 3, MaxDestRdAtomic: 4, MinRNRTimer: 12, PortNum: 1, Timeout: 14, RetryCnt: 7, RNRRetry: 6,
	}
	if got != want {
		t.Errorf("queried %+v,\nexpected %+v", got, want)
	}
	closed(t, d, p)
}

// A page that is freed is free again, but not under queue pairs.
func TestUARs(t *testing.T) {
	const ns = uverbs.DriverNS
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	pd, cq := p.pd(), p.cq(-1)
	qp, _ := p.qp(ib.UD, pd, cq)
	free := func(handle uint64) syscall.Errno {
		_, errno := p.ioctl(uverbs.MethodMlx5FreeUAR, attr{id: ns, value: handle})
		return errno
	}
	first := uint64(0) // the handle of p.uar
	if errno := free(first); errno != 0 {
		t.Errorf("the page of a queue pair: %v", errno)
	}
	if errno := free(first); errno != syscall.ENOENT {
		t.Errorf("a page that is gone: %v", errno)
	}
	if errno := free(uint64(cq)); errno != syscall.EINVAL {
		t.Errorf("a page that is a completion queue: %v", errno)
	}
	p.must(uverbs.DestroyQP, uverbs.DestroyReq{Handle: qp}, nil, 4, 0)
	second, offset := p.allocUAR()
	if second == p.uar {
		t.Error("a page was given twice")
	}
	if page := mapPage(t, p, offset); !slices.Equal(page, make([]byte, pageBytes)) {
		t.Error("a page that is not empty")
	}
	core, rings := p.qpRequest(ib.RC, pd, cq)
	for _, number := range []uint32{0, second + 1, 1 << 31} {
		rings.BFRegIndex = number
		if _, errno := p.do(uverbs.CreateQP, core, rings, 32, 32); errno != syscall.EINVAL {
			t.Errorf("page %d: %v", number, errno)
		}
	}
	rings.BFRegIndex, rings.Flags = second, 0
	if _, errno := p.do(uverbs.CreateQP, core, rings, 32, 32); errno != syscall.EINVAL {
		t.Errorf("a register that the driver gives: %v", errno)
	}
	for range maxUARs - 2 {
		p.allocUAR()
	}
	if _, errno := p.ioctl(uverbs.MethodMlx5AllocUAR, attr{id: ns}, attr{id: ns | 1, len: 8}, attr{id: ns | 2, len: 8, out: true}, attr{id: ns | 3, len: 4, out: true}, attr{id: ns | 4, len: 4, out: true}); errno != syscall.ENOMEM {
		t.Errorf("too many pages: %v", errno)
	}
	closed(t, d, p)
}

// What has a form for ioctl only, and how calls are refused.
func TestIoctl(t *testing.T) {
	const ns = uverbs.DriverNS
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	port := []attr{{0, 8, 1, false}, {id: 1, len: 48, out: true}}
	if _, errno := p.ioctl(uverbs.MethodQueryPort, port...); errno != syscall.EINVAL {
		t.Errorf("without a context: %v", errno)
	}
	p.context()
	pd := p.pd()
	mr := p.must(uverbs.RegMR, uverbs.RegMRReq{Start: p.base + data, Length: 4096, HCAVA: p.base + data, PDHandle: pd, AccessFlags: 1}, nil, 12, 0)
	gid := d.gids()[0].As16()
	for _, c := range []struct {
		what   string
		method uverbs.MethodID
		attrs  []attr
		want   syscall.Errno
		out    []uint64
	}{
		{"a port", uverbs.MethodQueryPort, port, 0, []uint64{1, maxPortMsg<<32 | portCapFlags}},
		{"another port", uverbs.MethodQueryPort, []attr{{0, 8, 2, false}, port[1]}, syscall.EINVAL, nil},
		{"a port without room", uverbs.MethodQueryPort, []attr{port[0], {id: 1, len: 40, out: true}}, syscall.EINVAL, nil},
		{"a port without an answer", uverbs.MethodQueryPort, port[:1], syscall.EINVAL, nil},
		{"an attribute twice", uverbs.MethodQueryPort, []attr{port[0], port[0], port[1]}, syscall.EINVAL, nil},
		{"an attribute that there is not", uverbs.MethodQueryPort, []attr{port[0], port[1], {id: 9, len: 4}}, syscall.EPROTONOSUPPORT, nil},
		{"a context to import", uverbs.MethodID{Object: 0, Method: 4}, []attr{{id: 0, len: 4, out: true}, {id: 1, len: 8, out: true}}, syscall.EPROTONOSUPPORT, nil},
		{"a table", uverbs.MethodQueryGIDTable, []attr{{0, 8, 32, false}, {1, 4, 0, false}, {id: 2, len: 64, out: true}, {id: 3, len: 8, out: true}}, 0, []uint64{32, 0, 0, 1}},
		{"a table without room", uverbs.MethodQueryGIDTable, []attr{{0, 8, 32, false}, {id: 2, len: 31, out: true}, {id: 3, len: 8, out: true}}, syscall.EINVAL, nil},
		{"a GID", uverbs.MethodQueryGIDEntry, []attr{{0, 4, 1, false}, {1, 4, 0, false}, {id: 3, len: 32, out: true}}, 0, []uint64{1, 0, binary.LittleEndian.Uint64(gid[:])}},
		{"a GID that there is not", uverbs.MethodQueryGIDEntry, []attr{{0, 4, 1, false}, {1, 4, 7, false}, {id: 3, len: 32, out: true}}, syscall.EINVAL, nil},
		{"a region", uverbs.MethodQueryMR, []attr{
			{id: 0, value: uint64(mr[0])}, {id: 1, len: 4, out: true}, {id: 2, len: 4, out: true}, {id: 3, len: 8, out: true}, {id: 4, len: 8, out: true},
		}, 0, []uint64{uint64(mr[0]), uint64(mr[1]), uint64(mr[2]), 4096, p.base + data}},
		{"a PD", uverbs.MethodMlx5QueryPD, []attr{{id: ns, value: uint64(pd)}, {id: ns | 1, len: 4, out: true}}, 0, []uint64{uint64(pd), 1}},
		{"a region by its handle and 2^32", uverbs.MethodQueryMR, []attr{
			{id: 0, value: 1<<32 | uint64(mr[0])}, {id: 1, len: 4, out: true}, {id: 2, len: 4, out: true}, {id: 3, len: 8, out: true}, {id: 4, len: 8, out: true},
		}, syscall.EINVAL, nil},
		{"a PD by its handle and 2^32", uverbs.MethodMlx5QueryPD, []attr{{id: ns, value: 1<<32 | uint64(pd)}, {id: ns | 1, len: 4, out: true}}, syscall.EINVAL, nil},
		{"a page by its handle and 2^32", uverbs.MethodMlx5FreeUAR, []attr{{id: ns, value: 1 << 32}}, syscall.ENOENT, nil},
		{"a port of mlx5", uverbs.MethodMlx5QueryPort, []attr{{ns, 4, 1, false}, {id: ns | 1, len: 40, out: true}}, 0, []uint64{1, 0}},
		{"a command of the firmware", uverbs.MethodID{Object: ns, Method: ns}, nil, syscall.EPROTONOSUPPORT, nil},
		{"a completion queue", uverbs.MethodID{Object: 3}, nil, syscall.EPROTONOSUPPORT, nil},
	} {
		out, errno := p.ioctl(c.method, c.attrs...)
		if errno != c.want || c.want == 0 && !slices.Equal(out, c.out) {
			t.Errorf("%s: %v, %#x; expected %v, %#x", c.what, errno, out, c.want, c.out)
		}
	}
	le := binary.LittleEndian
	for what, change := range map[string]func(b []byte) syscall.Errno{
		"another driver":  func(b []byte) syscall.Errno { le.PutUint32(b[16:], 2); return syscall.EINVAL },
		"another length":  func(b []byte) syscall.Errno { le.PutUint16(b, 25); return syscall.EINVAL },
		"reserved":        func(b []byte) syscall.Errno { b[8] = 1; return syscall.EPROTONOSUPPORT },
		"a flag":          func(b []byte) syscall.Errno { b[24+4] = 5; return syscall.EINVAL },
		"a bad pointer":   func(b []byte) syscall.Errno { le.PutUint64(b[24+16+8:], 8); return syscall.EFAULT },
		"as it should be": func([]byte) syscall.Errno { return 0 },
	} {
		if _, errno := p.ioctl(uverbs.MethodQueryPort, port...); errno != 0 {
			t.Fatal(errno)
		}
		want := change(p.mem[argument:])
		if r := p.file.Ioctl(uverbs.VerbsIoctl, p.base+argument); r.Errno != want {
			t.Errorf("%s: %v, expected %v", what, r.Errno, want)
		}
	}
	if r := p.file.Ioctl(uverbs.VerbsIoctl, 64); r.Errno != syscall.EFAULT {
		t.Errorf("an argument that is not mapped: %v", r.Errno)
	}
	closed(t, d, p)
}

// Events of a port go to each file of asynchronous events, those of an object to the first.
func TestAsyncFiles(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	out, errno := p.ioctl(uverbs.MethodAllocAsync, attr{id: 0})
	if errno != 0 {
		t.Fatal(errno)
	}
	n := p.file.(*node)
	n.portEvent(ib.EventPortErr, 1)
	n.context.raise(0x99, ib.EventQPFatal, n.context.async)
	b := make([]byte, 16)
	if k, err := unix.Read(int(out[0]), b); k != 16 || err != nil || binary.LittleEndian.Uint64(b) != 1 || b[8] != uint8(ib.EventPortErr) {
		t.Errorf("%d bytes, %v: % x", k, err, b)
	}
	if _, _, err := unix.Recvfrom(int(out[0]), b, unix.MSG_DONTWAIT); err != unix.EAGAIN {
		t.Errorf("an event of an object: %v, % x", err, b)
	}
	closed(t, d, p)
}

func TestMmap(t *testing.T) {
	d := openDevice(t, Config{ClockStart: 12345})
	p := play(t, d, arenaSz)
	if r := p.file.Mmap(0, 4096, true); r.Errno != syscall.EINVAL {
		t.Errorf("without a context: %v", r.Errno)
	}
	p.context()
	const command, page, uar = 8 + 12, 12, uint64(uverbs.Mlx5MmapEntries << 28)
	for _, c := range []struct {
		what         string
		offset       uint64
		length       int
		writable     bool
		want         syscall.Errno
		watch, clock bool
	}{
		{"the UAR", uar, 4096, true, 0, true, false},
		{"one more", uar + 1<<page, 4096, true, syscall.EINVAL, false, false},
		{"two pages", uar, 8192, true, syscall.EINVAL, false, false},
		{"half a page further", uar + 2048, 4096, true, syscall.EINVAL, false, false},
		{"a UAR that nobody allocated", uverbs.Mlx5MmapRegularPage << command, 4096, true, syscall.EINVAL, false, false},
		{"the core clock", uverbs.Mlx5MmapCoreClock << command, 4096, false, 0, false, true},
		{"the core clock, to write", uverbs.Mlx5MmapCoreClock << command, 4096, true, syscall.EPERM, false, false},
		{"the clock info", uverbs.Mlx5MmapClockInfo << command, 4096, false, 0, false, false},
		{"its next version", uverbs.Mlx5MmapClockInfo<<command | 1<<page, 4096, false, syscall.EOPNOTSUPP, false, false},
		{"device memory", uverbs.Mlx5MmapDeviceMem << command, 4096, true, syscall.EINVAL, false, false},
	} {
		r := p.file.Mmap(c.offset, c.length, c.writable)
		if r.Errno != c.want || r.Watch != c.watch || r.Clock != c.clock || (r.FD != nil) != (c.want == 0) {
			t.Errorf("%s: %+v", c.what, r)
		}
		if r.FD != nil {
			p.fds = append(p.fds, r.FD)
		}
	}
	info := mapPage(t, p, uverbs.Mlx5MmapClockInfo<<command)
	var got uverbs.Mlx5ClockInfo
	if _, err := binary.Decode(info, binary.LittleEndian, &got); err != nil {
		t.Fatal(err)
	}
	if got.Sign%2 != 0 || got.Cycles < 12345 || got.Mask != 1<<63-1 {
		t.Errorf("clock info %+v", got)
	}
	// 156.25 MHz: 6.4 ns a tick.
	if perTick := float64(got.Mult) / float64(uint64(1)<<got.Shift); math.Abs(perTick-6.4) > 1e-6 {
		t.Errorf("%v ns a tick", perTick)
	}
	closed(t, d, p)
}

func mapPage(t *testing.T, p *player, offset uint64) []byte {
	t.Helper()
	r := p.file.Mmap(offset, 4096, false)
	if r.Errno != 0 {
		t.Fatal(r.Errno)
	}
	defer r.FD.Close()
	mem, err := unix.Mmap(int(r.FD.Fd()), r.Offset, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// The counter is first + ns * Hz * (1 + ppb/1e9) / 1e9, to a tick in 2^32.
func TestClock(t *testing.T) {
	d := openDevice(t, Config{})
	defer d.Close()
	for _, c := range []struct{ hz, ppb, first int64 }{{1e9, 0, 0}, {156_250_000, 7000, 99}, {1e9, -250_000, 1 << 40}, {1e9, 100_000_000, 0}} {
		clock := newClock(d.backend, c.hz, c.ppb, uint64(c.first))
		for _, ns := range []int64{0, 1, 1000, 999_999_999, 3_600_000_000_000} {
			want := new(big.Rat).SetFrac(big.NewInt(c.hz), big.NewInt(1e9))
			want.Mul(want, big.NewRat(1_000_000_000+c.ppb, 1e9)).Mul(want, big.NewRat(ns, 1)).Add(want, big.NewRat(c.first, 1))
			exact, _ := want.Float64()
			if got := clock.atRaw(clock.start + uint64(ns)); math.Abs(float64(got)-exact) > 1+float64(ns)*0x1p-32+exact*1e-9 {
				t.Errorf("%+v: %d ticks after %d ns, expected %.1f", c, got, ns, exact)
			}
		}
	}
	// Completions are stamped by the back end, and read as the counter.
	before := d.ticks()
	stamp := d.clock.stamped(uint64(d.backend.Now()))
	after := d.ticks()
	if const1ms := uint64(d.model.clockHz / 1000); stamp+const1ms < before || stamp > after+const1ms {
		t.Errorf("a completion at %d, between %d and %d", stamp, before, after)
	}
}

// A program reads what was sent, and what it has not read can be withdrawn: what is
// left comes in order.
func TestEventFile(t *testing.T) {
	f, err := newEventFile(8)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	program, err := f.program()
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	event := func(key uint64) []byte { return binary.LittleEndian.AppendUint64(nil, key) }
	const many = 3000 // more than a socket holds
	for i := range uint64(many) {
		f.send(event(i % 3))
	}
	read := func() uint64 {
		var b [16]byte
		n, err := program.Read(b[:])
		if err != nil || n != 8 {
			t.Fatal(n, err)
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	for i := range uint64(10) {
		if got := read(); got != i%3 {
			t.Fatalf("event %d is %d", i, got)
		}
	}
	if n := f.withdraw(1); n != many/3-3 {
		t.Errorf("withdrew %d events, expected %d", n, many/3-3)
	}
	for i := range uint64(2 * 100) {
		if got, want := read(), []uint64{2, 0}[i%2]; got != want {
			t.Fatalf("then event %d is %d, expected %d", i, got, want)
		}
	}
	if n := f.withdraw(1); n != 0 {
		t.Errorf("withdrew %d events twice", n)
	}
}

// A completion event that the program has not read is not one that it has to acknowledge.
func TestEventsReported(t *testing.T) {
	d := openDevice(t, Config{})
	p := play(t, d, arenaSz)
	p.context()
	ch := int32(p.must(uverbs.CreateCompChannel, uverbs.ResponseReq{}, nil, 4, 0)[0])
	cq := p.cq(ch)
	q, errno := lookup[*completionQueue](&p.file.(*node).context.handles, cq)
	if errno != 0 {
		t.Fatal(errno)
	}
	for range 3 {
		q.onEvent()
	}
	b := make([]byte, 8)
	if _, err := unix.Read(int(ch), b); err != nil || binary.LittleEndian.Uint64(b) != 0xc0 {
		t.Fatal(err, b)
	}
	if r := p.must(uverbs.DestroyCQ, uverbs.DestroyReq{Handle: cq}, nil, 8, 0); r[0] != 1 || r[1] != 0 {
		t.Errorf("%d completion events and %d others reported, expected 1 and 0", r[0], r[1])
	}
	if _, _, err := unix.Recvfrom(int(ch), b, unix.MSG_DONTWAIT); err != unix.EAGAIN {
		t.Errorf("an event of a queue that is gone: %v", err)
	}
	closed(t, d, p)
}

func TestOpenRefuses(t *testing.T) {
	d := openDevice(t, Config{})
	defer d.Close()
	for _, c := range []Config{
		{Model: "cx9", Name: "mlx5_0", Backend: d.backend}, {Model: "cx5", Backend: d.backend}, {Model: "cx5", Name: "mlx5_0"},
		{Model: "cx5", Name: "mlx5_0", Backend: d.backend, ClockPPB: 1 << 40},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("opened %+v", c)
		}
	}
}
