package check

import (
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// subst maps type variables to types.
type subst map[*types.Var]types.Type

// objectTypes are the type arguments of an object, for the methods of its type.
func objectTypes(d *ast.ExternDecl, t *types.Extern) subst {
	m := subst{}
	for i, tp := range typeParams(d) {
		if v, ok := tp.T.(*types.Var); ok && i < len(t.TypeArgs) {
			m[v] = t.TypeArgs[i]
		}
	}
	return m
}

// varSet is a set of type variables; nil is that of all.
type varSet map[*types.Var]bool

var allVars varSet

// freeVars are the type parameters that stand for no type yet.
func freeVars(ps []*ast.TypeParam) varSet {
	s := varSet{}
	for _, p := range ps {
		if v, ok := p.T.(*types.Var); ok {
			s[v] = true
		}
	}
	return s
}

func hasVar(t types.Type) bool { return allVars.in(t) }

// in reports whether a type contains a variable of the set.
func (s varSet) in(t types.Type) bool {
	switch t := t.(type) {
	case *types.Var:
		return s == nil || s[t]
	case *types.Struct:
		return s.inAny(t.TypeArgs)
	case *types.Stack:
		return s.in(t.Elem)
	case *types.Tuple:
		return s.inAny(t.Elems)
	case *types.List:
		return s.in(t.Elem)
	case *types.Set:
		return s.in(t.Elem)
	case *types.Extern:
		return s.inAny(t.TypeArgs)
	case *types.Callable:
		return s.inAny(t.TypeArgs)
	}
	return false
}

func (s varSet) inAny(ts []types.Type) bool { return slices.ContainsFunc(ts, s.in) }

// substitute puts types for variables, as far as m has them.
func (c *checker) substitute(t types.Type, m subst) types.Type {
	if len(m) == 0 || !hasVar(t) {
		return t
	}
	switch t := t.(type) {
	case *types.Var:
		if r := m[t]; r != nil {
			return r
		}
	case *types.Struct:
		return c.applyStruct(c.structs[t.Generic], c.substituteAll(t.TypeArgs, m))
	case *types.Stack:
		return c.intern(&types.Stack{Elem: c.substitute(t.Elem, m), Size: t.Size})
	case *types.Tuple:
		return c.intern(&types.Tuple{Elems: c.substituteAll(t.Elems, m)})
	case *types.List:
		return c.intern(&types.List{Elem: c.substitute(t.Elem, m)})
	case *types.Set:
		return &types.Set{Elem: c.substitute(t.Elem, m)}
	case *types.Extern:
		return c.intern(&types.Extern{Name: t.Name, TypeArgs: c.substituteAll(t.TypeArgs, m)})
	case *types.Callable:
		n := &types.Callable{Kind: t.Kind, Name: t.Name, TypeArgs: c.substituteAll(t.TypeArgs, m), Return: t.Return}
		for _, p := range t.Params {
			p.Type = c.substitute(p.Type, m)
			n.Params = append(n.Params, p)
		}
		return n
	}
	return t
}

func (c *checker) substituteAll(ts []types.Type, m subst) []types.Type {
	r := make([]types.Type, len(ts))
	for i, t := range ts {
		r[i] = c.substitute(t, m)
	}
	return r
}

// A unifier finds what free variables must be.
type unifier struct {
	free  varSet
	types subst
}

// unify finds what the free variables of want must be so that it equals got. A
// binding to int gives way to a later one of a fixed width. It says whether the
// shapes fit.
func (u unifier) unify(want, got types.Type) bool {
	if v, ok := want.(*types.Var); ok {
		return u.unifyVar(v, got)
	}
	if !hasVar(want) || got == types.Invalid || want == types.Invalid {
		return true
	}
	switch w := want.(type) {
	case *types.Struct:
		return u.unifyStruct(w, got)
	case *types.List:
		return u.unifyList(w, got)
	case *types.Callable:
		g, ok := got.(*types.Callable)
		return ok && u.unifyCallable(w, g)
	case *types.Extern:
		g, ok := got.(*types.Extern)
		return ok && g.Name == w.Name && u.unifyAll(w.TypeArgs, g.TypeArgs)
	case *types.Tuple:
		g, ok := got.(*types.Tuple)
		return ok && u.unifyAll(w.Elems, g.Elems)
	}
	return u.unifyElem(want, got)
}

// unifyVar takes a free variable, or one of the function that the call stands in, which equals itself only.
func (u unifier) unifyVar(v *types.Var, got types.Type) bool {
	if !u.free[v] {
		return got == v || got == types.Invalid
	}
	u.bind(v, got)
	return true
}

// unifyElem takes a stack or a set, each of one type of elements.
func (u unifier) unifyElem(want, got types.Type) bool {
	switch w := want.(type) {
	case *types.Stack:
		g, ok := got.(*types.Stack)
		return ok && g.Size == w.Size && u.unify(w.Elem, g.Elem)
	case *types.Set:
		g, ok := got.(*types.Set)
		return ok && u.unify(w.Elem, g.Elem)
	}
	return false
}

// bind notes a type for a variable. What differs from an earlier one is
// converted, or refused, later.
func (u unifier) bind(v *types.Var, got types.Type) {
	old := u.types[v]
	if old == nil || old == types.Integer || old == types.DontCare {
		u.types[v] = got
		return
	}
	t, isTuple := old.(*types.Tuple)
	s, isStruct := got.(*types.Struct)
	if isTuple && isStruct && len(s.Fields) == len(t.Elems) {
		u.types[v] = got
	}
}

func (u unifier) unifyAll(want, got []types.Type) bool {
	return slices.EqualFunc(want, got, u.unify)
}

// unifyStruct takes a struct of the same declaration, a list expression, or a
// struct expression.
func (u unifier) unifyStruct(w *types.Struct, got types.Type) bool {
	switch g := got.(type) {
	case *types.Tuple:
		return slices.EqualFunc(w.Fields, g.Elems, func(f types.Field, t types.Type) bool { return u.unify(f.Type, t) })
	case *types.Struct:
		if g.Generic != "" || !strings.HasPrefix(g.Name, "struct {") {
			return g.Generic == w.Generic && u.unifyAll(w.TypeArgs, g.TypeArgs)
		}
		for _, f := range g.Fields {
			wf, i := w.Field(f.Name)
			if i < 0 || !u.unify(wf.Type, f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

// unifyList takes a list, or a list expression.
func (u unifier) unifyList(w *types.List, got types.Type) bool {
	switch g := got.(type) {
	case *types.List:
		return u.unify(w.Elem, g.Elem)
	case *types.Tuple:
		return !slices.ContainsFunc(g.Elems, func(t types.Type) bool { return !u.unify(w.Elem, t) })
	}
	return false
}

// unifyCallable takes the same parser, control or package, or a parser or
// control with such parameters.
func (u unifier) unifyCallable(w, g *types.Callable) bool {
	if g.Kind != w.Kind {
		return false
	}
	if g.Name == w.Name && len(g.TypeArgs) == len(w.TypeArgs) {
		return u.unifyAll(w.TypeArgs, g.TypeArgs)
	}
	return w.Kind != types.Package && eachParam(w, g, u.unify)
}

// eachParam compares the parameters of two callables; those of want that are
// optional may be missing in got.
func eachParam(want, got *types.Callable, fits func(want, got types.Type) bool) bool {
	j := 0
	for _, p := range want.Params {
		switch {
		case j < len(got.Params) && p.Dir == got.Params[j].Dir && fits(p.Type, got.Params[j].Type):
			j++
		case !p.Optional:
			return false
		}
	}
	return j == len(got.Params)
}
