package route

import (
	"net"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Family is a version of IP.
type Family int

// The versions of IP that a caller may ask for.
const (
	AnyFamily Family = iota // the peer's
	IPv4
	IPv6
)

// To is a peer, and what is already decided about the way to it.
type To struct {
	// Peer is its address: that of its RDMA, or of a connection to it by which RDMA's
	// addresses will be exchanged. Zero is an unknown peer.
	Peer netip.Addr
	// Local is this end of a connection with it, zero if there is none.
	Local netip.Addr
	// Index is the entry of the GID table that the user names, negative for none.
	Index int
	// Family, unless AnyFamily, is the user's, in place of the peer's.
	Family Family
}

// Ends is a connection, such as one of TCP.
type Ends interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Over is the peer at the other end of a connection. One of other protocols than TCP and
// UDP says nothing of addresses.
func Over(c Ends) To { return To{Peer: ip(c.RemoteAddr()), Local: ip(c.LocalAddr()), Index: -1} }

func ip(a net.Addr) netip.Addr {
	var found netip.Addr
	switch a := a.(type) {
	case *net.TCPAddr:
		if a != nil {
			found = a.AddrPort().Addr()
		}
	case *net.UDPAddr:
		if a != nil {
			found = a.AddrPort().Addr()
		}
	}
	return found.Unmap()
}

// From is the source address of a device's port towards a peer.
type From struct {
	Index int        // in the GID table
	GID   netip.Addr // as the table has it
	MTU   ib.MTU     // of the path
	// Rate is the line's, in bits per second: the port's, or the way out's for a device of
	// the loopback.
	Rate int64
}

// Choose finds where a port sends to a peer from. In this order, the first that the port's
// table has: the index that the user names; this end's address of the connection; the
// source of the kernel's route to the peer, by any interface, then by the port's own; an
// address of the peer's kind from which the kernel has a route to it, and any of its IP
// version; the usual one (verbs.UsualGID). The path MTU is the port's, or what the route's
// way out carries, if that is less.
func Choose(dev verbs.Device, port int, to To) (From, error) {
	attr, err := dev.Port(port)
	if err != nil {
		return From{}, err
	}
	if to.Index >= 0 {
		gid, err := dev.GID(port, to.Index)
		if err != nil {
			return From{}, err
		}
		f := From{to.Index, gid, attr.ActiveMTU, attr.LinkRate}
		if !verbs.Simulated(dev) {
			f.follow(&attr, &to, loopback(attr.Netdev), false, kernel)
		}
		return f, nil
	}
	gids := make([]netip.Addr, attr.GIDs) // the zero Addr is none
	for i := range gids {
		if a, err := dev.GID(port, i); err == nil && a.IsValid() && !a.IsUnspecified() {
			gids[i] = a
		}
	}
	ask, loop := lookup(kernel), false
	if verbs.Simulated(dev) {
		ask = nil // its network is not the kernel's
	} else {
		loop = loopback(attr.Netdev)
	}
	if to.Peer.IsLoopback() && !loop {
		to.Peer, to.Local = netip.Addr{}, netip.Addr{} // the ends talk within this host, and what they send goes elsewhere
	}
	f := From{MTU: attr.ActiveMTU, Rate: attr.LinkRate}
	i, routed := choose(gids, &to, attr.Netdev, loop, ask)
	if i < 0 {
		if to.Family == IPv6 {
			return f, verbs.Errorf("query_gid", dev.Name(), verbs.ErrInvalid, "port %d has no IPv6 address", port)
		}
		f.Index, f.GID, err = verbs.UsualGID(dev, port)
		return f, err
	}
	f.Index, f.GID = i, gids[i]
	if ask != nil {
		f.follow(&attr, &to, loop, routed, ask)
	}
	return f, nil
}

// Rate is the line's towards a peer, from an entry of the port's GID table, as From.Rate;
// 0 where none is known.
func Rate(dev verbs.Device, port, index int, peer netip.Addr) int64 {
	attr, err := dev.Port(port)
	if err != nil {
		return 0
	}
	f := From{Rate: attr.LinkRate}
	if peer.IsValid() && attr.Netdev != "" && !verbs.Simulated(dev) && loopback(attr.Netdev) {
		if f.GID, err = dev.GID(port, index); err == nil {
			f.follow(&attr, &To{Peer: peer}, true, false, kernel)
		}
	}
	return f.Rate
}

// choose returns the index of the address to send from, -1 if none is of the family. routed:
// packets to the peer's address go from it.
func choose(gids []netip.Addr, to *To, netdev string, loop bool, ask lookup) (index int, routed bool) {
	find := func(a netip.Addr) int {
		for i, g := range gids {
			if a.IsValid() && g.IsValid() && plain(g) == plain(a) && to.wants(g) {
				return i
			}
		}
		return -1
	}
	if i := find(to.Local); i >= 0 && ask != nil {
		return i, true
	}
	for _, by := range to.ways(netdev, loop) {
		if ask == nil {
			break
		}
		if w, err := ask(to.Peer, netip.Addr{}, by); err == nil {
			if i := find(w.Source); i >= 0 {
				return i, true
			}
		}
	}
	best, index := 0, -1
	for i, g := range gids {
		if !g.IsValid() || !to.wants(g) {
			continue
		}
		if r := to.rank(g, ask); r > best {
			best, index = r, i
		}
	}
	return index, false
}

// ways are the interfaces by which to ask for the way to the peer, "" for any.
func (to *To) ways(netdev string, loop bool) []string {
	switch {
	case !to.Peer.IsValid():
		return nil
	case netdev == "" || loop:
		return []string{""}
	case to.Peer.IsLinkLocalUnicast() && to.Peer.Zone() == "":
		return []string{netdev}
	}
	return []string{"", netdev}
}

// rank is greater the better an address is to send from: best is one that has a way to the peer.
func (to *To) rank(gid netip.Addr, ask lookup) int {
	rank := 1
	if to.Peer.IsValid() && ask != nil && like(gid, to.Peer) {
		if _, err := ask(to.Peer, gid, ""); err == nil {
			rank += 4
		}
	}
	if !gid.IsLinkLocalUnicast() {
		rank++
	}
	if !gid.IsLoopback() || to.Peer.IsLoopback() {
		rank++
	}
	return rank
}

// wants reports whether an address is of the IP version that is asked for.
func (to *To) wants(gid netip.Addr) bool {
	switch is4 := gid.Unmap().Is4(); {
	case to.Family != AnyFamily:
		return is4 == (to.Family == IPv4)
	case to.Peer.IsValid():
		return is4 == to.Peer.Unmap().Is4()
	}
	return false // as verbs.UsualGID has it
}

// like reports whether packets go between addresses of these kinds.
func like(a, b netip.Addr) bool {
	a, b = plain(a), plain(b)
	return a.Is4() == b.Is4() && (a.Is4() || a.IsLinkLocalUnicast() == b.IsLinkLocalUnicast()) && a.IsLoopback() == b.IsLoopback()
}

// plain is an address without its zone, which names an interface, or the UDP port of a
// device of package softroce.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// headers is the room that the kernel's RoCE driver leaves for them, in bytes
// (iboe_get_mtu).
const headers = 80

// follow takes path MTU and rate from the way to the peer. The peer's address may be that
// of another network, by which the ends only talk: unless packets to it are known to go
// from the GID, the way has to be by the port's own interface.
func (f *From) follow(attr *verbs.PortAttr, to *To, loop, routed bool, ask lookup) {
	if !to.Peer.IsValid() || !like(f.GID, to.Peer) && !routed {
		return
	}
	by := ""
	if to.Peer.IsLinkLocalUnicast() && to.Peer.Zone() == "" && !loop {
		by = attr.Netdev
	}
	w, err := ask(to.Peer, plain(f.GID), by)
	if err != nil || w.Itself || !routed && !loop && w.Interface != attr.Netdev && plain(to.Local) != plain(f.GID) {
		return
	}
	for f.MTU > 256 && int(f.MTU)+headers > w.MTU {
		f.MTU /= 2
	}
	if loop {
		if r := rate(w.Interface); r > 0 {
			f.Rate = r
		}
	}
}
