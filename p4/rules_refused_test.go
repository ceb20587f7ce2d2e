package p4

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// What only an instance shows: what its constructor is given (15), what runs (9, 14), and what a whole program needs (15.2, 18).
func TestRulesOfPrograms(t *testing.T) {
	whole := v1Text("", "", "")
	main := "V1Switch(P(), V(), I(), E(), V(), D()) main;"
	swap := func(old, text string) string { return strings.Replace(whole, old, text, 1) }
	for _, c := range []struct{ rule, text, want string }{
		{"a program", whole, ""},
		{"15: an object's size that a packet gives", v1Text("", "register<bit<8>>((bit<32>)hdr.h.a) r;", ""), "must be known when the program is compiled"},
		{"15: an object's size of a constructor's parameter", v1Text("control c()(bit<32> n) { register<bit<8>>(n) r; apply { r.write(n - 1, 1); } }", "c(4) one; c(n = 5) two;", "one.apply(); two.apply();"), ""},
		{"15: an object's size below 0", v1Text("", "register<bit<8>>(-1) r;", ""), "not supported: I.r of 4294967295 cells"},
		{"15: a constructor's parameter in a type's width", v1Text("control c(inout bit<8> x)(bit<32> n) { apply { x = x + (bit<8>)n; } }", "c(4) one;", "one.apply(hdr.h.a);"), ""},
		{"15: division by a constructor's parameter", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x = x / n; } }", "c(4) one;", "one.apply(hdr.h.a);"), ""},
		{"15: division by one that is no power of two", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x = x / n; } }", "c(3) one;", "one.apply(hdr.h.a);"), "/ at run time is by a constant power of two only"},
		{"15: division by one that is 0", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x = x / n; } }", "c(0) one;", "one.apply(hdr.h.a);"), "division by zero"},
		{"15: division in place by one", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x /= n; x %= n; } }", "c(4) one;", "one.apply(hdr.h.a);"), ""},
		{"15: division in place by one that is no power of two", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x /= n; } }", "c(3) one;", "one.apply(hdr.h.a);"), "/ at run time is by a constant power of two only"},
		{"15: division in place by a variable", v1Text("", "", "hdr.h.a %= hdr.h.b;"), "% at run time is by a constant power of two only"},
		{"15: a shift by one", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x = x << n; } }", "c(4) one;", "one.apply(hdr.h.a);"), ""},
		{"15: an index by one", v1Text("control c(inout headers hdr)(bit<8> n) { one_t[2] st; apply { st[n] = { 1 }; } }", "c(1) one;", "one.apply(hdr);"), ""},
		{"15: an index by one that is beyond the stack", v1Text("control c(inout headers hdr)(bit<8> n) { one_t[2] st; apply { st[n] = { 1 }; } }", "c(2) one;", "one.apply(hdr);"), "index 2 is out of range"},
		{"15: a slice by one", v1Text("control c(inout bit<8> x)(bit<8> n) { apply { x = (bit<8>)x[n:0]; } }", "c(3) one;", "one.apply(hdr.h.a);"), "known when the program is compiled"},
		{"15: a default value", v1Text("control c(inout bit<8> x)(bit<8> n = 3) { apply { x = n; } }", "c() one;", "one.apply(hdr.h.a);"), ""},
		{"15: an object as a parameter", v1Text("control c(inout bit<8> x)(register<bit<8>> r) { apply { r.read(x, 0); } }", "register<bit<8>>(1) r; c(r) one;", "one.apply(hdr.h.a);"), ""},
		{"15: an object of another type", v1Text("control c(inout bit<8> x)(register<bit<8>> r) { apply { r.read(x, 0); } }", "register<bit<9>>(1) r; c(r) one;", "one.apply(hdr.h.a);"), "register<bit<9>>"},
		{"15: an object made in place", v1Text("control c(inout bit<8> x)(register<bit<8>> r) { apply { r.read(x, 0); } }", "c(register<bit<8>>(1)) one;", "one.apply(hdr.h.a);"), ""},

		{"18: no main", swap(main, ""), "the program has no package instance called main"},
		{"18: main is no package", swap(main, "const bit<8> main = 1;"), "the program has no package instance called main"},
		{"18: two of them", whole + main, "main is declared already"},
		{"15.2: too few parts", swap(main, "V1Switch(P(), V(), I(), E(), V()) main;"), "lacks the argument for its parameter dep"},
		{"15.2: a part of another kind", swap(main, "V1Switch(P(), V(), P(), E(), V(), D()) main;"), "the argument for ig of V1Switch is of type parser P"},
		{"15.2: parts by name", swap(main, "V1Switch(dep = D(), p = P(), vr = V(), ig = I(), ck = V(), eg = E()) main;"), ""},
		{"15.2: other headers in one part", swap("control E(inout headers hdr", "struct others { }\ncontrol E(inout others hdr"), "the argument for eg of V1Switch is of type control E(inout others hdr"},
		{"15.2: another direction", swap("control E(inout headers hdr", "control E(in headers hdr"), "the argument for eg of V1Switch is of type control E(in headers hdr"},
		{"15.2: a package of the program's own around it", swap(main, "package pk(V1Switch<headers, meta> s); V1Switch(P(), V(), I(), E(), V(), D()) sw; pk(sw) main;"), "not supported: package pk"},

		{"14: a loop of calls", v1Text("bit<8> f(in bit<8> x) { return x; } bit<8> g(in bit<8> x) { return f(f(f(f(x)))); }", "", "hdr.h.a = g(g(g(hdr.h.a)));"), ""},
		{"9: some copies", v1Text(strings.Join(doubling(10), "\n"), "", "f10(hdr.h.a);"), ""},
	} {
		_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(c.text)}}, "p.p4", Options{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s is refused: %v", c.rule, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !located.MatchString(err.Error())):
			t.Errorf("%s: error is %v, expected %q", c.rule, err, c.want)
		}
	}
}

// What calls make of a program is bounded: a text of some lines is refused where it would take all memory.
func TestManyCalls(t *testing.T) {
	if testing.Short() {
		t.Skipf("four million nodes are compiled, which takes some seconds")
	}
	text := v1Text(strings.Join(doubling(24), "\n"), "", "f24(hdr.h.a);")
	_, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(text)}}, "p.p4", Options{})
	if want := "not supported: with every call put in place the program has more than 4194304 nodes"; err == nil || !strings.Contains(err.Error(), want) || !located.MatchString(err.Error()) {
		t.Errorf("error is %v, expected %q", err, want)
	}
}

// doubling are functions f0 to fn, each of which calls the one before twice.
func doubling(n int) []string {
	out := []string{"void f0(inout bit<8> x) { x = x + 1; }"}
	for i := 1; i <= n; i++ {
		f := "f" + strconv.Itoa(i-1) + "(x); "
		out = append(out, "void f"+strconv.Itoa(i)+"(inout bit<8> x) { "+f+f+"}")
	}
	return out
}
