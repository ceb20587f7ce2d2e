package check

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// A construction is T<typeArgs>(args), in a declaration or an expression.
type construction struct {
	pos      ast.Pos
	name     *ast.NamedType
	typeArgs []ast.TypeExpr
	applied  bool // written with < >
	args     []*ast.Arg
	want     types.Type // what the place expects, or nil
}

// constructorCall checks the arguments of a constructor. The type is nil after
// an error.
func (c *checker) constructorCall(n *construction) ([]*ast.BoundArg, types.Type) {
	d, object := c.constructed(n)
	var params []*ast.Param
	ok := d != nil
	if ok {
		params, ok = c.constructorParams(n, d)
	}
	tps := typeParams(d)
	if ok && n.applied && len(n.typeArgs) != len(tps) {
		c.errorf(n.name.P, "%s takes %d type arguments, not %d", n.name.Name, len(tps), len(n.typeArgs))
		ok = false
	}
	if !ok {
		c.checkArgs(n.args)
		return nil, nil
	}
	b := &binding{what: n.name.Name, params: params, typeParams: tps, object: object, pos: n.pos, args: n.args, typeArgs: n.typeArgs}
	if !c.bind(b) {
		return nil, nil
	}
	m := subst{}
	args := make([]types.Type, len(tps))
	ed, isExtern := d.(*ast.ExternDecl)
	for i, tp := range tps {
		v := tp.T.(*types.Var)
		t, given := object[v]
		if !given {
			t = b.types[v]
		}
		if t == types.DontCare && isExtern && !given && !n.leavesOpen(i) {
			c.errorf(n.name.P, "the type argument %s of %s cannot be inferred: write %s<...>(...)", tp.Name, n.name.Name, n.name.Name)
			return nil, nil
		}
		m[v], args[i] = t, t
	}
	if isExtern {
		c.externArgs(n.pos, ed, m)
		return b.bound, c.intern(&types.Extern{Name: ed.Name, TypeArgs: args})
	}
	return b.bound, c.substitute(c.callable(d), m)
}

// leavesOpen reports whether the construction has "_" for its type argument i: then
// any type will do, as with Register<bit<32>, _>, whose index may be of any width.
func (n *construction) leavesOpen(i int) bool {
	if i >= len(n.typeArgs) {
		return false
	}
	b, ok := n.typeArgs[i].(*ast.BaseType)
	return ok && b.Name == "_"
}

// constructed finds what a construction names, and the type arguments that a
// typedef or the place gives; nil after an error.
func (c *checker) constructed(n *construction) (ast.Decl, subst) {
	ds := c.find(n.name.Name, n.name.Absolute)
	if len(ds) == 0 {
		c.unknown(n.name.P, "no type", n.name.Name)
		return nil, nil
	}
	if td, ok := ds[0].(*ast.TypedefDecl); ok {
		if n.applied {
			c.errorf(n.name.P, "%s takes no type arguments", n.name.Name)
			return nil, nil
		}
		switch t := td.T.(type) {
		case *types.Extern:
			d := c.externs[t.Name]
			return d, objectTypes(d, t)
		case *types.Callable:
			return c.declOf(t), nil
		}
	}
	want, ok := n.want.(*types.Extern)
	if !ok || len(n.typeArgs) > 0 || want.Name != ds[0].DeclName() {
		return ds[0], nil
	}
	object := subst{}
	for i, tp := range typeParams(ds[0]) {
		if i < len(want.TypeArgs) && want.TypeArgs[i] != types.DontCare && !hasVar(want.TypeArgs[i]) {
			object[tp.T.(*types.Var)] = want.TypeArgs[i]
		}
	}
	return ds[0], object
}

// constructorParams are the parameters of a declaration's constructor.
func (c *checker) constructorParams(n *construction, d ast.Decl) ([]*ast.Param, bool) {
	switch d := d.(type) {
	case *ast.ExternDecl:
		f := c.chooseCtor(n.pos, d, n.args)
		if f == nil {
			return nil, false
		}
		return f.Params, true
	case *ast.ControlDecl, *ast.ParserDecl:
		a := ast.Applied(d)
		if !a.IsType {
			return a.Ctor, true
		}
		c.errorf(n.name.P, "%s is a type of %ss without a body: it has no instances", n.name.Name, c.callable(d).Kind)
	case *ast.PackageDecl:
		return d.Params, true
	default:
		c.errorf(n.name.P, "%s has no constructor", n.name.Name)
	}
	return nil, false
}

// externArgs refuses type arguments that would give a parameter with a
// direction the type of an object.
func (c *checker) externArgs(p ast.Pos, d *ast.ExternDecl, m subst) {
	for _, f := range d.Methods {
		for _, q := range f.Params {
			if q.Dir == types.None {
				continue
			}
			switch t := c.substitute(q.T, m).(type) {
			case *types.Extern, *types.Callable:
				c.errorf(p, "the parameter %s of %s.%s has the direction %s and cannot be a %s", q.Name, d.Name, f.Name, q.Dir, t)
				return
			}
		}
	}
}

func (c *checker) chooseCtor(p ast.Pos, d *ast.ExternDecl, as []*ast.Arg) *ast.FunctionDecl {
	if len(d.Ctors) == 0 {
		c.errorf(p, "the extern %s has no constructor: only the architecture makes it", d.Name)
		return nil
	}
	e := &ast.Call{Args: as}
	e.P = p
	return c.choose(e, d.Name, d.Ctors)
}
