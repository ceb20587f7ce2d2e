package p4

import (
	"encoding/hex"
	"strings"
	"testing"
)

// A parserRule is a parser's states, and what they make of packets: "in -> error k", where k is what the parser left in meta,
// and what follows are the headers and the rest of the packet.
type parserRule struct {
	rule   string
	top    string // before the parser
	locals string
	states string
	frames []string
}

const (
	parserHead = "#include <core.p4>\n#include <v1model.p4>\n" + `
header h_t { bit<8> a; bit<8> b; }
header v_t { bit<8> n; varbit<24> v; }
header bits_t { bit<3> x; int<5> y; }
header_union u_t { h_t h; bits_t b; }
enum bit<8> code_t { A = 1, B = 2 }
struct headers { o_t o; h_t h; v_t v; bits_t b; h_t[2] s; u_t u; u_t[2] us; }
struct meta { bit<8> k; bool t; }
error { Mine, Other }
`
	parserTail = `
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; hdr.o = { 0xee, m.k };
    switch (sm.parser_error) { error.NoError: { hdr.o.e = 0; } error.PacketTooShort: { hdr.o.e = 1; } error.NoMatch: { hdr.o.e = 2; } error.StackOutOfBounds: { hdr.o.e = 3; }
        error.HeaderTooShort: { hdr.o.e = 4; } error.ParserTimeout: { hdr.o.e = 5; } error.ParserInvalidArgument: { hdr.o.e = 6; } error.Mine: { hdr.o.e = 7; } error.Other: { hdr.o.e = 8; } } } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
)

func (r parserRule) holds(t *testing.T) {
	t.Helper()
	text := strings.Replace(parserHead, "header h_t", "header o_t { bit<8> e; bit<8> k; }\nheader h_t", 1) + r.top +
		"\nparser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {\n" + r.locals + "\n" + r.states + "\n}" + parserTail
	pl := loadText(t, text).New()
	var v Verdict
	for _, f := range r.frames {
		in, want, _ := strings.Cut(f, " -> ")
		pl.Process(unhex(t, in), &Intrinsic{}, &v)
		got := "dropped"
		if len(v.Sent) == 1 {
			got = hex.EncodeToString(v.Sent[0].Data)
		}
		if got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s left, want %s", in, got, want)
		}
	}
}

func parseAll(t *testing.T, rules []parserRule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.rule, r.holds)
	}
}

// Select (13.6): the first label that holds the values wins; without one the error is NoMatch.
func TestRulesOfSelect(t *testing.T) {
	const end = " state one { m.k = 1; transition accept; } state two { m.k = 2; transition accept; } state three { m.k = 3; transition accept; }"
	start := func(sel string) string { return "state start { p.extract(hdr.h); transition " + sel + " }" + end }
	parseAll(t, []parserRule{
		{"13.6: the first label wins", "", "", start("select(hdr.h.a) { 1: one; 1 &&& 1: two; _: three; }"), []string{"0100 -> 0001 0100", "0300 -> 0002 0300", "0200 -> 0003 0200"}},
		{"13.6: no label is NoMatch", "", "", start("select(hdr.h.a) { 1: one; }"), []string{"0100 -> 0001 0100", "0200 -> 0200 0200"}},
		{"13.6: default is a label", "", "", start("select(hdr.h.a) { 1: one; default: two; }"), []string{"0200 -> 0002 0200"}},
		{"13.6: reject is no error", "", "", start("select(hdr.h.a) { 1: one; default: reject; }"), []string{"0200 -> 0000 0200"}},
		{"8.15.4: a range has both of its ends", "", "", start("select(hdr.h.a) { 5 .. 8: one; default: two; }"), []string{"0400 -> 0002 0400", "0500 -> 0001 0500", "0800 -> 0001 0800", "0900 -> 0002 0900"}},
		{"8.15.4: a range whose end is before its begin is empty", "", "", start("select(hdr.h.a) { 8 .. 5: one; default: two; }"), []string{"0600 -> 0002 0600", "0800 -> 0002 0800"}},
		{"8.15.4: a signed range", "", "", start("select((int<8>)hdr.h.a) { -2 .. 1: one; default: two; }"), []string{"fe00 -> 0001 fe00", "0000 -> 0001 0000", "0100 -> 0001 0100", "fd00 -> 0002 fd00", "7f00 -> 0002 7f00"}},
		{"8.15.3: the value may have bits outside of its mask", "", "", start("select(hdr.h.a) { 0xfa &&& 0x0f: one; default: two; }"), []string{"0a00 -> 0001 0a00", "5a00 -> 0001 5a00", "0b00 -> 0002 0b00"}},
		{"8.15.3: a mask of none holds all", "", "", start("select(hdr.h.a) { 5 &&& 0: one; default: two; }"), []string{"0a00 -> 0001 0a00"}},
		{"8.15.5: each key has its set", "", "", start("select(hdr.h.a, hdr.h.b) { (1, 2 .. 3): one; (0x10 &&& 0x10, _): two; (_, default): three; }"), []string{"0103 -> 0001 0103", "1f09 -> 0002 1f09", "0109 -> 0003 0109"}},
		{"8.15.5: one _ holds all keys", "", "", start("select(hdr.h.a, hdr.h.b) { (1, 2): one; _: two; }"), []string{"0102 -> 0001 0102", "0103 -> 0002 0103"}},
		{"13.6: labels that the packet gives", "", "", start("select(hdr.h.a) { hdr.h.b: one; default: two; }"), []string{"0505 -> 0001 0505", "0506 -> 0002 0506"}},
		{"13.6: masks that the packet gives", "", "", start("select(hdr.h.a) { 0x10 &&& hdr.h.b: one; default: two; }"), []string{"1ff0 -> 0001 1ff0", "1fff -> 0002 1fff"}},
		{"13.6: constants as labels", "const bit<8> k = 5; const bit<16> w = 3;", "", start("select(hdr.h.a) { k: one; (bit<8>)w + 1: two; default: three; }"), []string{"0500 -> 0001 0500", "0400 -> 0002 0400", "0300 -> 0003 0300"}},
		{"13.6: over a bool", "", "", start("select(hdr.h.a == 1) { true: one; false: two; }"), []string{"0100 -> 0001 0100", "0200 -> 0002 0200"}},
		{"13.6: over an enum", "", "", start("select((code_t)hdr.h.a) { code_t.A: one; code_t.B: two; default: three; }"), []string{"0100 -> 0001 0100", "0200 -> 0002 0200", "0900 -> 0003 0900"}},
		{"13.6: over a sum and a slice", "", "", start("select(hdr.h.a + hdr.h.b, hdr.h.a[7:4]) { (3, 0): one; (3, _): two; default: three; }"), []string{"0102 -> 0001 0102", "10f3 -> 0002 10f3", "1000 -> 0003 1000"}},
		{"13.6: over more than a word", "", "bit<72> w = 0x123456789abcdef012;", "state start { p.extract(hdr.h); w[7:0] = hdr.h.a; transition select(w) { 0x123456789abcdef001: one; 0x123456789abcdef002 &&& 0xfff00000000000000f: two; 72w0x123456789abcdef010 .. 0x123456789abcdef020: three; } }" + end,
			[]string{"0100 -> 0001 0100", "f200 -> 0002 f200", "1a00 -> 0003 1a00", "3000 -> 0200 3000"}},
		{"13.5: a state without a transition rejects", "", "", "state start { m.k = 4; }", []string{"0100 -> 0004 0100"}},
		{"13.5: a loop of states", "", "bit<8> n = 0;", "state start { p.advance(8); n = n + 1; m.k = n; transition select(p.lookahead<bit<8>>()) { 0: accept; default: start; } }", []string{"01020300 -> 0003 00", "0100 -> 0001 00", "0101 -> 0102"}},
		{"13.4: a parser's variables begin anew with each packet", "", "bit<8> n = 5;", "state start { p.extract(hdr.h); n = n + hdr.h.a; m.k = n; transition accept; }", []string{"0100 -> 0006 0100", "0100 -> 0006 0100"}},
	})
}

// Extraction (13.8), lookahead and advance, and how they end.
func TestRulesOfExtraction(t *testing.T) {
	parseAll(t, []parserRule{
		{"13.8.1: a header", "", "", "state start { p.extract(hdr.h); transition accept; }", []string{"0102ff -> 0000 0102ff", "01 -> 0100 01", " -> 0100"}},
		{"13.8.1: a header that is too long is left out, and the cursor stays", "", "", "state start { p.extract(hdr.b); p.extract(hdr.h); transition accept; }", []string{"0102 -> 0100 0102"}},
		{"13.8.1: fields of some bits, signed", "", "", "state start { p.extract(hdr.b); m.k = (bit<8>)(int<8>)hdr.b.y; transition accept; }", []string{"bf -> 00ff bf", "af -> 000f af"}},
		{"13.8.1: into a variable that is not emitted", "", "h_t x;", "state start { p.extract(x); m.k = x.b; transition accept; }", []string{"0102ff -> 0002 ff"}},
		{"13.8.1: twice into the same header", "", "", "state start { p.extract(hdr.h); p.extract(hdr.h); transition accept; }", []string{"01020304ff -> 0000 0304ff"}},
		{"13.8.1: to _", "", "", "state start { p.extract<h_t>(_); p.extract(hdr.h); transition accept; }", []string{"01020304ff -> 0000 0304ff", "010203 -> 0100 03"}},
		{"13.8.1: a union's member", "", "", "state start { transition select(p.lookahead<bit<8>>()) { 1: h; default: b; } } state h { p.extract(hdr.u.h); transition accept; } state b { p.extract(hdr.u.b); m.k = hdr.u.h.isValid() ? 8w1 : 2; transition accept; }", []string{"0102ff -> 0000 0102ff", "02ff -> 0002 02ff"}},
		{"13.8.1: a union's other member becomes invalid", "", "", "state start { p.extract(hdr.u.b); p.extract(hdr.u.h); transition accept; }", []string{"050102ff -> 0000 0102ff"}},
		{"13.9: next of a stack", "", "", "state start { p.extract(hdr.s.next); m.k = (bit<8>)hdr.s.lastIndex; transition select(hdr.s.last.b) { 0: accept; default: start; } }", []string{"0100 -> 0000 0100", "01010200 -> 0001 01010200", "010102010300 -> 0301 010102010300"}},
		{"13.9: next does not move on if the packet is too short", "", "", "state start { p.extract(hdr.s.next); m.k = (bit<8>)hdr.s.lastIndex; transition select(hdr.s.last.a) { 0: accept; default: start; } }", []string{"010203 -> 0100 010203"}},
		{"13.9: last of an empty stack", "", "", "state start { m.k = 1; m.k = hdr.s.last.a; transition accept; }", []string{"0102 -> 0301 0102"}},
		{"13.9: next's member of a stack of unions", "", "", "state start { p.extract(hdr.us.next.b); p.extract(hdr.us.next.h); m.k = hdr.us[0].h.isValid() || hdr.us[1].b.isValid() ? 8w1 : 2; transition accept; }", []string{"05 0102 ff -> 0002 05 0102 ff"}},
		{"13.9: push_front moves next", "", "", "state start { p.extract(hdr.s.next); hdr.s.push_front(1); hdr.s[0] = { 8, 8 }; m.k = (bit<8>)hdr.s.lastIndex; p.extract(hdr.s.next); transition accept; }", []string{"01020304 -> 0301 0808 0102 0304"}},
		{"13.9: pop_front moves next back", "", "", "state start { p.extract(hdr.s.next); p.extract(hdr.s.next); hdr.s.pop_front(1); p.extract(hdr.s.next); transition accept; }", []string{"010203040506 -> 0000 03040506"}},
		{"13.8.2: the varbit of an extract", "", "", "state start { p.extract(hdr.v, (bit<32>)p.lookahead<bit<8>>()); transition accept; }", []string{"00ff -> 0000 00ff", "08aaff -> 0000 08aaff", "18aabbccff -> 0000 18aabbccff"}},
		{"13.8.2: more than the varbit holds", "", "", "state start { p.extract(hdr.v, (bit<32>)p.lookahead<bit<8>>()); transition accept; }", []string{"20aabbccdd -> 0400 20aabbccdd"}},
		{"13.8.2: too short comes before too long", "", "", "state start { p.extract(hdr.v, (bit<32>)p.lookahead<bit<8>>()); transition accept; }", []string{"20aabbcc -> 0100 20aabbcc", "f8aa -> 0100 f8aa"}},
		{"13.8.2: no whole number of bytes", "", "", "state start { p.extract(hdr.v, 4); transition accept; }", []string{"00aabb -> 0600 00aabb"}},
		{"8.10: varbits of different lengths are not equal", "", "v_t x;", "state start { p.extract(x, 8); p.extract(hdr.v, 16); m.k = x.v == hdr.v.v ? 8w1 : 2; transition accept; }", []string{"00aa 00aabb -> 0002 00aabb", "0000 000000 -> 0002 000000"}},
		{"8.10: varbits of one length", "", "v_t x;", "state start { p.extract(x, 16); p.extract(hdr.v, 16); m.k = x.v == hdr.v.v ? 8w1 : 2; transition accept; }", []string{"00aabb 00aabb -> 0001 00aabb", "00aabb 00aabc -> 0002 00aabc"}},
		{"8.10: what a longer varbit held before does not count", "", "v_t x;", "state start { p.extract(x, 24); p.extract(x, 8); p.extract(hdr.v, 8); m.k = x.v == hdr.v.v ? 8w1 : 2; transition accept; }", []string{"00aabbcc 00dd 00dd -> 0001 00dd"}},
		{"8.10: a varbit is assigned with its length", "", "v_t x;", "state start { p.extract(x, 16); p.extract(hdr.v, 0); hdr.v.v = x.v; transition accept; }", []string{"00aabb 05 ff -> 0000 05aabb ff"}},
		{"13.8.3: lookahead does not move on", "", "", "state start { m.k = p.lookahead<bit<8>>() + p.lookahead<bit<8>>(); p.extract(hdr.h); transition accept; }", []string{"0102 -> 0002 0102"}},
		{"13.8.3: lookahead of more than there is", "", "", "state start { p.extract(hdr.b); m.k = p.lookahead<bit<16>>()[7:0]; transition accept; }", []string{"0102 -> 0100 0102", "010203 -> 0003 010203"}},
		{"13.8.3: lookahead of a header is valid", "", "", "state start { hdr.h = p.lookahead<h_t>(); m.k = hdr.h.isValid() ? hdr.h.b : 9; transition accept; }", []string{"0102 -> 0002 0102 0102"}},
		{"13.8.3: lookahead of a struct and a tuple", "struct s_t { bit<4> x; bit<12> y; }", "", "state start { s_t s = p.lookahead<s_t>(); tuple<bit<8>, bit<8>> q = p.lookahead<tuple<bit<8>, bit<8>>>(); m.k = (bit<8>)s.x ++ 4w0 == 12w0x10 ? q[1] : 0; transition accept; }", []string{"1234 -> 0034 1234"}},
		{"13.8.3: lookahead of more than a word", "", "", "state start { m.k = p.lookahead<bit<80>>()[71:64]; transition accept; }", []string{"01020304050607080910 -> 0002 01020304050607080910"}},
		{"13.8.4: advance", "", "", "state start { p.advance(16); p.extract(hdr.h); transition accept; }", []string{"0102030405 -> 0000 030405", "01 -> 0100 01", "010203 -> 0100 03"}},
		{"13.8.4: advance by what the packet says", "", "", "state start { p.advance((bit<32>)p.lookahead<bit<8>>()); p.extract(hdr.h); transition accept; }", []string{"10020304 -> 0000 0304", "ff -> 0100 ff"}},
		{"13.8: length", "", "", "state start { p.advance(8); m.k = (bit<8>)p.length(); transition accept; }", []string{"010203 -> 0003 0203"}},
	})
}

// verify (13.7) and parsers in parsers (13.10).
func TestRulesOfVerify(t *testing.T) {
	const sub = "parser Q(packet_in p, out h_t h, inout bit<8> k)(bit<8> by) { state start { p.extract(h); k = k + by; transition select(h.a) { 0: reject; 1: none; 2: bad; default: accept; } } state none { transition select(h.b) { 1: accept; } } state bad { verify(false, error.Other); transition accept; } }\n"
	parseAll(t, []parserRule{
		{"13.7: true goes on", "", "", "state start { verify(true, error.Mine); m.k = 1; transition accept; }", []string{"01 -> 0001 01"}},
		{"13.7: false rejects at once", "", "", "state start { p.extract(hdr.h); verify(hdr.h.a == 1, error.Mine); m.k = 1; transition accept; }", []string{"0100 -> 0001 0100", "0200 -> 0700 0200"}},
		{"13.7: the first that fails gives the error", "", "", "state start { verify(p.lookahead<bit<8>>() == 1, error.Mine); verify(false, error.Other); transition accept; }", []string{"01 -> 0800 01", "02 -> 0700 02"}},
		{"13.7: in a function", "bit<8> f(in bit<8> x) { verify(x != 0, error.Mine); return x + 1; } bit<8> add(inout bit<8> n, in bit<8> k) { n = n + k; return n; }", "", "state start { m.k = 1; p.extract(hdr.h); m.k = f(hdr.h.a) + add(hdr.h.b, 1); transition accept; }", []string{"0101 -> 0004 0102", "0001 -> 0701 0001"}},
		{"13.7: an error that the packet chooses", "", "error e = error.Mine;", "state start { p.extract(hdr.h); if (hdr.h.a == 1) { e = error.Other; } verify(hdr.h.b == 0, e); transition accept; }", []string{"0101 -> 0800 0101", "0201 -> 0700 0201", "0100 -> 0000 0100"}},
		{"13.10: accept goes on behind the call", sub, "Q(1) q;", "state start { q.apply(p, hdr.h, m.k); m.k = m.k + 0x10; transition accept; }", []string{"0500 -> 0011 0500"}},
		{"13.10: reject is the caller's", sub, "Q(1) q;", "state start { q.apply(p, hdr.h, m.k); m.k = m.k + 0x10; transition accept; }", []string{"0000 -> 0001 0000", "0100 -> 0201 0100", "0101 -> 0011 0101", "0200 -> 0801 0200", "01 -> 0100 01"}},
		{"13.10: two instances, one cursor", sub, "Q(1) q; Q(2) r;", "state start { q.apply(p, hdr.h, m.k); r.apply(p, hdr.s.next, m.k); transition accept; }", []string{"05000600ff -> 0003 05000600ff"}},
		{"13.10: Q.apply makes an instance", "parser R(packet_in p, out h_t h) { bit<8> n = 1; state start { p.extract(h); h.b = h.b + n; n = 9; transition accept; } }", "", "state start { R.apply(p, hdr.h); R.apply(p, hdr.s.next); transition accept; }", []string{"01000200 -> 0000 01010201"}},
	})
}
