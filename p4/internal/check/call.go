package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// call checks a call and finds out what it calls.
func (c *checker) call(e *ast.Call, want types.Type) ast.Expr {
	switch f := e.Fun.(type) {
	case *ast.Ident:
		return c.callName(e, f, want)
	case *ast.Member:
		return c.callMember(e, f, want)
	case *ast.TypeRef:
		t := c.asType(f)
		if t == types.Invalid {
			return e
		}
	}
	c.errorf(e.P, "this cannot be called")
	c.checkArgs(e.Args)
	return e
}

// checkArgs looks for errors in the arguments of a call that is wrong anyway.
func (c *checker) checkArgs(as []*ast.Arg) {
	for _, a := range as {
		a.Value = c.expr(a.Value, nil)
	}
}

func (c *checker) callName(e *ast.Call, f *ast.Ident, want types.Type) ast.Expr {
	ds := c.find(f.Name, f.Absolute)
	if len(ds) == 0 {
		c.unknown(f.P, "nothing", f.Name)
		c.checkArgs(e.Args)
		return e
	}
	switch d := ds[0].(type) {
	case *ast.FunctionDecl:
		var cands []*ast.FunctionDecl
		for _, x := range ds {
			if fd, ok := x.(*ast.FunctionDecl); ok {
				cands = append(cands, fd)
			}
		}
		fd := c.choose(e, f.Name, cands)
		if fd == nil {
			c.checkArgs(e.Args)
			return e
		}
		f.Decl, f.T = fd, c.callable(fd)
		return c.callFunction(e, fd, nil, want)
	case *ast.ActionDecl:
		a := d
		if len(e.TypeArgs) > 0 {
			c.errorf(e.P, "the action %s takes no type arguments", f.Name)
		}
		f.Decl, f.T = a, c.callable(a)
		if c.ctx.kind != ctxApply && c.ctx.kind != ctxAction {
			c.errorf(e.P, "the action %s is called outside of a control", f.Name)
		}
		e.Kind, e.Action, e.T = ast.CallAction, a, types.Void
		e.Bound = c.bindPlain(e.P, "action "+a.Name, a.Params, e.Args)
		return e
	case *ast.ExternDecl, *ast.ControlDecl, *ast.ParserDecl, *ast.PackageDecl, *ast.TypedefDecl:
		return c.construct(e, f, d, want)
	}
	c.errorf(f.P, "%s cannot be called", f.Name)
	c.checkArgs(e.Args)
	return e
}

// accepts reports whether arguments fit parameters by number and name.
func accepts(ps []*ast.Param, as []*ast.Arg) bool {
	have := make([]bool, len(ps))
	for i, a := range as {
		k := i
		if a.Name != "" {
			k = paramIndex(ps, a.Name)
		}
		if k < 0 || k >= len(ps) || have[k] {
			return false
		}
		have[k] = true
	}
	for i, p := range ps {
		if !have[i] && p.Default == nil && !p.Optional {
			return false
		}
	}
	return true
}

// choose picks the overload that the arguments fit. With one candidate it is
// that, and bind reports what does not fit.
func (c *checker) choose(e *ast.Call, name string, cands []*ast.FunctionDecl) *ast.FunctionDecl {
	if len(cands) == 1 {
		return cands[0]
	}
	var fit []*ast.FunctionDecl
	for _, f := range cands {
		if accepts(f.Params, e.Args) && (len(e.TypeArgs) == 0 || len(e.TypeArgs) == len(f.TypeParams)) {
			fit = append(fit, f)
		}
	}
	if len(fit) > 1 {
		c.errorf(e.P, "more than one %s takes these arguments: name them", name)
		return nil
	}
	if len(fit) == 0 {
		var counts []string
		for _, f := range cands {
			counts = append(counts, fmt.Sprint(len(f.Params)))
		}
		c.errorf(e.P, "no %s takes %d arguments with these names; others take %s", name, len(e.Args), strings.Join(counts, ", "))
		return nil
	}
	return fit[0]
}

