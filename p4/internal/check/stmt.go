package check

import (
	"strconv"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// block checks a block in a scope of its own.
func (c *checker) block(b *ast.Block) {
	c.push()
	for _, s := range b.Stmts {
		c.stmt(s)
	}
	c.pop()
}

func (c *checker) stmt(s ast.Stmt) {
	if c.nest(s.Pos()) {
		c.stmt1(s)
	}
	c.depth--
}

func (c *checker) stmt1(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.Block:
		c.block(s)
	case *ast.Assign:
		c.assign(s)
	case *ast.CallStmt:
		if r, ok := c.call(s.Call, nil).(*ast.Call); ok {
			s.Call = r
		}
	case *ast.If:
		s.Cond = c.exprTo(s.Cond, types.Bool, "the condition")
		c.inner(s.Then)
		if s.Else != nil {
			c.inner(s.Else)
		}
	case *ast.Switch:
		c.switchStmt(s)
	case *ast.For:
		c.forStmt(s)
	case *ast.ForIn:
		c.forIn(s)
	case *ast.DeclStmt:
		c.localDecl(s.Decl)
	default:
		c.jump(s)
	}
}

// jump checks a statement that goes elsewhere.
func (c *checker) jump(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.Return:
		c.returnStmt(s)
	case *ast.Exit:
		if c.ctx.kind == ctxState || c.ctx.kind == ctxFunction {
			c.errorf(s.P, "exit has no place in %s", c.place())
		}
	case *ast.Break, *ast.Continue:
		if c.ctx.loops == 0 {
			c.errorf(s.Pos(), "break and continue belong in a loop")
		}
	}
}

// inner is a statement that is a scope even without braces.
func (c *checker) inner(s ast.Stmt) {
	c.push()
	c.stmt(s)
	c.pop()
}

func (c *checker) place() string {
	switch c.ctx.kind {
	case ctxState:
		return "a parser's state"
	case ctxFunction:
		return "a function"
	case ctxAction:
		return "an action"
	}
	return "a control"
}

func (c *checker) assign(s *ast.Assign) {
	s.Lhs = c.expr(s.Lhs, nil)
	t := s.Lhs.Type()
	if t != types.Invalid && !c.lvalue(s.Lhs) {
		t = types.Invalid
	}
	c.namedBounds(s.Lhs)
	switch {
	case t == types.Invalid:
		s.Rhs = c.value(s.Rhs, nil)
	case s.Op == ast.OpNone:
		s.Rhs = c.value(s.Rhs, t)
		s.Rhs = c.convert(s.Rhs, t, "what is assigned")
		if d, ok := s.Rhs.(*ast.DontCare); ok {
			c.errorf(d.P, "_ is no value")
		}
	default:
		c.compound(s, t)
	}
}

// compound is an assignment with an operator to a variable of type t.
func (c *checker) compound(s *ast.Assign, t types.Type) {
	s.Rhs = c.value(s.Rhs, nil)
	if s.Rhs.Type() == types.Invalid {
		return
	}
	if !types.IsInteger(t) {
		c.errorf(s.P, "%s= changes numbers, not a %s", s.Op, t)
		return
	}
	s.Rhs = c.number(s.Rhs)
	b := &ast.Binary{Op: s.Op, OpP: s.P, X: s.Lhs}
	if s.Op == ast.OpShl || s.Op == ast.OpShr {
		if rt := s.Rhs.Type(); !types.IsInteger(rt) {
			c.errorf(s.Rhs.Pos(), "%s wants numbers, not a %s%s", s.Op, rt, castHint(rt))
			return
		}
		b.Y = s.Rhs
		c.shift(b)
		return
	}
	b.Y = s.Rhs
	if b.Y.Type() != types.Integer {
		b.Y = c.convert(s.Rhs, t, "the operand")
	}
	if b.Y.Type() == types.Integer || same(b.Y.Type(), t) {
		c.arithmetic(b) // x op= y is what x = x op y is
	}
	s.Rhs = b.Y
}

