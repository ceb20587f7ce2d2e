package ast

// TypeExpr is a type as the program writes it.
type TypeExpr interface {
	Node
	typeExpr()
}

// BaseType is bool, error, match_kind, string, void, int (without width),
// or "_" as a type argument.
type BaseType struct {
	At
	Name string
}

// SizedType is bit<W>, int<W>, varbit<W>. bit without a width has Width nil.
type SizedType struct {
	At
	Name  string // "bit", "int" or "varbit"
	Width Expr
}

// NamedType is a name, possibly with a leading dot (Absolute).
type NamedType struct {
	At
	Name     string
	Absolute bool
}

// AppliedType is a generic type with arguments.
type AppliedType struct {
	At
	Base *NamedType
	Args []TypeExpr
}

// StackType is Elem[Size].
type StackType struct {
	At
	Elem TypeExpr
	Size Expr
}

// TupleType is tuple<...>.
type TupleType struct {
	At
	Elems []TypeExpr
}

// ListType is list<Elem>.
type ListType struct {
	At
	Elem TypeExpr
}

func (*BaseType) typeExpr()    {}
func (*SizedType) typeExpr()   {}
func (*NamedType) typeExpr()   {}
func (*AppliedType) typeExpr() {}
func (*StackType) typeExpr()   {}
func (*TupleType) typeExpr()   {}
func (*ListType) typeExpr()    {}
