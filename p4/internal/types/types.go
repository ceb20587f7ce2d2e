// Package types holds the types of P4_16 (language specification 1.2.5,
// chapter 7) as the checker gives them to expressions: resolved, free of
// typedef names, and with every generic type applied to its arguments.
//
// Named types (Struct, Enum, Extern, New, ...) are canonical within one
// program: the same declaration with the same type arguments is the same
// pointer. Equal compares any two types. Types are immutable after a check and
// may be shared between goroutines.
package types

import (
	"fmt"
	"math/big"
	"strings"
)

// A Type is one of the pointer types of this package.
type Type interface {
	// String gives the type as P4 writes it.
	String() string
	// equal reports whether another type, which is not this pointer, is the same.
	equal(Type) bool
}

// The types without parameters are single values.
var (
	Bool      = &Basic{"bool"}
	Integer   = &Basic{"int"} // arbitrary precision, compile-time only
	String    = &Basic{"string"}
	Void      = &Basic{"void"}
	MatchKind = &Basic{"match_kind"}
	// DontCare is the type of "_" and "default" before their context gives
	// them one; also of a type argument written "_" that nothing inferred.
	DontCare = &Basic{"_"}
	// Invalid marks an expression that was already reported as an error; a
	// program that passed the check has none.
	Invalid = &Basic{"invalid type"}
)

// Basic is a type without parameters.
type Basic struct{ Name string }

// Bit is bit<Width>: unsigned, modulo 2^Width.
type Bit struct{ Width int }

// Int is int<Width>: two's complement, modulo 2^Width.
type Int struct{ Width int }

// Varbit is varbit<Width>: at most Width bits, the length is dynamic.
type Varbit struct{ Width int }

// Error is the type error. There is one per program; Members are in the order
// of declaration, without repetition, so that an index is an error's code
// (core.p4's NoError is 0).
type Error struct{ Members []string }

// StructKind tells the three field-wise types apart.
type StructKind uint8

// Kinds of Struct.
const (
	PlainStruct StructKind = iota
	Header
	Union
)

// Field is a member of a struct, header or header union.
type Field struct {
	Name string
	Type Type
	// Annotations that the field was declared with, name to text.
	Annotations map[string]string
}

// Struct is a struct, a header or a header_union.
type Struct struct {
	Kind   StructKind
	Name   string // with type arguments, as S<bit<8>>
	Fields []Field
	// Generic is the name without type arguments, TypeArgs these (nil if the
	// declaration has no type parameters).
	Generic     string
	TypeArgs    []Type
	Annotations map[string]string
}

// Stack is a header stack (or a stack of header unions) T[Size].
type Stack struct {
	Elem Type
	Size int
}

// Tuple is tuple<...>.
type Tuple struct{ Elems []Type }

// List is list<Elem>, compile-time only (an argument of constructors).
type List struct{ Elem Type }

// Enum is an enum. If Underlying is not nil it is serialisable and Values
// holds each member's value.
type Enum struct {
	Name       string
	Members    []string
	Underlying Type // *Bit, *Int or nil
	Values     []*big.Int
}

// New is a type declared by "type Underlying Name".
type New struct {
	Name       string
	Underlying Type
	// Annotations as p4runtime_translation, name to text.
	Annotations map[string]string
}

// Var is a type variable of a generic declaration. No expression of an
// instantiated body has one.
type Var struct{ Name string }

// Set is the type of &&&, .., value sets and the labels of select and entries.
type Set struct{ Elem Type }

// Extern is an extern object's type; its methods are in the declaration
// (ast.ExternDecl of the same Name).
type Extern struct {
	Name     string
	TypeArgs []Type
}

// Direction of a parameter.
type Direction uint8

// Directions. None is a parameter without direction: a compile-time or
// control-plane (action data) value, or an extern object's reference.
const (
	None Direction = iota
	In
	Out
	InOut
)

func (d Direction) String() string { return [...]string{"", "in", "out", "inout"}[d] }

