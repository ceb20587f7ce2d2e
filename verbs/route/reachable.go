package route

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// Reachable returns nil if packets can leave a port, from an address of its table, for a peer's. It
// does so, too, where that is not known: for a simulated device, for one of another network
// namespace than the caller's, and on systems that can't be asked. The error of an address that no
// host has, such as a multicast group's, is verbs.ErrInvalid; where the kernel has no route it is the
// kernel's own, as of rdma_resolve_addr: syscall.ENETUNREACH, EHOSTUNREACH, EACCES or EINVAL.
func Reachable(dev verbs.Device, port int, from, peer netip.Addr) error {
	if peer.IsUnspecified() || peer.IsMulticast() || peer.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%v: %w: no host's address", peer, verbs.ErrInvalid)
	}
	if verbs.Simulated(dev) {
		return nil
	}
	by := ""
	if peer.IsLinkLocalUnicast() && peer.Zone() == "" {
		attr, err := dev.Port(port)
		if err != nil {
			return err
		}
		if !loopback(attr.Netdev) {
			by = attr.Netdev
		}
	}
	return reachable(plain(from), peer, by, kernel)
}

func reachable(from, peer netip.Addr, by string, ask lookup) error {
	w, err := ask(peer, from, by)
	switch {
	case err == nil && w.ToMany:
		return fmt.Errorf("the route to %v: %w: it is a broadcast's", peer, syscall.ENETUNREACH)
	case err == nil || !isRefusal(err):
		return nil
	}
	if own, e := ask(from, netip.Addr{}, ""); e != nil || !own.Itself {
		return nil // the caller is in another network namespace than the device
	}
	return err
}

// isRefusal reports whether an error is the kernel's word that it has no route. EINVAL is that of a
// blackhole.
func isRefusal(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EACCES, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
