package check

import (
	"strings"
	"testing"
)

const rulesHead = `#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
header g_t { bit<16> c; }
header_union u_t { h_t h; g_t g; }
struct s_t { bit<8> f; int<8> i; bool q; h_t h; h_t[2] hs; u_t u; tuple<bit<8>, bit<16>> t; error e; }
enum plain_t { X, Y }
enum bit<8> code_t { A = 1, B = 2 }
enum bit<8> other_t { A = 1, C = 3 }
type bit<8> new_t;
`

// A rule of the language: a fault that is refused with this text, or what is right, where want is "".
type rule struct{ rule, src, want string }

// inApply is statements of a control with a parameter s of type s_t, and variables of the other types.
func inApply(body string) string {
	return "control c(inout s_t s) { plain_t p; code_t d; other_t o; new_t n; bit<8> x; bit<16> y; apply { " + body + " } }"
}

func holdRules(t *testing.T, rules []rule) {
	t.Helper()
	for _, r := range rules {
		_, err := load(rulesHead+r.src, Options{NoMain: true})
		switch {
		case r.want == "" && err != nil:
			t.Errorf("%s: %s\n is refused: %v", r.rule, r.src, err)
		case r.want != "" && (err == nil || !strings.Contains(err.Error(), r.want) || !strings.HasPrefix(err.Error(), "t.p4:11:")):
			t.Errorf("%s: %s\n error is %v\n expected %s", r.rule, r.src, err, r.want)
		}
	}
}

// L-values (6.7): variables, out and inout parameters, their fields, elements of stacks, slices, and next; nothing else.
func TestRulesOfLvalues(t *testing.T) {
	parser := func(body string) string {
		return "parser p(packet_in b, inout s_t s) { state start { " + body + " transition accept; } }"
	}
	holdRules(t, []rule{
		{"6.7: a variable", inApply("x = 1;"), ""},
		{"6.7: a field of a field", inApply("s.h.a = 1;"), ""},
		{"6.7: an element", inApply("s.hs[1].a = 1; s.hs[x] = s.h;"), ""},
		{"6.7: a slice of a field", inApply("s.h.a[3:0] = 1;"), ""},
		{"6.7: a slice of a slice", inApply("s.h.a[5:0][1:0] = 1;"), ""},
		{"6.7: a literal is none", inApply("5 = x;"), "this is no variable: it cannot be changed"},
		{"6.7: a sum is none", inApply("(x + 1)[3:0] = 1;"), "this is no variable"},
		{"6.7: a constant", "const bit<8> k = 1; " + inApply("k = 2;"), "k is no variable: it cannot be changed"},
		{"6.7: a call's value", "s_t f() { s_t s; return s; } " + inApply("f().f = 1;"), "this is no variable: it cannot be changed"},
		{"6.7: a cast", inApply("(bit<16>)x = 1;"), "this is no variable"},
		{"6.7: a choice", inApply("(x == 1 ? x : x) = 1;"), "this is no variable"},
		{"6.7: an in parameter's field", "control c(in s_t s) { apply { s.h.a = 1; } }", "s is an in parameter: it cannot be changed"},
		{"6.7: an in parameter's slice", "control c(in bit<8> v) { apply { v[3:0] = 1; } }", "v is an in parameter: it cannot be changed"},
		{"6.7: an in parameter given to inout", "void f(inout bit<8> v) { } control c(in bit<8> v) { apply { f(v); } }", "v is an in parameter: it cannot be changed"},
		{"6.7: an in header's validity", "control c(in h_t h) { apply { h.setValid(); } }", "h is an in parameter: it cannot be changed"},
		{"6.7: action data", "control c() { action a(bit<8> v) { v = 1; } apply { } }", "v is a parameter without direction: it cannot be changed"},
		{"6.7: a constructor's parameter", "control c()(bit<8> v) { apply { v = 1; } }", "v is a constructor's parameter: it cannot be changed"},
		{"6.7: a loop's variable", inApply("for (bit<8> i in 1 .. 2) { i = 3; }"), ""},
		{"6.7: an enum's member", inApply("plain_t.X = p;"), "this is no variable"},
		{"8.12: a tuple's element, as p4c takes it", inApply("s.t[0] = 1; s.t[1][3:0] = 2;"), ""},
		{"8.12: a whole tuple", inApply("s.t = { 1, 2 };"), ""},
		{"8.19: next", parser("s.hs.next.a = 1; b.extract(s.hs.next);"), ""},
		{"8.19: last is none", parser("s.hs.last.a = 1;"), "last of a stack cannot be changed: use an index"},
		{"8.19: last for extract", parser("b.extract(s.hs.last);"), "last of a stack cannot be changed: use an index"},
		{"8.19: lastIndex is none", parser("s.hs.lastIndex = 1;"), "this is no variable"},
		{"8.19: size is none", inApply("s.hs.size = 1;"), "this is no variable"},
		{"8.19: reading last", parser("s.f = s.hs.last.a;"), ""},
	})
}

