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
	all := make([]Facts, 1)
	h.link(&all[0], l.Attrs())
	if err := h.addresses(l, all); err != nil {
		return Facts{}, fmt.Errorf("addresses of %s: %w", what, err)
	}
	return all[0], nil
}

// List reads all interfaces, in the order of their indices.
func (h *Handle) List() ([]Facts, error) {
	links, err := h.route.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	all := make([]Facts, len(links))
	for i, l := range links {
		h.link(&all[i], l.Attrs())
	}
	slices.SortFunc(all, func(a, b Facts) int { return a.Index - b.Index })
	if err := h.addresses(nil, all); err != nil {
		return nil, fmt.Errorf("addresses of interfaces: %w", err)
	}
	return all, nil
}

// List reads all interfaces of the calling thread's network namespace.
func List() ([]Facts, error) {
	h, err := Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.List()
}

// addresses reads those of a link, or of all links, into the facts of their
// interfaces.
func (h *Handle) addresses(l netlink.Link, all []Facts) error {
	list, err := h.route.AddrList(l, netlink.FAMILY_ALL)
	// Addresses that change meanwhile interrupt the list, which holds what there was.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return err
	}
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		at := slices.IndexFunc(all, func(f Facts) bool { return f.Index == a.LinkIndex })
		if ok && at >= 0 {
			ones, _ := a.Mask.Size()
			all[at].Addrs = append(all[at].Addrs, Address{netip.PrefixFrom(addr.Unmap(), ones), uint32(a.Flags)})
		}
	}
	return nil
}

// link takes what a link's message says, and its rate.
func (h *Handle) link(f *Facts, a *netlink.LinkAttrs) {
	f.Index, f.Name, f.MTU = a.Index, a.Name, a.MTU
	f.MAC = nil
	if slices.ContainsFunc(a.HardwareAddr, func(b byte) bool { return b != 0 }) { // the loopback's is all zeros
		f.MAC = slices.Clone(a.HardwareAddr) // which lies in the message
	}
	f.Loopback = a.RawFlags&unix.IFF_LOOPBACK != 0
	f.Up = a.RawFlags&unix.IFF_UP != 0
	f.Carrier = a.RawFlags&unix.IFF_LOWER_UP != 0
	f.OperState = OperState(a.OperState)
	f.Rate = lineRate(h.ioctl, a.Name)
}
