package lint

import (
	"maps"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// control looks at a control's apply block and at the actions of its tables.
func (l *linter) control(c *ast.ControlDecl) {
	for _, d := range c.Locals {
		if a, ok := d.(*ast.ActionDecl); ok {
			w := &walker{linter: l, known: map[string]value{}, action: a}
			w.statements(a.Body.Stmts)
		}
	}
	w := &walker{linter: l, known: map[string]value{}}
	w.statements(c.Apply.Stmts)
}

// value is the compiler's knowledge of an expression or of a field's content.
type value struct {
	ops    int             // operations that follow one another to compute it
	sum    bool            // the last of them adds a constant
	at     ast.Pos         // of the last of them
	reads  map[string]bool // fields that it is computed from
	fixed  bool            // a constant or an action's argument, which is computed from no field
	zero   bool            // of what is known
	opaque bool            // of a call: it is not moved to where it is used
}

// walker follows statements as the compiler does: it moves what a statement computes to
// where it is used, and puts statements that do not depend on one another into one
// action.
type walker struct {
	*linter
	known  map[string]value // of fields that hold something computed
	action *ast.ActionDecl  // whose body it is, or nil for an apply block
	group  group
}

func (w *walker) statements(stmts []ast.Stmt) {
	for _, s := range stmts {
		w.statement(s)
	}
}

func (w *walker) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.Block:
		if s.Annotations.Find("in_hash") != nil {
			// The hash unit computes it, with as many operations as stand there.
			w.group.end()
			w.forgetWrites(s.Stmts)
			return
		}
		w.statements(s.Stmts)
	case *ast.Assign:
		w.assign(s)
	case *ast.CallStmt:
		w.call(s.Call)
	case *ast.If:
		w.condition(s.Cond)
		w.branches(s.Then, s.Else)
	case *ast.Switch:
		w.value(s.X, 0)
		var bodies []ast.Stmt
		for _, c := range s.Cases {
			if c.Body != nil {
				bodies = append(bodies, c.Body)
			}
		}
		w.branches(bodies...)
	case *ast.DeclStmt:
		if v, ok := s.Decl.(*ast.VarDecl); ok && v.X != nil {
			w.set(v.Name, w.value(v.X, 0))
		}
	case *ast.For, *ast.ForIn:
		// How often it is carried out is not known here.
		w.group.end()
		w.forgetWrites([]ast.Stmt{s})
	}
}

// branches follows statements of which one is carried out, or none. What holds after
// all of them is known.
func (w *walker) branches(branches ...ast.Stmt) {
	w.group.end()
	before := w.known
	after := maps.Clone(before)
	for _, b := range branches {
		if b == nil {
			continue
		}
		w.known = maps.Clone(before)
		w.statement(b)
		w.group.end()
		for path, v := range after {
			if now, ok := w.known[path]; !ok || now.at != v.at || now.ops != v.ops {
				delete(after, path)
			}
		}
	}
	w.known = after
}

func (w *walker) assign(s *ast.Assign) {
	path := pathOf(s.Lhs)
	rhs := s.Rhs
	if s.Op != ast.OpNone { // x op= y is x = x op y
		b := &ast.Binary{Op: s.Op, X: s.Lhs, Y: s.Rhs}
		b.P = s.Pos()
		rhs = b
	}
	v := w.value(rhs, 0)
	if c, ok := s.Rhs.(*ast.Call); ok && !pureCall(c) {
		w.group.end() // an object is used: alone in its action
	} else {
		w.add(s.Lhs, v)
	}
	w.set(path, v)
}

// set notes that a field holds a value from now on.
func (w *walker) set(path string, v value) {
	w.forget(path)
	if path != "" && v.ops > 0 && !v.opaque && !readsFrom(v, path) {
		w.known[path] = v
	}
}

// forget drops what is known of a field, and what is computed from it.
func (w *walker) forget(path string) {
	for p, v := range w.known {
		if overlap(p, path) || readsFrom(v, path) {
			delete(w.known, p)
		}
	}
}

func readsFrom(v value, path string) bool {
	for r := range v.reads {
		if overlap(r, path) {
			return true
		}
	}
	return false
}

// overlap reports whether one of two paths is the other or within it.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".") || strings.HasPrefix(a, b+"[") || strings.HasPrefix(b, a+"[")
}

// call follows a call as a statement.
func (w *walker) call(c *ast.Call) {
	switch c.Kind {
	case ast.CallSetValid, ast.CallSetInvalid:
	default:
		w.value(c, 0)
	}
}

