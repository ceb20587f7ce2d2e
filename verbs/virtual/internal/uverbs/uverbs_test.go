package uverbs

import (
	"encoding/binary"
	"reflect"
	"syscall"
	"testing"
)

// sizeof holds the sizes of the headers' structures by a C compiler (rdma-core 44).
var sizeof = []struct {
	v    any
	size int
}{
	{GetContextReq{}, 8}, {GetContextResp{}, 8}, {QueryDeviceResp{}, 176}, {QueryDeviceExReq{}, 8}, {QueryDeviceExResp{}, 304},
	{QueryPortReq{}, 16}, {QueryPortResp{}, 40}, {RegMRReq{}, 40}, {RegMRResp{}, 12}, {ReregMRReq{}, 48}, {ReregMRResp{}, 8},
	{AllocMWReq{}, 16}, {CreateCQReq{}, 32}, {CreateCQResp{}, 8}, {CreateCQExReq{}, 32}, {CreateCQExResp{}, 16},
	{ResizeCQReq{}, 16}, {ResizeCQResp{}, 8}, {ModifyCQExReq{}, 16}, {DestroyReq{}, 16}, {DestroyCQResp{}, 8}, {DestroyResp{}, 4},
	{CreateQPReq{}, 56}, {CreateQPExReq{}, 64}, {CreateQPResp{}, 32}, {CreateQPExResp{}, 40}, {QPDest{}, 32},
	{QueryQPReq{}, 16}, {QueryQPResp{}, 128}, {ModifyQPReq{}, 112}, {ModifyQPExReq{}, 120}, {ModifyQPExResp{}, 8},
	{AHAttr{}, 32}, {CreateAHReq{}, 56}, {McastReq{}, 24}, {CreateSRQReq{}, 32}, {CreateXSRQReq{}, 48}, {CreateSRQResp{}, 16},
	{ModifySRQReq{}, 16}, {QuerySRQReq{}, 16}, {QuerySRQResp{}, 16}, {CompEvent{}, 8}, {AsyncEvent{}, 16},
	{Mlx5ContextReq{}, 32}, {Mlx5ContextResp{}, 72}, {Mlx5AllocPDResp{}, 4}, {Mlx5QueryDeviceResp{}, 104},
	{Mlx5CreateCQReq{}, 32}, {Mlx5CreateCQResp{}, 8}, {Mlx5ResizeCQReq{}, 16}, {Mlx5CreateSRQReq{}, 32}, {Mlx5CreateSRQResp{}, 8},
	{Mlx5CreateQPReq{}, 56}, {Mlx5CreateQPResp{}, 40}, {Mlx5ModifyQPReq{}, 16}, {Mlx5ModifyQPResp{}, 16}, {Mlx5CreateAHResp{}, 16},
	{Mlx5ClockInfo{}, 56},
}

func TestSizes(t *testing.T) {
	for _, s := range sizeof {
		if got := Sizeof(s.v); got != s.size {
			t.Errorf("%T has %d bytes, expected %d", s.v, got, s.size)
		}
	}
}

// legacy is a command of the first form.
func legacy(op Op, out int, body ...byte) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(op))
	p = binary.LittleEndian.AppendUint16(p, uint16((8+len(body))/4))
	return append(binary.LittleEndian.AppendUint16(p, uint16(out/4)), body...)
}

// extended is one of the second form, whose body ends in driver bytes of the driver's.
func extended(op Op, to uint64, out, driver, driverOut int, body ...byte) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(op))
	for _, n := range []int{(len(body) - driver) / 8, out / 8} {
		p = binary.LittleEndian.AppendUint16(p, uint16(n))
	}
	p = binary.LittleEndian.AppendUint64(p, to)
	for _, n := range []int{driver / 8, driverOut / 8} {
		p = binary.LittleEndian.AppendUint16(p, uint16(n))
	}
	return append(binary.LittleEndian.AppendUint32(p, 0), body...)
}

