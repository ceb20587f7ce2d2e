package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// typ resolves a written type. It gives types.Invalid after an error.
func (c *checker) typ(t ast.TypeExpr) types.Type {
	r := c.resolve(t)
	if r != types.Invalid && c.leafCount(r) > maxLeaves {
		c.errorf(t.Pos(), "not supported: a type of more than %d basic values", maxLeaves)
		return types.Invalid
	}
	return r
}

func (c *checker) resolve(t ast.TypeExpr) types.Type {
	switch t := t.(type) {
	case *ast.BaseType:
		return c.baseType(t.Name)
	case *ast.SizedType:
		return c.sizedType(t)
	case *ast.NamedType:
		return c.named(t, nil, false)
	case *ast.AppliedType:
		return c.appliedType(t)
	case *ast.StackType:
		return c.stackType(t)
	case *ast.TupleType:
		return c.tupleType(t)
	case *ast.ListType:
		e := c.typ(t.Elem)
		if e == types.Invalid {
			return e
		}
		return c.intern(&types.List{Elem: e})
	}
	return types.Invalid
}

func (c *checker) baseType(name string) types.Type {
	switch name {
	case "bool":
		return types.Bool
	case "int":
		return types.Integer
	case "string":
		return types.String
	case "void":
		return types.Void
	case "error":
		return c.errType
	case "match_kind":
		return types.MatchKind
	}
	return types.DontCare
}

// appliedType is S<...>.
func (c *checker) appliedType(t *ast.AppliedType) types.Type {
	args := make([]types.Type, len(t.Args))
	for i, a := range t.Args {
		args[i] = c.typ(a)
		if args[i] == types.Invalid {
			return types.Invalid
		}
		if args[i] == types.Void {
			c.errorf(a.Pos(), "void is no type argument")
			return types.Invalid
		}
	}
	return c.named(t.Base, args, true)
}

func (c *checker) tupleType(t *ast.TupleType) types.Type {
	r := &types.Tuple{}
	for _, a := range t.Elems {
		e := c.typ(a)
		switch {
		case e == types.Invalid:
			return e
		case e == types.MatchKind:
			c.errorf(a.Pos(), "not supported: a tuple with an element of type match_kind")
			return types.Invalid
		case !c.holds(e):
			c.errorf(a.Pos(), "a tuple has no elements of type %s", e)
			return types.Invalid
		}
		r.Elems = append(r.Elems, e)
	}
	return c.intern(r)
}

// sizedType is bit<N>, int<N> or varbit<N>.
func (c *checker) sizedType(t *ast.SizedType) types.Type {
	w := 1
	if t.Width != nil {
		t.Width = c.expr(t.Width, nil)
		n, ok := c.constInt(t.Width, "a width")
		if !ok {
			return types.Invalid
		}
		if n < 0 || n > maxWidth || n == 0 && t.Name == "int" {
			c.errorf(t.Width.Pos(), "%s<%d>: a width is from %d to %d", t.Name, n, map[bool]int{true: 1}[t.Name == "int"], maxWidth)
			return types.Invalid
		}
		w = n
	}
	switch t.Name {
	case "bit":
		return c.intern(&types.Bit{Width: w})
	case "int":
		return c.intern(&types.Int{Width: w})
	}
	return c.intern(&types.Varbit{Width: w})
}

func (c *checker) stackType(t *ast.StackType) types.Type {
	e := c.typ(t.Elem)
	t.Size = c.expr(t.Size, nil)
	n, ok := c.constInt(t.Size, "a stack's size")
	if !ok || e == types.Invalid {
		return types.Invalid
	}
	if n < 1 || n > maxWidth {
		c.errorf(t.Size.Pos(), "a stack of %d elements: a size is from 1 to %d", n, maxWidth)
		return types.Invalid
	}
	switch e := e.(type) {
	case *types.Var:
	case *types.Struct:
		if e.Kind == types.PlainStruct {
			c.errorf(t.P, "not supported: an array of %s: there are stacks of headers and header unions", e)
			return types.Invalid
		}
	default:
		c.errorf(t.P, "not supported: an array of %s: there are stacks of headers and header unions", e)
		return types.Invalid
	}
	return c.intern(&types.Stack{Elem: e, Size: n})
}

