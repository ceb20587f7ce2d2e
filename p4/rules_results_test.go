package p4

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// What calls give goes where it is wanted, be that a slice, an element by a variable, a union's member, more than a word, or nowhere.
func TestRulesOfWhereResultsGo(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const top = counting + `
header pair_h { bit<8> v; bit<8> w; }
header_union u_t { one_t x; pair_h y; }
`
	exchangeAll(t, []frameRule{
		{
			rule: "9.1: a size as a statement", locals: "one_t o;",
			body: "o.minSizeInBits(); hdr.h.a = (bit<8>)o.maxSizeInBytes();", frames: []string{zero + "01 00 0000 00000000"},
		},
		{
			rule: "9.1: a size of a variable's part", locals: "one_t[3] st; tuple<bit<8>, bit<20>> q;",
			body: "hdr.h.a = (bit<8>)st.minSizeInBits(); hdr.h.b = (bit<8>)q.minSizeInBits(); hdr.h.c = (bit<16>)q.maxSizeInBytes();", frames: []string{zero + "18 1c 0004 00000000"},
		},
		{
			rule: "18.1: a static assertion as a statement, and as a value",
			body: "static_assert(1 + 1 == 2); bool q = static_assert(bit<9>.minSizeInBits() == 9); hdr.h.a = q ? 8w1 : 2;", frames: []string{zero + "01 00 0000 00000000"},
		},
		{
			rule: "8.17: isValid as a statement evaluates its index", top: counting, locals: "one_t[2] st;",
			body: "st[add(hdr.h.a, 1)].isValid(); st[add(hdr.h.a, 1)].isValid();", frames: []string{zero + "02 00 0000 00000000"},
		},
		{
			rule: "10: a function's value that is dropped, in an argument", top: counting, locals: "register<bit<8>>(4) r; Checksum16() sum;",
			body: "bit<8> x; r.read(x, (bit<32>)add(hdr.h.a, 1)); r.read(_, (bit<32>)add(hdr.h.a, 1)); sum.get({ add(hdr.h.a, 1) });", frames: []string{zero + "03 00 0000 00000000"},
		},
		{
			rule: "8.17: isValid of an element by a call", top: counting, locals: "one_t[2] st;",
			body: "st[1] = { 5 }; hdr.h.b = st[add(hdr.h.a, 1)].isValid() ? 8w1 : 2;", frames: []string{zero + "01 01 0000 00000000", "01 00 0000 00000000 -> 02 02 0000 00000000"},
		},
		{
			rule: "8.26: ... for a number, a slice and a bool", body: "bool q = true; hdr.h.a = ...; hdr.h.c[7:4] = ...; q = ...; hdr.h.b = q ? 8w1 : 2;",
			frames: []string{"ff ff ffff 00000000 -> 00 02 ff0f 00000000"},
		},
		{
			rule: "8.26: ... for more than a word, and a part of it", body: "bit<72> x = hdr.h.s; x[71:64] = ...; hdr.h.a = x[71:64]; hdr.h.b = x[63:56]; x = ...; hdr.h.c = x[15:0];",
			frames: []string{zero + "00 32 0000 00000000"},
		},
		{
			rule: "8.26: ... as an argument", top: counting, body: "hdr.h.a = add(hdr.h.b, ...);", frames: []string{"00 05 0000 00000000 -> 05 05 0000 00000000"},
		},
		{
			rule: "8.26: ... in a choice", body: "hdr.h.a = hdr.h.b == 1 ? ... : 8w7;", frames: []string{"09 01 0000 00000000 -> 00 01 0000 00000000", "09 02 0000 00000000 -> 07 02 0000 00000000"},
		},
		{
			rule: "8.19.1: a stack that is a constant", top: "const one_t[2] k = { { 3 }, { 4 } };", locals: "one_t[2] st;",
			body: "st = k; hdr.h.a = st[0].v; hdr.h.b = st[1].v; st = k; hdr.h.c = st[1].isValid() ? 16w1 : 2;", frames: []string{zero + "03 04 0001 00000000"},
		},
		{
			rule: "8.17: a struct of a header that is a constant", top: "struct k_t { bit<8> n; one_t h; } const k_t k = { 1, { 2 } }; const k_t l = { 3, {#} };",
			body: "k_t x = k; hdr.h.a = x.h.isValid() ? x.h.v : 9; x = l; hdr.h.b = x.h.isValid() ? x.h.v : 9; hdr.h.c = 8w0 ++ x.n;", frames: []string{zero + "02 09 0003 00000000"},
		},
		{
			rule: "8.8: a choice of literals where a width is wanted", body: "hdr.h.a = hdr.h.b == 1 ? 5 : -3;", frames: []string{"00 01 0000 00000000 -> 05 01 0000 00000000", "00 02 0000 00000000 -> fd 02 0000 00000000"},
		},
		{
			rule: "8.8: a choice of literals as an argument", top: counting, body: "hdr.h.a = add(hdr.h.b, hdr.h.b == 1 ? 5 : 7);", frames: []string{"00 01 0000 00000000 -> 06 06 0000 00000000", "00 02 0000 00000000 -> 09 09 0000 00000000"},
		},
		{
			rule: "8.8: a number without a width of a field", body: "hdr.h.c = (bit<16>)((int)hdr.h.a * 3 - (int)hdr.h.b); hdr.h.d = (bit<32>)(-(int)hdr.h.a);",
			frames: []string{"ff 01 0000 00000000 -> ff 01 02fc ffffff01"},
		},
		{
			rule: "8.8: a comparison of numbers without a width", body: "hdr.h.c = (int)hdr.h.a + (int)hdr.h.b > 255 ? 16w1 : 2;", frames: []string{"ff 01 0000 00000000 -> ff 01 0001 00000000", "ff 00 0000 00000000 -> ff 00 0002 00000000"},
		},
		{
			rule: "12.8: a loop over a list of none", body: "for (bit<8> i in { }) { hdr.h.a = 9; } hdr.h.b = 1;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "12.8: a loop over constants", body: "for (bit<8> i in { 3, 5, 7 }) { hdr.h.a = hdr.h.a + i; }", frames: []string{zero + "0f 00 0000 00000000"},
		},
		{
			rule: "12.8: a loop over structs", body: "for (pair_t p in { { 1, 2 }, { y = 4, x = 3 } }) { hdr.h.a = hdr.h.a + p.x; hdr.h.c = hdr.h.c + p.y; }", frames: []string{zero + "04 00 0006 00000000"},
		},
		{
			rule: "12.8: a loop over numbers of more than a word", body: "for (bit<72> x in { hdr.h.s, 72w5 << 64 }) { hdr.h.a = hdr.h.a + x[71:64]; }", frames: []string{zero + "36 00 0000 00000000"},
		},
		{
			rule: "12.8: a loop over a stack", locals: "one_t[3] st;", body: "st[0] = { 1 }; st[2] = { 4 }; for (one_t h in st) { if (h.isValid()) { hdr.h.a = hdr.h.a + h.v; } else { hdr.h.b = hdr.h.b + 1; } }",
			frames: []string{zero + "05 01 0000 00000000"},
		},
		{
			rule: "12.8: a loop over a list that is a constant", top: "const list<bit<8>> k = { 1, 2, 4 }; const list<pair2_t> l = { { 1, 2 }, { 3, 4 } };",
			body: "for (bit<8> x in k) { hdr.h.a = hdr.h.a + x; } for (pair2_t p in l) { hdr.h.b = hdr.h.b + p.y; }", frames: []string{zero + "07 06 0000 00000000"},
		},
		{
			rule: "12.8: a loop over a stack that is a constant", top: "const one_t[2] k = { { 1 }, { 2 } };", body: "for (one_t x in k) { hdr.h.a = hdr.h.a + x.v; }", frames: []string{zero + "03 00 0000 00000000"},
		},
		{
			rule: "12.8: a loop over the stack that a call gives", top: "struct k_t { one_t[2] s; } k_t f(inout bit<8> x) { k_t k; k.s = { { x }, { x + 1 } }; x = 9; return k; }",
			body: "for (one_t x in f(hdr.h.b).s) { hdr.h.a = hdr.h.a + x.v; }", frames: []string{"00 05 0000 00000000 -> 0b 09 0000 00000000"},
		},
		{
			rule: "12.8: the first statement of a loop leaves", top: "bit<8> gone(in bit<8> x) { return x; }", locals: "action leave(inout bit<8> x) { x = 7; exit; }",
			body: "for (bit<8> i = 0; i < 3; leave(hdr.h.a)) { hdr.h.b = hdr.h.b + 1; } hdr.h.c = 9;", frames: []string{zero + "07 01 0000 00000000"},
		},
		{
			rule: "7.2.2: a header of a struct and a tuple of bits", top: "struct in_t { bit<3> a; bool b; } header nest_h { in_t i; bit<4> r; }", locals: "nest_h n;",
			body: "n = { { 5, true }, 0xa }; hdr.h.a = 5w0 ++ n.i.a; hdr.h.b = n.i.b ? 8w1 : 2; n.i = { 2, false }; hdr.h.c = n == { { 2, false }, 0xa } ? 16w1 : 2; hash(hdr.h.d, HashAlgorithm.identity, 32w0, { n }, 64w0x100000000);", frames: []string{zero + "05 01 0001 0000004a"},
		},
		{
			rule: "v1model: Checksum16", locals: "Checksum16() sum;", body: "hdr.h.c = sum.get({ 16w0x0001, 16w0xf203, 16w0xf4f5, 16w0xf6f7 }); sum.get({ hdr.h.a });", frames: []string{zero + "00 00 220d 00000000"},
		},
		{
			rule: "v1model: a direct counter", locals: "direct_counter(CounterType.packets) n; action a() { n.count(); hdr.h.b = 1; } table t { key = { hdr.h.a: exact; } actions = { a; } counters = n; const default_action = a(); }", body: "t.apply();", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "v1model: random into _ and into a slice", body: "random(_, 8w1, 8w2); random<bit<4>>(hdr.h.a[7:4], 5, 5); random<bit<72>>(hdr.h.s, 7, 7); hdr.h.b = hdr.h.s[7:0]; hdr.h.s = 0x313233343536373839;", frames: []string{"01 00 0000 00000000 -> 51 07 0000 00000000"},
		},
		{
			rule: "v1model: a hash into an element by a variable", locals: "one_t[2] st;", body: "st[1] = { 0 }; hash(st[hdr.h.a].v, HashAlgorithm.identity, 8w1, { 8w4 }, 16w256); hdr.h.b = st[1].v;", frames: []string{"01 00 0000 00000000 -> 01 05 0000 00000000"},
		},
		{
			rule: "v1model: an assumption that does not hold", body: "assume(hdr.h.a == 1); hdr.h.b = 1;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "v1model: a digest does not touch the packet", body: "digest<pair_t>(1, { hdr.h.a, hdr.h.c }); digest(1, hdr.h.a); hdr.h.b = 1;", frames: []string{zero + "00 01 0000 00000000"},
		},
		{
			rule: "8.20: a union's member from a call", top: top + "pair_h make(in bit<8> x) { pair_h h; h = { x, x + 1 }; return h; }", locals: "u_t u;",
			body: "u.x = { 9 }; u.y = make(hdr.h.a); hdr.h.b = u.y.w; hdr.h.c = u.x.isValid() ? 16w1 : 2;", frames: []string{"05 00 0000 00000000 -> 05 06 0002 00000000"},
		},
	})
}

