package softroce

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

const (
	rxMessages = 16
	rxBytes    = 64 << 10 // of a message: what GRO puts together
	rxChunk    = 60 << 10 // payload that is delivered at a time, so that acknowledgements go out while more comes
	rxPackets  = 128      // in a chunk
	controlLen = 128
	// socketBytes is the buffer that is asked for; without privileges the kernel
	// gives up to net.core.rmem_max.
	socketBytes = 8 << 20
	defaultTTL  = 64
	// maxSegments is what every kernel with UDP segmentation offload takes.
	maxSegments = 64
)

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// udpWire sends and receives by UDP sockets, one for each address of the device.
// They are not in the runtime's poller: while an application polls, nobody should
// be woken by what it takes in itself.
type udpWire struct {
	sockets  []*udpSocket
	link     int // index of the interface
	gso      bool
	counters *wireCounters

	// What sending takes, by message.
	headers  [batchMessages]mmsghdr
	iovs     [batchMessages]unix.Iovec
	names    [batchMessages]unix.RawSockaddrInet6 // the larger of the two
	controls [batchMessages][controlLen]byte
	paths    pathCache

	mu      sync.Mutex // guards the sockets' receiving
	fds     []unix.PollFd
	wake    int // an eventfd that stop writes to
	stopped atomic.Bool
}

// wireCounters count what happens below the endpoint.
type wireCounters struct {
	badICRC    atomic.Uint64
	truncated  atomic.Uint64
	sendErrors atomic.Uint64
	calls      atomic.Uint64 // sendmmsg
}

// pathCache keeps the last path, as packets come in runs.
type pathCache struct {
	src, dst netip.AddrPort
	path     roce.Path
}

func (c *pathCache) get(src, dst netip.AddrPort) *roce.Path {
	if c.src != src || c.dst != dst {
		// Both are of one family: a socket has only one.
		c.path, _ = roce.NewPath(src, dst)
		c.src, c.dst = src, dst
	}
	return &c.path
}

// udpSocket is a socket on one address.
type udpSocket struct {
	local    netip.AddrPort
	gid      int
	fd       int
	deliver  func([]endpoint.Packet)
	clock    *clock
	counters *wireCounters

	// Receiving, under the wire's lock.
	active   bool // something has come once
	headers  [rxMessages]mmsghdr
	iovs     [rxMessages]unix.Iovec
	names    [rxMessages]unix.RawSockaddrInet6
	controls [rxMessages][controlLen]byte
	buf      []byte
	packets  []endpoint.Packet
	bytes    int
	paths    pathCache
}

func (d *device) openWire() (wire, error) {
	if d.opt.packet {
		return d.openPacketWire()
	}
	return d.openUDP()
}

func (d *device) openUDP() (wire, error) {
	w := &udpWire{link: d.link.index, gso: d.opt.gso, counters: &d.counters, wake: -1}
	for i, a := range d.link.addrs {
		s := &udpSocket{
			local: netip.AddrPortFrom(a, d.opt.port), gid: i, deliver: d.deliver, clock: &d.clock, counters: &d.counters,
		}
		if err := s.open(d.link.index); err != nil {
			w.close()
			return nil, d.openError(s.local, err)
		}
		w.sockets = append(w.sockets, s)
		w.fds = append(w.fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	var err error
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		w.close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	w.fds = append(w.fds, unix.PollFd{Fd: int32(w.wake), Events: unix.POLLIN})
	return w, nil
}

func (d *device) openError(at netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return verbs.Errorf("open", d.name, verbs.ErrBusy, "UDP port %d of %v is taken: by another endpoint, or by the kernel's soft-RoCE driver", at.Port(), at.Addr())
	case errors.Is(err, unix.EPERM):
		return verbs.Errorf("open", d.name, err, "mode=packet needs root, or the capability CAP_NET_RAW")
	}
	return verbs.Errorf("open", d.name, err, "on %v", at)
}

func (s *udpSocket) open(link int) error {
	fd, err := newUDPSocket(s.local, link)
	if err != nil {
		return err
	}
	level, options := unix.IPPROTO_IP, [][2]int{
		{unix.IP_RECVTOS, 1}, {unix.IP_RECVTTL, 1}, {unix.IP_TTL, defaultTTL},
	}
	if s.local.Addr().Is6() {
		level, options = unix.IPPROTO_IPV6, [][2]int{
			{unix.IPV6_RECVTCLASS, 1}, {unix.IPV6_RECVHOPLIMIT, 1}, {unix.IPV6_UNICAST_HOPS, defaultTTL},
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, level, o[0], o[1]); err != nil {
			unix.Close(fd)
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// What follows makes things better and may be missing.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	for _, o := range [][2]int{{unix.SO_RCVBUF, unix.SO_RCVBUFFORCE}, {unix.SO_SNDBUF, unix.SO_SNDBUFFORCE}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], socketBytes) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], socketBytes)
		}
	}
	s.fd = fd
	s.buf = make([]byte, rxMessages*rxBytes)
	s.packets = make([]endpoint.Packet, 0, rxPackets)
	for i := range s.headers {
		h := &s.headers[i].hdr
		s.iovs[i].Base = &s.buf[i*rxBytes]
		s.iovs[i].SetLen(rxBytes)
		h.Iov = &s.iovs[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&s.names[i]))
		h.Control = &s.controls[i][0]
		s.rearm(h)
	}
	return nil
}

