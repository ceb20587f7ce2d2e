package roce

import (
	"encoding/binary"
	"net/netip"
)

// The RDMA IP CM service (IBA annex A11): how rdma_cm carries IP addresses and
// ports in a REQ.

// PortSpace is the kind of port that a service ID names (rdma_port_space).
type PortSpace uint16

// Port spaces of librdmacm.
const (
	PortSpaceTCP PortSpace = 0x0106
	PortSpaceUDP PortSpace = 0x0111
	PortSpaceIB  PortSpace = 0x013f
)

// ServiceID returns the service ID of a port.
func (s PortSpace) ServiceID(port uint16) uint64 { return uint64(s)<<16 | uint64(port) }

// ServicePort takes a service ID apart. ok says whether it is one of the RDMA IP
// CM service, whose first five bytes are 00 00 00 00 01.
func ServicePort(id uint64) (space PortSpace, port uint16, ok bool) {
	return PortSpace(id >> 16), uint16(id), id>>24 == 1
}

// IPCMBytes is the length of the addresses at the head of a REQ's private data.
const IPCMBytes = 36

// IPCM is rdma_cm's header in a REQ's private data: which address
// and port connects to which address. The destination's port is in the service ID.
type IPCM struct {
	Version  uint8 // major in the upper, minor in the lower four bits; 0 is the only one in use
	SrcPort  uint16
	Src, Dst netip.Addr // both IPv4 or both IPv6
}

// Decode reads b, the private data of a REQ, and returns what follows: the
// application's own private data. The error is BadIPCM.
func (h *IPCM) Decode(b []byte) (rest []byte, err error) {
	*h = IPCM{}
	if len(b) < IPCMBytes || b[0]>>4 != 0 {
		return nil, BadIPCM
	}
	switch b[1] >> 4 {
	case 4:
		h.Src, h.Dst = netip.AddrFrom4([4]byte(b[16:20])), netip.AddrFrom4([4]byte(b[32:36]))
	case 6:
		h.Src, h.Dst = netip.AddrFrom16([16]byte(b[4:20])), netip.AddrFrom16([16]byte(b[20:36]))
	default:
		return nil, BadIPCM
	}
	h.Version, h.SrcPort = b[0], binary.BigEndian.Uint16(b[2:])
	return b[IPCMBytes:], nil
}

// Put writes the addresses to b, which must have room for IPCMBytes, and returns
// that. It returns 0 and writes nothing if the addresses are not of one IP version.
func (h *IPCM) Put(b []byte) int {
	b = b[:IPCMBytes]
	switch {
	case h.Src.Is4() && h.Dst.Is4():
		clear(b)
		b[1] = 4 << 4
		src, dst := h.Src.As4(), h.Dst.As4()
		copy(b[16:], src[:])
		copy(b[32:], dst[:])
	case h.Src.Is6() && h.Dst.Is6():
		b[1] = 6 << 4
		src, dst := h.Src.As16(), h.Dst.As16()
		copy(b[4:], src[:])
		copy(b[20:], dst[:])
	default:
		return 0
	}
	b[0] = h.Version
	binary.BigEndian.PutUint16(b[2:], h.SrcPort)
	return IPCMBytes
}
