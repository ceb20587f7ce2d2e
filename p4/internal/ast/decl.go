package ast

import "github.com/sluice-rdma/sluice/p4/internal/types"

// Decl is anything that a name can refer to.
type Decl interface {
	Node
	// DeclName is the declared name.
	DeclName() string
}

// DeclBase is embedded in every declaration.
type DeclBase struct {
	At
	Name        string
	Annotations Annotations
}

// DeclName is the declared name.
func (d *DeclBase) DeclName() string { return d.Name }

// LocalName is the name that the control plane uses for this declaration
// within its enclosing instance: @name's text, otherwise the declared name.
func (d *DeclBase) LocalName() string {
	if a := d.Annotations.Find("name"); a != nil && a.Text != "" {
		return a.Text
	}
	return d.Name
}

// TypeParam is a type parameter of a generic declaration.
type TypeParam struct {
	DeclBase
	T types.Type // checked: *types.Var, or what an instance puts in
}

// Param is a parameter of anything.
type Param struct {
	DeclBase
	Dir      types.Direction
	TypeExpr TypeExpr
	Default  Expr // or nil
	Optional bool // @optional
	// Ctor is set for a constructor parameter (and a package's).
	Ctor bool
	T    types.Type // checked
	// Bound is a constructor parameter's value within an instance. checked
	Bound *Value
}

// ConstDecl is const T Name = X.
type ConstDecl struct {
	DeclBase
	TypeExpr TypeExpr
	X        Expr
	T        types.Type // checked; X has this type and a Const
}

// VarDecl is T Name = X; X may be nil.
type VarDecl struct {
	DeclBase
	TypeExpr TypeExpr
	X        Expr
	T        types.Type // checked
}

// Instantiation is T(args) Name, possibly with a body that gives the abstract
// methods.
type Instantiation struct {
	DeclBase
	TypeExpr TypeExpr
	Args     []*Arg
	Body     []Decl // *FunctionDecl or *Instantiation; nil without a body
	HasBody  bool
	T        types.Type // checked
	Bound    []*BoundArg
	// Instance is nil in declarations that are not part of an instance.
	Instance *Instance // checked
}

// FunctionDecl is a function; Body is nil for extern functions and methods.
type FunctionDecl struct {
	DeclBase
	TypeParams []*TypeParam
	Params     []*Param
	ReturnType TypeExpr // nil for a constructor
	Body       *Block
	Abstract   bool
	Extern     *ExternDecl // the object that it is a method of, or nil
	Return     types.Type  // checked
}

// ActionDecl is an action. Params without direction are action data.
type ActionDecl struct {
	DeclBase
	Params []*Param
	Body   *Block
	// ControlName is the full name of the control plane: "ingress.c1.drop"; a
	// global action's is its own name. checked
	ControlName string
}

// ExternDecl is an extern object type.
type ExternDecl struct {
	DeclBase
	TypeParams []*TypeParam
	Ctors      []*FunctionDecl
	Methods    []*FunctionDecl
}

// ApplyDecl holds the fields that parsers and controls share.
type ApplyDecl struct {
	DeclBase
	TypeParams []*TypeParam
	Params     []*Param // of apply
	Ctor       []*Param // of the constructor
	IsType     bool     // it has no body
	Locals     []Decl
}

// ParserDecl is a parser, or a parser type if it has no body. Its Locals are
// *ConstDecl, *VarDecl, *Instantiation and *ValueSetDecl.
type ParserDecl struct {
	ApplyDecl
	States []*StateDecl
}

// StateDecl is a parser's state.
type StateDecl struct {
	DeclBase
	Stmts      []Stmt
	Transition *Transition // nil: to reject
	Index      int         // among the parser's States
}

// ValueSetDecl is value_set<T>(Size) Name.
type ValueSetDecl struct {
	DeclBase
	ElemExpr    TypeExpr
	Size        Expr
	Elem        types.Type // checked
	ControlName string     // checked
}

// ControlDecl is a control, or a control type if it has no body. Its Locals are
// *ConstDecl, *VarDecl, *Instantiation, *ActionDecl and *TableDecl.
type ControlDecl struct {
	ApplyDecl
	Apply *Block
}

