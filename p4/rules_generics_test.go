package p4

import "testing"

// Type parameters (7.2.10, 7.2.11, 10.2, 14.1): types, functions, controls and externs of any type.
func TestRulesOfTypeParameters(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	exchangeAll(t, []frameRule{
		{
			rule:   "7.2.11: a struct of a type",
			top:    "struct box_t<T> { T v; bit<8> n; }",
			body:   "box_t<bit<16>> x = { 0x102, 3 }; box_t<pair2_t> y; y.v = { 4, 5 }; y.n = 6; hdr.h.c = x.v; hdr.h.a = x.n + y.n; hdr.h.b = y.v.y;",
			frames: []string{zero + "09 05 0102 00000000"},
		},
		{
			rule:   "7.2.11: a struct of two types",
			top:    "struct two_t<A, B> { A a; B b; }",
			body:   "two_t<bit<8>, bit<16>> x = { 1, 2 }; two_t<bit<16>, bit<8>> y = { b = 3, a = 4 }; hdr.h.a = x.a; hdr.h.b = y.b; hdr.h.c = x.b + y.a;",
			frames: []string{zero + "01 03 0006 00000000"},
		},
		{
			rule: "7.2.11: a struct of a struct of a type",
			top:  "struct box_t<T> { T v; } struct pile_t<T> { box_t<T> low; box_t<box_t<T>> high; }",
			body: "pile_t<bit<8>> p = { { 1 }, { { 2 } } }; hdr.h.a = p.low.v; hdr.h.b = p.high.v.v;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule:   "7.2.11: a header of a type",
			top:    "header g_t<T> { T v; bit<8> w; }",
			body:   "g_t<bit<8>> x; g_t<bit<16>> y; x = { 1, 2 }; hdr.h.a = x.isValid() ? x.w : 9; hdr.h.b = y.isValid() ? 8w1 : 3; hdr.h.c = (bit<16>)y.minSizeInBits();",
			frames: []string{zero + "02 03 0018 00000000"},
		},
		{
			rule: "7.2.11: structs of the same types are of one type",
			top:  "struct box_t<T> { T v; } bit<8> f(in box_t<bit<8>> x) { return x.v; }",
			body: "box_t<bit<8>> x = { 7 }; box_t<bit<8>> y = x; hdr.h.a = f(y); hdr.h.b = x == y ? 8w1 : 2;", frames: []string{zero + "07 01 0000 00000000"},
		},
		{
			rule: "8.13: a struct of a type as an expression",
			top:  "struct box_t<T> { T v; bit<8> n; }",
			body: "box_t<bit<8>> x; x = (box_t<bit<8>>){ v = 1, n = 2 }; hdr.h.a = x.v; hdr.h.b = x.n;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule:   "10.2: the argument says the type",
			top:    "T first<T>(in T x, in T y) { return x; }",
			body:   "hdr.h.a = first(hdr.h.b, 8w3); hdr.h.c = first(16w7, hdr.h.c); bool q = first(true, false); hdr.h.d = q ? 32w1 : 2;",
			frames: []string{"00 05 0000 00000000 -> 05 05 0007 00000001"},
		},
		{
			rule: "10.2: the type is given",
			top:  "T first<T>(in T x, in T y) { return x; }",
			body: "hdr.h.a = first<bit<8>>(3, 4); hdr.h.c = first<bit<16>>(0x102, 3);", frames: []string{zero + "03 00 0102 00000000"},
		},
		{
			rule: "10.2: an operand of the parameter's type",
			top:  "T same<T>(in T x) { T y = x; return y; }",
			body: "hdr.h.a = same(hdr.h.b) + 1; hdr.h.c = same(hdr.h.c | 0x100);", frames: []string{"00 05 0002 00000000 -> 06 05 0102 00000000"},
		},
		{
			rule:   "10.2: out and inout",
			top:    "void swap<T>(inout T x, inout T y) { T z = x; x = y; y = z; } void copy<T>(out T x, in T y) { x = y; }",
			body:   "swap(hdr.h.a, hdr.h.b); copy(hdr.h.d, 32w9); pair_t p = { 1, 2 }; pair_t q = { 3, 4 }; swap(p, q); hdr.h.c = p.y;",
			frames: []string{"01 02 0000 00000000 -> 02 01 0004 00000009"},
		},
		{
			rule:   "10.2: of a header, with its validity",
			top:    "void move<H>(inout H to, inout H from) { H none; to = from; from = none; }",
			body:   "one_t x; one_t y; y = { 4 }; move(x, y); hdr.h.a = x.isValid() ? x.v : 9; hdr.h.b = y.isValid() ? 8w1 : 2;",
			frames: []string{zero + "04 02 0000 00000000"},
		},
		{
			rule: "10.2: of a stack",
			top:  "T last<T>(in T x, in T y) { return y; }",
			body: "one_t[2] s; one_t[2] r; r[1] = { 6 }; s = last(s, r); hdr.h.a = s[1].v; hdr.h.b = s[0].isValid() ? 8w1 : 2;", frames: []string{zero + "06 02 0000 00000000"},
		},
		{
			rule: "10.2: of a tuple",
			top:  "T last<T>(in T x, in T y) { return y; }",
			body: "tuple<bit<8>, bit<16>> x = { 1, 2 }; tuple<bit<8>, bit<16>> y = { 3, 4 }; x = last(x, y); hdr.h.a = x[0]; hdr.h.c = x[1];", frames: []string{zero + "03 00 0004 00000000"},
		},
		{
			rule: "10.2: one calls another",
			top:  "T id<T>(in T x) { return x; } T again<T>(in T x) { return id(id<T>(x)); }",
			body: "hdr.h.a = again(hdr.h.b); hdr.h.c = again<bit<16>>(5);", frames: []string{"00 05 0000 00000000 -> 05 05 0005 00000000"},
		},
		{
			rule:   "10.2: two parameters of types",
			top:    "A pick<A, B>(in A x, in B y) { return x; }",
			body:   "hdr.h.a = pick(hdr.h.b, hdr.h.d); hdr.h.c = pick<bit<16>, bool>(4, true); hdr.h.d = pick<bit<32>, _>(7, 8w1);",
			frames: []string{"00 05 0000 00000000 -> 05 05 0004 00000007"},
		},
		{
			rule: "8.20: the type of a result that nothing says is given",
			top:  "T none<T>() { T x; return x; }",
			body: "hdr.h.a = none<bit<8>>() + 1; one_t o = none<one_t>(); hdr.h.b = o.isValid() ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule:   "14.1: a control whose type has parameters",
			top:    "control ct<T>(inout T x); control up(inout bit<8> x) { apply { x = x + 1; } } control use(inout bit<8> x)(ct<bit<8>> k) { apply { k.apply(x); k.apply(x); } }",
			locals: "use(up()) i;",
			body:   "i.apply(hdr.h.a);", frames: []string{"05 00 0000 00000000 -> 07 00 0000 00000000"},
		},
		{
			rule:   "7.2.12: the type of a register's cells",
			locals: "register<pair_t>(2) r; register<bit<16>>(2) q;",
			body:   "pair_t p; bit<16> x; r.read(p, 1); q.read(x, 0); hdr.h.a = p.x; hdr.h.c = p.y + x; r.write(1, { 3, 4 }); q.write(0, 5);",
			frames: []string{zero + "00 00 0000 00000000", zero + "03 00 0009 00000000"},
		},
		{
			rule: "7.2.10: a list of what a function takes",
			top:  "bit<16> sum(in tuple<bit<8>, bit<16>> x) { return (bit<16>)x[0] + x[1]; }",
			body: "hdr.h.c = sum({ 1, 2 }) + sum({ hdr.h.a, hdr.h.c });", frames: []string{"03 00 0004 00000000 -> 03 00 000a 00000000"},
		},
	})
}

