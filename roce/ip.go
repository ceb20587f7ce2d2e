package roce

import (
	"encoding/binary"
	"net/netip"
)

// Sizes in bytes. RoCEv2 has no IPv4 options (IBA annex A17).
const (
	IPv4Bytes = 20
	IPv6Bytes = 40
)

// protocolUDP is UDP's number in IPv4's protocol and IPv6's next-header field.
const protocolUDP = 17

// ECN codepoints, the lower two bits of the IPv4 TOS and the IPv6 traffic class
// (RFC 3168, section 5).
const (
	ECNNotECT = 0 // not ECN-capable
	ECNECT1   = 1
	ECNECT0   = 2
	ECNCE     = 3 // congestion experienced
	ecnMask   = 3
)

// IPv4 is a view over an IPv4 packet of at least IPv4Bytes bytes.
type IPv4 []byte

// HeaderBytes returns the length of the header, options included, in bytes.
func (p IPv4) HeaderBytes() int { return int(p[0]&0xf) * 4 }

// TOS returns DSCP and ECN.
func (p IPv4) TOS() uint8 { return p[1] }

// TotalLen returns the length of the packet from here on, in bytes.
func (p IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(p[2:])) }

// ID returns the identification field.
func (p IPv4) ID() uint16 { return binary.BigEndian.Uint16(p[4:]) }

// DontFragment returns the DF flag.
func (p IPv4) DontFragment() bool { return p[6]&0x40 != 0 }

// IsFragment reports whether more fragments or an offset say that this is part
// of a packet.
func (p IPv4) IsFragment() bool { return binary.BigEndian.Uint16(p[6:])&0x3fff != 0 }

// TTL returns the time to live.
func (p IPv4) TTL() uint8 { return p[8] }

// Protocol returns the number of the protocol inside.
func (p IPv4) Protocol() uint8 { return p[9] }

// Checksum returns the header checksum without verifying it.
func (p IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(p[10:]) }

// Src returns the source address.
func (p IPv4) Src() netip.Addr { return netip.AddrFrom4([4]byte(p[12:16])) }

// Dst returns the destination address.
func (p IPv4) Dst() netip.Addr { return netip.AddrFrom4([4]byte(p[16:20])) }

// ChecksumOK reports whether the header checksum is right.
func (p IPv4) ChecksumOK() bool { return Fold(Sum(0, p[:p.HeaderBytes()])) == 0xffff }

// SetID writes the identification field and corrects the checksum.
func (p IPv4) SetID(id uint16) {
	binary.BigEndian.PutUint16(p[4:], id)
	p.SetChecksum()
}

// SetTOS writes DSCP and ECN and corrects the checksum. The ICRC does not cover
// them, so a switch may.
func (p IPv4) SetTOS(tos uint8) {
	p[1] = tos
	p.SetChecksum()
}

// SetChecksum writes the header checksum.
func (p IPv4) SetChecksum() {
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], ^Fold(Sum(0, p[:IPv4Bytes])))
}

// IPv4Fields are the fields of an IPv4 header without options that carries UDP.
type IPv4Fields struct {
	TOS          uint8
	TotalLen     int // of header and payload, in bytes, below 65536
	ID           uint16
	DontFragment bool
	TTL          uint8
	Src, Dst     netip.Addr // IPv4, or IPv4 mapped to IPv6
}

// Put writes the header with its checksum to b, which must have room for it, and
// returns IPv4Bytes.
func (f *IPv4Fields) Put(b []byte) int {
	b = b[:IPv4Bytes]
	b[0], b[1] = 0x45, f.TOS
	binary.BigEndian.PutUint16(b[2:], uint16(f.TotalLen))
	binary.BigEndian.PutUint16(b[4:], f.ID)
	b[6], b[7] = 0, 0
	if f.DontFragment {
		b[6] = 0x40
	}
	b[8], b[9] = f.TTL, protocolUDP
	src, dst := f.Src.As4(), f.Dst.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	IPv4(b).SetChecksum()
	return IPv4Bytes
}

// IPv6 is a view over an IPv6 packet of at least IPv6Bytes bytes.
type IPv6 []byte

// TrafficClass returns DSCP and ECN.
func (p IPv6) TrafficClass() uint8 { return p[0]<<4 | p[1]>>4 }

// FlowLabel returns the flow label, 20 bits.
func (p IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(p) & 0xfffff }

// PayloadLen returns the length of the packet behind the header, in bytes.
func (p IPv6) PayloadLen() int { return int(binary.BigEndian.Uint16(p[4:])) }

// NextHeader returns the number of the protocol inside.
func (p IPv6) NextHeader() uint8 { return p[6] }

// HopLimit returns the hop limit.
func (p IPv6) HopLimit() uint8 { return p[7] }

// Src returns the source address.
func (p IPv6) Src() netip.Addr { return netip.AddrFrom16([16]byte(p[8:24])) }

// Dst returns the destination address.
func (p IPv6) Dst() netip.Addr { return netip.AddrFrom16([16]byte(p[24:40])) }

// SetTrafficClass writes DSCP and ECN.
func (p IPv6) SetTrafficClass(tc uint8) {
	p[0] = p[0]&0xf0 | tc>>4
	p[1] = p[1]&0x0f | tc<<4
}

// IPv6Fields are the fields of an IPv6 header that carries UDP.
type IPv6Fields struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   int    // in bytes, below 65536
	HopLimit     uint8
	Src, Dst     netip.Addr
}

// Put writes the header to b, which must have room for it, and returns IPv6Bytes.
func (f *IPv6Fields) Put(b []byte) int {
	b = b[:IPv6Bytes]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(f.TrafficClass)<<20|f.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], uint16(f.PayloadLen))
	b[6], b[7] = protocolUDP, f.HopLimit
	src, dst := f.Src.As16(), f.Dst.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return IPv6Bytes
}

// Sum adds the 16-bit words of b to s, padded with a zero byte. The checksum of RFC 1071
// is ^Fold(Sum(0, b)).
func Sum(s uint64, b []byte) uint64 {
	for len(b) >= 4 {
		s += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

// Fold reduces a sum to 16 bits with end-around carry.
func Fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
