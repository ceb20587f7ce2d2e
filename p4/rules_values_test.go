package p4

import "testing"

// Operators at the edges of words (8.6, 8.7): operands of 1, 63, 64, 65, 127, 128 and 129 bits, where a carry, a borrow and a sign pass
// from word to word.
func TestRulesOfWidths(t *testing.T) {
	const (
		ones63  = "0x7fffffffffffffff"
		ones64  = "0xffffffffffffffff"
		ones65  = "0x1ffffffffffffffff"
		ones128 = "0xffffffffffffffffffffffffffffffff"
		ones129 = "0x1ffffffffffffffffffffffffffffffff"
		top64   = "0x8000000000000000"
		top128  = "0x80000000000000000000000000000000"
	)
	holdAll(t, []valueRule{
		{"8.6: a sum of 1 bit", "bit<1> x = 1; bit<1> y = 1", "x + y", "bit<1>", "0"},
		{"8.6: a product of 1 bit", "bit<1> x = 1; bit<1> y = 1", "x * y", "bit<1>", "1"},
		{"8.6: a negation of 1 bit", "bit<1> x = 1", "-x", "bit<1>", "1"},
		{"8.6: a sum of 63 bits wraps", "bit<63> x = " + ones63 + "; bit<63> y = 2", "x + y", "bit<63>", "1"},
		{"8.6: a sum of 64 bits wraps", "bit<64> x = " + ones64 + "; bit<64> y = 2", "x + y", "bit<64>", "1"},
		{"8.6: a sum of 65 bits carries", "bit<65> x = " + ones64 + "; bit<65> y = 1", "x + y", "bit<65>", "0x10000000000000000"},
		{"8.6: a sum of 65 bits wraps", "bit<65> x = " + ones65 + "; bit<65> y = 3", "x + y", "bit<65>", "2"},
		{"8.6: a sum of 128 bits wraps", "bit<128> x = " + ones128 + "; bit<128> y = 1", "x + y", "bit<128>", "0"},
		{"8.6: a sum of 129 bits carries twice", "bit<129> x = " + ones128 + "; bit<129> y = 1", "x + y", "bit<129>", "0x100000000000000000000000000000000"},
		{"8.6: a difference of 63 bits wraps", "bit<63> x = 0; bit<63> y = 1", "x - y", "bit<63>", ones63},
		{"8.6: a difference of 65 bits borrows", "bit<65> x = 0x10000000000000000; bit<65> y = 1", "x - y", "bit<65>", ones64},
		{"8.6: a difference of 129 bits wraps", "bit<129> x = 0; bit<129> y = 1", "x - y", "bit<129>", ones129},
		{"8.6: a product of 63 bits", "bit<63> x = " + ones63 + "; bit<63> y = " + ones63, "x * y", "bit<63>", "1"},
		{"8.6: a product of 64 bits", "bit<64> x = " + ones64 + "; bit<64> y = " + ones64, "x * y", "bit<64>", "1"},
		{"8.6: a product of 65 bits", "bit<65> x = " + ones65 + "; bit<65> y = 2", "x * y", "bit<65>", "0x1fffffffffffffffe"},
		{"8.6: a product of 128 bits", "bit<128> x = " + ones128 + "; bit<128> y = " + ones128, "x * y", "bit<128>", "1"},
		{"8.6: a product of words whose high part counts", "bit<128> x = " + ones64 + "; bit<128> y = " + ones64, "x * y", "bit<128>", "0xfffffffffffffffe0000000000000001"},
		{"8.6: a saturating sum of 63 bits", "bit<63> x = " + ones63 + "; bit<63> y = 1", "x |+| y", "bit<63>", ones63},
		{"8.6: a saturating sum of 64 bits", "bit<64> x = " + ones64 + "; bit<64> y = 1", "x |+| y", "bit<64>", ones64},
		{"8.6: a saturating sum of 65 bits", "bit<65> x = " + ones65 + "; bit<65> y = 1", "x |+| y", "bit<65>", ones65},
		{"8.6: a saturating sum of 65 bits within the range", "bit<65> x = " + ones64 + "; bit<65> y = 1", "x |+| y", "bit<65>", "0x10000000000000000"},
		{"8.6: a saturating sum of 128 bits", "bit<128> x = " + ones128 + "; bit<128> y = " + ones128, "x |+| y", "bit<128>", ones128},
		{"8.6: a saturating difference of 64 bits", "bit<64> x = 1; bit<64> y = " + ones64, "x |-| y", "bit<64>", "0"},
		{"8.6: a saturating difference of 128 bits", "bit<128> x = " + ones64 + "; bit<128> y = " + ones128, "x |-| y", "bit<128>", "0"},
		{"8.6: a complement of 63 bits", "bit<63> x = 0", "~x", "bit<63>", ones63},
		{"8.6: a complement of 65 bits", "bit<65> x = 1", "~x", "bit<65>", "0x1fffffffffffffffe"},
		{"8.6: a negation of 128 bits", "bit<128> x = 1", "-x", "bit<128>", ones128},
		{"8.6: words of 128 bits are compared from the high one", "bit<128> x = 0x10000000000000000; bit<128> y = " + ones64, "(bit<1>)(x > y) ++ (bit<1>)(x < y) ++ (bit<1>)(x >= y) ++ (bit<1>)(x <= y) ++ (bit<1>)(x == y) ++ (bit<1>)(x != y)", "bit<6>", "0b101001"},
		{"8.6: equal words of 128 bits", "bit<128> x = 0x10000000000000000; bit<128> y = 0x10000000000000000", "(bit<1>)(x > y) ++ (bit<1>)(x < y) ++ (bit<1>)(x >= y) ++ (bit<1>)(x <= y) ++ (bit<1>)(x == y) ++ (bit<1>)(x != y)", "bit<6>", "0b001110"},

		{"8.7: a sum of 64 bits wraps", "int<64> x = " + ones63 + "; int<64> y = 1", "x + y", "int<64>", top64},
		{"8.7: a sum of 128 bits wraps", "int<128> x = 0x7fffffffffffffffffffffffffffffff; int<128> y = 1", "x + y", "int<128>", top128},
		{"8.7: a sum of signs", "int<65> x = -1; int<65> y = 1", "x + y", "int<65>", "0"},
		{"8.7: a saturating sum of 63 bits", "int<63> x = 0x3fffffffffffffff; int<63> y = 1", "x |+| y", "int<63>", "0x3fffffffffffffff"},
		{"8.7: a saturating sum of 64 bits", "int<64> x = " + ones63 + "; int<64> y = 1", "x |+| y", "int<64>", ones63},
		{"8.7: a saturating sum of negatives of 64 bits", "int<64> x = -0x7fffffffffffffff; int<64> y = -2", "x |+| y", "int<64>", top64},
		{"8.7: a saturating sum of 128 bits", "int<128> x = 0x7fffffffffffffffffffffffffffffff; int<128> y = 1", "x |+| y", "int<128>", "0x7fffffffffffffffffffffffffffffff"},
		{"8.7: a saturating difference of 128 bits", "int<128> x = -2; int<128> y = 0x7fffffffffffffffffffffffffffffff", "x |-| y", "int<128>", top128},
		{"8.7: a saturating difference of signs within the range", "int<65> x = -1; int<65> y = 1", "x |-| y", "int<65>", "-2"},
		{"8.7: a product of signs of 65 bits", "int<65> x = -3; int<65> y = 5", "x * y", "int<65>", "-15"},
		{"8.7: a product of negatives of 128 bits", "int<128> x = -0x10000000000000000; int<128> y = -3", "x * y", "int<128>", "0x30000000000000000"},
		{"8.7: negatives of 65 bits are less", "int<65> x = -1; int<65> y = 0", "(bit<1>)(x < y) ++ (bit<1>)(x > y) ++ (bit<1>)(x <= y) ++ (bit<1>)(x >= y)", "bit<4>", "0b1010"},
		{"8.7: negatives of 64 bits are less", "int<64> x = -1; int<64> y = 0", "(bit<1>)(x < y) ++ (bit<1>)(x > y) ++ (bit<1>)(x <= y) ++ (bit<1>)(x >= y)", "bit<4>", "0b1010"},
		{"8.7: negatives of 128 bits among each other", "int<128> x = -0x10000000000000000; int<128> y = -1", "(bit<1>)(x < y) ++ (bit<1>)(x > y)", "bit<2>", "0b10"},

		{"8.9.2: left by 0", "bit<65> x = " + ones65 + "; bit<8> n = 0", "x << n", "bit<65>", ones65},
		{"8.9.2: right by 0", "bit<65> x = " + ones65 + "; bit<8> n = 0", "x >> n", "bit<65>", ones65},
		{"8.9.2: left by 64 of 65 bits", "bit<65> x = 3; bit<8> n = 64", "x << n", "bit<65>", "0x10000000000000000"},
		{"8.9.2: right by 64 of 65 bits", "bit<65> x = " + ones65 + "; bit<8> n = 64", "x >> n", "bit<65>", "1"},
		{"8.9.2: left by 128 of 129 bits", "bit<129> x = 3; bit<8> n = 128", "x << n", "bit<129>", "0x100000000000000000000000000000000"},
		{"8.9.2: right by 127 of 129 bits", "bit<129> x = " + ones129 + "; bit<8> n = 127", "x >> n", "bit<129>", "3"},
		{"8.9.2: left by 200 of 129 bits", "bit<129> x = " + ones129 + "; bit<8> n = 200", "x << n", "bit<129>", "0"},
		{"8.9.2: an amount of 64 bits that is large", "bit<8> x = 255; bit<64> n = 0x8000000000000001", "x >> n", "bit<8>", "0"},
		{"8.9.2: an amount of 128 bits that is large", "bit<8> x = 255; bit<128> n = 0x100000000000000000000000000000001", "x << n", "bit<8>", "0xfe"},
		{"8.9.2: an amount of 128 bits beyond a word", "bit<8> x = 255; bit<128> n = 0x10000000000000001", "x << n", "bit<8>", "0"},
		{"8.9.2: a negative of 129 bits right by 64", "int<129> x = -0x100000000000000000000000000000000; bit<8> n = 64", "x >> n", "int<129>", "-0x10000000000000000"},
		{"8.9.2: a negative of 64 bits right by 63", "int<64> x = -0x8000000000000000; bit<8> n = 63", "x >> n", "int<64>", "-1"},
		{"8.9.2: a positive of 64 bits right by 62", "int<64> x = " + ones63 + "; bit<8> n = 62", "x >> n", "int<64>", "1"},
		{"8.9.2: left into the sign", "int<8> x = 0x40; bit<8> n = 1", "x << n", "int<8>", "-128"},

		{"8.11.1: 1 bit to 128", "bit<1> x = 1", "(bit<128>)x", "bit<128>", "1"},
		{"8.11.1: -1 of 1 bit to 128", "int<1> x = -1", "(int<128>)x", "int<128>", "-1"},
		{"8.11.1: 64 bits to 65", "bit<64> x = " + ones64, "(bit<65>)x", "bit<65>", ones64},
		{"8.11.1: a negative of 64 bits to 65", "int<64> x = -2", "(int<65>)x", "int<65>", "-2"},
		{"8.11.1: a negative of 65 bits to 129", "int<65> x = -2", "(int<129>)x", "int<129>", "-2"},
		{"8.11.1: a negative of 129 bits to 64", "int<129> x = -2", "(int<64>)x", "int<64>", "-2"},
		{"8.11.1: 129 bits to 63", "bit<129> x = " + ones129, "(bit<63>)x", "bit<63>", ones63},
		{"8.11.1: 65 bits to int<65>", "bit<65> x = " + ones65, "(int<65>)x", "int<65>", "-1"},
		{"8.11.1: int<65> to bit<65>", "int<65> x = -1", "(bit<65>)x", "bit<65>", ones65},

		{"8.9.1: 1 bit in front of 64", "bit<1> x = 1; bit<64> y = 0", "x ++ y", "bit<65>", "0x10000000000000000"},
		{"8.9.1: 64 bits in front of 1", "bit<64> x = 1; bit<1> y = 1", "x ++ y", "bit<65>", "3"},
		{"8.9.1: 63 bits and 2", "bit<63> x = " + ones63 + "; bit<2> y = 1", "x ++ y", "bit<65>", "0x1fffffffffffffffd"},
		{"8.9.1: 65 bits and 64", "bit<65> x = 1; bit<64> y = " + top64, "x ++ y", "bit<129>", "0x18000000000000000"},
		{"8.9.1: a negative in front", "int<4> x = -1; bit<4> y = 2", "x ++ y", "int<8>", "-14"},
		{"8.6: a slice at a word's edge", "bit<128> x = 0x0123456789abcdeffedcba9876543210", "x[67:60]", "bit<8>", "0xff"},
		{"8.6: a slice of a word at its edge", "bit<128> x = 0x0123456789abcdeffedcba9876543210", "x[127:64]", "bit<64>", "0x0123456789abcdef"},
		{"8.6: a slice of 65 bits", "bit<128> x = " + top128, "x[127:63]", "bit<65>", "0x10000000000000000"},
		{"8.6: the top bit of 129", "bit<129> x = 0x100000000000000000000000000000000", "x[128:128]", "bit<1>", "1"},
	})
}

