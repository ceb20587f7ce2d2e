package p4

import "testing"

// What is read before it is written (8.26, 11.2; package run defines it: 0, invalid, the first member).
func TestRulesOfFirstValues(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{
			rule: "11.2: a number", body: "bit<8> x; hdr.h.a = x + 1; int<8> y; hdr.h.b = y == 0 ? 8w1 : 2; bit<72> z; hdr.h.c = z == 0 ? 16w1 : 2;",
			frames: []string{zero + "01 01 0001 00000000"},
		},
		{rule: "11.2: a bool", body: "bool q; hdr.h.a = q ? 8w1 : 2;", frames: []string{zero + "02 00 0000 00000000"}},
		{
			rule: "11.2: a struct of a header", top: "struct s_t { one_t h; bit<8> k; error e; }",
			body: "s_t s; hdr.h.a = s.h.isValid() ? 8w1 : 2; hdr.h.b = s.k + 3; hdr.h.c = s.e == error.NoError ? 16w1 : 2;", frames: []string{zero + "02 03 0001 00000000"},
		},
		{rule: "11.2: a tuple", body: "tuple<bit<8>, bool> q; hdr.h.a = q[0] + 1; hdr.h.b = q[1] ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"}},
		{rule: "11.2: a stack", body: "one_t[3] s; hdr.h.a = s[0].isValid() || s[2].isValid() ? 8w1 : 2; hdr.h.b = s[1].v + 1;", frames: []string{zero + "02 01 0000 00000000"}},
		{
			rule: "8.17: a field of an invalid header is written and read", body: "one_t o; o.v = 5; hdr.h.a = o.v; hdr.h.b = o.isValid() ? 8w1 : 2;",
			frames: []string{zero + "05 02 0000 00000000"},
		},
		{
			rule: "11.2: a function's variables begin anew", top: "bit<8> f(in bit<8> k) { bit<8> x; if (k == 1) { x = 9; } return x; }",
			body: "hdr.h.a = f(1); hdr.h.b = f(2);", frames: []string{zero + "09 00 0000 00000000"},
		},
		{
			rule: "11.2: an action's variables begin anew", locals: "action f(in bit<8> k, out bit<8> r) { bit<8> x; if (k == 1) { x = 9; } r = x; }",
			body: "f(1, hdr.h.a); f(2, hdr.h.b);", frames: []string{zero + "09 00 0000 00000000"},
		},
		{
			rule: "14.4: ingress's variables begin anew with each packet", locals: "bit<8> x = 3; bit<8> y;",
			body: "x = x + hdr.h.a; y = y + x; hdr.h.b = y;", frames: []string{"01 00 0000 00000000 -> 01 04 0000 00000000", "02 00 0000 00000000 -> 02 05 0000 00000000"},
		},
		{
			rule: "14.4: metadata begins as 0 with each packet", body: "m.m = m.m + hdr.h.a; hdr.h.b = m.m;",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule: "8.26: ... leaves the rest at its first value", top: "struct s_t { bit<8> a; bit<8> b; bool q; one_t h; }",
			body: "s_t s = { 1, ... }; hdr.h.a = s.a; hdr.h.b = s.b + 4; hdr.h.c = s.q || s.h.isValid() ? 16w1 : 2;", frames: []string{zero + "01 04 0002 00000000"},
		},
		{
			rule: "8.26: ... behind fields by name", top: "struct s_t { bit<8> a; bit<8> b; }",
			body: "s_t s = { 5, 6 }; s = { b = 1, ... }; hdr.h.a = s.a + 2; hdr.h.b = s.b;", frames: []string{zero + "02 01 0000 00000000"},
		},
		{
			rule: "8.26: ... alone", top: "struct s_t { bit<8> a; bit<8> b; }",
			body: "s_t s = { 5, 6 }; s = ...; hdr.h.a = s.a + 2; hdr.h.b = s.b + 3;", frames: []string{zero + "02 03 0000 00000000"},
		},
		{
			rule: "8.26: ... of a header is an invalid one", body: "one_t o; o = { 5 }; o = ...; hdr.h.a = o.isValid() ? 8w1 : 2;", frames: []string{zero + "02 00 0000 00000000"},
		},
	})
}

