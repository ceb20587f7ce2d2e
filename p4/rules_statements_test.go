package p4

import "testing"

// A table whose action exits, before one whose action does not.
const exits = `
action leave() { hdr.h.d = 7; exit; }
action stay() { }
table t { key = { hdr.h.a: exact; } actions = { leave; stay; } const entries = { 1: leave(); 2: stay(); } const default_action = stay(); }
`

const counting = `
bool count(inout bit<8> n) { n = n + 1; return true; }
bit<8> add(inout bit<8> n, in bit<8> k) { n = n + k; return n; }
`

// An exit ends the evaluation of the expression that it is in, and the statement does not complete (12.5).
func TestRulesOfExit(t *testing.T) {
	const (
		left   = "01 00 0000 00000000 -> 01 00 0000 00000007"
		missed = "03 00 0000 00000000 -> "
		hit    = "02 00 0000 00000000 -> "
	)
	exchangeAll(t, []frameRule{
		{"12.5: of an if", counting, exits, "if (t.apply().hit) { hdr.h.b = 1; } else { hdr.h.b = 2; } hdr.h.c = 3;", []string{left, hit + "02 01 0003 00000000", missed + "03 02 0003 00000000"}},
		{"12.5: of a switch", counting, exits, "switch (t.apply().action_run) { leave: { hdr.h.b = 1; } stay: { hdr.h.b = 2; } } hdr.h.c = 3;", []string{left, hit + "02 02 0003 00000000"}},
		{"12.5: of a switch over a number", counting, exits, "switch (t.apply().hit ? 8w1 : 0) { 1: { hdr.h.b = 1; } default: { hdr.h.b = 2; } } hdr.h.c = 3;", []string{left, hit + "02 01 0003 00000000"}},
		{"12.5: of a choice's condition", counting, exits, "hdr.h.c = (t.apply().hit ? add(hdr.h.b, 1) : add(hdr.h.b, 2)) ++ 8w0;", []string{left, hit + "02 01 0100 00000000", missed + "03 02 0200 00000000"}},
		{"12.5: of an assignment's right side", counting, exits, "hdr.h.b = t.apply().hit ? 8w1 : 2;", []string{left, hit + "02 01 0000 00000000"}},
		{"12.5: of an assignment to a wide field", counting, exits, "hdr.h.s = t.apply().hit ? 72w0x414243444546474849 : 0; hdr.h.b = hdr.h.s[7:0];", []string{left}},
		{"12.5: of a compound assignment", counting, exits, "hdr.h.b += t.apply().hit ? 8w1 : 2;", []string{left, hit + "02 01 0000 00000000", missed + "03 02 0000 00000000"}},
		{"12.5: of a compound assignment to a slice", counting, exits, "hdr.h.b[3:0] |= t.apply().hit ? 4w1 : 2;", []string{left, hit + "02 01 0000 00000000"}},
		{"12.5: of a compound assignment to a wide field", counting, exits, "hdr.h.s += t.apply().hit ? 72w1 : 2; hdr.h.b = hdr.h.s[7:0] - 0x39;", []string{left}},
		{"12.5: of a call's argument", counting, exits, "bit<8> n = add(hdr.h.b, t.apply().hit ? 8w1 : 2); hdr.h.c[7:0] = n;", []string{left, hit + "02 01 0001 00000000"}},
		{"12.5: in front of a call in the same expression", counting, exits, "if (t.apply().hit && count(hdr.h.b)) { hdr.h.c = 1; }", []string{left, hit + "02 01 0001 00000000", missed + "03 00 0000 00000000"}},
		{"12.5: in front of a call in the same sum", counting, exits, "hdr.h.c = 16w0 + (bit<16>)(t.apply().hit ? 8w1 : 0) + (bit<16>)add(hdr.h.b, 1);", []string{left, hit + "02 01 0002 00000000"}},
		{"12.5: in front of a call for a part of a list", counting, exits, "pair_t p = { t.apply().hit ? 8w1 : 0, 8w0 ++ add(hdr.h.b, 1) }; hdr.h.c = p.y;", []string{left, hit + "02 01 0001 00000000"}},
		{"12.5: of a loop's condition", counting, exits, "for (bit<8> i = 0; i < 3 && t.apply().hit; i = i + 1) { hdr.h.b = hdr.h.b + 1; } hdr.h.c = 1;", []string{left, hit + "02 03 0001 00000000", missed + "03 00 0001 00000000"}},
		{"12.5: of a loop's update", counting, exits, "for (bit<8> i = 0; i < 3; i = i + (t.apply().hit ? 8w1 : 2)) { hdr.h.b = hdr.h.b + 1; } hdr.h.c = 1;", []string{"01 00 0000 00000000 -> 01 01 0000 00000007", hit + "02 03 0001 00000000", missed + "03 02 0001 00000000"}},
		{"12.5: of a range's end", counting, exits, "for (bit<8> i in 1 .. (t.apply().hit ? 8w2 : 3)) { hdr.h.b = hdr.h.b + 1; } hdr.h.c = 1;", []string{left, hit + "02 02 0001 00000000", missed + "03 03 0001 00000000"}},
		{"12.5: of a list's element", counting, exits, "for (bit<8> i in { 8w5, t.apply().hit ? 8w1 : 2 }) { hdr.h.b = hdr.h.b + i; } hdr.h.c = 1;", []string{left, hit + "02 06 0001 00000000", missed + "03 07 0001 00000000"}},
		{"12.5: of an extern method's argument", counting, "register<bit<8>>(1) r; " + exits, "if (hdr.h.a == 9) { r.read(hdr.h.b, 0); } else { r.write(0, t.apply().hit ? 8w5 : 6); hdr.h.c = 1; }",
			[]string{left, "09 00 0000 00000000 -> 09 00 0000 00000000", hit + "02 00 0001 00000000", "09 00 0000 00000000 -> 09 05 0000 00000000"}},
		{"12.5: of an extern function's argument", counting, exits, "random(hdr.h.b, t.apply().hit ? 8w5 : 6, 8w5); hdr.h.c = 1;", []string{left, hit + "02 05 0001 00000000", missed + "03 06 0001 00000000"}},
		{"12.5: of what is hashed", counting, exits, "hash(hdr.h.c, HashAlgorithm.identity, 16w0, { t.apply().hit ? 16w5 : 6 }, 32w0x10000); hdr.h.b = 1;", []string{left, hit + "02 01 0005 00000000"}},
		{"12.5: of a header that is made valid", counting, "one_t[2] st; " + exits, "st[t.apply().hit ? 8w1 : 0].setValid(); hdr.h.b = st[1].isValid() ? 8w1 : 2;", []string{left, hit + "02 01 0000 00000000"}},
		{"12.5: of an assert", counting, exits, "assert(t.apply().hit || true); hdr.h.b = 1;", []string{left, hit + "02 01 0000 00000000"}},
		{"12.5: of a key", counting, exits + "action mark() { hdr.h.b = 9; } table u { key = { t.apply().hit: exact @name(\"hit\"); } actions = { mark; } const default_action = mark(); }", "u.apply(); hdr.h.c = 1;", []string{left, hit + "02 09 0001 00000000"}},
		{"12.5: of an index on the left", counting, "one_t[2] st; " + exits, "st[t.apply().hit ? 8w1 : 0] = { 5 }; hdr.h.b = st[1].v; hdr.h.c = 1;", []string{left, hit + "02 05 0001 00000000", missed + "03 00 0001 00000000"}},
		{"12.5: in an action of an action", counting, "action inner() { exit; } action outer() { inner(); hdr.h.b = 1; }", "hdr.h.d = 7; outer(); hdr.h.c = 1;", []string{left}},
		{"12.5: in a control of a control, out is copied", counting + "control deep(out bit<8> x) { apply { x = 4; exit; } } control mid(out bit<8> y) { apply { deep.apply(y); y = 5; } }", "", "mid.apply(hdr.h.b); hdr.h.c = 1;", []string{"00 00 0000 00000000 -> 00 04 0000 00000000"}},
		{"12.5: inout of an action is copied", "", "action f(inout bit<8> x) { x = x + 1; exit; }", "f(hdr.h.b); hdr.h.c = 1;", []string{"00 01 0000 00000000 -> 00 02 0000 00000000"}},
	})
}

