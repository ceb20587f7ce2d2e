package parse

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
)

func parseText(t *testing.T, src string, files map[string]string) (*ast.Program, error) {
	t.Helper()
	return Program("t.p4", []byte(src), Options{
		Builtin: include.Builtin,
		Include: []string{"inc"},
		Define:  map[string]string{"SET": "5"},
		ReadFile: func(n string) ([]byte, error) {
			if s, ok := files[n]; ok {
				return []byte(s), nil
			}
			return nil, errors.New("no such file")
		},
	})
}

// body parses statements within a control's apply.
func body(t *testing.T, stmts string) []ast.Stmt {
	t.Helper()
	p, err := parseText(t, "control c(inout bit<8> a) { apply {\n"+stmts+"\n} }", nil)
	if err != nil {
		t.Fatalf("%s: %v", stmts, err)
	}
	return p.Decls[0].(*ast.ControlDecl).Apply.Stmts
}

// show writes an expression with all its parentheses.
func show(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IntLit:
		if e.Sized {
			return fmt.Sprintf("%dw%v", e.Width, e.Value)
		}
		return e.Value.String()
	case *ast.BoolLit:
		return fmt.Sprint(e.Value)
	case *ast.StringLit:
		return fmt.Sprintf("%q", e.Value)
	case *ast.Ident:
		return e.Name
	case *ast.Member:
		return show(e.X) + "." + e.Name
	case *ast.Index:
		return show(e.X) + "[" + show(e.I) + "]"
	case *ast.Slice:
		if e.Plus {
			return show(e.X) + "[" + show(e.Lo) + "+:" + show(e.Hi) + "]"
		}
		return show(e.X) + "[" + show(e.Hi) + ":" + show(e.Lo) + "]"
	case *ast.Unary:
		return "(" + e.Op.String() + show(e.X) + ")"
	case *ast.Binary:
		return "(" + show(e.X) + " " + e.Op.String() + " " + show(e.Y) + ")"
	case *ast.Ternary:
		return "(" + show(e.Cond) + " ? " + show(e.Then) + " : " + show(e.Else) + ")"
	case *ast.Cast:
		return "cast(" + show(e.X) + ")"
	case *ast.Call:
		s := show(e.Fun)
		if e.TypeArgs != nil {
			s += fmt.Sprintf("<%d>", len(e.TypeArgs))
		}
		var as []string
		for _, a := range e.Args {
			x := show(a.Value)
			if a.Name != "" {
				x = a.Name + "=" + x
			}
			as = append(as, x)
		}
		return s + "(" + strings.Join(as, ", ") + ")"
	case *ast.List:
		var es []string
		for _, x := range e.Elems {
			es = append(es, show(x))
		}
		if e.Rest {
			es = append(es, "...")
		}
		return "{" + strings.Join(es, ", ") + "}"
	case *ast.StructLit:
		var es []string
		for _, f := range e.Fields {
			es = append(es, f.Name+"="+show(f.Value))
		}
		if e.Rest {
			es = append(es, "...")
		}
		return "{" + strings.Join(es, ", ") + "}"
	case *ast.TypeRef:
		return "type"
	case *ast.DontCare:
		return "_"
	case *ast.Dots:
		return "..."
	case *ast.InvalidHeader:
		return "{#}"
	}
	return fmt.Sprintf("%T", e)
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a + b * c - d", "((a + (b * c)) - d)"},
		{"a & b == c", "((a & b) == c)"}, // & binds tighter than ==
		{"a | b < c ^ d", "((a | b) < (c ^ d))"},
		{"a == b < c", "(a == (b < c))"},
		{"a << 2 + 1", "(a << (2 + 1))"},
		{"a >> 2", "(a >> 2)"},
		{"a ++ b ++ c", "((a ++ b) ++ c)"},
		{"a |+| b |-| c", "((a |+| b) |-| c)"},
		{"!a && ~b == c || d", "(((!a) && ((~b) == c)) || d)"},
		{"c ? a : d ? e : f", "(c ? a : (d ? e : f))"},
		{"(bit<8>) a + b", "(cast(a) + b)"},
		{"(T) a", "cast(a)"},
		{"(a) - b", "(a - b)"},
		{"(a) + (b)", "(a + b)"},
		{"- - a", "(-(-a))"},
		{"f<bit<8>>(a)", "f<1>(a)"},
		{"f<tuple<bit<8>, bit<16>>>(a, x = 3)", "f<1>(a, x=3)"},
		{"a < b", "(a < b)"},
		{"a < b && c > (d)", "((a < b) && (c > d))"},
		{"h.f[7:0]", "h.f[7:0]"},
		{"h.f[lo+:4]", "h.f[lo+:4]"},
		{"hs[1].f", "hs[1].f"},
		{"hs.next.f", "hs.next.f"},
		{"t.apply().hit", "t.apply().hit"},
		{"{ 1, {2, 3}, ... }", "{1, {2, 3}, ...}"},
		{"{ a = 1, b = {c = 2}, ... }", "{a=1, b={c=2}, ...}"},
		{"{#}", "{#}"},
		{"8w0xFF + 0b1_0 + 0o17 + 1_000", "(((8w255 + 2) + 15) + 1000)"},
		{"error.NoError", "error.NoError"},
		{"(bit<8>){1}", "cast({1})"},
		{"bit<8>.minSizeInBits()", "type.minSizeInBits()"},
		{`f("a\"b")`, `f("a\"b")`},
	} {
		s := body(t, "x = "+c.src+";")
		if got := show(s[0].(*ast.Assign).Rhs); got != c.want {
			t.Errorf("%s reads as %s, want %s", c.src, got, c.want)
		}
	}
}

