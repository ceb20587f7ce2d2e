package ast

import (
	"math/big"

	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// Expr is an expression.
type Expr interface {
	Node
	// Type is the expression's type, nil before the check.
	Type() types.Type
	// Const is the compile-time known value, nil if it is not known.
	Const() *Value
	base() *ExprBase
}

// ExprBase is embedded in every expression.
type ExprBase struct {
	At
	T types.Type // checked
	V *Value     // checked: compile-time known value, or nil
}

// Type is the expression's type, nil before the check.
func (e *ExprBase) Type() types.Type { return e.T }

// Const is the compile-time known value, nil if it is not known.
func (e *ExprBase) Const() *Value { return e.V }

func (e *ExprBase) base() *ExprBase { return e }

// Base gives the fields that the checker fills.
func Base(e Expr) *ExprBase { return e.base() }

// IntLit is an integer literal: 7, 8w0xff, 4s3.
type IntLit struct {
	ExprBase
	Value *big.Int
	// Width is 0 for a literal without one, which has the type int.
	Width  int
	Signed bool // with s
	// Sized is set if a width was written.
	Sized bool
}

// BoolLit is true or false.
type BoolLit struct {
	ExprBase
	Value bool
}

// StringLit is a string literal, Value without the quotes.
type StringLit struct {
	ExprBase
	Value string
}

// Ident is a name in an expression: of a value, a callable, or a type (as in
// E.member, C.apply()). "this" is an Ident, too.
type Ident struct {
	ExprBase
	Name     string
	Absolute bool // with a leading dot
	Decl     Decl // checked
}

// TypeRef is a type in the place of an expression: S<bit<8>>.apply,
// bit<8>.minSizeInBits().
type TypeRef struct {
	ExprBase
	Written TypeExpr
	Ref     types.Type // checked
}

// Sel is the kind of thing that Member.Name selects.
type Sel uint8

// What .name may be.
const (
	_            Sel = iota
	SelField         // field of struct, header, union: Index is the field's
	SelNext          // hs.next
	SelLast          // hs.last
	SelLastIndex     // hs.lastIndex
	SelSize          // hs.size, always a Const
	SelEnum          // E.member, always a Const
	SelError         // error.member, always a Const
	SelHit           // t.apply().hit
	SelMiss          // t.apply().miss
	SelAction        // t.apply().action_run
	SelMethod        // something to call: the Call's Kind says what
)

// Member is X.Name.
type Member struct {
	ExprBase
	X     Expr
	Name  string
	NameP Pos
	Sel   Sel // checked
	Index int // checked: of a field
}

// Index is X[I] on a stack or a tuple (there I is a Const).
type Index struct {
	ExprBase
	X, I Expr
}

// Slice is X[Hi:Lo], or X[Lo+:W] with Plus set.
type Slice struct {
	ExprBase
	X      Expr
	Hi, Lo Expr // for Plus: Hi is the width as written
	Plus   bool
	// HiN and LoN are the bounds, HiN >= LoN. checked. If Plus is set and Lo
	// has no Const, LoN is -1 and HiN the width minus 1.
	HiN, LoN int
}

// Op is an operator.
type Op uint8

// Operators of Unary, Binary and (compound) Assign.
const (
	OpNone   Op = iota
	OpNot       // !
	OpCompl     // ~
	OpNeg       // -
	OpPlus      // unary +
	OpMul       // *
	OpDiv       // /
	OpMod       // %
	OpAdd       // +
	OpSub       // -
	OpAddSat    // |+|
	OpSubSat    // |-|
	OpShl       // <<
	OpShr       // >>: arithmetic if X is int<N>
	OpLE        // <=
	OpGE        // >=
	OpLT        // <
	OpGT        // >
	OpEQ        // ==
	OpNE        // !=
	OpAnd       // &
	OpXor       // ^
	OpOr        // |
	OpConcat    // ++
	OpLAnd      // &&
	OpLOr       // ||
)

var opNames = [...]string{"", "!", "~", "-", "+", "*", "/", "%", "+", "-", "|+|", "|-|", "<<", ">>", "<=", ">=", "<", ">", "==", "!=", "&", "^", "|", "++", "&&", "||"}

func (o Op) String() string { return opNames[o] }

// Unary is Op X.
type Unary struct {
	ExprBase
	Op Op
	X  Expr
}

// Binary is X Op Y.
type Binary struct {
	ExprBase
	Op   Op
	OpP  Pos
	X, Y Expr
}

// Ternary is Cond ? Then : Else.
type Ternary struct {
	ExprBase
	Cond, Then, Else Expr
}

// Cast is (To) X, or a conversion that the checker put in (Implicit, To nil).
// The target is Type().
type Cast struct {
	ExprBase
	To       TypeExpr
	X        Expr
	Implicit bool
}

// List is { a, b, ... }. Rest is set before the check if it ended in "...".
type List struct {
	ExprBase
	Elems []Expr
	Rest  bool
}

// FieldInit is name = value within a StructLit.
type FieldInit struct {
	At
	Name  string
	Value Expr
	Index int // checked: of the field
}

// StructLit is { a = x, b = y, ... }; (S) {...} has the type as a Cast around
// it before the check.
type StructLit struct {
	ExprBase
	Fields []*FieldInit
	Rest   bool
}

// Dots is "...": the default value of its type (zero, false, error.NoError, an
// enum's first member or zero, an invalid header).
type Dots struct{ ExprBase }

// InvalidHeader is {#}, of a header or header union type.
type InvalidHeader struct{ ExprBase }

// DontCare is "_" (argument for an out parameter, or a set of all values), or
// "default" as a label.
type DontCare struct {
	ExprBase
	Default bool
}

// Mask is X &&& Y, a set.
type Mask struct {
	ExprBase
	X, Y Expr
}

// Range is Lo .. Hi, a set, both ends within.
type Range struct {
	ExprBase
	Lo, Hi Expr
}

// KeySet is a label of select or a table entry: (a, b) or one element.
type KeySet struct {
	ExprBase
	// Elems has one element for each key. checked: a single "_" or "default"
	// is repeated; a value set of a tuple or struct stays one element.
	Elems []Expr
	Paren bool // as written
}

// Parts are the expressions that an operator, selection or list is made of, in the order of their evaluation. A call has none
// here: its arguments are in Bound.
func Parts(e Expr) []Expr {
	switch e := e.(type) {
	case *Member:
		return []Expr{e.X}
	case *Index:
		return []Expr{e.X, e.I}
	case *Slice:
		return []Expr{e.X, e.Hi, e.Lo}
	case *Unary:
		return []Expr{e.X}
	case *Binary:
		return []Expr{e.X, e.Y}
	case *Ternary:
		return []Expr{e.Cond, e.Then, e.Else}
	case *Cast:
		return []Expr{e.X}
	case *List:
		return e.Elems
	case *StructLit:
		parts := make([]Expr, len(e.Fields))
		for i, f := range e.Fields {
			parts[i] = f.Value
		}
		return parts
	case *Mask:
		return []Expr{e.X, e.Y}
	case *Range:
		return []Expr{e.Lo, e.Hi}
	}
	return nil
}

// Arg is an argument as written.
type Arg struct {
	At
	Name  string // "" if positional
	Value Expr   // DontCare for "_"
}

// CallKind is the kind of thing that a Call calls.
type CallKind uint8

// Kinds of Call.
const (
	CallNone         CallKind = iota
	CallFunc                  // Func, with a body
	CallExternFunc            // Func, without a body
	CallMethod                // Func of the extern object Recv
	CallAbstract              // as CallMethod, Func is abstract: the instance's own body
	CallAction                // Action
	CallTable                 // Table.apply()
	CallControl               // Instance, or Recv if that is a parameter
	CallParser                // Instance, or Recv if that is a parameter
	CallIsValid               // Recv.isValid(), header or union
	CallSetValid              // Recv.setValid()
	CallSetInvalid            // Recv.setInvalid()
	CallPushFront             // Recv.push_front(Bound[0], a Const)
	CallPopFront              // Recv.pop_front(Bound[0], a Const)
	CallMinSize               // minSizeInBits and the like; always a Const, but varbit's
	CallNew                   // constructor: Instance
	CallStaticAssert          // static_assert, already tested; its value is true
)

// Call is Fun<TypeArgs>(Args), also a constructor's call (T(args)).
type Call struct {
	ExprBase
	Fun      Expr
	TypeArgs []TypeExpr
	Args     []*Arg

	// checked:
	Kind     CallKind
	Bound    []*BoundArg
	Inferred []types.Type // type arguments of the function or method
	Func     *FunctionDecl
	Action   *ActionDecl
	Table    *TableDecl
	Recv     Expr      // object before the dot
	Instance *Instance // of CallControl, CallParser, CallNew; nil outside of instances
}

// BoundArg is the argument of one parameter.
type BoundArg struct {
	Param *Param
	Dir   types.Direction
	// Type is the parameter's with the type arguments put in.
	Type types.Type
	// Expr is nil if the parameter is optional and was left out, DontCare for "_".
	Expr Expr
	// Omitted: an @optional parameter without an argument.
	Omitted bool
	// Default: Expr is the parameter's default value.
	Default bool
}
