package check

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// instantiation checks T(args) name and, where that runs, makes the instance.
func (c *checker) instantiation(d *ast.Instantiation) {
	nt, targs, applied := splitType(d.TypeExpr)
	if nt == nil {
		c.errorf(d.P, "this type has no constructor")
		c.checkArgs(d.Args)
		return
	}
	savedCur := c.cur
	top := c.ctx.kind == ctxTop
	var shell *ast.Instance
	if top && c.elaborate {
		shell = c.packageShell(d, nt)
	}
	bound, t := c.constructorCall(&construction{pos: d.P, name: nt, typeArgs: targs, applied: applied, args: d.Args})
	c.cur = savedCur
	if t == nil {
		d.T = types.Invalid
		c.declare(d)
		return
	}
	d.Bound, d.T = bound, t
	if top {
		c.topInstance(d, t)
	}
	c.abstractMethods(d, t)
	if !c.elaborate {
		c.declare(d)
		return
	}
	if shell != nil {
		shell.Type = t
		c.finish(shell, t, bound)
		d.Instance = shell
		if d.Name == "main" && c.prog.Main == nil {
			c.prog.Main = shell
		}
	} else {
		d.Instance = c.instantiate(d.P, d, d.LocalName(), t, bound)
	}
	c.declare(d)
}

// packageShell begins the instance of a package, whose arguments are its children; nil if the type is no package.
func (c *checker) packageShell(d *ast.Instantiation, t *ast.NamedType) *ast.Instance {
	ds := c.find(t.Name, t.Absolute)
	if len(ds) == 0 {
		return nil
	}
	if _, ok := ds[0].(*ast.PackageDecl); !ok {
		return nil
	}
	shell := &ast.Instance{Kind: ast.InstPackage, Name: d.LocalName(), Decl: d, At: d.P}
	if d.Name != "main" {
		shell.ControlName = shell.Name
	}
	c.prog.Instances = append(c.prog.Instances, shell)
	c.cur = shell
	return shell
}

// topInstance checks what is instantiated outside of parsers, controls and packages.
func (c *checker) topInstance(d *ast.Instantiation, t types.Type) {
	ct, callable := t.(*types.Callable)
	if callable && ct.Kind != types.Package {
		c.errorf(d.P, "a %s is instantiated within parsers, controls and packages, not outside", ct.Kind)
	}
	if d.Name == "main" && (!callable || ct.Kind != types.Package) {
		c.errorf(d.P, "main is an instance of a package, not of %s", t)
	}
}

func splitType(t ast.TypeExpr) (*ast.NamedType, []ast.TypeExpr, bool) {
	switch t := t.(type) {
	case *ast.NamedType:
		return t, nil, false
	case *ast.AppliedType:
		return t.Base, t.Args, true
	}
	return nil, nil, false
}

// abstractMethods checks the bodies that an instantiation gives to an extern's
// abstract methods.
func (c *checker) abstractMethods(d *ast.Instantiation, t types.Type) {
	et, isExtern := t.(*types.Extern)
	if !isExtern {
		if d.HasBody {
			c.errorf(d.P, "only an extern object has a body with its abstract methods; %s is none", t)
		}
		return
	}
	ed := c.externs[et.Name]
	if ed == nil {
		return
	}
	m := objectTypes(ed, et)
	given := map[string]bool{}
	saved := c.ctx
	c.push()
	c.ctx.this = t
	for _, x := range d.Body {
		switch x := x.(type) {
		case *ast.Instantiation:
			c.ctx.kind = ctxControlLocal
			c.instantiation(x)
		case *ast.FunctionDecl:
			c.abstractMethod(ed, x, m)
			given[x.Name] = true
		}
	}
	c.pop()
	c.ctx = saved
	for _, f := range ed.Methods {
		if f.Abstract && !given[f.Name] && f.Annotations.Find("optional") == nil {
			c.errorf(d.P, "%s lacks a body for the abstract method %s of %s", d.Name, f.Name, et)
		}
	}
}

func (c *checker) abstractMethod(ed *ast.ExternDecl, x *ast.FunctionDecl, m subst) {
	var cand *ast.FunctionDecl
	for _, f := range ed.Methods {
		if f.Abstract && f.Name == x.Name {
			cand = f
		}
	}
	saved := c.ctx
	c.functionBody(x)
	c.ctx = saved
	c.declare(x)
	if cand == nil {
		c.errorf(x.P, "the extern %s has no abstract method %s", ed.Name, x.Name)
		return
	}
	if !same(c.substitute(cand.Return, m), x.Return) {
		c.errorf(x.P, "%s gives a %s, the abstract method a %s", x.Name, x.Return, c.substitute(cand.Return, m))
	}
	j := 0
	for _, p := range cand.Params {
		pt := c.substitute(p.T, m)
		if j >= len(x.Params) || x.Params[j].Dir != p.Dir || !same(pt, x.Params[j].T) {
			if p.Optional {
				continue
			}
			c.errorf(x.P, "the abstract method %s has the parameter %s %s %s, which is not here", x.Name, p.Dir, pt, p.Name)
			return
		}
		j++
	}
	if j < len(x.Params) {
		c.errorf(x.Params[j].P, "the abstract method %s has no parameter like %s", x.Name, x.Params[j].Name)
	}
}

