package parse

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// What is no P4: the first fault with its place and its whole message.
func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"#ifdef\n#endif", "1:1: #ifdef needs a name"},
		{"#if 1\n#else\n#else\n#endif", "3:1: a second #else for the #if of line 1"},
		{"#if 1\n#else\n#elif 1\n#endif", "3:1: #elif behind the #else of the #if of line 1"},
		{"#define F(a,) a", "1:1: parameters of macro F are names between commas"},
		{"#include", `1:1: #include needs "file" or <file>`},
		{`#include "x`, `1:1: #include needs "file" or <file>`},
		{"#include NO", `1:1: #include needs "file" or <file>`},
		{"#define", "1:1: #define needs a name"},
		{"#define 3", "1:1: #define needs a name"},
		{"#define F(a b) a", "1:1: parameters of macro F are names between commas"},
		{"#define F(1) a", "1:1: parameters of macro F are names between commas"},
		{"#if defined", "1:1: defined needs a name"},
		{"#if defined(X", "1:1: defined(X lacks its )"},
		{"#if 1 2", "1:1: the condition ends before '2'"},
		{"#if 1 ? 2", "1:1: ? lacks its : in the condition"},
		{"#if", "1:1: the condition ends too early"},
		{"#if (1", "1:1: ( lacks its ) in the condition"},
		{"#if @", "1:1: '@' has no place in a condition"},
		{"#if 1 +", "1:1: the condition ends too early"},
		{"#if 08x", "1:1: '08x' is no integer of base 10"},
		{"#endif", "1:1: #endif without #if: remove it or add the #if"},
		{"#else", "1:1: #else without #if: remove it or add the #if"},
		{"const bit<8> x = 99999999999999999999w1;", "1:18: the width of 99999999999999999999w1 is beyond 65536 bits"},
		{"const int x = 0s1;", "1:15: 0s1 has no bits: a width is 1 or more"},
		{"const int x = 8w0b2;", "1:15: '8w0b2' is no integer of base 2"},
		{"const int x = 'a';", "1:15: expected an expression before '''"},
		{"/* a", "1:1: this comment has no end: close it with */"},
		{"5", "1:1: expected a declaration before '5'"},
		{";5", "1:2: expected a declaration before '5'"},
		{"bit<8>", "1:6: expected the name of the function before the end of the file"},
		{"bit<+> x", "1:6: expected an expression before '>'"},
		{"bit< x", "1:6: expected '>' before the end of the file"},
		{"list<bit<8>, bool> f() { }", "1:1: list takes one type argument"},
		{"struct", "1:1: expected the name of the struct before the end of the file"},
		{"struct 5 { }", "1:8: expected the name of the struct before '5'"},
		{"struct s { bit<8>; }", "1:18: expected the name of the field before ';'"},
		{"struct s { bit<8> a }", "1:21: expected ';' before '}'"},
		{"struct s { bit<8> a;", "1:20: expected a type before the end of the file"},
		{"struct action { }", "1:8: 'action' is a keyword: give the struct another name"},
		{"enum e", "1:6: expected '{' before the end of the file"},
		{"enum e { A B }", "1:12: expected '}' before 'B'"},
		{"enum e { 5 }", "1:10: expected the name of the member before '5'"},
		{"header h { @ bit<8> x; }", "1:17: expected a type before '<'"},
		{"header h { @name( bit<8> x; }", "1:17: the annotation @name lacks its )"},
		{"header h { @name[a=] bit<8> x; }", "1:20: expected an expression before ']'"},
		{"typedef bit<8>;", "1:15: expected the name of the type before ';'"},
		{"typedef bit<8> t", "1:16: expected ';' before the end of the file"},
		{"type", "1:1: expected a type before the end of the file"},
		{"extern", "1:1: expected a type before the end of the file"},
		{"extern e { e() }", "1:16: expected ';' before '}'"},
		{"extern e { void; }", "1:16: expected the name of the method before ';'"},
		{"extern e { abstract; }", "1:20: expected a type before ';'"},
		{"extern void f()", "1:15: expected ';' before the end of the file"},
		{"package p", "1:9: expected '(' before the end of the file"},
		{"parser", "1:1: expected the name of the parser before the end of the file"},
		{"parser p", "1:8: expected '(' before the end of the file"},
		{"parser p()", "1:10: expected '{' before the end of the file"},
		{"parser p() { state }", "1:14: expected a state or a declaration before 'state'"},
		{"parser p() { state s", "1:20: expected '{' before the end of the file"},
		{"parser p() { state s { transition } }", "1:35: expected the name of the state before '}'"},
		{"parser p() { state s { transition select } }", "1:42: expected '(' before '}'"},
		{"parser p() { state s { transition select(x) { 1 accept; } } }", "1:49: expected ':' before 'accept'"},
		{"parser p() { state s { transition select(x) { 1: accept } } }", "1:57: expected ';' before '}'"},
		{"parser p() { state s { if (x) transition accept; } }", "1:31: transition ends a parser's state: it has no place among statements"},
		{"parser p() { state s { } bit<8> x; }", "1:26: expected a state before 'bit': declare what the states share before the first"},
		{"parser p() { action a() { } }", "1:14: expected a state or a declaration before 'action'"},
		{"parser p() { value_set<bit<8>> v; }", "1:32: expected '(' before 'v'"},
		{"parser p() {", "1:12: the parser p has no }"},
		{"control c() { apply { } bit<8> x; }", "1:25: apply is a control's last part: move what follows it in front"},
		{"control c() { apply { } apply { } }", "1:25: apply is a control's last part: move what follows it in front"},
		{"control c() { apply { } ; }", "1:25: apply is a control's last part: move what follows it in front"},
		{"control c() { state s { } apply { } }", "1:23: expected ';' before '{'"},
		{"control c() { 5; apply { } }", "1:15: expected a declaration or apply before '5'"},
		{"control c() { action a { } apply { } }", "1:24: expected '(' before '{'"},
		{"control c() { action a() apply { } }", "1:26: expected '{' before 'apply'"},
		{"control c() { table { } apply { } }", "1:21: expected the name of the table before '{'"},
		{"control c() { table t { 5 } apply { } }", "1:25: expected a table's property before '5'"},
		{"control c() { table t { key } apply { } }", "1:29: expected '=' before '}'"},
		{"control c() { table t { key = { a } } apply { } }", "1:35: expected ':' before '}'"},
		{"control c() { table t { key = { a: } } apply { } }", "1:36: expected the name of the match kind before '}'"},
		{"control c() { table t { key = { a: exact } } apply { } }", "1:42: expected ';' before '}'"},
		{"control c() { table t { actions = { a } } apply { } }", "1:39: expected ';' before '}'"},
		{"control c() { table t { actions = { 5; } } apply { } }", "1:37: expected the name of the action before '5'"},
		{"control c() { table t { entries = { 1: a; } key = { a: exact; } } apply { } }", "1:25: entries of table t in front of its key: move it behind"},
		{"control c() { table t { key = { a: exact; } entries = { 1 a; } } apply { } }", "1:59: expected ':' before 'a'"},
		{"control c() { table t { actions = { } default_action = ; } apply { } }", "1:56: expected the name of the action before ';'"},
		{"control c() { table t { default_action = a; actions = { a; } } apply { } }", "1:25: default_action of table t in front of its actions: move it behind"},
		{"control c() { table t { default_action = a; } apply { } }", "1:25: table t has a default_action and no actions: write actions = { ... } in front of it"},
		{"control c() { apply { for (i in 1 .. 2) { } } }", "1:28: the variable of this loop needs its type: write for (TYPE i in ...)"},
		{"control c() { table t { size = 5 } apply { } }", "1:34: expected ';' before '}'"},
		{"control c() { table t { size = 5; size = 6; } apply { } }", "1:35: a second size of table t: leave one"},
		{"control c() { apply { transition accept; } }", "1:23: transition ends a parser's state: it has no place among statements"},
		{"control c() { apply { x } }", "1:25: expected '=' or a call before '}': an expression alone is no statement"},
		{"control c() { apply { x = ; } }", "1:27: expected an expression before ';'"},
		{"control c() { apply { x = 1 } }", "1:29: expected ';' before '}'"},
		{"control c() { apply { x. = 1; } }", "1:26: expected a member's name behind the dot before '='"},
		{"control c() { apply { x[1 = 1; } }", "1:27: expected ']' before '='"},
		{"control c() { apply { x[1:] = 1; } }", "1:27: expected an expression before ']'"},
		{"control c() { apply { f(; } }", "1:25: expected an expression before ';'"},
		{"control c() { apply { f(1 2); } }", "1:27: expected ')' before '2'"},
		{"control c() { apply { f(a=); } }", "1:27: expected an expression before ')'"},
		{"control c() { apply { if x { } } }", "1:26: expected '(' before 'x'"},
		{"control c() { apply { if (x { } } }", "1:29: expected ')' before '{'"},
		{"control c() { apply { if (x) } }", "1:30: expected an expression before '}'"},
		{"control c() { apply { if (x) { } else } }", "1:39: expected an expression before '}'"},
		{"control c() { apply { switch x { } } }", "1:30: expected '(' before 'x'"},
		{"control c() { apply { switch (x) { 1 { } } } }", "1:38: expected ':' before '{'"},
		{"control c() { apply { for x } }", "1:29: expected ';' before '}'"},
		{"control c() { apply { for (bit<8> i = 0; i < 3) { } } }", "1:47: expected ';' before ')'"},
		{"control c() { apply { for (bit<8> i in) { } } }", "1:39: expected an expression before ')'"},
		{"control c() { apply { if (true) bit<8> y = 1; } }", "1:33: a declaration alone is no branch and no body of a loop: put it into { }"},
		{"control c() { apply { if (true) { } else const bit<8> y = 1; } }", "1:42: a declaration alone is no branch and no body of a loop: put it into { }"},
		{"control c() { apply { for (bit<8> i in 1 .. 2) c() y; } }", "1:48: a declaration alone is no branch and no body of a loop: put it into { }"},
		{"control c() { apply { return 1 } }", "1:32: expected ';' before '}'"},
		{"control c() { apply { return } }", "1:30: expected an expression before '}'"},
		{"control c() { apply { exit } }", "1:28: expected ';' before '}'"},
		{"control c() { apply { bit<8> x = 1, y = 2; } }", "1:35: expected ';' before ','"},
		{"control c() { apply { const bit<8> x; } }", "1:37: expected '=' before ';'"},
		{"control c() { apply { x = { 1, ; } }", "1:32: expected an expression before ';'"},
		{"control c() { apply { x = { a = 1, b }; } }", "1:38: expected '=' before '}'"},
		{"control c() { apply { x = (bit<8>; } }", "1:34: expected ')' before ';'"},
		{"control c() { apply { x = (1; } }", "1:29: expected ')' before ';'"},
		{"control c() { apply { x = a ? b; } }", "1:32: expected ':' before ';'"},
		{"control c() { apply { x = a +* b; } }", "1:30: expected an expression before '*'"},
		{"control c() { apply { x = 1 = 2; } }", "1:29: expected ';' before '='"},
		{"control c(inn bit<8> x) { apply { } }", "1:15: 'bit' is a keyword: give the parameter another name"},
		{"control c(in bit<8>) { apply { } }", "1:20: expected the name of the parameter before ')'"},
		{"control c(in bit<8> x = ) { apply { } }", "1:25: expected an expression before ')'"},
		{"control c<>() { apply { } }", "1:11: expected the name of the type parameter before '>'"},
		{"control c<T(in T x) { apply { } }", "1:12: expected '>' before '('"},
		{"void f(in bit<8> x)", "1:19: expected '{' before the end of the file"},
		{"void f(in bit<8> x) { return; ", "1:21: this { has no }"},
		{"V() main", "1:5: expected ';' before the end of the file"},
		{"V(,) main;", "1:3: expected an expression before ','"},
		{"V(P() main;", "1:7: expected ')' before 'main'"},
		{"V<bit<8>() main;", "1:9: expected '>' before '('"},
		{"error { A B }", "1:11: expected '}' before 'B'"},
		{"const x = 1;", "1:9: expected the name of the constant before '='"},
		{"const bit<8> x 1;", "1:16: expected '=' before '1'"},
		{"const bit<8> = 1;", "1:14: expected the name of the constant before '='"},
		{"action a()", "1:10: expected '{' before the end of the file"},
	} {
		_, err := parseText(t, c.src, nil)
		var e *Error
		if want := "t.p4:" + c.want; !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s:\n error is %v\n want     %s", c.src, err, want)
		}
	}
}

