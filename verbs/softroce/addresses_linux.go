package softroce

import (
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/netif"
)

// interfaces returns those of the calling thread's network namespace.
func interfaces() ([]netif.Facts, error) { return netif.List() }

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