// switch over a number, a bool, an enum and an action (12.7), within each other and within loops.
func TestRulesOfSwitches(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const actions = `
action one() { hdr.h.b = 1; } action two(bit<8> v) { hdr.h.b = v; }
table t { key = { hdr.h.a: exact; } actions = { one; two; NoAction; } const entries = { 1: one(); 2: two(7); 3: NoAction(); } const default_action = two(9); }
`
	exchangeAll(t, []frameRule{
		{
			rule: "12.7.1: each action its body", locals: actions,
			body:   "switch (t.apply().action_run) { one: { hdr.h.c = 1; } two: { hdr.h.c = 2; } NoAction: { hdr.h.c = 3; } }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 07 0002 00000000", "03 00 0000 00000000 -> 03 00 0003 00000000", "04 00 0000 00000000 -> 04 09 0002 00000000"},
		},
		{
			rule: "12.7.1: default in front of nothing", locals: actions,
			body:   "switch (t.apply().action_run) { one: { hdr.h.c = 1; } default: { hdr.h.c = 9; } }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "03 00 0000 00000000 -> 03 00 0009 00000000"},
		},
		{
			rule: "12.7.1: a label falls through to the next body", locals: actions,
			body:   "switch (t.apply().action_run) { one: two: { hdr.h.c = 1; } default: { hdr.h.c = 2; } }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 07 0001 00000000", "03 00 0000 00000000 -> 03 00 0002 00000000"},
		},
		{
			rule: "12.7.1: one within another", locals: actions + "table u { key = { hdr.h.b: exact; } actions = { one; NoAction; } const entries = { 7: one(); } const default_action = NoAction(); }",
			body:   "switch (t.apply().action_run) { two: { switch (u.apply().action_run) { one: { hdr.h.c = 1; } default: { hdr.h.c = 2; } } } default: { hdr.h.c = 3; } }",
			frames: []string{"02 00 0000 00000000 -> 02 01 0001 00000000", "04 00 0000 00000000 -> 04 09 0002 00000000", "01 00 0000 00000000 -> 01 01 0003 00000000"},
		},
		{
			rule: "12.7.1: hit and miss of the table beside", locals: actions,
			body:   "if (t.apply().hit) { hdr.h.c = 1; } else { hdr.h.c = 2; } if (t.apply().miss) { hdr.h.d = 1; }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "04 00 0000 00000000 -> 04 09 0002 00000001"},
		},
		{
			rule: "12.7.2: over a sum", body: "switch (hdr.h.a + hdr.h.b) { 5: { hdr.h.c = 1; } 6: { hdr.h.c = 2; } default: { hdr.h.c = 3; } }",
			frames: []string{"02 03 0000 00000000 -> 02 03 0001 00000000", "ff 07 0000 00000000 -> ff 07 0002 00000000", "00 00 0000 00000000 -> 00 00 0003 00000000"},
		},
		{
			rule: "12.7.2: over more than a word", body: "bit<72> w = hdr.h.s; w[7:0] = hdr.h.a; switch (w) { 0x313233343536373801: { hdr.h.c = 1; } 0x313233343536373802: { hdr.h.c = 2; } default: { hdr.h.c = 3; } }",
			frames: []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 00 0002 00000000", "03 00 0000 00000000 -> 03 00 0003 00000000"},
		},
		{
			rule: "12.7.2: over more than a word, signed", body: "int<72> w = (int<72>)(int<8>)hdr.h.a; switch (w) { -1: { hdr.h.c = 1; } 5: { hdr.h.c = 2; } } hdr.h.b = 9;",
			frames: []string{"ff 00 0000 00000000 -> ff 09 0001 00000000", "05 00 0000 00000000 -> 05 09 0002 00000000", "06 00 0000 00000000 -> 06 09 0000 00000000"},
		},
		{
			rule: "12.7.2: over an enum", top: "enum e_t { A, B, C }",
			body:   "e_t e = e_t.C; if (hdr.h.a == 1) { e = e_t.B; } switch (e) { e_t.A: { hdr.h.c = 1; } e_t.B: { hdr.h.c = 2; } e_t.C: { hdr.h.c = 3; } }",
			frames: []string{"01 00 0000 00000000 -> 01 00 0002 00000000", "02 00 0000 00000000 -> 02 00 0003 00000000"},
		},
		{
			rule: "12.7.2: over a number's enum", top: "enum bit<8> e_t { A = 1, B = 2 }",
			body:   "switch ((e_t)hdr.h.a) { e_t.A: { hdr.h.c = 1; } e_t.B: { hdr.h.c = 2; } default: { hdr.h.c = 3; } }",
			frames: []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 00 0002 00000000", "07 00 0000 00000000 -> 07 00 0003 00000000"},
		},
		{
			rule: "12.7.2: constants as labels", top: "const bit<8> k = 3; const int n = 4;",
			body:   "switch (hdr.h.a) { k: { hdr.h.c = 1; } n: { hdr.h.c = 2; } k + 2: { hdr.h.c = 3; } }",
			frames: []string{"03 00 0000 00000000 -> 03 00 0001 00000000", "04 00 0000 00000000 -> 04 00 0002 00000000", "05 00 0000 00000000 -> 05 00 0003 00000000", "06 00 0000 00000000 -> 06 00 0000 00000000"},
		},
		{
			rule: "12.7.2: the expression is not evaluated again", top: counting,
			body: "switch (add(hdr.h.a, 1)) { 1: { hdr.h.c = 1; } 2: { hdr.h.c = 2; } 3: { hdr.h.c = 3; } }", frames: []string{"02 00 0000 00000000 -> 03 00 0003 00000000"},
		},
		{
			rule: "12.7.2: a body changes what was compared", body: "switch (hdr.h.a) { 1: { hdr.h.a = 2; hdr.h.c = 1; } 2: { hdr.h.a = 1; hdr.h.c = 2; } }",
			frames: []string{"01 00 0000 00000000 -> 02 00 0001 00000000", "02 00 0000 00000000 -> 01 00 0002 00000000"},
		},
		{
			rule: "12.7.2: continue within a switch is the loop's", body: "for (bit<8> i in 1 .. 5) { switch (i) { 2: 4: { continue; } default: { } } hdr.h.a = hdr.h.a + i; }", frames: []string{zero + "09 00 0000 00000000"},
		},
		{
			rule: "12.7.2: return within a switch", locals: "action f() { switch (hdr.h.a) { 1: { return; } default: { hdr.h.b = 2; } } hdr.h.c = 3; }",
			body: "f(); hdr.h.d = 4;", frames: []string{"01 00 0000 00000000 -> 01 00 0000 00000004", "02 00 0000 00000000 -> 02 02 0003 00000004"},
		},
	})
}