// Types of expressions (8): which operands an operator takes.
func TestRulesOfOperands(t *testing.T) {
	holdRules(t, []rule{
		{"8.6: widths differ", inApply("y = x + y;"), "+ has operands of type bit<8> and bit<16>: cast one"},
		{"8.6: signs differ", inApply("x = x & s.i;"), "& has operands of type bit<8> and int<8>: cast one"},
		{"8.6: comparison of different widths", inApply("s.q = x < y;"), "< has operands of type bit<8> and bit<16>: cast one"},
		{"8.6: equality of different widths", inApply("s.q = x == y;"), "== compares a bit<8> with a bit<16>: cast one"},
		{"8.6: ~ of a literal without a width", inApply("x = ~1;"), "~ wants a number of known width"},
		{"8.6: ~ of a bool", inApply("s.q = ~s.q;"), "~ wants a number, not a bool"},
		{"8.6: - of a bool", inApply("s.q = -s.q;"), "- wants a number, not a bool"},
		{"8.6: + of bools", inApply("s.q = s.q + s.q;"), "+ wants numbers, not a bool"},
		{"8.6: + of headers", inApply("s.h = s.h + s.h;"), "+ wants numbers, not a h_t"},
		{"8.7: / of int<W>", inApply("s.i = s.i / 2;"), "/ is not defined for int<8>"},
		{"8.7: % of int<W>", inApply("s.i = s.i % 2;"), "% is not defined for int<8>"},
		{"8.6: / by zero", inApply("x = x / 0;"), "division by zero"},
		{"8.6: % by zero of constants", "const bit<8> k = 8w5 % (3 - 3);", "division by zero"},
		{"8.8: / of a negative", "const int k = -5 / 2;", "/ of a negative number: the specification defines it for none"},
		{"8.8: % by a negative", "const int k = 5 % -2;", "% of a negative number: the specification defines it for none"},
		{"8.8: saturation without a width", "const int k = 5 |+| 2;", "|+| wants operands of known width"},
		{"8.9.1: ++ of a literal without a width", inApply("y = x ++ 1;"), "++ wants operands of known width"},
		{"8.9.1: ++ of bools", inApply("y = s.q ++ x;"), "++ wants numbers, not a bool"},
		{"8.9.1: ++ of an enum", inApply("y = code_t.A ++ x;"), ""},
		{"8.5.2: ++ of strings", "const string k = \"a\" ++ \"b\";", ""},
		{"8.5.2: ++ of a string and a number", "const string k = \"a\" ++ 8w1;", "++ wants numbers, not a string"},
		{"8.9.2: a negative amount", inApply("x = x << -1;"), "a shift by -1: the amount is not negative"},
		{"8.9.2: a negative amount of int<W>", inApply("x = x >> 8s0xff;"), "a shift by -1: the amount is not negative"},
		{"8.9.2: a signed amount", inApply("x = x << s.i;"), "a shift's amount is unsigned, not of type int<8>: cast it"},
		{"8.9.2: a literal shifted by a variable", inApply("x = 1 << x;"), "the shifted value has no width"},
		{"8.9.2: an enum as amount", inApply("x = x << code_t.A;"), ""},
		{"8.5: && of numbers", inApply("s.q = x && s.q;"), "&& wants bools, not a bit<8>: compare it, as x != 0"},
		{"8.5: ! of a number", inApply("s.q = !x;"), "! wants a bool, not a bit<8>: compare it, as x != 0"},
		{"8.5: < of bools", inApply("s.q = s.q < s.q;"), "< wants numbers, not a bool"},
		{"8.5: if of a number", inApply("if (x) { }"), "the condition is of type bit<8>, not bool"},
		{"8.5.1: a choice by a number", inApply("x = x ? 1 : 2;"), "the condition is of type bit<8>, not bool"},
		{"8.5.1: branches of different types", inApply("x = s.q ? x : y;"), "? chooses between a bit<8> and a bit<16>: cast one"},
		{"8.5.1: two literals by a variable", inApply("x = (s.q ? 1 : 2) + x;"), "the width of the result is unknown"},
		{"8.2: errors are compared", inApply("s.q = s.e == error.NoError;"), ""},
		{"8.2: errors have no order", inApply("s.q = s.e < error.NoError;"), "< wants numbers, not a error"},
		{"8.3: enums are compared", inApply("s.q = p == plain_t.X;"), ""},
		{"8.3: enums have no order", inApply("s.q = p < plain_t.X;"), "< wants numbers, not a plain_t"},
		{"8.3: two enums", inApply("s.q = p == d;"), "== compares a plain_t with a code_t"},
		{"8.3: an enum's value to its number", inApply("x = d; x = d + 1;"), ""},
		{"8.3: a number to an enum", inApply("d = x;"), "what is assigned is of type bit<8>, not code_t"},
		{"8.3: a sum of an enum to the enum", inApply("d = code_t.A + 1;"), "what is assigned is of type bit<8>, not code_t"},
		{"8.3: one enum to another", inApply("d = o;"), "what is assigned is of type other_t, not code_t"},
		{"8.3: one enum to another by a cast", inApply("d = (code_t)o;"), ""},
		{"8.3: a plain enum has no number", inApply("x = (bit<8>)p;"), "no cast from plain_t to bit<8>"},
		{"8.3: no number is a plain enum", inApply("p = (plain_t)x;"), "no cast from bit<8> to plain_t"},
		{"8.3: no such member", inApply("p = plain_t.Z;"), "the enum plain_t has no member Z"},
		{"8.23: a type of one's own is not its number", inApply("n = x;"), "what is assigned is of type bit<8>, not new_t"},
		{"8.23: nor the other way", inApply("x = n;"), "what is assigned is of type new_t, not bit<8>"},
		{"8.23: it is compared with itself", inApply("s.q = n == n;"), ""},
		{"8.23: it has no sum", inApply("n = n + n;"), "+ wants numbers, not a new_t"},
		{"8.17: headers of one type", inApply("s.q = s.h == s.hs[0];"), ""},
		{"8.17: headers of two types", inApply("s.q = s.h == s.u.g;"), "== compares a h_t with a g_t"},
		{"8.17: {#} needs a type", inApply("bit<8> k = {#};"), "{#} is an invalid header"},
		{"8.17: a method that headers lack", inApply("s.h.clear();"), "a header h_t has no method clear"},
		{"8.20: setValid of a union", inApply("s.u.setValid();"), "a header union has no setValid: call it on one of its headers"},
		{"8.20: isValid of a union", inApply("s.q = s.u.isValid();"), ""},
		{"8.16: isValid of a struct", inApply("s.q = s.isValid();"), "s_t has no method isValid"},
	})
}

