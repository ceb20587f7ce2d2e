package softroce

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// maxSegments is what every kernel with UDP segmentation offload takes.
const maxSegments = 64

// udpWire sends and receives by UDP sockets, one for each address of the device. A
// socket whose address was removed stays for who uses it, and works again when the
// address is back.
type udpWire struct {
	waiter
	sockets  []*udpSocket // by the GID table's places; changed under both locks
	dev      *device
	link     int // index of the interface
	gso      bool
	counters *wireCounters

	// What sending takes, by message.
	headers  [batchMessages]mmsghdr
	iovs     [batchMessages]unix.Iovec
	names    [batchMessages]unix.RawSockaddrInet6 // the larger of the two
	controls [batchMessages][controlLen]byte
	paths    pathCache

	mu     sync.Mutex // guards the sockets' receiving
	muting sync.Mutex // guards muteMADs
}

// udpSocket is a socket on one address.
type udpSocket struct {
	local    netip.AddrPort
	gid      int
	clock    *clock
	counters *wireCounters

	// Receiving, under the wire's lock.
	inbox
	active bool // something has come once
	out    collector
	paths  pathCache
}

func (d *device) openWire() (wire, error) {
	switch d.opt.Mode {
	case modePacket:
		return d.openPacketWire()
	case modeXDP:
		return d.openXDPWire()
	}
	w := &udpWire{dev: d, link: d.link.index, gso: d.opt.GSO, counters: &d.counters}
	var fds []int
	fail := func(err error) (wire, error) {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, err
	}
	for i, a := range d.link.addrs {
		s, err := w.open(a, i)
		if err != nil {
			return fail(d.openError(netip.AddrPortFrom(a, d.opt.Port), err))
		}
		fds = append(fds, s.fd)
		w.sockets = append(w.sockets, s)
	}
	if err := w.waiter.init(fds...); err != nil {
		return fail(err)
	}
	return w, nil
}

// open opens the socket of an address.
func (w *udpWire) open(a netip.Addr, gid int) (*udpSocket, error) {
	d := w.dev
	s := &udpSocket{local: netip.AddrPortFrom(a, d.opt.Port), gid: gid, clock: &d.clock, counters: &d.counters, out: newCollector(d.deliver)}
	fd, err := newUDPSocket(s.local, d.link.index)
	if err != nil {
		return nil, err
	}
	if err := setUDPOptions(fd, a.Is6()); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	s.inbox.init(fd)
	return s, nil
}

// readdress implements wire.
func (w *udpWire) readdress(table []gidEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.muting.Lock()
	defer w.muting.Unlock()
	for i := range table {
		e := &table[i]
		if i == len(w.sockets) {
			w.sockets = append(w.sockets, nil)
		}
		was := w.sockets[i]
		if !e.present || was != nil && was.local.Addr() == e.addr {
			continue
		}
		s, err := w.open(e.addr, i)
		if err != nil { // it has gone again, or somebody else has the port
			e.present = false
			continue
		}
		if was != nil {
			w.drop(was.fd)
		}
		w.sockets[i] = s
		w.add(s.fd)
	}
}

func (d *device) openError(at netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return verbs.Errorf("open", d.name, verbs.ErrBusy, "UDP port %d of %v is taken: by another endpoint, or by the kernel's soft-RoCE driver: %s", at.Port(), at.Addr(), elsewhere(at.Addr()))
	case errors.Is(err, unix.EPERM):
		needs := "capability CAP_NET_RAW"
		if d.opt.Mode == modeXDP {
			needs = "capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
		}
		return verbs.Errorf("open", d.name, err, "mode=%s requires root, or the %s", d.opt.Mode, needs)
	}
	return verbs.Errorf("open", d.name, err, "on %v", at)
}

// elsewhere says where another endpoint can be, where an address is taken: all of 127/8
// is there without configuration.
func elsewhere(taken netip.Addr) string {
	if !taken.IsLoopback() {
		return "open another address, as soft:ADDRESS"
	}
	next := netip.AddrFrom4([4]byte{127, 0, 0, 2})
	if taken.Is4() && taken.Next().IsLoopback() {
		next = taken.Next()
	}
	return fmt.Sprintf("open another address, such as soft:%v", next)
}

// newUDPSocket returns a non-blocking socket bound to an address. It sends with
// "don't fragment" set. As it is not connected, the IPv4 identification is then 0,
// which the ICRC covers.
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
		_ = unix.Close(fd)
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
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1}, // the kernel's soft-RoCE driver sends no UDP checksum
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

func setUDPOptions(fd int, v6 bool) error {
	level, options := unix.IPPROTO_IP, [][2]int{
		{unix.IP_RECVTOS, 1}, {unix.IP_RECVTTL, 1}, {unix.IP_TTL, defaultTTL},
	}
	if v6 {
		level, options = unix.IPPROTO_IPV6, [][2]int{
			{unix.IPV6_RECVTCLASS, 1}, {unix.IPV6_RECVHOPLIMIT, 1}, {unix.IPV6_UNICAST_HOPS, defaultTTL},
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, level, o[0], o[1]); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// What follows makes things better and may be missing.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	growBuffers(fd)
	return nil
}

// dropMADs is a socket filter that drops packets for queue pair 1. The destination
// queue pair is the last 24 bits of the Base Transport Header's second word (IBA 9.2).
var dropMADs = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: udpHeaderLen + 4},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 1<<24 - 1},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: roce.GSIQP, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

