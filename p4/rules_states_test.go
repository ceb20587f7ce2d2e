package p4

import "testing"

// States (13.4, 13.5): what they may do beside extraction, and where they go.
func TestRulesOfParserStates(t *testing.T) {
	parseAll(t, []parserRule{
		{
			rule:   "13.4: assignments and calls",
			top:    "bit<8> twice(in bit<8> x) { return x * 2; }",
			states: "state start { p.extract(hdr.h); hdr.h.b = twice(hdr.h.a); m.k = hdr.h.b + 1; transition accept; }",
			frames: []string{"0300 -> 0007 0306"},
		},
		{
			rule:   "13.4: if",
			states: "state start { p.extract(hdr.h); if (hdr.h.a == 1) { m.k = 5; } else if (hdr.h.a == 2) { m.k = 6; } else { m.k = 7; } transition accept; }",
			frames: []string{"0100 -> 0005 0100", "0200 -> 0006 0200", "0300 -> 0007 0300"},
		},
		{
			rule:   "13.4: an extraction within if",
			states: "state start { p.extract(hdr.h); if (hdr.h.a == 1) { p.extract(hdr.b); } m.k = hdr.b.isValid() ? 8w1 : 2; transition accept; }",
			frames: []string{"010005ff -> 0001 010005ff", "020005ff -> 0002 020005ff", "0100 -> 0100 0100"},
		},
		{
			rule:   "13.4: a block's variable",
			states: "state start { p.extract(hdr.h); { bit<8> x = hdr.h.a; m.k = x; } bit<8> x = 9; m.k = m.k + x; transition accept; }",
			frames: []string{"0300 -> 000c 0300"},
		},
		{
			rule:   "13.4: headers are made valid and invalid",
			states: "state start { p.extract(hdr.h); hdr.b.setValid(); hdr.b = { 1, 2 }; hdr.h.setInvalid(); transition accept; }",
			frames: []string{"0102ff -> 0000 22 ff"},
		},
		{
			rule:   "13.4: constants of the parser",
			locals: "const bit<8> one = 1; const bit<8> two = one + 1;",
			states: "state start { p.extract(hdr.h); transition select(hdr.h.a) { one: s; two: t; default: accept; } } state s { m.k = one; transition accept; } state t { m.k = two; transition accept; }",
			frames: []string{"0100 -> 0001 0100", "0200 -> 0002 0200", "0300 -> 0000 0300"},
		},
		{
			rule:   "13.4: a state that is named in front of where it stands",
			states: "state start { transition last; } state middle { m.k = m.k + 1; transition accept; } state last { m.k = 4; transition middle; }",
			frames: []string{"0100 -> 0005 0100"},
		},
		{
			rule:   "13.5: accept by name",
			states: "state start { m.k = 1; transition accept; }",
			frames: []string{"0100 -> 0001 0100"},
		},
		{
			rule:   "13.5: reject by name",
			states: "state start { p.extract(hdr.h); m.k = 1; transition reject; }",
			frames: []string{"0100 -> 0001 0100"},
		},
		{
			rule:   "13.5: start again",
			states: "state start { p.extract(hdr.s.next); transition select(hdr.s.last.a) { 1: start; default: accept; } }",
			frames: []string{"0100 0200 -> 0000 0100 0200", "0300 -> 0000 0300"},
		},
		{
			rule:   "13.6: two keys of different widths",
			states: "state start { p.extract(hdr.h); transition select(hdr.h.a, hdr.h.b[3:0]) { (1, 2): one; (1, _): two; (_, 0xf): three; default: accept; } } state one { m.k = 1; transition accept; } state two { m.k = 2; transition accept; } state three { m.k = 3; transition accept; }",
			frames: []string{"0112 -> 0001 0112", "0113 -> 0002 0113", "05ff -> 0003 05ff", "0500 -> 0000 0500"},
		},
		{
			rule:   "13.6: three keys, ranges and masks",
			states: "state start { p.extract(hdr.h); transition select(hdr.h.a, hdr.h.b, hdr.h.a == hdr.h.b) { (1 .. 3, 0x10 &&& 0xf0, false): one; (_, 0 .. 9, true): two; (_, _, true): three; default: accept; } } state one { m.k = 1; transition accept; } state two { m.k = 2; transition accept; } state three { m.k = 3; transition accept; }",
			frames: []string{"0212 -> 0001 0212", "0422 -> 0000 0422", "0505 -> 0002 0505", "2222 -> 0003 2222"},
		},
		{
			rule:   "13.6: a key that is a call",
			top:    "bit<8> sum(in h_t h) { return h.a + h.b; }",
			states: "state start { p.extract(hdr.h); transition select(sum(hdr.h)) { 3: one; default: accept; } } state one { m.k = 1; transition accept; }",
			frames: []string{"0102 -> 0001 0102", "0202 -> 0000 0202"},
		},
		{
			rule:   "13.6: a key that is a lookahead",
			states: "state start { transition select(p.lookahead<bit<16>>()) { 0x0102: one; 0x0100 &&& 0xff00: two; default: accept; } } state one { m.k = 1; p.extract(hdr.h); transition accept; } state two { m.k = 2; transition accept; }",
			frames: []string{"0102 -> 0001 0102", "0103 -> 0002 0103", "0203 -> 0000 0203", "01 -> 0100 01"},
		},
		{
			rule:   "13.6: a signed key with a mask",
			states: "state start { p.extract(hdr.b); transition select(hdr.b.y) { -1: one; 5s4 &&& 5s6: two; default: accept; } } state one { m.k = 1; transition accept; } state two { m.k = 2; transition accept; }",
			frames: []string{"ff -> 0001 ff", "e5 -> 0002 e5", "e1 -> 0000 e1"},
		},
		{
			rule:   "13.6: an error as a key",
			locals: "error e = error.NoError;",
			states: "state start { p.extract(hdr.h); if (hdr.h.a == 1) { e = error.Mine; } transition select(e) { error.Mine: one; default: accept; } } state one { m.k = 1; transition accept; }",
			frames: []string{"0100 -> 0001 0100", "0200 -> 0000 0200"},
		},
		{
			rule:   "13.6: no state is entered twice by one label",
			locals: "bit<8> n = 0;",
			states: "state start { n = n + 1; m.k = n; p.extract(hdr.s.next); transition select(hdr.s.last.a) { 1 .. 3: start; 2: accept; default: accept; } }",
			frames: []string{"0200 0900 -> 0002 0200 0900"},
		},
	})
}