// Casts (8.11): those of the table, and no other.
func TestRulesOfCasts(t *testing.T) {
	holdRules(t, []rule{
		{"8.11.1: bool to one bit", inApply("bit<1> k = (bit<1>)s.q;"), ""},
		{"8.11.1: bool to more bits", inApply("x = (bit<8>)s.q;"), "no cast from bool to bit<8>"},
		{"8.11.1: bool to int<1>", inApply("int<1> k = (int<1>)s.q;"), "no cast from bool to int<1>"},
		{"8.11.1: more bits to bool", inApply("s.q = (bool)x;"), "no cast from bit<8> to bool"},
		{"8.11.1: 0 and 1 to bool", "const bool k = (bool)0 || (bool)1;", ""},
		{"8.11.1: 2 to bool", "const bool k = (bool)2;", "no cast from 2 to bool: only 0 and 1"},
		{"8.11.1: -1 to bool", "const bool k = (bool)(-1);", "no cast from -1 to bool: only 0 and 1"},
		{"8.11.1: width and sign at once", inApply("int<16> k = (int<16>)x;"), "no cast from bit<8> to int<16>: change the width first, then the sign"},
		{"8.11.1: a header to a number", inApply("y = (bit<16>)s.h;"), "no cast from h_t to bit<16>"},
		{"8.11.1: a number to an error", inApply("s.e = (error)x;"), "no cast from bit<8> to error"},
		{"8.11.1: a list to a struct", "struct k_t { bit<8> a; bool b; } const k_t k = (k_t){ 1, true };", ""},
		{"8.11.1: a list to a header by names", inApply("s.h = (h_t){ b = 1, a = 2 };"), ""},
		{"8.11.1: a list to a stack", inApply("s.hs = (h_t[2]){ { 1, 2 }, { 3, 4 } };"), ""},
		{"8.11.1: a list of too few", inApply("s.h = (h_t){ 1 };"), "a list of 1 elements for h_t, which has 2"},
		{"8.11.1: {#} to a union", inApply("s.u = (u_t){#};"), ""},
		{"8.11.1: a typedef is its type", "typedef bit<8> k_t; " + inApply("k_t k = x; x = k; y = (bit<16>)k;"), ""},
		{"8.11.1: a type of one's own and its type", inApply("n = (new_t)x; x = (bit<8>)n;"), ""},
		{"8.11.1: a type to itself", inApply("s.h = (h_t)s.h; s.e = (error)s.e; p = (plain_t)p;"), ""},
		{"8.11.1: a parser to itself", "parser q() { state start { transition accept; } } control c(inout s_t s) { apply { s.f = (bit<8>)q; } }", "the type q is no value"},
	})
}

