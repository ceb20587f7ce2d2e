package softroce

import (
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addresses returns those of an interface, with why the kernel binds no socket to one.
func addresses(i *net.Interface) ([]address, error) {
	list, err := netlink.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: i.Index}}, netlink.FAMILY_ALL)
	// Addresses that change meanwhile interrupt the list, which holds what there was.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	all := make([]address, 0, len(list))
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			all = append(all, address{addr.Unmap(), unusable(a.Flags)})
		}
	}
	return all, nil
}

// unusable returns why a socket can't bind to an address with these flags (IFA_F_*),
// or "": duplicate address detection (RFC 4862, section 5.4) has not finished, or has
// found the address on another host. Optimistic addresses (RFC 4429) are usable before
// it finishes.
func unusable(flags int) string {
	switch {
	case flags&unix.IFA_F_DADFAILED != 0:
		return "a duplicate: another host of the network has it"
	case flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0:
		return "tentative: the kernel looks for a duplicate for a second or two, and for as long as there is no carrier"
	}
	return ""
}