// callFunction is a call of a function, an extern function or, with the
// substitution of the object's type, of a method.
func (c *checker) callFunction(e *ast.Call, fd *ast.FunctionDecl, object subst, want types.Type) ast.Expr {
	e.Func, e.Kind = fd, callKind(fd)
	b := &binding{what: fd.Name, params: fd.Params, typeParams: fd.TypeParams, object: object, ret: fd.Return,
		pos: e.P, args: e.Args, typeArgs: e.TypeArgs, want: want}
	ok := c.bind(b)
	e.Bound = b.bound
	if !ok {
		if !hasVar(wantOrVoid(fd.Return)) {
			e.T = fd.Return
		}
		return e
	}
	e.T = c.substitute(c.substitute(fd.Return, object), b.types)
	for _, tp := range fd.TypeParams {
		if v, ok := tp.T.(*types.Var); ok {
			e.Inferred = append(e.Inferred, b.types[v])
		}
	}
	if e.Kind == ast.CallFunc && len(fd.TypeParams) > 0 && !allVars.inAny(e.Inferred) {
		e.Func = c.specialise(e.P, fd, e.Inferred)
	}
	if e.Kind == ast.CallExternFunc || e.Kind == ast.CallMethod {
		c.externCall(e)
	}
	return e
}

func callKind(fd *ast.FunctionDecl) ast.CallKind {
	switch {
	case fd.Extern != nil && fd.Abstract:
		return ast.CallAbstract
	case fd.Extern != nil:
		return ast.CallMethod
	case fd.Body == nil:
		return ast.CallExternFunc
	}
	return ast.CallFunc
}

// externCall checks what functions and methods without a body want beside the types of their arguments.
func (c *checker) externCall(e *ast.Call) {
	fd := e.Func
	if e.Kind == ast.CallExternFunc && fd.Name == "verify" && c.ctx.kind != ctxState && c.ctx.kind != ctxFunction {
		c.errorf(e.P, "verify has a meaning in a parser only")
	}
	c.knownArgs(e)
	if fd.Extern != nil && fd.Extern.Name == "packet_in" {
		c.packetIn(e)
	}
	if fd.Extern != nil && fd.Extern.Name == "packet_out" && len(e.Bound) > 0 {
		c.emitted(e.Bound[0])
	}
	if e.Kind == ast.CallExternFunc && fd.Name == "static_assert" && len(e.Bound) > 0 && e.Bound[0].Expr != nil {
		c.staticAssert(e)
	}
}

// packetIn checks what is read from a packet.
func (c *checker) packetIn(e *ast.Call) {
	switch {
	case e.Func.Name == "lookahead":
		if varbits(e.T) > 0 {
			c.errorf(e.P, "lookahead of %s, whose length varies", e.T)
		}
		if e.T == types.Void {
			c.errorf(e.P, "lookahead of void: there is nothing to read")
		}
	case e.Func.Name == "extract" && len(e.Bound) > 0 && e.Bound[0].Expr != nil:
		x := e.Bound[0]
		c.extracted(x)
		if n := varbits(x.Type); len(e.Bound) == 1 && n > 0 {
			c.errorf(x.Expr.Pos(), "extract of %s, whose length varies: give the number of its varbit's bits", x.Type)
		} else if len(e.Bound) == 2 && n != 1 && !hasVar(x.Type) {
			c.errorf(x.Expr.Pos(), "extract of %s with a length: it has %d varbits, not one", x.Type, n)
		}
	}
}

// extracted refuses what is no header (13.8.1).
func (c *checker) extracted(x *ast.BoundArg) {
	switch t := types.Underlying(x.Type).(type) {
	case *types.Stack:
		c.errorf(x.Expr.Pos(), "extract takes one header, not a stack: write .next")
	case *types.Struct:
		if t.Kind != types.Header {
			c.errorf(x.Expr.Pos(), "extract takes a header, not a %s", x.Type)
		}
	default:
		if x.Type != types.Invalid && x.Type != types.DontCare && !hasVar(x.Type) {
			c.errorf(x.Expr.Pos(), "extract takes a header, not a %s", x.Type)
		}
	}
}