// namedBounds refuses constants' names as bounds of a slice that is assigned to: p4c does not look them up there.
func (c *checker) namedBounds(e ast.Expr) {
	switch e := e.(type) {
	case *ast.Member:
		c.namedBounds(e.X)
	case *ast.Index:
		c.namedBounds(e.X)
	case *ast.Slice:
		c.namedBounds(e.X)
		if e.Plus {
			return
		}
		for _, b := range []ast.Expr{e.Hi, e.Lo} {
			if id, ok := b.(*ast.Ident); ok && isInt(id.Const()) {
				c.errorf(b.Pos(), "a slice that is assigned to has bounds without names: write %s", id.Const().Int)
			}
		}
	}
}

func (c *checker) returnStmt(s *ast.Return) {
	switch c.ctx.kind {
	case ctxState:
		c.errorf(s.P, "return has no place in a parser's state: use transition")
		return
	case ctxFunction:
		if c.ctx.ret != nil && c.ctx.ret != types.Void {
			if s.X == nil {
				c.errorf(s.P, "return lacks the value of type %s", c.ctx.ret)
				return
			}
			s.X = c.exprTo(s.X, c.ctx.ret, "what is returned")
			return
		}
	}
	if s.X != nil {
		s.X = c.expr(s.X, nil)
		c.errorf(s.P, "return gives a value where none is wanted")
	}
}

func (c *checker) switchStmt(s *ast.Switch) {
	if c.ctx.kind == ctxState {
		c.errorf(s.P, "switch has no place in a parser's state: use select")
		return
	}
	s.X = c.expr(s.X, nil)
	t := s.X.Type()
	if m, ok := s.X.(*ast.Member); ok && m.Sel == ast.SelAction {
		if call, ok := m.X.(*ast.Call); ok {
			s.Table = call.Table
		}
	}
	if s.Table == nil && !c.switchable(s.X) {
		t = types.Invalid
	}
	seen := map[string]ast.Pos{}
	for i, k := range s.Cases {
		switch {
		case k.Default:
			if i < len(s.Cases)-1 {
				c.errorf(k.P, "default is the last label of a switch: move it to the end")
			}
		case s.Table != nil:
			c.actionLabel(s, k)
		default:
			c.valueLabel(k, t)
		}
		name := labelText(k)
		if old, ok := seen[name]; ok && name != "" {
			c.errorf(k.P, "the label is there already, in line %d", old.Line)
		}
		seen[name] = k.P
		if k.Body != nil {
			c.block(k.Body)
		}
	}
}

// switchable reports whether there is a switch over values of the type of x; if there is none, that is reported.
func (c *checker) switchable(x ast.Expr) bool {
	t := x.Type()
	switch u := types.Underlying(t).(type) {
	case *types.Bit, *types.Int, *types.Enum, *types.Error:
		return true
	case *types.Basic:
		switch u {
		case types.Bool, types.Invalid:
			return u == types.Bool
		case types.Integer:
			c.errorf(x.Pos(), "switch wants a value of known width: cast it")
			return false
		}
	}
	c.errorf(x.Pos(), "switch over a %s: it wants a number, an enum, an error or action_run", t)
	return false
}

// valueLabel checks a label of a switch over values of type t.
func (c *checker) valueLabel(k *ast.SwitchCase, t types.Type) {
	k.Label = c.value(k.Label, t)
	if t != types.Invalid {
		k.Label = c.convert(k.Label, t, "the label")
	}
	if k.Label.Type() != types.Invalid && !known(k.Label) {
		c.errorf(k.P, "a label must be known when the program is compiled")
	}
}