// value evaluates an expression, of which the lowest low bits are used (0 is all), and
// warns of operations that need several stages.
func (w *walker) value(e ast.Expr, low int) value {
	if e == nil {
		return value{}
	}
	if e.Const() != nil {
		return value{fixed: true}
	}
	switch e := e.(type) {
	case *ast.Ident:
		if p, ok := e.Decl.(*ast.Param); ok && p.Dir == types.None {
			return value{fixed: true}
		}
		return w.field(e)
	case *ast.Member:
		switch e.Sel {
		case ast.SelHit, ast.SelMiss, ast.SelAction:
			return w.value(e.X, 0)
		}
		return w.field(e)
	case *ast.Index:
		return w.field(e)
	case *ast.Slice:
		return w.value(e.X, e.HiN+1)
	case *ast.Cast:
		return w.value(e.X, narrowed(low, e.T))
	case *ast.Unary:
		if e.Op == ast.OpNot {
			return w.value(e.X, 0)
		}
		return w.operation(e, w.value(e.X, low))
	case *ast.Binary:
		return w.binary(e, low)
	case *ast.Call:
		return w.callValue(e)
	}
	w.forgetCalls(e)
	return value{opaque: true}
}

// narrowed returns the number of significant low bits of a cast operand, if low of its result are significant; 0 is
// all.
func narrowed(low int, t types.Type) int {
	if n, ok := types.Width(t); ok && (low == 0 || n < low) {
		return n
	}
	return low
}

func (w *walker) binary(e *ast.Binary, low int) value {
	switch e.Op {
	case ast.OpConcat, ast.OpLAnd, ast.OpLOr, ast.OpEQ, ast.OpNE, ast.OpLT, ast.OpGT, ast.OpLE, ast.OpGE:
		return join(e.Pos(), w.value(e.X, 0), w.value(e.Y, 0))
	case ast.OpShl:
		// Only zeros are left.
		if c := e.Y.Const(); c != nil && c.Int != nil && c.Int.IsInt64() && low > 0 && c.Int.Int64() >= int64(low) {
			return value{fixed: true, zero: true}
		}
	case ast.OpAnd, ast.OpOr, ast.OpXor:
		// An operand may be inverted in the same operation.
		x, y := w.value(inverted(e.X), low), w.value(inverted(e.Y), low)
		if y.zero && e.Op != ast.OpAnd {
			return x
		}
		return w.result(e, join(e.Pos(), x, y))
	}
	return w.result(e, join(e.Pos(), w.value(e.X, low), w.value(e.Y, low)))
}

// result is that of an operator on operands that were joined.
func (w *walker) result(e *ast.Binary, operands value) value {
	if unchanged(e) {
		return operands
	}
	sum := (e.Op == ast.OpAdd || e.Op == ast.OpSub) && e.Y.Const() != nil
	if sum && operands.sum {
		return operands // the compiler adds the constants
	}
	v := w.operation(e, operands)
	v.sum = sum
	return v
}

// operation is one operation on values; if that needs another stage, it warns.
func (w *walker) operation(e ast.Expr, operands ...value) value {
	v := operation(e.Pos(), operands...)
	w.several(e.Pos(), v)
	return v
}

// inverted returns the operand of ~, or the expression itself if it is no ~.
func inverted(e ast.Expr) ast.Expr {
	if u, ok := e.(*ast.Unary); ok && u.Op == ast.OpCompl {
		return u.X
	}
	return e
}

// compared is a value in a condition, where a mask is a part of the comparison.
func (w *walker) compared(e ast.Expr) value {
	if b, ok := e.(*ast.Binary); ok && b.Op == ast.OpAnd && b.Y.Const() != nil {
		e = b.X
	}
	return w.value(e, 0)
}

// unchanged reports whether an operation on a field and 0 is the field.
func unchanged(e *ast.Binary) bool {
	c := e.Y.Const()
	switch e.Op {
	case ast.OpAdd, ast.OpSub, ast.OpAddSat, ast.OpSubSat, ast.OpShl, ast.OpShr, ast.OpOr, ast.OpXor:
		return c != nil && c.Int != nil && c.Int.Sign() == 0
	}
	return false
}

// field returns the value of a field.
func (w *walker) field(e ast.Expr) value {
	path := pathOf(e)
	if v, ok := w.known[path]; ok {
		return v
	}
	return value{reads: map[string]bool{path: true}}
}

// callValue evaluates a call in an expression, and forgets what it writes.
func (w *walker) callValue(c *ast.Call) value {
	if pureCall(c) {
		var args []value
		for _, b := range c.Bound {
			args = append(args, w.value(b.Expr, 0))
		}
		v := w.operation(c, args...)
		v.opaque = true
		return v
	}
	w.group.end()
	w.forgetCalls(c)
	return value{opaque: true}
}

