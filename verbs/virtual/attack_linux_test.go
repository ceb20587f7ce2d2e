package virtual

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// mark is the content of unregistered memory of an attacked program.
var mark = []byte("\xa5not registered\x5a")

// victim is a program with a connected queue pair, to which anything happens afterwards.
type victim struct {
	*player
	pd, cq, qp, number uint32
	keys               [2]uint32
	uars               [][]byte
}

func newVictim(t *testing.T, d *Device) *victim {
	v := &victim{player: play(t, d, arenaSz)}
	for at := secret; at < arenaSz; at += len(mark) {
		copy(v.mem[at:], mark)
	}
	v.context()
	v.pd = v.player.pd()
	v.cq = v.player.cq(-1)
	v.qp, v.number = v.player.qp(ib.RC, v.pd, v.cq)
	r := v.must(uverbs.RegMR, uverbs.RegMRReq{Start: v.base + data, Length: secret - data, HCAVA: v.base + data, PDHandle: v.pd, AccessFlags: 15}, nil, 12, 0)
	v.keys = [2]uint32{r[1], r[2]}
	_, second := v.allocUAR()
	for _, offset := range []uint64{second - pageBytes, second} {
		m := v.file.Mmap(offset, pageBytes, true)
		if m.Errno != 0 {
			t.Fatal(m.Errno)
		}
		mem, err := unix.Mmap(int(m.FD.Fd()), m.Offset, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		_ = m.FD.Close()
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		v.uars = append(v.uars, mem)
	}
	return v
}

func (v *victim) connect(d *Device, peer *victim) {
	gid := d.gids()[0].As16()
	v.must(uverbs.ModifyQP, uverbs.ModifyQPReq{Handle: v.qp, AttrMask: uverbs.QPState | initAttributes | uverbs.QPAccessFlags, State: uint8(ib.Init), PortNum: 1, AccessFlags: 15}, nil, 0, 0)
	v.must(uverbs.ModifyQP, uverbs.ModifyQPReq{
		Handle: v.qp, AttrMask: uverbs.QPState | connectOfUC | responderOfRC, State: uint8(ib.RTR), PathMTU: 3, DestQPN: peer.number, MaxDestRdAtomic: 4, MinRNRTimer: 1,
		Dest: uverbs.QPDest{DGID: gid, IsGlobal: 1, PortNum: 1},
	}, nil, 0, 0)
	v.must(uverbs.ModifyQP, uverbs.ModifyQPReq{Handle: v.qp, AttrMask: uverbs.QPState | readyToSendOfRC, State: uint8(ib.RTS), Timeout: 8, RetryCnt: 1, RNRRetry: 1, MaxRdAtomic: 4}, nil, 0, 0)
}

// script is a fuzzer's script of a program.
type script struct{ rest []byte }

func (s *script) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *script) take(n int) []byte {
	b := make([]byte, n)
	s.rest = s.rest[copy(b, s.rest):]
	return b
}

// requests that a script changes, so that some get past the first check. None of them
// places rings or regions where the marked memory is: a program that asks for that has
// asked for it.
func (v *victim) request(kind byte) (op uverbs.Op, core, driver any) {
	createQP, rings := v.qpRequest(ib.QPType(2+kind%3), v.pd, v.cq)
	all := []struct {
		op           uverbs.Op
		core, driver any
	}{
		{uverbs.QueryDeviceEx, uverbs.QueryDeviceExReq{}, nil},
		{uverbs.QueryPort, uverbs.QueryPortReq{PortNum: 1}, nil},
		{uverbs.AllocPD, uverbs.ResponseReq{}, nil},
		{uverbs.DeallocPD, uverbs.HandleReq{Handle: v.pd}, nil},
		{uverbs.DeregMR, uverbs.HandleReq{Handle: 3}, nil},
		{uverbs.CreateCompChannel, uverbs.ResponseReq{}, nil},
		{uverbs.DestroyCQ, uverbs.DestroyReq{Handle: v.cq}, nil},
		{uverbs.CreateQP, createQP, rings},
		{uverbs.QueryQP, uverbs.QueryQPReq{Handle: v.qp}, nil},
		{uverbs.ModifyQP, uverbs.ModifyQPReq{Handle: v.qp, AttrMask: uverbs.QPState, State: kind % 8}, nil},
		{uverbs.ModifyQPEx, uverbs.ModifyQPExReq{Base: uverbs.ModifyQPReq{Handle: v.qp, AttrMask: uverbs.QPState, State: kind % 8}}, uverbs.Mlx5ModifyQPReq{}},
		{uverbs.DestroyQP, uverbs.DestroyReq{Handle: v.qp}, nil},
		{uverbs.QuerySRQ, uverbs.QuerySRQReq{Handle: 4}, nil},
		{uverbs.DestroySRQ, uverbs.DestroyReq{Handle: 4}, nil},
	}
	r := all[int(kind)%len(all)]
	return r.op, r.core, r.driver
}