// newUDPSocket returns a non-blocking socket bound to an address, which sends with
// "don't fragment" set and so, as it is not connected, with the IPv4 identification
// 0, which the ICRC covers.
func newUDPSocket(at netip.AddrPort, link int) (int, error) {
	family := unix.AF_INET
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	fail := func(call string, err error) (int, error) {
		unix.Close(fd)
		return -1, os.NewSyscallError(call, err)
	}
	if family == unix.AF_INET {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
			return fail("setsockopt", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
			return fail("bind", err)
		}
		return fd, nil
	}
	for _, o := range [][3]int{
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1}, // soft-RoCE of the kernel sends no UDP checksum
	} {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return fail("setsockopt", err)
		}
	}
	to := &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
	if at.Addr().IsLinkLocalUnicast() {
		to.ZoneId = uint32(link)
	}
	if err := unix.Bind(fd, to); err != nil {
		return fail("bind", err)
	}
	return fd, nil
}

func (w *udpWire) segments() int {
	if w.gso {
		return maxSegments
	}
	return 1
}

func (w *udpWire) stop() {
	w.stopped.Store(true)
	one := [8]byte{}
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.wake, one[:])
}

func (w *udpWire) close() {
	for _, s := range w.sockets {
		_ = unix.Close(s.fd)
	}
	if w.wake >= 0 {
		_ = unix.Close(w.wake)
	}
}

// send implements wire.
func (w *udpWire) send(b *batch) {
	for i := range b.messages {
		m := &b.messages[i]
		s := w.sockets[m.route.GID]
		path := w.paths.get(s.local, m.route.Dst)
		for k := range m.segments {
			p := b.buf[m.at+k*m.size : min(m.at+(k+1)*m.size, m.at+m.n)]
			path.PutICRC(p, uint16(k)) // segmentation numbers the packets it makes
		}
		w.prepare(i, m, b.buf[m.at:m.at+m.n])
	}
	for i := 0; i < len(b.messages); {
		n := 1
		for i+n < len(b.messages) && b.messages[i+n].route.GID == b.messages[i].route.GID {
			n++
		}
		w.transmit(w.sockets[b.messages[i].route.GID], b.messages[i:i+n], i)
		i += n
	}
}

// prepare fills in the header of message i.
func (w *udpWire) prepare(i int, m *message, data []byte) {
	h := &w.headers[i].hdr
	w.iovs[i].Base = &data[0]
	w.iovs[i].SetLen(len(data))
	h.Iov = &w.iovs[i]
	h.SetIovlen(1)
	dst := m.route.Dst
	tos, ttl, level := unix.IP_TOS, unix.IP_TTL, unix.IPPROTO_IP
	if dst.Addr().Is4() {
		to := (*unix.RawSockaddrInet4)(unsafe.Pointer(&w.names[i]))
		*to = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkOrder(dst.Port()), Addr: dst.Addr().As4()}
		h.Namelen = unix.SizeofSockaddrInet4
	} else {
		to := &w.names[i]
		*to = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: networkOrder(dst.Port()), Addr: dst.Addr().As16()}
		if dst.Addr().IsLinkLocalUnicast() {
			to.Scope_id = uint32(w.link)
		}
		h.Namelen = unix.SizeofSockaddrInet6
		tos, ttl, level = unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT, unix.IPPROTO_IPV6
	}
	h.Name = (*byte)(unsafe.Pointer(&w.names[i]))
	c := w.controls[i][:0]
	if m.segments > 1 {
		c = appendControl(c, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2, uint32(m.size))
	}
	if m.route.TrafficClass != 0 {
		c = appendControl(c, level, tos, 4, uint32(m.route.TrafficClass))
	}
	if m.route.HopLimit != defaultTTL {
		c = appendControl(c, level, ttl, 4, uint32(m.route.HopLimit))
	}
	h.Control = nil
	if len(c) > 0 {
		h.Control = &c[0]
	}
	h.SetControllen(len(c))
}

