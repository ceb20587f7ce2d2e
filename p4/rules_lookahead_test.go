package p4

import (
	"fmt"
	"testing"
)

// What a parser reads ahead, takes and leaves (13.8), in all places where it may stand.
func TestRulesOfReading(t *testing.T) {
	const top = `
bit<8> next(inout bit<8> n) { n = n + 1; return n; }
struct pair_t { bit<4> x; bit<12> y; }
struct deep_t { pair_t p; bool b; bit<7> r; }
header wide_t { bit<72> w; }
`
	end := func(body string) string { return "state start { " + body + " transition accept; }" }
	rule := func(name, body string, frames ...string) parserRule {
		return parserRule{rule: name, top: top, locals: "h_t[2] st; wide_t wd; bit<8> n = 0; varbit<24> vb;", states: end(body), frames: frames}
	}
	parseAll(t, []parserRule{
		rule("13.8.3: into a slice", "m.k[7:4] = p.lookahead<bit<4>>();", "5a -> 0050 5a"),
		rule("13.8.3: into an element", "st[1] = { 0, 0 }; st[next(n)].a = p.lookahead<bit<8>>(); m.k = st[1].a;", "5a -> 005a 5a"),
		rule("13.8.3: as a statement, it fails where there is too little", "m.k = 1; p.lookahead<bit<16>>(); m.k = 2;", "0102 -> 0002 0102", "01 -> 0101 01"),
		rule("13.8.3: of a bool", "m.k = p.lookahead<bool>() ? 8w1 : 2;", "80 -> 0001 80", "7f -> 0002 7f"),
		rule("13.8.3: of a signed number", "m.k = (bit<8>)(int<8>)p.lookahead<int<4>>();", "f0 -> 00ff f0", "70 -> 0007 70"),
		rule("13.8.3: of a number's enum", "m.k = p.lookahead<code_t>() == code_t.B ? 8w1 : 2;", "02 -> 0001 02", "01 -> 0002 01"),
		rule("13.8.3: of structs within structs", "deep_t d = p.lookahead<deep_t>(); m.k = (bit<8>)d.p.x << 4 | (bit<8>)d.p.y[3:0] | (d.b ? 8w0 : 0) ^ (bit<8>)d.r << 7;", "5abc 81 -> 00dc 5abc 81", "5abc 02 -> 005c 5abc 02"),
		rule("13.8.3: of a tuple of a tuple", "tuple<bit<4>, tuple<bit<4>, bit<8>>> q = p.lookahead<tuple<bit<4>, tuple<bit<4>, bit<8>>>>(); m.k = q[1][1] + (bit<8>)q[0];", "5abc -> 00c1 5abc"),
		rule("13.8.3: a part of a struct", "m.k = p.lookahead<pair_t>().y[7:0];", "1234 -> 0034 1234"),
		rule("13.8.3: within a sum, twice", "p.extract(hdr.h); m.k = p.lookahead<bit<8>>() + (bit<8>)p.lookahead<bit<4>>();", "0000 12 -> 0013 0000 12"),
		rule("13.8.3: to a function", "m.k = next(n) + p.lookahead<bit<8>>();", "05 -> 0006 05"),
		rule("13.8.3: of more than a word into a part of more", "wd = p.lookahead<wide_t>(); m.k = wd.isValid() ? wd.w[71:64] : 9;", "010203040506070809 -> 0001 010203040506070809"),
		rule("13.8.3: at an odd bit", "p.extract(hdr.b); p.advance(3); m.k = p.lookahead<bit<8>>(); p.advance(5);", "00 1fe0 -> 00ff 00 e0"),
		rule("13.8.3: of no bits", "m.k = p.lookahead<bit<0>>() == 0 ? 8w1 : 2;", " -> 0001", "01 -> 0001 01"),
		rule("13.8.4: by none", "p.advance(0); p.extract(hdr.h);", "0102 -> 0000 0102"),
		rule("13.8.4: by bits that are no whole bytes", "p.advance(4); m.k = p.lookahead<bit<8>>(); p.advance(4);", "1234 -> 0023 34"),
		rule("13.8.4: by what is beyond the end", "m.k = 1; p.advance(32w0xffffffff); m.k = 2;", "0102 -> 0101 0102"),
		rule("13.8.4: by what a lookahead that fails gives", "m.k = 1; p.advance(8w0 ++ p.lookahead<bit<24>>()); m.k = 2;", "0102 -> 0101 0102", "000008 ff -> 0002 0008 ff"),
		rule("13.8: the length does not change", "m.k = (bit<8>)p.length(); p.extract(hdr.h); m.k = m.k << 4 | (bit<8>)p.length();", "010203 -> 0033 010203"),
		rule("13.8: the length as a statement", "p.length(); m.k = 1;", "01 -> 0001 01"),
		rule("13.8.2: extract by a length that fails", "m.k = 1; p.extract(hdr.v, (bit<32>)p.lookahead<bit<24>>()); m.k = 2;", "0000 -> 0101 0000", "000008 ff -> 0002 000008 ff"),
		rule("13.8.2: a varbit to _", "p.extract<v_t>(_, 16); p.extract(hdr.h);", "01aabb 0102 -> 0000 0102", "01aa -> 0100 01aa"),
		rule("13.8.2: a varbit to _ that is too long", "p.extract<v_t>(_, 32); m.k = 1;", "01aabbccdd -> 0400 01aabbccdd"),
		rule("13.8.2: a varbit into another's variable", "p.extract(hdr.v, 16); vb = hdr.v.v; hdr.v.v = vb; m.k = vb == hdr.v.v ? 8w1 : 2;", "01aabb ff -> 0001 01aabb ff"),
		rule("13.8.2: a varbit of none", "p.extract(hdr.v, 0); m.k = hdr.v.n;", "01aabb -> 0001 01aabb"),
		rule("8.10: the varbit of an invalid header", "v_t x; p.extract(hdr.v, 8); hdr.v.setInvalid(); x.setValid(); m.k = x.v == hdr.v.v ? 8w1 : 2;", "01aa ff -> 0002 ff"),
		rule("8.17: a header of a varbit is copied with its length", "v_t x; p.extract(x, 16); hdr.v = x; m.k = hdr.v == x ? 8w1 : 2;", "01aabb ff -> 0001 01aabb ff"),
		rule("8.17: headers of varbits of other lengths differ", "v_t x; p.extract(x, 8); p.extract(hdr.v, 16); hdr.v.n = x.n; m.k = hdr.v == x ? 8w1 : 2;", "01aa 02aabb -> 0002 01aabb"),
		rule("13.8.1: an element by a variable", "p.extract(hdr.s[next(n)]); m.k = hdr.s[1].a;", "0102 ff -> 0001 0102 ff"),
		rule("13.8.1: an element by a variable beyond the stack", "n = 5; p.extract(hdr.s[n]); m.k = hdr.s[1].isValid() ? 8w1 : 2;", "0102 ff -> 0002 ff"),
		rule("13.8.1: a member of an element of unions by a variable", "p.extract(hdr.us[next(n)].b); m.k = hdr.us[1].b.isValid() ? 8w1 : 2;", "05 ff -> 0001 05 ff"),
		rule("13.8.1: a union's member that is there already", "p.extract(hdr.u.h); p.extract(hdr.u.h); m.k = hdr.u.h.a;", "0102 0304 ff -> 0003 0304 ff"),
		rule("13.8.1: a header that was made invalid before", "hdr.h = { 9, 9 }; hdr.h.setInvalid(); p.extract(hdr.h); m.k = hdr.h.a;", "0102 -> 0001 0102"),
		rule("13.8.1: too short leaves the header as it was", "hdr.h = { 9, 8 }; p.extract(hdr.h); m.k = 1;", "01 -> 0100 0908 01"),
		rule("13.7: verify behind extractions", "p.extract(hdr.h); verify(hdr.h.a == hdr.h.b, error.Mine); p.extract(hdr.b); m.k = 1;", "0101 05 -> 0001 0101 05", "0102 05 -> 0700 0102 05"),
		rule("13.7: verify by a call", "verify(next(n) == 1, error.Mine); verify(next(n) == 1, error.Other); m.k = 1;", "01 -> 0800 01"),
		rule("13.7: verify of what a lookahead gives", "verify(p.lookahead<bit<8>>() == 5, error.Mine); m.k = 1;", "05 -> 0001 05", "06 -> 0700 06", " -> 0100"),
		rule("13.4: a static assertion in a state", "static_assert(true); m.k = 1;", "01 -> 0001 01"),
		rule("13.4: a struct that a state makes", "pair_t q = { 1, 2 }; q = { y = 3, x = 4 }; m.k = (bit<8>)q.x << 4 | (bit<8>)q.y[3:0];", "01 -> 0043 01"),
	})
}

// Which error a parser ends with, and what TNA's parser_err says of it.
func TestRulesOfTNAErrors(t *testing.T) {
	const states = "state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); transition select(hdr.h.a) { 0: accept; 1: none; 2: short; 3: stack; 4: counter; 5: verify_; default: away; } } " +
		"state none { transition select(hdr.h.b) { 9: accept; } } state short { p.advance(800); transition accept; } state stack { hdr.h.b = st.last.v; transition accept; } " +
		"state counter { n.set(hdr.h.b, 8w4, 8w0, 3w7, 8w0); transition accept; } state verify_ { verify(false, error.HeaderTooShort); transition accept; } state away { verify(false, error.Mine); transition accept; } state last { "
	text := tnaText("error { Mine }", "one_t[1] st; ParserCounter() n; "+states, "", "hdr.h.c = prsr.parser_err;")
	pl := loadText(t, text).New()
	for a, want := range []int{0, 1, 2, 0x40, 4, 2, 4} {
		name := fmt.Sprintf("%02x", a)
		exchange(t, pl, name+" 05 0000 00000000 -> "+name+fmt.Sprintf(" 05 %04x 00000000", want))
	}
}
