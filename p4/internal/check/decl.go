package check

import (
	"maps"
	"math/big"
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (c *checker) program() {
	for _, d := range c.prog.Decls {
		if c.full() {
			return
		}
		c.ctx = context{kind: ctxTop}
		c.scope = c.global
		c.elaborate, c.cur = true, nil
		c.topDecl(d)
	}
	c.prog.Error = c.errType
}

// noError is the error whose code is 0, wherever it is declared: variables begin with it.
const noError = "NoError"

func (c *checker) topDecl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.ErrorDecl:
		c.errorDecl(d)
	case *ast.MatchKindDecl:
		c.matchKindDecl(d)
	case *ast.ConstDecl:
		c.constDecl(d)
	case *ast.StructDecl:
		c.structDecl(d)
	case *ast.EnumDecl:
		c.enumDecl(d)
	case *ast.TypedefDecl:
		c.typedef(d)
	case *ast.ExternDecl:
		c.externDecl(d)
	case *ast.FunctionDecl:
		c.functionDecl(d)
	case *ast.ActionDecl:
		c.actionDecl(d, "")
	case *ast.ParserDecl, *ast.ControlDecl:
		c.applyDecl(d)
	case *ast.PackageDecl:
		c.packageDecl(d)
	case *ast.Instantiation:
		c.instantiation(d)
	case *ast.VarDecl:
		c.errorf(d.P, "a variable outside of parsers, controls and functions: declare a const, or move it")
	default:
		c.errorf(d.Pos(), "%s has no place outside of parsers and controls", d.DeclName())
	}
}

func (c *checker) errorDecl(d *ast.ErrorDecl) {
	for _, m := range d.Members {
		if _, ok := c.errIndex[m.Name]; ok {
			c.errorf(m.P, "the error %s is declared already", m.Name)
			continue
		}
		if m.Name == noError {
			c.errIndex[m.Name] = 0
			continue
		}
		c.errIndex[m.Name] = len(c.errType.Members)
		c.errType.Members = append(c.errType.Members, m.Name)
	}
}

func (c *checker) matchKindDecl(d *ast.MatchKindDecl) {
	for _, m := range d.Members {
		if c.kinds[m.Name] {
			c.errorf(m.P, "the match_kind %s is declared already", m.Name)
			continue
		}
		c.kinds[m.Name] = true
		c.prog.MatchKinds = append(c.prog.MatchKinds, m.Name)
	}
}

func (c *checker) packageDecl(d *ast.PackageDecl) {
	c.push()
	c.typeParams(d.TypeParams)
	c.params(d.Params, d.Name)
	for _, p := range d.Params {
		if p.Dir != types.None {
			c.errorf(p.P, "a package's parameter has no direction: remove %s", p.Dir)
		}
	}
	c.pop()
	c.declare(d)
}

func (c *checker) localDecls(ds []ast.Decl) {
	for _, d := range ds {
		c.localDecl(d)
	}
}

// localDecl is a declaration within a parser, a control or a block.
func (c *checker) localDecl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.ConstDecl:
		c.constDecl(d)
	case *ast.VarDecl:
		c.varDecl(d)
	case *ast.Instantiation:
		switch c.ctx.kind {
		case ctxParserLocal, ctxControlLocal:
		default:
			c.errorf(d.P, "an object is made outside of statements: move %s in front", d.Name)
			return
		}
		c.instantiation(d)
	case *ast.ActionDecl:
		prefix := ""
		if c.cur != nil {
			prefix = c.cur.ControlName
		}
		c.actionDecl(d, prefix)
	case *ast.TableDecl:
		c.tableDecl(d)
	case *ast.ValueSetDecl:
		c.valueSet(d)
	}
}

func (c *checker) constDecl(d *ast.ConstDecl) {
	d.T = c.typ(d.TypeExpr)
	if d.T != types.Invalid && !c.holds(d.T) && d.T != types.MatchKind {
		c.errorf(d.P, "a constant of type %s", d.T)
		d.T = types.Invalid
	}
	d.X = c.exprTo(d.X, d.T, "the constant's value")
	if d.X.Type() != types.Invalid && d.T != types.Invalid && !known(d.X) {
		if !onlyHeaders(d.X) {
			c.errorf(d.X.Pos(), "the value of the constant %s is not known when the program is compiled", d.Name)
		}
	}
	c.declare(d)
}

