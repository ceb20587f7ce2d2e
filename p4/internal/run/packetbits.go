package run

import "encoding/binary"

// readBits is the number in the n bits (0 to 64) of b from bit off on, the first the most
// significant. The caller has seen to it that b holds them.
func readBits(b []byte, off, n int) uint64 {
	if n == 0 {
		return 0
	}
	i, r := off>>3, off&7
	need := (r + n + 7) >> 3
	if need <= 8 {
		var v uint64
		if i+8 <= len(b) {
			v = binary.BigEndian.Uint64(b[i:])
		} else {
			var last [8]byte
			copy(last[:], b[i:])
			v = binary.BigEndian.Uint64(last[:])
		}
		return v << uint(r) >> uint(64-n)
	}
	v := binary.BigEndian.Uint64(b[i:])
	return (v<<uint(r) | uint64(b[i+8])>>uint(8-r)) >> uint(64-n)
}

// writeBits writes the n low bits of v (0 to 64) to b from bit off on; bits of b
// beyond what was written so far need not be zero.
func writeBits(b []byte, off, n int, v uint64) {
	for n > 0 {
		i, r := off>>3, off&7
		k := min(8-r, n)
		x := byte(v >> uint(n-k) & uint64(1<<uint(k)-1))
		m := byte(1<<uint(k)-1) << uint(8-r-k)
		b[i] = b[i]&^m | x<<uint(8-r-k)
		off += k
		n -= k
	}
}

// readWide reads n bits into words.
func readWide(d []uint64, b []byte, off, n int) {
	clear(d)
	end := off + n
	for i := 0; i*64 < n; i++ {
		k := min(64, n-i*64)
		d[i] = readBits(b, end-i*64-k, k)
	}
}

// writeWide writes the n low bits of v.
func writeWide(b []byte, off, n int, v []uint64) {
	end := off + n
	for i := 0; i*64 < n; i++ {
		k := min(64, n-i*64)
		writeBits(b, end-i*64-k, k, v[i])
	}
}

// A field is one field of a header on the wire and in memory.
type field struct {
	word  int // of the header's words
	bit   int // of the header's bits
	width int
	kind  fieldKind
	shift uint8 // of a group's member: its lowest bit there
	n     uint8 // of a group: how many members follow
}

type fieldKind uint8

// Fields that stand on whole bytes when their header does, and others.
const (
	anyBits fieldKind = iota
	byte1
	byte2
	byte4
	byte6
	byte8
	wideBits
	group1 // several fields in whole bytes: 1, 2, 4, 8, or another number up to 8
	group2
	group4
	group8
	groupN
)

// pack puts a group before fields that lie together in whole bytes, so that these are read and
// written at once. Fields that stand alone on whole bytes stay as they are.
func pack(fs []field) []field {
	var out []field
	for i := 0; i < len(fs); i++ {
		f := fs[i]
		if f.kind != anyBits || f.bit%8 != 0 {
			out = append(out, f)
			continue
		}
		whole, wholeBits := wholeBytes(fs[i:])
		if whole < 2 {
			out = append(out, f)
			continue
		}
		g := field{bit: f.bit, width: wholeBits, n: uint8(whole), kind: groupOf(wholeBits)}
		out = append(out, g)
		at := 0
		for _, m := range fs[i : i+whole] {
			at += m.width
			m.shift = uint8(wholeBits - at)
			m.kind = anyBits
			out = append(out, m)
		}
		i += whole - 1
	}
	return out
}

// wholeBytes counts as many of the first fields as make whole bytes of up to 64 bits.
func wholeBytes(fs []field) (n, bits int) {
	sum := 0
	for j := 0; j < len(fs) && fs[j].width <= 64 && sum+fs[j].width <= 64; j++ {
		if fs[j].kind != anyBits && fs[j].kind != wideBits && sum%8 == 0 {
			break
		}
		sum += fs[j].width
		if sum%8 == 0 {
			n, bits = j+1, sum
		}
	}
	return n, bits
}

func groupOf(bits int) fieldKind {
	switch bits {
	case 8:
		return group1
	case 16:
		return group2
	case 32:
		return group4
	case 64:
		return group8
	}
	return groupN
}

func kindOf(bit, width int) fieldKind {
	if width > 64 {
		return wideBits
	}
	if bit%8 == 0 {
		switch width {
		case 8:
			return byte1
		case 16:
			return byte2
		case 32:
			return byte4
		case 48:
			return byte6
		case 64:
			return byte8
		}
	}
	return anyBits
}

