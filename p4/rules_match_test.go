package p4

import (
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// Keys wider than a word (14.2.1.1): each kind of match passes from word to word. hdr.h.s is "123456789", 0x313233343536373839, but for its
// low byte, which the packet's first byte replaces.
func TestRulesOfWideKeys(t *testing.T) {
	const body = "hdr.h.s[7:0] = hdr.h.a; hdr.h.s[71:64] = hdr.h.b; t.apply(); hdr.h.s = 0x313233343536373839;"
	for _, r := range []tableRule{
		{
			rule:   "exact: the low byte",
			table:  "key = { hdr.h.s: exact; } actions = { set; } const default_action = set(0xff); const entries = { 0x003233343536373801: set(1); 0x003233343536373802: set(2); }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000", "03 00 0000 00000000 -> 03 ff 0000 00000000"},
		},
		{
			rule:   "exact: the high byte",
			table:  "key = { hdr.h.s: exact; } actions = { set; } const default_action = set(0xff); const entries = { 0x053233343536373801: set(1); 0x063233343536373801: set(2); }",
			frames: []string{"01 05 0000 00000000 -> 01 01 0000 00000000", "01 06 0000 00000000 -> 01 02 0000 00000000", "01 07 0000 00000000 -> 01 ff 0000 00000000"},
		},
		{
			rule:   "lpm: prefixes of 4, 8, 64 and 72 bits",
			table:  "key = { hdr.h.s: lpm; } actions = { set; } const default_action = set(0xff); const entries = { 0x100000000000000000 &&& 0xf00000000000000000: set(1); 0x120000000000000000 &&& 0xff0000000000000000: set(2); 0x123233343536373800 &&& 0xffffffffffffffff00: set(3); 0x123233343536373855: set(4); }",
			frames: []string{"00 11 0000 00000000 -> 00 01 0000 00000000", "44 12 0000 00000000 -> 44 03 0000 00000000", "55 12 0000 00000000 -> 55 04 0000 00000000", "55 22 0000 00000000 -> 55 ff 0000 00000000"},
		},
		{
			rule:   "ternary: bits of both words",
			table:  "key = { hdr.h.s: ternary; } actions = { set; } const default_action = set(0xff); const entries = { 0x010000000000000001 &&& 0x010000000000000001: set(1); 0x000000000000000002 &&& 0x000000000000000002: set(2); 0x020000000000000000 &&& 0x020000000000000000: set(3); }",
			frames: []string{"01 01 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000", "04 02 0000 00000000 -> 04 03 0000 00000000", "04 04 0000 00000000 -> 04 ff 0000 00000000"},
		},
		{
			rule:   "range: both ends of both words",
			table:  "key = { hdr.h.s: range; } actions = { set; } const default_action = set(0xff); const entries = { 0x013233343536373805 .. 0x013233343536373809: set(1); 0x020000000000000000 .. 0x03ffffffffffffffff: set(2); }",
			frames: []string{"05 01 0000 00000000 -> 05 01 0000 00000000", "09 01 0000 00000000 -> 09 01 0000 00000000", "0a 01 0000 00000000 -> 0a ff 0000 00000000", "04 01 0000 00000000 -> 04 ff 0000 00000000", "00 02 0000 00000000 -> 00 02 0000 00000000", "ff 03 0000 00000000 -> ff 02 0000 00000000", "00 04 0000 00000000 -> 00 ff 0000 00000000"},
		},
		{
			rule:   "optional: a value or any",
			table:  "key = { hdr.h.s: optional; hdr.h.c: optional; } actions = { set; } const default_action = set(0xff); const entries = { (0x003233343536373801, _): set(1); (_, 5): set(2); }",
			frames: []string{"01 00 0005 00000000 -> 01 01 0005 00000000", "02 00 0005 00000000 -> 02 02 0005 00000000", "02 00 0006 00000000 -> 02 ff 0006 00000000"},
		},
		{
			rule:   "a signed range of more than a word",
			table:  "key = { (int<72>)hdr.h.s: range @name(\"k\"); } actions = { set; } const default_action = set(0xff); const entries = { -0x800000000000000000 .. -1: set(1); 0 .. 0x020000000000000000: set(2); }",
			frames: []string{"00 80 0000 00000000 -> 00 01 0000 00000000", "00 ff 0000 00000000 -> 00 01 0000 00000000", "00 01 0000 00000000 -> 00 02 0000 00000000", "00 03 0000 00000000 -> 00 ff 0000 00000000"},
		},
	} {
		r.body = body
		t.Run(r.rule, r.holds)
	}
}