// Slices and indices (8.6, 8.12, 8.19): known bounds, within the value.
func TestRulesOfIndices(t *testing.T) {
	holdRules(t, []rule{
		{"8.6: the higher bound first", inApply("x[3:0] = x[0:3];"), "slice [0:3] is empty: the first bound is the higher"},
		{"8.6: beyond the value", inApply("x = x[8:1];"), "slice [8:1] is out of range: the value has the bits 7 to 0"},
		{"8.6: below 0", inApply("bit<4> k = x[2:-1];"), "slice [2:-1] is out of range"},
		{"8.6: bounds of all integer types", inApply("bit<1> k = x[code_t.A:8w1]; bit<2> l = x[3s2:1];"), ""},
		{"8.6: a bound that is not known", inApply("bit<1> k = x[x:0];"), "a slice's bound must be an integer that is known when the program is compiled"},
		{"8.6: of a bool", inApply("bit<1> k = s.q[0:0];"), "a slice is of bit<> or int<>, not of bool"},
		{"8.6: of a header", inApply("bit<1> k = s.h[0:0];"), "a slice is of bit<> or int<>, not of h_t"},
		{"8.12: a tuple's element", inApply("x = s.t[0]; y = s.t[1];"), ""},
		{"8.12: beyond a tuple", inApply("x = s.t[2];"), "index 2 is out of range: there are 2 elements, 0 to 1"},
		{"8.12: a tuple's index is known", inApply("x = s.t[x];"), "a tuple's index must be an integer that is known when the program is compiled"},
		{"8.19: beyond a stack", inApply("s.hs[2].a = 1;"), "index 2 is out of range"},
		{"8.19: a negative index", inApply("s.hs[-1].a = 1;"), "index -1 is out of range"},
		{"8.19: a signed index", inApply("x = s.hs[s.i].a;"), ""},
		{"8.19: an enum as index", inApply("x = s.hs[code_t.A].a;"), ""},
		{"8.19: an index of bool", inApply("x = s.hs[s.q].a;"), "an index is an integer, not of type bool"},
		{"8.19: an index of a header", inApply("x = s.h[0].a;"), "a h_t has no index: only stacks and tuples do"},
		{"8.19: next outside of a parser", inApply("s.hs.next = s.h;"), "next of a stack exists in a parser's states only"},
		{"8.19: push_front of a variable", inApply("s.hs.push_front(x);"), "known when the program is compiled"},
		{"8.19: push_front of a negative", inApply("s.hs.push_front(-1);"), "push_front of a negative number"},
		{"8.19: push_front of a struct", inApply("s.push_front(1);"), "s_t has no method push_front"},
	})
}

