package softroce

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
)

// neighbour is whom frames for an address go to, and from.
type neighbour struct {
	mac, own roce.MAC
	known    bool
	stale    bool      // the kernel wants to ask, and does once it sends a packet there itself
	until    time.Time // when to ask again
}

// neighbours looks up neighbours in the kernel, which finds and supervises them. It
// belongs to the goroutine that sends.
type neighbours struct {
	netlink  *netlink.Handle
	link     int
	own      roce.MAC
	loopback bool
	known    map[netip.Addr]*neighbour
	last     *neighbour
	lastAddr netip.Addr
}

// How long an answer is valid: a neighbour's address, and that it is not known yet.
const (
	neighbourFor = time.Second
	nobodyFor    = 2 * time.Millisecond
)

func (n *neighbours) init(l *link) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE) // of this thread's namespace
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	n.netlink, n.link, n.known = h, l.index, map[netip.Addr]*neighbour{}
	n.loopback = len(l.mac) == 0
	copy(n.own[:], l.mac)
	return nil
}

func (n *neighbours) close() {
	if n.netlink != nil {
		n.netlink.Close()
	}
}

// forget has all be asked for anew.
func (n *neighbours) forget() { n.known, n.last = map[netip.Addr]*neighbour{}, nil }

// find returns the neighbour that packets for an address go to next.
func (n *neighbours) find(to netip.Addr) (*neighbour, bool) {
	at := n.last
	if at == nil || n.lastAddr != to {
		if at = n.known[to]; at == nil {
			at = &neighbour{own: n.own}
			n.known[to] = at
		}
		n.last, n.lastAddr = at, to
	}
	if now := time.Now(); now.After(at.until) {
		at.known = n.ask(to, at)
		at.until = now.Add(nobodyFor)
		if at.known {
			at.until = now.Add(neighbourFor)
		}
	}
	return at, at.known
}

// ask asks the kernel for the address of the station that packets go to next. A
// route by another interface counts as none.
func (n *neighbours) ask(to netip.Addr, at *neighbour) bool {
	if n.loopback {
		return true // its frames have no addresses
	}
	hop := to
	if !to.IsLinkLocalUnicast() {
		routes, err := n.netlink.RouteGet(net.IP(to.AsSlice()))
		if err != nil || len(routes) == 0 || routes[0].LinkIndex != n.link {
			return false
		}
		if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
			hop = gw.Unmap()
		}
	}
	family := unix.AF_INET
	if hop.Is6() {
		family = unix.AF_INET6
	}
	list, err := n.netlink.NeighList(n.link, family)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return false
	}
	const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT | unix.NUD_NOARP
	for i := range list {
		if a, ok := netip.AddrFromSlice(list[i].IP); ok && a.Unmap() == hop && list[i].State&usable != 0 && len(list[i].HardwareAddr) == len(at.mac) {
			copy(at.mac[:], list[i].HardwareAddr)
			at.stale = list[i].State&unix.NUD_STALE != 0
			return true
		}
	}
	return false
}

// openFrameSocket opens a packet socket that whole frames are sent by.
func openFrameSocket(link int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// Without a protocol nothing comes.
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link}); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("bind", err)
	}
	growBuffers(fd)
	return fd, nil
}