// Overloads (10, 8.20): functions, actions and constructors of one name are told apart by the number and names of their arguments.
func TestRulesOfOverloads(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const top = `
bit<8> f() { return 1; }
bit<8> f(in bit<8> x) { return x + 2; }
bit<8> f(in bit<8> x, in bit<8> y) { return x + y + 3; }
bit<8> g(in bit<8> one) { return one + 16; }
bit<8> g(in bit<8> two, in bit<8> three) { return two * three; }
`
	exchangeAll(t, []frameRule{
		{
			rule: "8.20: by number", top: top,
			body: "hdr.h.a = f(); hdr.h.b = f(10); hdr.h.c = 8w0 ++ f(10, 20);", frames: []string{zero + "01 0c 0021 00000000"},
		},
		{
			rule: "8.20: by names", top: top,
			body: "hdr.h.a = g(one = 1); hdr.h.b = g(three = 3, two = 2);", frames: []string{zero + "11 06 0000 00000000"},
		},
		{
			rule: "8.20: one within another", top: top,
			body: "hdr.h.a = f(f(), f(f()));", frames: []string{zero + "07 00 0000 00000000"},
		},
	})
}

// Arguments (6.8, 8.20): by name, left out where there is a default value, and evaluated in the order of the call.
func TestRulesOfArguments(t *testing.T) {
	const zero = "00 00 0000 00000000 -> "
	const top = counting + `
bit<8> sub(in bit<8> x, in bit<8> y) { return x - y; }
void three(out bit<8> x, in bit<8> y, inout bit<8> z) { x = y + z; z = y; }
bit<8> bump(inout bit<8> n) { bit<8> old = n; n = n * 2 + 1; return old; }
`
	exchangeAll(t, []frameRule{
		{
			rule: "6.8: by name", top: top,
			body: "hdr.h.a = sub(y = 1, x = 9);", frames: []string{zero + "08 00 0000 00000000"},
		},
		{
			rule: "6.8: side effects in the order of the arguments", top: top,
			body: "bit<8> n = 1; hdr.h.a = sub(add(n, 1), add(n, 10)); hdr.h.b = n;", frames: []string{zero + "f6 0c 0000 00000000"},
		},
		{
			rule: "6.8: side effects in the order of the call, not of the parameters", top: top,
			body: "bit<8> n = 1; hdr.h.a = sub(y = add(n, 1), x = add(n, 10)); hdr.h.b = n;", frames: []string{zero + "0a 0c 0000 00000000"},
		},
		{
			rule: "6.8: in is evaluated before out is copied", top: top,
			body: "three(hdr.h.a, hdr.h.a, hdr.h.b);", frames: []string{"05 06 0000 00000000 -> 0b 05 0000 00000000"},
		},
		{
			rule: "6.8: out and inout of one variable", top: top,
			body: "three(hdr.h.a, 3, hdr.h.a);", frames: []string{"05 00 0000 00000000 -> 03 00 0000 00000000"},
		},
		{
			rule: "8.20: operands are evaluated from the left", top: top,
			body: "bit<8> n = 1; hdr.h.a = bump(n) - bump(n); hdr.h.b = n;", frames: []string{zero + "fe 07 0000 00000000"},
		},
		{
			rule: "8.20: a variable is read where it stands", top: top,
			body: "bit<8> n = 1; hdr.h.a = n + bump(n) * 16 + n;", frames: []string{zero + "14 00 0000 00000000"},
		},
		{
			rule: "8.20: the sides of a concatenation", top: top,
			body: "bit<8> n = 1; hdr.h.c = bump(n) ++ bump(n);", frames: []string{zero + "00 00 0103 00000000"},
		},
		{
			rule: "8.20: elements of a list", top: top,
			body: "bit<8> n = 1; pair2_t p = { bump(n), bump(n) }; hdr.h.a = p.x; hdr.h.b = p.y;", frames: []string{zero + "01 03 0000 00000000"},
		},
		{
			rule: "8.20: fields by name in the order of writing", top: top,
			body: "bit<8> n = 1; pair2_t p = { y = bump(n), x = bump(n) }; hdr.h.a = p.x; hdr.h.b = p.y;", frames: []string{zero + "03 01 0000 00000000"},
		},
		{
			rule: "8.5: && leaves the right side out", top: top,
			body:   "if (hdr.h.a == 1 && count(hdr.h.b)) { hdr.h.c = 1; }",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			rule: "8.5: || leaves the right side out", top: top,
			body:   "if (hdr.h.a == 1 || count(hdr.h.b)) { hdr.h.c = 1; }",
			frames: []string{"01 00 0000 00000000 -> 01 00 0001 00000000", "02 00 0000 00000000 -> 02 01 0001 00000000"},
		},
		{
			rule: "8.5: what is left out may be deep", top: top,
			body:   "if (hdr.h.a == 1 && (hdr.h.b == 1 || count(hdr.h.b) && add(hdr.h.b, 4) == 5)) { hdr.h.c = 1; }",
			frames: []string{"01 00 0000 00000000 -> 01 05 0001 00000000", "01 01 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 00 0000 00000000"},
		},
		{
			rule: "8.5.1: one branch is evaluated", top: top,
			body:   "hdr.h.c = hdr.h.a == 1 ? 8w0 ++ add(hdr.h.b, 1) : 8w1 ++ add(hdr.h.b, 2);",
			frames: []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "02 00 0000 00000000 -> 02 02 0102 00000000"},
		},
		{
			rule: "10: the value is returned before inout is copied", top: top + "bit<8> f(inout bit<8> x) { x = 5; return 7; }",
			body: "hdr.h.a = f(hdr.h.a); hdr.h.b = f(hdr.h.c[7:0]);", frames: []string{zero + "07 07 0005 00000000"},
		},
		{
			rule: "10: a value that is dropped", top: top,
			body: "add(hdr.h.a, 3); bump(hdr.h.a);", frames: []string{zero + "07 00 0000 00000000"},
		},
		{
			rule: "10: a return without a value", top: "void f(inout bit<8> x) { if (x == 1) { return; } x = 9; return; }",
			body: "f(hdr.h.a);", frames: []string{"01 00 0000 00000000 -> 01 00 0000 00000000", "02 00 0000 00000000 -> 09 00 0000 00000000"},
		},
		{
			rule: "10: a return in a loop in a switch", top: "bit<8> f(in bit<8> x) { for (bit<8> i in 1 .. 9) { switch (i) { 3: { if (x == 3) { return 33; } } 5: { return 55; } } } return 1; }",
			body: "hdr.h.b = f(hdr.h.a);", frames: []string{"03 00 0000 00000000 -> 03 21 0000 00000000", "04 00 0000 00000000 -> 04 37 0000 00000000"},
		},
		{
			rule: "6.8: a default value of a control", top: "control c(inout bit<8> x)(bit<8> k = 4, bit<8> l = 5) { apply { x = x + k + l; } }",
			locals: "c() one; c(l = 1) two; c(1, 2) three;",
			body:   "one.apply(hdr.h.a); two.apply(hdr.h.b); three.apply(hdr.h.c[7:0]);", frames: []string{zero + "09 05 0003 00000000"},
		},
		{
			rule: "6.8: a default value of the packet's direction", top: "void f(in bit<8> x, out bit<8> y, in bit<8> z = 3) { y = x + z; }",
			body: "f(1, hdr.h.a); f(1, hdr.h.b, 1);", frames: []string{zero + "04 02 0000 00000000"},
		},
		{
			rule: "6.8: a slice of a variable's element", top: top,
			body: "tuple<bit<8>, bit<16>> q = { 1, 0x2233 }; add(q[1][15:8], 1); hdr.h.c = q[1];", frames: []string{zero + "00 00 2333 00000000"},
		},
		{
			rule: "6.8: a struct's field of a struct", top: top + "struct deep_t { pair2_t p; bit<8> k; }",
			body: "deep_t d = { { 1, 2 }, 3 }; add(d.p.y, d.k); hdr.h.a = d.p.x; hdr.h.b = d.p.y;", frames: []string{zero + "01 05 0000 00000000"},
		},
		{
			rule:   "14.1: an action's data and directions",
			locals: "action f(in bit<8> x, out bit<8> y, inout bit<8> z, bit<8> k) { y = x + k; z = z + k; }",
			body:   "f(1, hdr.h.a, hdr.h.b, 5);", frames: []string{"00 02 0000 00000000 -> 06 07 0000 00000000"},
		},
		{
			rule:   "14.1: an action that calls another",
			locals: "action inner(inout bit<8> x, bit<8> k) { x = x + k; } action outer(bit<8> k) { inner(hdr.h.a, k); inner(hdr.h.b, k + 1); }",
			body:   "outer(3);", frames: []string{zero + "03 04 0000 00000000"},
		},
		{
			rule:   "14.4: a control's out begins without a value",
			top:    "control c(out bit<8> x, out one_t h) { apply { if (!h.isValid()) { x = x + 1; } } }",
			locals: "c() i; one_t o;",
			body:   "o = { 4 }; hdr.h.a = 7; i.apply(hdr.h.a, o); hdr.h.b = o.isValid() ? 8w1 : 2;", frames: []string{zero + "01 02 0000 00000000"},
		},
		{
			rule:   "14.4: an instance that is applied twice keeps its objects",
			top:    "control c(inout bit<8> x) { register<bit<8>>(1) r; apply { bit<8> v; r.read(v, 0); x = v; r.write(0, v + 1); } }",
			locals: "c() one; c() two;",
			body:   "one.apply(hdr.h.a); one.apply(hdr.h.b); two.apply(hdr.h.c[7:0]);",
			frames: []string{zero + "00 01 0000 00000000", zero + "02 03 0001 00000000"},
		},
	})
}