func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16([]byte{byte(v >> 8), byte(v)})
}

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

// transmit sends a run of messages by one socket. A message that the kernel
// refuses is lost.
func (w *udpWire) transmit(s *udpSocket, run []message, first int) {
	for done := 0; done < len(run); {
		w.counters.calls.Add(1)
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&w.headers[first+done])), uintptr(len(run)-done), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			if w.stopped.Load() {
				return
			}
			room := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(room, roomWait)
		default:
			w.counters.sendErrors.Add(1)
			if run[done].segments > 1 && (errno == unix.EIO || errno == unix.EINVAL) {
				w.gso = false // the interface can't
			}
			done++
		}
	}
}

// roomWait bounds a wait for room in a socket's buffer, in milliseconds.
const roomWait = 100

// rearm readies a header for the next message.
func (s *udpSocket) rearm(h *unix.Msghdr) {
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(controlLen)
	h.Flags = 0
}

// receive implements wire.
func (w *udpWire) receive() bool {
	for !w.stopped.Load() {
		w.mu.Lock()
		any := false
		for _, s := range w.sockets {
			any = s.take() || any
		}
		w.mu.Unlock()
		if any {
			return true
		}
		_, _ = unix.Poll(w.fds, -1) // whatever it says, look
	}
	return false
}

// poll implements wire. A socket that nothing has come by yet is left to receive.
func (w *udpWire) poll() bool {
	if !w.mu.TryLock() {
		return false
	}
	any := false
	for _, s := range w.sockets {
		if s.active {
			any = s.take() || any
		}
	}
	w.mu.Unlock()
	return any
}

// take delivers what has come, and reports whether there was anything. The caller
// holds the lock.
func (s *udpSocket) take() bool {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.headers)), rxMessages, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		// EAGAIN, or the news that a peer's port is closed.
		return errno == unix.EINTR
	}
	s.active = true
	wall, monotonic := s.clock.since(time.Now())
	for i := range int(n) {
		h := &s.headers[i]
		s.parse(i, int(h.len), wall, monotonic)
		s.rearm(&h.hdr)
	}
	s.pass()
	return true
}

// parse takes message i apart into packets.
func (s *udpSocket) parse(i, n int, wall, monotonic int64) {
	h := &s.headers[i].hdr
	if h.Flags&unix.MSG_TRUNC != 0 {
		s.counters.truncated.Add(1)
		return
	}
	p := endpoint.Packet{GID: s.gid}
	switch s.names[i].Family {
	case unix.AF_INET:
		from := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.names[i]))
		p.Src = netip.AddrPortFrom(netip.AddrFrom4(from.Addr), networkOrder(from.Port))
	case unix.AF_INET6:
		from := &s.names[i]
		p.Src = netip.AddrPortFrom(netip.AddrFrom16(from.Addr), networkOrder(from.Port))
	default:
		return
	}
	c := parseControl(s.controls[i][:h.Controllen])
	p.TrafficClass, p.HopLimit = c.trafficClass, c.hopLimit
	p.Stamp = stamp(c.stamp, wall, monotonic)
	size := n
	if c.segment > 0 {
		size = c.segment
	}
	data := s.buf[i*rxBytes : i*rxBytes+n]
	path := s.paths.get(p.Src, s.local)
	for len(data) > 0 {
		p.Data = data[:min(size, len(data))]
		data = data[len(p.Data):]
		if _, ok := path.RecoverID(p.Data); !ok {
			s.counters.badICRC.Add(1)
			continue
		}
		s.packets = append(s.packets, p)
		s.bytes += len(p.Data)
		if s.bytes >= rxChunk || len(s.packets) == rxPackets {
			s.pass()
		}
	}
}

// pass delivers the packets that have gathered.
func (s *udpSocket) pass() {
	if len(s.packets) > 0 {
		s.deliver(s.packets)
		s.packets, s.bytes = s.packets[:0], 0
	}
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

// linkState asks the system about an interface: its state, and its rate in bits
// per second. One that knows no rate, as the loopback, counts as defaultRate.
func linkState(name string) (verbs.PortState, int64) {
	state, speed := verbs.PortActive, int64(0)
	if b, err := os.ReadFile("/sys/class/net/" + name + "/operstate"); err != nil || string(b) == "down\n" {
		state = verbs.PortDown
	}
	if b, err := os.ReadFile("/sys/class/net/" + name + "/speed"); err == nil {
		if mbps, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			speed = mbps * 1_000_000
		}
	}
	if speed <= 0 {
		speed = defaultRate
	}
	return state, speed
}
