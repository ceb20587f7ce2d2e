package softroce

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

const (
	rxMessages = 16
	rxBytes    = 64<<10 + 128 // of a message: what GRO puts together, with headers
	rxChunk    = 60 << 10     // payload that is delivered at a time, so that acknowledgements go out while more comes
	rxPackets  = 128          // in a chunk
	controlLen = 128
	// socketBytes is the buffer size requested; without privileges the kernel grants
	// up to net.core.rmem_max.
	socketBytes = 8 << 20
	defaultTTL  = 64
)

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// waiter waits for any of several sockets. They are not in the runtime's poller:
// while an application polls, the packets that it receives itself should not wake
// another goroutine.
type waiter struct {
	event   int // an eventfd that wake writes to
	stopped atomic.Bool
	polled  []unix.PollFd // what wait hands to the kernel
	count   [8]byte       // that it reads; here since under the race detector reads allocate what they fill

	set sync.Mutex // guards fds
	fds []unix.PollFd
}

func (w *waiter) init(fds ...int) error {
	var err error
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	w.add(append([]int{w.event}, fds...)...)
	return nil
}

// add has wait look at more sockets from now on.
func (w *waiter) add(fds ...int) {
	w.set.Lock()
	for _, fd := range fds {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	w.set.Unlock()
	w.wake()
}

// drop closes a socket that wait need no longer look at.
func (w *waiter) drop(fd int) {
	w.forget(fd)
	w.wake()
	_ = unix.Close(fd)
}

// forget leaves a socket to its owner.
func (w *waiter) forget(fd int) {
	w.set.Lock()
	defer w.set.Unlock()
	w.fds = slices.DeleteFunc(w.fds, func(p unix.PollFd) bool { return p.Fd == int32(fd) })
}

// wait returns when a socket may have something, they are others now, or stop was
// called. One goroutine calls it.
func (w *waiter) wait() {
	w.set.Lock()
	w.polled = append(w.polled[:0], w.fds...)
	w.set.Unlock()
	_, _ = unix.Poll(w.polled, -1)
	if !w.stopped.Load() && w.polled[0].Revents != 0 {
		_, _ = unix.Read(w.event, w.count[:])
	}
}

// one is what an eventfd's counter is raised by.
var one = binary.NativeEndian.AppendUint64(nil, 1)

func (w *waiter) wake() { _, _ = unix.Write(w.event, one) }

func (w *waiter) stop() {
	w.stopped.Store(true)
	w.wake()
}

// close frees what init has made, and the sockets.
func (w *waiter) close() {
	w.set.Lock()
	defer w.set.Unlock()
	for _, p := range w.fds {
		_ = unix.Close(int(p.Fd))
	}
}

// inbox is what receiving several messages by one call takes.
type inbox struct {
	fd       int
	headers  [rxMessages]mmsghdr
	iovs     [rxMessages]unix.Iovec
	names    [rxMessages]unix.RawSockaddrInet6 // the larger of the two
	controls [rxMessages][controlLen]byte
	buf      []byte
	used     int // headers that the last call has written
}

func (b *inbox) init(fd int) {
	b.fd, b.used = fd, rxMessages
	b.buf = make([]byte, rxMessages*rxBytes)
	for i := range b.headers {
		h := &b.headers[i].hdr
		b.iovs[i].Base = &b.buf[i*rxBytes]
		b.iovs[i].SetLen(rxBytes)
		h.Iov = &b.iovs[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Control = &b.controls[i][0]
	}
}

// rearm readies the headers of the last messages for the next.
func (b *inbox) rearm() {
	for i := range b.used {
		h := &b.headers[i].hdr
		h.Namelen, h.Flags = unix.SizeofSockaddrInet6, 0
		h.SetControllen(controlLen)
	}
	b.used = 0
}

// receive takes the messages that are there, and returns how many.
func (b *inbox) receive() int {
	for {
		b.rearm()
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(b.fd), uintptr(unsafe.Pointer(&b.headers)), rxMessages, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			b.used = int(n)
			return b.used
		case unix.EINTR:
		default: // EAGAIN, or the news that a peer's port is closed
			return 0
		}
	}
}

// message returns what receive has put at i; ok is false if it was cut.
func (b *inbox) message(i int) (data []byte, c control, ok bool) {
	h := &b.headers[i]
	at := i * rxBytes
	return b.buf[at : at+int(h.len)], parseControl(b.controls[i][:h.hdr.Controllen]), h.hdr.Flags&unix.MSG_TRUNC == 0
}

// source is the sender's address of message i, for sockets of the IP families.
func (b *inbox) source(i int) netip.AddrPort {
	if b.names[i].Family == unix.AF_INET {
		from := (*unix.RawSockaddrInet4)(unsafe.Pointer(&b.names[i]))
		return netip.AddrPortFrom(netip.AddrFrom4(from.Addr), networkOrder(from.Port))
	}
	from := &b.names[i]
	return netip.AddrPortFrom(netip.AddrFrom16(from.Addr), networkOrder(from.Port))
}

func networkOrder(v uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], v)
	return binary.BigEndian.Uint16(b[:])
}

