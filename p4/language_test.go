package p4

import (
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// What the language's constructs do to a header (specification, 8 and 12).
func TestLanguage(t *testing.T) {
	const top = `
header_union u_t { one_t x; one_t y; }
enum bit<8> code_t { A = 1, B = 2 }
enum plain_t { P, Q, R }
type bit<8> id_t;
struct nest_t { pair_t p; tuple<bit<8>, bit<16>> t; one_t[2] s; }
const pair_t kPair = { 3, 0x0405 };
const tuple<bit<8>, pair_t> kTuple = { 6, { 7, 0x0809 } };
bit<8> pick(in plain_t e) { if (e == plain_t.P) { return 1; } else if (e != plain_t.Q) { return 3; } return 2; }
void both(in pair_t p, out bit<8> x, out bit<16> y) { x = p.x; y = p.y; }
T twice<T>(in T v) { return v; }
`
	for _, c := range []struct {
		name, body string
		frames     []string
	}{
		{
			"switch over a number", "switch (hdr.h.a) { 1: { hdr.h.b = 10; } 2: 3: { hdr.h.b = 20; } 0xff: { } default: { hdr.h.b = 99; } }",
			[]string{"01 00 0000 00000000 -> 01 0a 0000 00000000", "02 00 0000 00000000 -> 02 14 0000 00000000", "03 00 0000 00000000 -> 03 14 0000 00000000", "ff 07 0000 00000000 -> ff 07 0000 00000000", "04 00 0000 00000000 -> 04 63 0000 00000000"},
		},
		{
			"switch over an enum without a default", "plain_t e = plain_t.Q; if (hdr.h.a == 1) { e = plain_t.R; } switch (e) { plain_t.P: { hdr.h.b = 1; } plain_t.R: { hdr.h.b = 3; } }",
			[]string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> 01 03 0000 00000000"},
		},
		{
			"switch over a coded enum", "switch ((code_t)hdr.h.a) { code_t.A: { hdr.h.b = 1; } code_t.B: { hdr.h.b = 2; } default: { hdr.h.b = 3; } }",
			[]string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000", "03 00 0000 00000000 -> 03 03 0000 00000000"},
		},
		{
			"enums as arguments", "hdr.h.b = pick(plain_t.P) ++ 4w0 == 12w16 ? pick(plain_t.R) : 0; hdr.h.c = 8w0 ++ pick(plain_t.Q);",
			[]string{"00 00 0000 00000000 -> 00 03 0002 00000000"},
		},
		{"break, continue and a return from loops", "for (bit<8> i in 1 .. 9) { if (i == 3) { continue; } if (i == 6) { break; } hdr.h.b = hdr.h.b + i; }", []string{"00 00 0000 00000000 -> 00 0c 0000 00000000"}},
		{"a loop over a range that begins behind its end", "for (bit<8> i in hdr.h.a .. 3) { hdr.h.b = hdr.h.b + 1; }", []string{"02 00 0000 00000000 -> 02 02 0000 00000000", "04 00 0000 00000000 -> 04 00 0000 00000000"}},
		{"a loop over a range up to the greatest number", "for (bit<8> i in 254 .. 255) { hdr.h.b = hdr.h.b + 1; }", []string{"00 00 0000 00000000 -> 00 02 0000 00000000"}},
		{"a loop over a list", "for (bit<8> x in { 8w1, hdr.h.a, 8w4 }) { if (x == 9) { break; } hdr.h.b = hdr.h.b + x; }", []string{"02 00 0000 00000000 -> 02 07 0000 00000000", "09 00 0000 00000000 -> 09 01 0000 00000000"}},
		{"a loop over a stack", "one_t[3] s; s[0] = { 1 }; s[1] = { hdr.h.a }; s[2] = { 4 }; for (one_t x in s) { hdr.h.b = hdr.h.b + x.v; x.v = 0; } hdr.h.c[7:0] = s[1].v;", []string{"02 00 0000 00000000 -> 02 07 0002 00000000"}},
		{"a loop within a loop", "for (bit<8> i = 0; i < 3; i = i + 1) { for (bit<8> j = i; j < 3; j = j + 1) { if (j == 2) { break; } hdr.h.b = hdr.h.b + 1; } hdr.h.c = hdr.h.c + 1; }", []string{"00 00 0000 00000000 -> 00 03 0003 00000000"}},
		{"struct expressions", "pair_t p = { y = hdr.h.c, x = hdr.h.a }; p = { p.x + 1, p.y + 1 }; both(p, hdr.h.b, hdr.h.c); nest_t n = { p = { x = 1, y = 2 }, ... }; hdr.h.d = 8w0 ++ n.p.y ++ n.t[0];", []string{"01 00 0002 00000000 -> 01 02 0003 00000200"}},
		{"constants of structs and tuples", "pair_t p = kPair; hdr.h.a = p.x; hdr.h.c = kTuple[1].y; tuple<bit<8>, pair_t> q = kTuple; hdr.h.b = q[0]; hdr.h.d[23:16] = q[1].x; hdr.h.d[15:0] = kPair.y;", []string{"00 00 0000 00000000 -> 03 06 0809 00070405"}},
		{
			"structs that are compared", "pair_t p = { hdr.h.a, hdr.h.c }; pair_t q = { 1, 2 }; hdr.h.b = (p == q ? 8w1 : 0) + (p != q ? 8w2 : 0) + ({ hdr.h.a, hdr.h.c } == { 8w1, 16w2 } ? 8w4 : 0);",
			[]string{"01 00 0002 00000000 -> 01 05 0002 00000000", "01 00 0003 00000000 -> 01 02 0003 00000000"},
		},
		{
			"headers and stacks that are compared", "one_t x; one_t y; hdr.h.b = x == y ? 8w1 : 0; x.setValid(); x.v = hdr.h.a; if (x == y) { hdr.h.b = 99; } y.setValid(); y.v = 1; if (x == y) { hdr.h.b = hdr.h.b + 2; } one_t[2] s; one_t[2] r; s[1] = x; r[1] = y; if (s == r) { hdr.h.b = hdr.h.b + 4; } tuple<bit<8>, one_t> u = { 1, x }; tuple<bit<8>, one_t> w = { 1, y }; if (u == w) { hdr.h.b = hdr.h.b + 8; }",
			[]string{"01 00 0000 00000000 -> 01 0f 0000 00000000", "02 00 0000 00000000 -> 02 01 0000 00000000"},
		},
		{
			"a slice that begins anywhere", "hdr.h.b = hdr.h.d[hdr.h.a+:8]; hdr.h.c[hdr.h.a+:4] = 0xf; hdr.h.s[hdr.h.a+:4] = hdr.h.s[hdr.h.a+:4];",
			[]string{"04 00 0000 12345678 -> 04 67 00f0 12345678", "1c 00 0000 12345678 -> 1c 01 0000 12345678", "20 00 0000 12345678 -> 20 00 0000 12345678", "0e 00 0000 00000000 -> 0e 00 c000 00000000"},
		},
		{"slices of slices", "hdr.h.b = 8w0; hdr.h.b[7:4][1:0] = hdr.h.a[5:0][5:4]; hdr.h.c = hdr.h.s[71:8][63:48];", []string{"30 00 0000 00000000 -> 30 30 3132 00000000"}},
		{"a stack that is shifted", "one_t[3] s; s[0] = { 1 }; s[1] = { 2 }; s[2] = { 3 }; s.push_front(1); hdr.h.a = (s[0].isValid() ? 8w16 : 0) + s[1].v; hdr.h.b = s[2].v; s.pop_front(2); hdr.h.c = s[0].v ++ (s[1].isValid() ? 8w1 : 0);", []string{"00 00 0000 00000000 -> 01 02 0200 00000000"}},
		{"a stack's index at run time", "one_t[2] s; s[hdr.h.a] = { 7 }; hdr.h.b = s[hdr.h.a].v; s[1].setInvalid(); hdr.h.c = s[1].isValid() ? 16w1 : 0;", []string{"00 00 0000 00000000 -> 00 07 0000 00000000", "01 00 0000 00000000 -> 01 07 0000 00000000", "02 09 0000 00000000 -> 02 00 0000 00000000"}},
		{"a union has one member", "u_t u; u.x = { 1 }; hdr.h.a = u.isValid() ? 8w1 : 0; u.y = { 2 }; hdr.h.b = (u.x.isValid() ? 8w16 : 0) + u.y.v; u_t w; hdr.h.c = w == u ? 16w1 : 2; w.y.setValid(); w.y.v = 2; hdr.h.d = w == u ? 32w1 : 2; u.y.setInvalid(); if (u.isValid()) { hdr.h.d = 9; }", []string{"00 00 0000 00000000 -> 01 02 0002 00000001"}},
		{"an invalid header is assigned", "one_t x; x.setValid(); x = (one_t){#}; hdr.h.a = x.isValid() ? 8w1 : 0; one_t y = { 5 }; x = y; hdr.h.b = x.v;", []string{"07 00 0000 00000000 -> 00 05 0000 00000000"}},
		{"types of one's own", "id_t i = (id_t)hdr.h.a; id_t j = twice(i); hdr.h.b = (bit<8>)j + 1; bool q = i == j; hdr.h.c = (bit<16>)(bit<1>)q;", []string{"05 00 0000 00000000 -> 05 06 0001 00000000"}},
		{"division", "hdr.h.a = hdr.h.a / 4; hdr.h.c = hdr.h.c % 16;", []string{"17 05 0017 00000000 -> 05 05 0007 00000000", "ff 00 0020 00000000 -> 3f 00 0000 00000000"}},
		{"a shift by a wide number", "hdr.h.d = hdr.h.d << hdr.h.s; hdr.h.c = hdr.h.c >> (hdr.h.s >> 68);", []string{"00 00 8000 ffffffff -> 00 00 1000 00000000"}},
		{"compound assignments", "hdr.h.a += 3; hdr.h.b -= 1; hdr.h.c <<= 4; hdr.h.d |= 0xf0; hdr.h.d &= 0xff; hdr.h.d ^= 1; hdr.h.c[3:0] += 5; hdr.h.a *= 2;", []string{"01 00 0123 00000f08 -> 08 ff 1235 000000f9"}},
		{"and and or leave out what does not count", "bit<8> n = 0; if (hdr.h.a == 1 && count(n) || hdr.h.a == 2 || count(n)) { hdr.h.b = n; } else { hdr.h.b = 0x80 | n; }", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000", "03 00 0000 00000000 -> 03 01 0000 00000000"}},
		{"a choice evaluates one side", "bit<8> n = 0; bool x = hdr.h.a == 1 ? count(n) : false; hdr.h.b = n; hdr.h.c = x ? 16w1 : 0;", []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"}},
		{"arguments by name are evaluated as they are written", "bit<8> n = 5; two(b = add(n, 1), a = add(n, 10), r = hdr.h.c);", []string{"00 00 0000 00000000 -> 00 00 1006 00000000"}},
		{"exit ends the control and keeps what is done", "hdr.h.a = 1; leave(hdr.h.b); hdr.h.c = 1;", []string{"00 00 0000 00000000 -> 01 02 0000 00000000"}},
		{"hashes of structs, lists and stacks", "pair_t p = { 0x12, 0x3456 }; one_t[2] s; s[0] = { 0x12 }; s[1] = { 0x34 }; tuple<bit<8>, bit<16>> q = { 0x12, 0x3456 }; bit<32> x; bit<32> y; hash(x, HashAlgorithm.crc32, 32w0, { p }, 64w0x100000000); hash(y, HashAlgorithm.crc32, 32w0, { 8w0x12, 16w0x3456 }, 64w0x100000000); hdr.h.a = x == y ? 8w1 : 0; hash(x, HashAlgorithm.crc32, 32w0, q, 64w0x100000000); hdr.h.b = x == y ? 8w1 : 0; hash(x, HashAlgorithm.crc32, 32w0, { a = p.x, b = p.y }, 64w0x100000000); hdr.h.c = x == y ? 16w1 : 0; hash(x, HashAlgorithm.crc16, 32w0, { s }, 32w0x10000); hash(y, HashAlgorithm.crc16, 32w0, { 16w0x1234 }, 32w0x10000); hdr.h.d = x == y ? 32w1 : 0;", []string{"00 00 0000 00000000 -> 01 01 0001 00000001"}},
		{"constants known when compiled", "if (bit<9>.minSizeInBytes() == 2) { hdr.h.a = 1; } else { hdr.h.a = 2; } if (false) { hdr.h.b = 9; } hdr.h.c = (bit<16>)hdr.h.minSizeInBits(); assert(hdr.h.a == 1);", []string{"00 00 0000 00000000 -> 01 00 0088 00000000"}},
		{"numbers of any width in between", "hdr.h.a = (bit<8>)((int)hdr.h.a + 1); hdr.h.c = (bit<16>)((int)hdr.h.b * (int)hdr.h.b - 1); hdr.h.b = (bit<8>)(((int)hdr.h.b - 256) >> 1); hdr.h.d = (bit<32>)((int)hdr.h.s * (int)hdr.h.s >> 72);", []string{"ff 10 0000 00000000 -> 00 88 00ff 01622a5a"}},
		{"numbers of any width that are compared", "hdr.h.b = ((int)hdr.h.a - 1 < 0 ? 8w1 : 0) + ((int)hdr.h.a + 1 == 256 ? 8w2 : 0) + (-(int)(int<8>)hdr.h.a > 127 ? 8w4 : 0);", []string{"00 00 0000 00000000 -> 00 01 0000 00000000", "ff 00 0000 00000000 -> ff 02 0000 00000000", "80 00 0000 00000000 -> 80 04 0000 00000000"}},
		{"numbers of any width as index and amount", "one_t[2] s; s[0] = { 1 }; s[1] = { 2 }; hdr.h.b = s[(int)hdr.h.a - 1].v; hdr.h.c = 16w1 << ((int)hdr.h.a + 1);", []string{"01 00 0000 00000000 -> 01 01 0004 00000000", "02 00 0000 00000000 -> 02 02 0008 00000000", "00 07 0000 00000000 -> 00 00 0002 00000000"}},
		{"negative numbers of any width", "hdr.h.b = (bit<8>)((int)hdr.h.a * -4 + -4); hdr.h.c = (int)hdr.h.a > -1 ? 16w1 : 0; hdr.h.d = (bit<32>)(hdr.h.a == 1 ? -(int)hdr.h.a : (int)hdr.h.s - (int)hdr.h.s - 1 << 4);", []string{"01 00 0000 00000000 -> 01 f8 0001 ffffffff", "02 00 0000 00000000 -> 02 f4 0001 fffffff0"}},
		{"parameters of type int", "steps.apply(3, hdr.h.a);", []string{"03 00 0000 00000000 -> 0c 00 0000 00000000", "05 00 0000 00000000 -> 05 00 0000 00000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			more := "bool count(inout bit<8> n) { n = n + 1; return true; } bit<8> add(inout bit<8> n, in bit<8> k) { n = n + k; return n; }\n" +
				"void two(in bit<8> a, in bit<8> b, out bit<16> r) { r = a ++ b; }\n" +
				"control step(int k, inout bit<8> n) { apply { if (n == k) { n = n + k; } else { n = (bit<8>)(k - 1); } } }\n" +
				"control steps(int k, inout bit<8> n) { apply { step.apply(k, n); step.apply(k + k, n); } }\n"
			text := v1Text(top+more, "action leave(out bit<8> x) { x = 2; exit; }", c.body)
			exchange(t, loadText(t, text).New(), c.frames...)
		})
	}
}

// What parsers make of packets: states, sets, sub-parsers, lookahead, varbit, and the
// errors by which they end.
func TestParsers(t *testing.T) {
	const head = "#include <core.p4>\n#include <v1model.p4>\n" + `
header h_t { bit<8> a; bit<8> b; }
header v_t { bit<8> n; varbit<24> v; bit<8> z; }
header o_t { bit<8> error_; bit<8> m; bit<8> k; }
struct headers { o_t o; h_t h; v_t v; h_t[2] s; }
struct meta { bit<8> m; bit<8> k; }
error { Mine }
`
	const tail = `
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; hdr.o.setValid(); hdr.o.m = m.m; hdr.o.k = m.k;
  if (sm.parser_error == error.NoError) { hdr.o.error_ = 0; } else if (sm.parser_error == error.PacketTooShort) { hdr.o.error_ = 1; } else if (sm.parser_error == error.NoMatch) { hdr.o.error_ = 2; }
  else if (sm.parser_error == error.StackOutOfBounds) { hdr.o.error_ = 3; } else if (sm.parser_error == error.HeaderTooShort) { hdr.o.error_ = 4; } else if (sm.parser_error == error.ParserInvalidArgument) { hdr.o.error_ = 6; }
  else if (sm.parser_error == error.Mine) { hdr.o.error_ = 7; } else { hdr.o.error_ = 9; } } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
	for _, c := range []struct {
		name, top, body string
		// What comes in, and what leaves: the error's number, m, k, the headers, and the rest.
		frames []string
	}{
		{
			"sets", "", "state start { p.extract(hdr.h); transition select(hdr.h.a, hdr.h.b) { (1, 2): one; (0x10 &&& 0xf0, _): two; (3 .. 5, 7): three; (_, 0xff): four; } } state one { m.m = 1; transition accept; } state two { m.m = 2; transition accept; } state three { m.m = 3; transition accept; } state four { m.m = 4; transition reject; }",
			[]string{"0102aa -> 000100 0102aa", "1f02aa -> 000200 1f02aa", "0407aa -> 000300 0407aa", "06ff -> 000400 06ff", "0607aa -> 020000 0607aa"},
		},
		{"too short", "", "state start { p.extract(hdr.h); m.m = 1; transition accept; }", []string{"01 -> 010000 01", "0102 -> 000100 0102", " -> 010000"}},
		{
			"a stack", "", "state start { p.extract(hdr.s.next); m.m = hdr.s.last.a; m.k = (bit<8>)hdr.s.lastIndex; transition select(hdr.s.last.b) { 1: start; default: accept; } }",
			[]string{"0500aa -> 000500 0500aa", "05010600aa -> 000601 05010600aa", "0501060107 00 -> 030601 050106010700"},
		},
		{"last of an empty stack", "", "state start { m.m = hdr.s.last.a; transition accept; }", []string{"0102 -> 030000 0102"}},
		{
			"varbit", "", "state start { p.extract(hdr.v, (bit<32>)p.lookahead<bit<8>>()); transition accept; }",
			[]string{"00ffaa -> 000000 00ffaa", "08bbffaa -> 000000 08bbffaa", "18bbccddff -> 000000 18bbccddff", "20aabbccddee -> 040000 20aabbccddee", "04aabbccddee -> 060000 04aabbccddee", "18bbccdd -> 010000 18bbccdd"},
		},
		{"lookahead", "", "state start { h_t x = p.lookahead<h_t>(); m.m = x.b; m.k = p.lookahead<bit<12>>()[7:0]; p.extract(hdr.h); transition accept; }", []string{"0102aa -> 000210 0102aa", "01 -> 010000 01"}},
		{"what is passed over", "", "state start { p.extract<h_t>(_); p.advance(8); p.extract(hdr.h); m.m = (bit<8>)p.length(); transition accept; }", []string{"0102030405 -> 000500 0405", "010203 -> 010000"}},
		{"verify", "", "state start { p.extract(hdr.h); verify(hdr.h.a == 1, error.Mine); m.m = 1; transition accept; }", []string{"0102 -> 000100 0102", "0202 -> 070000 0202"}},
		{
			"a parser in a parser", "parser Q(packet_in p, out h_t h, inout bit<8> n)(bit<8> k) { state start { p.extract(h); n = n + k; transition select(h.a) { 0: reject; 9: accept; default: accept; } } }", "Q(1) one; Q(16) more; state start { one.apply(p, hdr.h, m.m); transition select(hdr.h.b) { 1: again; default: accept; } } state again { more.apply(p, hdr.s.next, m.m); m.k = 1; transition accept; }",
			[]string{"0100aa -> 000100 0100aa", "010105aabb -> 001101 010105aabb", "0101 -> 010100 0101"},
		},
		{"statements in states", "", "bit<8> n = 3; state start { p.extract(hdr.h); if (hdr.h.a == 1) { m.m = n; } else { m.m = n + 1; } n = n + 1; bit<8> k = n; m.k = k; transition accept; }", []string{"0100 -> 000304 0100", "0200 -> 000404 0200"}},
		{"a state without transition", "", "state start { p.extract(hdr.h); m.m = 5; }", []string{"0102 -> 000500 0102"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pl := loadText(t, head+c.top+"parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {\n"+c.body+"\n}"+tail).New()
			var v Verdict
			for _, f := range c.frames {
				in, want, _ := strings.Cut(f, " -> ")
				pl.Process(unhex(t, in), &Intrinsic{}, &v)
				if len(v.Sent) != 1 || !slices.Equal(v.Sent[0].Data, unhex(t, want)) {
					t.Errorf("%s: %+v, want %s", in, v.Sent, want)
				}
			}
		})
	}
}

// What runs nowhere here is refused with its place.
func TestNotSupported(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a package", "#include <core.p4>\ncontrol c(); package other(c x); control d() { apply { } }\nother(d()) main;", "p.p4:3:12: not supported: package other"},
		{"an extern function", v1Text("extern void mine(in bit<8> x);", "", "mine(hdr.h.a);"), "not supported: extern function mine"},
		{"an extern object", v1Text("extern mine { mine(); void m(); }", "mine() m1;", "m1.m();"), "not supported: method m of mine"},
		{"a quotient of any width", v1Text("", "", "hdr.h.a = (bit<8>)((int)hdr.h.a / 2);"), "not supported: operator / on int"},
		{"a number of too many bits", v1Text("", "", "hdr.h.a = (bit<8>)((int)hdr.h.a << 5000 >> 5000);"), "not supported: an int of more than 4096 bits"},
		{"a table's implementation", v1Text("", "counter(4, CounterType.packets) n; table t { key = { hdr.h.a: exact; } actions = { NoAction; } implementation = n; }", "t.apply();"), "not supported: an implementation by counter"},
		{"a register of too many cells", v1Text("", "register<bit<32>>(0xffffffff) r;", ""), "not supported: I.r of 4294967295 cells"},
		{"two prefixes", v1Text("", "table t { key = { hdr.h.c: lpm; hdr.h.d: lpm; } actions = { NoAction; } }", "t.apply();"), "not supported: two lpm keys in one table"},
		{"a custom CRC without a polynomial", tnaText("", tnaStart, "Hash<bit<8>>(HashAlgorithm_t.CUSTOM) h;", "hdr.h.a = h.get({ hdr.h.b });"), "not supported: hash algorithm CUSTOM without a polynomial"},
		{"the least of wide numbers", tnaText("", tnaStart, "", "hdr.h.s = min(hdr.h.s, hdr.h.s);"), "not supported: min of bit<72>"},
	} {
		_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(c.text)}}, "p.p4", Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !located.MatchString(err.Error()) {
			t.Errorf("%s: error is %v, want %s", c.name, err, c.want)
		}
	}
}

// An extern that the program itself declares is right but runs nowhere: Check warns, Load refuses. What
// Sluice knows and lacks both refuse.
func TestCheckExterns(t *testing.T) {
	const refused = "Sluice does not run it; p4 test, p4 run and fabric.program refuse the program"
	for _, c := range []struct{ name, text, warning, err string }{
		{"a function", v1Text("extern void mine(in bit<8> x);", "", "mine(hdr.h.a); mine(1);"), "warning: mine is an extern of the program's own: " + refused, ""},
		{"a function's value", v1Text("extern bit<8> mine(bit<8> x);", "", "hdr.h.a = mine(3) + 1;"), "warning: mine is an extern of the program's own: " + refused, ""},
		{"an object", v1Text("extern mine { mine(); void m<T>(in T x); }", "mine() m1;", "m1.m(hdr.h.a);"), "warning: mine is an extern of the program's own: " + refused, ""},
		{"an object of TNA", tnaText("extern mine { mine(); bit<8> m(); }", tnaStart, "mine() m1;", "hdr.h.a = m1.m();"), "warning: mine is an extern of the program's own: " + refused, ""},
		{"a math unit", tnaText("", tnaStart, "MathUnit<bit<8>>(false, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }) f;", "hdr.h.a = f.execute(hdr.h.b);"), "", "not supported: method execute of MathUnit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.p4")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Check(file, Options{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error is %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0], c.warning) || !located.MatchString(r.Warnings[0]) {
				t.Fatalf("warnings are %q, error %v, want %s", r.Warnings, err, c.warning)
			}
			if _, err := Load(file, Options{}); err == nil || !strings.Contains(err.Error(), ": not supported: ") {
				t.Errorf("Load gives %v, want not supported", err)
			}
		})
	}
}

// What a controller reads and changes.
func TestControlPlane(t *testing.T) {
	pl := loadText(t, v1Text("", `register<bit<8>>(4) r; counter(2, CounterType.packets_and_bytes) n; direct_counter(CounterType.packets) hits;
    action set(bit<8> v) { hdr.h.b = v; }
    table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } counters = hits; default_action = NoAction(); entries = { 9: set(9); } }
    table fixed { actions = { set; } const default_action = set(1); }`, "t.apply(); fixed.apply(); n.count(1); r.write(0, 1);")).New()
	const entries = "add t hdr.h.a:1 set(v:5)\nadd t hdr.h.a:2 set(v:6)"
	if err := stf.Configure(pl, "t", []byte(entries)); err != nil {
		t.Fatal(err)
	}
	var v Verdict
	for _, a := range []byte{9, 1, 1, 7} {
		pl.Process(append([]byte{a}, make([]byte, 16)...), &Intrinsic{}, &v)
	}
	packets, _, err := pl.EntryCounts("t")
	if want := []uint64{1, 2, 0}; err != nil || !slices.Equal(packets, want) {
		t.Errorf("the entries of t counted %v, error %v, want %v", packets, err, want)
	}
	n, err := pl.Counter("n")
	if err != nil || n.Packets(1) != 4 || n.Bytes(1) != 4*17 || n.Packets(0) != 0 || n.Packets(2) != 0 || n.Bytes(-1) != 0 {
		t.Errorf("the counter has %d packets and %d bytes, error %v", n.Packets(1), n.Bytes(1), err)
	}
	r, err := pl.Register("r")
	if err != nil || r.Len() != 4 || r.Read(0) != 1 || r.Read(4) != 0 {
		t.Errorf("the register holds %d, error %v", r.Read(0), err)
	}
	if err := pl.ClearTable("t"); err != nil {
		t.Fatal(err)
	}
	pl.Process([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, &Intrinsic{}, &v)
	packets, _, _ = pl.EntryCounts("t")
	if len(packets) != 1 {
		t.Errorf("after ClearTable: %d entries, want the program's own", len(packets))
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{r.Write(4, 0), "register I.r: index 4 is not within 0 to 3"},
		{r.Write(0, 256), "register I.r: value 0x100 does not fit 8 bits"},
		{pl.SetDefault("fixed", Action{Name: "set", Args: []*big.Int{big.NewInt(1)}}), "table I.fixed: its default action is the program's own"},
		{pl.AddMember("t", 1, Action{Name: "NoAction"}), "table I.t has no action profile"},
		{pl.ClearTable("no"), `unknown table "no": there is I.t, I.fixed`},
		{second(pl.Register("no")), `unknown register "no": there is I.r`},
		{second(pl.Meter("no")), `unknown meter "no"`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("error is %v, want %s", c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