// Statements (12): where each may stand.
func TestRulesOfStatements(t *testing.T) {
	holdRules(t, []rule{
		{"12.5: exit in a function", "void f() { exit; }", "exit has no place in a function"},
		{"12.5: exit in a parser", "parser p() { state start { exit; } }", "exit has no place in a parser's state"},
		{"12.4: return of a value in a control", inApply("return x;"), "return gives a value where none is wanted"},
		{"12.4: return without one in a function", "bit<8> f() { return; }", "return lacks the value of type bit<8>"},
		{"12.4: a way without return", "bit<8> f(in bool b) { if (b) { return 1; } }", "the function f ends without return on some way through it"},
		{"12.4: return by all ways of a switch", "bit<8> f(in bit<8> b) { switch (b) { 1: { return 1; } default: { return 2; } } }", ""},
		{"12.4: a switch without default", "bit<8> f(in bit<8> b) { switch (b) { 1: { return 1; } } }", "the function f ends without return on some way through it"},
		{"12.7: two equal labels", inApply("switch (x) { 1: { } 2: { } 1: { } }"), "the label is there already, in line 11"},
		{"12.7: two equal labels by a constant", "const bit<8> k = 1; " + inApply("switch (x) { 1: { } k: { } }"), "the label is there already, in line 11"},
		{"12.7: two equal labels of an enum", inApply("switch (p) { plain_t.X: { } plain_t.X: { } }"), "the label is there already, in line 11"},
		{"12.7: two labels of one value", "enum bit<8> k_t { A = 1, B = 1 } control d(in k_t k) { apply { switch (k) { k_t.A: { } k_t.B: { } } } }", "the label is there already, in line 11"},
		{"12.7: two equal labels of a bool", inApply("switch (s.q) { true: { } true: { } }"), "the label is there already, in line 11"},
		{"12.7: both bools", inApply("switch (s.q) { true: { } false: { } }"), ""},
		{"12.7: default in front", inApply("switch (x) { default: { } 1: { } }"), "default is the last label of a switch: move it to the end"},
		{"12.7: a label of another width", inApply("switch (x) { 16w1: { } }"), "the label is of type bit<16>, not bit<8>"},
		{"12.7: a label that is not known", inApply("switch (x) { x: { } }"), "a label must be known when the program is compiled"},
		{"12.7: over a header", inApply("switch (s.h) { default: { } }"), "switch over a h_t"},
		{"12.7: over an int", inApply("switch (5) { default: { } }"), "switch wants a value of known width: cast it"},
		{"12.7.1: action_run in an action", "control c() { table t { actions = { NoAction; } } action a() { switch (t.apply().action_run) { NoAction: { } } } apply { } }", "the table t is applied outside of a control's apply"},
		{"12.7.1: a label that is no action of the table", "control c() { action a() { } table t { actions = { NoAction; } } apply { switch (t.apply().action_run) { a: { } } } }", "table t has no action a"},
		{"12.7.1: an action twice", "control c() { table t { actions = { NoAction; } } apply { switch (t.apply().action_run) { NoAction: { } NoAction: { } } } }", "the label is there already, in line 11"},
		{"12.8: break outside of a loop", inApply("break;"), "break and continue belong in a loop"},
		{"12.8: continue in a switch outside of a loop", inApply("switch (x) { 1: { continue; } }"), "break and continue belong in a loop"},
		{"12.8: a loop over a number", inApply("for (bit<8> i in x) { }"), "for ... in wants a range, a list or a stack, not a bit<8>"},
		{"12.8: a stack of another type", inApply("for (g_t i in s.hs) { }"), "the stack's elements are of type h_t, not g_t"},
		{"12.8: a range of another width", inApply("for (bit<8> i in y .. y) { }"), "bit<16>, not bit<8>"},
		{"12.8: an element of another width", inApply("for (bit<8> i in { x, y }) { }"), "the element is of type bit<16>, not bit<8>"},
		{"12.1: another width", inApply("x = y;"), "what is assigned is of type bit<16>, not bit<8>: write (bit<8>)"},
		{"12.1: another header", inApply("s.h = s.u.g;"), "what is assigned is of type g_t, not h_t"},
		{"12.1: a compound operator on a bool", inApply("s.q |= s.q;"), "|= changes numbers, not a bool"},
		{"12.1: a compound operator on another width", inApply("x += y;"), "the operand is of type bit<16>, not bit<8>"},
		{"12.1: a compound shift by another width", inApply("x <<= y;"), ""},
		{"12.1: a compound shift by a signed", inApply("x <<= s.i;"), "a shift's amount is unsigned, not of type int<8>: cast it"},
		{"14.1: a table in an action", "control c() { table t { actions = { NoAction; } } action a() { t.apply(); } apply { } }", "the table t is applied outside of a control's apply"},
		{"14.1: a control in an action", "control d() { apply { } } control c() { d() i; action a() { i.apply(); } apply { } }", "a control is applied outside of a control's apply"},
	})
}

