// Package icrc computes and checks the invariant CRC of RoCEv2 (IBA annex
// A17.3.3) where the IP header is not at hand: behind a UDP socket.
//
// The ICRC is the CRC-32 of IEEE 802.3 over eight bytes of ones and the packet
// from its IP header on, with the fields that change on the way set to ones:
// IPv4 type of service, time to live and header checksum, or IPv6 traffic class,
// flow label and hop limit; the UDP checksum; and byte 4 of the Base Transport
// Header. It covers the IPv4 identification and the "don't fragment" flag, which a
// UDP socket does not show.
package icrc

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// Bytes is the length of an ICRC on the wire.
const Bytes = 4

const (
	udpHeader  = 8
	bthHeader  = 12
	pseudoIPv4 = 8 + 20 + udpHeader + bthHeader
	pseudoIPv6 = 8 + 40 + udpHeader + bthHeader
)

// Calc computes ICRCs. It holds the pseudo header of the packet in hand and is not
// safe for concurrent use.
type Calc struct{ b [pseudoIPv6]byte }

// Sum returns the ICRC of a packet between two addresses of one family. id is the
// IPv4 identification, with which "don't fragment" is set; IPv6 has none. data
// begins with the Base Transport Header and ends before the ICRC. It goes on the
// wire with its least significant byte first.
func (c *Calc) Sum(src, dst netip.AddrPort, id uint16, data []byte) uint32 {
	h := c.b[:]
	for i := range 8 {
		h[i] = 0xff
	}
	length := udpHeader + len(data) + Bytes
	var udp []byte
	if src.Addr().Is4() {
		h = h[:pseudoIPv4]
		ip := h[8:28]
		ip[0], ip[1] = 0x45, 0xff
		binary.BigEndian.PutUint16(ip[2:], uint16(20+length))
		binary.BigEndian.PutUint16(ip[4:], id)
		ip[6], ip[7] = 0x40, 0
		ip[8], ip[9], ip[10], ip[11] = 0xff, 17, 0xff, 0xff
		s, d := src.Addr().As4(), dst.Addr().As4()
		copy(ip[12:], s[:])
		copy(ip[16:], d[:])
		udp = h[28:]
	} else {
		ip := h[8:48]
		binary.BigEndian.PutUint32(ip, 0x6fffffff)
		binary.BigEndian.PutUint16(ip[4:], uint16(length))
		ip[6], ip[7] = 17, 0xff
		s, d := src.Addr().As16(), dst.Addr().As16()
		copy(ip[8:], s[:])
		copy(ip[24:], d[:])
		udp = h[48:]
	}
	binary.BigEndian.PutUint16(udp, src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	udp[6], udp[7] = 0xff, 0xff
	copy(udp[udpHeader:], data[:bthHeader])
	udp[udpHeader+4] = 0xff
	return crc32.Update(crc32.ChecksumIEEE(h), crc32.IEEETable, data[bthHeader:])
}

// Put writes the ICRC behind data.
func (c *Calc) Put(src, dst netip.AddrPort, id uint16, packet []byte) {
	n := len(packet) - Bytes
	binary.LittleEndian.PutUint32(packet[n:], c.Sum(src, dst, id, packet[:n]))
}

// Good checks a packet that came through a UDP socket, with its ICRC at the end.
// For IPv6 that is the whole check. For IPv4 the socket hides the identification,
// and whether fragments are forbidden: the packet is good if some value of those
// 17 bits makes the ICRC right. The CRC is linear, so that value is computed, not
// searched: one corrupt packet in 2^15 gets through, in place of one in 2^32.
func (c *Calc) Good(src, dst netip.AddrPort, packet []byte) bool {
	if len(packet) < bthHeader+Bytes {
		return false
	}
	n := len(packet) - Bytes
	diff := c.Sum(src, dst, 0, packet[:n]) ^ binary.LittleEndian.Uint32(packet[n:])
	if diff == 0 {
		return true
	}
	_, ok := identification(diff, n)
	return ok && src.Addr().Is4()
}

// identification finds the IPv4 identification that turns the ICRC of a packet of n bytes
// from one with identification 0 and "don't fragment" set into one that differs by diff.
func identification(diff uint32, n int) (id uint16, ok bool) {
	// Behind the identification come two bytes of flags and fragment offset,
	// 12 more of the IP header, the UDP header and the packet. Their
	// contribution cancels out; going back over so many zeros leaves the
	// difference that the four bytes have made, or the two.
	after := 12 + udpHeader + n
	if after+2 >= len(back) {
		return 0, false
	}
	flags := multiply(diff, back[after])
	if id, ok = twoBytes(multiply(flags, back[2])); ok {
		return id, true
	}
	return twoBytes(multiply(flags^fragmentable, back[2]))
}

// twoBytes returns the two bytes that take a CRC register from 0 to crc.
func twoBytes(crc uint32) (uint16, bool) {
	second := byTop[crc>>24]
	before := crc ^ crc32.IEEETable[second]
	first := byTop[before>>16&0xff]
	register := crc32.IEEETable[first]
	if register>>8 != before {
		return 0, false
	}
	return uint16(first)<<8 | uint16(second^uint8(register)), true
}

var (
	// byTop inverts the CRC table: its entries differ in their top bytes.
	byTop [256]uint8
	// back[n] is x^(-8n) modulo the polynomial: what undoes n zero bytes.
	back [4096 + 256]uint32
	// fragmentable is what a cleared "don't fragment" flag differs by.
	fragmentable uint32
)

func init() {
	for i, v := range crc32.IEEETable {
		byTop[v>>24] = uint8(i)
	}
	back[0] = 1 << 31 // the polynomial 1: the CRC's bits are reversed
	for i := 1; i < len(back); i++ {
		back[i] = zeroBefore(back[i-1])
	}
	fragmentable = crc32.IEEETable[0x40]>>8 ^ crc32.IEEETable[uint8(crc32.IEEETable[0x40])]
}

// zeroBefore returns the register from which a zero byte leads to crc.
func zeroBefore(crc uint32) uint32 {
	i := byTop[crc>>24]
	return (crc^crc32.IEEETable[i])<<8 | uint32(i)
}

// multiply multiplies two polynomials modulo the CRC's; bit 31 is the constant
// term.
func multiply(a, b uint32) uint32 {
	var p uint32
	for ; b != 0; b <<= 1 {
		p ^= a & -(b >> 31)
		a = a>>1 ^ crc32.IEEE&-(a&1)
	}
	return p
}
