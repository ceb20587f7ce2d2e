package softroce

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// packetWire receives by a packet socket, which shows IP headers and so lets the
// whole ICRC be checked, and sends by raw IP sockets, which let them be chosen:
// identifications that differ and source ports with entropy, as a NIC has. Routing and
// neighbours stay the kernel's business.
type packetWire struct {
	waiter
	counters *wireCounters
	clock    *clock
	addrs    []netip.Addr
	link     int
	raw      [2]int // sockets to send by: IPv4, IPv6; -1 for none

	headers [batchMessages]mmsghdr
	iovs    [batchMessages]unix.Iovec
	names   [batchMessages]unix.RawSockaddrInet6
	frames  [batchMessages][roce.IPv6Bytes + roce.UDPBytes + endpoint.MaxPacket]byte
	id      uint16

	mu       sync.Mutex // guards receiving
	in       inbox
	out      collector
	paths    pathCache
	ethernet bool // frames have Ethernet headers
	virtio   int  // bytes before the frame that tell of segmentation, 0 for none
}

func (d *device) openPacketWire() (wire, error) {
	if d.opt.port != roce.Port {
		return nil, verbs.Errorf("open", d.name, verbs.ErrInvalid, "mode=packet knows the standard port %d only", roce.Port)
	}
	w := &packetWire{
		counters: &d.counters, clock: &d.clock, addrs: d.link.addrs, link: d.link.index, raw: [2]int{-1, -1}, out: newCollector(d.deliver),
	}
	var fds []int
	fail := func(err error) (wire, error) {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, err
	}
	fd, err := w.openSocket()
	if err != nil {
		return fail(d.openError(netip.AddrPortFrom(d.link.addrs[0], roce.Port), err))
	}
	fds = append(fds, fd)
	w.in.init(fd)
	for _, a := range d.link.addrs {
		at := netip.AddrPortFrom(a, roce.Port)
		// A UDP socket that throws all away keeps the kernel from answering that
		// the port is closed, and others from taking it.
		fd, err := newUDPSocket(at, d.link.index)
		if err != nil {
			return fail(d.openError(at, err))
		}
		fds = append(fds, fd)
		if err := attachFilter(fd, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}); err != nil {
			return fail(d.openError(at, err))
		}
		family, which := unix.AF_INET, 0
		if a.Is6() {
			family, which = unix.AF_INET6, 1
		}
		if w.raw[which] >= 0 {
			continue
		}
		fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return fail(d.openError(at, os.NewSyscallError("socket", err)))
		}
		fds = append(fds, fd)
		growBuffers(fd)
		w.raw[which] = fd
	}
	if err := w.waiter.init(fds...); err != nil {
		return fail(err)
	}
	return w, nil
}

// errKind is the error for interfaces whose frames are not understood.
var errKind = errors.New("mode=packet knows Ethernet, loopback and tunnel interfaces only: leave the mode out")

// hasEthernet reports whether the frames of the interface that a packet socket is
// bound to begin with an Ethernet header, rather than with the IP header.
func hasEthernet(fd int) (bool, error) {
	a, err := unix.Getsockname(fd)
	if err != nil {
		return false, os.NewSyscallError("getsockname", err)
	}
	switch a.(*unix.SockaddrLinklayer).Hatype {
	case unix.ARPHRD_ETHER, unix.ARPHRD_LOOPBACK:
		return true, nil
	case unix.ARPHRD_NONE:
		return false, nil
	}
	return false, errKind
}

// openSocket opens the packet socket.
func (w *packetWire) openSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	fail := func(call string, err error) (int, error) {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError(call, err)
	}
	// Without a protocol nothing comes yet.
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: w.link}); err != nil {
		return fail("bind", err)
	}
	if w.ethernet, err = hasEthernet(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	ip := 0
	if w.ethernet {
		ip = roce.EthernetBytes
	}
	if err := attachFilter(fd, roceFilter(uint32(ip))); err != nil {
		return fail("setsockopt", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return fail("setsockopt", err)
	}
	// Another endpoint of this machine may send by segmentation offload, and its
	// packets come together.
	if unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1) == nil {
		w.virtio = virtioBytes
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	growBuffers(fd)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: w.link}); err != nil {
		return fail("bind", err)
	}
	return fd, nil
}

// roceFilter passes unfragmented UDP for the RoCEv2 port in packets whose IP header
// is at ip.
func roceFilter(ip uint32) []unix.SockFilter {
	const (
		loadByte  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		loadHalf  = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		loadAtX   = unix.BPF_LD | unix.BPF_H | unix.BPF_IND
		headerToX = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH
		and       = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		equal     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		anyBit    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret       = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		0:  {Code: loadByte, K: ip},
		1:  {Code: and, K: 0xf0},
		2:  {Code: equal, K: 0x40, Jf: 7}, // else to 10
		3:  {Code: loadByte, K: ip + 9},
		4:  {Code: equal, K: unix.IPPROTO_UDP, Jf: 11}, // else to 16
		5:  {Code: loadHalf, K: ip + 6},
		6:  {Code: anyBit, K: 0x3fff, Jt: 9}, // to 16
		7:  {Code: headerToX, K: ip},
		8:  {Code: loadAtX, K: ip + 2},
		9:  {Code: equal, K: roce.Port, Jt: 5, Jf: 6},
		10: {Code: equal, K: 0x60, Jf: 5},
		11: {Code: loadByte, K: ip + 6},
		12: {Code: equal, K: unix.IPPROTO_UDP, Jf: 3},
		13: {Code: loadHalf, K: ip + roce.IPv6Bytes + 2},
		14: {Code: equal, K: roce.Port, Jf: 1},
		15: {Code: ret, K: 1 << 18},
		16: {Code: ret},
	}
}

