package check

import "testing"

// What p4c takes beside the specification passes with a warning.
func TestWarnings(t *testing.T) {
	const head = "#include <core.p4>\n#include <v1model.p4>\ntype bit<9> port_t;\nstruct s_t { port_t p; bit<9> q; }\n"
	for _, c := range []struct{ src, want string }{
		{"const port_t x = 3;", "t.p4:5:18: warning: a literal becomes a port_t without a cast: write (port_t)"},
		{"control c(inout s_t s) { apply { s.p = 3; } }", "t.p4:5:40: warning: a literal becomes a port_t without a cast: write (port_t)"},
		{"control c(inout s_t s) { apply { s = { 1, 2 }; } }", "t.p4:5:40: warning: a literal becomes a port_t without a cast: write (port_t)"},
		{"const port_t x = (port_t)3;", ""},
		{"#port 3", "t.p4:5:1: warning: no preprocessor directive is called #port: the line is left out"},
	} {
		p, err := load(head+c.src+"\n", Options{NoMain: true})
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		got := ""
		for _, w := range p.Warnings {
			got += w.String()
		}
		if got != c.want {
			t.Errorf("%s: warnings are %q, want %q", c.src, got, c.want)
		}
	}
}

// What a program for Tofino may say.
func TestAcceptsTofino(t *testing.T) {
	const head = "#include <core.p4>\n#include <tna.p4>\nstruct pair_t { bit<32> a; bit<32> b; }\n"
	for _, src := range []string{
		"control c(inout bit<32> x, inout bit<8> i) { Register<pair_t, _>(8) r; RegisterAction<pair_t, bit<8>, bit<32>>(r) a = { void apply(inout pair_t v, out bit<32> o) { o = v.b; } }; apply { x = a.execute(i); } }",
		"control c(inout bit<32> x, inout bit<8> i) { Register<bit<32>, bit<16>>(8) r; RegisterAction<bit<32>, bit<8>, bit<32>>(r) a = { void apply(inout bit<32> v) { v = 1; } }; apply { x = a.execute(i); } }",
		"control c(inout bit<32> x, inout bit<8> i)(Register<bit<32>, _> r) { RegisterAction<bit<32>, bit<8>, bit<32>>(r) a = { void apply(inout bit<32> v) { v = 1; } }; apply { x = a.execute(i); } } control d(inout bit<32> x, inout bit<8> i) { Register<bit<32>, bit<8>>(8) r; c(r) cc; apply { cc.apply(x, i); } }",
		"control c(inout bit<32> x, inout pair_t p) { Counter<bit<32>, bit<9>>(4, CounterType_t.BYTES) n; apply { n.count(1, sizeInBytes(p)); n.count(2, adjust_byte_count = sizeInBits(p)); } }",
		"control c(inout bit<8> x) { Meter<bit<9>>(4, MeterType_t.BYTES) m; apply { x = m.execute(1); x = m.execute(1, MeterColor_t.GREEN, 4); x = m.execute(index = 1, color = MeterColor_t.RED); } }",
	} {
		if _, err := load(head+src, Options{NoMain: true}); err != nil {
			t.Errorf("%s:\n%v", src, err)
		}
	}
}

