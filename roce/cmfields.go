package roce

import (
	"encoding/binary"
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// fields moves the fields of one CM message out of a MAD or into it, so that
// each message lists them once for both. Offsets are those of the tables in IBA 12.6:
// bytes behind the MAD header, and within a byte bits from the most significant.
type fields struct {
	mad MAD
	b   []byte // mad behind its header
	put bool
	in  string // the struct that the fields are in, for err
	err error  // the first field that does not fit
}

// part moves the width bits at bit from of the big-endian number in the size bytes
// at off.
func (f *fields) part(name string, v uint64, off, size, from, width int) uint64 {
	b := f.b[off : off+size]
	var whole uint64
	for _, c := range b {
		whole = whole<<8 | uint64(c)
	}
	shift := size*8 - from - width
	mask := uint64(1)<<width - 1
	if !f.put {
		return whole >> shift & mask
	}
	if v > mask && f.err == nil {
		f.err = fmt.Errorf("roce: %v: %s%s is %#x, expected at most %d bits", f.mad.Attribute(), f.in, name, v, width)
	}
	whole = whole&^(mask<<shift) | v&mask<<shift
	for i := range b {
		b[size-1-i] = byte(whole >> (8 * i))
	}
	return v
}

func (f *fields) u8(name string, v *uint8, off, from, width int) {
	*v = uint8(f.part(name, uint64(*v), off, 1, from, width))
}

func (f *fields) flag(v *bool, off, from int) {
	var n uint64
	if *v {
		n = 1
	}
	*v = f.part("", n, off, 1, from, 1) != 0
}

func (f *fields) u24(name string, v *uint32, off int) {
	*v = uint32(f.part(name, uint64(*v), off, 3, 0, 24))
}

func (f *fields) psn(name string, v *units.PSN, off int) {
	*v = units.PSN(f.part(name, uint64(*v), off, 3, 0, 24))
}

func (f *fields) u16(v *uint16, off int) {
	*v = uint16(f.part("", uint64(*v), off, 2, 0, 16))
}

func (f *fields) u32(v *uint32, off int) {
	*v = uint32(f.part("", uint64(*v), off, 4, 0, 32))
}

func (f *fields) u64(v *uint64, off int) {
	if f.put {
		binary.BigEndian.PutUint64(f.b[off:], *v)
	} else {
		*v = binary.BigEndian.Uint64(f.b[off:])
	}
}

func (f *fields) gid(v *GID, off int) {
	if f.put {
		copy(f.b[off:], v[:])
	} else {
		*v = GID(f.b[off:])
	}
}

// data moves at most size bytes of private data or the like. Reading gives all
// of them, because nothing says how many are used; writing leaves zeros behind them.
func (f *fields) data(name string, v *[]byte, off, size int) {
	room := f.b[off : off+size : off+size]
	switch {
	case !f.put:
		*v = room
	case len(*v) <= size:
		copy(room, *v)
	case f.err == nil:
		f.err = fmt.Errorf("roce: %v: %s has %d bytes, expected at most %d", f.mad.Attribute(), name, len(*v), size)
	}
}

// fieldsOf returns the fields of m for reading if m is a message of attribute a.
func fieldsOf(m MAD, a Attribute) (fields, error) {
	if len(m) != MADBytes {
		return fields{}, BadMADLength
	}
	if m.Attribute() != a {
		return fields{}, UnknownCMMessage
	}
	return fields{mad: m, b: m[madHeaderBytes:]}, nil
}

// newMAD clears the first MADBytes of b, writes the header of a CM message, and
// returns the fields for writing.
func newMAD(b []byte, a Attribute, tid uint64) fields {
	m := MAD(b[:MADBytes])
	clear(m)
	m[0], m[1], m[2], m[3] = madBaseVersion, madClassCM, madClassVersionCM, madMethodSend
	binary.BigEndian.PutUint64(m[8:], tid)
	binary.BigEndian.PutUint16(m[16:], uint16(a))
	return fields{mad: m, b: m[madHeaderBytes:], put: true}
}
