package ast

import "testing"

// The parts of each expression stand in the order of their evaluation.
func TestParts(t *testing.T) {
	id := func(name string) Expr { return &Ident{Name: name} }
	a, b, c := id("a"), id("b"), id("c")
	for name, x := range map[string]struct {
		e    Expr
		want string
	}{
		"a name":             {a, ""},
		"a literal":          {&IntLit{}, ""},
		"a member":           {&Member{X: a}, "a"},
		"an index":           {&Index{X: a, I: b}, "ab"},
		"a slice":            {&Slice{X: a, Hi: b, Lo: c}, "abc"},
		"a sign":             {&Unary{X: a}, "a"},
		"a sum":              {&Binary{X: a, Y: b}, "ab"},
		"a choice":           {&Ternary{Cond: a, Then: b, Else: c}, "abc"},
		"a cast":             {&Cast{X: a}, "a"},
		"a list":             {&List{Elems: []Expr{c, a, b}}, "cab"},
		"a struct":           {&StructLit{Fields: []*FieldInit{{Name: "y", Value: b}, {Name: "x", Value: a}}}, "ba"},
		"a mask":             {&Mask{X: a, Y: b}, "ab"},
		"a range":            {&Range{Lo: a, Hi: b}, "ab"},
		"a call":             {&Call{Fun: a, Args: []*Arg{{Value: b}}}, ""},
		"the rest of a list": {&Dots{}, ""},
	} {
		got := ""
		for _, p := range Parts(x.e) {
			got += p.(*Ident).Name
		}
		if got != x.want {
			t.Errorf("the parts of %s are %q, want %q", name, got, x.want)
		}
	}
}