// What the methods of TNA's objects give goes to the same places.
func TestRulesOfWhereTNAResultsGo(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const up = "RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> rv) { v = v + 1; rv = v; } };"
	for _, c := range []struct {
		rule, locals, body, entries string
		frames                      []string
	}{
		{"Register.read into a slice", "Register<bit<4>, bit<8>>(2, 7) r;", "hdr.h.a[7:4] = r.read(0);", "", []string{"01 00 0000 00000000 -> 71 00 0000 00000000"}},
		{"Register.read into a slice that the packet begins", "Register<bit<4>, bit<8>>(2, 7) r;", "hdr.h.c[hdr.h.b+:4] = r.read(0);", "", []string{"00 08 0000 00000000 -> 00 08 0700 00000000"}},
		{"Register.read into an element", "Register<bit<8>, bit<8>>(2, 7) r; one_t[2] st;", "st[1] = { 0 }; st[hdr.h.a].v = r.read(0); hdr.h.b = st[1].v;", "", []string{"01 00 0000 00000000 -> 01 07 0000 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"}},
		{"Register.read within a sum", "Register<bit<8>, bit<8>>(2, 7) r;", "hdr.h.a = r.read(0) + r.read(1) * 2;", "", []string{zero + "15 00 0000 00000000"}},
		{"Register.read of more than a word", "Register<bit<72>, bit<8>>(2, 5) r;", "bit<72> x = r.read(0); hdr.h.a = x[7:0]; r.write(0, hdr.h.s); x = r.read(0); hdr.h.b = x[71:64];", "", []string{zero + "05 31 0000 00000000"}},
		{"Register.read in a condition", "Register<bit<8>, bit<8>>(2, 7) r;", "if (r.read(0) == 7) { hdr.h.a = 1; }", "", []string{zero + "01 00 0000 00000000"}},
		{"Register.read as an argument", "Register<bit<8>, bit<8>>(2, 7) r;", "hdr.h.a = min(r.read(0), 8w5);", "", []string{zero + "05 00 0000 00000000"}},
		{"Register.read as a statement evaluates its index", "Register<bit<8>, bit<8>>(2, 7) r; Register<bit<8>, bit<8>>(4) q; RegisterAction<bit<8>, bit<8>, bit<8>>(q) up = { void apply(inout bit<8> v, out bit<8> rv) { v = v + 1; rv = v; } };", "r.read(up.execute(0)); hdr.h.a = q.read(0);", "", []string{zero + "01 00 0000 00000000"}},
		{"Register.read that is compared with itself", "Register<bit<8>, bit<8>>(2, 7) r; " + up, "hdr.h.a = up.execute(0) == r.read(0) ? 8w1 : 2;", "", []string{zero + "01 00 0000 00000000"}},
		{"RegisterParam that is not wanted", "RegisterParam<bit<8>>(5) k;", "k.read(); hdr.h.a = 1;", "", []string{zero + "01 00 0000 00000000"}},
		{"RegisterParam into a slice", "RegisterParam<bit<4>>(5) k;", "hdr.h.a[3:0] = k.read();", "", []string{"10 00 0000 00000000 -> 15 00 0000 00000000"}},
		{"RegisterAction into a slice", "Register<bit<4>, bit<8>>(2, 7) r; RegisterAction<bit<4>, bit<8>, bit<4>>(r) up = { void apply(inout bit<4> v, out bit<4> rv) { v = v + 1; rv = v; } };", "hdr.h.a[7:4] = up.execute(0);", "", []string{"01 00 0000 00000000 -> 81 00 0000 00000000"}},
		{"RegisterAction whose index another executes", "Register<bit<8>, bit<8>>(4) r; " + up, "hdr.h.a = up.execute(up.execute(up.execute(0)));", "", []string{zero + "02 00 0000 00000000", zero + "03 00 0000 00000000"}},
		{"RegisterAction on both sides of an operator", "Register<bit<8>, bit<8>>(1) r; " + up, "hdr.h.a = up.execute(0) - up.execute(0);", "", []string{zero + "ff 00 0000 00000000"}},
		{"RegisterAction of a struct", "Register<pair_t, bit<8>>(1) r; RegisterAction<pair_t, bit<8>, bit<16>>(r) up = { void apply(inout pair_t v, out bit<16> rv) { v.x = v.x + 1; if (v.x > 1) { v.y = v.y + (8w0 ++ v.x); } rv = v.y; } };", "hdr.h.c = up.execute(0);", "", []string{zero + "00 00 0000 00000000", zero + "00 00 0002 00000000", zero + "00 00 0005 00000000"}},
		{"RegisterAction beyond the end", "Register<bit<8>, bit<8>>(2, 7) r; " + up, "hdr.h.b = up.execute(hdr.h.a); hdr.h.c = 8w0 ++ up.execute(1);", "", []string{"02 00 0000 00000000 -> 02 01 0008 00000000", "01 00 0000 00000000 -> 01 09 000a 00000000"}},
		{"RegisterAction without a result", "Register<bit<8>, bit<8>>(1) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v) { v = v + 1; } };", "up.execute(0); hdr.h.a = r.read(0);", "", []string{zero + "01 00 0000 00000000", zero + "02 00 0000 00000000"}},
		{"Meter into a narrow variable", "Meter<bit<8>>(1, MeterType_t.PACKETS) y;", "hdr.h.a[1:0] = (bit<2>)y.execute(0);", "", []string{"ff 00 0000 00000000 -> fc 00 0000 00000000"}},
		{"Lpf without a setting gives the value", "Lpf<bit<32>, bit<8>>(2) f; DirectLpf<bit<32>>() g; action a() { hdr.h.c = g.execute(hdr.h.d)[15:0]; } table t { key = { hdr.h.a: exact; } actions = { a; } filters = g; const default_action = a(); }", "hdr.h.b = f.execute(hdr.h.d, 1)[7:0]; t.apply();", "", []string{"00 00 0000 00000105 -> 00 05 0105 00000105"}},
		{"DirectCounter counts what its table does", "DirectCounter<bit<32>>(CounterType_t.PACKETS_AND_BYTES) n; action a() { n.count(); hdr.h.b = 1; } table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } counters = n; const default_action = a(); }", "t.apply();", "add t hdr.h.a:1 a()", []string{zero + "00 01 0000 00000000", "01 00 0000 00000000 -> 01 01 0000 00000000"}},
		{"DirectRegister of an entry each", "DirectRegister<bit<8>>(3) r; DirectRegisterAction<bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> rv) { rv = v; v = v + 1; } }; action a() { hdr.h.b = up.execute(); } table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } registers = r; const default_action = NoAction(); }", "t.apply();", "add t hdr.h.a:1 a()\nadd t hdr.h.a:2 a()", []string{"01 00 0000 00000000 -> 01 03 0000 00000000", "01 00 0000 00000000 -> 01 04 0000 00000000", "02 00 0000 00000000 -> 02 03 0000 00000000", "01 00 0000 00000000 -> 01 05 0000 00000000", "09 00 0000 00000000 -> 09 00 0000 00000000"}},
		{"Hash in a condition", "Hash<bit<8>>(HashAlgorithm_t.IDENTITY) h;", "if (h.get({ hdr.h.a }) == 5) { hdr.h.b = 1; }", "", []string{"05 00 0000 00000000 -> 05 01 0000 00000000"}},
		{"Hash of calls in their order", "Hash<bit<16>>(HashAlgorithm_t.IDENTITY) h; Register<bit<8>, bit<8>>(1) r; " + up, "hdr.h.c = h.get({ up.execute(0), up.execute(0) });", "", []string{zero + "00 00 0102 00000000"}},
		{"min of results", "Register<bit<8>, bit<8>>(1) r; " + up, "hdr.h.a = min(up.execute(0), up.execute(0)); max(hdr.h.a, hdr.h.b);", "", []string{zero + "01 00 0000 00000000"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			pl := loadText(t, tnaText("", tnaStart, c.locals, c.body)).New()
			if err := stf.Configure(pl, "t", []byte(c.entries)); err != nil {
				t.Fatal(err)
			}
			exchange(t, pl, c.frames...)
		})
	}
}

