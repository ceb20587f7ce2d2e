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

// packetWire receives by a packet socket, which shows IP headers, so that the whole
// ICRC can be checked. It sends by raw IP sockets, which let it choose the headers:
// identifications that differ and source ports with entropy, as a NIC has. Routing and
// neighbours stay the kernel's business.
type packetWire struct {
	waiter
	counters *wireCounters
	clock    *clock
	gids     []gidEntry
	link     int
	ports    ports
	raw      [3]int // sockets to send by: IPv4, IPv6, and whole frames; -1 for none
	collect  *collect
	hops     neighbours

	headers [batchMessages]mmsghdr
	iovs    [batchMessages]unix.Iovec
	names   [batchMessages]unix.RawSockaddrInet6
	frames  [batchMessages][room + roce.IPv6Bytes + roce.UDPBytes + endpoint.MaxPacket]byte
	socket  [batchMessages]int // which of raw
	id      uint16

	mu       sync.Mutex // guards receiving
	in       inbox
	out      collector
	paths    pathCache
	ethernet bool // frames have Ethernet headers
	virtio   int  // bytes before the frame that describe segmentation, 0 for none
}

func (d *device) openPacketWire() (wire, error) {
	if d.opt.Port != roce.Port {
		return nil, verbs.Errorf("open", d.name, verbs.ErrInvalid, "mode=packet requires the standard port, %d", roce.Port)
	}
	w := &packetWire{
		counters: &d.counters, clock: &d.clock, gids: newGIDs(d.link.addrs), link: d.link.index, raw: [3]int{-1, -1, -1}, out: newCollector(d.deliver),
		collect: &d.opt.collect,
	}
	var fds []int
	fail := func(err error) (wire, error) {
		for _, fd := range append(fds, w.raw[:]...) {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
		}
		w.ports.close()
		w.hops.close()
		return nil, err
	}
	fd, err := w.openSocket()
	if err != nil {
		return fail(d.openError(netip.AddrPortFrom(d.link.addrs[0], roce.Port), err))
	}
	fds = append(fds, fd)
	w.in.init(fd)
	if w.collect.tags {
		if !w.ethernet {
			return fail(verbs.Errorf("open", d.name, verbs.ErrInvalid, "option telemetry: a tag requires Ethernet frames, and %s has none", d.link.name))
		}
		if w.raw[frames], err = openFrameSocket(w.link); err == nil {
			err = w.hops.init(&d.link)
		}
		if err != nil {
			return fail(d.openError(netip.AddrPortFrom(d.link.addrs[0], roce.Port), err))
		}
	}
	for i, a := range d.link.addrs {
		if at, err := w.reserve(i, a); err != nil {
			return fail(d.openError(at, err))
		}
	}
	if err := w.waiter.init(fds...); err != nil {
		return fail(err)
	}
	return w, nil
}

// reserve takes the ports of an address for a place of the GID table, and opens the raw
// socket that sends from it. With an error it says which port it is about.
func (w *packetWire) reserve(i int, a netip.Addr) (at netip.AddrPort, err error) {
	numbers := []uint16{roce.Port}
	if w.collect.int {
		numbers = append(numbers, w.collect.hops.Port)
	}
	return w.ports.reserve(i, a, w.link, numbers, w.raw[:frames])
}

// readdress implements wire.
func (w *packetWire) readdress(table []gidEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gids = w.ports.readdress(w.gids, table, w.reserve)
	w.hops.forget()
}

// ports are the UDP ports that a wire holds without using them, by the GID table's
// places.
type ports [][]int

// reserve takes UDP ports of an address for a place, and opens the raw socket of its
// family, if that is not open yet.
func (p *ports) reserve(i int, a netip.Addr, link int, numbers []uint16, raw []int) (at netip.AddrPort, err error) {
	var fds []int
	for _, n := range numbers {
		at = netip.AddrPortFrom(a, n)
		fd, err := reservePort(at, link)
		if err != nil {
			closeAll(fds)
			return at, err
		}
		fds = append(fds, fd)
	}
	if which := rawSocketFor(a); raw[which] < 0 {
		fd, err := openRawSocket(which)
		if err != nil {
			closeAll(fds)
			return at, err
		}
		raw[which] = fd
	}
	for i >= len(*p) {
		*p = append(*p, nil)
	}
	closeAll((*p)[i])
	(*p)[i] = fds
	return at, nil
}