func attachFilter(fd int, f []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}

func (w *packetWire) segments() int { return 1 }

func (w *packetWire) path(*endpoint.Route) *roce.Path { return nil }

// send implements wire.
func (w *packetWire) send(b *batch) {
	for i := 0; i < len(b.messages); {
		n, six := 0, b.messages[i].route.Dst.Addr().Is6()
		for ; i+n < len(b.messages) && b.messages[i+n].route.Dst.Addr().Is6() == six; n++ {
			m := &b.messages[i+n]
			w.prepare(i+n, m, b.buf[m.at:m.at+m.n])
		}
		which := 0
		if six {
			which = 1
		}
		transmit(w.raw[which], w.headers[i:i+n], &w.waiter, w.counters, func(int, unix.Errno) {})
		i += n
	}
}

// prepare builds frame i with all its headers.
func (w *packetWire) prepare(i int, m *message, data []byte) {
	f := w.frames[i][:]
	r := &m.route
	src := w.addrs[r.GID]
	udp := roce.UDPFields{SrcPort: r.SrcPort, DstPort: r.Dst.Port(), Len: roce.UDPBytes + len(data)}
	n := 0
	if src.Is4() {
		if w.id++; w.id == 0 {
			w.id = 1 // the kernel takes 0 for "choose one"
		}
		ip := roce.IPv4Fields{
			TOS: r.TrafficClass, TotalLen: roce.IPv4Bytes + udp.Len, ID: w.id, DontFragment: true, TTL: r.HopLimit, Src: src, Dst: r.Dst.Addr(),
		}
		n = ip.Put(f)
	} else {
		ip := roce.IPv6Fields{TrafficClass: r.TrafficClass, PayloadLen: udp.Len, HopLimit: r.HopLimit, Src: src, Dst: r.Dst.Addr()}
		n = ip.Put(f)
	}
	at := n
	n += udp.Put(f[n:])
	n += copy(f[n:], data)
	roce.PutICRC(f[:n])
	if src.Is6() { // who receives by a plain UDP socket wants one
		udp.Checksum = roce.UDPChecksum(f[:n])
		udp.Put(f[at:])
	}
	h := &w.headers[i].hdr
	w.iovs[i].Base = &f[0]
	w.iovs[i].SetLen(n)
	h.Iov = &w.iovs[i]
	h.SetIovlen(1)
	h.Name = (*byte)(unsafe.Pointer(&w.names[i]))
	h.Namelen = putAddr(&w.names[i], netip.AddrPortFrom(r.Dst.Addr(), 0), w.link)
}

// receive implements wire.
func (w *packetWire) receive() bool {
	for !w.stopped.Load() {
		w.mu.Lock()
		any := w.take()
		w.mu.Unlock()
		if any {
			return true
		}
		w.wait()
	}
	return false
}

// poll implements wire.
func (w *packetWire) poll() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	return !w.stopped.Load() && w.take()
}

// close implements wire. Somebody may still poll.
func (w *packetWire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiter.close()
}

func (w *packetWire) take() bool {
	n := w.in.receive()
	if n == 0 {
		return false
	}
	wall, monotonic := w.clock.readings()
	for i := range n {
		data, c, ok := w.in.message(i)
		if !ok || !w.parse(data, stamp(c.stamp, wall, monotonic)) {
			w.counters.malformed.Add(1)
		}
	}
	w.out.flush()
	return true
}

// virtioBytes is the length of struct virtio_net_hdr.
const virtioBytes = 10

// parse takes a frame apart into packets: one, or what segmentation offload has
// left together. It returns false if it is none.
func (w *packetWire) parse(b []byte, stamp uint64) bool {
	if len(b) < w.virtio {
		return false
	}
	segment := 0
	if w.virtio > 0 {
		const udpSegmentation = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
		if b[1] == udpSegmentation {
			segment = int(binary.NativeEndian.Uint16(b[4:]))
		}
		b = b[w.virtio:]
	}
	var f roce.Frame
	var err error
	if w.ethernet {
		err = f.ParseEthernet(b)
	} else {
		err = f.ParseIP(b)
	}
	if err != nil {
		return errors.Is(err, roce.ErrNotRoCE)
	}
	gid := slices.Index(w.addrs, f.Dst)
	if gid < 0 {
		return true // another endpoint's
	}
	p := endpoint.Packet{
		Data: f.IB, Src: netip.AddrPortFrom(f.Src, f.SrcPort), GID: gid, TrafficClass: f.TOS, HopLimit: f.TTL, Stamp: stamp,
	}
	if segment == 0 || segment >= len(f.IB) {
		if !roce.CheckICRC(f.IP) {
			w.counters.badICRC.Add(1)
			return true
		}
		w.out.add(&p)
		return true
	}
	id := uint16(0)
	if f.Src.Is4() {
		id = roce.IPv4(f.IP).ID()
	}
	path := w.paths.get(p.Src, netip.AddrPortFrom(f.Dst, roce.Port))
	for data := f.IB; len(data) > 0; id++ {
		p.Data = data[:min(segment, len(data))]
		data = data[len(p.Data):]
		if !path.CheckICRC(p.Data, id) {
			w.counters.badICRC.Add(1)
			continue
		}
		w.out.add(&p)
	}
	return true
}
