package roce

import (
	"encoding/binary"
	"hash/crc32"
)

// The ICRC (IBA 7.8.1 and annex A17) is the CRC-32 of Ethernet over eight bytes of
// ones, in place of the LRH that RoCE does not have, and the packet from the IP
// header to the end of the pad. The fields that routers may change count as ones:
// IPv4 TOS, TTL and header checksum; IPv6 traffic class, flow label and hop limit;
// the UDP checksum; and the byte of the BTH with FECN, BECN and six reserved bits.
// It goes on the wire little-endian.
//
// The masked headers are fed to the CRC as eight-byte words, so that neither they
// nor the packet are copied.

// Bytes that count as ones, as masks over the little-endian words of the packet.
const (
	mask4Word0 = 0xff << 8                 // TOS
	mask4Word1 = 0xff | 0xffff<<16         // TTL, header checksum
	mask4Word3 = 0xffff << 16              // UDP checksum
	mask4Word4 = 0xff                      // FECN, BECN, reserved
	mask6Word0 = 0xffffff0f | 0xff<<56     // traffic class, flow label; hop limit
	mask6Word5 = 0xffff << 48              // UDP checksum
	mask6Word6 = 0xff << 32                // FECN, BECN, reserved
	icrcSeed   = 0xdebb20e3                // the CRC's state after eight bytes of ones
	icrcHead4  = IPv4Bytes + UDPBytes + 12 // bytes that are taken as words
	icrcHead6  = IPv6Bytes + UDPBytes + 8
	minPacket4 = IPv4Bytes + UDPBytes + BTHBytes + ICRCBytes
	minPacket6 = IPv6Bytes + UDPBytes + BTHBytes + ICRCBytes
)

// slicing holds the tables of the slicing-by-8 algorithm (Kounavis and Berry,
// 2005): slicing[k][v] is the CRC of byte v followed by k zero bytes.
var slicing = makeSlicing()

func makeSlicing() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for k := 1; k < len(t); k++ {
		for v := range t[k] {
			crc := t[k-1][v]
			t[k][v] = t[0][crc&0xff] ^ crc>>8
		}
	}
	return t
}

// word moves the state s of a CRC on by eight bytes, the first of them lowest
// in w.
func word(s uint32, w uint64) uint32 {
	w ^= uint64(s)
	return slicing[7][byte(w)] ^ slicing[6][byte(w>>8)] ^ slicing[5][byte(w>>16)] ^ slicing[4][byte(w>>24)] ^
		slicing[3][byte(w>>32)] ^ slicing[2][byte(w>>40)] ^ slicing[1][byte(w>>48)] ^ slicing[0][byte(w>>56)]
}

// tinyBytes is from how many bytes on hash/crc32 is faster than words here.
const tinyBytes = 64

// crcShort moves the state s of a CRC on by b: by hash/crc32 if it is not tiny.
func crcShort(s uint32, b []byte) uint32 {
	if len(b) >= tinyBytes {
		return ^crc32.Update(^s, crc32.IEEETable, b)
	}
	for ; len(b) >= 8; b = b[8:] {
		s = word(s, binary.LittleEndian.Uint64(b))
	}
	for _, v := range b {
		s = slicing[0][byte(s)^v] ^ s>>8
	}
	return s
}

// finish feeds the rest of a packet, less the ICRC, to the CRC.
func finish(s uint32, rest []byte) uint32 {
	return ^crcUpdate(s, rest[:len(rest)-ICRCBytes])
}

// ICRC returns the invariant CRC of ip, which reaches from the IP header (IPv4
// without options, or IPv6) to the ICRC, as Frame.IP does. The bytes in the ICRC's
// place do not count. It returns 0 if ip is too short to be a RoCEv2 packet.
func ICRC(ip []byte) uint32 {
	le := binary.LittleEndian
	switch {
	case len(ip) >= minPacket6 && ip[0]>>4 == 6:
		s := word(icrcSeed, le.Uint64(ip)|mask6Word0)
		s = word(s, le.Uint64(ip[8:]))
		s = word(s, le.Uint64(ip[16:]))
		s = word(s, le.Uint64(ip[24:]))
		s = word(s, le.Uint64(ip[32:]))
		s = word(s, le.Uint64(ip[40:])|mask6Word5)
		s = word(s, le.Uint64(ip[48:])|mask6Word6)
		return finish(s, ip[icrcHead6:])
	case len(ip) >= minPacket4 && ip[0]>>4 == 4:
		s := word(icrcSeed, le.Uint64(ip)|mask4Word0)
		s = word(s, le.Uint64(ip[8:])|mask4Word1)
		s = word(s, le.Uint64(ip[16:]))
		s = word(s, le.Uint64(ip[24:])|mask4Word3)
		s = word(s, le.Uint64(ip[32:])|mask4Word4)
		return finish(s, ip[icrcHead4:])
	}
	return 0
}

// CheckICRC reports whether the ICRC at the end of ip is right.
func CheckICRC(ip []byte) bool {
	return len(ip) >= minPacket4 && ICRC(ip) == binary.LittleEndian.Uint32(ip[len(ip)-ICRCBytes:])
}

// PutICRC writes the ICRC to the last four bytes of ip, which must meet the
// requirements of ICRC.
func PutICRC(ip []byte) {
	binary.LittleEndian.PutUint32(ip[len(ip)-ICRCBytes:], ICRC(ip))
}

// ICRCState is the ICRC of the first part of a packet, which Path.BeginICRC starts.
// It is for callers that assemble a packet and read its bytes only once.
type ICRCState uint32

// Add returns the state after b, which follows.
func (s ICRCState) Add(b []byte) ICRCState { return ICRCState(crcUpdate(uint32(s), b)) }

// Copy copies src to dst, which is at least as long, and returns the state after
// it. If src changes meanwhile, the state is still that of what is in dst.
func (s ICRCState) Copy(dst, src []byte) ICRCState { return ICRCState(crcCopy(uint32(s), dst, src)) }

// Put writes the ICRC to the first four bytes of b, once all bytes before the ICRC
// are included.
func (s ICRCState) Put(b []byte) { binary.LittleEndian.PutUint32(b, ^uint32(s)) }
