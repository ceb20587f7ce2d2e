package p4

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// A tableRule is a table t, which sets hdr.h.b, entries of the control plane, and packets.
type tableRule struct {
	rule    string
	table   string
	body    string // "": t.apply()
	entries string
	frames  []string
}

const tableActions = `action set(bit<8> v) { hdr.h.b = v; } action wide(bit<72> v, bool q) { hdr.h.s = v; hdr.h.b = q ? 8w1 : 2; } action plus(in bit<8> x, bit<8> v) { hdr.h.b = x + v; }
action both(inout bit<8> x, out bit<16> y, bit<8> v) { x = x + v; y = 0x0102; } action leave() { exit; } `

func (r tableRule) holds(t *testing.T) {
	t.Helper()
	body := r.body
	if body == "" {
		body = "t.apply();"
	}
	pl := loadText(t, v1Text("enum bit<8> code_t { A = 1, B = 2 }", tableActions+"table t { "+r.table+" }", body)).New()
	if err := stf.Configure(pl, "t", []byte(r.entries)); err != nil {
		t.Fatal(err)
	}
	exchange(t, pl, r.frames...)
}

// Tables (14.2): what each kind of key matches, which entry wins, and which action runs.
func TestRulesOfTables(t *testing.T) {
	const dflt = " actions = { set; } default_action = set(0xff);"
	const key = "key = { hdr.h.a: %; }" + dflt
	of := func(kind, rest string) string { return strings.Replace(key, "%", kind, 1) + rest }
	for _, r := range []tableRule{
		{"14.2.1.1 exact: one value", of("exact", " const entries = { 1: set(1); 0xfe: set(2); }"), "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "fe 00 0000 00000000 -> fe 02 0000 00000000", "02 00 0000 00000000 -> 02 ff 0000 00000000"}},
		{"exact: a signed key", "key = { (int<8>)hdr.h.a: exact @name(\"k\"); }" + dflt + " const entries = { -1: set(1); 1: set(2); }", "", "", []string{"ff 00 0000 00000000 -> ff 01 0000 00000000", "01 00 0000 00000000 -> 01 02 0000 00000000"}},
		{"exact: a bool", "key = { hdr.h.isValid(): exact; hdr.h.a == 1: exact @name(\"k\"); }" + dflt + " const entries = { (true, true): set(1); (true, false): set(2); }", "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000"}},
		{"exact: an enum", "key = { (code_t)hdr.h.a: exact @name(\"k\"); }" + dflt + " const entries = { code_t.A: set(1); code_t.B: set(2); }", "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000", "03 00 0000 00000000 -> 03 ff 0000 00000000"}},
		{"exact: an error", "key = { sm.parser_error: exact; }" + dflt + " const entries = { error.NoError: set(1); error.NoMatch: set(2); }", "", "", []string{"00 00 0000 00000000 -> 00 01 0000 00000000"}},
		{"exact: many entries", of("exact", " const entries = { 0: set(10); 1: set(11); 2: set(12); 3: set(13); 4: set(14); 5: set(15); 6: set(16); 7: set(17); 8: set(18); 9: set(19); 10: set(20); 11: set(21); 12: set(22); }"), "", "", []string{"00 00 0000 00000000 -> 00 0a 0000 00000000", "06 00 0000 00000000 -> 06 10 0000 00000000", "0c 00 0000 00000000 -> 0c 16 0000 00000000", "0d 00 0000 00000000 -> 0d ff 0000 00000000"}},
		{"lpm: the longest prefix, not the first", of("lpm", " const entries = { 0x80 &&& 0x80: set(1); 0xc0 &&& 0xc0: set(2); 0xc1: set(3); _: set(4); }"), "", "", []string{"81 00 0000 00000000 -> 81 01 0000 00000000", "c2 00 0000 00000000 -> c2 02 0000 00000000", "c1 00 0000 00000000 -> c1 03 0000 00000000", "01 00 0000 00000000 -> 01 04 0000 00000000"}},
		{"lpm: beside exact keys", "key = { hdr.h.c: exact; hdr.h.a: lpm; }" + dflt + " const entries = { (1, 0x80 &&& 0x80): set(1); (2, _): set(2); (1, 0xf0 &&& 0xf0): set(3); }", "", "", []string{"f1 00 0001 00000000 -> f1 03 0001 00000000", "81 00 0001 00000000 -> 81 01 0001 00000000", "f1 00 0002 00000000 -> f1 02 0002 00000000", "01 00 0001 00000000 -> 01 ff 0001 00000000"}},
		{"ternary: the first that matches", of("ternary", " const entries = { 0x01 &&& 0x0f: set(1); 0x11: set(2); 0x10 &&& 0xf0: set(3); }"), "", "", []string{"11 00 0000 00000000 -> 11 01 0000 00000000", "12 00 0000 00000000 -> 12 03 0000 00000000", "21 00 0000 00000000 -> 21 01 0000 00000000", "22 00 0000 00000000 -> 22 ff 0000 00000000"}},
		{"ternary: value bits outside of the mask", of("ternary", " const entries = { 0xf1 &&& 0x0f: set(1); }"), "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "f1 00 0000 00000000 -> f1 01 0000 00000000"}},
		{"range: both ends", of("range", " const entries = { 5 .. 7: set(1); 9: set(2); _: set(3); }"), "", "", []string{"05 00 0000 00000000 -> 05 01 0000 00000000", "07 00 0000 00000000 -> 07 01 0000 00000000", "08 00 0000 00000000 -> 08 03 0000 00000000", "09 00 0000 00000000 -> 09 02 0000 00000000"}},
		{"range: of a wide key", "key = { hdr.h.s: range; }" + dflt + " const entries = { 0x313233343536373838 .. 0x31323334353637383a: set(1); }", "", "", []string{"00 00 0000 00000000 -> 00 01 0000 00000000"}},
		{"8.15.4 range: of a signed key", "key = { (int<8>)hdr.h.a: range @name(\"k\"); }" + dflt + " const entries = { -2 .. 1: set(1); 5 .. 9: set(2); }", "", "", []string{"fe 00 0000 00000000 -> fe 01 0000 00000000", "00 00 0000 00000000 -> 00 01 0000 00000000", "01 00 0000 00000000 -> 01 01 0000 00000000", "05 00 0000 00000000 -> 05 02 0000 00000000", "80 00 0000 00000000 -> 80 ff 0000 00000000"}},
		{"optional: a value or any", of("optional", " const entries = { 1: set(1); _: set(2); }"), "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"}},
		{"14.2.1.4: one _ stands for all keys", "key = { hdr.h.a: ternary; hdr.h.c: ternary; }" + dflt + " const entries = { (1, 2): set(1); _: set(2); }", "", "", []string{"01 00 0002 00000000 -> 01 01 0002 00000000", "01 00 0003 00000000 -> 01 02 0003 00000000"}},
		{"14.2.1.4: default stands for _", "key = { hdr.h.a: ternary; }" + dflt + " const entries = { 1: set(1); default: set(2); }", "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000"}},
		{"14.2.1.4: entries that are const one by one", of("exact", " entries = { const 1: set(1); 2: set(2); }"), "", "", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"}},
		{"14.2.1.4: constants as keys and data", of("exact", " const entries = { code_t.A: set(3 + 4); 1 << 3: set(8w9); }"), "", "", []string{"01 00 0000 00000000 -> 01 07 0000 00000000", "08 00 0000 00000000 -> 08 09 0000 00000000"}},
		{"14.2.1.4: entries of the program beside the control plane's", of("ternary", " entries = { 1 &&& 1: set(1); }"), "", "add t 5 hdr.h.a:0x02 set(v:5)", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 05 0000 00000000"}},
		{"14.2.1.4.1: priorities, the greatest", of("ternary", " entries = { priority = 1: 1 &&& 1: set(1); priority = 2: 3 &&& 3: set(2); }"), "", "", []string{"03 00 0000 00000000 -> 03 02 0000 00000000", "01 00 0000 00000000 -> 01 01 0000 00000000"}},
		{"14.2.1.4.1: priorities, the least", of("ternary", " largest_priority_wins = false; entries = { priority = 2: 1 &&& 1: set(1); priority = 1: 3 &&& 3: set(2); }"), "", "", []string{"03 00 0000 00000000 -> 03 02 0000 00000000"}},
		{"14.2.1.4.1: an entry without one follows by the delta", of("ternary", " priority_delta = 10; entries = { priority = 100: 3 &&& 3: set(1); 1 &&& 1: set(2); priority = 95: _: set(3); }"), "", "", []string{"03 00 0000 00000000 -> 03 01 0000 00000000", "01 00 0000 00000000 -> 01 03 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000"}},

		{"14.2.1.2: data of all widths", "key = { hdr.h.a: exact; } actions = { wide; } default_action = wide(0x010203040506070809, true);", "t.apply(); hdr.h.c = hdr.h.s[71:56];", "", []string{"00 00 0000 00000000 -> 0001010200000000010203040506070809"}},
		{"14.2.1.2: in, inout and out beside data", "key = { hdr.h.a: exact; } actions = { both(hdr.h.b, hdr.h.c); plus(hdr.h.a); } const entries = { 1: both(5); 2: plus(hdr.h.a, 7); } default_action = plus(1);", "", "", []string{"01 03 0000 00000000 -> 01 08 0102 00000000", "02 00 0000 00000000 -> 02 09 0000 00000000", "09 00 0000 00000000 -> 09 0a 0000 00000000"}},
		{"14.2.1.3: without a default action nothing happens", "key = { hdr.h.a: exact; } actions = { set; }", "if (t.apply().miss) { hdr.h.c = 1; }", "", []string{"01 05 0000 00000000 -> 01 05 0001 00000000"}},
		{"14.2.1.3: without a default action, the action that ran is none of the list", "key = { hdr.h.a: exact; } actions = { set; }", "switch (t.apply().action_run) { set: { hdr.h.c = 1; } default: { hdr.h.c = 2; } }", "", []string{"01 05 0000 00000000 -> 01 05 0002 00000000"}},
		{"14.2.1.3: the control plane's default", "key = { hdr.h.a: exact; } actions = { set; leave; } default_action = leave();", "t.apply(); hdr.h.c = 1;", "setdefault t set(v:4)", []string{"01 00 0000 00000000 -> 01 04 0001 00000000"}},
		{"14.2.1: no key, so each lookup is a miss", "actions = { set; } default_action = set(3);", "hdr.h.c = t.apply().hit ? 16w1 : 2;", "", []string{"01 00 0000 00000000 -> 01 03 0002 00000000"}},
		{"14.2.2: hit, though the action is the default's", of("exact", " const entries = { 1: set(0xff); }"), "if (t.apply().hit) { hdr.h.c = 1; }", "", []string{"01 00 0000 00000000 -> 01 ff 0001 00000000", "02 00 0000 00000000 -> 02 ff 0000 00000000"}},
		{"14.2.2: keys are evaluated before the action", "key = { hdr.h.b: exact; } actions = { set; NoAction; } const entries = { 0: set(1); 1: set(2); } default_action = NoAction();", "t.apply(); t.apply(); t.apply();", "", []string{"00 00 0000 00000000 -> 00 02 0000 00000000"}},
	} {
		t.Run(r.rule, r.holds)
	}
}

