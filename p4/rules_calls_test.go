package p4

import "testing"

// Copy in, copy out (6.8): in the order of the arguments, to where the l-values were before the call.
func TestRulesOfCalls(t *testing.T) {
	const functions = counting + `
void set2(out bit<8> x, out bit<8> y) { x = 1; y = 2; }
void swap(inout bit<8> x, inout bit<8> y) { bit<8> z = x; x = y; y = z; }
void both(inout bit<8> x, in bit<8> y) { x = x + y; }
bit<8> valid(in one_t x) { return x.isValid() ? 8w1 : 0; }
void clear_(out one_t x) { }
void set(out one_t x, in bit<8> v) { x.setValid(); x.v = v; }
void outs(out stack_t s) { if (s.st[0].isValid()) { s.m = 9; } else { s.m = 1; } }
void nibbles(inout bit<4> x, inout bit<4> y) { bit<4> z = x; x = y; y = z; }
void part(inout bit<8> x, inout bit<4> y) { x = 0xf0; y = 5; }
void later(inout bit<8> x, in bit<8> y, inout bit<8> z) { x = y + 1; z = x; }
`
	const top = "struct stack_t { one_t[2] st; bit<8> m; }\n" + functions
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{"6.8: out is copied out", top, "", "set2(hdr.h.a, hdr.h.b);", []string{zero + "01 02 0000 00000000"}},
		{"6.8: copying out is from left to right", top, "", "set2(hdr.h.a, hdr.h.a);", []string{zero + "02 00 0000 00000000"}},
		{"6.8: by name, in the order of writing", top, "", "set2(y = hdr.h.a, x = hdr.h.a);", []string{zero + "01 00 0000 00000000"}},
		{"6.8: inout of the same variable", top, "", "swap(hdr.h.a, hdr.h.a);", []string{"05 00 0000 00000000 -> 05 00 0000 00000000"}},
		{"6.8: a swap", top, "", "swap(hdr.h.a, hdr.h.b);", []string{"05 06 0000 00000000 -> 06 05 0000 00000000"}},
		{"6.8: in is a copy, though inout changes it", top, "", "later(hdr.h.a, hdr.h.a, hdr.h.a);", []string{"05 00 0000 00000000 -> 06 00 0000 00000000"}},
		{"6.8: an argument that a later one changes", top, "", "both(hdr.h.b, add(hdr.h.b, 1));", []string{"00 05 0000 00000000 -> 00 0b 0000 00000000"}},
		{"6.8: the l-value of an index is saved", top, "one_t[3] st;", "bit<8> i = 0; st[0] = { 10 }; st[1] = { 20 }; both(st[i].v, add(i, 1)); hdr.h.a = st[0].v; hdr.h.b = st[1].v;", []string{zero + "0b 14 0000 00000000"}},
		{"6.8: two parts of a field", top, "", "nibbles(hdr.h.a[7:4], hdr.h.a[3:0]);", []string{"12 00 0000 00000000 -> 21 00 0000 00000000"}},
		{"6.8: a part and the whole", top, "", "part(hdr.h.a, hdr.h.a[3:0]);", []string{"12 00 0000 00000000 -> f5 00 0000 00000000"}},
		{"6.8: out of a header is invalid", top, "one_t x;", "x = { 3 }; hdr.h.a = valid(x); clear_(x); hdr.h.b = valid(x);", []string{zero + "01 00 0000 00000000"}},
		{"6.8: out of a struct has invalid headers", top, "stack_t s;", "s.st[0] = { 3 }; outs(s); hdr.h.a = s.m; hdr.h.b = valid(s.st[0]);", []string{zero + "01 00 0000 00000000"}},
		{"6.8: a header's validity is copied out", top, "one_t x;", "set(x, 7); hdr.h.a = valid(x); hdr.h.b = x.v;", []string{zero + "01 07 0000 00000000"}},
		{"6.8: _ for out", top, "", "set2(_, hdr.h.a); set2(hdr.h.b, _);", []string{zero + "02 01 0000 00000000"}},
		{"6.8: a default value", "bit<8> f(in bit<8> x, in bit<8> y = 5) { return x + y; }", "", "hdr.h.a = f(1); hdr.h.b = f(x = 1, y = 2); hdr.h.c[7:0] = f(y = 3, x = 4);", []string{zero + "06 03 0007 00000000"}},
		{"6.8: an action called directly takes its data as in", "", "action f(inout bit<8> x, bit<8> data) { x = x + data; }", "f(hdr.h.a, hdr.h.b); f(hdr.h.a, 1);", []string{"01 02 0000 00000000 -> 04 02 0000 00000000"}},
		{"6.8: a control's parameters", "control c(in bit<8> x, out bit<8> y, inout bit<8> z) { apply { y = x; z = z + x; } }", "c() i;", "i.apply(hdr.h.a, hdr.h.b, hdr.h.a);", []string{"05 00 0000 00000000 -> 0a 05 0000 00000000"}},
		{"10: overloads are told apart by number", "bit<8> f(in bit<8> x) { return x; } bit<8> f(in bit<8> x, in bit<8> y) { return x + y; }", "", "hdr.h.a = f(1); hdr.h.b = f(1, 2);", []string{zero + "01 03 0000 00000000"}},
		{"10: a function of a function", top, "", "hdr.h.a = add(hdr.h.b, add(hdr.h.b, 1));", []string{"00 05 0000 00000000 -> 0b 0b 0000 00000000"}},
		{"10: a struct comes back", "pair2_t f(in bit<8> x) { return { x, x + 1 }; }", "", "pair2_t p = f(hdr.h.a); hdr.h.a = f(4).y; hdr.h.b = p.y;", []string{"01 00 0000 00000000 -> 05 02 0000 00000000"}},
		{"10: a header comes back", "one_t f(in bit<8> x) { one_t h; if (x == 1) { h = { 9 }; } return h; }", "", "one_t r = f(hdr.h.a); hdr.h.b = r.isValid() ? r.v : 1;", []string{"01 00 0000 00000000 -> 01 09 0000 00000000", "02 00 0000 00000000 -> 02 01 0000 00000000"}},
		{"10: a generic function of two types", "T same<T>(in T x) { return x; }", "", "hdr.h.a = same(hdr.h.b); hdr.h.c = same<bit<16>>(7); pair2_t p = same<pair2_t>({ 1, 2 }); hdr.h.d[7:0] = p.y;", []string{"00 05 0000 00000000 -> 05 05 0007 00000002"}},
		{"10.3: variables are the instance's own at each apply", "control c(inout bit<8> x) { bit<8> n = 3; apply { n = n + x; x = n; } }", "c() i;", "i.apply(hdr.h.a); i.apply(hdr.h.b);", []string{"01 02 0000 00000000 -> 04 05 0000 00000000"}},
		{"15: constructor parameters of each instance", "control c(inout bit<8> x)(bit<8> k) { apply { x = x * k; } }", "c(2) two; c(3) three;", "two.apply(hdr.h.a); three.apply(hdr.h.b); two.apply(hdr.h.b);", []string{"01 01 0000 00000000 -> 02 06 0000 00000000"}},
		{"15: a constructor parameter through two levels", "control c(inout bit<8> x)(bit<8> k) { apply { x = x + k; } } control d(inout bit<8> x)(bit<8> k) { c(k + 1) one; c(k << 1) two; apply { one.apply(x); two.apply(x); } }", "d(3) i;", "i.apply(hdr.h.a);", []string{zero + "0a 00 0000 00000000"}},
		{"15: a control as a constructor's parameter", "control k_t(inout bit<8> v); control c(inout bit<8> v) { apply { v = v + 1; } } control d(inout bit<8> v)(k_t k) { apply { k.apply(v); k.apply(v); } }", "d(c()) i; c() j; d(j) k;", "i.apply(hdr.h.a); k.apply(hdr.h.b);", []string{zero + "02 02 0000 00000000"}},
		{"15.1: C.apply makes an instance", "control c(inout bit<8> x) { apply { x = x + 1; } }", "", "c.apply(hdr.h.a); c.apply(hdr.h.a);", []string{zero + "02 00 0000 00000000"}},
	})
}
