package roce

import "encoding/binary"

// Port is the UDP destination port of RoCEv2 (IBA annex A17).
const Port = 4791

// UDPBytes is the length of the UDP header.
const UDPBytes = 8

// UDP is a view over a UDP datagram of at least UDPBytes bytes.
type UDP []byte

// SrcPort returns the source port, which carries entropy for ECMP.
func (u UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(u) }

// DstPort returns the destination port.
func (u UDP) DstPort() uint16 { return binary.BigEndian.Uint16(u[2:]) }

// Len returns the length of header and payload in bytes.
func (u UDP) Len() int { return int(binary.BigEndian.Uint16(u[4:])) }

// Checksum returns the checksum without verifying it; 0 means none.
func (u UDP) Checksum() uint16 { return binary.BigEndian.Uint16(u[6:]) }

// UDPFields are the fields of a UDP header.
type UDPFields struct {
	SrcPort, DstPort uint16
	Len              int // of header and payload, in bytes, below 65536
	Checksum         uint16
}

// Put writes the header to b, which must have room for it, and returns UDPBytes.
func (f *UDPFields) Put(b []byte) int {
	b = b[:UDPBytes]
	binary.BigEndian.PutUint16(b, f.SrcPort)
	binary.BigEndian.PutUint16(b[2:], f.DstPort)
	binary.BigEndian.PutUint16(b[4:], uint16(f.Len))
	binary.BigEndian.PutUint16(b[6:], f.Checksum)
	return UDPBytes
}

// UDPChecksum returns the checksum of the UDP datagram in ip, a whole IP packet
// without options or extension headers, with the pseudo header of RFC 768 or RFC
// 8200. It is never 0. RoCEv2 senders mostly send 0 instead: the ICRC does the
// work. A UDP socket accepts 0 over IPv4 and drops it over IPv6 unless it set
// UDP_NO_CHECK6_RX.
func UDPChecksum(ip []byte) uint16 {
	addrs, udp := ip[12:20], ip[IPv4Bytes:]
	if ip[0]>>4 == 6 {
		addrs, udp = ip[8:40], ip[IPv6Bytes:]
	}
	s := Sum(protocolUDP+uint64(len(udp)), addrs)
	s = Sum(s, udp[:6])
	if c := ^Fold(Sum(s, udp[UDPBytes:])); c != 0 {
		return c
	}
	return 0xffff
}

// SrcPort returns the UDP source port that represents an IB flow label of 20 bits:
// both halves folded into the 14 bits above 0xc000, as Linux does, which most
// drivers follow. (The specification leaves the port to the sender.)
func SrcPort(flowLabel uint32) uint16 {
	return 0xc000 | (uint16(flowLabel&0x3fff) ^ uint16(flowLabel>>14&0x3f))
}

// FlowLabel returns the flow label that Linux derives from the QP numbers of a
// connection for which none was set: 20 bits, the same at both ends.
func FlowLabel(qpn, destQPN uint32) uint32 {
	v := uint64(qpn&0xffffff) * uint64(destQPN&0xffffff)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & 0xfffff)
}