// emitted refuses what has no headers alone (16.1).
func (c *checker) emitted(x *ast.BoundArg) {
	if x.Expr == nil || x.Type == types.Invalid || hasVar(x.Type) || emittable(x.Type) {
		return
	}
	c.errorf(x.Expr.Pos(), "emit of %s: what is emitted is a header, a stack or a union, or a struct or a list of such alone", x.Type)
}

func emittable(t types.Type) bool {
	switch t := types.Underlying(t).(type) {
	case *types.Stack:
		return true
	case *types.Struct:
		return t.Kind != types.PlainStruct || !slices.ContainsFunc(t.Fields, func(f types.Field) bool { return !emittable(f.Type) })
	case *types.Tuple:
		return !slices.ContainsFunc(t.Elems, func(e types.Type) bool { return !emittable(e) })
	}
	return false
}

// knownArgs demands that what externs take without a direction is known.
func (c *checker) knownArgs(e *ast.Call) {
	for _, b := range e.Bound {
		if b.Dir != types.None || b.Expr == nil {
			continue
		}
		switch b.Type.(type) {
		case *types.Extern, *types.Callable:
			continue
		}
		if _, ok := b.Expr.(*ast.DontCare); ok || known(b.Expr) || hasVar(b.Type) {
			continue
		}
		if controlPlane(b.Expr) {
			continue
		}
		c.errorf(b.Expr.Pos(), "the argument for %s of %s must be known when the program is compiled", b.Param.Name, e.Func.Name)
	}
}

// controlPlane reports whether an expression is an action's data, perhaps cast.
func controlPlane(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		p, ok := e.Decl.(*ast.Param)
		return ok && p.Dir == types.None
	case *ast.Cast:
		return controlPlane(e.X)
	}
	return false
}

func (c *checker) staticAssert(e *ast.Call) {
	v := e.Bound[0].Expr.Const()
	if !isKind(v, ast.BoolValue) {
		c.errorf(e.P, "static_assert wants a condition that is known when the program is compiled")
		return
	}
	if !v.Bool {
		msg := "static_assert failed"
		if len(e.Bound) > 1 && e.Bound[1].Expr != nil && isKind(e.Bound[1].Expr.Const(), ast.StringValue) {
			msg += ": " + e.Bound[1].Expr.Const().String
		}
		c.errorf(e.P, "%s", msg)
		return
	}
	e.Kind = ast.CallStaticAssert
	e.V = boolVal(true)
}

func (c *checker) callMember(e *ast.Call, f *ast.Member, want types.Type) ast.Expr {
	if t := c.asType(f.X); t != nil {
		return c.callOfType(e, f, t)
	}
	f.X = c.expr(f.X, nil)
	xt := f.X.Type()
	if xt == types.Invalid {
		c.checkArgs(e.Args)
		return e
	}
	f.Sel = ast.SelMethod
	e.Recv = f.X
	u := types.Underlying(xt)
	if _, ok := u.(*types.Extern); !ok && isSizeMethod(f.Name) {
		return c.sizeCall(e, f, xt)
	}
	switch t := u.(type) {
	case *types.Extern:
		return c.callMethod(e, f, t, want)
	case *types.Callable:
		if f.Name == "apply" {
			if apply := c.applier(t); apply != nil {
				return apply(e, f, t)
			}
		}
	case *types.Struct:
		if t.Kind != types.PlainStruct && isHeaderMethod(f.Name) {
			return c.callOfHeader(e, f, t)
		}
		if _, i := t.Field(f.Name); i >= 0 {
			c.errorf(f.NameP, "the field %s cannot be called", f.Name)
			return e
		}
	case *types.Stack:
		switch f.Name {
		case "push_front", "pop_front":
			return c.pushPop(e, f)
		}
	}
	c.errorf(f.NameP, "a %s has no method %s", describe(xt), f.Name)
	c.checkArgs(e.Args)
	return e
}

