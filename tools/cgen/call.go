package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

func (e *emitter) call(x *ast.CallExpr) text {
	info := e.g.p.info
	fun := ast.Unparen(x.Fun)
	if tv := info.Types[fun]; tv.IsType() {
		return e.conversion(x, tv.Type)
	}
	if x.Ellipsis.IsValid() {
		return e.no(x, "arguments from a slice")
	}
	if e.g.ends(x) {
		return primary("__builtin_trap()")
	}
	if id, ok := fun.(*ast.Ident); ok {
		if b, ok := info.Uses[id].(*types.Builtin); ok {
			return e.builtin(x, b.Name())
		}
	}
	callee := e.g.callee(x)
	if callee == nil {
		return e.no(x, "a call of a function value")
	}
	if e.g.fails(x) {
		return primary("SLUICE_INVALID") // its words are Go's alone
	}
	e.ordered(x, x.Args...)
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		args[i] = e.expr(a)
	}
	if callee.FullName() == "cmp.Or" && len(x.Args) == 2 {
		if e.impure(x.Args[0]) || !isInteger(info.TypeOf(x)) && !isFloat(info.TypeOf(x)) {
			return e.no(x, "cmp.Or of anything but two numbers")
		}
		p := precTernary
		return text{fmt.Sprintf("%s != 0 ? %s : %s", e.sub(x.Args[0]).in(10), e.sub(x.Args[0]).in(p+1), e.sub(x.Args[1]).in(p)), p}
	}
	if f := intrinsics[callee.FullName()]; f != "" {
		return e.back(info.TypeOf(x), primary("%s(%s)", f, strings.Join(args, ", ")))
	}
	sig := callee.Signature()
	if sig.Variadic() {
		return e.no(x, "a call of %s, which takes any number of arguments", callee.FullName())
	}
	if recv := sig.Recv(); recv != nil {
		return e.methodCall(x, fun.(*ast.SelectorExpr), callee, args)
	}
	if callee.Pkg() == nil || e.g.outside(callee.Pkg()) {
		return e.no(x, "a call of %s, whose package is not among those of the specification", callee.FullName())
	}
	if callee.Signature().TypeParams().Len() > 0 {
		return e.no(x, "a call of %s, which is generic", callee.FullName())
	}
	return primary("%s(%s)", e.g.funcName(callee), strings.Join(args, ", "))
}

// ends reports whether a call is a panic, whose argument is not evaluated in C.
func (g *generator) ends(x *ast.CallExpr) bool {
	id, ok := ast.Unparen(x.Fun).(*ast.Ident)
	if !ok {
		return false
	}
	b, ok := g.p.info.Uses[id].(*types.Builtin)
	return ok && b.Name() == "panic"
}

// failures make errors, of which C has one, without words.
var failures = map[string]bool{
	"fmt.Errorf": true, "errors.New": true, "github.com/sluice-rdma/sluice/internal/field.Bad": true,
}