// step has the program do one thing: a command, whole or with bytes changed; bytes in a
// ring or a doorbell record; a doorbell.
func (v *victim) step(s *script) {
	switch kind := s.byte(); kind % 7 {
	case 0: // a command as it should be
		op, core, driver := v.request(s.byte())
		v.do(op, core, driver, 304, 104)
	case 1: // any bytes
		v.write(s.take(int(s.byte())))
	case 2: // a command with a byte changed, but in what places rings
		op, core, driver := v.request(s.byte())
		body := encode(core)
		body[int(s.byte())%len(body)] ^= s.byte()
		v.do(op, body, driver, 304, 104)
	case 3: // a send WQE, and its doorbell
		v.wqe(s)
	case 4: // any bytes in rings and records
		at := int(binary.LittleEndian.Uint16(s.take(2))) % (data - 64)
		copy(v.mem[at:], s.take(int(s.byte())%64))
	case 6: // an ioctl with a byte changed, but where it is
		method := slices.SortedFunc(maps.Keys(uverbs.Specs), func(a, b uverbs.MethodID) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Method, b.Method))
		})[int(s.byte())%len(uverbs.Specs)]
		var attrs []attr
		for id, x := range uverbs.Specs[method] {
			attrs = append(attrs, attr{id: id, len: x.Size, value: uint64(s.byte() % 8), out: x.Kind == uverbs.AttrOut})
		}
		slices.SortFunc(attrs, func(a, b attr) int { return cmp.Compare(a.id, b.id) })
		if len(attrs) > 0 {
			a := &attrs[int(s.byte())%len(attrs)]
			a.len, a.id = int(s.byte()), a.id^uint16(s.byte()&1)
		}
		v.ioctl(method, attrs...)
	case 5: // any store to any page
		page := v.uars[int(s.byte())%len(v.uars)]
		at := int(binary.LittleEndian.Uint16(s.take(2))) % 4096 &^ 7
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&page[at])), binary.LittleEndian.Uint64(s.take(8)))
	}
}

// Segments of a WQE, in big-endian order: control, remote address, and pieces.
func (v *victim) wqe(s *script) {
	const sendRing, sendRecord = qpRing + 16*16, qpDB + 4
	counter := uint16(binary.BigEndian.Uint32(v.mem[sendRecord:]))
	w := v.mem[sendRing+int(counter)%16*64:][:64]
	opcode, flags, spread := s.byte(), s.byte(), s.byte()
	binary.BigEndian.PutUint32(w, uint32(counter)<<8|uint32([]byte{8, 10, 16, 17, 18, 9, opcode}[opcode%7]))
	binary.BigEndian.PutUint32(w[4:], v.number<<8|uint32(1+spread%6))
	binary.BigEndian.PutUint32(w[8:], uint32(flags))
	// The addresses and keys are those of the region, changed here and there.
	near := func() uint64 { return v.base + data + uint64(int16(binary.LittleEndian.Uint16(s.take(2))))*4 }
	key := func(k uint32) uint32 {
		if b := s.byte(); b > 200 {
			return k ^ 1<<(b%32)
		}
		return k
	}
	binary.BigEndian.PutUint64(w[16:], near())
	binary.BigEndian.PutUint32(w[24:], key(v.keys[1]))
	for at := 32; at < 64; at += 16 {
		binary.BigEndian.PutUint32(w[at:], uint32(binary.LittleEndian.Uint16(s.take(2)))*uint32(1+spread/64))
		binary.BigEndian.PutUint32(w[at+4:], key(v.keys[0]))
		binary.BigEndian.PutUint64(w[at+8:], near())
	}
	binary.BigEndian.PutUint32(v.mem[sendRecord:], uint32(counter+uint16(1+spread%2)))
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&v.uars[0][0x800])), binary.LittleEndian.Uint64(w))
}

// FuzzProgram has two programs, connected to each other, do anything to the device that
// their memory and its nodes let them: it neither fails, nor reaches memory that was not
// registered, nor keeps anything when they are gone.
func FuzzProgram(f *testing.F) {
	f.Add([]byte("\x03\x00\x0c\x03\x00\x00\x00\x40\x00\x00\x00\x00\x00\x03\x02\x0c\x03\x10\x00\x00\x40\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x09\x01\x10\x12\x00\x00\x00\x05\x01\x00\x08AAAAAAAA\x02\x07\x10\xff\x00\x0b\x00\x06\x00\x03"))
	f.Add(bytes.Repeat([]byte("\x03\x03\x08\x01\x00\x20\x00\xff\xff\x00\x00\x80\x00"), 30))
	f.Fuzz(func(t *testing.T, input []byte) {
		d := openDevice(t, Config{})
		a, b := newVictim(t, d), newVictim(t, d)
		a.connect(d, b)
		b.connect(d, a)
		s := script{input[:min(len(input), 4096)]}
		for both := []*victim{a, b}; len(s.rest) > 0; both[0], both[1] = both[1], both[0] {
			both[0].step(&s)
		}
		for _, v := range []*victim{a, b} { // whatever is under way has to end
			v.do(uverbs.QueryDevice, uverbs.ResponseReq{}, nil, 176, 0)
			v.file.Close()
		}
		if err := d.Close(); err != nil {
			t.Errorf("something was left over: %v", err)
		}
		for _, v := range []*victim{a, b} {
			for at := secret; at+len(mark) <= arenaSz; at += len(mark) {
				if !bytes.Equal(v.mem[at:at+len(mark)], mark) {
					t.Fatalf("memory that was not registered was written at %#x: % x", at, v.mem[at:at+len(mark)])
				}
			}
			if at := bytes.Index(v.mem[:secret], mark[:9]); at >= 0 {
				t.Fatalf("memory that was not registered was read, and written to %#x", at)
			}
		}
	})
}
