package xsk

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Headroom is what the kernel leaves free in a chunk in front of a received frame, in
// bytes (XDP_PACKET_HEADROOM).
const Headroom = unix.XDP_PACKET_HEADROOM

// MaxFrame is the longest frame that is received, in bytes: a chunk is a page of 4 KiB at
// most.
const MaxFrame = 4096 - Headroom

// Config says what a socket is like.
type Config struct {
	Interface int // index
	Queue     int // of the interface, from which the socket receives
	MaxFrame  int // longest frame, in bytes: up to the constant
	Rx        int // chunks for frames that come, a power of two
	Tx        int // chunks for frames that go, a power of two
}

// Socket is an AF_XDP socket with memory of its own. One goroutine at a time may receive
// and one may send.
type Socket struct {
	FD int

	umem       []byte
	chunk      int
	fill       ring[uint64]
	rx         ring[unix.XDPDesc]
	tx         ring[unix.XDPDesc]
	completion ring[uint64]
	free       []uint64 // chunks to send from
	queued     uint64   // the chunk that Chunk has returned
	zeroCopy   bool
}

// Open makes a socket and binds it to a queue. The kernel chooses zero copy where the
// driver has it. Errors are system errors: EPERM without CAP_NET_RAW, EAFNOSUPPORT where
// the kernel has no AF_XDP, ENOBUFS where RLIMIT_MEMLOCK is too low, EBUSY where the
// queue has a socket.
func Open(c Config) (_ *Socket, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &Socket{FD: fd, chunk: 2048}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if c.MaxFrame > s.chunk-Headroom {
		s.chunk = 4096
	}
	if s.umem, err = unix.Mmap(-1, 0, (c.Rx+c.Tx)*s.chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.umem[0]))), Len: uint64(len(s.umem)), Size: uint32(s.chunk)}
	if err := option(unix.SYS_SETSOCKOPT, fd, unix.XDP_UMEM_REG, &reg); err != nil {
		return nil, err
	}
	for _, o := range [][2]int{
		{unix.XDP_UMEM_FILL_RING, c.Rx}, {unix.XDP_RX_RING, c.Rx}, {unix.XDP_TX_RING, c.Tx}, {unix.XDP_UMEM_COMPLETION_RING, c.Tx},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, o[0], o[1]); err != nil {
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	var at unix.XDPMmapOffsets
	if err := option(unix.SYS_GETSOCKOPT, fd, unix.XDP_MMAP_OFFSETS, &at); err != nil {
		return nil, err
	}
	if s.fill, err = mapRing[uint64](fd, unix.XDP_UMEM_PGOFF_FILL_RING, at.Fr, c.Rx); err != nil {
		return nil, err
	}
	if s.rx, err = mapRing[unix.XDPDesc](fd, unix.XDP_PGOFF_RX_RING, at.Rx, c.Rx); err != nil {
		return nil, err
	}
	if s.tx, err = mapRing[unix.XDPDesc](fd, unix.XDP_PGOFF_TX_RING, at.Tx, c.Tx); err != nil {
		return nil, err
	}
	if s.completion, err = mapRing[uint64](fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr, c.Tx); err != nil {
		return nil, err
	}
	for i := range c.Rx {
		s.fill.put(uint64(i * s.chunk))
	}
	s.fill.publish()
	for i := range c.Tx {
		s.free = append(s.free, uint64((c.Rx+i)*s.chunk))
	}
	// As many frames to a call as there may be; older kernels stay at 32.
	_ = unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, c.Tx)
	if err := bind(fd, c); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if v, err := unix.GetsockoptInt(fd, unix.SOL_XDP, unix.XDP_OPTIONS); err == nil {
		s.zeroCopy = v&unix.XDP_OPTIONS_ZEROCOPY != 0
	}
	return s, nil
}

// A closed socket leaves its queue from a queue of the kernel's own: how long bind waits
// for it, and how long at a time.
const (
	leavesIn  = time.Second
	lookAgain = time.Millisecond
)

func bind(fd int, c Config) error {
	at := &unix.SockaddrXDP{Flags: unix.XDP_USE_NEED_WAKEUP, Ifindex: uint32(c.Interface), QueueID: uint32(c.Queue)}
	for end := time.Now().Add(leavesIn); ; {
		err := unix.Bind(fd, at)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
		Nap(lookAgain)
	}
}

// Nap sleeps that long, and what the kernel adds to it, without the runtime's timers.
func Nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _ = unix.Ppoll(nil, &t, nil)
}