// readFields reads the fields of a header that begins at bit off of b, which holds all of it.
func readFields(w []uint64, fs []field, b []byte, off int) {
	if off&7 != 0 {
		readUnaligned(w, fs, b, off)
		return
	}
	h := b[off>>3:]
	for i := 0; i < len(fs); i++ {
		f := &fs[i]
		at := f.bit >> 3
		switch f.kind {
		case byte1:
			w[f.word] = uint64(h[at])
		case byte2:
			w[f.word] = uint64(binary.BigEndian.Uint16(h[at:]))
		case byte4:
			w[f.word] = uint64(binary.BigEndian.Uint32(h[at:]))
		case byte6:
			w[f.word] = uint64(binary.BigEndian.Uint16(h[at:]))<<32 | uint64(binary.BigEndian.Uint32(h[at+2:]))
		case byte8:
			w[f.word] = binary.BigEndian.Uint64(h[at:])
		case wideBits:
			readWide(w[f.word:f.word+wordsOf(f.width)], h, f.bit, f.width)
		case anyBits:
			w[f.word] = readBits(h, f.bit, f.width)
		default:
			v := readGroup(f, h[at:])
			for _, m := range fs[i+1 : i+1+int(f.n)] {
				w[m.word] = v >> m.shift & (1<<uint(m.width) - 1)
			}
			i += int(f.n)
		}
	}
}

// readGroup reads the bytes that a group's fields lie in.
func readGroup(f *field, h []byte) (v uint64) {
	switch f.kind {
	case group1:
		return uint64(h[0])
	case group2:
		return uint64(binary.BigEndian.Uint16(h))
	case group4:
		return uint64(binary.BigEndian.Uint32(h))
	case group8:
		return binary.BigEndian.Uint64(h)
	}
	for _, x := range h[:f.width>>3] {
		v = v<<8 | uint64(x)
	}
	return v
}

// readUnaligned reads field by field where the header begins within a byte.
func readUnaligned(w []uint64, fs []field, b []byte, off int) {
	for i := range fs {
		f := &fs[i]
		switch {
		case f.n > 0: // its fields follow
		case f.kind == wideBits:
			readWide(w[f.word:f.word+wordsOf(f.width)], b, off+f.bit, f.width)
		default:
			w[f.word] = readBits(b, off+f.bit, f.width)
		}
	}
}

// writeFields is readFields' inverse.
func writeFields(w []uint64, fs []field, b []byte, off int) {
	if off&7 != 0 {
		writeUnaligned(w, fs, b, off)
		return
	}
	h := b[off>>3:]
	for i := 0; i < len(fs); i++ {
		f := &fs[i]
		at := f.bit >> 3
		switch f.kind {
		case byte1:
			h[at] = byte(w[f.word])
		case byte2:
			binary.BigEndian.PutUint16(h[at:], uint16(w[f.word]))
		case byte4:
			binary.BigEndian.PutUint32(h[at:], uint32(w[f.word]))
		case byte6:
			binary.BigEndian.PutUint16(h[at:], uint16(w[f.word]>>32))
			binary.BigEndian.PutUint32(h[at+2:], uint32(w[f.word]))
		case byte8:
			binary.BigEndian.PutUint64(h[at:], w[f.word])
		case wideBits:
			writeWide(h, f.bit, f.width, w[f.word:f.word+wordsOf(f.width)])
		case anyBits:
			writeBits(h, f.bit, f.width, w[f.word])
		default:
			var v uint64
			for _, m := range fs[i+1 : i+1+int(f.n)] {
				v |= w[m.word] & (1<<uint(m.width) - 1) << m.shift
			}
			i += int(f.n)
			writeGroup(f, h[at:], v)
		}
	}
}

// writeGroup is readGroup's inverse.
func writeGroup(f *field, h []byte, v uint64) {
	switch f.kind {
	case group1:
		h[0] = byte(v)
	case group2:
		binary.BigEndian.PutUint16(h, uint16(v))
	case group4:
		binary.BigEndian.PutUint32(h, uint32(v))
	case group8:
		binary.BigEndian.PutUint64(h, v)
	default:
		for j := f.width>>3 - 1; j >= 0; j-- {
			h[j] = byte(v)
			v >>= 8
		}
	}
}

// writeUnaligned is readUnaligned's inverse.
func writeUnaligned(w []uint64, fs []field, b []byte, off int) {
	for i := range fs {
		f := &fs[i]
		switch {
		case f.n > 0: // its fields follow
		case f.kind == wideBits:
			writeWide(b, off+f.bit, f.width, w[f.word:f.word+wordsOf(f.width)])
		default:
			writeBits(b, off+f.bit, f.width, w[f.word])
		}
	}
}