func TestStatements(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"bit<8> x;", "*ast.DeclStmt *ast.VarDecl"},
		{"T x = 1;", "*ast.DeclStmt *ast.VarDecl"},
		{"T[3] x;", "*ast.DeclStmt *ast.VarDecl"},
		{".T x;", "*ast.DeclStmt *ast.VarDecl"},
		{"S<bit<8>> x = {1};", "*ast.DeclStmt *ast.VarDecl"},
		{"const bit<8> x = 1;", "*ast.DeclStmt *ast.ConstDecl"},
		{"R<bit<8>>(4) r;", "*ast.DeclStmt *ast.Instantiation"},
		{"R(f(4), {1}) r;", "*ast.DeclStmt *ast.Instantiation"},
		{"a.b = 1;", "*ast.Assign"},
		{"a[3] = x;", "*ast.Assign"},
		{"a >>= 2;", "*ast.Assign"},
		{"a |+|= 2;", "*ast.Assign"},
		{"f(1);", "*ast.CallStmt"},
		{"h.push_front(1);", "*ast.CallStmt"},
		{"f<bit<8>>(1);", "*ast.CallStmt"},
		{"for (bit<8> i = 0; i < 4; i = i + 1) { }", "*ast.For"},
		{"for (i = 0, j = 1; ; ) f();", "*ast.For"},
		{"for (bit<8> i in 1 .. 5) { break; continue; }", "*ast.ForIn"},
		{"for (h_t h in hs) ;", "*ast.ForIn"},
		{"switch (t.apply().action_run) { a: b: { } default: { } }", "*ast.Switch"},
		{"if (a) x = 1; else if (b) x = 2;", "*ast.If"},
		{"@atomic { }", "*ast.Block"},
		{"return;", "*ast.Return"},
		{"exit;", "*ast.Exit"},
		{";", "*ast.Empty"},
	} {
		s := body(t, c.src)
		got := fmt.Sprintf("%T", s[0])
		if d, ok := s[0].(*ast.DeclStmt); ok {
			got += fmt.Sprintf(" %T", d.Decl)
		}
		if len(s) != 1 || got != c.want {
			t.Errorf("%s reads as %s (%d statements), want %s", c.src, got, len(s), c.want)
		}
	}
	if a := body(t, "a >>= 2;")[0].(*ast.Assign); a.Op != ast.OpShr {
		t.Errorf(">>= has the operator %v", a.Op)
	}
}