// What an operand of type int becomes (8.8, 8.11.2): it takes the other operand's type, or that which the place wants.
func TestRulesOfImplicitCasts(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{
			rule: "8.11.2: a literal that is assigned",
			body: "hdr.h.a = 5; hdr.h.b = -1; hdr.h.c = 1 << 15;", frames: []string{zero + "05 ff 8000 00000000"},
		},
		{
			rule: "8.11.2: a literal that is cut where it is assigned",
			body: "hdr.h.a = 0x1234; hdr.h.d = 1 << 40;", frames: []string{zero + "34 00 0000 00000000"},
		},
		{
			rule: "8.11.2: a literal as an argument",
			top:  "bit<8> f(in bit<8> x, in int<8> y) { return x + (bit<8>)y; }",
			body: "hdr.h.a = f(5, -2);", frames: []string{zero + "03 00 0000 00000000"},
		},
		{
			rule: "8.11.2: a literal as a return value",
			top:  "int<8> f() { return -3; }",
			body: "hdr.h.a = (bit<8>)f();", frames: []string{zero + "fd 00 0000 00000000"},
		},
		{
			rule:   "8.11.2: a literal as an action's argument",
			locals: "action f(in bit<8> x, bit<16> y) { hdr.h.a = x; hdr.h.c = y; }",
			body:   "f(7, 0x102);", frames: []string{zero + "07 00 0102 00000000"},
		},
		{
			rule:   "8.11.2: a literal as a constructor's argument",
			top:    "control c(inout bit<8> x)(bit<8> k, int n) { apply { x = x + k + n; } }",
			locals: "c(3, 4) i;",
			body:   "i.apply(hdr.h.a);", frames: []string{zero + "07 00 0000 00000000"},
		},
		{
			rule: "8.11.2: literals of a struct's fields",
			body: "pair_t p = { 1, 0x203 }; hdr.h.a = p.x; hdr.h.c = p.y;", frames: []string{zero + "01 00 0203 00000000"},
		},
		{
			rule: "8.11.2: literals of a header's fields by name",
			body: "one_t o; o = { v = 9 }; hdr.h.a = o.v;", frames: []string{zero + "09 00 0000 00000000"},
		},
		{
			rule: "8.11.2: a literal beside an enum's member",
			top:  "enum bit<8> e_t { A = 3 }",
			body: "hdr.h.a = e_t.A + 1; hdr.h.b = 1 + e_t.A; hdr.h.c = (bit<16>)(bit<8>)e_t.A;", frames: []string{zero + "04 04 0003 00000000"},
		},
		{
			rule:   "8.11.2: an enum's member beside a number of its type",
			top:    "enum bit<8> e_t { A = 3 }",
			body:   "hdr.h.b = hdr.h.a + e_t.A; hdr.h.c[0:0] = (bit<1>)(hdr.h.a == e_t.A); hdr.h.c[1:1] = (bit<1>)(e_t.A == hdr.h.a);",
			frames: []string{"03 00 0000 00000000 -> 03 06 0003 00000000", "04 00 0000 00000000 -> 04 07 0000 00000000"},
		},
		{
			rule: "8.11.2: an enum's member that is assigned to a number",
			top:  "enum bit<8> e_t { A = 3 }",
			body: "hdr.h.a = e_t.A;", frames: []string{zero + "03 00 0000 00000000"},
		},
		{
			rule:   "8.11.2: literals of branches",
			body:   "hdr.h.b = hdr.h.a == 1 ? 8w7 : 9; hdr.h.c = hdr.h.a == 1 ? 1 : 16w2;",
			frames: []string{"01 00 0000 00000000 -> 01 07 0001 00000000", "02 00 0000 00000000 -> 02 09 0002 00000000"},
		},
		{
			rule: "8.11.2: a constant of type int",
			top:  "const int k = 300; const int j = k * k * k * k * k;",
			body: "hdr.h.a = (bit<8>)k; hdr.h.c = k; hdr.h.d = j >> 10;", frames: []string{zero + "2c 00 012c 8d71d25b"},
		},
		{
			rule:   "8.11.2: a bool from int and back",
			body:   "bit<1> x = (bit<1>)(hdr.h.a == 1); bool q = (bool)x; hdr.h.b = q ? 8w1 : 2;",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule:   "7.2.8: a new type is cast to what it is made of and back",
			top:    "type bit<8> n_t; n_t up(in n_t x) { return (n_t)((bit<8>)x + 1); }",
			body:   "n_t n = (n_t)hdr.h.a; n = up(up(n)); hdr.h.b = (bit<8>)n; hdr.h.c = n == (n_t)3 ? 16w1 : 2;",
			frames: []string{"01 00 0000 00000000 -> 01 03 0001 00000000", "02 00 0000 00000000 -> 02 04 0002 00000000"},
		},
		{
			rule: "7.2.8: a new type as a header's field and a table's key",
			top:  "type bit<8> n_t; header n_h { n_t v; }",
			locals: `action set(bit<8> v) { hdr.h.b = v; } n_h x;
    table t { key = { x.v: exact; } actions = { set; } const entries = { (n_t)5: set(9); } const default_action = set(1); }`,
			body:   "x.setValid(); x.v = (n_t)hdr.h.a; t.apply();",
			frames: []string{"05 00 0000 00000000 -> 05 09 0000 00000000", "06 00 0000 00000000 -> 06 01 0000 00000000"},
		},
		{
			rule: "7.2.9: a typedef is the type itself",
			top:  "typedef bit<8> b_t; typedef b_t c_t; c_t f(in b_t x) { return x + 8w1; }",
			body: "b_t n = hdr.h.a; hdr.h.b = f(n);", frames: []string{"01 00 0000 00000000 -> 01 02 0000 00000000"},
		},
	})
}

