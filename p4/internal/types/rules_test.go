package types

import (
	"fmt"
	"slices"
	"testing"
)

// One type of each kind, with what it is called.
func kinds() map[string]Type {
	h := &Struct{Kind: Header, Name: "h_t", Generic: "h_t", Fields: []Field{{Name: "a", Type: &Bit{8}}}}
	return map[string]Type{
		"bool": Bool, "int": Integer, "string": String, "void": Void, "match_kind": MatchKind,
		"bit<8>": &Bit{8}, "int<8>": &Int{8}, "varbit<8>": &Varbit{8}, "error": &Error{},
		"h_t": h, "s_t<bit<8>, bool>": &Struct{Name: Applied("s_t", []Type{&Bit{8}, Bool}), Generic: "s_t", TypeArgs: []Type{&Bit{8}, Bool}},
		"h_t[3]": &Stack{Elem: h, Size: 3}, "tuple<bit<8>, h_t>": &Tuple{Elems: []Type{&Bit{8}, h}}, "list<bit<8>>": &List{Elem: &Bit{8}},
		"e_t": &Enum{Name: "e_t", Members: []string{"A"}}, "n_t": &New{Name: "n_t", Underlying: &Bit{8}}, "set<bit<8>>": &Set{Elem: &Bit{8}},
		"x<bit<8>>": &Extern{Name: "x", TypeArgs: []Type{&Bit{8}}}, "result of t.apply()": &ApplyResult{Table: "t"}, "action_run of t": &ActionEnum{Table: "t"},
		"control c<h_t>(in h_t a, out bit<8> b, x n)": &Callable{Kind: Control, Name: "c", TypeArgs: []Type{h}, Params: []Param{
			{Name: "a", Dir: In, Type: h}, {Name: "b", Dir: Out, Type: &Bit{8}}, {Name: "n", Type: &Extern{Name: "x"}},
		}},
		"table t()": &Callable{Kind: Table, Name: "t"}, "method m(inout bool v)": &Callable{Kind: Method, Name: "m", Params: []Param{{Name: "v", Dir: InOut, Type: Bool}}},
	}
}

// A type is written as P4 writes it, equals what is built anew, and no type of another kind.
func TestKinds(t *testing.T) {
	anew := kinds()
	for name, a := range kinds() {
		if a.String() != name {
			t.Errorf("%T is written %q, want %q", a, a, name)
		}
		for other, b := range anew {
			if Equal(a, b) != (name == other) {
				t.Errorf("%s and %s: equal is %v", name, other, Equal(a, b))
			}
		}
		if Equal(a, nil) || Equal(nil, a) {
			t.Errorf("%s equals nothing", name)
		}
	}
	if !Equal(nil, nil) {
		t.Error("no type is not no type")
	}
}

// Named types are equal by their names and arguments, the others by what they are made of.
func TestEqualParts(t *testing.T) {
	for _, c := range []struct {
		a, b Type
		want bool
	}{
		{&Enum{Name: "a", Members: []string{"X"}}, &Enum{Name: "a"}, true},
		{&Enum{Name: "a"}, &Enum{Name: "b"}, false},
		{&New{Name: "a", Underlying: &Bit{8}}, &New{Name: "a", Underlying: &Bit{8}}, true},
		{&New{Name: "a", Underlying: &Bit{8}}, &New{Name: "b", Underlying: &Bit{8}}, false},
		{&Struct{Kind: Header, Generic: "a"}, &Struct{Kind: PlainStruct, Generic: "a"}, false},
		{&Struct{Generic: "a", TypeArgs: []Type{Bool}}, &Struct{Generic: "a"}, false},
		{&Extern{Name: "x", TypeArgs: []Type{Bool}}, &Extern{Name: "x", TypeArgs: []Type{&Bit{1}}}, false},
		{&Extern{Name: "x"}, &Extern{Name: "y"}, false},
		{&List{Elem: Bool}, &List{Elem: Bool}, true},
		{&List{Elem: Bool}, &List{Elem: Integer}, false},
		{&Set{Elem: &Bit{8}}, &Set{Elem: &Bit{9}}, false},
		{&Set{Elem: &Bit{8}}, &Bit{8}, false},
		{&Stack{Elem: Bool, Size: 2}, &Stack{Elem: Integer, Size: 2}, false},
		{&ApplyResult{Table: "t"}, &ApplyResult{Table: "u"}, false},
		{&ActionEnum{Table: "t"}, &ApplyResult{Table: "t"}, false},
		{&Callable{Kind: Control, Name: "c"}, &Callable{Kind: Parser, Name: "c"}, false},
		{&Callable{Kind: Control, Name: "c"}, &Callable{Kind: Control, Name: "d"}, false},
		{&Callable{Kind: Control, Name: "c", TypeArgs: []Type{Bool}}, &Callable{Kind: Control, Name: "c", TypeArgs: []Type{Integer}}, false},
		{&Varbit{8}, &Bit{8}, false},
		{&Error{Members: []string{"A"}}, &Error{}, true},
	} {
		if Equal(c.a, c.b) != c.want || Equal(c.b, c.a) != c.want {
			t.Errorf("%T %s and %T %s: equal is %v, want %v", c.a, c.a, c.b, c.b, Equal(c.a, c.b), c.want)
		}
	}
}

func TestUnderlying(t *testing.T) {
	b := &Bit{8}
	inner := &New{Name: "a", Underlying: b}
	if got := Underlying(&New{Name: "b", Underlying: inner}); got != b {
		t.Errorf("below two names is %s", got)
	}
	e := &Enum{Name: "e", Underlying: b}
	if got := Underlying(e); got != e {
		t.Errorf("an enum becomes %s", got)
	}
	for ty, want := range map[Type]bool{b: true, &Int{3}: true, Integer: true, Bool: false, inner: false, e: false, &Varbit{8}: false} {
		if IsInteger(ty) != want {
			t.Errorf("%s is a number: %v, want %v", ty, !want, want)
		}
	}
}

// Fields of structs, headers and tuples within each other are one list; stacks and unions are fields of their own.
func TestFlat(t *testing.T) {
	h := &Struct{Kind: Header, Name: "h", Fields: []Field{{Name: "a", Type: &Bit{1}}, {Name: "b", Type: &Int{2}}}}
	u := &Struct{Kind: Union, Name: "u", Fields: []Field{{Name: "h", Type: h}}}
	s := &Struct{Name: "s", Fields: []Field{{Name: "h", Type: h}, {Name: "t", Type: &Tuple{Elems: []Type{Bool, h}}}, {Name: "u", Type: u}, {Name: "k", Type: &Stack{Elem: h, Size: 2}}}}
	var got []string
	for _, f := range Flat(&New{Name: "n", Underlying: s}) {
		got = append(got, f.String())
	}
	if want := []string{"bit<1>", "int<2>", "bool", "bit<1>", "int<2>", "u", "h[2]"}; !slices.Equal(got, want) {
		t.Errorf("fields are %q, want %q", got, want)
	}
	if f, i := s.Field("t"); i != 1 || f.Name != "t" {
		t.Errorf("field t is %v at %d", f, i)
	}
	if _, i := s.Field("z"); i != -1 {
		t.Errorf("field z is at %d", i)
	}
	for d, want := range map[Direction]string{None: "", In: "in", Out: "out", InOut: "inout"} {
		if fmt.Sprint(d) != want {
			t.Errorf("direction %d is %q, want %q", uint8(d), d, want)
		}
	}
}
