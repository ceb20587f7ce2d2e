package verbs

import "net/netip"

// MADDevice is a Device on which connection management can be built: it gives
// access to queue pair 1, the general services interface (IBA 13.5.1).
type MADDevice interface {
	// HandleMAD sets the handler of management datagrams for queue pair 1, nil for
	// none. f gets the datagram's destination address, the sender's address and queue
	// pair, and the 256 bytes, which are valid until f returns. f runs on the
	// goroutine that receives, so it must be quick; it may call the device.
	HandleMAD(f func(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte))
	// SendMAD sends a management datagram of 256 bytes from queue pair 1 to
	// queue pair qpn, usually 1, at to. It may be lost like any datagram.
	SendMAD(to AddressVector, qpn uint32, mad []byte) error
}