func labelText(k *ast.SwitchCase) string {
	if k.Default {
		return "default"
	}
	if k.Action != nil {
		return "action " + k.Action.Name
	}
	if k.Label != nil {
		if v := k.Label.Const(); v != nil {
			switch v.Kind {
			case ast.IntValue:
				return v.Int.String()
			case ast.BoolValue:
				return strconv.FormatBool(v.Bool)
			}
			return v.Member
		}
	}
	return ""
}

func (c *checker) actionLabel(s *ast.Switch, k *ast.SwitchCase) {
	id, ok := k.Label.(*ast.Ident)
	if !ok {
		c.errorf(k.P, "a label of action_run is the name of an action of table %s", s.Table.Name)
		return
	}
	for _, a := range s.Table.Actions {
		if a.Name == id.Name && a.Decl != nil {
			k.Action, k.Ref = a.Decl, a
			id.Decl, id.T = a.Decl, c.callable(a.Decl)
			return
		}
	}
	c.errorf(k.P, "table %s has no action %s", s.Table.Name, id.Name)
}

func (c *checker) forStmt(s *ast.For) {
	if c.ctx.kind == ctxState {
		c.errorf(s.P, "a loop has no place in a parser's state: states loop by their transitions")
		return
	}
	c.push()
	for _, i := range s.Init {
		c.stmt(i)
	}
	if s.Cond != nil {
		s.Cond = c.exprTo(s.Cond, types.Bool, "the condition")
	}
	for _, u := range s.Update {
		c.stmt(u)
	}
	c.ctx.loops++
	c.inner(s.Body)
	c.ctx.loops--
	c.pop()
}

func (c *checker) forIn(s *ast.ForIn) {
	if c.ctx.kind == ctxState {
		c.errorf(s.P, "a loop has no place in a parser's state: states loop by their transitions")
		return
	}
	c.push()
	defer c.pop()
	t := c.typ(s.Var.TypeExpr)
	s.Var.T = t
	switch x := s.X.(type) {
	case *ast.Range:
		s.X = c.expr(x, t)
		if _, ok := s.X.Type().(*types.Set); ok && t != types.Invalid {
			x.Lo = c.convert(x.Lo, t, "the range's begin")
			x.Hi = c.convert(x.Hi, t, "the range's end")
			x.T = &types.Set{Elem: t}
		}
	case *ast.List:
		for i, e := range x.Elems {
			x.Elems[i] = c.exprTo(e, t, "the element")
		}
		tt := &types.Tuple{}
		for range x.Elems {
			tt.Elems = append(tt.Elems, t)
		}
		x.T = c.intern(tt)
	default:
		s.X = c.value(s.X, nil)
		c.collection(s.X, t)
	}
	c.declare(s.Var)
	c.ctx.loops++
	c.inner(s.Body)
	c.ctx.loops--
}

// collection demands a stack or a list, with elements of type t.
func (c *checker) collection(x ast.Expr, t types.Type) {
	var what string
	var elem types.Type
	switch xt := types.Underlying(x.Type()).(type) {
	case *types.Stack:
		what, elem = "stack", xt.Elem
	case *types.List:
		what, elem = "list", xt.Elem
	default:
		if xt != types.Invalid {
			c.errorf(x.Pos(), "for ... in wants a range, a list or a stack, not a %s", x.Type())
		}
		return
	}
	if t != types.Invalid && !same(elem, t) {
		c.errorf(x.Pos(), "the %s's elements are of type %s, not %s", what, elem, t)
	}
}

// returns reports whether every way through a statement ends in return or exit.
func returns(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.Return, *ast.Exit:
		return true
	case *ast.Block:
		for _, x := range s.Stmts {
			if returns(x) {
				return true
			}
		}
	case *ast.If:
		return s.Else != nil && returns(s.Then) && returns(s.Else)
	case *ast.Switch:
		def := false
		for i, k := range s.Cases {
			def = def || k.Default
			if k.Body != nil && !returns(k.Body) || k.Body == nil && i == len(s.Cases)-1 {
				return false
			}
		}
		return def
	}
	return false
}