// exit (12.5) and return (12.4): where each goes on, through calls of actions, controls and tables.
func TestRulesOfWaysOut(t *testing.T) {
	exchangeAll(t, []frameRule{
		{
			rule: "12.5: exit in a table's action ends ingress", locals: "action stop() { exit; } table t { key = { hdr.h.a: exact; } actions = { stop; NoAction; } const entries = { 1: stop(); } const default_action = NoAction(); }",
			body: "hdr.h.b = 1; t.apply(); hdr.h.b = 2;", frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule: "12.5: exit in a control's control's table", top: "control deep(inout bit<8> x, in bit<8> k) { action stop() { x = 7; exit; } table t { key = { k: exact; } actions = { stop; NoAction; } const entries = { 1: stop(); } const default_action = NoAction(); } apply { t.apply(); x = 8; } } control mid(inout bit<8> x, in bit<8> k) { deep() d; apply { d.apply(x, k); x = x + 1; } }",
			locals: "mid() i;", body: "i.apply(hdr.h.b, hdr.h.a); hdr.h.c = 1;", frames: []string{"01 00 0000 00000000 -> 01 07 0000 00000000", "02 00 0000 00000000 -> 02 09 0001 00000000"},
		},
		{
			rule: "12.5: exit within a loop within a switch", body: "for (bit<8> i in 1 .. 9) { switch (i) { 4: { if (hdr.h.a == 1) { exit; } } default: { hdr.h.b = hdr.h.b + 1; } } } hdr.h.c = 1;",
			frames: []string{"01 00 0000 00000000 -> 01 03 0000 00000000", "02 00 0000 00000000 -> 02 08 0001 00000000"},
		},
		{
			rule: "12.5: exit in a branch copies out", locals: "action f(inout bit<8> x, out bit<8> y) { x = 5; y = 6; if (hdr.h.c == 1) { exit; } x = 7; }",
			body: "f(hdr.h.a, hdr.h.b); hdr.h.d = 1;", frames: []string{"00 00 0001 00000000 -> 05 06 0001 00000000", "00 00 0000 00000000 -> 07 06 0000 00000001"},
		},
		{
			rule: "12.5: exit in an action that an action calls copies out both", locals: "action f(inout bit<8> x) { x = x + 1; exit; } action g(inout bit<8> y) { y = y + 4; f(y); y = 0; }",
			body: "g(hdr.h.a); hdr.h.b = 1;", frames: []string{"01 00 0000 00000000 -> 06 00 0000 00000000"},
		},
		{
			rule: "12.4: return in ingress's apply is no exit of a control within", top: "control c(inout bit<8> x) { apply { if (x == 1) { return; } x = 3; } }",
			body: "c.apply(hdr.h.a); hdr.h.b = 1; if (hdr.h.a == 3) { return; } hdr.h.b = 2;", frames: []string{"01 00 0000 00000000 -> 01 02 0000 00000000", "02 00 0000 00000000 -> 03 01 0000 00000000"},
		},
		{
			rule: "12.4: return in an action of a table", locals: "action f() { if (hdr.h.a == 1) { return; } hdr.h.b = 1; } table t { actions = { f; } const default_action = f(); }",
			body: "t.apply(); hdr.h.c = 1;", frames: []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 01 0001 00000000"},
		},
		{
			rule: "12.4: return in a loop of an action", locals: "action f() { for (bit<8> i in 1 .. 9) { hdr.h.b = i; if (i == hdr.h.a) { return; } } hdr.h.c = 1; }",
			body: "f(); hdr.h.d = 1;", frames: []string{"03 00 0000 00000000 -> 03 03 0000 00000001", "20 00 0000 00000000 -> 20 09 0001 00000001"},
		},
		{
			rule: "12.2: an empty statement", body: ";;; if (hdr.h.a == 1) ; else hdr.h.b = 2; ;", frames: []string{"01 00 0000 00000000 -> 01 00 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule: "12.3: nested blocks", body: "{ { bit<8> x = 1; { x = x + 1; hdr.h.a = x; } hdr.h.b = x; } }", frames: []string{"00 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule: "12.6: else if", body: "if (hdr.h.a == 1) { hdr.h.b = 1; } else if (hdr.h.a == 2) { hdr.h.b = 2; } else if (hdr.h.a == 3) hdr.h.b = 3; else { hdr.h.b = 4; }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000", "03 00 0000 00000000 -> 03 03 0000 00000000", "04 00 0000 00000000 -> 04 04 0000 00000000"},
		},
	})
}

