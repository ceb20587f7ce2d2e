package check

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// exprTo checks an expression in a place that wants a type, and converts it.
func (c *checker) exprTo(e ast.Expr, want types.Type, what string) ast.Expr {
	e = c.expr(e, want)
	return c.convert(e, want, what)
}

// convert puts in the implicit conversion to want, or reports that there is
// none.
func (c *checker) convert(e ast.Expr, want types.Type, what string) ast.Expr {
	got := e.Type()
	if got == nil || got == types.Invalid || want == types.Invalid || want == nil {
		return e
	}
	if same(got, want) {
		return e
	}
	if r := c.implicit(e, want); r != nil {
		return r
	}
	if _, isNew := got.(*types.New); want == types.Integer && types.IsInteger(got) && !isNew && isInt(e.Const()) {
		return c.castNode(e, want) // a constant is as good without its width
	}
	hint := ""
	if explicitCast(got, want) {
		hint = ": write (" + want.String() + ")"
	}
	c.errorf(e.Pos(), "%s is of type %s, not %s%s", what, got, want, hint)
	return e
}

// implicit gives the converted expression, or nil.
func (c *checker) implicit(e ast.Expr, want types.Type) ast.Expr {
	if d, ok := e.(*ast.DontCare); ok && e.Type() == types.DontCare {
		ast.Base(d).T = want
		return e
	}
	switch w := want.(type) {
	case *types.Bit, *types.Int:
		return c.implicitNumber(e, want)
	case *types.New:
		return c.implicitNew(e, w)
	case *types.Basic:
		if w == types.Integer && e.Type() == types.Integer {
			return e
		}
	case *types.Callable:
		if g, ok := e.Type().(*types.Callable); ok && conforms(w, g) {
			return e
		}
	case *types.List:
		return c.implicitList(e, w)
	case *types.Struct, *types.Tuple, *types.Stack:
		return c.retargeted(e, want)
	}
	return nil
}

// implicitNumber converts an int, or an enum with this type, to a number of a known width.
func (c *checker) implicitNumber(e ast.Expr, want types.Type) ast.Expr {
	en, ok := e.Type().(*types.Enum)
	switch {
	case e.Type() == types.Integer, ok && en.Underlying != nil && types.Equal(en.Underlying, want):
		return c.castNode(e, want)
	}
	return nil
}

// implicitNew makes a literal a type of the program's own, which the specification does not.
func (c *checker) implicitNew(e ast.Expr, want *types.New) ast.Expr {
	if _, basic := types.Underlying(want).(*types.Basic); basic || e.Type() != types.Integer {
		return nil
	}
	c.warnf(e.Pos(), "a literal becomes a %s without a cast: write (%s)", want, want)
	return c.castNode(e, want)
}

// implicitList makes a list expression a list<T>.
func (c *checker) implicitList(e ast.Expr, want *types.List) ast.Expr {
	if l, ok := e.(*ast.List); ok {
		if t, ok := l.T.(*types.Tuple); ok && len(t.Elems) == len(l.Elems) {
			return c.listOf(l, want)
		}
	}
	return nil
}

// retargeted gives a constant's list or struct expression, which was checked without its context, the type of that; nil if it
// does not fit.
func (c *checker) retargeted(e ast.Expr, want types.Type) ast.Expr {
	switch l := e.(type) {
	case *ast.List:
		return c.retarget(l, want)
	case *ast.StructLit:
		if s, ok := want.(*types.Struct); ok {
			return c.retargetStruct(l, s)
		}
	}
	return nil
}

// castNode wraps an expression in an implicit conversion. A literal is
// converted itself.
func (c *checker) castNode(e ast.Expr, to types.Type) ast.Expr {
	n := &ast.Cast{X: e, Implicit: true}
	n.P = e.Pos()
	n.T = to
	n.V = castValue(e.Const(), to)
	return n
}

func (c *checker) listOf(l *ast.List, w *types.List) ast.Expr {
	for i, x := range l.Elems {
		l.Elems[i] = c.convert(x, w.Elem, "the element")
	}
	l.T = w
	l.V = listValue(l.Elems, ast.ListValue)
	return l
}

// retarget gives a list expression that has a tuple type the type of a struct,
// header, tuple or stack; nil if the elements do not fit.
func (c *checker) retarget(l *ast.List, want types.Type) ast.Expr {
	elems, ok := elemTypes(want)
	if !ok || len(elems) != len(l.Elems) {
		return nil
	}
	for i, x := range l.Elems {
		l.Elems[i] = c.convert(x, elems[i], "the element")
	}
	l.T = want
	l.V = listValue(l.Elems, kindOf(want))
	return l
}