// Stacks (8.19) as they fill: next, last, lastIndex and what push_front and pop_front do with them (13.9).
func TestRulesOfParsedStacks(t *testing.T) {
	parseAll(t, []parserRule{
		{
			rule:   "8.19: size, lastIndex after each",
			states: "state start { p.extract(hdr.s.next); m.k = (bit<8>)hdr.s.lastIndex; p.extract(hdr.s.next); m.k = m.k << 4 | (bit<8>)hdr.s.lastIndex | (bit<8>)hdr.s.size << 6; transition accept; }",
			frames: []string{"0102 0304 -> 0081 0102 0304"},
		},
		{
			rule:   "8.19: an index beside next",
			states: "state start { p.extract(hdr.s.next); hdr.s[0].b = 7; m.k = hdr.s[0].a; transition accept; }",
			frames: []string{"0102 -> 0001 0107"},
		},
		{
			rule:   "8.19: extract by index does not move next",
			states: "state start { p.extract(hdr.s[1]); p.extract(hdr.s.next); m.k = (bit<8>)hdr.s.lastIndex; transition accept; }",
			frames: []string{"0102 0304 -> 0000 0304 0102"},
		},
		{
			rule:   "8.19: the third of two",
			states: "state start { p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; }",
			frames: []string{"010203040506 -> 0300 010203040506", "010203 -> 0100 010203"},
		},
		{
			rule:   "8.19: the stack's end comes before the packet's",
			states: "state start { p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next); transition accept; }",
			frames: []string{"01020304 -> 0300 01020304"},
		},
		{
			rule:   "8.19: a copy has next where it was",
			locals: "h_t[2] c;",
			states: "state start { p.extract(hdr.s.next); c = hdr.s; p.extract(c.next); m.k = c[1].a; transition accept; }",
			frames: []string{"0102 0304 -> 0003 0102"},
		},
		{
			rule:   "13.9: push_front by all",
			states: "state start { p.extract(hdr.s.next); hdr.s.push_front(2); m.k = hdr.s[0].isValid() || hdr.s[1].isValid() ? 8w1 : 2; transition accept; }",
			frames: []string{"0102ff -> 0002 ff"},
		},
		{
			rule:   "13.9: pop_front of an empty stack",
			states: "state start { hdr.s.pop_front(1); p.extract(hdr.s.next); transition accept; }",
			frames: []string{"0102ff -> 0000 0102ff"},
		},
		{
			rule:   "13.9: pop_front to the first",
			states: "state start { p.extract(hdr.s.next); p.extract(hdr.s.next); hdr.s.pop_front(2); p.extract(hdr.s.next); transition accept; }",
			frames: []string{"010203040506 -> 0000 0506"},
		},
		{
			rule:   "8.20: a union is filled by what comes",
			states: "state start { transition select(p.lookahead<bit<8>>()) { 0: accept; 1: h; default: b; } } state h { p.extract(hdr.us.next.h); transition start; } state b { p.extract(hdr.us.next.b); transition start; }",
			frames: []string{"0102 00 -> 0000 0102 00", "00 -> 0000 00", "05 00 -> 0000 05 00"},
		},
	})
}