// Param is a parameter within the type of something callable.
type Param struct {
	Name       string
	Dir        Direction
	Type       Type
	Optional   bool // @optional
	HasDefault bool
}

// callableKind tells Callable types apart.
type callableKind uint8

// Kinds of Callable.
const (
	Function callableKind = iota
	Action
	Parser
	Control
	Package
	Method
	Table
)

func (k callableKind) String() string {
	return [...]string{"function", "action", "parser", "control", "package", "method", "table"}[k]
}

// Callable is the type of functions, actions, methods, parsers, controls,
// packages and tables. For Parser and Control the parameters are those of
// apply; for Package those of the constructor.
type Callable struct {
	Kind     callableKind
	Name     string
	TypeArgs []Type
	Params   []Param
	Return   Type
}

// ApplyResult is the type of a table's apply(): hit, miss, action_run.
type ApplyResult struct{ Table string }

// ActionEnum is the type of action_run.
type ActionEnum struct{ Table string }

func (t *Basic) equal(Type) bool    { return false }
func (t *Var) equal(Type) bool      { return false }
func (t *Bit) equal(b Type) bool    { return sameAs(t, b) }
func (t *Int) equal(b Type) bool    { return sameAs(t, b) }
func (t *Varbit) equal(b Type) bool { return sameAs(t, b) }

func (*Error) equal(b Type) bool {
	_, ok := b.(*Error)
	return ok
}

func (t *Struct) equal(b Type) bool {
	o, ok := b.(*Struct)
	return ok && t.Kind == o.Kind && t.Generic == o.Generic && equalAll(t.TypeArgs, o.TypeArgs)
}

func (t *Stack) equal(b Type) bool {
	o, ok := b.(*Stack)
	return ok && t.Size == o.Size && Equal(t.Elem, o.Elem)
}

func (t *Tuple) equal(b Type) bool {
	o, ok := b.(*Tuple)
	return ok && equalAll(t.Elems, o.Elems)
}

func (t *List) equal(b Type) bool {
	o, ok := b.(*List)
	return ok && Equal(t.Elem, o.Elem)
}

func (t *Enum) equal(b Type) bool {
	o, ok := b.(*Enum)
	return ok && t.Name == o.Name
}

func (t *New) equal(b Type) bool {
	o, ok := b.(*New)
	return ok && t.Name == o.Name
}

func (t *Set) equal(b Type) bool {
	o, ok := b.(*Set)
	return ok && Equal(t.Elem, o.Elem)
}

func (t *Extern) equal(b Type) bool {
	o, ok := b.(*Extern)
	return ok && t.Name == o.Name && equalAll(t.TypeArgs, o.TypeArgs)
}

func (t *Callable) equal(b Type) bool {
	o, ok := b.(*Callable)
	return ok && t.Kind == o.Kind && t.Name == o.Name && equalAll(t.TypeArgs, o.TypeArgs)
}

func (t *ApplyResult) equal(b Type) bool { return sameAs(t, b) }
func (t *ActionEnum) equal(b Type) bool  { return sameAs(t, b) }

// sameAs compares types whose fields Go compares.
func sameAs[T comparable](a *T, b Type) bool {
	o, ok := any(b).(*T)
	return ok && *a == *o
}

func (t *Basic) String() string  { return t.Name }
func (t *Bit) String() string    { return fmt.Sprintf("bit<%d>", t.Width) }
func (t *Int) String() string    { return fmt.Sprintf("int<%d>", t.Width) }
func (t *Varbit) String() string { return fmt.Sprintf("varbit<%d>", t.Width) }
func (*Error) String() string    { return "error" }
func (t *Struct) String() string { return t.Name }
func (t *Stack) String() string  { return fmt.Sprintf("%s[%d]", t.Elem, t.Size) }
func (t *Tuple) String() string  { return "tuple<" + join(t.Elems) + ">" }
func (t *List) String() string   { return "list<" + t.Elem.String() + ">" }
func (t *Enum) String() string   { return t.Name }
func (t *New) String() string    { return t.Name }
func (t *Var) String() string    { return t.Name }
func (t *Set) String() string    { return "set<" + t.Elem.String() + ">" }
func (t *Extern) String() string { return Applied(t.Name, t.TypeArgs) }

