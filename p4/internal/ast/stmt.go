package ast

import "github.com/sluice-rdma/sluice/p4/internal/types"

// Stmt is a statement. Declarations of variables, constants and instances are
// statements, too.
type Stmt interface {
	Node
	stmt()
}

// Block is { ... }.
type Block struct {
	At
	Annotations Annotations
	Stmts       []Stmt
}

// Assign is Lhs = Rhs or, with Op, Lhs Op= Rhs (Lhs is evaluated once).
type Assign struct {
	At
	Lhs Expr
	Op  Op // OpNone for =
	Rhs Expr
}

// CallStmt is a call as a statement.
type CallStmt struct {
	At
	Call *Call
}

// If is if (Cond) Then else Else; Else may be nil.
type If struct {
	At
	Cond Expr
	Then Stmt
	Else Stmt
}

// Switch is switch (X) { ... }.
type Switch struct {
	At
	X     Expr
	Cases []*SwitchCase
	// Table is set if X is t.apply().action_run. checked
	Table *TableDecl
}

// SwitchCase is one label. Body is nil if it falls through to the next.
type SwitchCase struct {
	At
	Default bool
	// Label is a Const of X's type, or an Ident of an action.
	Label  Expr
	Action *ActionDecl // checked: of an action_run switch
	Ref    *ActionRef  // checked: the entry in the table's list
	Body   *Block
}

// Return is return X; X may be nil.
type Return struct {
	At
	X Expr
}

// Exit is exit.
type Exit struct{ At }

// Empty is a lone semicolon.
type Empty struct{ At }

// Break is break.
type Break struct{ At }

// Continue is continue.
type Continue struct{ At }

// For is for (Init; Cond; Update) Body.
type For struct {
	At
	Annotations Annotations
	Init        []Stmt
	Cond        Expr
	Update      []Stmt
	Body        Stmt
}

// ForIn is for (type Var in X) Body. X is a Range (Lo and Hi of Var's type), a
// List, or a stack.
type ForIn struct {
	At
	Annotations Annotations
	Var         *VarDecl
	X           Expr
	Body        Stmt
}

// DeclStmt is a declaration among statements: *VarDecl, *ConstDecl or
// *Instantiation.
type DeclStmt struct {
	At
	Decl Decl
}

// Transition is a state's end: Next, or Select. A state without one goes to
// reject; then both are nil.
type Transition struct {
	At
	Next   *StateRef
	Select *Select
}

// StateRef names a state: accept and reject have State nil.
type StateRef struct {
	At
	Name  string
	State *StateDecl // checked
}

// Select is select (Exprs) { cases }. No case matching goes to reject with
// error.NoMatch.
type Select struct {
	At
	Exprs []Expr
	Cases []*SelectCase
	Types []types.Type // checked: of Exprs
}

// SelectCase is keyset: state.
type SelectCase struct {
	At
	Keys *KeySet
	Next *StateRef
}

func (*Block) stmt()    {}
func (*Assign) stmt()   {}
func (*CallStmt) stmt() {}
func (*If) stmt()       {}
func (*Switch) stmt()   {}
func (*Return) stmt()   {}
func (*Exit) stmt()     {}
func (*Empty) stmt()    {}
func (*Break) stmt()    {}
func (*Continue) stmt() {}
func (*For) stmt()      {}
func (*ForIn) stmt()    {}
func (*DeclStmt) stmt() {}