// Constants of several parts (7.2, 8.12 to 8.17, 11.1): what is known when the program is compiled, and what it is equal to.
func TestRulesOfConstants(t *testing.T) {
	const top = `
struct nest_t { bit<8> a; pair_t p; tuple<bit<8>, bool> t; }
enum e_t { A, B }
enum bit<8> c_t { A = 1, B = 2 }
const pair_t kp = { 1, 2 };
const pair_t kq = { y = 2, x = 1 };
const nest_t kn = { 3, { 4, 5 }, { 6, true } };
const tuple<bit<8>, pair_t> kt = { 7, { 8, 9 } };
const one_t ko = { 5 };
`
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{
			rule: "11.1: a struct by order and by names", top: top,
			body: "hdr.h.a = kp.x + kq.x; hdr.h.c = kp.y + kq.y;", frames: []string{zero + "02 00 0004 00000000"},
		},
		{
			rule: "11.1: a struct within a struct", top: top,
			body: "hdr.h.a = kn.a + kn.p.x + kn.t[0]; hdr.h.c = kn.p.y; hdr.h.b = kn.t[1] ? 8w1 : 2;", frames: []string{zero + "0d 01 0005 00000000"},
		},
		{
			rule: "11.1: a tuple of a struct", top: top,
			body: "hdr.h.a = kt[0]; hdr.h.b = kt[1].x; hdr.h.c = kt[1].y;", frames: []string{zero + "07 08 0009 00000000"},
		},
		{
			rule: "11.1: a constant is copied", top: top,
			body: "nest_t n = kn; n.p.x = 0x44; hdr.h.a = n.p.x; hdr.h.b = kn.p.x;", frames: []string{zero + "44 04 0000 00000000"},
		},
		{
			rule: "11.1: a constant in an argument", top: top + "bit<8> f(in nest_t n) { return n.p.x; }",
			body: "hdr.h.a = f(kn);", frames: []string{zero + "04 00 0000 00000000"},
		},
		{
			rule: "11.1: a header is a valid one", top: top,
			body: "one_t o = ko; hdr.h.a = o.isValid() ? o.v : 9;", frames: []string{zero + "05 00 0000 00000000"},
		},
		{
			rule: "8.16: constants that are equal", top: top,
			body: "hdr.h.a = kp == kq ? 8w1 : 2; hdr.h.b = kp == kn.p ? 8w1 : 2; hdr.h.c = kp != kn.p ? 16w1 : 2;", frames: []string{zero + "01 02 0001 00000000"},
		},
		{
			rule: "8.12: tuples that are equal", top: top,
			body: "hdr.h.a = kt == { 7, { 8, 9 } } ? 8w1 : 2; hdr.h.b = kt == { 7, { 8, 10 } } ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule: "8.16: a constant and a variable", top: top,
			body:   "pair_t p = { hdr.h.a, hdr.h.c }; hdr.h.b = p == kp ? 8w1 : 2;",
			frames: []string{"01 00 0002 00000000 -> 01 01 0002 00000000", "01 00 0003 00000000 -> 01 02 0003 00000000"},
		},
		{
			rule: "11.1: in a static assertion", top: top + "const bool s1 = static_assert(kp.y == 2 && kn.t[1] && kt[1].x == 8, \"no\"); const bool s2 = static_assert(kp == kq);",
			body: "hdr.h.a = s1 && s2 ? 8w1 : 2;", frames: []string{zero + "01 00 0000 00000000"},
		},
		{
			rule: "7.2.1: an enum as a constant", top: top + "const e_t ke = e_t.B;",
			body: "e_t e = ke; hdr.h.a = e == e_t.B ? 8w1 : 2; hdr.h.b = ke == e_t.A ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule: "8.3: a member of a number's enum as a constant", top: top + "const c_t kc = c_t.B; const bit<8> kb = c_t.B + c_t.A;",
			body: "hdr.h.a = kc; hdr.h.b = kb; hdr.h.c = kc == c_t.B ? 16w1 : 2;", frames: []string{zero + "02 03 0001 00000000"},
		},
		{
			rule: "7.1.2: an error as a constant", top: "error { Mine } const error ke = error.Mine;",
			body: "error e = ke; hdr.h.a = e == error.Mine ? 8w1 : 2; hdr.h.b = ke == error.NoError ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule: "8.8: what int computes before it has a width",
			top:  "const bit<8> k = (1 << 20) / 3 % 256; const int<8> g = -(7 / 2) * 2; const bit<8> n = (bit<8>)((5 - 7) & 0xff);",
			body: "hdr.h.a = k; hdr.h.b = (bit<8>)g; hdr.h.c[7:0] = n;", frames: []string{zero + "55 fa 00fe 00000000"},
		},
		{
			rule: "8.5.1: a choice that is known",
			top:  "const bit<8> k = true ? 8w1 : 2; const bit<8> g = 3 > 5 ? 1 : 2;",
			body: "hdr.h.a = k; hdr.h.b = g;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule: "8.9.1: a concatenation that is known",
			top:  "const bit<16> k = 8w1 ++ 8w2; const bit<8> g = k[11:4]; const int<12> n = 4s7 ++ 8w0xff;",
			body: "hdr.h.c = k; hdr.h.a = g; hdr.h.d[11:0] = (bit<12>)n;", frames: []string{zero + "10 00 0102 000007ff"},
		},
		{
			rule:   "11.1: a constant of a control hides that outside",
			top:    "const bit<8> k = 1;",
			locals: "const bit<8> k = 2; const bit<8> m = k + 1;",
			body:   "const bit<8> n = m + k; hdr.h.a = k; hdr.h.b = n;", frames: []string{zero + "02 05 0000 00000000"},
		},
	})
}