// Assignments through l-values of every shape (6.7, 12.1).
func TestRulesOfPlaces(t *testing.T) {
	const top = `
header two_t { bit<8> v; bit<8> w; }
header_union u_t { one_t x; two_t y; }
header bits_t { bit<3> a; bit<13> b; bit<1> c; int<7> d; }
struct deep_t { one_t h; one_t[2] st; u_t u; tuple<bit<8>, pair2_t> q; }
`
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{rule: "12.1: a slice of a slice", top: top, body: "hdr.h.a[7:4][1:0] = 3; hdr.h.b[7:2][5:3][0:0] = 1;", frames: []string{zero + "30 20 0000 00000000"}},
		{rule: "12.1: a slice of the whole", top: top, body: "hdr.h.a[7:0] = 0x5a; hdr.h.c[15:0] = 0x1234;", frames: []string{zero + "5a 00 1234 00000000"}},
		{rule: "12.1: a slice takes its own old bits", top: top, body: "hdr.h.a[7:4] = hdr.h.a[3:0] + hdr.h.a[7:4];", frames: []string{"35 00 0000 00000000 -> 85 00 0000 00000000"}},
		{rule: "12.1: by [l +: w]", top: top, body: "hdr.h.c[4+:8] = 0xff; hdr.h.a = hdr.h.d[8+:8];", frames: []string{"00 00 0000 12345678 -> 56 00 0ff0 12345678"}},
		{rule: "12.1: a slice of a signed field", top: top, body: "bits_t b; b.d = -1; b.d[2:0] = 0; hdr.h.a = (bit<8>)(int<8>)b.d;", frames: []string{zero + "f8 00 0000 00000000"}},
		{rule: "12.1: a slice at the edge of a word", top: top, body: "bit<65> x = 0; x[64:63] = 3; hdr.h.a = (bit<8>)x[64:57]; x[64:64] = 0; hdr.h.b = (bit<8>)x[64:57];", frames: []string{zero + "c0 40 0000 00000000"}},
		{rule: "12.1: a slice of 64 bits across words", top: top, body: "bit<128> x = 0; x[95:32] = 0x0102030405060708; hdr.h.d = x[79:48]; hdr.h.a = x[95:88]; hdr.h.b = x[39:32];", frames: []string{zero + "01 08 0000 03040506"}},
		{rule: "12.1: an element of a tuple of a struct", top: top, body: "deep_t d; d.q[1].y = 5; d.q[0] = 3; hdr.h.a = d.q[0]; hdr.h.b = d.q[1].y + d.q[1].x;", frames: []string{zero + "03 05 0000 00000000"}},
		{rule: "12.1: an element by a variable", top: top, body: "deep_t d; d.st[hdr.h.a] = { 7 }; d.st[hdr.h.a].v = d.st[hdr.h.a].v + 1; hdr.h.b = d.st[0].v; hdr.h.c = 8w0 ++ d.st[1].v;", frames: []string{"00 00 0000 00000000 -> 00 08 0000 00000000", "01 00 0000 00000000 -> 01 00 0008 00000000"}},
		{rule: "12.1: a whole struct with its headers", top: top, body: "deep_t d; deep_t e; e.h = { 1 }; e.st[1] = { 2 }; e.u.y = { 3, 4 }; d.st[0] = { 9 }; d = e; hdr.h.a = d.h.v + d.st[1].v; hdr.h.b = d.st[0].isValid() ? 8w1 : 2; hdr.h.c = d.u.y.v ++ d.u.y.w;", frames: []string{zero + "03 02 0304 00000000"}},
		{rule: "12.1: a struct to itself", top: top, body: "pair2_t p = { 1, 2 }; p = p; hdr.h.a = p.x; hdr.h.b = p.y;", frames: []string{zero + "01 02 0000 00000000"}},
		{rule: "12.1: three fields in turn", top: top, body: "tuple<bit<8>, bit<8>, bit<8>> q = { 1, 2, 3 }; q = { q[1], q[2], q[0] }; hdr.h.a = q[0]; hdr.h.b = q[1]; hdr.h.c = 8w0 ++ q[2];", frames: []string{zero + "02 03 0001 00000000"}},
		{rule: "12.1: a list of what it is assigned to, deep", top: top, body: "deep_t d; d.q = { 1, { 2, 3 } }; d.q = { d.q[1].y, { d.q[0], d.q[1].x } }; hdr.h.a = d.q[0]; hdr.h.b = d.q[1].x; hdr.h.c = 8w0 ++ d.q[1].y;", frames: []string{zero + "03 01 0002 00000000"}},
		{rule: "12.1: a header from a list of its own fields", top: top, body: "two_t x; x = { 1, 2 }; x = { x.w, x.v }; hdr.h.a = x.v; hdr.h.b = x.w;", frames: []string{zero + "02 01 0000 00000000"}},
		{rule: "12.1: a header from a struct expression of its own fields", top: top, body: "two_t x; x = { 1, 2 }; x = (two_t){ w = x.v, v = x.w }; hdr.h.a = x.v; hdr.h.b = x.w;", frames: []string{zero + "02 01 0000 00000000"}},
		{rule: "12.1: a stack from a list of its own elements", top: top, body: "one_t[2] s; s[0] = { 1 }; s[1] = { 2 }; s = { s[1], s[0] }; hdr.h.a = s[0].v; hdr.h.b = s[1].v;", frames: []string{zero + "02 01 0000 00000000"}},
		{rule: "12.1: a choice of itself", top: top, body: "pair2_t p = { 1, 2 }; pair2_t r = { 3, 4 }; p = hdr.h.a == 1 ? r : p; hdr.h.b = p.y;", frames: []string{"01 00 0000 00000000 -> 01 04 0000 00000000", "02 00 0000 00000000 -> 02 02 0000 00000000"}},
		{rule: "12.1: a call that changes what it is assigned to", top: top + "pair2_t f(inout pair2_t p) { p.x = 9; return { p.y, p.x }; }", body: "pair2_t p = { 1, 2 }; p = f(p); hdr.h.a = p.x; hdr.h.b = p.y;", frames: []string{zero + "02 09 0000 00000000"}},
		{rule: "12.1: fields of bits that are no whole bytes", top: top, body: "bits_t b; b = { 5, 0x1abc, 1, -2 }; hdr.h.a = 5w0 ++ b.a; hdr.h.c = 3w0 ++ b.b; hdr.h.b = (bit<8>)(int<8>)b.d; b.b[12:5] = 0; hdr.h.d = 19w0 ++ b.b;", frames: []string{zero + "05 fe 1abc 0000001c"}},
		{rule: "8.20: a union's member by a slice", top: top, body: "u_t u; u.y = { 1, 2 }; u.y.v[7:4] = 0xf; hdr.h.a = u.y.v; hdr.h.b = u.y.isValid() ? 8w1 : 2;", frames: []string{zero + "f1 01 0000 00000000"}},
	})
}
