package roce

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// Path represents the IP and UDP headers of packets in one direction between two
// addresses, as far as the ICRC covers them. It is for callers that send and receive
// through a UDP socket, which hides these headers. It assumes the headers of such
// sockets on Linux: no IPv4 options, and the DF flag set (IP_PMTUDISC_DO). The caller
// has to know the identification field: an unconnected socket sends 0, a connected one
// unpredictable values. Generic segmentation offload numbers the segments of a call from
// the datagram's own value on, so from 0. IPv6 has no such field and ignores it.
//
// A Path is a value for one goroutine: it remembers what packets of one length have in
// common.
type Path struct {
	v6     bool
	w1, w2 uint64 // IPv4: the second and third word of the packet, masked
	addrs  [4]uint64
	ports  uint64 // IPv6: the low half of the word with the UDP header

	// The CRC's state behind the words that only the length determines, of packets with
	// prefixBytes bytes and identification 0.
	prefixBytes int
	prefixState uint32

	// The factor that takes a CRC back by this many bytes.
	backBytes  int
	backFactor uint32
}

// NewPath returns the Path of packets from src to dst. Both are IPv4 or both IPv6;
// an IPv4 address mapped to IPv6 counts as IPv4. The port of dst is Port on
// everything that RoCEv2 receives.
func NewPath(src, dst netip.AddrPort) (Path, error) {
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	if !s.IsValid() || !d.IsValid() || s.Is4() != d.Is4() {
		return Path{}, fmt.Errorf("roce: no path from %v to %v: expected two addresses of one IP version", src, dst)
	}
	le := binary.LittleEndian
	var ports [4]byte
	binary.BigEndian.PutUint16(ports[:], src.Port())
	binary.BigEndian.PutUint16(ports[2:], dst.Port())
	p := Path{v6: s.Is6()}
	if p.v6 {
		from, to := s.As16(), d.As16()
		p.addrs = [4]uint64{le.Uint64(from[:]), le.Uint64(from[8:]), le.Uint64(to[:]), le.Uint64(to[8:])}
		p.ports = uint64(le.Uint32(ports[:]))
		return p, nil
	}
	from, to := s.As4(), d.As4()
	p.w1 = protocolUDP<<8 | mask4Word1 | uint64(le.Uint32(from[:]))<<32
	p.w2 = uint64(le.Uint32(to[:])) | uint64(le.Uint32(ports[:]))<<32
	return p, nil
}

// be16 returns v with its bytes in network order in a little-endian word.
func be16(v int) uint64 { return uint64(bits.ReverseBytes16(uint16(v))) }

// ICRC returns the ICRC of a packet on the path. b reaches from the BTH to the
// ICRC, at least 16 bytes; id is the IPv4 identification that the packet will have or
// had. It returns 0 if b is shorter.
func (p *Path) ICRC(b []byte, id uint16) uint32 {
	if len(b) < BTHBytes+ICRCBytes {
		return 0
	}
	return ^uint32(p.BeginICRC(b[:len(b)-ICRCBytes], len(b), id))
}

// BeginICRC returns the state of the ICRC after b, the first part of a packet of n
// bytes from the BTH to the ICRC: its headers, or all but the ICRC. b has at least
// a BTH's 12 bytes; id is as for ICRC.
func (p *Path) BeginICRC(b []byte, n int, id uint16) ICRCState {
	le := binary.LittleEndian
	udp := UDPBytes + n
	_ = b[BTHBytes-1]
	s := p.prefixState
	if n != p.prefixBytes {
		s = p.prefix(n)
	}
	if p.v6 {
		s = word(s, le.Uint64(b)|mask6Word6)
		return ICRCState(crcUpdate(s, b[8:]))
	}
	if int(id) < len(idDiffs) {
		s ^= idDiffs[id]
	} else {
		s ^= idDiff(id)
	}
	s = word(s, be16(udp)|mask4Word3|uint64(le.Uint32(b))<<32)
	s = word(s, le.Uint64(b[4:])|mask4Word4)
	return ICRCState(crcUpdate(s, b[BTHBytes:]))
}