func TestParse(t *testing.T) {
	reserved := extended(ModifyCQEx, 0, 0, 0, 0, make([]byte, 16)...)
	reserved[20] = 1
	for name, c := range map[string]struct {
		p    []byte
		want syscall.Errno
	}{
		"nothing":                        {nil, syscall.EINVAL},
		"half a header":                  {make([]byte, 7), syscall.EINVAL},
		"bits outside the command":       {legacy(1<<8|AllocPD, 4, make([]byte, 8)...), syscall.EINVAL},
		"a number beyond the last":       {legacy(41, 0), syscall.EINVAL},
		"an extension beyond the last":   {legacy(Extended|58, 0), syscall.EINVAL},
		"a command that is not there":    {legacy(6, 0), syscall.EOPNOTSUPP},
		"an extension that is not there": {extended(Extended|2, 0, 0, 0, 0), syscall.EOPNOTSUPP},
		"a length that is not its own":   {append(legacy(AllocPD, 4, make([]byte, 8)...), 0), syscall.EINVAL},
		"a short request":                {legacy(AllocPD, 4, make([]byte, 4)...), syscall.ENOSPC},
		"no room for the response":       {legacy(QueryDevice, 172, make([]byte, 8)...), syscall.ENOSPC},
		"whole":                          {legacy(AllocPD, 4, make([]byte, 8)...), 0},
		"with the driver's parts":        {legacy(AllocPD, 8, make([]byte, 24)...), 0},
		"half an extended header":        {legacy(ModifyCQEx, 0, make([]byte, 8)...), syscall.EINVAL},
		"room without an address":        {extended(QueryDeviceEx, 0, 184, 0, 0, make([]byte, 8)...), syscall.EINVAL},
		"an address without room":        {extended(QueryDeviceEx, 1, 0, 0, 0, make([]byte, 8)...), syscall.EINVAL},
		"a reserved field that is set":   {reserved, syscall.EINVAL},
		"a short extended request":       {extended(ModifyCQEx, 0, 0, 8, 0, make([]byte, 16)...), syscall.ENOSPC},
		"a short extended response":      {extended(QueryDeviceEx, 1, 176, 0, 8, make([]byte, 8)...), syscall.ENOSPC},
		"an extended command":            {extended(QueryDeviceEx, 1, 184, 0, 104, make([]byte, 8)...), 0},
	} {
		if _, got := Parse(c.p); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}

// What libibverbs 44 and libmlx5 write to make a completion queue: the driver's part
// follows the request at once, and its response the other one.
func TestCreateCQ(t *testing.T) {
	body := binary.LittleEndian.AppendUint64(nil, 0x7000) // response
	body = binary.LittleEndian.AppendUint64(body, 0x1234) // user_handle
	for _, n := range []uint32{127, 3, 0xffffffff, 0} {
		body = binary.LittleEndian.AppendUint32(body, n)
	}
	body = binary.LittleEndian.AppendUint64(body, 0xa000) // buf_addr
	body = binary.LittleEndian.AppendUint64(body, 0xb000) // db_addr
	body = append(binary.LittleEndian.AppendUint32(body, 64), make([]byte, 12)...)
	m, errno := Parse(legacy(CreateCQ, 8+8+4, body...))
	if errno != 0 || m.To != 0x7000 {
		t.Fatal(errno, m.To)
	}
	var req CreateCQReq
	var drv Mlx5CreateCQReq
	if e1, e2 := m.Request(&req), m.Driver(&drv); e1 != 0 || e2 != 0 {
		t.Fatal(e1, e2)
	}
	if want := (CreateCQReq{Response: 0x7000, UserHandle: 0x1234, CQE: 127, CompVector: 3, CompChannel: -1}); req != want {
		t.Errorf("%+v, expected %+v", req, want)
	}
	if want := (Mlx5CreateCQReq{BufAddr: 0xa000, DBAddr: 0xb000, CQESize: 64}); drv != want {
		t.Errorf("%+v, expected %+v", drv, want)
	}
	got := m.Response(CreateCQResp{Handle: 1, CQE: 127}, Mlx5CreateCQResp{CQN: 9})
	// The program left 4 bytes more than there is to say.
	if want := []byte{1, 0, 0, 0, 127, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("% x, expected % x", got, want)
	}
}

func TestUnreadBytesAreRefused(t *testing.T) {
	body := make([]byte, 24)
	m, _ := Parse(extended(ModifyCQEx, 0, 0, 0, 0, body...))
	var req ModifyCQExReq
	if errno := m.Request(&req); errno != 0 {
		t.Errorf("zeros behind the request: %v", errno)
	}
	body[20] = 1
	m, _ = Parse(extended(ModifyCQEx, 0, 0, 0, 0, body...))
	if errno := m.Request(&req); errno != syscall.EOPNOTSUPP {
		t.Errorf("a request of a later header: %v, expected EOPNOTSUPP", errno)
	}
}

// An earlier libmlx5 sends less of the driver's part, and has room for less.
func TestShorterDriver(t *testing.T) {
	m, errno := Parse(legacy(GetContext, 8+40, append(make([]byte, 8), 16, 0, 0, 0, 4, 0, 0, 0)...))
	if errno != 0 {
		t.Fatal(errno)
	}
	var req Mlx5ContextReq
	if errno := m.Driver(&req); errno != 0 || req != (Mlx5ContextReq{TotalNumBFRegs: 16, NumLowLatencyBFRegs: 4}) {
		t.Errorf("%v, %+v", errno, req)
	}
	if got := m.Response(GetContextResp{AsyncFD: 1}, Mlx5ContextResp{QPTabSize: 5, CQEVersion: 1}); len(got) != 48 || got[8] != 5 {
		t.Errorf("% x", got)
	}
}

// requests has a structure for each command that has one.
var requests = map[Op]func() (core, driver any){
	GetContext: func() (any, any) { return &GetContextReq{}, &Mlx5ContextReq{} },
	QueryPort:  func() (any, any) { return &QueryPortReq{}, nil },
	RegMR:      func() (any, any) { return &RegMRReq{}, nil }, ReregMR: func() (any, any) { return &ReregMRReq{}, nil },
	CreateCQ: func() (any, any) { return &CreateCQReq{}, &Mlx5CreateCQReq{} }, CreateCQEx: func() (any, any) { return &CreateCQExReq{}, &Mlx5CreateCQReq{} },
	ResizeCQ: func() (any, any) { return &ResizeCQReq{}, &Mlx5ResizeCQReq{} }, ModifyCQEx: func() (any, any) { return &ModifyCQExReq{}, nil },
	CreateQP: func() (any, any) { return &CreateQPReq{}, &Mlx5CreateQPReq{} }, CreateQPEx: func() (any, any) { return &CreateQPExReq{}, &Mlx5CreateQPReq{} },
	ModifyQP: func() (any, any) { return &ModifyQPReq{}, nil }, ModifyQPEx: func() (any, any) { return &ModifyQPExReq{}, &Mlx5ModifyQPReq{} },
	CreateSRQ: func() (any, any) { return &CreateSRQReq{}, &Mlx5CreateSRQReq{} }, CreateXSRQ: func() (any, any) { return &CreateXSRQReq{}, &Mlx5CreateSRQReq{} },
	CreateAH: func() (any, any) { return &CreateAHReq{}, nil },
}

// FuzzParse holds what a program may write to: no panic, no response longer than the
// room the program left, and no part of the message outside what was written.
func FuzzParse(f *testing.F) {
	for op, form := range forms {
		if op&Extended != 0 {
			f.Add(extended(op, 4096, (form.out+7)&^7, 0, 0, make([]byte, (form.in+7)&^7)...))
			continue
		}
		f.Add(legacy(op, form.out+16, make([]byte, form.in+16)...))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		m, errno := Parse(p)
		if errno != 0 {
			return
		}
		if n := len(m.core) + len(m.driver); n > len(p) {
			t.Errorf("parts of %d bytes in a message of %d", n, len(p))
		}
		if make := requests[m.Op]; make != nil {
			core, driver := make()
			m.Request(core)
			if driver != nil {
				m.Driver(driver)
			}
		}
		if got := m.Response(QueryDeviceExResp{}, Mlx5QueryDeviceResp{}); len(got) != m.CoreOut()+m.DriverOut() {
			t.Errorf("a response of %d bytes for %d and %d", len(got), m.CoreOut(), m.DriverOut())
		}
	})
}