// The deparser (16.1) emits what is valid, in its order.
func TestRulesOfDeparsers(t *testing.T) {
	for _, c := range []struct{ rule, body, emit, want string }{
		{"16.1: a valid header", "hdr.a = { 1 };", "p.emit(hdr.a);", "01"},
		{"16.1: an invalid one is left out", "hdr.a = { 1 }; hdr.a.setInvalid(); hdr.b = { 2, 3 };", "p.emit(hdr.a); p.emit(hdr.b);", "0203"},
		{"16.1: the order is the emits'", "hdr.a = { 1 }; hdr.b = { 2, 3 };", "p.emit(hdr.b); p.emit(hdr.a);", "020301"},
		{"16.1: a header twice", "hdr.a = { 1 };", "p.emit(hdr.a); p.emit(hdr.a);", "0101"},
		{"16.1: a stack from its first element", "hdr.s[2] = { 3 }; hdr.s[0] = { 1 };", "p.emit(hdr.s);", "0103"},
		{"16.1: an element", "hdr.s[2] = { 3 }; hdr.s[0] = { 1 };", "p.emit(hdr.s[2]); p.emit(hdr.s[1]);", "03"},
		{"16.1: a union's valid member", "hdr.u.b = { 4, 5 };", "p.emit(hdr.u);", "0405"},
		{"16.1: a union without one", "hdr.u.b = { 4, 5 }; hdr.u.a.setInvalid();", "p.emit(hdr.u); p.emit(hdr.a);", ""},
		{"16.1: a struct field by field", "hdr.a = { 1 }; hdr.b = { 2, 3 }; hdr.s[1] = { 4 }; hdr.u.a = { 5 }; hdr.n.x = { 6 };", "p.emit(hdr);", "0102030405" + "06"},
		{"16.1: a tuple", "hdr.a = { 1 }; hdr.b = { 2, 3 };", "p.emit({ hdr.b, hdr.a });", "020301"},
		{"16.1: fields of some bits across headers", "hdr.t = { 5 }; hdr.f = { 0x1b };", "p.emit(hdr.t); p.emit(hdr.f);", "bb"},
		{"16.1: if in a deparser", "hdr.a = { 1 }; hdr.b = { 2, 3 };", "if (hdr.a.v == 1) { p.emit(hdr.b); }", "0203"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			text := `#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> v; }
header b_t { bit<8> v; bit<8> w; }
header t_t { bit<3> v; }
header f_t { bit<5> v; }
header_union u_t { a_t a; b_t b; }
struct nest_t { a_t x; }
struct headers { a_t a; b_t b; a_t[3] s; u_t u; nest_t n; t_t t; f_t f; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) { state start { transition accept; } }
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; ` + c.body + ` } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers hdr) { apply { ` + c.emit + ` } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
`
			var v Verdict
			loadText(t, text).New().Process([]byte{0xee}, &Intrinsic{}, &v)
			if want := unhex(t, c.want+"ee"); len(v.Sent) != 1 || string(v.Sent[0].Data) != string(want) {
				t.Errorf("%+v left, want % x", v.Sent, want)
			}
		})
	}
}