// Types (7): what may be made of what (7.2.9), and names.
func TestRulesOfTypes(t *testing.T) {
	holdRules(t, []rule{
		{"7.2.9: a header of a bool and an enum with a type", "header k_t { bool b; bit<7> pad; code_t c; }", ""},
		{"7.2.9: a header of an enum without a type", "header k_t { plain_t p; }", "a header has no field of type plain_t"},
		{"7.2.9: a header of a struct of numbers", "struct n_t { bit<4> a; bit<4> b; } header k_t { n_t n; }", ""},
		{"7.2.9: a header of a struct of headers", "struct n_t { h_t h; } header k_t { n_t n; }", "a header has no field of type n_t"},
		{"7.2.9: a header of a header", "header k_t { h_t h; }", "a header has no field of type h_t"},
		{"7.2.9: a header of a tuple", "header k_t { tuple<bit<8>> t; }", "a header has no field of type tuple<bit<8>>"},
		{"7.2.9: a header of an int", "header k_t { int i; }", "a header has no field of type int"},
		{"7.2.9: a struct of all that has values", "struct k_t { h_t h; h_t[2] hs; u_t u; u_t[2] us; plain_t p; error e; bool b; tuple<bit<8>, h_t> t; varbit<8> v; new_t n; }", ""},
		{"7.2.9: a struct of a string", "struct k_t { string s; }", "a struct has no field of type string"},
		{"7.2.9: a union of a struct", "header_union k_t { s_t s; }", "a header union has headers only, no s_t"},
		{"7.2.9: a union of a union", "header_union k_t { u_t u; }", "a header union has headers only, no u_t"},
		{"7.2.9: a typedef of a header", "typedef h_t k_t; " + inApply("k_t k = s.h; s.h = k;"), ""},
		{"7.1.6.2: bit of 0", "const bit<0> k = 0;", ""},
		{"7.1.6.3: int of 0", "const int<0> k = 0;", "int<0>: a width is from 1 to 65536"},
		{"7.1.6.2: a width that is an expression", "const int w = 8; const bit<(w * 2 - 1)> k = 0x7fff;", ""},
		{"7.1.6.2: a width that is not known", "control c(in bit<8> w) { apply { bit<(w)> k; } }", "known when the program is compiled"},
		{"7.2.1: a member's value that fits", "enum bit<4> k_t { A = 15 }", ""},
		{"7.2.1: an enum with a type that has a member without a value", "enum bit<4> k_t { A }", "lacks its value"},
		{"7.2.1: an enum's number of another width", "enum bit<4> k_t { A = 8w3 }", "the member's value is of type bit<8>, not bit<4>"},
		{"7.1.2: an error twice", "error { Mine } error { Mine }", "the error Mine is declared already"},
		{"7.1.2: an error of the core library", inApply("s.e = error.PacketTooShort;"), ""},
		{"7.1.2: an error that is not declared", inApply("s.e = error.Nope;"), "no error is called Nope"},
		{"6.6.1: names hide those outside", "const bit<8> k = 1; control c() { bit<16> k = 2; apply { bit<4> m = 3; { bit<2> m = 1; } k = 3; } }", ""},
		{"6.6.1: a name twice in a block", inApply("bit<8> k; bit<8> k;"), "k is declared already"},
		{"6.6.1: a name before its declaration", inApply("k = 1; bit<8> k;"), "nothing is called k here: declare it before this place"},
		{"6.6.1: a leading dot is the top level", "const bit<16> k = 1; control c() { bit<8> k = 2; bit<16> m = .k; apply { } }", ""},
		{"6.6.1: a name ends with its block", inApply("{ bit<8> k; } k = 1;"), "nothing is called k here"},
	})
}

