package run

import "math/bits"

// Values wider than 64 bits stand in several words, the least significant first,
// the bits above their width zero (also of int<N>: two's complement within N bits).
// The functions of this file work on such values; all slices of a call have the
// length that wordsOf gives for the width, unless they say otherwise.

// wordsOf is the number of words that a value of width bits takes; at least one.
func wordsOf(width int) int {
	if width <= 64 {
		return 1
	}
	return (width + 63) / 64
}

// mask64 has the low width bits set; width is 0 to 64.
func mask64(width int) uint64 {
	if width >= 64 {
		return ^uint64(0)
	}
	return 1<<uint(width) - 1
}

// trim clears what is above width.
func trim(v []uint64, width int) {
	full := width / 64
	if full < len(v) {
		v[full] &= mask64(width % 64)
		clear(v[full+1:])
	}
}

// signBit reports whether bit width-1 is set.
func signBit(v []uint64, width int) bool {
	i := width - 1
	return v[i/64]>>uint(i%64)&1 != 0
}

// extendSign sets all bits of v from width on up to those of len(v) words, if bit width-1 is set.
func extendSign(v []uint64, width int) {
	if width == 0 || !signBit(v, width) {
		return
	}
	i := width / 64
	if i < len(v) {
		v[i] |= ^mask64(width % 64)
		for i++; i < len(v); i++ {
			v[i] = ^uint64(0)
		}
	}
}

// sign64 is v, a two's complement number of width bits (1 to 64), as an int64.
func sign64(v uint64, width int) int64 {
	s := uint(64 - width)
	return int64(v<<s) >> s
}

func wideAdd(d, a, b []uint64, width int) (carry uint64) {
	for i := range d {
		d[i], carry = bits.Add64(a[i], b[i], carry)
	}
	if r := width % 64; r != 0 {
		carry = d[len(d)-1] >> uint(r) & 1
	}
	trim(d, width)
	return carry
}

func wideSub(d, a, b []uint64, width int) (borrow uint64) {
	for i := range d {
		d[i], borrow = bits.Sub64(a[i], b[i], borrow)
	}
	trim(d, width)
	return borrow
}

// wideMul sets d to a*b; d is neither a nor b.
func wideMul(d, a, b []uint64, width int) {
	clear(d)
	for i, x := range a {
		if x == 0 {
			continue
		}
		var carry uint64
		for j := 0; i+j < len(d); j++ {
			hi, lo := bits.Mul64(x, b[j])
			var c uint64
			lo, c = bits.Add64(lo, d[i+j], 0)
			hi += c
			lo, c = bits.Add64(lo, carry, 0)
			hi += c
			d[i+j], carry = lo, hi
		}
	}
	trim(d, width)
}

// wideShl shifts by n bits, n >= 0; d may be a.
func wideShl(d, a []uint64, n uint64, width int) {
	if n >= uint64(width) {
		clear(d)
		return
	}
	w, s := int(n/64), uint(n%64)
	for i := len(d) - 1; i >= 0; i-- {
		var v uint64
		if i-w >= 0 {
			v = a[i-w] << s
			if s > 0 && i-w-1 >= 0 {
				v |= a[i-w-1] >> (64 - s)
			}
		}
		d[i] = v
	}
	trim(d, width)
}

// wideShr shifts by n bits; fill is the word that comes in from above (0, or all
// ones); d may be a. Of a signed value the caller extends the sign before and
// trims after.
func wideShr(d, a []uint64, n uint64, fill uint64) {
	if n >= uint64(len(a))*64 {
		for i := range d {
			d[i] = fill
		}
		return
	}
	w, s := int(n/64), uint(n%64)
	at := func(i int) uint64 {
		if i < len(a) {
			return a[i]
		}
		return fill
	}
	for i := range d {
		v := at(i+w) >> s
		if s > 0 {
			v |= at(i+w+1) << (64 - s)
		}
		d[i] = v
	}
}

// wideCmp compares unsigned values: -1, 0, 1.
func wideCmp(a, b []uint64) int {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] {
			if a[i] < b[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// wideSlice sets d to the width bits of a from bit low on; the words of a beyond its end are zero.
func wideSlice(d, a []uint64, low, width int) {
	w, s := low/64, uint(low%64)
	for i := range d {
		var v uint64
		if i+w < len(a) {
			v = a[i+w] >> s
		}
		if s > 0 && i+w+1 < len(a) {
			v |= a[i+w+1] << (64 - s)
		}
		d[i] = v
	}
	trim(d, width)
}

// putBits writes the width low bits of v at bit low of d.
func putBits(d, v []uint64, low, width int) {
	for n := 0; n < width; {
		at := low + n
		k := min(64-at%64, width-n)
		var x uint64
		x = v[n/64] >> uint(n%64)
		if r := n % 64; r != 0 && 64-r < k && n/64+1 < len(v) {
			x |= v[n/64+1] << uint(64-r)
		}
		m := mask64(k) << uint(at%64)
		d[at/64] = d[at/64]&^m | x<<uint(at%64)&m
		n += k
	}
}