// applier checks apply() of what has such a type; nil if that has none.
func (c *checker) applier(t *types.Callable) func(*ast.Call, *ast.Member, *types.Callable) ast.Expr {
	switch t.Kind {
	case types.Table:
		return c.applyTable
	case types.Control, types.Parser:
		return c.applyInstance
	}
	return nil
}

// callOfType is T.f(...), where T is the name of a type.
func (c *checker) callOfType(e *ast.Call, f *ast.Member, t types.Type) ast.Expr {
	f.Sel = ast.SelMethod
	ct, isCallable := t.(*types.Callable)
	switch {
	case t == types.Invalid:
	case t == types.DontCare:
		c.errorf(f.X.Pos(), "the generic type needs its arguments: write T<...>.%s", f.Name)
	case isSizeMethod(f.Name):
		return c.sizeCall(e, f, t)
	case isCallable && f.Name == "apply" && (ct.Kind == types.Control || ct.Kind == types.Parser):
		return c.applyType(e, f, ct)
	default:
		c.errorf(f.NameP, "the type %s has no method %s", t, f.Name)
	}
	c.checkArgs(e.Args)
	return e
}

// callOfHeader is isValid, setValid or setInvalid.
func (c *checker) callOfHeader(e *ast.Call, f *ast.Member, t *types.Struct) ast.Expr {
	if f.Name == "isValid" {
		c.noArgs(e, f.Name)
		e.Kind, e.T = ast.CallIsValid, types.Bool
		return e
	}
	if t.Kind == types.Union {
		c.errorf(f.NameP, "a header union has no %s: call it on one of its headers", f.Name)
		return e
	}
	c.noArgs(e, f.Name)
	c.lvalue(f.X)
	e.Kind, e.T = ast.CallSetValid, types.Void
	if f.Name == "setInvalid" {
		e.Kind = ast.CallSetInvalid
	}
	return e
}

// describe names a type with what it is.
func describe(t types.Type) string {
	if s, ok := t.(*types.Struct); ok {
		return [...]string{"struct ", "header ", "header union "}[s.Kind] + s.Name
	}
	return t.String()
}

func (c *checker) noArgs(e *ast.Call, name string) {
	if len(e.Args) > 0 {
		c.errorf(e.Args[0].P, "%s takes no arguments", name)
		c.checkArgs(e.Args)
	}
	if len(e.TypeArgs) > 0 {
		c.errorf(e.P, "%s takes no type arguments", name)
	}
}

func (c *checker) pushPop(e *ast.Call, f *ast.Member) ast.Expr {
	c.lvalue(f.X)
	e.Kind, e.T = ast.CallPushFront, types.Void
	if f.Name == "pop_front" {
		e.Kind = ast.CallPopFront
	}
	if len(e.Args) != 1 || e.Args[0].Name != "" && e.Args[0].Name != "count" {
		c.errorf(e.P, "%s takes one argument, the number of elements", f.Name)
		c.checkArgs(e.Args)
		return e
	}
	x := c.value(e.Args[0].Value, nil)
	if x.Type() == types.Invalid {
		return e
	}
	if !types.IsInteger(x.Type()) || !known(x) {
		c.errorf(x.Pos(), "%s takes a number that is known when the program is compiled", f.Name)
		return e
	}
	if v := x.Const(); isInt(v) && v.Int.Sign() < 0 {
		c.errorf(x.Pos(), "%s of a negative number", f.Name)
	}
	p := &ast.Param{T: types.Integer}
	p.Name = "count"
	e.Bound = []*ast.BoundArg{{Param: p, Type: x.Type(), Expr: x}}
	return e
}

func isHeaderMethod(n string) bool { return n == "isValid" || n == "setValid" || n == "setInvalid" }

