package p4

import (
	"fmt"
	"testing"
)

// What is hashed (v1model's hash and checksums, TNA's Hash): the bits of the values in their order, as they would stand in a packet. Each
// case hashes two inputs of the same bits, or of others.
func TestRulesOfHashedBits(t *testing.T) {
	const top = `
header two_t { bit<8> v; bit<8> w; }
header var_t { bit<8> n; varbit<32> v; }
header bits_t { bit<3> a; bit<13> b; }
header_union u_t { one_t x; two_t y; }
struct nest_t { bit<8> a; pair2_t p; }
enum bit<8> code_t { A = 0x12, B = 0x34 }
type bit<8> new_t;
bit<8> next(inout bit<8> n) { n = n + 1; return n; }
`
	const locals = "one_t o; one_t p; two_t q; one_t[2] st; bits_t bt; u_t u; nest_t n; tuple<bit<8>, pair2_t> tp; bit<8> k; bit<4> ni; bool t_ = true;"
	const before = "o = { 0x12 }; q = { 0x12, 0x34 }; st[0] = { 0x12 }; st[1] = { 0x34 }; bt = { 5, 0x1abc }; u.y = { 0x12, 0x34 }; n = { 0x12, { 0x34, 0x56 } }; tp = { 0x12, { 0x34, 0x56 } }; k = 0x12; ni = 0xa; "
	for _, c := range []struct {
		rule, one, other string
		same             bool
	}{
		{"a number", "k", "8w0x12", true},
		{"another number", "k", "8w0x13", false},
		{"a number alone and in a list", "k", "{ k }", true},
		{"a list within a list", "{ k, { k, k } }", "{ k, k, k }", true},
		{"a deeper list", "{ { { k } }, { 8w0x34 } }", "{ 16w0x1234 }", true},
		{"the order counts", "{ k, 8w0x34 }", "{ 8w0x34, k }", false},
		{"the width counts", "{ 16w0x12 }", "{ 8w0x12 }", false},
		{"numbers of no whole bytes are joined", "{ 4w0x1, 4w0x2 }", "{ k }", true},
		{"across bytes", "{ 4w0x1, 8w0x23, 4w0x4 }", "{ 16w0x1234 }", true},
		{"of odd widths", "{ 3w5, 13w0x1abc }", "{ 16w0xbabc }", true},
		{"of 1 bit each", "{ 1w0, 1w0, 1w0, 1w1, 1w0, 1w0, 1w1, 1w0 }", "{ k }", true},
		{"of more than a word", "{ 72w0x123456789abcdef012, 8w0x34 }", "{ 80w0x123456789abcdef01234 }", true},
		{"of more than a word behind 4 bits", "{ 4w1, 68w0x23456789abcdef012 }", "{ 72w0x123456789abcdef012 }", true},
		{"a field of the packet", "{ hdr.h.s }", "{ 72w0x313233343536373839 }", true},
		{"a slice of a field", "{ hdr.h.s[71:64], hdr.h.s[63:56] }", "{ 16w0x3132 }", true},
		{"a slice of more than a word", "{ hdr.h.s[71:4], hdr.h.s[3:0] }", "{ hdr.h.s }", true},
		{"a bool is a bit", "{ t_, 7w0x12 }", "{ 8w0x92 }", true},
		{"false is a bit, too", "{ false, 7w0x12 }", "{ 8w0x12 }", true},
		{"a negative number", "{ 8s0xff, -8s1 }", "{ 16w0xffff }", true},
		{"an enum is its number", "{ code_t.A, code_t.B }", "{ 16w0x1234 }", true},
		{"a new type is its number", "{ (new_t)k }", "{ k }", true},
		{"a cast", "{ (bit<16>)k }", "{ 16w0x0012 }", true},
		{"a sum", "{ k + 1 }", "{ 8w0x13 }", true},
		{"a concatenation", "{ k ++ 8w0x34 }", "{ k, 8w0x34 }", true},
		{"a choice", "{ t_ ? k : 8w0 }", "{ k }", true},
		{"a header's fields", "{ q }", "{ 16w0x1234 }", true},
		{"a header alone", "q", "{ 16w0x1234 }", true},
		{"a header beside a number", "{ q, k }", "{ 24w0x123412 }", true},
		{"a header of no whole bytes", "{ bt }", "{ 16w0xbabc }", true},
		{"an invalid header has none", "{ o, p, k }", "{ o, k }", true},
		{"a struct's fields", "{ n }", "{ 24w0x123456 }", true},
		{"a struct alone", "n", "{ 24w0x123456 }", true},
		{"a struct within a struct", "{ n.p }", "{ 16w0x3456 }", true},
		{"a struct expression", "(pair2_t){ x = 0x12, y = 0x34 }", "{ 16w0x1234 }", true},
		{"a struct expression in another order", "(pair2_t){ y = 0x34, x = 0x12 }", "{ 16w0x1234 }", true},
		{"a struct expression whose rest is left out", "(pair2_t){ x = 0x12, ... }", "{ 16w0x1200 }", true},
		{"one whose first field is left out", "(pair2_t){ y = 0x12, ... }", "{ 16w0x0012 }", true},
		{"a list whose rest is left out", "(pair2_t){ 0x12, ... }", "{ 16w0x1200 }", true},
		{"a header from a list", "(two_t){ 0x12, 0x34 }", "{ 16w0x1234 }", true},
		{"a header from a struct expression", "(two_t){ w = 0x34, v = 0x12 }", "{ 16w0x1234 }", true},
		{"a header that is {#}", "{ (two_t){#}, k }", "{ k }", true},
		{"a cast list", "(pair2_t){ 0x12, 0x34 }", "{ 16w0x1234 }", true},
		{"a tuple's elements", "{ tp }", "{ 24w0x123456 }", true},
		{"an element of a tuple", "{ tp[0], tp[1].y }", "{ 16w0x1256 }", true},
		{"a stack's elements", "{ st }", "{ 16w0x1234 }", true},
		{"an element of a stack", "{ st[1], st[0] }", "{ 16w0x3412 }", true},
		{"an element by a variable", "{ st[hdr.h.a].v }", "{ k }", true},
		{"a member of a union", "{ u.y }", "{ 16w0x1234 }", true},
		{"a member of a union that is invalid", "{ u.x, k }", "{ k }", true},
		{"a union", "{ u }", "{ 16w0x1234 }", true},
		{"a union beside a number", "{ k, u }", "{ 24w0x121234 }", true},
		{"calls in their order", "{ next(k), next(k) }", "{ 16w0x1314 }", true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			want := 2
			if c.same {
				want = 1
			}
			body := before + "bit<32> x; bit<32> y; hash(x, HashAlgorithm.crc32, 32w0, " + c.one + ", 64w0x100000000); hash(y, HashAlgorithm.crc32, 32w0, " + c.other + ", 64w0x100000000); hdr.h.b = x == y ? 8w1 : 2;"
			exchange(t, loadText(t, v1Text(top, locals, body)).New(), fmt.Sprintf("00 00 0000 00000000 -> 00 %02x 0000 00000000", want))
		})
	}
}

