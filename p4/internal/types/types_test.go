package types

import "testing"

func TestWidth(t *testing.T) {
	h := &Struct{Kind: Header, Name: "h", Generic: "h", Fields: []Field{{Name: "a", Type: &Bit{12}}, {Name: "b", Type: Bool}, {Name: "c", Type: &Varbit{32}}}}
	g := &Struct{Kind: Header, Name: "g", Generic: "g", Fields: []Field{{Name: "a", Type: &New{Name: "n", Underlying: &Int{9}}}}}
	for _, c := range []struct {
		t    Type
		want int
		ok   bool
	}{
		{&Bit{7}, 7, true},
		{Bool, 1, true},
		{h, 45, true},
		{&Struct{Kind: Union, Name: "u", Fields: []Field{{Name: "h", Type: h}, {Name: "g", Type: g}}}, 45, true},
		{&Stack{Elem: g, Size: 3}, 27, true},
		{&Tuple{Elems: []Type{g, &Enum{Name: "e", Underlying: &Bit{4}}}}, 13, true},
		{&Enum{Name: "e"}, 0, false},
		{&Tuple{Elems: []Type{g, Integer}}, 0, false},
		{&Extern{Name: "x"}, 0, false},
	} {
		if n, ok := Width(c.t); ok != c.ok || ok && n != c.want {
			t.Errorf("the width of %s is %d, %v; want %d, %v", c.t, n, ok, c.want, c.ok)
		}
	}
}

func TestEqual(t *testing.T) {
	s := func(arg Type) Type {
		return &Struct{Name: Applied("s", []Type{arg}), Generic: "s", TypeArgs: []Type{arg}}
	}
	v := &Var{Name: "T"}
	for _, c := range []struct {
		a, b Type
		want bool
	}{
		{&Bit{8}, &Bit{8}, true},
		{&Bit{8}, &Int{8}, false},
		{&Bit{8}, &Bit{9}, false},
		{s(&Bit{8}), s(&Bit{8}), true},
		{s(&Bit{8}), s(&Bit{9}), false},
		{&Tuple{Elems: []Type{Bool, &Bit{1}}}, &Tuple{Elems: []Type{Bool, &Bit{1}}}, true},
		{&Tuple{Elems: []Type{Bool}}, &Tuple{}, false},
		{&New{Name: "a", Underlying: &Bit{8}}, &Bit{8}, false},
		{v, v, true},
		{v, &Var{Name: "T"}, false},
		{&Stack{Elem: s(Bool), Size: 2}, &Stack{Elem: s(Bool), Size: 3}, false},
	} {
		if Equal(c.a, c.b) != c.want || Equal(c.b, c.a) != c.want {
			t.Errorf("%s and %s: equal is %v, want %v", c.a, c.b, !c.want, c.want)
		}
	}
}