// onlyHeaders: a constant of a header union or stack has no Value.
func onlyHeaders(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.InvalidHeader, *ast.Dots:
		return true
	case *ast.List:
		for _, x := range e.Elems {
			if !known(x) && !onlyHeaders(x) {
				return false
			}
		}
		return true
	case *ast.StructLit:
		for _, f := range e.Fields {
			if !known(f.Value) && !onlyHeaders(f.Value) {
				return false
			}
		}
		return true
	}
	return false
}

func (c *checker) varDecl(d *ast.VarDecl) {
	d.T = c.typ(d.TypeExpr)
	switch {
	case d.T == types.Invalid:
	case d.T == types.Integer, d.T == types.String:
		c.errorf(d.P, "a variable of type %s: only constants have it; give the variable a width, as bit<32>", d.T)
		d.T = types.Invalid
	case !c.holds(d.T):
		c.errorf(d.P, "a variable of type %s", d.T)
		d.T = types.Invalid
	}
	if d.X != nil {
		d.X = c.value(d.X, d.T)
		d.X = c.convert(d.X, d.T, "the variable's value")
		if _, ok := d.X.(*ast.DontCare); ok {
			c.errorf(d.X.Pos(), "_ is no value")
		}
	}
	c.declare(d)
}

func (c *checker) typeParams(ps []*ast.TypeParam) {
	for _, p := range ps {
		if p.T == nil {
			p.T = &types.Var{Name: p.Name}
		}
		c.declare(p)
	}
}

// abstractParam refuses a parser or control with a body as a parameter's type.
func (c *checker) abstractParam(p *ast.Param, t types.Type) {
	ct, ok := t.(*types.Callable)
	if !ok {
		return
	}
	if d := ast.Applied(c.declOf(ct)); d == nil || d.IsType {
		return
	}
	c.errorf(p.P, "the type of the parameter %s is the %s %s, which has a body: declare a type without one", p.Name, ct.Kind, ct.Name)
}

// noOptional refuses @optional where a body would miss the argument.
func (c *checker) noOptional(ps []*ast.Param) {
	for _, p := range ps {
		if p.Optional {
			c.errorf(p.P, "@optional is for parameters of externs, packages and types of parsers and controls: give %s a default value", p.Name)
		}
	}
}

// params resolves and declares parameters.
func (c *checker) params(ps []*ast.Param, of string) {
	for _, p := range ps {
		p.T = c.typ(p.TypeExpr)
		if p.T == types.Void {
			c.errorf(p.P, "a parameter of type void")
			p.T = types.Invalid
		}
		switch t := p.T.(type) {
		case *types.Extern, *types.Callable:
			c.abstractParam(p, t)
			if p.Dir != types.None {
				c.errorf(p.P, "the parameter %s is of the type %s and has no direction: remove %s", p.Name, t, p.Dir)
			}
		case *types.Basic:
			if (t == types.Integer || t == types.String) && p.Dir != types.None {
				c.errorf(p.P, "an %s parameter of type %s: only constants have it; remove %s, or give the type a width", p.Dir, t, p.Dir)
			}
		}
		if p.Default != nil {
			c.defaultValue(p)
		}
	}
	for _, p := range ps {
		c.declare(p)
	}
}

// defaultValue checks the default value of a parameter.
func (c *checker) defaultValue(p *ast.Param) {
	if p.Dir == types.Out || p.Dir == types.InOut {
		c.errorf(p.P, "the %s parameter %s has a default value: only in parameters and those without direction have one", p.Dir, p.Name)
	}
	if hasVar(p.T) {
		p.Default = c.expr(p.Default, nil)
	} else {
		p.Default = c.exprTo(p.Default, p.T, "the default value")
	}
	if e, ok := p.Default.(*ast.Call); !known(p.Default) && !(ok && e.Kind == ast.CallNew) {
		c.errorf(p.Default.Pos(), "the default value of %s is not known when the program is compiled", p.Name)
	}
}