// option sets or gets an option that is a structure.
func option[T any](call uintptr, fd, name int, v *T) error {
	size := uint32(unsafe.Sizeof(*v))
	third := uintptr(size)
	if call == unix.SYS_GETSOCKOPT {
		_, _, errno := unix.Syscall6(call, uintptr(fd), unix.SOL_XDP, uintptr(name), uintptr(unsafe.Pointer(v)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return os.NewSyscallError("getsockopt", errno)
		}
		return nil
	}
	if _, _, errno := unix.Syscall6(call, uintptr(fd), unix.SOL_XDP, uintptr(name), uintptr(unsafe.Pointer(v)), third, 0); errno != 0 {
		return os.NewSyscallError("setsockopt", errno)
	}
	return nil
}

func mapRing[T uint64 | unix.XDPDesc](fd int, offset int64, at unix.XDPRingOffset, entries int) (ring[T], error) {
	var entry T
	mem, err := unix.Mmap(fd, offset, int(at.Desc)+entries*int(unsafe.Sizeof(entry)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring[T]{}, os.NewSyscallError("mmap", err)
	}
	return newRing[T](mem, at, entries), nil
}

// Close frees socket and memory.
func (s *Socket) Close() {
	_ = unix.Close(s.FD)
	for _, mem := range [][]byte{s.fill.mem, s.rx.mem, s.tx.mem, s.completion.mem, s.umem} {
		if mem != nil {
			_ = unix.Munmap(mem)
		}
	}
}

// ZeroCopy reports whether the interface's driver writes to the socket's memory itself.
func (s *Socket) ZeroCopy() bool { return s.zeroCopy }

// Dropped is how many frames the kernel has dropped since there was no room for them, or
// they were too long.
func (s *Socket) Dropped() uint64 {
	var v unix.XDPStatistics
	if option(unix.SYS_GETSOCKOPT, s.FD, unix.XDP_STATISTICS, &v) != nil {
		return 0
	}
	return v.Rx_dropped + v.Rx_ring_full
}

// Received is how many frames have come that were not recycled.
func (s *Socket) Received() int { return s.rx.ready() }

// StampBytes is what the program writes in front of a frame: when it came, in
// nanoseconds of CLOCK_MONOTONIC.
const StampBytes = 8

// Frame returns received frame i, until it is recycled, and its stamp: 0 for none. It
// returns nil for an entry that is none of this memory. It may be called once for
// each.
func (s *Socket) Frame(i int) (frame []byte, stamp uint64) {
	d := s.rx.entry(i)
	at, n := d.Addr, uint64(d.Len)
	if at >= uint64(len(s.umem)) || n > uint64(len(s.umem))-at {
		return nil, 0
	}
	if at&uint64(s.chunk-1) >= StampBytes {
		// The driver may have no room for the stamp. It is cleared, so that the next frame
		// here does not inherit it.
		b := s.umem[at-StampBytes : at]
		stamp = binary.NativeEndian.Uint64(b)
		clear(b)
	}
	return s.umem[at : at+n : at+n], stamp
}

// Recycle gives the memory of the first n received frames back.
func (s *Socket) Recycle(n int) {
	for i := range n {
		if at := s.rx.entry(i).Addr; at < uint64(len(s.umem)) {
			s.fill.put(at &^ uint64(s.chunk-1))
		}
	}
	s.rx.release(n)
	s.fill.publish()
	if s.fill.sleeps() {
		_, _, _ = unix.Syscall6(unix.SYS_RECVFROM, uintptr(s.FD), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	}
}

// Chunk returns memory to build a frame in, nil if all of it is on its way. Queue takes
// it.
func (s *Socket) Chunk() []byte {
	if len(s.free) == 0 {
		s.reclaim()
		if len(s.free) == 0 {
			return nil
		}
	}
	s.queued = s.free[len(s.free)-1]
	return s.umem[s.queued : s.queued+uint64(s.chunk)]
}

// Queue queues the frame of n bytes in the memory that Chunk has returned last.
func (s *Socket) Queue(n int) {
	s.free = s.free[:len(s.free)-1]
	s.tx.put(unix.XDPDesc{Addr: s.queued, Len: uint32(n)})
}

// reclaim takes the chunks back whose frames have gone.
func (s *Socket) reclaim() {
	n := s.completion.ready()
	for i := range n {
		s.free = append(s.free, *s.completion.entry(i)&^uint64(s.chunk-1))
	}
	s.completion.release(n)
}

// How long Flush waits for a device that takes nothing, and how long at a time.
const (
	stuckFor = 100 * time.Millisecond
	retryIn  = 20 * time.Microsecond
)

// Flush has the kernel send what is queued. It waits for room, in the device and in the
// socket's send buffer. What is not taken in time goes with the next Flush. It returns
// how many calls it made.
func (s *Socket) Flush() (calls int) {
	s.tx.publish()
	// Where the kernel copies, nothing goes without a call, whatever the flag says.
	for stuck := time.Duration(0); stuck < stuckFor && (!s.zeroCopy || s.tx.sleeps()); {
		before := s.tx.taken()
		if before == s.tx.next {
			break
		}
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.FD), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		calls++
		switch {
		case errno == unix.ENETDOWN || errno == unix.ENXIO:
			return calls // the interface is down, or gone
		case s.tx.taken() != before:
			stuck = 0
		default:
			Nap(retryIn)
			stuck += retryIn
		}
	}
	return calls
}