// Register actions of Tofino 2 give up to four results: the first is the call's value, the others go to its arguments.
func TestRulesOfSeveralResults(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const two = "Register<bit<8>, bit<8>>(4, 5) r; RegisterAction2<bit<8>, bit<8>, bit<8>, bit<16>>(r) up = { void apply(inout bit<8> v, out bit<8> x, out bit<16> y) { v = v + 1; x = v; y = 8w0 ++ v << 8; } }; "
	const four = "Register<bit<8>, bit<8>>(4, 5) r; RegisterAction4<bit<8>, bit<8>, bit<8>, bit<8>, bit<16>, bit<32>>(r) up = { void apply(inout bit<8> v, out bit<8> x, out bit<8> y, out bit<16> z, out bit<32> w) { x = v; y = v + 1; z = 9; if (v == 6) { w = 7; } v = v + 1; } }; "
	const same = "Register<bit<8>, bit<8>>(4, 5) r; RegisterAction<bit<8>, bit<8>, bit<8>>(r) up = { void apply(inout bit<8> v, out bit<8> x, out bit<8> y) { v = v + 1; x = v; y = v + 1; } }; "
	const direct = "DirectRegister<bit<8>>(5) r; DirectRegisterAction2<bit<8>, bit<8>, bit<16>>(r) up = { void apply(inout bit<8> v, out bit<8> x, out bit<16> y) { v = v + 1; x = v; y = 9; } }; " +
		"action a() { hdr.h.b = up.execute(hdr.h.c); } table t { key = { hdr.h.a: exact; } actions = { a; NoAction; } registers = r; const entries = { 1: a(); 2: a(); } const default_action = NoAction(); } "
	for _, c := range []struct {
		rule, locals, body string
		frames             []string
	}{
		{"two results", two, "hdr.h.a = up.execute(0, hdr.h.c);", []string{zero + "06 00 0600 00000000", zero + "07 00 0700 00000000"}},
		{"the second is not wanted", two, "hdr.h.a = up.execute(0, _);", []string{zero + "06 00 0000 00000000"}},
		{"the first is not wanted", two, "up.execute(0, hdr.h.c);", []string{zero + "00 00 0600 00000000"}},
		{"the index that the packet gives", two, "hdr.h.a = up.execute(hdr.h.b, hdr.h.c);", []string{"00 03 0000 00000000 -> 06 03 0600 00000000"}},
		{"an index that the first result changes", two, "hdr.h.b = up.execute(hdr.h.b, hdr.h.c); hdr.h.a = r.read(2);", []string{"00 02 0000 00000000 -> 06 06 0600 00000000"}},
		{"the second into a slice", two, "hdr.h.a = up.execute(0, hdr.h.d[23:8]);", []string{"00 00 0000 ffffffff -> 06 00 0000 ff0600ff"}},
		{"the second into a slice that the packet begins", two, "hdr.h.a = up.execute(0, hdr.h.d[hdr.h.b+:16]);", []string{"00 04 0000 00000000 -> 06 04 0000 00006000"}},
		{"the second by name", two, "hdr.h.a = up.execute(rv2 = hdr.h.c, index = 1);", []string{zero + "06 00 0600 00000000"}},
		{"beyond the end", two, "hdr.h.a = up.execute(hdr.h.b, hdr.h.c);", []string{"00 09 0000 00000000 -> 01 09 0100 00000000", "00 09 0000 00000000 -> 01 09 0100 00000000"}},
		{"both within an expression", two, "hdr.h.a = up.execute(0, hdr.h.c) + hdr.h.c[15:8];", []string{zero + "0c 00 0600 00000000"}},
		{"four results, of which one is not always given", four, "hdr.h.a = up.execute(0, hdr.h.b, hdr.h.c, hdr.h.d);", []string{"00 00 0000 ffffffff -> 05 06 0009 00000000", "00 00 0000 ffffffff -> 06 07 0009 00000007"}},
		{"four results into one variable, the last stays", four, "up.execute(0, hdr.h.a, hdr.h.c, hdr.h.d); up.execute(0, hdr.h.a, _, _);", []string{zero + "07 00 0009 00000000"}},
		{"two results of one type", same, "hdr.h.a = up.execute(0, hdr.h.b);", []string{zero + "06 07 0000 00000000"}},
		{"two results of one type, the second left out", same, "hdr.h.a = up.execute(0);", []string{zero + "06 00 0000 00000000"}},
		{"of the register of an entry", direct, "t.apply();", []string{"01 00 0000 00000000 -> 01 06 0009 00000000", "01 00 0000 00000000 -> 01 07 0009 00000000", "02 00 0000 00000000 -> 02 06 0009 00000000", "03 00 0000 00000000 -> 03 00 0000 00000000"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			exchange(t, loadText(t, strings.Replace(tnaText("", tnaStart, c.locals, c.body), "tna.p4", "t2na.p4", 1)).New(), c.frames...)
		})
	}
}

// Priorities by BMv2's annotation: the least wins, and an entry without one has its position.
func TestRulesOfAnnotatedPriorities(t *testing.T) {
	const dflt = " actions = { set; } const default_action = set(0xff);"
	for _, r := range []tableRule{
		{
			rule:   "the least wins",
			table:  "key = { hdr.h.a: ternary; }" + dflt + " const entries = { 1 &&& 1: set(1) @priority(5); 3 &&& 3: set(2) @priority(3); 7 &&& 7: set(3) @priority(9); }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "03 00 0000 00000000 -> 03 02 0000 00000000", "07 00 0000 00000000 -> 07 02 0000 00000000"},
		},
		{
			rule:   "one without has its position",
			table:  "key = { hdr.h.a: ternary; }" + dflt + " const entries = { 1 &&& 1: set(1); 3 &&& 3: set(2) @priority(9); 7 &&& 7: set(3); _: set(4) @priority(1); }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0000 00000000", "02 00 0000 00000000 -> 02 04 0000 00000000", "07 00 0000 00000000 -> 07 01 0000 00000000"},
		},
	} {
		t.Run(r.rule, r.holds)
	}
}