func TestPreprocessor(t *testing.T) {
	files := map[string]string{"inc/x.p4": "const int X = 1;\n#include \"y.p4\"\n", "inc/y.p4": "#define Y 2\n"}
	for _, c := range []struct{ src, want string }{
		{"#define A 1 + \\\n 2\nconst int x = A;", "(1 + 2)"},
		{"#define A 1 + \\ \t\r\n 2\nconst int x = A;", "(1 + 2)"},
		{"#nonsense 'x\nconst int x = 1;", "1"},
		{"#define F(a, b) a * (b)\nconst int x = F(2, F(3, 4));", "(2 * (3 * 4))"},
		{"#define F(a) a\nconst int F = 3; const int x = F (4);", "4"},
		{"#define A B\n#define B A\nconst int x = A;", "A"},
		{"const int x = SET;", "5"},
		{"const int x = __LINE__;", "1"},
		{"#include <x.p4>\nconst int x = Y;", "2"},
		{"#include <core.p4>\n#include <v1model.p4>\nconst int x = V1MODEL_VERSION;", "20180101"},
		{"#if SET >= 5 && !defined(NO) && defined SET\nconst int x = 1;\n#else\nconst int x = ;\n#endif", "1"},
		{"#if 0\n\"\n#elif 1 << 3 == 8 // c\nconst int x = 2;\n#elif 1\n#error no\n#else\n#endif", "2"},
		{"#ifdef NO\n#if 1\n#else\n#endif\n#else\nconst int x = 3;\n#endif", "3"},
		{"#define CAT(a, b) a##b\nconst int x = CAT(y, 1);", "y1"},
		{"#define S(a) #a\nconst string x = S(b + c);", `"b + c"`},
		{"#undef SET\nconst int x = SET; /* a\n#if */", "SET"},
		{"// c \\\n const int x = 7;\nconst int x = 8;", "8"},
		// What && and || leave out, and the other branch of ?:, is not evaluated.
		{"#if defined NO && 8 / NO > 2 || SET < 4 && 1 % 0 || 1 || 1 / 0\nconst int x = 4;\n#endif", "4"},
		{"#if (1 ? 2 : 1 / 0) == 2 && (0 ? 1 % 0 : 3) == 3\nconst int x = 4;\n#endif", "4"},
		// Nothing pasted with something is that.
		{"#define P(a, b) 1 + a##b\nconst int x = P(, 2);", "(1 + 2)"},
		{"#define P(a, b) a##b\nconst int x = P(, y) + P(y, ) + P(y, 1) + 0 P(,);", "(((y + y) + y1) + 0)"},
		{"#define P(a, b, c) a##b##c\nconst int x = P(y,,1);", "y1"},
		// The arguments of a macro may follow one that expands to its name.
		{"#define F(a) a + 1\n#define G F\n#define H G\nconst int x = G(2) + H(3);", "(((2 + 1) + 3) + 1)"},
		{"#define F(a) G\n#define G(a) a\nconst int x = F(1)(2) + F(1)(F(3))(4);", "(2 + G(4))"},
		{"#define F(a) F(a)\n#define T F\nconst int x = F(1) + T(2);", "(F(1) + F(2))"},
		{"#define F(a) a\n#define L (\nconst int x = F L 1);", "F(1)"},
		{"#define A() 1\n#define B(x) x\nconst int x = A() + A( ) + B() 2;", "((1 + 1) + 2)"},
		{"#define TWICE(f, x) f(f(x))\n#define INC(x) (x + 1)\nconst int x = TWICE(INC, 2);", "((2 + 1) + 1)"},
		{"#define N 3\n#define S(a) #a\n#define SS(a) S(a)\nconst string x = SS(N);", `"3"`},
		{"#if 0x10 == 16 && 0b101 == 5 && -7 / 2 == -3 && -7 % 2 == -1 && ~0 == -1 && !0 && (3 ^ 1) == 2 && (6 & 3) == 2 && (4 | 1) == 5 && 1 << 4 >> 2 == 4\nconst int x = 1;\n#endif", "1"},
		{"#if 010 == 8 && 0 == 00 && 007 == 7\nconst int x = 010;\n#endif", "10"},
		{"#if true && !false && (unknown == 0)\nconst int x = 1;\n#endif", "1"},
		{"#ifndef NO\n#define NO\n#endif\n#ifdef NO\nconst int x = 2 NO;\n#endif", "2"},
		{"#define INC <x.p4>\n#include INC\nconst int x = Y;", "2"},
		{"#pragma once\n#warning x\n#line 4\n# 5 \"f\"\n#\nconst int x = 1;", "1"},
		{"#if 0\n#include <nothing>\n#define SET 7\n#nonsense\n'\n#endif\nconst int x = SET;", "5"},
		{"#define X 1\n#define X 2\nconst int x = X;\n#define X 3", "2"},
		{"const string x = __FILE__;", `"t.p4"`},
		{"#define L __LINE__\n\nconst int x = L;", "3"},
	} {
		p, err := parseText(t, c.src, files)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		d, ok := p.Decls[len(p.Decls)-1].(*ast.ConstDecl)
		if !ok || show(d.X) != c.want {
			t.Errorf("%s reads as %s, want %s", c.src, show(d.X), c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"const int x = 1", "t.p4:1:15: expected ';' before the end of the file"},
		{"\n  const bit<8> = 1;", "t.p4:2:16: expected the name of the constant before '='"},
		{"const int x = 1 +;", "t.p4:1:18: expected an expression before ';'"},
		{"#include <no.p4>", "t.p4:1:1: cannot find no.p4 in inc: name its directory with -I"},
		{"#if 1\n", "t.p4:1:1: this #if has no #endif"},
		{"#endif", "t.p4:1:1: #endif without #if: remove it or add the #if"},
		{"#if 08\n#endif", "t.p4:1:1: '08' is no integer of base 8, which the 0 in front makes it"},
		{"#if 1 / 0\n#endif", "t.p4:1:1: division by zero in the condition"},
		{"#define F(a) a\nconst int x = F(1, 2);", "t.p4:2:15: macro F takes 1 arguments, not 2"},
		{"#error use another", "t.p4:1:1: #error use another"},
		{"/* x", "t.p4:1:1: this comment has no end: close it with */"},
		{"const string s = \"x", "t.p4:1:18: this string has no end: close it with a quote"},
		{"const int x = 0xg;", "t.p4:1:15: '0xg' is no integer of base 16"},
		{"const int x = 8w;", "t.p4:1:15: '8w' is no integer of base 10"},
		{"const int table = 1;", "t.p4:1:11: 'table' is a keyword: give the constant another name"},
		{"control c() { }", "t.p4:1:15: the control c has no apply { }"},
		{"control c() { apply { 3; } }", "t.p4:1:24: expected '=' or a call before ';': an expression alone is no statement"},
		{"control c() { apply { ", "t.p4:1:21: this { has no }"},
		{"parser p() { state s { transition accept; x = 1; } }", "t.p4:1:43: the transition is a state's last statement: close the state before 'x'"},
		{"control c() { table t { key = { } key = { } } apply { } }", "t.p4:1:35: a second key of table t: leave one"},
		{"const int x = " + strings.Repeat("(", 5000), "nested more than 1500 deep: split it"},
		{"const int x = a" + strings.Repeat("+a", 5000) + ";", "nested more than 1500 deep: split it"},
		{"#include \"t.p4\"", "cannot find t.p4"},
	} {
		_, err := parseText(t, c.src, nil)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: error is %v, want %s", c.src, err, c.want)
		}
	}
	loop := map[string]string{"inc/l.p4": "#include <l.p4>\n"}
	if _, err := parseText(t, "#include <l.p4>", loop); err == nil || !strings.Contains(err.Error(), "more than 64 deep") {
		t.Errorf("a file that includes itself: %v", err)
	}
	bomb := "#define A0 x x x x x x x x x x\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("#define A%d A%d A%d A%d A%d A%d A%d A%d A%d\n", i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	if _, err := parseText(t, bomb+"A11", nil); err == nil || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("macros that double: %v", err)
	}
}

