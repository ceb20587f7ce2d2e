package softswitch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cli/internal/offload"
	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/roce"
)

const (
	batch       = 32
	frameBytes  = 64<<10 + 256 // of a frame that comes: what segmentation offload puts together
	controlLen  = 128
	socketBytes = 8 << 20 // that the socket's buffers are asked to have
	vlanBytes   = 4
)

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// socket is a packet socket on one interface.
type socket struct {
	fd   int
	name string
	mtu  int

	// Receiving.
	in struct {
		headers  [batch]mmsghdr
		iovs     [batch][2]unix.Iovec // offload header, frame
		offload  [batch][offload.HeaderBytes]byte
		controls [batch][controlLen]byte
		buf      []byte // of batch frames, each with room for a VLAN tag in front
		n, next  int    // messages of the last call, and the first that was not handled
		frames   [batch]arrival
	}
	// Sending.
	out struct {
		headers [batch]mmsghdr
		iovs    [batch]unix.Iovec
		packets [batch]*plane.Packet
	}
	missed, txErrors uint64
}

// arrival is a frame that came, what is left to do to it, and when it came, in
// nanoseconds on the wall clock, 0 if nobody knows. Without bytes it was cut.
type arrival struct {
	bytes   []byte
	offload offload.Header
	stamp   int64
}

// openSocket opens the packet socket of an interface, which hears all that comes by.
func openSocket(name string) (*socket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("there is no interface %s: ip link lists them", name)
	}
	if link.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("the interface %s is down: ip link set %s up", name, name)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) {
		return nil, errors.New("a switch needs packet sockets: run it as root, or with the capability CAP_NET_RAW")
	} else if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd: fd, name: name, mtu: link.MTU}
	if err := s.set(link.Index); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	s.in.buf = make([]byte, batch*frameBytes)
	s.in.n = batch
	for i := range batch {
		h := &s.in.headers[i].hdr
		v := &s.in.iovs[i]
		v[0].Base = &s.in.offload[i][0]
		v[0].SetLen(offload.HeaderBytes)
		v[1].Base = &s.in.buf[i*frameBytes+vlanBytes]
		v[1].SetLen(frameBytes - vlanBytes)
		h.Iov = &v[0]
		h.SetIovlen(2)
		h.Control = &s.in.controls[i][0]
		o := &s.out.headers[i].hdr
		o.Iov = &s.out.iovs[i]
		o.SetIovlen(1)
	}
	return s, nil
}

func (s *socket) set(link int) error {
	fail := func(err error) error { return os.NewSyscallError("setsockopt", err) }
	// Bound without a protocol it gets nothing yet, and its kind can be asked for.
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: link}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	a, err := unix.Getsockname(s.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	if kind := a.(*unix.SockaddrLinklayer).Hatype; kind != unix.ARPHRD_ETHER {
		return errors.New("it is no Ethernet interface")
	}
	for _, o := range []int{unix.PACKET_IGNORE_OUTGOING, unix.PACKET_VNET_HDR, unix.PACKET_AUXDATA} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, o, 1); err != nil {
			return fail(err)
		}
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fail(err)
	}
	// What follows makes things better and may be missing.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	for _, o := range [][2]int{{unix.SO_RCVBUF, unix.SO_RCVBUFFORCE}, {unix.SO_SNDBUF, unix.SO_SNDBUFFORCE}} {
		if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o[1], socketBytes) != nil {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o[0], socketBytes)
		}
	}
	join := unix.PacketMreq{Ifindex: int32(link), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(s.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &join); err != nil {
		return fail(err)
	}
	all := uint16(unix.ETH_P_ALL)<<8 | unix.ETH_P_ALL>>8
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		all = unix.ETH_P_ALL
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return nil
}

// receive takes frames that are there, and returns how many.
func (s *socket) receive() int {
	in := &s.in
	for i := range in.n {
		h := &in.headers[i].hdr
		h.Flags = 0
		h.SetControllen(controlLen)
	}
	in.n, in.next = 0, 0
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&in.headers)), batch, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			in.n = int(n)
			for i := range in.n {
				in.frames[i] = s.arrived(i)
			}
			return in.n
		case unix.EINTR:
		default: // EAGAIN; or the interface went down, which may pass
			return 0
		}
	}
}

// arrived reads message i.
func (s *socket) arrived(i int) (a arrival) {
	in := &s.in
	m := &in.headers[i]
	n := int(m.len) - offload.HeaderBytes
	c := parseControl(in.controls[i][:m.hdr.Controllen])
	a.stamp = c.stamp
	if n < 0 || m.hdr.Flags&unix.MSG_TRUNC != 0 {
		return a
	}
	a.offload = offload.ParseHeader(in.offload[i][:])
	at := i*frameBytes + vlanBytes
	a.bytes = in.buf[at : at+n]
	if c.vlan && n >= roce.EthernetBytes {
		// The kernel has taken the tag out of the frame.
		const addrs = 12
		a.bytes = in.buf[at-vlanBytes : at+n]
		copy(a.bytes, a.bytes[vlanBytes:vlanBytes+addrs])
		binary.BigEndian.PutUint16(a.bytes[addrs:], c.tpid)
		binary.BigEndian.PutUint16(a.bytes[addrs+2:], c.tci)
		a.offload.Start += vlanBytes
	}
	return a
}

// control holds the content of a frame's control messages.
type control struct {
	stamp     int64 // nanoseconds on the wall clock, 0 for none
	vlan      bool
	tci, tpid uint16
}

func parseControl(b []byte) (c control) {
	const (
		auxdataBytes = 20 // struct tpacket_auxdata
		vlanValid    = 1 << 4
		tpidValid    = 1 << 6
	)
	header := unix.CmsgLen(0)
	for len(b) >= header {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		n := int(h.Len)
		if n < header || n > len(b) {
			return c
		}
		data := b[header:n]
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			c.stamp = (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA && len(data) >= auxdataBytes:
			ne := binary.NativeEndian
			status := ne.Uint32(data)
			c.vlan, c.tci, c.tpid = status&vlanValid != 0, ne.Uint16(data[16:]), unix.ETH_P_8021Q
			if status&tpidValid != 0 {
				c.tpid = ne.Uint16(data[18:])
			}
		}
		b = b[min(len(b), unix.CmsgSpace(n-header)):]
	}
	return c
}

// send sends the first n of out.packets. What the kernel does not take is lost.
func (s *socket) send(n int) {
	for i := range n {
		p := s.out.packets[i]
		b := p.Buffer()[plane.Headroom-offload.HeaderBytes:]
		clear(b[:offload.HeaderBytes]) // no offload
		s.out.iovs[i].Base = &b[0]
		s.out.iovs[i].SetLen(len(b))
	}
	for done := 0; done < n; {
		sent, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.out.headers[done])), uintptr(n-done), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			done += int(sent)
		case unix.EINTR:
		default:
			s.txErrors++
			done++
		}
	}
}

// countMissed asks the kernel for the frames that found the socket's buffer full.
func (s *socket) countMissed() {
	if st, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		s.missed += uint64(st.Drops) // the kernel begins anew at each call
	}
}
