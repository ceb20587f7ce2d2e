package run

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func bit(n int) types.Type { return &types.Bit{Width: n} }

func structOf(kind types.StructKind, ts ...types.Type) *types.Struct {
	s := &types.Struct{Kind: kind, Name: "s"}
	for _, t := range ts {
		s.Fields = append(s.Fields, types.Field{Name: "f", Type: t})
	}
	return s
}

// How many words each type takes, and the width of those that hold a number.
func TestSizes(t *testing.T) {
	one := structOf(types.Header, bit(8))
	number := &types.Enum{Name: "e", Underlying: bit(72), Members: []string{"A"}}
	plain := &types.Enum{Name: "e", Members: []string{"A", "B"}}
	for _, c := range []struct {
		name   string
		t      types.Type
		size   int
		width  int // 0: it holds no number
		signed bool
	}{
		{"bool", types.Bool, 1, 1, false},
		{"string", types.String, 0, 0, false},
		{"bit<1>", bit(1), 1, 1, false},
		{"bit<64>", bit(64), 1, 64, false},
		{"bit<65>", bit(65), 2, 65, false},
		{"bit<128>", bit(128), 2, 128, false},
		{"bit<129>", bit(129), 3, 129, false},
		{"int<8>", &types.Int{Width: 8}, 1, 8, true},
		{"int<72>", &types.Int{Width: 72}, 2, 72, true},
		{"varbit<8>", &types.Varbit{Width: 8}, 2, 0, false},
		{"varbit<65>", &types.Varbit{Width: 65}, 3, 0, false},
		{"error", &types.Error{}, 1, 32, false},
		{"an enum", plain, 1, 32, false},
		{"an enum of bit<72>", number, 2, 72, false},
		{"an enum of int<8>", &types.Enum{Name: "e", Underlying: &types.Int{Width: 8}}, 1, 8, true},
		{"a new type", &types.New{Name: "n", Underlying: bit(65)}, 2, 65, false},
		{"a header", one, 2, 0, false},
		{"a header of two fields", structOf(types.Header, bit(8), bit(65)), 4, 0, false},
		{"an empty header", structOf(types.Header), 1, 0, false},
		{"a struct", structOf(types.PlainStruct, bit(8), types.Bool), 2, 0, false},
		{"a struct of a header", structOf(types.PlainStruct, one, bit(8)), 3, 0, false},
		{"an empty struct", structOf(types.PlainStruct), 0, 0, false},
		{"a union", structOf(types.Union, one, structOf(types.Header, bit(65))), 5, 0, false},
		{"a tuple", &types.Tuple{Elems: []types.Type{bit(8), bit(65), one}}, 5, 0, false},
		{"an empty tuple", &types.Tuple{}, 0, 0, false},
		{"a stack", &types.Stack{Elem: one, Size: 3}, 7, 0, false},
		{"a stack of unions", &types.Stack{Elem: structOf(types.Union, one, one), Size: 2}, 9, 0, false},
		{"an object", &types.Extern{Name: "X"}, 0, 0, false},
	} {
		if got := size(c.t); got != c.size {
			t.Errorf("%s takes %d words, expected %d", c.name, got, c.size)
		}
		w, ok := scalarWidth(c.t)
		if ok != (c.width > 0) || ok && w != c.width {
			t.Errorf("%s has a width of %d (%v), expected %d", c.name, w, ok, c.width)
		}
		if isSigned(c.t) != c.signed {
			t.Errorf("%s is signed: %v", c.name, !c.signed)
		}
	}
	s := structOf(types.Header, bit(8), bit(65), bit(8))
	var at []int
	for i := range len(s.Fields) + 1 {
		at = append(at, fieldAt(s, i))
	}
	if want := []int{1, 2, 4, 5}; !slices.Equal(at, want) {
		t.Errorf("fields are at %v, expected %v", at, want)
	}
}

// Fields of some bits that make whole bytes together are read at once; what stands on whole bytes alone, is wide, or ends within a byte
// is not.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		widths []int
		want   []fieldKind // of groups, and of the fields outside of them
	}{
		{"bytes", []int{8, 16, 32, 48, 64}, []fieldKind{byte1, byte2, byte4, byte6, byte8}},
		{"one byte of two", []int{4, 4}, []fieldKind{group1}},
		{"one byte of eight", []int{1, 1, 1, 1, 1, 1, 1, 1}, []fieldKind{group1}},
		{"two bytes", []int{3, 13}, []fieldKind{group2}},
		{"three bytes", []int{4, 20}, []fieldKind{groupN}},
		{"four bytes", []int{20, 12}, []fieldKind{group4}},
		{"five bytes", []int{4, 36}, []fieldKind{groupN}},
		{"eight bytes", []int{4, 60}, []fieldKind{group8}},
		{"as many as 64 bits hold", []int{4, 4, 4, 60}, []fieldKind{group1, group8}},
		{"a byte behind a group", []int{4, 4, 8}, []fieldKind{group1, byte1}},
		{"a byte within", []int{4, 8, 4}, []fieldKind{group2}},
		{"a group behind a byte", []int{8, 4, 4}, []fieldKind{byte1, group1}},
		{"three bytes alone", []int{24}, []fieldKind{anyBits}},
		{"three bytes, and a group", []int{24, 4, 4}, []fieldKind{group4}},
		{"no whole byte", []int{4}, []fieldKind{anyBits}},
		{"none behind a byte", []int{8, 3, 3}, []fieldKind{byte1, anyBits, anyBits}},
		{"a group in front of what makes none", []int{4, 4, 3}, []fieldKind{group1, anyBits}},
		{"more than a word", []int{72}, []fieldKind{wideBits}},
		{"more than a word within", []int{4, 72, 4}, []fieldKind{anyBits, wideBits, anyBits}},
		{"a group behind more than a word", []int{72, 4, 4}, []fieldKind{wideBits, group1}},
	} {
		var fs []field
		bits := 0
		for _, w := range c.widths {
			fs = append(fs, field{bit: bits, width: w, kind: kindOf(bits, w)})
			bits += w
		}
		var got []fieldKind
		packed := pack(fs)
		for i := 0; i < len(packed); i++ {
			g := packed[i]
			got = append(got, g.kind)
			left := g.width
			for _, m := range packed[i+1 : i+1+int(g.n)] {
				left -= m.width
				if int(m.shift) != left || m.kind != anyBits {
					t.Errorf("%s: a member of %d bits is at %d, expected %d", c.name, m.width, m.shift, left)
				}
			}
			if g.n > 0 && left != 0 {
				t.Errorf("%s: members leave %d bits of their group", c.name, left)
			}
			i += int(g.n)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// Bytes for counters and meters: what is taken off leaves none, not fewer.
func TestBytesLess(t *testing.T) {
	m := machine{length: 60}
	for _, c := range []struct {
		less uint64
		want int
	}{{0, 60}, {4, 56}, {60, 0}, {61, 0}, {1 << 32, 0}, {^uint64(0), 0}} {
		if got := m.bytes(c.less); got != c.want {
			t.Errorf("60 less %d is %d, expected %d", c.less, got, c.want)
		}
	}
}
