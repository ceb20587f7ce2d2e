package run

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// How values lie in words:
//
//	bool, error, enum          one word
//	bit<N>, int<N>             wordsOf(N)
//	varbit<N>                  its length in bits, then wordsOf(N)
//	struct, tuple              the fields one after another
//	header                     validity (0 or 1), then the fields
//	header_union               the members one after another
//	T[n]                       the next index, then n elements
//	externs, string            nothing
func size(t types.Type) int {
	switch t := t.(type) {
	case *types.Basic:
		if t == types.Bool {
			return 1
		}
		return 0
	case *types.Bit:
		return wordsOf(t.Width)
	case *types.Int:
		return wordsOf(t.Width)
	case *types.Varbit:
		return 1 + wordsOf(t.Width)
	case *types.Error, *types.ActionEnum:
		return 1
	case *types.Enum:
		if t.Underlying != nil {
			return size(t.Underlying)
		}
		return 1
	case *types.New:
		return size(t.Underlying)
	case *types.Struct:
		return fieldAt(t, len(t.Fields))
	case *types.Tuple:
		n := 0
		for _, e := range t.Elems {
			n += size(e)
		}
		return n
	case *types.Stack:
		return 1 + t.Size*size(t.Elem)
	}
	return 0
}

// fieldAt is the word of field i within the struct; the number of fields stands for its end.
func fieldAt(s *types.Struct, i int) int {
	n := 0
	if s.Kind == types.Header {
		n = 1
	}
	for _, f := range s.Fields[:i] {
		n += size(f.Type)
	}
	return n
}

// scalarWidth is the width of types that hold a number: bit, int, bool, enum, error.
func scalarWidth(t types.Type) (width int, ok bool) {
	switch t := types.Underlying(t).(type) {
	case *types.Basic:
		return 1, t == types.Bool
	case *types.Bit:
		return t.Width, true
	case *types.Int:
		return t.Width, true
	case *types.Enum:
		if t.Underlying != nil {
			return scalarWidth(t.Underlying)
		}
		return 32, true
	case *types.Error, *types.ActionEnum:
		return 32, true
	}
	return 0, false
}

func isSigned(t types.Type) bool {
	switch t := types.Underlying(t).(type) {
	case *types.Int:
		return true
	case *types.Enum:
		return t.Underlying != nil && isSigned(t.Underlying)
	}
	return false
}

// wireFields lists the fields of a header in order, nested structs flattened. A varbit
// field ends the fixed part: its word and place are given apart, -1 if there is none,
// and what follows it is in after, its bits counted from the varbit's end.
type wire struct {
	fixed   []field
	packed  []field // the same in groups, for readFields and writeFields
	bits    int
	varWord int
	varMax  int
	after   []field
	more    int // bits after the varbit
}

func wireOf(h *types.Struct) (wire, error) {
	w := wire{varWord: -1}
	err := w.add(h, 0)
	w.packed = pack(w.fixed)
	return w, err
}

func (w *wire) add(t types.Type, at int) error {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		if u.Kind == types.Union {
			return fmt.Errorf("not supported: header union %s within a header", u.Name)
		}
		for i, f := range u.Fields {
			if err := w.add(f.Type, at+fieldAt(u, i)); err != nil {
				return err
			}
		}
		return nil
	case *types.Tuple:
		for _, e := range u.Elems {
			if err := w.add(e, at); err != nil {
				return err
			}
			at += size(e)
		}
		return nil
	case *types.Varbit:
		if w.varWord >= 0 {
			return fmt.Errorf("not supported: two varbit fields in one header")
		}
		w.varWord, w.varMax = at, u.Width
		return nil
	case *types.Stack:
		for i := range u.Size {
			if err := w.add(u.Elem, at+1+i*size(u.Elem)); err != nil {
				return err
			}
		}
		return nil
	}
	n, ok := scalarWidth(t)
	if !ok {
		return fmt.Errorf("not supported: type %s in a header", t)
	}
	if w.varWord >= 0 {
		w.after = append(w.after, field{word: at, bit: w.more, width: n, kind: anyKind(n)})
		w.more += n
		return nil
	}
	w.fixed = append(w.fixed, field{word: at, bit: w.bits, width: n, kind: kindOf(w.bits, n)})
	w.bits += n
	return nil
}

func anyKind(width int) fieldKind {
	if width > 64 {
		return wideBits
	}
	return anyBits
}

// constWords puts a compile-time value of type t into words.
func constWords(t types.Type, v *ast.Value) ([]uint64, error) {
	d := make([]uint64, size(t))
	return d, putConst(d, t, v)
}

func putConst(d []uint64, t types.Type, v *ast.Value) error {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		return putStruct(d, t, u, v)
	case *types.Tuple:
		return putParts(d, t, u.Elems, v)
	case *types.Stack:
		n := size(u.Elem)
		for i, e := range v.Elems[:min(len(v.Elems), u.Size)] {
			if err := putConst(d[1+i*n:1+(i+1)*n], u.Elem, e); err != nil {
				return err
			}
		}
		return nil
	case *types.Varbit:
		if v.Kind == ast.IntValue && v.Int.Sign() == 0 {
			return nil
		}
		return noConst(t)
	}
	if len(d) == 0 {
		return nil
	}
	switch v.Kind {
	case ast.IntValue:
		setWords(d, v.Int)
		if w, ok := scalarWidth(t); ok {
			trim(d, w)
		}
	case ast.BoolValue:
		d[0] = b2u(v.Bool)
	case ast.EnumValue, ast.ErrorValue:
		d[0] = uint64(v.Index)
	default:
		return noConst(t)
	}
	return nil
}

func noConst(t types.Type) error { return fmt.Errorf("not supported: constant of type %s", t) }

// putStruct puts a struct, a header, or a union without a value into words.
func putStruct(d []uint64, t types.Type, s *types.Struct, v *ast.Value) error {
	switch s.Kind {
	case types.Header:
		if v.Kind == ast.HeaderValue && !v.Valid {
			return nil
		}
		d[0] = 1
		d = d[1:]
	case types.Union:
		if len(v.Elems) == 0 {
			return nil
		}
	}
	parts := make([]types.Type, len(s.Fields))
	for i, f := range s.Fields {
		parts[i] = f.Type
	}
	return putParts(d, t, parts, v)
}

// putParts puts the parts of a value of type t, one behind the other, into words.
func putParts(d []uint64, t types.Type, parts []types.Type, v *ast.Value) error {
	if len(v.Elems) != len(parts) {
		return noConst(t)
	}
	for i, p := range parts {
		n := size(p)
		if err := putConst(d[:n], p, v.Elems[i]); err != nil {
			return err
		}
		d = d[n:]
	}
	return nil
}