// collector hands packets on, many at a time.
type collector struct {
	deliver func([]endpoint.Packet)
	packets []endpoint.Packet
	bytes   int
}

func newCollector(deliver func([]endpoint.Packet)) collector {
	return collector{deliver: deliver, packets: make([]endpoint.Packet, 0, rxPackets)}
}

func (c *collector) add(p *endpoint.Packet) {
	c.packets = append(c.packets, *p)
	if c.bytes += len(p.Data); c.bytes >= rxChunk || len(c.packets) == rxPackets {
		c.flush()
	}
}

func (c *collector) flush() {
	if len(c.packets) > 0 {
		c.deliver(c.packets)
		c.packets, c.bytes = c.packets[:0], 0
	}
}

// transmit sends messages by one call or more, and waits for room in the socket's
// buffer. A message that the kernel refuses is lost; transmit then calls refused.
func transmit(fd int, headers []mmsghdr, w *waiter, counters *wireCounters, refused func(i int, errno unix.Errno)) {
	for done := 0; done < len(headers); {
		counters.sendCalls.Add(1)
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&headers[done])), uintptr(len(headers)-done), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			if w.stopped.Load() {
				return
			}
			room := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(room, roomWait)
		default:
			counters.sendErrors.Add(1)
			refused(done, errno)
			done++
		}
	}
}

// roomWait bounds a wait for room, in milliseconds.
const roomWait = 100

// appendControl appends a control message with a value of 2 or 4 bytes.
func appendControl(c []byte, level, typ, size int, v uint32) []byte {
	at := len(c)
	c = c[:at+unix.CmsgSpace(size)]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c[at]))
	h.Level, h.Type = int32(level), int32(typ)
	h.SetLen(unix.CmsgLen(size))
	data := c[at+unix.CmsgLen(0):]
	if size == 2 {
		binary.NativeEndian.PutUint16(data, uint16(v))
	} else {
		binary.NativeEndian.PutUint32(data, v)
	}
	return c
}

// control is what the control messages of a datagram say.
type control struct {
	trafficClass, hopLimit uint8
	segment                int   // size of the packets that GRO has put together, 0 for one
	stamp                  int64 // nanoseconds on the wall clock, 0 for none
}

func parseControl(b []byte) (c control) {
	header := unix.CmsgLen(0)
	for len(b) >= header {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		n := int(h.Len)
		if n < header || n > len(b) {
			return c
		}
		data := b[header:n]
		v := 0
		if len(data) >= 4 {
			v = int(int32(binary.NativeEndian.Uint32(data)))
		} else if len(data) > 0 {
			v = int(data[0])
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			c.trafficClass = uint8(v)
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL, h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			c.hopLimit = uint8(v)
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO:
			c.segment = v
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			ts := (*unix.Timespec)(unsafe.Pointer(&data[0]))
			c.stamp = ts.Nano()
		}
		b = b[min(len(b), unix.CmsgSpace(n-header)):]
	}
	return c
}

// growBuffers asks for large buffers: first as root may, then as all may.
func growBuffers(fd int) {
	for _, o := range [][2]int{{unix.SO_RCVBUF, unix.SO_RCVBUFFORCE}, {unix.SO_SNDBUF, unix.SO_SNDBUFFORCE}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], socketBytes) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], socketBytes)
		}
	}
}

// readings of the two clocks for the timestamps of messages that were received
// together.
func (c *clock) readings() (wall, monotonic int64) {
	t := time.Now()
	return t.UnixNano(), int64(t.Sub(c.start))
}

// yieldThread lets other threads run on this processor, if any wait for it.
func yieldThread() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