const whole = `
#include <v1model.p4>
@pragma x y z
typedef bit<48> mac_t;
type bit<9> port_t;
enum E { A, B }
enum bit<8> F { A = 1, B = 2 }
error { Mine }
header h_t { mac_t d; @x varbit<32> v; }
header_union u_t { h_t a; h_t b; }
struct s_t<T> { T f; h_t[3] st; }
extern RA<T> { RA(bit<32> n); abstract void apply(inout T v, @optional out T r); T go<U>(in U x); }
bit<8> fun<T>(in T x, bit<8> y = 3) { return y; }
parser p(packet_in b, out h_t h)(bit<8> n) {
    value_set<bit<8>>(4) vs;
    bit<8> x;
    state start { b.extract(h); transition select(h.d, x) { (1, 2 &&& 3): a; (4 .. 5, _): accept; default: reject; } }
    state a { transition select(x) { vs: accept; (x + 1): a; } }
}
@name(".ctl") control c(inout h_t h)(RA<bit<8>> ra) {
    RA<bit<8>>(7) r = { void apply(inout bit<8> v) { v = 1; } };
    action act(in bit<8> i, bit<8> d) { }
    table t {
        key = { h.d[7:0] : exact @name("k"); h.isValid() : ternary; }
        actions = { act(h.d[7:0]); @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = { (1, _) : act(1); priority = 3 : (2 &&& 3, true) : act(2) @name("e"); }
        size = 12;
        implementation = action_profile(32);
    }
    apply { switch (t.apply().action_run) { act: { } } }
}
`

