//go:build linux

package virtual

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// A UAR page has four registers, of which queue pairs get two (MLX5_NON_FP_BFREGS_PER_UAR).
const (
	registerBytes = 512
	pageBytes     = 4096
)

// maxUARs is the largest number of UAR pages of a context.
const maxUARs = 1024

// uar is a page that programs ring doorbells on.
type uar struct {
	index int
	mem   []byte
	page  *mlx5.Page
}

// pages are the pages that a context's program maps: the core clock with the page that describes it
// to the program's library, the clock info, and UARs as the program allocates them. They lie
// in one memfd, in this order.
type pages struct {
	clock *clock
	file  *os.File
	mem   []byte // without the UARs
	uars  []*uar // by index, nil where free

	stop    chan struct{}
	stopped sync.WaitGroup
}

// The order of the pages before the UARs.
const (
	clockPage = iota
	clockDescription
	clockInfo
	otherPages
)

func newPages(c *clock) (*pages, error) {
	const size = otherPages * pageBytes
	fd, err := unix.MemfdCreate("sluice-virtual", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	p := &pages{clock: c, file: os.NewFile(uintptr(fd), "sluice-virtual"), stop: make(chan struct{})}
	if err := p.file.Truncate(size); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	if p.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		_ = p.file.Close()
		return nil, os.NewSyscallError("mmap", err)
	}
	description := guest.ClockPage{At: 0, Raw: c.start, Ticks: c.first, Mult: c.mult, Shift: clockShift}
	description.Set(p.other(clockDescription))
	p.refresh()
	if !c.simulated {
		p.stopped.Go(p.keepCurrent)
	}
	return p, nil
}

func (p *pages) other(i int) []byte { return p.mem[i*pageBytes:][:pageBytes:pageBytes] }

// allocUAR makes a UAR page.
func (p *pages) allocUAR(e *mlx5.Engine) (*uar, error) {
	i := slices.Index(p.uars, nil)
	if i < 0 {
		if i = len(p.uars); i == maxUARs {
			return nil, syscall.ENOMEM
		}
		if err := p.file.Truncate(int64(otherPages+i+1) * pageBytes); err != nil {
			return nil, err
		}
		p.uars = append(p.uars, nil)
	}
	mem, err := unix.Mmap(int(p.file.Fd()), int64(otherPages+i)*pageBytes, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	clear(mem)
	u := &uar{index: i, mem: mem}
	if u.page, err = e.AddPage(mem); err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	p.uars[i] = u
	return u, nil
}

// freeUAR ends the use of a page. If queue pairs still use it, it stays until all goes.
func (p *pages) freeUAR(u *uar) {
	if u.page.Remove() == nil {
		p.uars[u.index] = nil
		_ = unix.Munmap(u.mem)
	}
}

// uarOf returns the page with a number as programs have it, or nil.
func (p *pages) uarOf(number uint32) *uar {
	if number == 0 || int64(number) > int64(len(p.uars)) {
		return nil
	}
	return p.uars[number-1]
}

// number returns the page's number in commands, and offset its offset for mmap.
func (u *uar) number() uint32 { return uint32(u.index) + 1 }

func (u *uar) offset() uint64 { return uint64(uverbs.Mlx5MmapEntries<<16|u.index) * pageBytes }

// refreshEvery is the period at which the clock info changes, and the core clock where the
// program's library can't trap its readers.
const (
	refreshEvery = time.Second
	untrapped    = 10 * time.Microsecond
)

func (p *pages) keepCurrent() {
	tick := time.NewTimer(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		p.refresh()
		next := refreshEvery
		if guest.Untrapped(p.other(clockDescription)) {
			next = untrapped
		}
		tick.Reset(next)
	}
}

// refresh writes the clocks as they are now: mlx5_ib_clock_info, by which programs turn
// ticks into the time of day, and the core clock.
func (p *pages) refresh() {
	ticks, wall := p.clock.now()
	// ns = ticks * mult >> shift, as the kernel's driver has it.
	const shift = 24
	mult := infoMult(p.clock.mult, shift)
	page := p.other(clockInfo)
	sign := (*uint32)(unsafe.Pointer(&page[0]))
	now := atomic.AddUint32(sign, 1) // odd: being written
	info, err := binary.Append(nil, binary.LittleEndian, uverbs.Mlx5ClockInfo{
		Sign: now, NSec: uint64(wall), Cycles: ticks, Mult: mult, Shift: shift, Mask: 1<<clockBits - 1, OverflowPeriod: uint64(overflowPeriod),
	})
	if err == nil {
		copy(page[4:], info[4:])
	}
	atomic.AddUint32(sign, 1)
	core := p.other(clockPage)
	swapped := swapBytes(ticks)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&core[0])), swapped)
}

// overflowPeriod is the time for which a program may use clock info before it reads it
// again.
const overflowPeriod = 10 * time.Second

// infoMult is nanoseconds a tick, times 1<<shift.
func infoMult(ticksPerNano uint64, shift int) uint32 {
	// 2^shift / (mult / 2^clockShift), rounded
	return uint32((uint64(1)<<(shift+clockShift) + ticksPerNano/2) / ticksPerNano)
}

// swapBytes gives the bytes of v the other order: the counter is big-endian.
func swapBytes(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.NativeEndian.Uint64(b[:])
}

// mmap finds what a program maps: mlx5 has a command in the offset.
func (p *pages) mmap(offset uint64, length int, writable bool) guest.MapReply {
	const commandShift = 8
	bad := guest.MapReply{Errno: syscall.EINVAL}
	number := offset / pageBytes
	if offset%pageBytes != 0 || length != pageBytes {
		return bad
	}
	at := 0
	var reply guest.MapReply
	switch command, index := number>>commandShift, number&0xff; {
	case number>>16 == uverbs.Mlx5MmapEntries:
		u := p.uarOf(uint32(number&0xffff) + 1)
		if u == nil {
			return bad
		}
		at, reply.Cookie, reply.Watch = otherPages+u.index, uint64(u.index), true
	case command == uverbs.Mlx5MmapCoreClock, command == uverbs.Mlx5MmapClockInfo:
		if writable {
			return guest.MapReply{Errno: syscall.EPERM}
		}
		if index != 0 {
			return guest.MapReply{Errno: syscall.EOPNOTSUPP}
		}
		at, reply.Cookie = clockInfo, notUAR
		if command == uverbs.Mlx5MmapCoreClock {
			at, reply.Clock = clockPage, true
		}
	default: // device memory, and the pages of a driver that gives them unasked
		return bad
	}
	fd, err := unix.FcntlInt(p.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return guest.MapReply{Errno: syscall.ENOMEM}
	}
	reply.FD, reply.Offset = os.NewFile(uintptr(fd), "sluice-virtual"), int64(at)*pageBytes
	return reply
}

// notUAR is the cookie of a mapping that nobody watches.
const notUAR = 1 << 32

func (p *pages) close() {
	close(p.stop)
	p.stopped.Wait()
	for _, u := range p.uars {
		if u != nil {
			p.freeUAR(u) // its users are gone
		}
	}
	_ = unix.Munmap(p.mem)
	_ = p.file.Close()
}