// forgetCalls forgets what the calls of an expression write.
func (w *walker) forgetCalls(e ast.Expr) {
	c, ok := e.(*ast.Call)
	if !ok {
		for _, x := range ast.Parts(e) {
			w.forgetCalls(x)
		}
		return
	}
	for _, b := range c.Bound {
		if b.Expr == nil {
			continue
		}
		w.forgetCalls(b.Expr)
		if b.Dir == types.Out || b.Dir == types.InOut {
			w.forget(pathOf(b.Expr))
		}
	}
	switch c.Kind {
	case ast.CallAction: // which the compiler puts into a table
		w.forgetWrites(c.Action.Body.Stmts)
	case ast.CallTable:
		for _, a := range c.Table.Actions {
			w.forgetWrites(a.Decl.Body.Stmts)
		}
	}
}

// pureCall reports whether a call is of an operation: min, max.
func pureCall(c *ast.Call) bool {
	return c.Kind == ast.CallExternFunc && c.Func != nil && (c.Func.Name == "min" || c.Func.Name == "max")
}

// forgetWrites forgets what statements write, whichever of them are carried out.
func (w *walker) forgetWrites(stmts []ast.Stmt) {
	for _, s := range stmts {
		switch s := s.(type) {
		case *ast.Block:
			w.forgetWrites(s.Stmts)
		case *ast.Assign:
			w.forgetCalls(s.Rhs)
			w.forget(pathOf(s.Lhs))
		case *ast.If:
			w.forgetCalls(s.Cond)
			w.forgetWrites([]ast.Stmt{s.Then})
			if s.Else != nil {
				w.forgetWrites([]ast.Stmt{s.Else})
			}
		case *ast.Switch:
			w.forgetCalls(s.X)
			for _, c := range s.Cases {
				if c.Body != nil {
					w.forgetWrites(c.Body.Stmts)
				}
			}
		case *ast.For:
			w.forgetWrites(s.Init)
			w.forgetWrites(s.Update)
			w.forgetWrites([]ast.Stmt{s.Body})
		case *ast.ForIn:
			w.forgetWrites([]ast.Stmt{s.Body})
		case *ast.DeclStmt:
			if v, ok := s.Decl.(*ast.VarDecl); ok {
				w.forgetCalls(v.X)
			}
		case *ast.CallStmt:
			w.forgetCalls(s.Call)
		}
	}
}

// join is a value made of several, without an operation of its own.
func join(at ast.Pos, args ...value) value {
	v := value{at: at, fixed: true, reads: map[string]bool{}}
	for _, a := range args {
		if a.ops > v.ops {
			v.ops, v.at, v.sum = a.ops, a.at, a.sum
		}
		v.fixed = v.fixed && a.fixed
		v.opaque = v.opaque || a.opaque
		maps.Copy(v.reads, a.reads)
	}
	return v
}

// operation is one operation on values.
func operation(at ast.Pos, args ...value) value {
	v := join(at, args...)
	if v.ops == 0 {
		v.at = at
	}
	v.ops++
	v.sum = false
	return v
}

// several warns of an operation on another operation's result.
func (w *walker) several(at ast.Pos, v value) {
	if v.ops != 2 {
		return
	}
	where := "in the same statement"
	if v.at.Line != at.Line || v.at.File != at.File {
		where = "in line " + line(v.at)
	}
	w.warn(at, "this operation is on what another one computes %s: the compiler makes one action of the two, which would take several stages; put one of them into a table that has only a default action", where)
}

// condition looks at an if's condition: a gateway compares fields with constants.
func (w *walker) condition(e ast.Expr) {
	switch e := e.(type) {
	case *ast.Unary:
		if e.Op == ast.OpNot {
			w.condition(e.X)
		}
	case *ast.Binary:
		switch e.Op {
		case ast.OpLAnd, ast.OpLOr:
			w.condition(e.X)
			w.condition(e.Y)
		case ast.OpEQ, ast.OpNE, ast.OpLT, ast.OpGT, ast.OpLE, ast.OpGE:
			for _, x := range []ast.Expr{e.X, e.Y} {
				if v := w.compared(x); v.ops > 0 {
					where := "in the condition"
					if v.at.Line != e.Pos().Line || v.at.File != e.Pos().File {
						where = "in line " + line(v.at)
					}
					w.warn(e.Pos(), "this condition compares what is computed %s: the compiler moves the operation into the condition, which can hold fields and constants only; put it into a table that has only a default action", where)
				}
			}
		}
	case *ast.Member:
		w.value(e, 0)
	case *ast.Call:
		w.value(e, 0)
	}
}