// Parsers within parsers (13.10): their own variables, the caller's cursor, arguments of all directions.
func TestRulesOfSubParsers(t *testing.T) {
	const top = `
parser Q(packet_in p, out h_t h, inout bit<8> k) { bit<8> n = 1; state start { p.extract(h); n = n + h.a; k = k + n; transition accept; } }
parser R(packet_in p, out bits_t b, in bit<8> want) { state start { p.extract(b); transition select(b.x == want[2:0]) { true: accept; false: reject; } } }
parser S(packet_in p, out h_t h, inout bit<8> k) { Q() q; state start { q.apply(p, h, k); transition select(h.b) { 0: accept; default: again; } } state again { q.apply(p, h, k); transition accept; } }
`
	parseAll(t, []parserRule{
		{
			rule: "13.10: variables begin anew with each call", top: top, locals: "Q() q;",
			states: "state start { q.apply(p, hdr.h, m.k); q.apply(p, hdr.s.next, m.k); transition accept; }",
			frames: []string{"0100 0200 -> 0005 0100 0200"},
		},
		{
			rule: "13.10: in", top: top, locals: "R() r;",
			states: "state start { m.k = 5; r.apply(p, hdr.b, m.k); m.k = 6; transition accept; }",
			frames: []string{"a1 -> 0006 a1", "41 -> 0005 41"},
		},
		{
			rule: "13.10: too short within", top: top, locals: "Q() q;",
			states: "state start { m.k = 5; q.apply(p, hdr.h, m.k); m.k = 6; transition accept; }",
			frames: []string{"0100 -> 0006 0100", "01 -> 0105 01"},
		},
		{
			rule: "13.10: a parser in a parser in a parser", top: top, locals: "S() s;",
			states: "state start { s.apply(p, hdr.h, m.k); transition accept; }",
			frames: []string{"0100 -> 0002 0100", "0105 0300 -> 0006 0300"},
		},
		{
			rule: "13.10: out begins invalid", top: "parser Q(packet_in p, out h_t h) { state start { transition select(h.isValid()) { true: reject; false: accept; } } }", locals: "Q() q;",
			states: "state start { p.extract(hdr.h); q.apply(p, hdr.h); m.k = hdr.h.isValid() ? 8w1 : 2; transition accept; }",
			frames: []string{"0100 -> 0002"},
		},
		{
			rule: "13.10: what was extracted before a reject stays", top: "parser Q(packet_in p, out h_t h) { state start { p.extract(h); transition reject; } }", locals: "Q() q;",
			states: "state start { p.extract(hdr.b); q.apply(p, hdr.h); transition accept; }",
			frames: []string{"05 0100 ff -> 0000 0100 05 ff"},
		},
		{
			rule: "13.10: a constructor's parameter chooses the state", top: "parser Q(packet_in p, inout bit<8> k)(bool more) { state start { transition select(more) { true: yes; false: accept; } } state yes { k = k + 1; transition accept; } }", locals: "Q(true) y; Q(false) n;",
			states: "state start { y.apply(p, m.k); n.apply(p, m.k); y.apply(p, m.k); transition accept; }",
			frames: []string{"ff -> 0002 ff"},
		},
	})
}