// if, switch, return and blocks (12.3 to 12.7).
func TestRulesOfBranches(t *testing.T) {
	exchangeAll(t, []frameRule{
		{"12.6: an else belongs to the nearest if", "", "", "if (hdr.h.a > 0) if (hdr.h.a > 1) hdr.h.b = 2; else hdr.h.b = 1;", []string{"00 00 0000 00000000 -> 00 00 0000 00000000", "01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"}},
		{"12.7.2: labels without a body fall through", "", "", "switch (hdr.h.a) { 1: 2: 3: { hdr.h.b = 1; } 4: default: { hdr.h.b = 2; } }", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "03 00 0000 00000000 -> 03 01 0000 00000000", "04 00 0000 00000000 -> 04 02 0000 00000000", "09 00 0000 00000000 -> 09 02 0000 00000000"}},
		{"12.7: a last label without a body does nothing", "", "", "switch (hdr.h.a) { 1: { hdr.h.b = 1; } 2: } hdr.h.c = 1;", []string{"02 00 0000 00000000 -> 02 00 0001 00000000"}},
		{"12.7: no default, no label", "", "", "switch (hdr.h.a) { 1: { hdr.h.b = 1; } } hdr.h.c = 1;", []string{"02 00 0000 00000000 -> 02 00 0001 00000000"}},
		{"12.7.2: over a signed number", "", "", "switch ((int<8>)hdr.h.a) { -1: { hdr.h.b = 1; } -128: { hdr.h.b = 2; } 1: { hdr.h.b = 3; } }", []string{"ff 00 0000 00000000 -> ff 01 0000 00000000", "80 00 0000 00000000 -> 80 02 0000 00000000", "01 00 0000 00000000 -> 01 03 0000 00000000"}},
		{"12.7.2: over an error", "error { Mine }", "", "error e = error.NoError; if (hdr.h.a == 1) { e = error.Mine; } switch (e) { error.Mine: { hdr.h.b = 1; } error.NoError: { hdr.h.b = 2; } }", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "00 00 0000 00000000 -> 00 02 0000 00000000"}},
		{"12.7: side effects of the expression are seen", counting, "", "switch (add(hdr.h.b, 1)) { 1: { hdr.h.c = 8w0 ++ hdr.h.b; } }", []string{"00 00 0000 00000000 -> 00 01 0001 00000000"}},
		{"12.7: in a function", "bit<8> f(in bit<8> x) { switch (x) { 1: { return 10; } 2: 3: { return 20; } default: { } } return x; }", "", "hdr.h.b = f(hdr.h.a);", []string{"01 00 0000 00000000 -> 01 0a 0000 00000000", "03 00 0000 00000000 -> 03 14 0000 00000000", "05 00 0000 00000000 -> 05 05 0000 00000000"}},
		{"12.7: in an action", "", "action f(in bit<8> x) { switch (x) { 1: { hdr.h.b = 1; exit; } default: { hdr.h.b = 2; } } }", "f(hdr.h.a); hdr.h.c = 1;", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0001 00000000"}},
		{"12.7.1: default is by the action, not by the miss", "", exits, "switch (t.apply().action_run) { leave: { hdr.h.b = 1; } default: { hdr.h.b = 2; } }", []string{"02 00 0000 00000000 -> 02 02 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000"}},
		{"12.7.1: actions share a body", "", exits + "action other() { } table u { key = { hdr.h.a: exact; } actions = { other; stay; NoAction; } const entries = { 1: other(); 2: stay(); } default_action = NoAction(); }", "switch (u.apply().action_run) { other: stay: { hdr.h.b = 1; } NoAction: { hdr.h.b = 2; } }", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 01 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000"}},
		{"12.4: return ends the control", "control c(inout bit<8> x) { apply { if (x == 1) { return; } x = 9; } }", "", "c.apply(hdr.h.a); hdr.h.b = 1;", []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 09 01 0000 00000000"}},
		{"12.4: return ends the action", "", "action f() { if (hdr.h.a == 1) { return; } hdr.h.b = 9; }", "f(); hdr.h.c = 1;", []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 09 0001 00000000"}},
		{"12.4: return in ingress leaves egress to run", "", "", "if (hdr.h.a == 1) { return; } hdr.h.b = 9;", []string{"01 00 0000 00000000 -> 01 00 0000 00000000", "02 00 0000 00000000 -> 02 09 0000 00000000"}},
		{"12.3: a block is a scope", "", "", "bit<8> x = 1; { bit<8> x = 2; hdr.h.a = x; } hdr.h.b = x;", []string{"00 00 0000 00000000 -> 02 01 0000 00000000"}},
		{"12.3: a variable in a loop's body begins anew", "", "", "for (bit<8> i in 1 .. 3) { bit<8> x; x = x + 1; hdr.h.b = x; }", []string{"00 00 0000 00000000 -> 00 01 0000 00000000"}},
	})
}

// Loops (12.8).
func TestRulesOfLoops(t *testing.T) {
	exchangeAll(t, []frameRule{
		{"12.8: a condition that is false at once", "", "", "for (bit<8> i = 9; i < 3; i = i + 1) { hdr.h.b = 1; }", []string{"00 00 0000 00000000 -> 00 00 0000 00000000"}},
		{"12.8: continue executes the updates", "", "", "for (bit<8> i = 0; i < 4; i = i + 1) { if (i == 1) { continue; } hdr.h.b = hdr.h.b + i; }", []string{"00 00 0000 00000000 -> 00 05 0000 00000000"}},
		{"12.8: break leaves the updates out", "", "", "bit<8> i; for (i = 0; i < 4; i = i + 1) { if (i == 2) { break; } } hdr.h.b = i;", []string{"00 00 0000 00000000 -> 00 02 0000 00000000"}},
		{"12.8: several init and update statements", "", "", "for (bit<8> i = 0, bit<8> j = 10; i < j; i = i + 1, j = j - 1) { hdr.h.a = i; hdr.h.b = j; }", []string{"00 00 0000 00000000 -> 04 06 0000 00000000"}},
		{"12.8: no init and no update", "", "", "bit<8> i = 3; for (; i > 0; ) { i = i - 1; hdr.h.b = hdr.h.b + 1; }", []string{"00 00 0000 00000000 -> 00 03 0000 00000000"}},
		{"12.8: a call as an update", counting, "", "bit<8> i = 0; for (; i < 6; add(i, 2)) { hdr.h.b = hdr.h.b + 1; }", []string{"00 00 0000 00000000 -> 00 03 0000 00000000"}},
		{"12.8: a range has both of its ends", "", "", "for (bit<8> i in 3 .. 5) { hdr.h.b = hdr.h.b + i; }", []string{"00 00 0000 00000000 -> 00 0c 0000 00000000"}},
		{"12.8: a signed range", "", "", "for (int<8> i in -2 .. 1) { hdr.h.b = hdr.h.b + 1; hdr.h.a = (bit<8>)i; }", []string{"00 00 0000 00000000 -> 01 04 0000 00000000"}},
		{"12.8: a range is evaluated once", "", "", "for (bit<8> i in 1 .. hdr.h.a) { hdr.h.a = hdr.h.a + 1; hdr.h.b = hdr.h.b + 1; }", []string{"03 00 0000 00000000 -> 06 03 0000 00000000"}},
		{"12.8: a list is evaluated once", "", "", "for (bit<8> x in { hdr.h.a, hdr.h.a, hdr.h.a }) { hdr.h.b = hdr.h.b + x; hdr.h.a = 9; }", []string{"01 00 0000 00000000 -> 09 03 0000 00000000"}},
		{"12.8: a list's calls come before the first turn", counting, "", "bit<8> n = 0; for (bit<8> x in { add(n, 1), add(n, 1) }) { hdr.h.b = hdr.h.b << 4 | n; n = 0; }", []string{"00 00 0000 00000000 -> 00 20 0000 00000000"}},
		{"12.8: the variable is a copy", "", "one_t[2] st;", "st[0] = { 1 }; st[1] = { 2 }; for (one_t x in st) { x.v = 9; } hdr.h.a = st[0].v; hdr.h.b = st[1].v;", []string{"00 00 0000 00000000 -> 01 02 0000 00000000"}},
		{"12.8: continue and break of the inner loop", "", "", "for (bit<8> i in 0 .. 2) { for (bit<8> j in 0 .. 9) { if (j == 1) { continue; } if (j > 2) { break; } hdr.h.b = hdr.h.b + 1; } hdr.h.a = hdr.h.a + 1; }", []string{"00 00 0000 00000000 -> 03 06 0000 00000000"}},
		{"12.8: a break within a switch leaves the loop", "", "", "for (bit<8> i in 0 .. 9) { switch (i) { 3: { break; } default: { hdr.h.b = hdr.h.b + 1; } } }", []string{"00 00 0000 00000000 -> 00 03 0000 00000000"}},
		{"12.8: the variable ends with the loop", "", "", "bit<8> i = 7; for (bit<8> i in 0 .. 2) { hdr.h.a = i; } hdr.h.b = i;", []string{"00 00 0000 00000000 -> 02 07 0000 00000000"}},
		{"12.8: a change of the variable does not change the range", "", "", "for (bit<8> i in 0 .. 3) { i = 100; hdr.h.b = hdr.h.b + 1; }", []string{"00 00 0000 00000000 -> 00 04 0000 00000000"}},
	})
}

// Assignments (12.1) and what they copy.
func TestRulesOfAssignments(t *testing.T) {
	exchangeAll(t, []frameRule{
		{"12.1: a struct's fields are swapped by a list", "", "", "pair2_t p = { hdr.h.a, hdr.h.b }; p = { p.y, p.x }; hdr.h.a = p.x; hdr.h.b = p.y;", []string{"01 02 0000 00000000 -> 02 01 0000 00000000"}},
		{"12.1: and by names", "", "", "pair2_t p = { hdr.h.a, hdr.h.b }; p = { y = p.x, x = p.y }; hdr.h.a = p.x; hdr.h.b = p.y;", []string{"01 02 0000 00000000 -> 02 01 0000 00000000"}},
		{"12.1: a struct is copied", "", "", "pair2_t p = { 1, 2 }; pair2_t q = p; p.x = 9; hdr.h.a = q.x; hdr.h.b = p.x;", []string{"00 00 0000 00000000 -> 01 09 0000 00000000"}},
		{"12.1: a part of a slice", "", "", "hdr.h.a[3:0] = hdr.h.a[7:4]; hdr.h.c[11:4] = 0xff;", []string{"5a 00 0000 00000000 -> 55 00 0ff0 00000000"}},
		{"12.1: a slice of a wide field across words", "", "", "hdr.h.s[67:60] = 0xff; hdr.h.b = hdr.h.s[67:60]; hdr.h.a = hdr.h.s[71:64]; hdr.h.s[67:60] = 0x13;", []string{"00 00 0000 00000000 -> 3f ff 0000 00000000"}},
		{"12.1: compound operators", "", "", "hdr.h.a |+|= 200; hdr.h.b |-|= 9; hdr.h.c >>= 4; hdr.h.d %= 16;", []string{"c8 05 1234 000000ff -> ff 00 0123 0000000f"}},
		{"12.1: /= and <<= and *=", "", "", "hdr.h.a /= 4; hdr.h.b <<= 9; hdr.h.c *= 3;", []string{"11 05 0003 00000000 -> 04 00 0009 00000000"}},
		{"12.1: an index on the left is evaluated first", counting, "one_t[3] st;", "bit<8> n = 0; st[0] = { 5 }; st[1] = { 5 }; st[n].v = add(n, 1); hdr.h.a = st[0].v; hdr.h.b = st[1].v;", []string{"00 00 0000 00000000 -> 01 05 0000 00000000"}},
		{"12.1: an index on the left with an operator", counting, "one_t[3] st;", "bit<8> n = 0; st[0] = { 5 }; st[1] = { 6 }; st[n].v += add(n, 1); hdr.h.a = st[0].v; hdr.h.b = st[1].v;", []string{"00 00 0000 00000000 -> 06 06 0000 00000000"}},
		{"12.1: also of a wide field", counting + "header wide_t { bit<72> v; }", "wide_t[3] st;", "bit<8> n = 0; st[0] = { 5 }; st[1] = { 6 }; st[add(n, 1)].v += 3; hdr.h.a = st[1].v[7:0]; hdr.h.b = n;", []string{"00 00 0000 00000000 -> 09 01 0000 00000000"}},
		{"12.1: the left operand is read before a call changes it", counting, "", "hdr.h.b = hdr.h.a + add(hdr.h.a, 1);", []string{"05 00 0000 00000000 -> 06 0b 0000 00000000"}},
		{"12.1: also of a wide sum", counting, "", "bit<72> x = (bit<72>)hdr.h.a; hdr.h.b = (x + (bit<72>)add(hdr.h.a, 1))[7:0];", []string{"05 00 0000 00000000 -> 06 0b 0000 00000000"}},
	})
}