// instantiate makes an instance of what runs. For parsers and controls it
// checks a copy of the declaration with the constructor's arguments put in.
func (c *checker) instantiate(p ast.Pos, d *ast.Instantiation, name string, t types.Type, bound []*ast.BoundArg) *ast.Instance {
	c.instances++
	if c.instances > maxInstances {
		c.errorf(p, "not supported: more than %d instances", maxInstances)
		return nil
	}
	inst := &ast.Instance{Name: name, Decl: d, At: p, Type: t, Parent: c.cur}
	prefix := ""
	if c.cur != nil {
		c.cur.Children = append(c.cur.Children, inst)
		prefix = c.cur.ControlName
	}
	if name == "" {
		switch t := t.(type) {
		case *types.Callable:
			if x := c.declOf(t); x != nil {
				inst.Name = localName(x)
			}
		case *types.Extern:
			inst.Name = localName(c.externs[t.Name])
		}
	}
	inst.ControlName = joinName(prefix, inst.Name)
	if ct, ok := t.(*types.Callable); ok && ct.Kind == types.Package && d == nil {
		inst.ControlName = prefix
	}
	c.prog.Instances = append(c.prog.Instances, inst)
	c.finish(inst, t, bound)
	return inst
}

func localName(d ast.Decl) string {
	if a := ast.Applied(d); a != nil {
		return a.LocalName()
	}
	return d.DeclName()
}

// finish evaluates the arguments and, for parsers and controls, makes the body.
func (c *checker) finish(inst *ast.Instance, t types.Type, bound []*ast.BoundArg) {
	for _, b := range bound {
		inst.ArgDecls = append(inst.ArgDecls, b.Param)
		inst.Args = append(inst.Args, c.argValue(b))
	}
	switch t := t.(type) {
	case *types.Extern:
		c.finishObject(inst, t, bound)
	case *types.Callable:
		inst.TypeArgs = t.TypeArgs
		switch d := c.declOf(t).(type) {
		case *ast.PackageDecl:
			inst.Kind, inst.Package = ast.InstPackage, d
		case *ast.ParserDecl:
			inst.Kind = ast.InstParser
			inst.Parser, _ = c.ownCopy(inst, d).(*ast.ParserDecl)
		case *ast.ControlDecl:
			inst.Kind = ast.InstControl
			inst.Control, _ = c.ownCopy(inst, d).(*ast.ControlDecl)
		}
	}
}

// finishObject finds an extern object's constructor and the bodies that its declaration gives.
func (c *checker) finishObject(inst *ast.Instance, t *types.Extern, bound []*ast.BoundArg) {
	inst.Kind, inst.Extern, inst.TypeArgs = ast.InstExtern, c.externs[t.Name], t.TypeArgs
	if inst.Extern != nil {
		for _, ct := range inst.Extern.Ctors {
			if len(bound) > 0 && len(ct.Params) == len(bound) && ct.Params[0] == bound[0].Param || len(bound) == 0 && len(ct.Params) == 0 {
				inst.Ctor = ct
			}
		}
	}
	if inst.Decl == nil {
		return
	}
	for _, x := range inst.Decl.Body {
		switch x := x.(type) {
		case *ast.FunctionDecl:
			inst.Methods = append(inst.Methods, x)
		case *ast.Instantiation:
			inst.Inner = append(inst.Inner, x)
		}
	}
}

// ownCopy makes and checks an instance's own copy of a parser or control; nil if
// that has no body.
func (c *checker) ownCopy(inst *ast.Instance, d ast.Decl) ast.Decl {
	src, ok := c.pristine[d]
	if !ok {
		return nil
	}
	n := clone(src)
	if len(c.errs) > 0 {
		return n // a check would only say the same again
	}
	for i, p := range ast.Applied(n).Ctor {
		if i < len(inst.Args) {
			p.Bound = inst.Args[i]
		}
	}
	scope, ctx, elab, cur := c.scope, c.ctx, c.elaborate, c.cur
	c.scope, c.elaborate, c.cur = c.global, true, inst
	if c.nest(inst.At) {
		c.applyBody(n)
	}
	c.depth--
	c.scope, c.ctx, c.elaborate, c.cur = scope, ctx, elab, cur
	return n
}

// argValue is a constructor's argument as a value; nil for an optional one that
// was left out.
func (c *checker) argValue(b *ast.BoundArg) *ast.Value {
	e := b.Expr
	if e == nil || e.Type() == types.Invalid {
		return nil
	}
	if v := e.Const(); v != nil {
		return v
	}
	switch x := e.(type) {
	case *ast.Call:
		if x.Kind == ast.CallNew && x.Instance != nil {
			return &ast.Value{Kind: ast.InstanceValue, Instance: x.Instance}
		}
	case *ast.Ident:
		if v := boundValue(x.Decl); v != nil {
			return v
		}
	case *ast.List:
		v := &ast.Value{Kind: ast.ListValue}
		for _, y := range x.Elems {
			ev := c.argValue(&ast.BoundArg{Param: b.Param, Expr: y})
			v.Elems = append(v.Elems, ev)
		}
		return v
	case *ast.DontCare:
		return nil
	}
	if len(c.errs) == 0 {
		c.errorf(e.Pos(), "the argument for %s must be known when the program is compiled", b.Param.Name)
	}
	return nil
}

// boundValue returns the value of a declared object or of a constructor's parameter; nil if that is not
// known.
func boundValue(d ast.Decl) *ast.Value {
	switch d := d.(type) {
	case *ast.Instantiation:
		if d.Instance != nil {
			return &ast.Value{Kind: ast.InstanceValue, Instance: d.Instance}
		}
	case *ast.Param:
		return d.Bound
	}
	return nil
}