// readdress reserves what the next table has, and returns it with what a wire has to
// know of it: an address that is not present stays where it was until another one has
// its place. What can't be reserved it marks in next as not present.
func (p *ports) readdress(was, next []gidEntry, reserve func(int, netip.Addr) (netip.AddrPort, error)) []gidEntry {
	now := slices.Clone(next)
	for i := range next {
		if i < len(was) && was[i].addr == next[i].addr || !next[i].present {
			continue
		}
		if _, err := reserve(i, next[i].addr); err != nil {
			next[i].present, now[i].present = false, false
			if i < len(was) {
				now[i].addr = was[i].addr
			}
		}
	}
	return now
}

func (p *ports) close() {
	for _, fds := range *p {
		closeAll(fds)
	}
	*p = nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// reservePort takes a UDP port with a socket that throws all away. It keeps the kernel
// from answering that the port is closed, and others from taking it.
func reservePort(at netip.AddrPort, link int) (int, error) {
	fd, err := newUDPSocket(at, link)
	if err != nil {
		return -1, err
	}
	if err := attachFilter(fd, nothing); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// rawSocketFor is the kind of raw socket that sends from an address.
func rawSocketFor(a netip.Addr) int {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

// openRawSocket opens a socket that sends packets with their IP headers: ipv4 or ipv6.
func openRawSocket(which int) (int, error) {
	family := unix.AF_INET
	if which == ipv6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	growBuffers(fd)
	return fd, nil
}

// errKind is the error for interfaces whose frames are not understood.
var errKind = errors.New("mode=packet requires an Ethernet, loopback or tunnel interface: leave the mode out")

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
	if err := attachFilter(fd, roceFilter(uint32(ip), w.collect)); err != nil {
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

// nothing is a filter that no packet passes.
var nothing = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}

// roceFilter passes unfragmented UDP for the RoCEv2 port in packets whose IP header
// is at ip. It also passes packets with telemetry: tagged frames, whatever they
// contain, and UDP for the INT port.
func roceFilter(ip uint32, c *collect) []unix.SockFilter {
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
	records := uint32(roce.Port) // a second time
	if c.int {
		records = uint32(c.hops.Port)
	}
	f := []unix.SockFilter{
		0:  {Code: loadByte, K: ip},
		1:  {Code: and, K: 0xf0},
		2:  {Code: equal, K: 0x40, Jf: 8}, // else to 11
		3:  {Code: loadByte, K: ip + 9},
		4:  {Code: equal, K: unix.IPPROTO_UDP, Jf: 13}, // else to 18
		5:  {Code: loadHalf, K: ip + 6},
		6:  {Code: anyBit, K: 0x3fff, Jt: 11}, // to 18
		7:  {Code: headerToX, K: ip},
		8:  {Code: loadAtX, K: ip + 2},
		9:  {Code: equal, K: roce.Port, Jt: 7}, // to 17
		10: {Code: equal, K: records, Jt: 6, Jf: 7},
		11: {Code: equal, K: 0x60, Jf: 6},
		12: {Code: loadByte, K: ip + 6},
		13: {Code: equal, K: unix.IPPROTO_UDP, Jf: 4},
		14: {Code: loadHalf, K: ip + roce.IPv6Bytes + 2},
		15: {Code: equal, K: roce.Port, Jt: 1},
		16: {Code: equal, K: records, Jf: 1},
		17: {Code: ret, K: 1 << 18},
		18: {Code: ret},
	}
	if !c.tags {
		return f
	}
	return append([]unix.SockFilter{
		{Code: loadHalf, K: ip - 2}, // the EtherType
		{Code: equal, K: uint32(c.delay.EtherType), Jt: 17},
	}, f...)
}

func attachFilter(fd int, f []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}

func (w *packetWire) segments() int { return 1 }

func (w *packetWire) path(*endpoint.Route) *roce.Path { return nil }

// room is in front of the IP header of a frame: for an Ethernet header with tags, or
// for INT.
const room = 128

// Sockets that packetWire sends by.
const (
	ipv4 = iota
	ipv6
	frames
)

// send implements wire.
func (w *packetWire) send(b *batch) {
	for i := range b.messages {
		m := &b.messages[i]
		w.socket[i] = w.prepare(i, m, b.buf[m.at:m.at+m.n])
	}
	for i := 0; i < len(b.messages); {
		n := 1
		for i+n < len(b.messages) && w.socket[i+n] == w.socket[i] {
			n++
		}
		transmit(w.raw[w.socket[i]], w.headers[i:i+n], &w.waiter, w.counters, func(int, unix.Errno) {})
		i += n
	}
}

// prepare builds frame i with all its headers, and returns the socket to send it
// by.
func (w *packetWire) prepare(i int, m *message, data []byte) int {
	f := w.frames[i][:]
	r := &m.route
	src := w.gids[r.GID].addr
	if w.id++; w.id == 0 {
		w.id = 1 // the kernel takes 0 for "choose one"
	}
	socket, begin := rawSocketFor(src), room
	n := begin + putIP(f[begin:], src, r, w.id, len(data))
	n += copy(f[n:], data)
	roce.PutICRC(f[begin:n])
	if src.Is6() {
		putChecksum(f[begin:n])
	}
	to := netip.AddrPortFrom(r.Dst.Addr(), 0)
	switch c := &m.carried; {
	case w.collect.int && (c.Collects || len(c.INT) > 0):
		begin = w.collect.putINT(f, begin, n-len(data)-roce.UDPBytes-begin, n-begin, c)
	case w.collect.tags && c.Collects:
		// A neighbour who is not known is left to the kernel to find, with a packet
		// that has no tag.
		if hop, ok := w.hops.find(to.Addr()); ok {
			socket = frames
			begin = w.collect.putTags(f, begin, hop, src.Is6(), c)
		}
	}
	h := &w.headers[i].hdr
	w.iovs[i].Base = &f[begin]
	w.iovs[i].SetLen(n - begin)
	h.Iov = &w.iovs[i]
	h.SetIovlen(1)
	h.Name, h.Namelen = nil, 0
	if socket != frames {
		h.Name = (*byte)(unsafe.Pointer(&w.names[i]))
		h.Namelen = putAddr(&w.names[i], to, w.link)
	}
	return socket
}

// putIP writes the IP and UDP headers of a datagram with n bytes of payload, and returns
// their length. The identification is IPv4's.
func putIP(b []byte, src netip.Addr, r *endpoint.Route, id uint16, n int) int {
	udp := roce.UDPFields{SrcPort: r.SrcPort, DstPort: r.Dst.Port(), Len: roce.UDPBytes + n}
	at := 0
	if src.Is4() {
		ip := roce.IPv4Fields{
			TOS: r.TrafficClass, TotalLen: roce.IPv4Bytes + udp.Len, ID: id, DontFragment: true, TTL: r.HopLimit, Src: src, Dst: r.Dst.Addr(),
		}
		at = ip.Put(b)
	} else {
		ip := roce.IPv6Fields{TrafficClass: r.TrafficClass, PayloadLen: udp.Len, HopLimit: r.HopLimit, Src: src, Dst: r.Dst.Addr()}
		at = ip.Put(b)
	}
	return at + udp.Put(b[at:])
}

// putChecksum writes the UDP checksum of an IPv6 packet, without which a plain UDP
// socket takes no packet.
func putChecksum(packet []byte) {
	binary.BigEndian.PutUint16(packet[roce.IPv6Bytes+6:], roce.UDPChecksum(packet))
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
	w.ports.close()
	for _, fd := range w.raw {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	w.hops.close()
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

// packetOf is a frame as the endpoint takes it. ok is false if it is for none of the
// addresses.
func packetOf(f *roce.Frame, gids []gidEntry, stamp uint64) (p endpoint.Packet, ok bool) {
	gid := slices.Index(gids, gidEntry{f.Dst, true})
	return endpoint.Packet{
		Data: f.IB, Src: netip.AddrPortFrom(f.Src, f.SrcPort), GID: gid, TrafficClass: f.TOS, HopLimit: f.TTL, Stamp: stamp,
	}, gid >= 0
}

// virtioBytes is the length of struct virtio_net_hdr.
const virtioBytes = 10

// parse takes a frame apart into packets: one, or what segmentation offload has
// left together. It returns false if b is not such a frame.
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
	b, brought := w.collect.takeOff(b, w.ethernet)
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
	p, ok := packetOf(&f, w.gids, stamp)
	if !ok {
		return true // another endpoint's
	}
	p.Brought = brought
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
