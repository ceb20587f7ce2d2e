package check

import (
	"maps"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// A binding is one call: what is called, how, and what comes of it (specification, 6.8 and 8.20).
type binding struct {
	// The callee: its name in messages, its parameters, the substitution of the
	// object's type parameters, and the result's type, nil if there is none.
	what       string
	params     []*ast.Param
	typeParams []*ast.TypeParam
	object     subst
	ret        types.Type
	// The call. want is the type that its place expects, or nil.
	pos      ast.Pos
	args     []*ast.Arg
	typeArgs []ast.TypeExpr
	want     types.Type

	// Results: an entry for every parameter, and a type for every type parameter.
	bound []*ast.BoundArg
	types subst
}

// bind matches arguments with parameters, infers type arguments, converts the
// arguments and checks their directions. If it returns false, it has reported
// why, or what made an argument's type invalid was reported earlier: bound and
// types may then be incomplete.
func (c *checker) bind(b *binding) bool {
	n := len(c.errs)
	b.types = subst{}
	if !c.givenTypes(b) {
		c.checkArgs(b.args)
		return false
	}
	given, ok := c.arrange(b)
	ok = c.evaluate(b, given) && ok
	if !ok || !c.infer(b) || !c.valueTypes(b) {
		return false
	}
	for _, a := range b.bound {
		a.Type = c.substitute(a.Type, b.types)
		if c.hasDirection(b, a) && a.Expr != nil {
			c.fit(b.what, a)
		}
	}
	return len(c.errs) == n
}

// bindPlain binds the arguments of a callable without type parameters.
func (c *checker) bindPlain(p ast.Pos, what string, ps []*ast.Param, as []*ast.Arg) []*ast.BoundArg {
	b := &binding{what: what, params: ps, pos: p, args: as}
	c.bind(b)
	return b.bound
}

// givenTypes takes the type arguments that the call gives; "_" leaves one to
// inference.
func (c *checker) givenTypes(b *binding) bool {
	if len(b.typeArgs) == 0 {
		return true
	}
	if len(b.typeArgs) != len(b.typeParams) {
		c.errorf(b.pos, "%s takes %d type arguments, not %d", b.what, len(b.typeParams), len(b.typeArgs))
		return false
	}
	for i, a := range b.typeArgs {
		t := c.typ(a)
		if t == types.Invalid {
			return false
		}
		if v, ok := b.typeParams[i].T.(*types.Var); ok && t != types.DontCare {
			b.types[v] = t
		}
	}
	return true
}

// paramIndex finds a parameter by name; -1 if there is none.
func paramIndex(ps []*ast.Param, name string) int {
	for i, p := range ps {
		if p.Name == name {
			return i
		}
	}
	return -1
}

// arrange gives the argument of each parameter, nil for those without one.
func (c *checker) arrange(b *binding) (given []*ast.Arg, ok bool) {
	given = make([]*ast.Arg, len(b.params))
	n := len(c.errs)
	named := false
	for i, a := range b.args {
		k := i
		if a.Name != "" {
			named = true
			if k = paramIndex(b.params, a.Name); k < 0 {
				c.errorf(a.P, "%s has no parameter %s", b.what, a.Name)
				a.Value = c.expr(a.Value, nil)
				continue
			}
		} else if named {
			c.errorf(a.P, "an argument without name follows one with a name: name all or none")
			continue
		}
		if k >= len(b.params) {
			c.errorf(a.P, "%s takes %d arguments, not %d", b.what, len(b.params), len(b.args))
			c.checkArgs(b.args[i:])
			break
		}
		if given[k] != nil {
			c.errorf(a.P, "the parameter %s of %s is given twice", b.params[k].Name, b.what)
			continue
		}
		given[k] = a
	}
	for i, p := range b.params {
		if given[i] == nil && p.Default == nil && !p.Optional && (len(b.args) <= i || named) {
			c.errorf(b.pos, "%s lacks the argument for its parameter %s", b.what, p.Name)
		}
	}
	return given, len(c.errs) == n
}

// evaluate checks the arguments and infers type arguments from them.
func (c *checker) evaluate(b *binding, args []*ast.Arg) bool {
	free := freeVars(b.typeParams)
	given := maps.Clone(b.types) // no argument changes those
	b.bound = make([]*ast.BoundArg, len(b.params))
	ok := true
	for i, p := range b.params {
		a := &ast.BoundArg{Param: p, Dir: p.Dir, Type: c.substitute(c.substitute(p.T, b.object), given)}
		b.bound[i] = a
		switch {
		case args[i] != nil:
			ok = c.argument(b, a, args[i], free) && ok
		case p.Default != nil:
			a.Expr, a.Default = p.Default, true
		case p.Optional:
			a.Omitted = true
		default:
			ok = false
		}
	}
	return ok
}

// argument checks one argument in the place of its parameter.
func (c *checker) argument(b *binding, a *ast.BoundArg, arg *ast.Arg, free varSet) bool {
	hint := c.substitute(a.Type, b.types)
	if free.in(hint) {
		hint = nil
	}
	a.Expr = c.expr(arg.Value, hint)
	if d, ok := a.Expr.(*ast.DontCare); ok && (d.Default || a.Dir != types.Out) {
		if a.Param.Optional {
			a.Expr, a.Omitted = nil, true
			return true
		}
		if a.Dir != types.Out {
			c.errorf(arg.P, "_ stands for an out parameter only; %s is none", a.Param.Name)
			return false
		}
	}
	t := a.Expr.Type()
	if t == types.Invalid {
		return false
	}
	if t != types.DontCare && len(free) > 0 && !(unifier{free, b.types}).unify(a.Type, t) {
		c.errorf(a.Expr.Pos(), "the argument for %s of %s is of type %s, not %s", a.Param.Name, b.what, t, c.substitute(a.Type, b.types))
		return false
	}
	return true
}

// infer finds the type arguments that no argument gives: from the type that the call's
// place expects; "_" if nothing depends on the type argument.
func (c *checker) infer(b *binding) bool {
	free := freeVars(b.typeParams)
	if b.ret != nil && b.want != nil && free.in(c.substitute(b.ret, b.types)) {
		unifier{free, b.types}.unify(c.substitute(b.ret, b.object), b.want)
	}
	for _, tp := range b.typeParams {
		v, ok := tp.T.(*types.Var)
		if !ok || b.types[v] != nil || b.object[v] != nil {
			continue
		}
		b.types[v] = types.DontCare
		if b.needs(v) {
			c.errorf(b.pos, "the type argument %s of %s cannot be inferred: write %s<...>(...)", tp.Name, b.what, b.what)
			return false
		}
	}
	return true
}

// needs reports whether the result or an argument depends on a type parameter.
func (b *binding) needs(v *types.Var) bool {
	one := varSet{v: true}
	for i, p := range b.params {
		if one.in(p.T) && !b.bound[i].Omitted {
			return true
		}
	}
	return one.in(b.ret)
}

// valueTypes refuses type arguments that no value at run time has.
func (c *checker) valueTypes(b *binding) bool {
	for _, tp := range b.typeParams {
		v, _ := tp.T.(*types.Var)
		if t, ok := b.types[v].(*types.Callable); ok {
			c.errorf(b.pos, "the type argument %s of %s is a %s: it must be the type of a value", tp.Name, b.what, t.Kind)
			return false
		}
		if b.types[v] != types.Integer || b.ret == nil {
			continue
		}
		for i, p := range b.params {
			if p.T == v && b.bound[i].Expr != nil && p.Dir != types.None {
				c.errorf(b.bound[i].Expr.Pos(), "the width of the argument for %s of %s is unknown: write the literal with its width, as 8w1", p.Name, b.what)
				return false
			}
		}
	}
	return true
}

// hasDirection refuses a direction of a parameter whose type has become that
// of an object or a string.
func (c *checker) hasDirection(b *binding, a *ast.BoundArg) bool {
	if a.Dir == types.None {
		return true
	}
	switch t := a.Type.(type) {
	case *types.Extern, *types.Callable:
		c.errorf(b.pos, "the parameter %s of %s has the direction %s and cannot be a %s", a.Param.Name, b.what, a.Dir, t)
		return false
	}
	if a.Type == types.String {
		c.errorf(b.pos, "the parameter %s of %s has the direction %s and cannot be a string", a.Param.Name, b.what, a.Dir)
		return false
	}
	return true
}

// fit converts one argument and checks its direction.
func (c *checker) fit(what string, a *ast.BoundArg) {
	label := "the argument for " + a.Param.Name + " of " + what
	if d, ok := a.Expr.(*ast.DontCare); ok {
		d.T = a.Type
		return
	}
	t := a.Expr.Type()
	if a.Type == types.DontCare && t != types.Invalid {
		c.open(a, label)
		return
	}
	if a.Dir == types.Out || a.Dir == types.InOut {
		if !same(t, a.Type) {
			c.errorf(a.Expr.Pos(), "%s is of type %s, not %s: it is %s and takes exactly this type", label, t, a.Type, a.Dir)
			return
		}
		c.lvalue(a.Expr)
		return
	}
	if why := noValue(t, a.Type); why != "" {
		c.errorf(a.Expr.Pos(), "%s is %s", label, why)
		return
	}
	a.Expr = c.convert(a.Expr, a.Type, label)
}

// open gives an argument whose parameter's type is _ a type: its own, or bit<32> to a literal. The compilers of
// Tofino's SDE take it so. p4c's front end, which p4test and later ones share, refuses it since March 2023
// (p4lang/p4c #3901; whether it should is its issue #4499).
func (c *checker) open(a *ast.BoundArg, label string) {
	t := a.Expr.Type()
	if a.Dir == types.Out || a.Dir == types.InOut {
		c.lvalue(a.Expr)
	} else if t == types.Integer {
		if v := a.Expr.Const(); !isInt(v) || v.Int.Sign() < 0 || v.Int.BitLen() > 32 {
			c.errorf(a.Expr.Pos(), "%s has no type, and its value is not within 32 bits: write the type in place of _ where the object is declared", label)
			return
		}
		t = &types.Bit{Width: 32}
	}
	if why := noValue(t, t); why != "" {
		c.errorf(a.Expr.Pos(), "%s is %s", label, why)
		return
	}
	c.warnf(a.Expr.Pos(), "%s has no type, which p4test refuses since March 2023: write it in place of _ where the object is declared", label)
	a.Type, a.Expr = t, c.convert(a.Expr, t, label)
}

// noValue says why something of the type t cannot be an argument; empty if it can.
func noValue(t, want types.Type) string {
	switch t := t.(type) {
	case *types.Callable:
		if _, ok := want.(*types.Callable); !ok && want != types.Invalid {
			return "a " + t.Kind.String() + ", which is no value"
		}
	case *types.ApplyResult, *types.ActionEnum:
		return "no value"
	case *types.Basic:
		if t == types.Void {
			return "a call that gives no value"
		}
	}
	return ""
}