// intern makes a structural type canonical.
func (c *checker) intern(t types.Type) types.Type {
	k := c.key(t)
	if o := c.interned[k]; o != nil {
		return o
	}
	c.interned[k] = t
	return t
}

// key is a text that is the same for equal types only.
func (c *checker) key(t types.Type) string {
	switch t := t.(type) {
	case *types.Var:
		return fmt.Sprintf("$%p", t)
	case *types.Tuple:
		return "tuple<" + c.keys(t.Elems) + ">"
	case *types.Stack:
		return fmt.Sprintf("%s[%d]", c.key(t.Elem), t.Size)
	case *types.List:
		return "list<" + c.key(t.Elem) + ">"
	case *types.Set:
		return "set<" + c.key(t.Elem) + ">"
	case *types.Extern:
		return "extern " + t.Name + "<" + c.keys(t.TypeArgs) + ">"
	case *types.Struct:
		if len(t.TypeArgs) > 0 {
			return "struct " + t.Generic + "<" + c.keys(t.TypeArgs) + ">"
		}
		return fmt.Sprintf("struct %s %p", t.Name, t)
	case *types.Callable:
		return fmt.Sprintf("callable %p", t)
	}
	return t.String()
}

func (c *checker) keys(ts []types.Type) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = c.key(t)
	}
	return strings.Join(s, ",")
}

// leafCount is the number of basic values a value of the type has.
func (c *checker) leafCount(t types.Type) int {
	if n, ok := c.leaves[t]; ok {
		return n
	}
	n := 1
	switch t := t.(type) {
	case *types.Struct:
		n = 1
		for _, f := range t.Fields {
			n = min(n+c.leafCount(f.Type), maxLeaves+1)
		}
	case *types.Tuple:
		for _, e := range t.Elems {
			n = min(n+c.leafCount(e), maxLeaves+1)
		}
	case *types.Stack:
		n = min(c.leafCount(t.Elem)*t.Size, maxLeaves+1)
	case *types.New:
		n = c.leafCount(t.Underlying)
	case *types.List:
		n = c.leafCount(t.Elem)
	case *types.Extern:
		for _, e := range t.TypeArgs {
			n = min(n+c.leafCount(e), maxLeaves+1)
		}
	default:
		return 1
	}
	c.leaves[t] = n
	return n
}

// named resolves a type's name; applied tells S<> from S.
func (c *checker) named(t *ast.NamedType, args []types.Type, applied bool) types.Type {
	ds := c.find(t.Name, t.Absolute)
	if len(ds) == 0 {
		c.unknown(t.P, "no type", t.Name)
		return types.Invalid
	}
	d := ds[0]
	n := typeParamCount(d)
	if applied && n != len(args) {
		c.errorf(t.P, "%s takes %d type arguments, not %d", t.Name, n, len(args))
		return types.Invalid
	}
	if n > 0 && !applied && !isFunction(d) {
		c.errorf(t.P, "%s needs its type arguments: write %s<...>", t.Name, t.Name)
		return types.Invalid
	}
	switch d := d.(type) {
	case *ast.TypeParam:
		return d.T
	case *ast.StructDecl:
		if n == 0 {
			return d.T
		}
		if slices.Contains(args, types.Type(types.DontCare)) {
			c.errorf(t.P, "_ is no type argument of %s: only objects leave one open", t.Name)
			return types.Invalid
		}
		return c.applyStruct(d, args)
	case *ast.EnumDecl:
		return d.T
	case *ast.TypedefDecl:
		return d.T
	case *ast.ExternDecl:
		return c.intern(&types.Extern{Name: d.Name, TypeArgs: args})
	case *ast.ParserDecl, *ast.ControlDecl, *ast.PackageDecl:
		return c.appliedCallable(d, args)
	}
	c.errorf(t.P, "%s is no type", t.Name)
	return types.Invalid
}

func isFunction(d ast.Decl) bool {
	_, ok := d.(*ast.FunctionDecl)
	return ok
}

// appliedCallable is the type of a parser, control or package with its type arguments.
func (c *checker) appliedCallable(d ast.Decl, args []types.Type) types.Type {
	ct := c.callable(d)
	if ct == nil {
		return types.Invalid
	}
	if len(args) == 0 {
		return ct
	}
	m := subst{}
	for i, p := range typeParams(d) {
		m[p.T.(*types.Var)] = args[i]
	}
	return c.substitute(ct, m)
}

