package route

import "net/netip"

// Way is the kernel's route to an address.
type Way struct {
	Source    netip.Addr // that packets get; zero if the kernel names none
	Interface string     // by which they leave
	// MTU is the largest IP packet, in bytes: the route's, or else the interface's.
	MTU int
	// Itself: the address is one of this host's own, and packets do not leave it.
	Itself bool
	// ToMany: the address is that of a broadcast or a multicast group.
	ToMany bool
}

// lookup asks for the way to a peer: from an address, by an interface, unless they are
// zero.
type lookup func(peer, from netip.Addr, by string) (Way, error)

// Lookup asks the kernel for the way to a peer, from one of the host's addresses unless
// from is zero. A peer's zone names the interface. Where the system can't be asked, the
// error is verbs.ErrNotSupported.
func Lookup(peer, from netip.Addr) (Way, error) { return kernel(peer, from, "") }