// An object may leave the type of an index open: then it is that of what it is called with, as Tofino's SDE has it, with a warning.
func TestOpenIndex(t *testing.T) {
	const src = `#include <core.p4>
#include <tna.p4>
control c(inout bit<32> x, inout bit<8> i) {
    Register<bit<32>, _>(8) r;
    RegisterAction<bit<32>, _, bit<32>>(r) a = { void apply(inout bit<32> v, out bit<32> o) { o = v; } };
    Counter<bit<32>, _>(8, CounterType_t.PACKETS) n;
    apply {
        x = a.execute(0);
        x = a.execute(i);
        n.count(3);
        r.write(i, 5);
        x = r.read(1);
    }
}
`
	p, err := load(src, Options{NoMain: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = " has no type, which p4test refuses since March 2023: write it in place of _ where the object is declared"
	for i, where := range []string{
		"8:23: warning: the argument for index of execute", "9:23: warning: the argument for index of execute", "10:17: warning: the argument for index of count",
		"11:17: warning: the argument for index of write", "12:20: warning: the argument for index of read",
	} {
		if i >= len(p.Warnings) || p.Warnings[i].String() != "t.p4:"+where+want {
			t.Errorf("warnings are %q, expected as number %d %q", p.Warnings, i, where+want)
		}
	}
}

// Programs that are allowed, though they are near to forbidden ones.
func TestAccepts(t *testing.T) {
	const head = `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
header g_t { bit<16> b; }
struct s_t { bit<8> f; h_t h; h_t[2] hs; }
struct pair_t<A, B> { A first; B second; }
enum plain_t { X, Y }
enum bit<8> coded_t { X = 1, Y = 2 }
type bit<9> port_t;
`
	for _, src := range []string{
		// Types.
		"const bit<0> x = 0;",
		"const bit<65536> x = 0;",
		"const bit<(3 + 5)> x = 255;",
		"const int w = 4; const bit<w> x = 15;",
		"const int w = 4; const bit<w - 1> x = 7; const bit<2 * w> y = 255; const bit<(w > 3 ? 2 : 1) + 1> z = 3; const bit<w << 1> v = 1;",
		"const bit<9> p = 3; const int x = p + 1;",
		"typedef bit<8> t0; typedef t0 t1; const t1 x = (t0)1;",
		"typedef pair_t<bit<8>, bool> p_t; const p_t x = { 1, true };",
		"typedef pair_t<pair_t<bit<8>, bool>, bit<16>> p_t; const p_t x = { { 1, true }, 2 };",
		"const tuple<bit<8>, tuple<bool, bit<4>>> x = { 1, { true, 15 } };",
		"header_union u_t { h_t h; g_t g; } struct t0 { u_t[3] us; }",
		"header v_t { bit<8> n; varbit<320> v; }",
		"struct in_t { bit<3> a; bit<5> b; } header o_t { in_t i; coded_t c; bool b; }",
		"type port_t inner_t; const inner_t x = (inner_t)(port_t)9w3;",
		"const list<tuple<bit<8>, bool>> x = { { 1, true }, { 2, false } };",
		// Names.
		"const bit<8> x = 1; bit<8> f(in bit<8> y) { bit<8> x = y; { bit<8> x = y; return x; } }",
		"const bit<8> k = 1; bit<8> f(in bit<8> k) { return .k + k; }",
		"control c(inout s_t key) { apply { key.f = 1; } }",
		"struct apply_t { bit<8> state; bit<8> entries; bit<8> type; }",
		// Constants.
		"const int x = 1 << 1000;",
		"bit<8> f(in bit<8> x) { return x / 4 + x % 16 + 7 / 2; }",
		"const bit<8> x = 300;",
		"const int<8> x = -128;",
		"const bool x = 1 == 8w1 && 3 > 2 || false;",
		"const bit<8> x = coded_t.X + 1;",
		"const coded_t x = (coded_t)8w7;",
		"const bool x = plain_t.X == plain_t.Y;",
		"const bool x = error.NoError != error.NoMatch;",
		"const bit<16> x = 8w1 ++ 4s3 ++ 4w2;",
		"const bit<4> x = 0xabcd[15:12];",
		"const bool b = static_assert(bit<9>.minSizeInBytes() == 2, \"two bytes\");",
		"const bool b = static_assert(pair_t<bit<4>, bit<12>>.maxSizeInBits() == 16);",
		"const s_t x = { 1, ... };",
		"const s_t x = { f = 1, ... };",
		"const h_t x = (h_t){#};",
		"const pair_t<bit<8>, bit<8>> x = { second = 1, first = 2 };",
		// Calls.
		"bit<8> f(in bit<8> a, in bit<8> b = 2) { return a + b; } bit<8> g() { return f(1) + f(b = 1, a = 2) + f(1, 2); }",
		"bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> a, in bit<8> b) { return a + b; } bit<8> g() { return f(1) + f(1, 2); }",
		"bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> b) { return b; } bit<8> g() { return f(b = 1); }",
		"T id<T>(in T x) { return x; } bit<8> g() { return id(8w1) + id<bit<8>>(1); }",
		"T id<T>(in T x) { return x; } s_t g(in s_t s) { return id(id(s)); }",
		"A first<A, B>(in A a, in B b) { return a; } bit<8> g() { return first<_, bit<4>>(8w1, 2); }",
		"void f(out bit<8> x) { x = 1; } void g() { f(_); }",
		"void swap<T>(inout T a, inout T b) { T c = a; a = b; b = c; } void g(inout s_t s) { swap(s.hs[0], s.hs[1]); swap(s.f[3:0], s.f[7:4]); }",
		"void f(in pair_t<bit<8>, bit<16>> p) { } void g() { f({ 1, 2 }); f({ second = 2, first = 1 }); }",
		"void f<T>(in pair_t<T, bit<16>> p) { } void g() { f({ 8w1, 2 }); f({ first = 8w1, second = 2 }); }",
		"void f<T>(in tuple<T, T> p) { } void g() { f({ 8w1, 8w2 }); }",
		"extern T any<T>(); bit<8> g() { bit<8> x = any(); return x + any<bit<8>>(); }",
		"extern bit<8> ext(@optional in bit<8> a, in bit<8> b = 1); bit<8> g() { return ext() + ext(1) + ext(b = 2); }",
		// Objects.
		"control c(inout s_t s) { register<pair_t<bit<8>, bool>>(4) r; apply { pair_t<bit<8>, bool> p; r.read(p, 1); r.write(2, p); } }",
		"typedef register<bit<8>> reg_t; control c(inout s_t s) { reg_t(4) r; apply { r.read(s.f, 0); } }",
		"control d(inout bit<8> x)(bit<8> n, register<bit<8>> r) { apply { x = x + n; r.write(0, x); } } control c(inout s_t s) { register<bit<8>>(1) r; d(1, r) a; d(r = r, n = 2) b; apply { a.apply(s.f); b.apply(s.h.a); } }",
		"control d(inout bit<8> x) { apply { x = 1; } } control c(inout s_t s) { apply { d.apply(s.f); d.apply(x = s.h.a); } }",
		"extern X<T> { X(); X(T start); void put<U>(in T a, in U b); T get(); } control c(inout s_t s) { X<bit<8>>() a; X(8w1) b; apply { a.put(1, s.h); b.put<bit<4>>(2, 3); s.f = b.get(); } }",
		"extern X { X(); abstract bit<8> m(in bit<8> a); @optional abstract void n(); } control c(inout s_t s) { X() x = { bit<8> m(in bit<8> a) { return a + 1; } }; apply { } }",
		"extern X { X(); abstract void m(inout bit<8> a, @optional out bit<8> b); } control c(inout s_t s) { X() x = { void m(inout bit<8> a) { a = 1; } }; X() y = { void m(inout bit<8> a, out bit<8> b) { b = a; } }; apply { } }",
		// Parsers.
		"parser p(packet_in b, out s_t s) { state start { transition select(b.lookahead<bit<16>>()[15:8], s.f) { (1, _): more; (2 .. 4, 5 &&& 7): accept; default: reject; } } state more { b.extract(s.hs.next); b.extract(s.hs.next); s.f = s.hs.last.a + (bit<8>)s.hs.lastIndex; transition start; } }",
		"parser p(packet_in b, out s_t s) { state start { if (s.f == 1) { b.extract(s.h); } else { b.advance(8); } verify(s.f != 2, error.HeaderTooShort); transition accept; } }",
		"struct key_t { bit<8> a; bit<8> b; } parser p(packet_in b, out s_t s) { value_set<key_t>(4) vs; value_set<bit<8>>(2) one; state start { transition select(s.f, s.h.a) { vs: accept; default: more; } } state more { transition select(s.f) { one: accept; } } }",
		"parser q(packet_in b, out h_t h) { state start { b.extract(h); transition accept; } } parser p(packet_in b, out s_t s) { q() sub; state start { sub.apply(b, s.h); q.apply(b, s.hs.next); transition accept; } }",
		"parser p(packet_in b, out coded_t c) { state start { transition select(c) { coded_t.X: accept; coded_t.Y: reject; } } }",
		// Statements.
		"control c(inout s_t s) { apply { switch (s.f) { 1: 2: { s.f = 3; } 4: { } default: { } } } }",
		"bit<8> f(in bit<8> x) { switch (x) { 1: { return 1; } default: { return 2; } } }",
		"control c(inout s_t s) { action a() { switch (s.f) { 1: { s.f = 2; } } } apply { a(); } }",
		"control c(inout s_t s) { apply { for (bit<8> i in 1 .. 3) { for (h_t x in s.hs) { if (x.a == i) break; else continue; } } } }",
		"control c(inout s_t s) { apply { for (bit<8> i = 0, bit<8> j = 9; i < j; i += 1, j -= 1) { s.f ^= i; } } }",
		"control c(inout s_t s) { apply { s.f[3:0] = s.f[7:4]; s.f[4+:4] = 3; s.h = s.hs[s.f]; s.hs[s.f + 1].a |+|= 2; } }",
		"control c(inout s_t s) { apply { s.h = { 1 }; s.h = (h_t){ a = 2 }; s.hs = { { 1 }, { 2 } }; s = { 1, { 2 }, { { 3 }, (h_t){#} } }; } }",
		"control c(inout s_t s) { action a() { if (s.f == 1) { exit; } return; } apply { a(); } }",
		// Tables.
		"control c(inout s_t s) { table t { actions = { NoAction; } } table u { key = { t.apply().hit: exact @name(\"hit\"); } actions = { NoAction; } } apply { u.apply(); } }",
		"control c(inout s_t s) { table t { key = { s.f: exact; } actions = { NoAction; } const entries = { { 1 }: NoAction(); {2}: NoAction(); } } apply { t.apply(); } }",
		"control c() { table t { actions = { NoAction; } entries = { } } apply { t.apply(); } }",
		"control c(inout s_t s) { action a(inout bit<8> x, bit<8> n) { x = n; } table t { key = { s.f: exact; } actions = { a(s.h.a); NoAction; } default_action = a(s.h.a, 3); } apply { t.apply(); } }",
		"control c(inout s_t s) { action a(inout bit<8> x, bit<8> n) { x = n; } table t { key = { s.f: exact; } actions = { a(s.h.a); } const default_action = a(3); const entries = { 1: a(4); 2: a(s.h.a, 5); } } apply { t.apply(); } }",
		"control c(inout s_t s) { table t { key = { s.f: ternary; s.h.a: range; s.hs[0].a: optional; s.hs[1].a: lpm; } actions = { NoAction; } entries = { (1 &&& 3, 1 .. 5, _, 0x80 &&& 0xf0): NoAction(); (_, _, 3, _): NoAction(); } } apply { t.apply(); } }",
		"control c(inout s_t s) { table t { key = { s.f: ternary; } actions = { NoAction; } largest_priority_wins = false; priority_delta = 10; entries = { priority = 3: 1: NoAction(); 2: NoAction(); priority = 100: _: NoAction(); } } apply { t.apply(); } }",
		"control c(inout s_t s) { action a() { } table t { key = { s.h.isValid(): exact @name(\"valid\"); s.f[3:0]: ternary; s.f == 1: exact @name(\"one\"); } actions = { a; @defaultonly NoAction; } size = 1024; default_action = NoAction(); } apply { if (t.apply().hit) { } switch (t.apply().action_run) { a: { } default: { } } bool m = t.apply().miss; } }",
		"control c(inout s_t s) { action a(in bit<4> x) { } table t { actions = { a(s.f[s.f+:4]); } default_action = a(s.f[s.f+:4]); } apply { t.apply(); } }",
	} {
		if _, err := load(head+src, Options{NoMain: true}); err != nil {
			t.Errorf("%s:\n%v", src, err)
		}
	}
}