// fails reports whether a call makes an error. Its arguments are not evaluated in C.
func (g *generator) fails(x *ast.CallExpr) bool {
	f := g.callee(x)
	return f != nil && failures[f.FullName()]
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// methodCall writes a call of a method, static or by the tag of an interface's value.
func (e *emitter) methodCall(x *ast.CallExpr, fun *ast.SelectorExpr, callee *types.Func, args []string) text {
	s := e.g.p.info.Selections[fun]
	recv := callee.Signature().Recv()
	if types.IsInterface(recv.Type()) {
		if !e.g.mapped(s.Recv()) {
			return e.no(x, "a call by the interface %s", types.TypeString(s.Recv(), nil))
		}
		args = append([]string{e.expr(fun.X)}, args...)
		return primary("%s(%s)", e.g.dispatchName(callee.Name()), strings.Join(args, ", "))
	}
	if e.g.outside(callee.Pkg()) {
		return e.no(x, "a call of %s, whose package is not among those of the specification", callee.FullName())
	}
	path := s.Index()[:len(s.Index())-1]
	base, t := e.fieldPath(e.sub(fun.X), s.Recv(), path)
	self := base.s
	switch want, have := isPointer(recv.Type()), isPointer(t); {
	case want && !have:
		self = text{"&" + base.in(precUnary), precUnary}.s
		if inner, ok := strings.CutPrefix(base.s, "*"); ok && base.prec == precUnary {
			self = inner
		}
	case !want && have:
		self = "*" + base.in(precUnary)
	}
	return primary("%s(%s)", e.g.funcName(callee), strings.Join(append([]string{self}, args...), ", "))
}

// dispatchName is the C function for a method of the Spec's interface.
func (g *generator) dispatchName(method string) string {
	return "sluice_" + snake(g.iface.Name()) + "_" + snake(method)
}

func (e *emitter) conversion(x *ast.CallExpr, to types.Type) text {
	from := e.g.p.info.TypeOf(x.Args[0])
	arg := e.sub(x.Args[0])
	switch {
	case isFloat(to) && isFloat(from):
		return arg // rounded already: nothing is fused
	case isFloat(to) && isInteger(from):
		return text{"(double)" + arg.in(precUnary), precUnary}
	case isInteger(to) && isFloat(from):
		return e.no(x, "a conversion from floating point, which Go leaves open out of range: use detmath.Int64")
	case isInteger(to) && isInteger(from):
		a, b := basics[basicOf(from).Kind()], basics[basicOf(to).Kind()]
		if a == b {
			return arg
		}
		return text{"(" + b + ")" + arg.in(precUnary), precUnary}
	case types.Identical(to.Underlying(), from.Underlying()):
		if _, ok := to.Underlying().(*types.Struct); !ok {
			return arg
		}
	}
	return e.no(x, "a conversion from %s to %s", types.TypeString(from, nil), types.TypeString(to, nil))
}

func (e *emitter) builtin(x *ast.CallExpr, name string) text {
	t := e.g.p.info.TypeOf(x)
	e.ordered(x, x.Args...)
	switch name {
	case "len", "cap":
		a := e.g.p.info.TypeOf(x.Args[0])
		if p, ok := a.Underlying().(*types.Pointer); ok {
			a = p.Elem()
		}
		switch a := a.Underlying().(type) {
		case *types.Array:
			return primary("%d", a.Len())
		case *types.Slice:
			return primary("%s.%s", e.sub(x.Args[0]).in(precPostfix), name)
		}
	case "min", "max":
		f := "sluice_" + name
		switch {
		case isFloat(t):
			f = "sluice_f" + name
		case !isInteger(t):
			return e.no(x, "%s of %s", name, types.TypeString(t, nil))
		case isUnsigned(t):
			f += "u"
		}
		s := e.expr(x.Args[0])
		for _, a := range x.Args[1:] {
			s = fmt.Sprintf("%s(%s, %s)", f, s, e.expr(a))
		}
		return e.back(t, primary("%s", s))
	case "copy":
		c := e.g.ctype(e.label, x, e.g.p.info.TypeOf(x.Args[0]))
		return primary("%s(%s, %s)", e.g.types.copier(c), e.expr(x.Args[0]), e.expr(x.Args[1]))
	}
	return e.no(x, "%s", name)
}

// copier is the function that copies from one slice of a type to another.
func (w *typeWriter) copier(c string) string {
	base := strings.TrimPrefix(c, "struct ")
	if c == "" || w.state[base+" copier"] != 0 {
		return base + "_copy"
	}
	w.state[base+" copier"] = 2
	fmt.Fprintf(&w.copiers, `static inline int64_t %s_copy(%s to, %s from)
{
	int64_t n = sluice_min(to.len, from.len);
	if (n > 0)
		memmove(to.at, from.at, (size_t)n * sizeof *to.at);
	return n;
}

`, base, c, c)
	return base + "_copy"
}
