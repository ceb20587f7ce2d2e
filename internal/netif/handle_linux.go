package netif

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Handle asks the kernel about the interfaces of one network namespace: that of the
// thread which called Open, whichever calls later. One goroutine at a time uses it.
type Handle struct {
	route *netlink.Handle
	ioctl int // a socket for ethtool's
}

// Open opens a Handle for the calling thread's network namespace.
func Open() (*Handle, error) {
	route, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("netlink", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		route.Close()
		return nil, os.NewSyscallError("socket", err)
	}
	return &Handle{route, fd}, nil
}

// Close frees the sockets.
func (h *Handle) Close() {
	h.route.Close()
	_ = unix.Close(h.ioctl)
}

// ByIndex reads the interface of that index. For one that does not exist the error is
// os.ErrNotExist.
func (h *Handle) ByIndex(index int) (Facts, error) {
	l, err := h.route.LinkByIndex(index)
	return h.read(l, err, fmt.Sprintf("interface %d", index))
}

// ByName reads the interface of that name. For one that does not exist the error is
// os.ErrNotExist.
func (h *Handle) ByName(name string) (Facts, error) {
	l, err := h.route.LinkByName(name)
	return h.read(l, err, "interface "+name)
}

// ByIndex reads one interface of the calling thread's network namespace.
func ByIndex(index int) (Facts, error) {
	h, err := Open()
	if err != nil {
		return Facts{}, err
	}
	defer h.Close()
	return h.ByIndex(index)
}

// ByName reads one interface of the calling thread's network namespace.
func ByName(name string) (Facts, error) {
	h, err := Open()
	if err != nil {
		return Facts{}, err
	}
	defer h.Close()
	return h.ByName(name)
}

func (h *Handle) read(l netlink.Link, err error, what string) (Facts, error) {
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none), errors.Is(err, unix.ENODEV):
		return Facts{}, fmt.Errorf("%s: %w", what, os.ErrNotExist)
	case err != nil:
		return Facts{}, fmt.Errorf("%s: %w", what, err)
	}
	f := Facts{}
	h.link(&f, l.Attrs())
	// Addresses that change meanwhile interrupt the list, which holds what there was.
	list, err := h.route.AddrList(l, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return f, fmt.Errorf("addresses of %s: %w", what, err)
	}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			ones, _ := a.Mask.Size()
			f.Addrs = append(f.Addrs, Address{netip.PrefixFrom(addr.Unmap(), ones), uint32(a.Flags)})
		}
	}
	return f, nil
}

// link takes what a link's message says, and its rate.
func (h *Handle) link(f *Facts, a *netlink.LinkAttrs) {
	f.Index, f.Name, f.MTU = a.Index, a.Name, a.MTU
	f.MAC = nil
	if a.RawFlags&unix.IFF_LOOPBACK == 0 && len(a.HardwareAddr) > 0 {
		f.MAC = slices.Clone(a.HardwareAddr) // which lies in the message
	}
	f.Loopback = a.RawFlags&unix.IFF_LOOPBACK != 0
	f.Up = a.RawFlags&unix.IFF_UP != 0
	f.Carrier = a.RawFlags&unix.IFF_LOWER_UP != 0
	f.OperState = OperState(a.OperState)
	f.Rate = lineRate(h.ioctl, a.Name)
}