// prefix computes and remembers prefixState for packets of n bytes.
func (p *Path) prefix(n int) uint32 {
	udp := UDPBytes + n
	var s uint32
	if p.v6 {
		s = word(icrcSeed, 6<<4|mask6Word0|be16(udp)<<32|protocolUDP<<48)
		for _, w := range p.addrs {
			s = word(s, w)
		}
		s = word(s, p.ports|be16(udp)<<32|mask6Word5)
	} else {
		s = word(icrcSeed, 0x45|mask4Word0|be16(IPv4Bytes+udp)<<16|0x40<<48)
		s = word(s, p.w1)
		s = word(s, p.w2)
	}
	p.prefixBytes, p.prefixState = n, s
	return s
}

// idDiff is the difference that an IPv4 identification, instead of 0, makes to a
// prefixState. The CRC is linear, so it is the same for all packets.
func idDiff(id uint16) uint32 { return word(word(word(0, be16(int(id))<<32), 0), 0) }

// idDiffs has the identifications of a sender's segmentation offload.
var idDiffs = makeIDDiffs()

func makeIDDiffs() (diffs [64]uint32) {
	for id := range diffs {
		diffs[id] = idDiff(uint16(id))
	}
	return diffs
}

// CheckICRC reports whether the ICRC at the end of b is right for a packet that
// had the identification id.
func (p *Path) CheckICRC(b []byte, id uint16) bool {
	return len(b) >= BTHBytes+ICRCBytes && p.ICRC(b, id) == binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:])
}

// PutICRC writes the ICRC to the last four bytes of b, which must have at least
// 16.
func (p *Path) PutICRC(b []byte, id uint16) {
	binary.LittleEndian.PutUint32(b[len(b)-ICRCBytes:], p.ICRC(b, id))
}

// RecoverID returns the one IPv4 identification with which the ICRC at the end of b
// is right, and whether there is one. So a receiver behind a UDP socket can check
// packets whose sender chose the identification freely, as soft-RoCE does. A
// corrupt packet has a matching identification in one case of 2^16; the full check
// passes one of 2^32. Over IPv6 RecoverID is the full check.
//
// RecoverID is fastest where the identification is the likely one: 0, 1, 2 and so
// on for segments of a sender's segmentation offload, 0 otherwise. It finds any
// other too.
//
// The CRC is linear, so the difference that the identification makes, taken back over the
// bytes that follow it, must fit the field's 16 bits.
func (p *Path) RecoverID(b []byte, likely uint16) (id uint16, ok bool) {
	if len(b) < BTHBytes+ICRCBytes {
		return 0, false
	}
	diff := p.ICRC(b, likely) ^ binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:])
	if p.v6 {
		return 0, diff == 0
	}
	if diff == 0 {
		return likely, true
	}
	const behindID = IPv4Bytes - 4 + UDPBytes // of the headers, the field itself counted
	if n := behindID + len(b) - ICRCBytes; n != p.backBytes {
		p.backBytes, p.backFactor = n, back(n)
	}
	diff = mulMod(p.backFactor, diff)
	return likely ^ bits.ReverseBytes16(uint16(diff)), diff>>16 == 0
}

// The polynomials over GF(2) modulo CRC-32's, in its reflected form: bit 31 is
// the coefficient of x^0. A CRC's state moves on by a zero byte when it is
// multiplied by x^8.
const (
	crcPoly = 0xedb88320
	crcOne  = 1 << 31
	crcXInv = 0xdb710641 // x^-1
)

// backPowers[k] is x^(-8 * 2^k).
var backPowers = makeBackPowers()

func makeBackPowers() (powers [17]uint32) {
	x := uint32(crcXInv)
	for range 3 {
		x = mulMod(x, x)
	}
	for k := range powers {
		powers[k] = x
		x = mulMod(x, x)
	}
	return powers
}

// back returns x^(-8n) for n below 2^17.
func back(n int) uint32 {
	f := uint32(crcOne)
	for k := range backPowers {
		if n>>k&1 != 0 {
			f = mulMod(f, backPowers[k])
		}
	}
	return f
}

// mulMod returns a*b.
func mulMod(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & uint32(int32(a)>>31)
		b = b>>1 ^ crcPoly&-(b&1)
	}
	return product
}