// Directions (6.8): what may be an argument of what.
func TestRulesOfDirections(t *testing.T) {
	const f = "void in_(in bit<8> v) { } void out_(out bit<8> v) { v = 1; } void inout_(inout bit<8> v) { } void none(bit<8> v) { } "
	holdRules(t, []rule{
		{"6.8: in takes an expression", f + inApply("in_(x + 1); in_(5);"), ""},
		{"6.8: out takes a variable", f + inApply("out_(x); out_(s.f); out_(s.hs[x].a); out_(_);"), ""},
		{"6.8: out takes no expression", f + inApply("out_(x + 1);"), "this is no variable: it cannot be changed"},
		{"6.8: inout takes no literal", f + inApply("inout_(5);"), "the argument for v of inout_ is of type int, not bit<8>: it is inout and takes exactly this type"},
		{"6.8: inout takes no _", f + inApply("inout_(_);"), "_ stands for an out parameter only; v is none"},
		{"6.8: in takes no _", f + inApply("in_(_);"), "_ stands for an out parameter only; v is none"},
		{"6.8: in takes no other width", f + inApply("in_(y);"), "is of type bit<16>, not bit<8>"},
		{"6.8: out takes no other width", f + inApply("out_(y);"), "bit<16>, not bit<8>"},
		{"6.8: inout takes no enum for its number", f + inApply("inout_(d);"), "code_t, not bit<8>"},
		{"6.8: in takes an enum for its number", f + inApply("in_(d);"), ""},
		{"6.8: without a direction it is known", f + inApply("none(5);"), ""},
		{"6.8: inout takes no value", f + inApply("inout_(8w5);"), "this is no variable: it cannot be changed"},
		{"6.8: too few", f + inApply("in_();"), "in_ lacks the argument for its parameter v"},
		{"6.8: too many", f + inApply("in_(1, 2);"), "in_ takes 1 arguments, not 2"},
		{"6.8: no such name", f + inApply("in_(w = 1);"), "in_ has no parameter w"},
		{"6.8: a call before its declaration", inApply("g();") + " void g() { }", "nothing is called g here"},
		{"10: recursion", "bit<8> g(in bit<8> v) { return g(v); }", "nothing is called g here"},
		{"14.1: data behind directions", "control c() { action a(bit<8> v, inout bit<8> w) { } apply { } }", "the parameter w has a direction and is behind one without"},
	})
}