// FuzzCall takes any bytes for an ioctl: what is taken has all that its method asks for.
func FuzzCall(f *testing.F) {
	call := binary.LittleEndian.AppendUint64(nil, 24+2*16|2<<48)
	call = append(call, make([]byte, 8)...)
	call = append(call, 1, 0, 0, 0, 0, 0, 0, 0)
	call[4] = 2 // query_port
	call = append(call, 0, 0, 8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	call = append(call, 1, 0, 48, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	if _, errno := ParseCall(call); errno != 0 {
		f.Fatal(errno)
	}
	f.Add(call)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < CallHeaderBytes {
			return
		}
		if n, errno := CallBytes(b); errno != 0 || n > len(b) {
			return
		}
		c, errno := ParseCall(b)
		if errno != 0 {
			return
		}
		for id, s := range Specs[c.MethodID] {
			i, a := c.Find(id)
			if a == nil && !s.Optional || a != nil && CallHeaderBytes+(i+1)*AttrBytes > len(b) {
				t.Errorf("attribute %#x of %v", id, c.MethodID)
			}
			if v := c.In(id); a != nil && s.Kind == AttrIn && s.Size < 8 && v>>(8*s.Size) != 0 {
				t.Errorf("attribute %#x of %v is %#x", id, c.MethodID, v)
			}
		}
	})
}
