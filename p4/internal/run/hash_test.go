package run

import "testing"

// Check values of the catalogue of CRCs: the sum of the digits 1 to 9.
func TestCRCs(t *testing.T) {
	for _, c := range []struct {
		name string
		crc  *crc
		want uint64
	}{
		{"CRC-8/SMBUS", crc8, 0xf4},
		{"CRC-16/ARC", crc16ARC, 0xbb3d},
		{"CRC-16/IBM-3740", newCRC(crc{width: 16, poly: 0x1021, init: 0xffff}), 0x29b1},
		{"CRC-16/X-25", newCRC(crc{width: 16, poly: 0x1021, reversed: true, out: true, init: 0xffff, xor: 0xffff}), 0x906e},
		{"CRC-32/ISO-HDLC", crc32ISO, 0xcbf43926},
		{"CRC-32/BZIP2", newCRC(crc{width: 32, poly: 0x04c11db7, init: 0xffffffff, xor: 0xffffffff}), 0xfc891918},
		{"CRC-32/ISO-HDLC by table", newCRC(crc{width: 32, poly: 0x04c11db7, reversed: true, out: true, init: 0xffffffff, xor: 0xffffffff}), 0xcbf43926},
		{"CRC-5/USB", newCRC(crc{width: 5, poly: 0x05, reversed: true, out: true, init: 0x1f, xor: 0x1f}), 0x19},
		{"CRC-64/ECMA-182", crc64, 0x6c40df5f0b497347},
	} {
		if got := c.crc.sum([]byte("123456789")); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestSums(t *testing.T) {
	// RFC 1071, section 3: the sum is ddf2.
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	if got := csum16(b); got != 0xffff-0xddf2 {
		t.Errorf("csum16: %#x", got)
	}
	if got := csum16([]byte{1}); got != 0xfeff {
		t.Errorf("csum16 of one byte: %#x", got)
	}
	if got := xor16([]byte{0x12, 0x34, 0x01, 0x02, 0xff}); got != 0x1234^0x0102^0xff00 {
		t.Errorf("xor16: %#x", got)
	}
	if got := identity([]byte{1, 2, 3}); got != 0x010203 {
		t.Errorf("identity: %#x", got)
	}
	if got := identity([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != 0x0102030405060708 {
		t.Errorf("identity of nine bytes: %#x", got)
	}
}

func TestBetween(t *testing.T) {
	var r prng
	r.seed(7)
	var seen [6]int
	for range 6000 {
		v := r.between(10, 15)
		if v < 10 || v > 15 {
			t.Fatalf("%d is not from 10 to 15", v)
		}
		seen[v-10]++
	}
	for i, n := range seen {
		if n < 850 || n > 1150 { // 1000 and five standard deviations
			t.Errorf("%d came %d times of 6000", i+10, n)
		}
	}
	if v := r.between(3, 3); v != 3 {
		t.Errorf("between 3 and 3: %d", v)
	}
	r.between(0, ^uint64(0))
}