func isSizeMethod(n string) bool {
	switch n {
	case "minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes":
		return true
	}
	return false
}

// sizeCall folds minSizeInBits and the like (specification, 9.1).
func (c *checker) sizeCall(e *ast.Call, f *ast.Member, t types.Type) ast.Expr {
	c.noArgs(e, f.Name)
	lo, hi, ok := sizes(t)
	if !ok {
		c.errorf(f.NameP, "the type %s has no size in bits", t)
		return e
	}
	n := hi
	if strings.HasPrefix(f.Name, "min") {
		n = lo
	}
	if strings.HasSuffix(f.Name, "Bytes") {
		n = (n + 7) / 8
	}
	e.Kind, e.T, e.V = ast.CallMinSize, types.Integer, smallVal(n)
	return e
}

// sizes are the least and the greatest number of bits of a value.
func sizes(t types.Type) (lo, hi int, ok bool) {
	hi, ok = types.Width(t)
	if !ok {
		return 0, 0, false
	}
	return leastWidth(t), hi, true
}

func leastWidth(t types.Type) int {
	switch t := types.Underlying(t).(type) {
	case *types.Varbit:
		return 0
	case *types.Struct:
		n := 0
		for _, f := range t.Fields {
			w := leastWidth(f.Type)
			if t.Kind == types.Union {
				n = max(n, w)
			} else {
				n += w
			}
		}
		return n
	case *types.Stack:
		return t.Size * leastWidth(t.Elem)
	case *types.Tuple:
		n := 0
		for _, x := range t.Elems {
			n += leastWidth(x)
		}
		return n
	default:
		w, _ := types.Width(t)
		return w
	}
}

func (c *checker) callMethod(e *ast.Call, f *ast.Member, t *types.Extern, want types.Type) ast.Expr {
	d := c.externs[t.Name]
	if d == nil {
		return e
	}
	var cands []*ast.FunctionDecl
	var names []string
	for _, m := range d.Methods {
		names = append(names, m.Name)
		if m.Name == f.Name {
			cands = append(cands, m)
		}
	}
	if len(cands) == 0 {
		c.errorf(f.NameP, "the extern %s has no method %s%s", t, f.Name, suggest(f.Name, names))
		c.checkArgs(e.Args)
		return e
	}
	fd := c.choose(e, t.Name+"."+f.Name, cands)
	if fd == nil {
		c.checkArgs(e.Args)
		return e
	}
	f.T = c.callable(fd)
	return c.callFunction(e, fd, objectTypes(d, t), want)
}

func (c *checker) applyTable(e *ast.Call, f *ast.Member, _ *types.Callable) ast.Expr {
	id, ok := f.X.(*ast.Ident)
	if !ok {
		return e
	}
	t, ok := id.Decl.(*ast.TableDecl)
	if !ok {
		return e
	}
	c.noArgs(e, "apply of a table")
	if c.ctx.kind != ctxApply && c.ctx.kind != ctxTable {
		c.errorf(e.P, "the table %s is applied outside of a control's apply", t.Name)
	}
	e.Kind, e.Table, e.T = ast.CallTable, t, &types.ApplyResult{Table: t.Name}
	return e
}

// applyInstance is x.apply(...) of a named instance or a constructor's
// parameter.
func (c *checker) applyInstance(e *ast.Call, f *ast.Member, t *types.Callable) ast.Expr {
	c.applyCall(e, t, c.applyParams(t))
	id, ok := f.X.(*ast.Ident)
	if !ok {
		return e
	}
	switch d := id.Decl.(type) {
	case *ast.Instantiation:
		e.Instance = d.Instance
	case *ast.Param:
		if d.Bound != nil {
			e.Instance = d.Bound.Instance
		}
	default:
		c.errorf(f.X.Pos(), "%s is no instance of a %s", id.Name, t.Kind)
	}
	return e
}