func (c *checker) structDecl(d *ast.StructDecl) {
	c.push()
	c.typeParams(d.TypeParams)
	t := &types.Struct{Kind: d.Kind, Name: d.Name, Generic: d.Name, Annotations: d.Annotations.Map()}
	seen := map[string]ast.Pos{}
	for _, f := range d.Fields {
		ft := c.typ(f.TypeExpr)
		if old, ok := seen[f.Name]; ok {
			c.errorf(f.P, "the field %s is there already, in line %d", f.Name, old.Line)
			continue
		}
		seen[f.Name] = f.P
		if _, isVar := ft.(*types.Var); !isVar {
			c.fieldType(d, f.P, ft)
		}
		t.Fields = append(t.Fields, types.Field{Name: f.Name, Type: ft, Annotations: f.Annotations.Map()})
	}
	c.pop()
	if len(d.TypeParams) > 0 {
		for _, p := range d.TypeParams {
			t.TypeArgs = append(t.TypeArgs, p.T)
		}
		t.Name = types.Applied(d.Name, t.TypeArgs)
		c.interned["struct "+d.Name+"<"+c.keys(t.TypeArgs)+">"] = t
	}
	d.T = t
	if c.leafCount(t) > maxLeaves {
		c.errorf(d.P, "not supported: %s has more than %d basic values", d.Name, maxLeaves)
		t.Fields = nil
	}
	c.structs[d.Name] = d
	c.declare(d)
}

// varbits returns the number of a type's fields of variable length.
func varbits(t types.Type) int {
	n := 0
	switch t := types.Underlying(t).(type) {
	case *types.Varbit:
		return 1
	case *types.Struct:
		for _, f := range t.Fields {
			n += varbits(f.Type)
		}
	case *types.Stack:
		n = varbits(t.Elem)
	case *types.Tuple:
		for _, e := range t.Elems {
			n += varbits(e)
		}
	}
	return n
}

// fieldType checks what a struct, header or union may hold.
func (c *checker) fieldType(d *ast.StructDecl, p ast.Pos, t types.Type) {
	if t == types.Invalid {
		return
	}
	switch d.Kind {
	case types.Header:
		if !headerField(t) {
			c.errorf(p, "a header has no field of type %s", t)
		}
	case types.Union:
		if s, ok := types.Underlying(t).(*types.Struct); !ok || s.Kind != types.Header {
			c.errorf(p, "a header union has headers only, no %s", t)
		}
	default:
		if !c.holds(t) || t == types.Integer || t == types.String {
			c.errorf(p, "a struct has no field of type %s", t)
		}
	}
}

