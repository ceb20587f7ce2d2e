package virtual

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// openDevice opens a device at a free address of the loopback.
func openDevice(t testing.TB, c Config) *Device {
	t.Helper()
	for last := 1; last <= 250; last++ {
		soft, err := verbs.Open(fmt.Sprintf("soft:127.9.8.%d", last))
		if errors.Is(err, verbs.ErrBusy) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Model, c.Name, c.Backend = "cx5", "mlx5_0", soft
		d, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Fatal("no address of 127.9.8.0/24 is free")
	return nil
}

// arena is the memory of a program that this test plays: a part of the test's own, of
// which nothing else can be reached.
type arena struct {
	mem  []byte
	base uint64
}

func newArena(t testing.TB, size int) *arena {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return &arena{mem, uint64(uintptr(unsafe.Pointer(&mem[0])))}
}

func (a *arena) at(addr uint64, n int) ([]byte, error) {
	if addr < a.base || addr-a.base > uint64(len(a.mem)) || uint64(n) > uint64(len(a.mem))-(addr-a.base) {
		return nil, syscall.EFAULT
	}
	return a.mem[addr-a.base:][:n], nil
}

func (a *arena) ReadMemory(p []byte, addr uint64) error {
	from, err := a.at(addr, len(p))
	if err == nil {
		copy(p, from)
	}
	return err
}

func (a *arena) WriteMemory(p []byte, addr uint64) error {
	to, err := a.at(addr, len(p))
	if err == nil {
		copy(to, p)
	}
	return err
}

// player is a program that this test plays.
type player struct {
	t testing.TB
	*arena
	file guest.File
	fds  []*os.File
	uar  uint32 // the number of its page
}

func play(t testing.TB, d *Device, size int) *player {
	t.Helper()
	p := &player{t: t, arena: newArena(t, size)}
	file, _, errno := d.openNode(&guest.Process{PID: os.Getpid(), Memory: p.arena})
	if errno != 0 {
		t.Fatal(errno)
	}
	p.file = file
	t.Cleanup(func() {
		for _, f := range p.fds {
			_ = f.Close()
		}
	})
	return p
}

func encode(parts ...any) (all []byte) {
	for _, v := range parts {
		if v != nil {
			b, err := binary.Append(nil, binary.LittleEndian, v)
			if err != nil {
				panic(err)
			}
			all = append(all, b...)
		}
	}
	return all
}

// do writes a command of either form and returns the response.
func (p *player) do(op uverbs.Op, core, driver any, coreOut, driverOut int) ([]byte, syscall.Errno) {
	const somewhere = 0x1000
	body, last := encode(core), encode(driver)
	head := binary.LittleEndian.AppendUint32(nil, uint32(op))
	in, out := (8+len(body)+len(last))/4, (coreOut+driverOut)/4
	if op&uverbs.Extended != 0 {
		in, out = len(body)/8, coreOut/8
	} else if coreOut > 0 && len(body) >= 8 {
		binary.LittleEndian.PutUint64(body, somewhere)
	}
	head = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(head, uint16(in)), uint16(out))
	if op&uverbs.Extended != 0 {
		to := uint64(somewhere)
		if coreOut+driverOut == 0 {
			to = 0
		}
		head = binary.LittleEndian.AppendUint64(head, to)
		head = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(head, uint16(len(last)/8)), uint16(driverOut/8))
		head = binary.LittleEndian.AppendUint32(head, 0)
	}
	return p.write(append(append(head, body...), last...))
}

func (p *player) write(cmd []byte) ([]byte, syscall.Errno) {
	r := p.file.Write(cmd)
	if r.FD != nil {
		p.fds = append(p.fds, r.FD)
		binary.LittleEndian.PutUint32(r.Data[r.FDAt:], uint32(r.FD.Fd()))
	}
	return r.Data, r.Errno
}