func (c *checker) retargetStruct(l *ast.StructLit, s *types.Struct) ast.Expr {
	if len(l.Fields) != len(s.Fields) {
		return nil
	}
	for _, f := range l.Fields {
		sf, i := s.Field(f.Name)
		if i < 0 {
			return nil
		}
		f.Index = i
		f.Value = c.convert(f.Value, sf.Type, "the field "+f.Name)
	}
	l.T = s
	l.V = structValue(l, s)
	return l
}

func kindOf(t types.Type) ast.ValueKind {
	if s, ok := t.(*types.Struct); ok && s.Kind == types.Header {
		return ast.HeaderValue
	}
	return ast.ListValue
}

// elemTypes returns the types of the elements of a list expression for a type.
func elemTypes(t types.Type) ([]types.Type, bool) {
	switch t := types.Underlying(t).(type) {
	case *types.Struct:
		if t.Kind == types.Union {
			return nil, false
		}
		r := make([]types.Type, len(t.Fields))
		for i, f := range t.Fields {
			r[i] = f.Type
		}
		return r, true
	case *types.Tuple:
		return t.Elems, true
	case *types.Stack:
		r := make([]types.Type, t.Size)
		for i := range r {
			r[i] = t.Elem
		}
		return r, true
	}
	return nil, false
}

func listValue(es []ast.Expr, k ast.ValueKind) *ast.Value {
	v := &ast.Value{Kind: k, Valid: k == ast.HeaderValue}
	for _, e := range es {
		x := e.Const()
		if x == nil {
			return nil
		}
		v.Elems = append(v.Elems, x)
	}
	return v
}

func structValue(l *ast.StructLit, s *types.Struct) *ast.Value {
	v := &ast.Value{Kind: kindOf(s), Elems: make([]*ast.Value, len(s.Fields))}
	v.Valid = v.Kind == ast.HeaderValue
	for _, f := range l.Fields {
		if f.Index < 0 || f.Index >= len(v.Elems) {
			return nil
		}
		v.Elems[f.Index] = f.Value.Const()
	}
	for _, e := range v.Elems {
		if e == nil {
			return nil
		}
	}
	return v
}

// explicitCast reports whether (to) x is allowed for an x of type from.
func explicitCast(from, to types.Type) bool {
	if same(from, to) {
		return true
	}
	if n, ok := to.(*types.New); ok {
		below, ok := from.(*types.New)
		return same(from, n.Underlying) || ok && same(below.Underlying, to) || from == types.Integer && explicitCast(from, n.Underlying)
	}
	if n, ok := from.(*types.New); ok {
		return same(n.Underlying, to) || explicitToNew(n.Underlying, to)
	}
	switch t := to.(type) {
	case *types.Basic:
		return castToBasic(from, t)
	case *types.Bit:
		return castToBit(from, t)
	case *types.Int:
		return castToInt(from, t)
	case *types.Enum:
		return castToEnum(from, t)
	}
	return false
}

func castToBasic(from types.Type, to *types.Basic) bool {
	switch to {
	case types.Bool:
		b, ok := from.(*types.Bit)
		return ok && b.Width == 1 || from == types.Integer
	case types.Integer:
		switch from.(type) {
		case *types.Bit, *types.Int:
			return true
		}
	}
	return false
}

func castToBit(from types.Type, to *types.Bit) bool {
	switch f := from.(type) {
	case *types.Bit:
		return true
	case *types.Int:
		return f.Width == to.Width
	case *types.Basic:
		return f == types.Integer || f == types.Bool && to.Width == 1
	case *types.Enum:
		return f.Underlying != nil && explicitCast(f.Underlying, to)
	}
	return false
}

func castToInt(from types.Type, to *types.Int) bool {
	switch f := from.(type) {
	case *types.Bit:
		return f.Width == to.Width
	case *types.Int:
		return true
	case *types.Basic:
		return f == types.Integer
	case *types.Enum:
		return f.Underlying != nil && explicitCast(f.Underlying, to)
	}
	return false
}

func castToEnum(from types.Type, to *types.Enum) bool {
	if to.Underlying == nil {
		return false
	}
	if f, ok := from.(*types.Enum); ok {
		return f.Underlying != nil && types.Equal(f.Underlying, to.Underlying)
	}
	return types.Equal(from, to.Underlying) || from == types.Integer
}

// explicitToNew lets a cast go through the type below "type T N".
func explicitToNew(from, to types.Type) bool {
	switch from.(type) {
	case *types.Bit, *types.Int, *types.New:
		return explicitCast(from, to)
	}
	return false
}
