package ast

import (
	"fmt"
	"math/big"

	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// Program is a whole program, includes and all.
type Program struct {
	At    // the beginning of its file
	Decls []Decl
	// checked:
	Main *Instance
	// Instances are all instances of the program, in the order in which they
	// were made: an object that is an argument before what takes it.
	Instances []*Instance
	// Error is the type of errors with all their names.
	Error *types.Error
	// MatchKinds are the declared match kinds.
	MatchKinds []string
	// Warnings name the program's violations of the specification that p4c accepts.
	Warnings []Warning
}

// Warning is a place that runs, but is not as the specification has it.
type Warning struct {
	Pos Pos
	Msg string
}

// String gives file:line:column: warning: message.
func (w Warning) String() string { return fmt.Sprintf("%s: warning: %s", w.Pos, w.Msg) }

// instanceKind is the kind of an Instance's type.
type instanceKind uint8

// Kinds of Instance.
const (
	InstPackage instanceKind = iota
	InstParser
	InstControl
	InstExtern
)

// Instance is an object that exists once while the program runs.
type Instance struct {
	Kind instanceKind
	// Name is the local name: @name's text, the declared name, or the type's
	// name for one without a name (C.apply(), an argument of the package).
	Name string
	// ControlName is the full name of the control plane: "ingress.c1.r". The
	// controls that are main's arguments begin it with the control's name.
	ControlName string
	// Decl names the instance (an *Instantiation); nil if nothing does.
	Decl   *Instantiation
	At     Pos
	Type   types.Type // *types.Extern or *types.Callable
	Parent *Instance  // the parser, control or package around it, or nil
	// Args are the constructor's arguments in the order of its parameters; an
	// @optional one that was left out is nil.
	Args []*Value
	// ArgDecls are the constructor's parameters.
	ArgDecls []*Param
	// TypeArgs of an extern or package.
	TypeArgs []types.Type

	// One of these is set, by Kind. Parser and Control are this instance's own.
	Parser  *ParserDecl
	Control *ControlDecl
	Extern  *ExternDecl
	Ctor    *FunctionDecl // the extern's constructor
	Package *PackageDecl

	// Children are the instances within a parser or control, in order.
	Children []*Instance
	// Methods are the bodies for an extern's abstract methods, checked in the
	// scope of the instantiation.
	Methods []*FunctionDecl
	// Inner are instantiations within an extern's body.
	Inner []*Instantiation
}

// ValueKind says which field of a Value holds.
type ValueKind uint8

// Kinds of Value.
const (
	IntValue      ValueKind = iota // Int: int, bit<>, int<>, serialisable enums
	BoolValue                      // Bool
	StringValue                    // String
	EnumValue                      // Index of Member, in types.Enum
	ErrorValue                     // Index of Member, in Program.Error
	ListValue                      // Elems: tuple, list, struct in field order
	HeaderValue                    // Elems, Valid
	InstanceValue                  // Instance
	MatchValue                     // Member of match_kind
	SetValue                       // Elems, see setKind
)

// setKind is the meaning of a SetValue's Elems.
type setKind uint8

// Kinds of sets that constants (list<tuple<...>> arguments) can hold.
const (
	_        setKind = iota // all values: no Elems
	SetMask                 // value, mask
	SetRange                // low, high
)

// Value is a compile-time known value.
type Value struct {
	Kind     ValueKind
	Int      *big.Int // bit<N>: 0..2^N-1; int<N>: signed
	Bool     bool
	String   string
	Member   string
	Index    int
	Elems    []*Value
	Valid    bool
	Instance *Instance
	Set      setKind
}