// applyType is C.apply(...), which makes an instance of its own.
func (c *checker) applyType(e *ast.Call, f *ast.Member, t *types.Callable) ast.Expr {
	c.applyCall(e, t, c.applyParams(t))
	d := ast.Applied(c.declOf(t))
	if d == nil {
		return e
	}
	if d.IsType {
		c.errorf(f.X.Pos(), "%s is a type of %ss without a body: apply one that has one", t.Name, t.Kind)
		return e
	}
	for _, p := range d.Ctor {
		if p.Default == nil && !p.Optional {
			c.errorf(f.X.Pos(), "%s has the constructor's parameter %s: make an instance with a name, and apply that", t.Name, p.Name)
			return e
		}
	}
	if c.elaborate {
		bound := make([]*ast.BoundArg, len(d.Ctor))
		for i, p := range d.Ctor {
			bound[i] = &ast.BoundArg{Param: p, Type: p.T, Expr: p.Default, Default: true, Omitted: p.Default == nil}
		}
		e.Instance = c.instantiate(e.P, nil, "", t, bound)
	}
	return e
}

// applyParams finds the parameters of a parser's or control's apply.
func (c *checker) applyParams(t *types.Callable) []*ast.Param {
	d := ast.Applied(c.declOf(t))
	if d == nil || len(d.Params) != len(t.Params) {
		return nil
	}
	ps := make([]*ast.Param, len(d.Params))
	for i, p := range d.Params {
		ps[i] = p
		if !types.Equal(p.T, t.Params[i].Type) {
			q := *p
			q.T = t.Params[i].Type
			ps[i] = &q
		}
	}
	return ps
}

// declOf is the declaration of a parser, control or package type.
func (c *checker) declOf(t *types.Callable) ast.Decl {
	if ds := c.global.names[t.Name]; len(ds) > 0 {
		return ds[0]
	}
	return nil
}

func (c *checker) applyCall(e *ast.Call, t *types.Callable, ps []*ast.Param) {
	e.T = types.Void
	if t.Kind == types.Parser {
		e.Kind = ast.CallParser
		if c.ctx.kind != ctxState {
			c.errorf(e.P, "a parser is applied outside of a parser's state")
		}
	} else {
		e.Kind = ast.CallControl
		if c.ctx.kind != ctxApply {
			c.errorf(e.P, "a control is applied outside of a control's apply")
		}
	}
	if len(e.TypeArgs) > 0 {
		c.errorf(e.P, "apply takes no type arguments")
	}
	e.Bound = c.bindPlain(e.P, t.Name+".apply", ps, e.Args)
}

// construct is T(args) in an expression.
func (c *checker) construct(e *ast.Call, f *ast.Ident, d ast.Decl, want types.Type) ast.Expr {
	f.Decl = d
	bound, t := c.constructorCall(&construction{
		pos: e.P, name: &ast.NamedType{At: f.At, Name: f.Name, Absolute: f.Absolute},
		typeArgs: e.TypeArgs, applied: len(e.TypeArgs) > 0, args: e.Args, want: want,
	})
	if t == nil {
		return e
	}
	f.T = t
	e.Kind, e.Bound, e.T = ast.CallNew, bound, t
	switch c.ctx.kind {
	case ctxTop, ctxControlLocal, ctxParserLocal, ctxTable:
	default:
		if _, ok := t.(*types.Extern); ok {
			break // an object without name, for one call of a method
		}
		c.errorf(e.P, "an object is made by a declaration, not by a statement: declare %s(...) with a name in front", f.Name)
		return e
	}
	if et, ok := t.(*types.Extern); ok {
		for _, m := range c.externs[et.Name].Methods {
			if m.Abstract && m.Annotations.Find("optional") == nil {
				c.errorf(e.P, "%s has the abstract method %s: declare an object with a name and a body for it", et, m.Name)
			}
		}
	}
	if c.elaborate {
		e.Instance = c.instantiate(e.P, nil, "", t, bound)
	}
	return e
}