// Keys (14.2.1.1) that are expressions, with what they evaluate.
func TestRulesOfKeys(t *testing.T) {
	const dflt = " actions = { set; } const default_action = set(0xff);"
	for _, r := range []tableRule{
		{
			rule:   "14.2.1.1: a sum",
			table:  "key = { hdr.h.a + hdr.h.b: exact @name(\"sum\"); }" + dflt + " const entries = { 5: set(1); }",
			frames: []string{"02 03 0000 00000000 -> 02 01 0000 00000000", "ff 06 0000 00000000 -> ff 01 0000 00000000", "02 02 0000 00000000 -> 02 ff 0000 00000000"},
		},
		{
			rule:   "14.2.1.1: a slice",
			table:  "key = { hdr.h.c[11:4]: exact; hdr.h.c[3:0]: ternary; }" + dflt + " const entries = { (0x23, 4): set(1); (0x23, _): set(2); }",
			frames: []string{"00 00 1234 00000000 -> 00 01 1234 00000000", "00 00 f235 00000000 -> 00 02 f235 00000000", "00 00 1244 00000000 -> 00 ff 1244 00000000"},
		},
		{
			rule:   "14.2.1.1: a concatenation",
			table:  "key = { hdr.h.a ++ hdr.h.c: lpm @name(\"k\"); }" + dflt + " const entries = { 0x050000 &&& 0xff0000: set(1); 0x051200 &&& 0xffff00: set(2); }",
			frames: []string{"05 00 1134 00000000 -> 05 01 1134 00000000", "05 00 1234 00000000 -> 05 02 1234 00000000", "06 00 1234 00000000 -> 06 ff 1234 00000000"},
		},
		{
			rule:   "14.2.1.1: a choice",
			table:  "key = { (hdr.h.a == 1 ? hdr.h.c : hdr.h.d[15:0]): exact @name(\"k\"); }" + dflt + " const entries = { 7: set(1); }",
			frames: []string{"01 00 0007 00000000 -> 01 01 0007 00000000", "02 00 0007 00000000 -> 02 ff 0007 00000000", "02 00 0000 00000007 -> 02 01 0000 00000007"},
		},
		{
			rule:   "14.2.1.1: metadata and the port",
			table:  "key = { m.m: exact; sm.ingress_port: exact; sm.egress_spec: ternary; }" + dflt + " const entries = { (5, 0, 1): set(1); }",
			body:   "m.m = hdr.h.a; t.apply();",
			frames: []string{"05 00 0000 00000000 -> 05 01 0000 00000000", "06 00 0000 00000000 -> 06 ff 0000 00000000"},
		},
		{
			rule:   "14.2.1.1: a field of an invalid header",
			table:  "key = { hdr.h.isValid(): exact; hdr.h.a: ternary; }" + dflt + " const entries = { (false, _): set(1); (true, 5): set(2); }",
			body:   "if (hdr.h.c == 1) { hdr.h.setInvalid(); } t.apply(); hdr.h.setValid();",
			frames: []string{"05 00 0001 00000000 -> 05 01 0001 00000000", "05 00 0000 00000000 -> 05 02 0000 00000000", "06 00 0000 00000000 -> 06 ff 0000 00000000"},
		},
		{
			rule:   "14.2.1.1: a key of one bit",
			table:  "key = { hdr.h.a[0:0]: exact; hdr.h.a[7:7]: ternary; }" + dflt + " const entries = { (1, 1): set(3); (1, _): set(1); (0, 1): set(2); }",
			frames: []string{"81 00 0000 00000000 -> 81 03 0000 00000000", "01 00 0000 00000000 -> 01 01 0000 00000000", "80 00 0000 00000000 -> 80 02 0000 00000000", "00 00 0000 00000000 -> 00 ff 0000 00000000"},
		},
		{
			rule:   "14.2.1.1: all kinds in one table",
			table:  "key = { hdr.h.a: exact; hdr.h.b: ternary; hdr.h.c: range; hdr.h.d: optional; }" + dflt + " const entries = { (1, 0x10 &&& 0xf0, 5 .. 9, _): set(1); (1, _, _, 7): set(2); }",
			frames: []string{"01 12 0007 00000000 -> 01 01 0007 00000000", "01 22 0007 00000007 -> 01 02 0007 00000007", "01 12 000a 00000000 -> 01 ff 000a 00000000", "02 12 0007 00000007 -> 02 ff 0007 00000007"},
		},
		{
			rule:   "14.2.1.1: lpm beside ternary goes by priority",
			table:  "key = { hdr.h.a: ternary; hdr.h.c: lpm; }" + dflt + " const entries = { (_, 0x1200 &&& 0xff00): set(1); (1, 0x1234): set(2); (_, _): set(3); }",
			frames: []string{"01 00 1234 00000000 -> 01 01 1234 00000000", "01 00 1334 00000000 -> 01 03 1334 00000000"},
		},
		{
			rule:   "14.2.1.4: of equal prefixes the first",
			table:  "key = { hdr.h.a: lpm; }" + dflt + " const entries = { 0 &&& 0: set(1); 1 &&& 0: set(2); 2 &&& 0: set(3); 3 &&& 0: set(4); _: set(5); 5 &&& 0: set(6); 6 &&& 0: set(7); 0x80 &&& 0xff: set(8); 0x80: set(9); }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "80 00 0000 00000000 -> 80 08 0000 00000000"},
		},
		{
			rule:   "14.2.1.4: of equal values the first",
			table:  "key = { hdr.h.a: exact; }" + dflt + " const entries = { 1: set(1); 1: set(2); 1: set(3); 2: set(4); 1: set(5); 2: set(6); 1: set(7); 1: set(8); 1: set(9); }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 04 0000 00000000"},
		},
		{
			rule:   "14.2.1.4: an entry of no key",
			table:  "actions = { set; leave; } const default_action = leave();",
			body:   "hdr.h.b = 5; t.apply(); hdr.h.b = 6;",
			frames: []string{"00 00 0000 00000000 -> 00 05 0000 00000000"},
		},
		{
			rule:   "14.2.1.4: lpm entries in any order",
			table:  "key = { hdr.h.d: lpm; }" + dflt + " const entries = { 0x0a0b0c0d: set(4); 0x0a000000 &&& 0xff000000: set(1); 0x0a0b0c00 &&& 0xffffff00: set(3); 0x0a0b0000 &&& 0xffff0000: set(2); _: set(5); }",
			frames: []string{"00 00 0000 0a0b0c0d -> 00 04 0000 0a0b0c0d", "00 00 0000 0a0b0c0e -> 00 03 0000 0a0b0c0e", "00 00 0000 0a0b0d0d -> 00 02 0000 0a0b0d0d", "00 00 0000 0a0c0c0d -> 00 01 0000 0a0c0c0d", "00 00 0000 0b0b0c0d -> 00 05 0000 0b0b0c0d"},
		},
		{
			rule:    "14.2.1.4: of the control plane, the longest prefix",
			table:   "key = { hdr.h.d: lpm; } actions = { set; } default_action = set(0xff);",
			entries: "add t d:10.0.0.0/8 set(v:1)\nadd t d:10.11.0.0/16 set(v:2)\nadd t d:10.11.12.13/32 set(v:3)\nadd t d:0.0.0.0/0 set(v:4)",
			frames:  []string{"00 00 0000 0a0b0c0d -> 00 03 0000 0a0b0c0d", "00 00 0000 0a0b0c0e -> 00 02 0000 0a0b0c0e", "00 00 0000 0a0c0c0e -> 00 01 0000 0a0c0c0e", "00 00 0000 0c000000 -> 00 04 0000 0c000000"},
		},
		{
			rule:    "14.2.1.4: of the control plane, the greatest priority",
			table:   "key = { hdr.h.a: ternary; hdr.h.c: range; } actions = { set; } default_action = set(0xff);",
			entries: "add t 1 a:* c:* set(v:1)\nadd t 5 a:0x0* c:1..9 set(v:2)\nadd t 9 a:0x05 c:5..6 set(v:3)",
			frames:  []string{"05 00 0005 00000000 -> 05 03 0005 00000000", "05 00 0007 00000000 -> 05 02 0007 00000000", "05 00 000a 00000000 -> 05 01 000a 00000000", "15 00 0005 00000000 -> 15 01 0005 00000000"},
		},
		{
			rule:   "14.2.1.4: a table that is applied twice",
			table:  "key = { hdr.h.a: exact; } actions = { set; } const default_action = set(0xff); const entries = { 1: set(7); }",
			body:   "t.apply(); hdr.h.c = 8w0 ++ hdr.h.b; hdr.h.a = hdr.h.a + 1; t.apply();",
			frames: []string{"00 00 0000 00000000 -> 01 07 00ff 00000000", "01 00 0000 00000000 -> 02 ff 0007 00000000"},
		},
		{
			rule:   "14.2.2: hit and miss in expressions",
			table:  "key = { hdr.h.a: exact; } actions = { set; } const default_action = set(0xff); const entries = { 1: set(7); }",
			body:   "bool q = t.apply().hit; hdr.h.a = 1; bool r = !t.apply().miss; hdr.h.c = (q ? 8w1 : 2) ++ (r ? 8w1 : 2);",
			frames: []string{"01 00 0000 00000000 -> 01 07 0101 00000000", "02 00 0000 00000000 -> 01 07 0201 00000000"},
		},
		{
			rule:   "14.2.2: hit and miss of an empty table",
			table:  "key = { hdr.h.a: exact; } actions = { set; } default_action = set(9);",
			body:   "if (t.apply().hit) { hdr.h.c = 1; } else { hdr.h.c = 2; }",
			frames: []string{"01 00 0000 00000000 -> 01 09 0002 00000000"},
		},
	} {
		t.Run(r.rule, r.holds)
	}
}

