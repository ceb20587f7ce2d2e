package check

import (
	"errors"
	"reflect"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

const features = `
#include <core.p4>
enum E { A, B }
enum bit<8> F { X = 1, Y = X + 1 }
type bit<9> port_t;
typedef tuple<bit<8>, bool> pair_t;
header h_t { bit<8> a; varbit<32> v; F f; }
header g_t { bit<16> b; }
header_union u_t { h_t h; g_t g; }
struct s_t<T> { T x; g_t[3] st; u_t u; port_t p; }
struct o_t { s_t<bit<8>> s; E e; error r; }
extern R<T, I> { R(bit<32> n); T get(in I i); abstract void up(inout T v, @optional out T w); }
extern bit<8> ext<T>(in T x, @optional in bit<8> y, bit<8> z = 3);
const bit<8> C = (bit<8>)F.Y ++ 4w0 == 12w32 ? 8w1 : 2;
const o_t O = { s = { 1, ... }, e = E.B, ... };
T id<T>(in T x) { return x; }
bit<8> two(in bit<8> a, in bit<8> b = 7) { if (a < b) { return id(a); } else { return a |+| b; } }
control C0(inout o_t o)(int n, R<bit<8>, bit<4>> r) { apply { o.s.x = n; o.s.st[n] = (g_t){#}; } }
parser P0(packet_in p, out g_t g) { state start { p.extract(g); transition accept; } }
parser P(packet_in p, out o_t o) {
    value_set<tuple<bit<8>, bit<16>>>(4) vs;
    P0() sub;
    state start {
        bit<8> k = p.lookahead<bit<8>>();
        sub.apply(p, o.s.st.next);
        verify(k != 0, error.NoMatch);
        transition select(k, o.s.st.last.b) { vs: start; (1 .. 3, 0x10 &&& 0xf0): accept; (_, 5): more; default: reject; }
    }
    state more { p.extract(o.s.u.h, 8); o.s.st.pop_front(1); transition select(o.s.u.h.f) { F.X: accept; } }
}
control D(inout o_t o, out bit<8> y) {
    R<bit<8>, bit<4>>(4) reg = { void up(inout bit<8> v) { v = v + two(b = 2, a = v); } };
    C0(1, reg) c1;
    C0(n = 2, r = reg) c2;
    pair_t pr = { 3, true };
    action act(in bit<8> q, bit<8> d) { o.s.x = q + d; }
    table t {
        key = { o.s.x: ternary; o.s.u.h.isValid(): exact @name("valid"); o.e: exact; }
        actions = { act(pr[0]); NoAction; }
        default_action = act(pr[0], 4);
        entries = { priority = 3: (1 &&& 7, true, E.A): act(9); (_, false, E.B): NoAction; }
    }
    apply {
        y = 0;
        c1.apply(o);
        c2.apply(o = o);
        switch (t.apply().action_run) { act: { y = 1; } default: { } }
        for (bit<8> i in 0 .. 7) { if (i == 3) continue; y += i << 2; }
        for (bit<4> i = 0, bit<4> j = 1; i < 3; i = i + 1) { o.s.st[i].b[7:0] = -o.s.x; break; }
        switch (o.s.x) { 1: 2: { y = ext(o); } default: { y = ext<bit<3>>(2, z = 9); } }
        y = O.s.x + C + (bit<8>)(bit<9>)o.s.p;
        if (t.apply().miss || o.s.st.size > 2 && { 1, false } == pr) { return; }
        o.s.u.g.setValid();
        o.s.x = reg.get(3)[3+:2] ++ (bit<6>)o.s.st.minSizeInBits();
    }
}
control CT(inout o_t o, out bit<8> y);
parser PT(packet_in p, out o_t o);
package pk(PT p, CT c);
pk(P(), D()) main;
`

func TestFeatures(t *testing.T) {
	p, err := load(features, Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := walk(t, p)
	if seen < 250 {
		t.Errorf("the tree has %d expressions", seen)
	}
}

// walk visits every expression of the instances and holds the promises of
// package ast against it. It gives how many there are.
func walk(t *testing.T, p *ast.Program) int {
	n := 0
	done := map[any]bool{}
	var visit func(v reflect.Value, depth int)
	visit = func(v reflect.Value, depth int) {
		if depth > 5000 {
			return
		}
		switch v.Kind() {
		case reflect.Interface:
			if !v.IsNil() {
				visit(v.Elem(), depth+1)
			}
		case reflect.Pointer:
			if v.IsNil() || v.Type().Elem().PkgPath() != "github.com/sluice-rdma/sluice/p4/internal/ast" || done[v.Interface()] {
				return
			}
			done[v.Interface()] = true
			switch x := v.Interface().(type) {
			case *ast.Annotation, *ast.Value:
				return
			case *ast.Instantiation:
				if x.Instance == nil {
					t.Errorf("%s: no instance of %s", x.P, x.Name)
				}
			case *ast.Ident:
				if x.Decl == nil && x.Name != "this" && x.V == nil && x.T != types.Type(types.MatchKind) && !isErrorType(x) {
					t.Errorf("%s: nothing for the name %s", x.P, x.Name)
				}
			case *ast.Call:
				if x.Kind == ast.CallNone {
					t.Errorf("%s: a call of nothing", x.P)
				}
				if (x.Kind == ast.CallControl || x.Kind == ast.CallParser) && x.Instance == nil {
					t.Errorf("%s: no instance", x.P)
				}
			case ast.Expr:
			}
			if e, ok := v.Interface().(ast.Expr); ok {
				n++
				switch ty := e.Type(); {
				case ty == nil, ty == types.Type(types.Invalid):
					t.Errorf("%s: %T has the type %v", e.Pos(), e, ty)
				case ty == types.Type(types.Integer) && e.Const() == nil:
					t.Errorf("%s: %T of type int without a value", e.Pos(), e)
				}
			}
			visit(v.Elem(), depth+1)
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i), depth+1)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				switch v.Type().Field(i).Name {
				case "Args", "Fun", "TypeArgs", "TypeExpr", "To", "Written", "ElemExpr", "ReturnType", "Decl", "Func",
					"ArgDecls", "Ctor", "Extern", "Package", "Parent", "Param":
					continue // as written, or not of an instance
				}
				visit(v.Field(i), depth+1)
			}
		}
	}
	for _, i := range p.Instances {
		visit(reflect.ValueOf(i), 0)
	}
	return n
}

func isErrorType(x *ast.Ident) bool { return x.Name == "error" }

func FuzzCheck(f *testing.F) {
	f.Add(router)
	f.Add(features)
	f.Add("struct a<T> { T x; } typedef a<a<bit<8>>> b; const b c = { ... }; bit<8> f(in b x) { return x.x.x; }")
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<14 {
			t.Skip("longer than 16 KiB")
		}
		p, err := parse.Program("t.p4", []byte(src), parse.Options{Builtin: include.Builtin})
		if err != nil {
			return
		}
		err = Program(p, Options{NoMain: true})
		var es Errors
		if err != nil && (!errors.As(err, &es) || len(es) == 0 || err.Error() == "") {
			t.Fatalf("the error is %#v", err)
		}
		if err == nil {
			walk(t, p)
		}
	})
}