// must is do of a command that succeeds; it returns the response's words.
func (p *player) must(op uverbs.Op, core, driver any, coreOut, driverOut int) []uint32 {
	p.t.Helper()
	data, errno := p.do(op, core, driver, coreOut, driverOut)
	if errno != 0 {
		p.t.Fatalf("command %#x: %v", uint32(op), errno)
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return words
}

func (p *player) context() {
	p.t.Helper()
	p.must(uverbs.GetContext, uverbs.GetContextReq{}, uverbs.Mlx5ContextReq{TotalNumBFRegs: 16, NumLowLatencyBFRegs: 4, MaxCQEVersion: 1, LibCaps: 3}, 8, 72)
	p.uar, _ = p.allocUAR()
}

// argument is the address of a player's ioctl; behind it lies the ioctl's response.
const argument = 0x2000

// attr is an attribute of an ioctl: a value in it, or room for one of some bytes.
type attr struct {
	id    uint16
	len   int
	value uint64
	out   bool
}

// ioctl calls a method, and returns what it returned for each attribute.
func (p *player) ioctl(m uverbs.MethodID, attrs ...attr) (out []uint64, errno syscall.Errno) {
	const mandatory = 1
	le := binary.LittleEndian
	b := le.AppendUint16(nil, uint16(uverbs.CallHeaderBytes+len(attrs)*uverbs.AttrBytes))
	b = le.AppendUint16(le.AppendUint16(b, m.Object), m.Method)
	b = le.AppendUint16(b, uint16(len(attrs)))
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(le.AppendUint32(b, 1), 0)
	room := p.base + argument + 0x800
	for i := range attrs {
		a := &attrs[i]
		if a.out {
			a.value = room
			room += uint64(a.len+7) &^ 7
		}
		b = le.AppendUint16(le.AppendUint16(b, a.id), uint16(a.len))
		b = le.AppendUint64(le.AppendUint32(b, mandatory), a.value)
	}
	copy(p.mem[argument:], b)
	r := p.file.Ioctl(uverbs.VerbsIoctl, p.base+argument)
	if r.FD != nil {
		p.fds = append(p.fds, r.FD)
		le.PutUint32(r.Data[r.FDAt:], uint32(r.FD.Fd()))
	}
	for i, a := range attrs {
		at := a.value - p.base
		switch {
		case r.Errno != 0:
		case a.out && a.len >= 8:
			out = append(out, le.Uint64(p.mem[at:]))
		case a.out:
			out = append(out, uint64(le.Uint32(p.mem[at:])))
		default:
			out = append(out, le.Uint64(r.Data[uverbs.CallHeaderBytes+i*uverbs.AttrBytes+8:]))
		}
	}
	return out, r.Errno
}

// allocUAR allocates a page, and returns its number and where it is mapped from.
func (p *player) allocUAR() (number uint32, offset uint64) {
	p.t.Helper()
	const ns = uverbs.DriverNS
	out, errno := p.ioctl(uverbs.MethodMlx5AllocUAR,
		attr{id: ns}, attr{ns | 1, 8, uverbs.UARBlueFlame, false}, attr{id: ns | 2, len: 8, out: true}, attr{id: ns | 3, len: 4, out: true}, attr{id: ns | 4, len: 4, out: true})
	if errno != 0 {
		p.t.Fatalf("no UAR: %v", errno)
	}
	return uint32(out[4]), out[2]
}

func (p *player) pd() uint32 { return p.must(uverbs.AllocPD, uverbs.ResponseReq{}, nil, 4, 4)[0] }

// Where a player has its rings.
const (
	cqRing  = 0
	cqDB    = 0x8000
	qpRing  = 0x10000
	qpDB    = 0x8040
	data    = 0x20000 // registered
	secret  = 0x30000 // not
	arenaSz = 0x40000
)

func (p *player) cq(channel int32) uint32 {
	return p.must(uverbs.CreateCQ, uverbs.CreateCQReq{UserHandle: 0xc0, CQE: 63, CompChannel: channel},
		uverbs.Mlx5CreateCQReq{BufAddr: p.base + cqRing, DBAddr: p.base + cqDB, CQESize: 64}, 8, 8)[0]
}

func (p *player) qpRequest(kind ib.QPType, pd, cq uint32) (uverbs.CreateQPReq, uverbs.Mlx5CreateQPReq) {
	return uverbs.CreateQPReq{CreateQPBody: uverbs.CreateQPBody{
			UserHandle: 0x99, PDHandle: pd, SendCQHandle: cq, RecvCQHandle: cq, MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: uint8(kind),
		}}, uverbs.Mlx5CreateQPReq{
			BufAddr: p.base + qpRing, DBAddr: p.base + qpDB, SQWQECount: 16, RQWQECount: 16, RQWQEShift: 4, UIDX: 7,
			Flags: uverbs.Mlx5QPUARPageIndex, BFRegIndex: p.uar,
		}
}

func (p *player) qp(kind ib.QPType, pd, cq uint32) (handle, number uint32) {
	core, driver := p.qpRequest(kind, pd, cq)
	r := p.must(uverbs.CreateQP, core, driver, 32, 32)
	return r[0], r[1]
}