// What actions do with data and directions (14.1, 14.2.1.2), as entries, as defaults and called.
func TestRulesOfActions(t *testing.T) {
	for _, r := range []tableRule{
		{
			rule:   "14.2.1.2: an argument is evaluated when the action runs",
			table:  "key = { hdr.h.a: exact; } actions = { plus(hdr.h.c[7:0]); } const default_action = plus(hdr.h.c[7:0], 1);",
			body:   "hdr.h.c = 5; t.apply(); hdr.h.c = 8w0 ++ hdr.h.b; t.apply();",
			frames: []string{"00 00 0000 00000000 -> 00 07 0006 00000000"},
		},
		{
			rule:    "14.2.1.2: data in the default action of the control plane",
			table:   "key = { hdr.h.a: exact; } actions = { set; plus(hdr.h.a); } default_action = set(1);",
			entries: "setdefault t plus(v:3)",
			frames:  []string{"04 00 0000 00000000 -> 04 07 0000 00000000"},
		},
		{
			rule:    "14.2.1.2: data of an entry, and of another",
			table:   "key = { hdr.h.a: exact; } actions = { set; plus(hdr.h.a); } default_action = set(1);",
			entries: "add t a:4 plus(v:3)\nadd t a:5 plus(v:4)\nadd t a:6 set(v:9)",
			frames:  []string{"04 00 0000 00000000 -> 04 07 0000 00000000", "05 00 0000 00000000 -> 05 09 0000 00000000", "06 00 0000 00000000 -> 06 09 0000 00000000", "07 00 0000 00000000 -> 07 01 0000 00000000"},
		},
		{
			rule:   "14.2.1.2: inout and out of a table's action",
			table:  "key = { hdr.h.a: exact; } actions = { both(hdr.h.b, hdr.h.c); } const default_action = both(hdr.h.b, hdr.h.c, 1); const entries = { 1: both(hdr.h.b, hdr.h.c, 16); }",
			frames: []string{"01 03 0000 00000000 -> 01 13 0102 00000000", "02 03 0000 00000000 -> 02 04 0102 00000000"},
		},
		{
			rule:    "14.2.1.2: wide data of an entry",
			table:   "key = { hdr.h.a: exact; } actions = { wide; NoAction; } default_action = NoAction();",
			body:    "t.apply(); hdr.h.c = hdr.h.s[71:56]; hdr.h.d = hdr.h.s[31:0]; hdr.h.s = 0x313233343536373839;",
			entries: "add t a:1 wide(v:0xa1a2a3a4a5a6a7a8a9, q:1)",
			frames:  []string{"01 00 0000 00000000 -> 01 01 a1a2 a6a7a8a9", "02 00 0000 00000000 -> 02 00 3132 36373839"},
		},
		{
			rule:   "14.1: an action with data is called with values of the packet",
			table:  "key = { hdr.h.a: exact; } actions = { set; } default_action = set(1);",
			body:   "set(hdr.h.a + 1); wide(hdr.h.s, hdr.h.a == 1); hdr.h.c = 8w0 ++ hdr.h.b;",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 02 0002 00000000"},
		},
		{
			rule:   "14.2.1.3: NoAction by default leaves all as it is",
			table:  "key = { hdr.h.a: exact; } actions = { set; }",
			frames: []string{"01 05 0607 00000000 -> 01 05 0607 00000000"},
		},
		{
			rule:    "14.2.1.3: a const default is what the program says",
			table:   "key = { hdr.h.a: exact; } actions = { set; } const default_action = set(3);",
			entries: "add t a:1 set(v:4)",
			frames:  []string{"01 00 0000 00000000 -> 01 04 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000"},
		},
	} {
		t.Run(r.rule, r.holds)
	}
}