const udpHeaderLen = 8

// muteMADs implements muter. Without the filter they are dropped later.
func (w *udpWire) muteMADs(mute bool) {
	w.muting.Lock()
	defer w.muting.Unlock()
	for _, s := range w.sockets {
		if s == nil {
			continue
		}
		if mute {
			_ = unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(dropMADs)), Filter: &dropMADs[0]})
		} else {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	}
}

func (w *udpWire) segments() int {
	if w.gso {
		return maxSegments
	}
	return 1
}

// path implements sender. Segmentation numbers the packets it makes from 0.
func (w *udpWire) path(r *endpoint.Route) *roce.Path {
	return w.paths.get(w.sockets[r.GID].local, r.Dst)
}

// send implements sender.
func (w *udpWire) send(b *batch) {
	for i := range b.messages {
		m := &b.messages[i]
		w.prepare(i, m, b.buf[m.at:m.at+m.n])
	}
	for i := 0; i < len(b.messages); {
		gid, n := b.messages[i].route.GID, 1
		for i+n < len(b.messages) && b.messages[i+n].route.GID == gid {
			n++
		}
		transmit(w.sockets[gid].fd, w.headers[i:i+n], &w.waiter, w.counters, func(k int, errno unix.Errno) {
			if b.messages[i+k].segments > 1 && (errno == unix.EIO || errno == unix.EINVAL) {
				w.gso = false // the interface can't
			}
		})
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
	h.Name = (*byte)(unsafe.Pointer(&w.names[i]))
	h.Namelen = putAddr(&w.names[i], m.route.Dst, w.link)
	tos, ttl, level := unix.IP_TOS, unix.IP_TTL, unix.IPPROTO_IP
	if m.route.Dst.Addr().Is6() {
		tos, ttl, level = unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT, unix.IPPROTO_IPV6
	}
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

// putAddr writes a socket address and returns its length. link is the scope of
// link-local addresses.
func putAddr(to *unix.RawSockaddrInet6, a netip.AddrPort, link int) uint32 {
	if a.Addr().Is4() {
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(to))
		*four = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkOrder(a.Port()), Addr: a.Addr().As4()}
		return unix.SizeofSockaddrInet4
	}
	*to = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: networkOrder(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().IsLinkLocalUnicast() {
		to.Scope_id = uint32(link)
	}
	return unix.SizeofSockaddrInet6
}

// receive implements wire.
func (w *udpWire) receive() bool {
	for !w.stopped.Load() {
		w.mu.Lock()
		any := false
		for _, s := range w.sockets {
			any = s != nil && s.take() || any
		}
		w.mu.Unlock()
		if any {
			return true
		}
		w.wait()
	}
	return false
}

// poll implements wire. A socket that nothing has come by yet is left to receive.
func (w *udpWire) poll() bool {
	if !w.mu.TryLock() {
		return false
	}
	any := false
	if w.stopped.Load() { // the sockets' numbers may be others' by now
		w.mu.Unlock()
		return false
	}
	for _, s := range w.sockets {
		if s != nil && s.active {
			any = s.take() || any
		}
	}
	w.mu.Unlock()
	return any
}

// close implements wire. Somebody may still poll.
func (w *udpWire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiter.close()
}

// take delivers what has come, and reports whether there was anything. The caller
// holds the wire's lock.
func (s *udpSocket) take() bool {
	n := s.inbox.receive()
	if n == 0 {
		return false
	}
	s.active = true
	wall, monotonic := s.clock.readings()
	for i := range n {
		data, c, ok := s.message(i)
		if !ok {
			s.counters.malformed.Add(1)
			continue
		}
		s.parse(data, c, s.source(i), stamp(c.stamp, wall, monotonic))
	}
	s.out.flush()
	return true
}

// parse takes a message apart into packets.
func (s *udpSocket) parse(data []byte, c control, src netip.AddrPort, stamp uint64) {
	p := endpoint.Packet{GID: s.gid, Src: src, TrafficClass: c.trafficClass, HopLimit: c.hopLimit, Stamp: stamp}
	size := len(data)
	if c.segment > 0 {
		size = c.segment
	}
	path := s.paths.get(src, s.local)
	for k := 0; len(data) > 0; k++ {
		p.Data = data[:min(size, len(data))]
		data = data[len(p.Data):]
		if len(p.Data) < roce.BTHBytes+roce.ICRCBytes {
			s.counters.malformed.Add(1)
			continue
		}
		if _, ok := path.RecoverID(p.Data, uint16(k)); !ok {
			s.counters.badICRC.Add(1)
			continue
		}
		s.out.add(&p)
	}
}
