//go:build linux

package virtual

import (
	"encoding/binary"
	"os"
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

// A UAR page has two registers that queue pairs get (MLX5_NON_FP_BFREGS_PER_UAR), of the
// four that it has room for.
const (
	registersPerPage     = 2
	registerSlotsPerPage = 4
	registerBytes        = 512
	pageBytes            = 4096
)

// uar is a page that programs ring doorbells on.
type uar struct {
	mem  []byte
	page *mlx5.Page
}

// pages are what a context's program maps: the UARs, the core clock with the page that
// describes it to the program's library, and the clock info. They lie in one memfd, in
// this order.
type pages struct {
	clock *clock
	file  *os.File
	mem   []byte
	uars  []uar

	mu        sync.Mutex
	inUse     []int // queue pairs of each register
	dedicated int   // the first register that serves one queue pair alone

	stop    chan struct{}
	stopped sync.WaitGroup
}

// The order of the pages behind the UARs.
const (
	clockPage = iota
	clockDescription
	clockInfo
	otherPages
)

func newPages(c *clock, registers, lowLatency int) (*pages, error) {
	n := registers / registersPerPage
	size := (n + otherPages) * pageBytes
	fd, err := unix.MemfdCreate("sluice-virtual", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	p := &pages{clock: c, file: os.NewFile(uintptr(fd), "sluice-virtual"), inUse: make([]int, registers), stop: make(chan struct{})}
	if err := p.file.Truncate(int64(size)); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	if p.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		_ = p.file.Close()
		return nil, os.NewSyscallError("mmap", err)
	}
	// Register 0 is for all, and rings doorbells only; then come those that queue pairs
	// share, and last those of one queue pair each.
	p.dedicated = max(registers-lowLatency, 1)
	for i := range n {
		p.uars = append(p.uars, uar{mem: p.mem[i*pageBytes:][:pageBytes:pageBytes]})
	}
	description := guest.ClockPage{At: 0, Raw: c.start, Ticks: c.first, Mult: c.mult, Shift: clockShift}
	description.Set(p.other(clockDescription))
	p.refresh()
	if !c.simulated {
		p.stopped.Go(p.keepCurrent)
	}
	return p, nil
}

func (p *pages) other(i int) []byte {
	return p.mem[(len(p.uars)+i)*pageBytes:][:pageBytes:pageBytes]
}

// refreshEvery is how often the clock info changes, and the core clock where the
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

// overflowPeriod is how long a program may use clock info before it reads it again.
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
	command, index := number>>commandShift&0xff, int(number&0xff)
	at := 0
	reply := guest.MapReply{Cookie: uint64(index)}
	switch command {
	case uverbs.Mlx5MmapRegularPage, uverbs.Mlx5MmapWCPage, uverbs.Mlx5MmapNCPage:
		if index >= len(p.uars) {
			return bad
		}
		at, reply.Watch = index, true
	case uverbs.Mlx5MmapCoreClock, uverbs.Mlx5MmapClockInfo:
		if writable {
			return guest.MapReply{Errno: syscall.EPERM}
		}
		if index != 0 {
			return guest.MapReply{Errno: syscall.EOPNOTSUPP}
		}
		at = len(p.uars) + clockInfo
		reply.Cookie = notUAR
		if command == uverbs.Mlx5MmapCoreClock {
			at, reply.Clock = len(p.uars)+clockPage, true
		}
	default: // device memory, and pages that the ioctl ABI allocates
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

// allocRegister gives a queue pair a register: one of its own while there is one, else
// the least used of those that are shared.
func (p *pages) allocRegister() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := 0
	for i := p.dedicated; i < len(p.inUse) && best == 0; i++ {
		if p.inUse[i] == 0 {
			best = i
		}
	}
	if best == 0 && p.dedicated > 1 {
		best = 1
		for i := 2; i < p.dedicated; i++ {
			if p.inUse[i] < p.inUse[best] {
				best = i
			}
		}
	}
	p.inUse[best]++
	return best
}

func (p *pages) freeRegister(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse[i]--
}

// registerIndex is how libmlx5 numbers a register: by the slots of the pages.
func registerIndex(i int) uint32 {
	return uint32(i/registersPerPage*registerSlotsPerPage + i%registersPerPage)
}

// pageOf is the page that a register lies on.
func (p *pages) pageOf(register int) *mlx5.Page { return p.uars[register/registersPerPage].page }

// used reports whether doorbells may be rung on a page: those of completion queues are on
// the first.
func (p *pages) used(page int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if page == 0 {
		return true
	}
	for _, n := range p.inUse[page*registersPerPage:][:registersPerPage] {
		if n > 0 {
			return true
		}
	}
	return false
}

func (p *pages) close() {
	close(p.stop)
	p.stopped.Wait()
	for _, u := range p.uars {
		if u.page != nil {
			_ = u.page.Remove() // its users are gone
		}
	}
	_ = unix.Munmap(p.mem)
	_ = p.file.Close()
}
