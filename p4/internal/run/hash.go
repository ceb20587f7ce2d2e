package run

import (
	"hash/crc32"
	"math/bits"
)

// A crc is the parameters of a cyclic redundancy check in the Rocksoft model: the polynomial
// without its highest term, whether bytes come in and the remainder goes out reflected, the
// initial remainder and what is XORed at the end. The widths are 1 to 64.
type crc struct {
	width    int
	poly     uint64
	reversed bool // bytes in
	out      bool // remainder out
	init     uint64
	xor      uint64
	table    *[256]uint64
}

// CRC-16/ARC and CRC-32/ISO-HDLC, as BMv2 and Tofino have them.
var (
	crc16ARC = newCRC(crc{width: 16, poly: 0x8005, reversed: true, out: true})
	crc32ISO = newCRC(crc{width: 32, poly: 0x04c11db7, reversed: true, out: true, init: 0xffffffff, xor: 0xffffffff})
	crc8     = newCRC(crc{width: 8, poly: 0x07})
	crc64    = newCRC(crc{width: 64, poly: 0x42f0e1eba9ea3693})
)

func reflect64(v uint64, width int) uint64 { return bits.Reverse64(v) >> uint(64-width) }

// newCRC fills in the table: of reflected remainders if bytes come in reflected, else of
// remainders at the top of the word.
func newCRC(c crc) *crc {
	c.table = new([256]uint64)
	for i := range c.table {
		if c.reversed {
			p := reflect64(c.poly, c.width)
			v := uint64(i)
			for range 8 {
				if v&1 != 0 {
					v = v>>1 ^ p
				} else {
					v >>= 1
				}
			}
			c.table[i] = v
			continue
		}
		p := c.poly << uint(64-c.width)
		v := uint64(i) << 56
		for range 8 {
			if v>>63 != 0 {
				v = v<<1 ^ p
			} else {
				v <<= 1
			}
		}
		c.table[i] = v
	}
	return &c
}

func (c *crc) sum(b []byte) uint64 {
	if c == crc32ISO {
		return uint64(crc32.ChecksumIEEE(b))
	}
	var v uint64
	if c.reversed {
		v = reflect64(c.init, c.width)
		for _, x := range b {
			v = v>>8 ^ c.table[byte(v)^x]
		}
		if !c.out {
			v = reflect64(v, c.width)
		}
	} else {
		v = c.init << uint(64-c.width)
		for _, x := range b {
			v = v<<8 ^ c.table[byte(v>>56)^x]
		}
		v >>= uint(64 - c.width)
		if c.out {
			v = reflect64(v, c.width)
		}
	}
	return (v ^ c.xor) & mask64(c.width)
}

// onesSum adds the 16-bit words of b (an odd last byte is the high one) to sum, not yet folded.
func onesSum(sum uint64, b []byte) uint64 {
	for len(b) >= 2 {
		sum += uint64(b[0])<<8 | uint64(b[1])
		b = b[2:]
	}
	if len(b) > 0 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// fold makes 16 bits of a ones' complement sum.
func fold(sum uint64) uint64 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

func csum16(b []byte) uint64 { return ^fold(onesSum(0, b)) & 0xffff }

func xor16(b []byte) uint64 {
	var v uint64
	for len(b) >= 2 {
		v ^= uint64(b[0])<<8 | uint64(b[1])
		b = b[2:]
	}
	if len(b) > 0 {
		v ^= uint64(b[0]) << 8
	}
	return v
}

// identity is the first eight bytes as a number; fewer are the number that they are.
func identity(b []byte) uint64 {
	var v uint64
	for _, x := range b[:min(8, len(b))] {
		v = v<<8 | uint64(x)
	}
	return v
}

// A prng is a random stream of a pipeline (PCG-XSH-RR 64/32, two steps a draw).
type prng struct{ state uint64 }

func (r *prng) seed(s uint64) { r.state = s*2 + 1; r.next(); r.next() }

func (r *prng) step() uint32 {
	s := r.state
	r.state = s*6364136223846793005 + 1442695040888963407
	x := uint32((s>>18 ^ s) >> 27)
	return bits.RotateLeft32(x, -int(s>>59))
}

func (r *prng) next() uint64 { return uint64(r.step())<<32 | uint64(r.step()) }

// between is a number from lo to hi, both included, all equally likely.
func (r *prng) between(lo, hi uint64) uint64 {
	n := hi - lo + 1
	if n == 0 {
		return r.next()
	}
	h, l := bits.Mul64(r.next(), n)
	if l < n {
		for t := -n % n; l < t; {
			h, l = bits.Mul64(r.next(), n)
		}
	}
	return lo + h
}