// The algorithms of v1model by the check values of their catalogues, of "123456789".
func TestRulesOfAlgorithms(t *testing.T) {
	const zero = "00 00 0000 00000000 -> 00 00 "
	for _, c := range []struct{ rule, body, want string }{
		{"crc16 is CRC-16/ARC", "hash(hdr.h.c, HashAlgorithm.crc16, 16w0, { hdr.h.s }, 32w0x10000);", "bb3d 00000000"},
		{"crc32 is CRC-32/ISO-HDLC", "hash(hdr.h.d, HashAlgorithm.crc32, 32w0, { hdr.h.s }, 64w0x100000000);", "0000 cbf43926"},
		{"crc16_custom is crc16", "hash(hdr.h.c, HashAlgorithm.crc16_custom, 16w0, { hdr.h.s }, 32w0x10000);", "bb3d 00000000"},
		{"crc32_custom is crc32", "hash(hdr.h.d, HashAlgorithm.crc32_custom, 32w0, { hdr.h.s }, 64w0x100000000);", "0000 cbf43926"},
		{"csum16 is the Internet checksum", "hash(hdr.h.c, HashAlgorithm.csum16, 16w0, { 16w0x0001, 16w0xf203, 16w0xf4f5, 16w0xf6f7 }, 32w0x10000);", "220d 00000000"},
		{"csum16 of an odd number of bytes", "hash(hdr.h.c, HashAlgorithm.csum16, 16w0, { 16w0x0001, 8w0xf2 }, 32w0x10000);", "0dfe 00000000"},
		{"csum16 of all ones", "hash(hdr.h.c, HashAlgorithm.csum16, 16w0, { 16w0xffff }, 32w0x10000);", "0000 00000000"},
		{"xor16", "hash(hdr.h.c, HashAlgorithm.xor16, 16w0, { 16w0x1234, 16w0x0102, 16w0x8000 }, 32w0x10000);", "9336 00000000"},
		{"identity", "hash(hdr.h.d, HashAlgorithm.identity, 32w0, { 32w0x12345678 }, 64w0x100000000);", "0000 12345678"},
		{"identity of a byte", "hash(hdr.h.c, HashAlgorithm.identity, 16w0, { 8w0x12 }, 32w0x10000);", "0012 00000000"},
		{"a base is added", "hash(hdr.h.c, HashAlgorithm.identity, 16w0x100, { 8w0x12 }, 32w0x10000);", "0112 00000000"},
		{"the bound is of the hash, not of the sum", "hash(hdr.h.c, HashAlgorithm.identity, 16w0x100, { 8w0x12 }, 32w0x10);", "0102 00000000"},
		{"a bound of 0 is the base", "hash(hdr.h.c, HashAlgorithm.identity, 16w0x100, { 8w0x12 }, 32w0);", "0100 00000000"},
		{"a bound that the packet gives", "hash(hdr.h.c, HashAlgorithm.identity, 16w0, { 8w0x12 }, hdr.h.d + 5);", "0003 00000000"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			exchange(t, loadText(t, v1Text("", "", c.body)).New(), zero+c.want)
		})
	}
}