func TestWholeProgram(t *testing.T) {
	p, err := parseText(t, whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Decls[len(p.Decls)-1].(*ast.ControlDecl)
	tab := c.Locals[2].(*ast.TableDecl)
	if tab.Keys[0].Name != "k" || tab.Keys[1].Name != "h.isValid()" || len(tab.Entries) != 2 || tab.Entries[1].Priority == nil ||
		!tab.ConstEntries || !tab.ConstDefault || !tab.Actions[1].DefaultOnly || tab.Prop("size") == nil {
		t.Errorf("the table reads as %+v", tab)
	}
	if got := c.LocalName(); got != ".ctl" {
		t.Errorf("the control's name is %s, want .ctl", got)
	}
	if got := tab.Pos().String(); got != "t.p4:23:11" {
		t.Errorf("the table is at %s, want t.p4:23:11", got)
	}
}

func FuzzProgram(f *testing.F) {
	f.Add(whole)
	f.Add("#define A(x) x##x\n#if A(1)\nconst int y = (a[(b<c>)d]);\n#endif")
	f.Add("control c() { apply { a<b<c(d)>e; (f)<g>(h)[i:j].k = {l=m, ...}; } }")
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<16 {
			t.Skip("longer than 64 KiB")
		}
		var p *ast.Program
		var err error
		infile.Within(t, func() { p, err = parseText(t, src, nil) })
		var e *Error
		if err != nil && !errors.As(err, &e) || err == nil && p == nil {
			t.Fatalf("program %v, error %v", p, err)
		}
	})
}