// Every kind of declaration, and where it stands: at its name.
func TestDeclarations(t *testing.T) {
	for _, c := range []struct {
		src, name string
		column    int
		is        func(ast.Decl) bool
	}{
		{"const bit<8> k = 1;", "k", 14, is(func(d *ast.ConstDecl) bool { return d.X != nil })},
		{"typedef bit<8> t;", "t", 16, is(func(d *ast.TypedefDecl) bool { return !d.New && d.Struct == nil })},
		{"type bit<8> t;", "t", 13, is(func(d *ast.TypedefDecl) bool { return d.New })},
		{"typedef struct s { bit<8> a; } t;", "t", 32, is(func(d *ast.TypedefDecl) bool { return d.Struct.DeclName() == "s" })},
		{"struct s<T, U> { T a; U b; }", "s", 8, is(func(d *ast.StructDecl) bool {
			return d.Kind == types.PlainStruct && len(d.TypeParams) == 2 && len(d.Fields) == 2
		})},
		{"header h { }", "h", 8, is(func(d *ast.StructDecl) bool { return d.Kind == types.Header })},
		{"header_union u { h a; }", "u", 14, is(func(d *ast.StructDecl) bool { return d.Kind == types.Union })},
		{"enum e { A, B, }", "e", 6, is(func(d *ast.EnumDecl) bool { return d.Underlying == nil && len(d.Members) == 2 })},
		{"enum bit<8> e { A = 1, B = A }", "e", 13, is(func(d *ast.EnumDecl) bool { return d.Underlying != nil && d.Members[1].Value != nil })},
		{"error { A, B }", "error", 1, is(func(d *ast.ErrorDecl) bool { return len(d.Members) == 2 })},
		{"match_kind { a }", "match_kind", 1, is(func(d *ast.MatchKindDecl) bool { return d.Members[0].Name == "a" })},
		{"extern void f<T>(in T x, @optional out bit<8> y, bit<8> z = 3);", "f", 13, is(func(d *ast.FunctionDecl) bool {
			return d.Body == nil && d.Extern == nil && d.Params[0].Dir == types.In && d.Params[1].Optional && d.Params[1].Dir == types.Out && d.Params[2].Default != nil
		})},
		{"extern x<T>;", "x", 8, is(func(d *ast.ExternDecl) bool { return len(d.TypeParams) == 1 && d.Methods == nil })},
		{"extern x { x(); x(bit<8> n); abstract void a(); T m<T>(); x x(); }", "x", 8, is(func(d *ast.ExternDecl) bool {
			return len(d.Ctors) == 2 && len(d.Methods) == 3 && d.Methods[0].Abstract && len(d.Methods[1].TypeParams) == 1 && d.Methods[2].Extern == d
		})},
		{"bit<8> f(inout bit<8> x) { return x; }", "f", 8, is(func(d *ast.FunctionDecl) bool { return len(d.Body.Stmts) == 1 && d.Params[0].Dir == types.InOut })},
		{"action a(in bit<8> x, bit<8> y) { }", "a", 8, is(func(d *ast.ActionDecl) bool { return d.Params[1].Dir == types.None })},
		{"parser p<T>(in T x);", "p", 8, is(func(d *ast.ParserDecl) bool { return d.IsType && d.States == nil })},
		{"parser p()(bit<8> n) { ; const bit<8> k = 1; value_set<bit<8>>(2) v; state s { } state t { transition s; } const bit<8> l = 2; }", "p", 8,
			is(func(d *ast.ParserDecl) bool {
				return !d.IsType && len(d.Ctor) == 1 && len(d.Locals) == 3 && len(d.States) == 2 && d.States[0].Transition == nil && d.States[1].Transition.Next.Name == "s"
			})},
		{"control c(in bit<8> x);", "c", 9, is(func(d *ast.ControlDecl) bool { return d.IsType && d.Apply == nil })},
		{"control c()(bit<8> n) { bit<8> v; x() o; ; action a() { } table t { actions = { a; } } apply @likely { v = 1; } }", "c", 9,
			is(func(d *ast.ControlDecl) bool {
				return len(d.Ctor) == 1 && len(d.Locals) == 4 && len(d.Apply.Stmts) == 1
			})},
		{"package p<T>(c<T> x, @optional c<T> y);", "p", 9, is(func(d *ast.PackageDecl) bool { return d.Params[1].Optional })},
		{"p(c(), d(1)) main;", "main", 14, is(func(d *ast.Instantiation) bool { return len(d.Args) == 2 && !d.HasBody })},
		{"p<bit<8>>(x = c()) main;", "main", 20, is(func(d *ast.Instantiation) bool { return d.Args[0].Name == "x" })},
		{"x() o = { void m() { } y() inner; };", "o", 5, is(func(d *ast.Instantiation) bool { return d.HasBody && len(d.Body) == 2 })},
		{"@name(\"n\") @hidden @range[a=1, b=2] @list[1, 2] @text(some tokens) struct s { }", "s", 75, is(func(d *ast.StructDecl) bool {
			as := d.Annotations
			return len(as) == 5 && d.LocalName() == "n" && as.Find("hidden") != nil && len(as.Find("range").Pairs) == 2 &&
				len(as.Find("list").Exprs) == 2 && as.Find("text").Text == "some tokens"
		})},
	} {
		p, err := parseText(t, c.src, nil)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		d := p.Decls[len(p.Decls)-1]
		if at := d.Pos(); d.DeclName() != c.name || at.Line != 1 || at.Col != c.column {
			t.Errorf("%s: declares %s at %s, want %s in column %d", c.src, d.DeclName(), at, c.name, c.column)
		}
		if !c.is(d) {
			t.Errorf("%s reads as %T %+v", c.src, d, d)
		}
	}
}

// is tests a declaration of one kind.
func is[D ast.Decl](f func(D) bool) func(ast.Decl) bool {
	return func(d ast.Decl) bool {
		x, ok := d.(D)
		return ok && f(x)
	}
}