// Entries that come and go while packets pass (14.3): a packet sees what was there when it was processed.
func TestRulesOfControlPlane(t *testing.T) {
	pl := loadText(t, v1Text("", tableActions+"table t { key = { hdr.h.a: exact; } actions = { set; } default_action = set(0xff); } table u { key = { hdr.h.a: exact; } actions = { set; } entries = { 9: set(9); } }",
		"t.apply(); hdr.h.c = 8w0 ++ hdr.h.b; hdr.h.b = 0; u.apply();")).New()
	for _, step := range []struct {
		rule, script string
		frames       []string
	}{
		{"no entry", "", []string{"01 00 0000 00000000 -> 01 00 00ff 00000000"}},
		{"an entry", "add t a:1 set(v:5)", []string{"01 00 0000 00000000 -> 01 00 0005 00000000", "02 00 0000 00000000 -> 02 00 00ff 00000000"}},
		{"a second", "add t a:2 set(v:6)", []string{"01 00 0000 00000000 -> 01 00 0005 00000000", "02 00 0000 00000000 -> 02 00 0006 00000000"}},
		{"another default", "setdefault t set(v:7)", []string{"03 00 0000 00000000 -> 03 00 0007 00000000"}},
		{"one beside the program's", "add u a:3 set(v:8)", []string{"03 00 0000 00000000 -> 03 08 0007 00000000", "09 00 0000 00000000 -> 09 09 0007 00000000"}},
		{"none", "remove all", []string{"01 00 0000 00000000 -> 01 00 0007 00000000", "03 00 0000 00000000 -> 03 00 0007 00000000"}},
		{"one again", "add t a:1 set(v:5)", []string{"01 00 0000 00000000 -> 01 00 0005 00000000"}},
	} {
		if err := stf.Configure(pl, "x", []byte(step.script)); err != nil {
			t.Fatalf("%s: %v", step.rule, err)
		}
		t.Run(step.rule, func(t *testing.T) { exchange(t, pl, step.frames...) })
	}
}
