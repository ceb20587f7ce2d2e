package run

import (
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (c *compiler) block(b *ast.Block) op {
	if b == nil {
		return seq(nil)
	}
	return seq(c.stmts(b.Stmts))
}

func (c *compiler) stmts(ss []ast.Stmt) []op {
	var ops []op
	for _, s := range ss {
		if o := c.stmt(s); o != nil {
			ops = append(ops, o)
		}
	}
	return ops
}

// effect is a statement that evaluates a; checked, if what it evaluates may stop the program.
func (c *compiler) effect(a act, checked bool) op {
	if !checked {
		return plain(a)
	}
	return func(m *machine) ctl {
		a(m)
		if m.exit || m.failed {
			return m.stopped()
		}
		return goOn
	}
}

// stmt compiles a statement; nil if there is nothing to do.
func (c *compiler) stmt(s ast.Stmt) op {
	c.step(s)
	switch s := s.(type) {
	case *ast.Block:
		return c.block(s)
	case *ast.Assign:
		return c.assign(s)
	case *ast.CallStmt:
		return c.callStmt(s)
	case *ast.If:
		return c.ifStmt(s)
	case *ast.Switch:
		return c.switchStmt(s)
	case *ast.Return:
		return c.returnStmt(s)
	case *ast.Exit:
		return func(m *machine) ctl { m.exit = true; return doExit }
	case *ast.Empty:
		return nil
	case *ast.Break:
		return func(*machine) ctl { return doBreak }
	case *ast.Continue:
		return func(*machine) ctl { return doContinue }
	case *ast.For:
		return c.forStmt(s)
	case *ast.ForIn:
		return c.forIn(s)
	case *ast.DeclStmt:
		return c.local(s.Decl)
	}
	c.failf(s, "not supported: this statement")
	return nil
}

func (c *compiler) callStmt(s *ast.CallStmt) op {
	o := c.callOp(s.Call, place{})
	if !c.inParser {
		return o
	}
	return func(m *machine) ctl {
		if r := o(m); r != goOn {
			return r
		}
		if m.failed {
			return doReject
		}
		return goOn
	}
}

func (c *compiler) returnStmt(s *ast.Return) op {
	if s.X == nil || c.ret.t == nil {
		return func(*machine) ctl { return doReturn }
	}
	st := c.store(s.X, c.ret)
	return func(m *machine) ctl {
		st(m)
		if m.exit {
			return doExit
		}
		return doReturn
	}
}

// local makes room for a declaration and gives its initialisation, nil if there is none.
// A variable without an initial value is zero, a header invalid.
func (c *compiler) local(d ast.Decl) op {
	switch d := d.(type) {
	case *ast.VarDecl:
		p := c.temp(d.T)
		if d.X == nil {
			c.env[d] = p
			return plain(c.zero(p))
		}
		st := c.store(d.X, p)
		c.env[d] = p
		return c.effect(st, hasCall(d.X) || c.inParser)
	case *ast.ConstDecl, *ast.Instantiation, *ast.ActionDecl, *ast.TableDecl, *ast.ValueSetDecl, *ast.FunctionDecl:
		return nil
	}
	c.failf(d, "not supported: this declaration here")
	return nil
}

func (c *compiler) assign(s *ast.Assign) op {
	pre, dst := c.ref(s.Lhs)
	as := nonNil(pre)
	called := hasCall(s.Rhs) || hasCall(s.Lhs) || c.inParser && mayReject(s.Rhs)
	if called || s.Op != ast.OpNone {
		fix, frozen := c.freeze(dst)
		as, dst = append(as, nonNil(fix)...), frozen
	}
	if !called {
		return c.effect(acts(append(as, c.assigned(s, dst, dst))), c.inParser)
	}
	// What a call leaves by exit, or a stack without this element by reject, is not assigned.
	tmp := c.temp(s.Rhs.Type())
	if s.Op != ast.OpNone {
		tmp = c.temp(s.Lhs.Type())
	}
	eval, cp := acts(append(as, c.assigned(s, dst, tmp))), c.copyTo(dst, tmp)
	return func(m *machine) ctl {
		eval(m)
		if m.exit || m.failed {
			return m.stopped()
		}
		cp(m)
		return goOn
	}
}

// assigned puts what an assignment gives to lhs into dst, which may be lhs.
func (c *compiler) assigned(s *ast.Assign, lhs, dst place) act {
	if s.Op == ast.OpNone {
		return c.store(s.Rhs, dst)
	}
	w, ok := scalarWidth(s.Lhs.Type())
	if !ok {
		c.failf(s, "not supported: assignment with an operator to %s", s.Lhs.Type())
	}
	signed := isSigned(s.Lhs.Type())
	if w <= 64 {
		return c.put(dst, c.arith(s, s.Op, w, signed, c.load(lhs), c.shiftOrNum(s.Op, s.Rhs), constOf(s.Rhs)))
	}
	return c.arithWide(s, s.Op, c.named(s.Lhs, lhs), s.Rhs, w, signed, dst)
}

func (c *compiler) ifStmt(s *ast.If) op {
	if v := s.Cond.Const(); v != nil && v.Kind == ast.BoolValue {
		if v.Bool {
			return c.stmt(s.Then)
		}
		if s.Else != nil {
			return c.stmt(s.Else)
		}
		return nil
	}
	cond := c.num(s.Cond)
	then := c.stmtOrNothing(s.Then)
	checked := hasCall(s.Cond) || c.inParser
	if s.Else == nil && !checked {
		return func(m *machine) ctl {
			if cond(m) != 0 {
				return then(m)
			}
			return goOn
		}
	}
	els := c.stmtOrNothing(s.Else)
	if !checked {
		return func(m *machine) ctl {
			if cond(m) != 0 {
				return then(m)
			}
			return els(m)
		}
	}
	return func(m *machine) ctl {
		v := cond(m)
		if m.exit || m.failed {
			return m.stopped()
		}
		if v != 0 {
			return then(m)
		}
		return els(m)
	}
}

func (c *compiler) stmtOrNothing(s ast.Stmt) op {
	if s != nil {
		if o := c.stmt(s); o != nil {
			return o
		}
	}
	return seq(nil)
}

func (c *compiler) switchStmt(s *ast.Switch) op {
	// A case without a body falls through to the next that has one.
	bodies := make([]op, len(s.Cases))
	for i := len(s.Cases) - 1; i >= 0; i-- {
		switch {
		case s.Cases[i].Body != nil:
			bodies[i] = c.block(s.Cases[i].Body)
		case i+1 < len(s.Cases):
			bodies[i] = bodies[i+1]
		default:
			bodies[i] = seq(nil)
		}
	}
	if s.Table != nil {
		return c.switchAction(s, bodies)
	}
	return c.switchValue(s, bodies)
}

// switchAction is a switch over the action that a table ran.
func (c *compiler) switchAction(s *ast.Switch, bodies []op) op {
	t := c.table(s.Table)
	dflt := seq(nil)
	by := make([]op, len(s.Table.Actions)+1) // the last: an implied NoAction
	for i, cs := range s.Cases {
		if cs.Default {
			dflt = bodies[i]
			continue
		}
		for j, a := range s.Table.Actions {
			if cs.Ref == a || cs.Ref == nil && cs.Action == a.Decl {
				by[j] = bodies[i]
			}
		}
	}
	for j := range by {
		if by[j] == nil {
			by[j] = dflt
		}
	}
	apply, ran := t.apply, t.ran
	return func(m *machine) ctl {
		if r := apply(m); r != goOn {
			return r
		}
		return by[m.w[ran]](m)
	}
}

// switchValue is a switch over a number.
func (c *compiler) switchValue(s *ast.Switch, bodies []op) op {
	w, ok := scalarWidth(s.X.Type())
	if !ok {
		c.failf(s, "not supported: switch on %s", s.X.Type())
	}
	if w > 64 {
		return c.switchWide(s, bodies)
	}
	x := c.num(s.X)
	keys, to, dflt := switchCases(c, s, bodies, func(e ast.Expr) uint64 { return c.num(e)(nil) })
	checked := hasCall(s.X) || c.inParser
	return func(m *machine) ctl {
		v := x(m)
		if checked && (m.exit || m.failed) {
			return m.stopped()
		}
		for i, k := range keys {
			if k == v {
				return to[i](m)
			}
		}
		return dflt(m)
	}
}

// switchWide is a switch over a number of more than a word.
func (c *compiler) switchWide(s *ast.Switch, bodies []op) op {
	p := c.temp(s.X.Type())
	x := c.store(s.X, p)
	keys, to, dflt := switchCases(c, s, bodies, func(e ast.Expr) []uint64 {
		words, err := constWords(p.t, e.Const())
		c.check(e, err)
		return words
	})
	checked := hasCall(s.X) || c.inParser
	at, n := p.off, size(p.t)
	return func(m *machine) ctl {
		x(m)
		if checked && (m.exit || m.failed) {
			return m.stopped()
		}
		for i, k := range keys {
			if slices.Equal(k, m.w[at:at+n]) {
				return to[i](m)
			}
		}
		return dflt(m)
	}
}

// switchCases are the labels of a switch over a number as constants, with the body of each and that of default.
func switchCases[T any](c *compiler, s *ast.Switch, bodies []op, constant func(ast.Expr) T) (keys []T, to []op, dflt op) {
	dflt = seq(nil)
	for i, cs := range s.Cases {
		if cs.Default {
			dflt = bodies[i]
			continue
		}
		if cs.Label.Const() == nil {
			c.failf(cs.Label, "not supported: a label that is not constant")
		}
		keys = append(keys, constant(cs.Label))
		to = append(to, bodies[i])
	}
	return keys, to, dflt
}

// turn counts a turn of a loop; false if the packet has had too many.
func (m *machine) turn() bool {
	m.budget--
	return m.budget > 0
}

func (c *compiler) forStmt(s *ast.For) op {
	init := seq(c.stmts(s.Init))
	cond := func(*machine) uint64 { return 1 }
	checked := c.inParser
	if s.Cond != nil {
		cond = c.num(s.Cond)
		checked = checked || hasCall(s.Cond)
	}
	update := seq(c.stmts(s.Update))
	body := c.stmtOrNothing(s.Body)
	return func(m *machine) ctl {
		if r := init(m); r != goOn {
			return r
		}
		for {
			more := cond(m) != 0
			if checked && (m.exit || m.failed) {
				return m.stopped()
			}
			if !more || !m.turn() {
				return goOn
			}
			if r, done := oneTurn(m, body); done {
				return r
			}
			if r := update(m); r != goOn {
				return r
			}
		}
	}
}

// oneTurn executes a loop's body once; done says that the loop ends with r.
func oneTurn(m *machine, body op) (r ctl, done bool) {
	switch r = body(m); r {
	case goOn, doContinue:
		return goOn, false
	case doBreak:
		return goOn, true
	}
	return r, true
}

func (c *compiler) forIn(s *ast.ForIn) op {
	dst := c.temp(s.Var.T)
	c.env[s.Var] = dst
	switch x := s.X.(type) {
	case *ast.Range:
		return c.forRange(s, x, dst)
	case *ast.List:
		return c.forList(s, x, dst)
	}
	if id, ok := s.X.(*ast.Ident); ok {
		if d, ok := id.Decl.(*ast.ConstDecl); ok {
			if l, ok := d.X.(*ast.List); ok {
				return c.forList(s, l, dst)
			}
		}
	}
	pre, p := c.ref(s.X)
	st, ok := types.Underlying(p.t).(*types.Stack)
	if !ok {
		c.failf(s, "not supported: a loop over %s", s.X.Type())
	}
	loop := loopOver(c.stmtOrNothing(s.Body), st.Size, dst.off, size(st.Elem), func(m *machine) int { return p.at(m) + 1 })
	if pre == nil {
		return loop
	}
	return func(m *machine) ctl {
		pre(m)
		if m.exit || m.failed {
			return m.stopped()
		}
		return loop(m)
	}
}

// forRange is a loop over a range, both of whose ends are evaluated before the first turn.
func (c *compiler) forRange(s *ast.ForIn, x *ast.Range, dst place) op {
	w, ok := scalarWidth(dst.t)
	if !ok || w > 64 {
		c.failf(s, "not supported: a range of %s", dst.t)
	}
	signed := isSigned(dst.t)
	lo, hi := c.num(x.Lo), c.num(x.Hi)
	checked := hasCall(x.Lo) || hasCall(x.Hi) || c.inParser
	body := c.stmtOrNothing(s.Body)
	mask := mask64(w)
	return func(m *machine) ctl {
		i, last := lo(m), hi(m)
		if checked && (m.exit || m.failed) {
			return m.stopped()
		}
		if signed && sign64(i, w) > sign64(last, w) || !signed && i > last {
			return goOn
		}
		for m.turn() {
			m.w[dst.off] = i
			if r, done := oneTurn(m, body); done {
				return r
			}
			if i == last {
				break
			}
			i = (i + 1) & mask
		}
		return goOn
	}
}

// forList is a loop over a list, all of whose elements are evaluated before the first turn (specification, 12.8).
func (c *compiler) forList(s *ast.ForIn, x *ast.List, dst place) op {
	n := size(dst.t)
	first := c.alloc(n * len(x.Elems))
	var as []act
	for i, e := range x.Elems {
		as = append(as, c.store(e, place{t: dst.t, off: first + i*n}))
	}
	all := acts(as)
	loop := loopOver(c.stmtOrNothing(s.Body), len(x.Elems), dst.off, n, func(*machine) int { return first })
	if all == nil {
		return loop
	}
	checked := slices.ContainsFunc(x.Elems, hasCall) || c.inParser
	return func(m *machine) ctl {
		all(m)
		if checked && (m.exit || m.failed) {
			return m.stopped()
		}
		return loop(m)
	}
}

// loopOver executes a body for each of n elements of size words, which lie from where first says on; each is copied to dst.
func loopOver(body op, n, dst, size int, first func(*machine) int) op {
	return func(m *machine) ctl {
		for i := 0; i < n && m.turn(); i++ {
			at := first(m) + i*size
			copy(m.w[dst:dst+size], m.w[at:at+size])
			if r, done := oneTurn(m, body); done {
				return r
			}
		}
		return goOn
	}
}

// controlBody is a control's locals and apply block, its parameters bound already.
func (c *compiler) controlBody(in *ast.Instance) op {
	old := c.inParser
	c.inParser = false
	defer func() { c.inParser = old }()
	var ops []op
	for _, d := range in.Control.Locals {
		if t, ok := d.(*ast.TableDecl); ok {
			delete(c.tables, t) // compiled for other arguments, if the control is applied twice
		}
		if o := c.local(d); o != nil {
			ops = append(ops, o)
		}
	}
	ops = append(ops, c.stmts(in.Control.Apply.Stmts)...)
	return seq(ops)
}