func typeParams(d ast.Decl) []*ast.TypeParam {
	switch d := d.(type) {
	case *ast.StructDecl:
		return d.TypeParams
	case *ast.ExternDecl:
		return d.TypeParams
	case *ast.ParserDecl, *ast.ControlDecl:
		return ast.Applied(d).TypeParams
	case *ast.PackageDecl:
		return d.TypeParams
	case *ast.FunctionDecl:
		return d.TypeParams
	}
	return nil
}

func typeParamCount(d ast.Decl) int { return len(typeParams(d)) }

// callable is the type of a parser, control, package, function or action.
func (c *checker) callable(d ast.Decl) *types.Callable {
	if t := c.callables[d]; t != nil {
		return t
	}
	t := &types.Callable{Name: d.DeclName()}
	var params []*ast.Param
	switch d := d.(type) {
	case *ast.ParserDecl:
		t.Kind, params = types.Parser, d.Params
	case *ast.ControlDecl:
		t.Kind, params = types.Control, d.Params
	case *ast.PackageDecl:
		t.Kind, params = types.Package, d.Params
	case *ast.FunctionDecl:
		t.Kind, params, t.Return = types.Function, d.Params, d.Return
		if d.Extern != nil {
			t.Kind = types.Method
		}
	case *ast.ActionDecl:
		t.Kind, params, t.Return = types.Action, d.Params, types.Void
	case *ast.TableDecl:
		t.Kind = types.Table
	default:
		return nil
	}
	for _, p := range typeParams(d) {
		t.TypeArgs = append(t.TypeArgs, p.T)
	}
	for _, p := range params {
		pt := p.T
		if pt == nil {
			pt = types.Invalid
		}
		t.Params = append(t.Params, types.Param{Name: p.Name, Dir: p.Dir, Type: pt, Optional: p.Optional, HasDefault: p.Default != nil})
	}
	c.callables[d] = t
	return t
}

// applyStruct makes a generic struct's instance.
func (c *checker) applyStruct(d *ast.StructDecl, args []types.Type) types.Type {
	k := "struct " + d.Name + "<" + c.keys(args) + ">"
	if t := c.interned[k]; t != nil {
		return t
	}
	gen, ok := d.T.(*types.Struct)
	if !ok {
		return types.Invalid
	}
	m := subst{}
	for i, p := range d.TypeParams {
		m[p.T.(*types.Var)] = args[i]
	}
	t := &types.Struct{Kind: d.Kind, Name: types.Applied(d.Name, args), Generic: d.Name, TypeArgs: args, Annotations: gen.Annotations}
	c.interned[k] = t
	for i, f := range gen.Fields {
		ft := c.substitute(f.Type, m)
		t.Fields = append(t.Fields, types.Field{Name: f.Name, Type: ft, Annotations: f.Annotations})
		if !hasVar(ft) {
			c.fieldType(d, d.Fields[i].Pos(), ft)
		}
	}
	return t
}

// same is types.Equal, with "_" as any type.
func same(a, b types.Type) bool {
	if a == types.DontCare || b == types.DontCare || a == types.Invalid || b == types.Invalid {
		return true
	}
	ae, aok := a.(*types.Extern)
	be, bok := b.(*types.Extern)
	if aok && bok {
		if ae.Name != be.Name || len(ae.TypeArgs) != len(be.TypeArgs) {
			return false
		}
		for i := range ae.TypeArgs {
			if !same(ae.TypeArgs[i], be.TypeArgs[i]) {
				return false
			}
		}
		return true
	}
	return types.Equal(a, b)
}

// conforms reports whether a parser or control (got) may be given where the type
// want is expected: the parameters agree; optional ones may be missing.
func conforms(want, got *types.Callable) bool {
	if want.Kind != got.Kind {
		return false
	}
	if want.Kind == types.Package {
		return want.Name == got.Name && len(want.TypeArgs) == len(got.TypeArgs)
	}
	return eachParam(want, got, same)
}

// holds reports whether variables and fields may have this type.
func (c *checker) holds(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t == types.Bool || t == types.Integer || t == types.String || t == types.Invalid || t == types.DontCare
	case *types.Extern, *types.Callable, *types.ApplyResult, *types.ActionEnum, *types.Set:
		return false
	}
	return true
}