// Applied returns the part of a declaration that parsers and controls share; nil if it is
// neither.
func Applied(d Decl) *ApplyDecl {
	switch d := d.(type) {
	case *ParserDecl:
		return &d.ApplyDecl
	case *ControlDecl:
		return &d.ApplyDecl
	}
	return nil
}

// PackageDecl is a package type.
type PackageDecl struct {
	DeclBase
	TypeParams []*TypeParam
	Params     []*Param
}

// FieldDecl is a member of a struct, header or union.
type FieldDecl struct {
	DeclBase
	TypeExpr TypeExpr
}

// StructDecl is a struct, a header or a header_union.
type StructDecl struct {
	DeclBase
	Kind       types.StructKind
	TypeParams []*TypeParam
	Fields     []*FieldDecl
	T          types.Type // checked: nil if generic
}

// EnumMember is a member of an enum; Value is set if it is serialisable.
type EnumMember struct {
	DeclBase
	Value Expr
}

// EnumDecl is an enum.
type EnumDecl struct {
	DeclBase
	Underlying TypeExpr // or nil
	Members    []*EnumMember
	T          *types.Enum // checked
}

// ErrorDecl is error { ... }.
type ErrorDecl struct {
	DeclBase
	Members []*EnumMember
}

// MatchKindDecl is match_kind { ... }.
type MatchKindDecl struct {
	DeclBase
	Members []*EnumMember
}

// TypedefDecl is typedef T Name, or type T Name if New is set.
type TypedefDecl struct {
	DeclBase
	New      bool
	TypeExpr TypeExpr
	Struct   Decl       // a struct, header, union or enum declared in place, or nil
	T        types.Type // checked
}

// TableDecl is a table.
type TableDecl struct {
	DeclBase
	Keys    []*Key
	Actions []*ActionRef
	// HasActions is set if there is a list, empty or not.
	HasActions bool
	// Default is default_action, nil if not written (then NoAction from core.p4
	// where that is declared: see the field's Implied).
	Default *ActionCall
	// ConstDefault is set for "const default_action".
	ConstDefault bool
	Entries      []*Entry
	ConstEntries bool
	HasEntries   bool
	// Props are the others: size, implementation, counters, meters,
	// support_timeout, idle_timeout, largest_priority_wins, priority_delta, ...
	Props       []*Property
	ControlName string // checked: full name, as "ingress.t"
}

// Prop gives the property of a name, or nil.
func (t *TableDecl) Prop(name string) *Property {
	for _, p := range t.Props {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Property is [const] Name = X. X's Const or Instance is the value (an extern
// object that is made in place is a Call of kind CallNew, a named one an Ident).
type Property struct {
	DeclBase
	Const bool
	X     Expr
}

// Key is one key of a table.
type Key struct {
	At
	Annotations Annotations
	X           Expr
	MatchKind   string
	MatchKindP  Pos
	// Name is the control plane's name: @name's text, otherwise the expression's text
	// as written, without blanks. checked
	Name string
}

// ActionRef is an action in a table's list. Args bind the parameters that have
// a direction (and any further ones that are written).
type ActionRef struct {
	At
	Annotations Annotations
	Name        string
	Absolute    bool
	Args        []*Arg
	HasArgs     bool // written with parentheses
	// checked:
	Decl *ActionDecl
	// Bound has one entry for every parameter; Expr is nil for action data,
	// which the control plane gives.
	Bound       []*BoundArg
	DefaultOnly bool // @defaultonly
	TableOnly   bool // @tableonly
}

// ActionCall is an action with all of its data: default_action, and an
// entry's.
type ActionCall struct {
	At
	Name     string
	Absolute bool
	Args     []*Arg
	HasArgs  bool
	// checked:
	Decl *ActionDecl
	Ref  *ActionRef // the entry in the table's list; nil for an implied NoAction
	// Bound has one entry for every parameter; those of action data have Const.
	Bound []*BoundArg
	// Implied: the program has no default_action; this is NoAction.
	Implied bool
}

// Entry is a table entry of the program.
type Entry struct {
	At
	Annotations Annotations
	Const       bool
	Priority    Expr // or nil
	Keys        *KeySet
	Action      *ActionCall
}