func headerField(t types.Type) bool {
	switch t := types.Underlying(t).(type) {
	case *types.Bit, *types.Int, *types.Varbit, *types.Var:
		return true
	case *types.Basic:
		return t == types.Bool
	case *types.Enum:
		return t.Underlying != nil
	case *types.Struct:
		if t.Kind != types.PlainStruct {
			return false
		}
		for _, f := range t.Fields {
			if !headerField(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

func (c *checker) enumDecl(d *ast.EnumDecl) {
	t := &types.Enum{Name: d.Name}
	d.T = t
	if d.Underlying != nil {
		u := c.typ(d.Underlying)
		switch types.Underlying(u).(type) {
		case *types.Bit, *types.Int:
			t.Underlying = types.Underlying(u)
			if _, isNew := u.(*types.New); isNew {
				c.errorf(d.Underlying.Pos(), "an enum's values are of bit<> or int<>, not of %s", u)
			}
		default:
			if u != types.Invalid {
				c.errorf(d.Underlying.Pos(), "an enum's values are of bit<> or int<>, not of %s", u)
			}
			return
		}
	}
	seen := map[string]bool{}
	// Members may refer to those in front of them, as values of the type.
	c.push()
	for _, m := range d.Members {
		if seen[m.Name] {
			c.errorf(m.P, "the member %s is there already", m.Name)
			continue
		}
		seen[m.Name] = true
		v := c.memberValue(d, t, m)
		t.Members = append(t.Members, m.Name)
		t.Values = append(t.Values, v)
		if v != nil {
			k := &ast.ConstDecl{DeclBase: ast.DeclBase{At: m.At, Name: m.Name}, T: t}
			k.X = &ast.IntLit{ExprBase: ast.ExprBase{At: m.At, T: t, V: intVal(v)}, Value: v}
			c.declare(k)
		}
	}
	c.pop()
	if t.Underlying == nil {
		t.Values = nil
	}
	c.declare(d)
}

// memberValue is the value of an enum's member; nil if it has none.
func (c *checker) memberValue(d *ast.EnumDecl, t *types.Enum, m *ast.EnumMember) *big.Int {
	switch {
	case t.Underlying == nil && m.Value != nil:
		c.errorf(m.P, "the member %s has a value, but the enum has no type for it: write enum bit<8> %s", m.Name, d.Name)
	case t.Underlying != nil && m.Value == nil:
		c.errorf(m.P, "the member %s of the enum of %s lacks its value", m.Name, t.Underlying)
	case t.Underlying != nil:
		m.Value = c.exprTo(m.Value, t.Underlying, "the member's value")
		if x := m.Value.Const(); isInt(x) {
			return x.Int
		}
		if m.Value.Type() != types.Invalid {
			c.errorf(m.P, "the value of %s is not known when the program is compiled", m.Name)
		}
	}
	return nil
}

func (c *checker) typedef(d *ast.TypedefDecl) {
	if d.Struct != nil {
		c.topDecl(d.Struct)
	}
	t := c.typ(d.TypeExpr)
	d.T = t
	if d.New && t != types.Invalid {
		if !newable(t) {
			c.errorf(d.P, "type %s is made of %s: only bit<>, int<>, bool and other such types will do; use typedef", d.Name, t)
		}
		d.T = &types.New{Name: d.Name, Underlying: t, Annotations: d.Annotations.Map()}
	}
	c.declare(d)
}

// newable reports whether "type" may make a new type of this one.
func newable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Bit, *types.Int, *types.New:
		return true
	case *types.Basic:
		return t == types.Bool
	case *types.Enum:
		return t.Underlying != nil
	}
	return false
}

func (c *checker) externDecl(d *ast.ExternDecl) {
	c.externs[d.Name] = d
	c.push()
	c.typeParams(d.TypeParams)
	for _, f := range d.Ctors {
		c.push()
		c.params(f.Params, d.Name)
		c.pop()
		f.Return = types.Void
	}
	for i, f := range d.Methods {
		for _, g := range d.Methods[:i] {
			if g.Name == f.Name && sameNames(f.Params, g.Params) {
				c.errorf(f.P, "the method %s with these parameters is there already, in line %d", f.Name, g.P.Line)
			}
		}
		if f.Name == d.Name {
			c.errorf(f.P, "%s is the constructor's name: remove the type in front of it, or rename the method", f.Name)
		}
		c.signature(f)
	}
	for i, f := range d.Ctors {
		for _, g := range d.Ctors[:i] {
			if sameNames(f.Params, g.Params) {
				c.errorf(f.P, "a constructor with these parameters is there already, in line %d", g.P.Line)
			}
		}
	}
	c.pop()
	c.declare(d)
}

// signature resolves a function's parameters and result.
func (c *checker) signature(f *ast.FunctionDecl) {
	c.push()
	c.typeParams(f.TypeParams)
	f.Return = c.typ(f.ReturnType)
	c.returnType(f)
	c.params(f.Params, f.Name)
	c.pop()
}

// returnType refuses a result that only constants have.
func (c *checker) returnType(f *ast.FunctionDecl) {
	if f.Return == types.Integer {
		c.errorf(f.ReturnType.Pos(), "%s gives an int: only constants have this type; give it a width, as bit<32>", f.Name)
		f.Return = types.Invalid
	}
}

func (c *checker) functionDecl(d *ast.FunctionDecl) {
	if d.Body == nil {
		c.signature(d)
		c.declare(d)
		return
	}
	if len(d.TypeParams) > 0 {
		c.pristine[d] = clone[ast.Decl](d)
	}
	c.functionBody(d)
	c.declare(d)
}

func (c *checker) functionBody(d *ast.FunctionDecl) {
	saved := c.ctx
	c.push()
	c.typeParams(d.TypeParams)
	d.Return = c.typ(d.ReturnType)
	c.returnType(d)
	c.params(d.Params, d.Name)
	c.noOptional(d.Params)
	c.ctx = context{kind: ctxFunction, ret: d.Return, this: saved.this}
	c.block(d.Body)
	if d.Return != types.Void && d.Return != types.Invalid && !returns(d.Body) {
		c.errorf(d.P, "the function %s ends without return on some way through it", d.Name)
	}
	c.pop()
	c.ctx = saved
}

// specialise copies a generic function for concrete type arguments.
func (c *checker) specialise(p ast.Pos, d *ast.FunctionDecl, args []types.Type) *ast.FunctionDecl {
	src, ok := c.pristine[d].(*ast.FunctionDecl)
	if !ok {
		return d
	}
	k := c.key2(d) + "<" + c.keys(args) + ">"
	if f := c.special[k]; f != nil {
		return f
	}
	if len(c.special) >= maxSpecial {
		c.errorf(p, "not supported: more than %d copies of generic functions", maxSpecial)
		return d
	}
	f := clone(src)
	c.special[k] = f
	for i, tp := range f.TypeParams {
		tp.T = args[i]
	}
	saved, savedCtx, savedElab, savedCur := c.scope, c.ctx, c.elaborate, c.cur
	c.scope, c.ctx = c.global, context{kind: ctxTop}
	c.functionBody(f)
	c.scope, c.ctx, c.elaborate, c.cur = saved, savedCtx, savedElab, savedCur
	return f
}

func (c *checker) key2(d *ast.FunctionDecl) string { return d.Name + "@" + d.P.String() }

func (c *checker) actionDecl(d *ast.ActionDecl, prefix string) {
	saved := c.ctx
	c.push()
	c.params(d.Params, d.Name)
	c.noOptional(d.Params)
	none := false
	for _, p := range d.Params {
		if p.Dir == types.None {
			none = true
		} else if none {
			c.errorf(p.P, "the parameter %s has a direction and is behind one without: action data comes last", p.Name)
		}
		if p.Dir == types.None && p.T != types.Invalid && (!c.holds(p.T) || p.T == types.Integer || p.T == types.String) {
			c.errorf(p.P, "action data of type %s", p.T)
		}
		if _, ok := p.T.(*types.Extern); ok {
			c.errorf(p.P, "an action has no parameter of the extern type %s", p.T)
		}
	}
	c.ctx = context{kind: ctxAction, ret: types.Void}
	c.block(d.Body)
	c.pop()
	c.ctx = saved
	d.ControlName = joinName(prefix, d.LocalName())
	c.declare(d)
}

// joinName puts a name behind the name of its surroundings. A leading dot
// makes a name stand alone.
func joinName(prefix, name string) string {
	if len(name) > 0 && name[0] == '.' {
		return name[1:]
	}
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

func (c *checker) valueSet(d *ast.ValueSetDecl) {
	d.Elem = c.typ(d.ElemExpr)
	d.Size = c.value(d.Size, nil)
	if d.Size.Type() != types.Invalid && (!types.IsInteger(d.Size.Type()) || !known(d.Size)) {
		c.errorf(d.Size.Pos(), "a value set's size is a number that is known when the program is compiled")
	}
	prefix := ""
	if c.cur != nil {
		prefix = c.cur.ControlName
	}
	d.ControlName = joinName(prefix, d.LocalName())
	c.declare(d)
}

// applyDecl checks a parser or control for itself; its instances are checked
// with the constructor's arguments put in, each a copy.
func (c *checker) applyDecl(d ast.Decl) {
	a := ast.Applied(d)
	if !a.IsType {
		c.pristine[d] = clone(d)
		if len(a.TypeParams) > 0 {
			c.errorf(a.P, "not supported: the %s %s has a body and type parameters", c.callable(d).Kind, a.Name)
			return
		}
	}
	c.elaborate, c.cur = false, nil
	c.applyBody(d)
	c.declare(d)
}

// applyBody checks parameters and body of a parser or control.
func (c *checker) applyBody(d ast.Decl) {
	a := ast.Applied(d)
	c.push()
	defer c.pop()
	c.typeParams(a.TypeParams)
	c.params(a.Params, a.Name)
	c.params(a.Ctor, a.Name)
	if a.IsType {
		return
	}
	c.noOptional(a.Params)
	c.noOptional(a.Ctor)
	c.push()
	defer c.pop()
	switch d := d.(type) {
	case *ast.ParserDecl:
		c.ctx = context{kind: ctxParserLocal, states: map[string]*ast.StateDecl{}}
		c.localDecls(a.Locals)
		c.states(d)
	case *ast.ControlDecl:
		c.ctx = context{kind: ctxControlLocal}
		c.localDecls(a.Locals)
		c.ctx = context{kind: ctxApply, ret: types.Void}
		c.block(d.Apply)
	}
}

// states checks the states of a parser, which may name each other in any order.
func (c *checker) states(d *ast.ParserDecl) {
	for i, s := range d.States {
		s.Index = i
		if s.Name == "accept" || s.Name == "reject" {
			c.errorf(s.P, "the state %s exists in every parser: give yours another name", s.Name)
		}
		if old := c.scope.names[s.Name]; len(old) > 0 {
			c.errorf(s.P, "%s is declared already, at %s: rename one", s.Name, old[0].Pos())
		}
		if old := c.ctx.states[s.Name]; old != nil {
			c.errorf(s.P, "the state %s is there already, in line %d", s.Name, old.P.Line)
			continue
		}
		c.ctx.states[s.Name] = s
	}
	if c.ctx.states["start"] == nil {
		c.errorf(d.P, "the parser %s has no state called start", d.Name)
	}
	defer c.ends(d)
	c.ctx.kind = ctxState
	for _, s := range d.States {
		c.push()
		for _, x := range s.Stmts {
			c.stmt(x)
		}
		if s.Transition != nil {
			c.transition(s.Transition)
		}
		c.pop()
	}
}

// ends refuses a parser that can only go on for ever.
func (c *checker) ends(d *ast.ParserDecl) {
	seen := map[*ast.StateDecl]bool{}
	work := []*ast.StateDecl{c.ctx.states["start"]}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		if s == nil || s.Transition == nil {
			return // an error that was reported, accept, or reject
		}
		if seen[s] {
			continue
		}
		seen[s] = true
		if n := s.Transition.Next; n != nil {
			work = append(work, n.State)
			continue
		}
		whole := false
		for _, k := range s.Transition.Select.Cases {
			work = append(work, k.Next.State)
			whole = whole || !slices.ContainsFunc(k.Keys.Elems, func(e ast.Expr) bool { _, ok := e.(*ast.DontCare); return !ok })
		}
		if !whole {
			return
		}
	}
	c.errorf(d.P, "the parser %s never comes to accept or reject", d.Name)
}

func (c *checker) stateRef(r *ast.StateRef) {
	if r.Name == "accept" || r.Name == "reject" {
		return
	}
	r.State = c.ctx.states[r.Name]
	if r.State == nil {
		c.errorf(r.P, "the parser has no state %s%s", r.Name, suggest(r.Name, slices.Sorted(maps.Keys(c.ctx.states))))
	}
}

func (c *checker) transition(t *ast.Transition) {
	if t.Next != nil {
		c.stateRef(t.Next)
		return
	}
	s := t.Select
	bad := false
	for i, e := range s.Exprs {
		s.Exprs[i] = c.value(e, nil)
		ty := s.Exprs[i].Type()
		s.Types = append(s.Types, ty)
		bad = bad || ty == types.Invalid
		if ty == types.Integer {
			c.errorf(s.Exprs[i].Pos(), "select wants a value of known width: cast it")
			bad = true
		}
		if !bad && !selectable(ty) {
			c.errorf(s.Exprs[i].Pos(), "select of a %s: it wants numbers, bools, enums and errors", ty)
			bad = true
		}
	}
	for _, k := range s.Cases {
		if !bad {
			c.keySet(k.Keys, s.Types)
		}
		c.stateRef(k.Next)
	}
}

func selectable(t types.Type) bool {
	switch t := types.Underlying(t).(type) {
	case *types.Bit, *types.Int, *types.Enum, *types.Error, *types.Var:
		return true
	case *types.Basic:
		return t == types.Bool
	case *types.Tuple:
		for _, e := range t.Elems {
			if !selectable(e) {
				return false
			}
		}
		return true
	}
	return false
}

// keySet checks a label against the types of the keys.
func (c *checker) keySet(k *ast.KeySet, ts []types.Type) {
	k.T = types.DontCare
	if len(k.Elems) == 1 && len(ts) != 1 {
		switch e := k.Elems[0].(type) {
		case *ast.DontCare:
			elems := make([]ast.Expr, len(ts))
			for i, t := range ts {
				d := &ast.DontCare{Default: e.Default}
				d.P, d.T = e.P, t
				elems[i] = d
			}
			k.Elems = elems
			return
		case *ast.Ident:
			x := c.expr(e, nil)
			k.Elems[0] = x
			if st, ok := x.Type().(*types.Set); ok {
				c.setOf(e, st.Elem, ts)
				return
			}
		case *ast.List:
			// { a, b } for (a, b)
			k.Elems = e.Elems
		}
	}
	if len(k.Elems) == 1 && len(ts) == 1 {
		if l, ok := k.Elems[0].(*ast.List); ok && len(l.Elems) == 1 && !isTuple(ts[0]) {
			k.Elems = l.Elems
		}
	}
	if len(k.Elems) != len(ts) {
		c.errorf(k.P, "%d labels for %d keys", len(k.Elems), len(ts))
		return
	}
	for i, e := range k.Elems {
		k.Elems[i] = c.keyElem(e, ts[i])
	}
}

// setOf checks a value set's element type against several keys.
func (c *checker) setOf(e *ast.Ident, elem types.Type, ts []types.Type) {
	parts := types.Flat(elem)
	if len(parts) != len(ts) {
		c.errorf(e.P, "the value set %s holds %s, and there are %d keys", e.Name, elem, len(ts))
		return
	}
	for i := range parts {
		if !same(parts[i], ts[i]) {
			c.errorf(e.P, "the value set %s holds %s for key %d, which is of type %s", e.Name, parts[i], i+1, ts[i])
		}
	}
}

// keyElem checks one set against the type of its key.
func (c *checker) keyElem(e ast.Expr, t types.Type) ast.Expr {
	if d, ok := e.(*ast.DontCare); ok {
		d.T = t
		return e
	}
	e = c.expr(e, t)
	et := e.Type()
	if et == types.Invalid {
		return e
	}
	if st, ok := et.(*types.Set); ok {
		if !c.fits(e, st, t) {
			c.errorf(e.Pos(), "the label is a set of %s, the key is of type %s", st.Elem, t)
		}
		return e
	}
	return c.convert(e, t, "the label")
}

// fits reports whether a set holds values of a key's type; its ends or its mask are converted to that, if they can be.
func (c *checker) fits(e ast.Expr, st *types.Set, t types.Type) bool {
	if same(st.Elem, t) {
		return true
	}
	switch x := e.(type) {
	case *ast.Ident: // a value set
		if parts := types.Flat(st.Elem); len(parts) == 1 && same(parts[0], t) {
			return true
		}
	case *ast.Mask:
		if a, b := c.implicit(x.X, t), c.implicit(x.Y, t); a != nil && b != nil {
			x.X, x.Y, x.T = a, b, &types.Set{Elem: t}
			return true
		}
	case *ast.Range:
		if a, b := c.implicit(x.Lo, t), c.implicit(x.Hi, t); a != nil && b != nil {
			x.Lo, x.Hi, x.T = a, b, &types.Set{Elem: t}
			return true
		}
	}
	en, ok := t.(*types.Enum)
	return ok && en.Underlying != nil && same(st.Elem, en.Underlying)
}