func (t *Callable) String() string {
	var b strings.Builder
	b.WriteString(t.Kind.String())
	b.WriteByte(' ')
	b.WriteString(Applied(t.Name, t.TypeArgs))
	b.WriteByte('(')
	for i, p := range t.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		if p.Dir != None {
			b.WriteString(p.Dir.String())
			b.WriteByte(' ')
		}
		b.WriteString(p.Type.String())
		b.WriteByte(' ')
		b.WriteString(p.Name)
	}
	b.WriteByte(')')
	return b.String()
}

func (t *ApplyResult) String() string { return "result of " + t.Table + ".apply()" }
func (t *ActionEnum) String() string  { return "action_run of " + t.Table }

// Applied is a generic type's name with its arguments.
func Applied(name string, args []Type) string {
	if len(args) == 0 {
		return name
	}
	return name + "<" + join(args) + ">"
}

func join(ts []Type) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = t.String()
	}
	return strings.Join(s, ", ")
}

// Field finds a field by name and gives its index, -1 if there is none.
func (t *Struct) Field(name string) (Field, int) {
	for i, f := range t.Fields {
		if f.Name == name {
			return f, i
		}
	}
	return Field{}, -1
}

// Underlying strips type declarations ("type T N") down to the type that holds
// the value. Serialisable enums stay enums.
func Underlying(t Type) Type {
	for {
		n, ok := t.(*New)
		if !ok {
			return t
		}
		t = n.Underlying
	}
}

// Width is the size of a value in bits: of bit<>, int<>, bool (1), varbit (its
// maximum), serialisable enums, and the sums over structs, headers, tuples and
// stacks (a union: its largest member). False if the type has no such size, as
// int, string, error, plain enums and externs.
func Width(t Type) (int, bool) {
	switch t := t.(type) {
	case *Basic:
		return 1, t == Bool
	case *Bit:
		return t.Width, true
	case *Int:
		return t.Width, true
	case *Varbit:
		return t.Width, true
	case *New:
		return Width(t.Underlying)
	case *Enum:
		if t.Underlying == nil {
			return 0, false
		}
		return Width(t.Underlying)
	case *Struct:
		return t.width()
	case *Stack:
		w, ok := Width(t.Elem)
		return w * t.Size, ok
	case *Tuple:
		n := 0
		for _, e := range t.Elems {
			w, ok := Width(e)
			if !ok {
				return 0, false
			}
			n += w
		}
		return n, true
	}
	return 0, false
}

func (t *Struct) width() (int, bool) {
	n := 0
	for _, f := range t.Fields {
		w, ok := Width(f.Type)
		if !ok {
			return 0, false
		}
		if t.Kind == Union {
			n = max(n, w)
		} else {
			n += w
		}
	}
	return n, true
}

// Flat lists the types of a value's fields in order, those of structs, headers and tuples within it
// as their own fields. Any other type is its only field.
func Flat(t Type) []Type {
	var parts []Type
	switch u := Underlying(t).(type) {
	case *Struct:
		if u.Kind == Union {
			break
		}
		for _, f := range u.Fields {
			parts = append(parts, Flat(f.Type)...)
		}
		return parts
	case *Tuple:
		for _, e := range u.Elems {
			parts = append(parts, Flat(e)...)
		}
		return parts
	}
	return []Type{t}
}

// Equal reports whether two types are the same type. Struct, enum, extern and new
// types are so by name (and arguments), the others by structure.
func Equal(a, b Type) bool {
	return a == b || a != nil && b != nil && a.equal(b)
}

func equalAll(a, b []Type) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// IsInteger reports whether the type itself is bit<>, int<> or int.
func IsInteger(t Type) bool {
	switch t := t.(type) {
	case *Bit, *Int:
		return true
	case *Basic:
		return t == Integer
	}
	return false
}
