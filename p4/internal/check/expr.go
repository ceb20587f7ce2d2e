package check

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// expr checks an expression and gives what stands in its place. want is the
// type that the context wants, or nil: list and struct expressions take theirs
// from it. The result always has a type; types.Invalid after an error.
func (c *checker) expr(e ast.Expr, want types.Type) ast.Expr {
	b := ast.Base(e)
	if b.T != nil { // shared default values are checked once
		return e
	}
	if !c.nest(e.Pos()) {
		c.depth--
		b.T = types.Invalid
		return e
	}
	r := c.expr1(e, want)
	c.depth--
	if rb := ast.Base(r); rb.T == nil {
		rb.T = types.Invalid
	}
	return r
}

func (c *checker) expr1(e ast.Expr, want types.Type) ast.Expr {
	switch e := e.(type) {
	case *ast.Member:
		return c.member(e)
	case *ast.Unary:
		return c.unary(e)
	case *ast.Binary:
		return c.binary(e)
	case *ast.Ternary:
		return c.ternary(e, want)
	case *ast.Cast:
		return c.cast(e)
	case *ast.Call:
		return c.call(e, want)
	case *ast.List:
		return c.list(e, want)
	case *ast.StructLit:
		return c.structLit(e, want)
	}
	c.exprInPlace(e, want)
	return e
}

// exprInPlace checks an expression in whose place no other comes.
func (c *checker) exprInPlace(e ast.Expr, want types.Type) {
	switch e := e.(type) {
	case *ast.IntLit:
		c.intLit(e)
	case *ast.BoolLit:
		e.T, e.V = types.Bool, boolVal(e.Value)
	case *ast.StringLit:
		e.T, e.V = types.String, &ast.Value{Kind: ast.StringValue, String: e.Value}
	case *ast.Ident:
		c.ident(e)
	case *ast.Index:
		c.index(e)
	case *ast.Slice:
		c.slice(e)
	case *ast.Dots:
		if want == nil || want == types.DontCare {
			c.errorf(e.P, "... has no type here: it stands for default values where a type is known")
			return
		}
		e.T, e.V = want, c.zero(want)
	case *ast.InvalidHeader:
		c.invalidHeader(e, want)
	case *ast.DontCare:
		e.T = types.DontCare
	case *ast.Mask:
		c.maskExpr(e, want)
	case *ast.Range:
		c.rangeExpr(e, want)
	case *ast.TypeRef:
		e.Ref = c.typ(e.Written)
		c.errorf(e.P, "the type %s is no value", e.Ref)
	}
}

func (c *checker) intLit(e *ast.IntLit) {
	e.T = types.Integer
	v := e.Value
	if e.Sized {
		e.T = c.intern(&types.Bit{Width: e.Width})
		if e.Signed {
			e.T = c.intern(&types.Int{Width: e.Width})
		}
		v = wrap(v, e.T)
	}
	e.V = intVal(v)
}

func (c *checker) invalidHeader(e *ast.InvalidHeader, want types.Type) {
	s, ok := want.(*types.Struct)
	if !ok || s.Kind == types.PlainStruct {
		c.errorf(e.P, "{#} is an invalid header: cast it to a header type, as (H){#}")
		return
	}
	e.T = want
	if s.Kind == types.Header {
		e.V = c.zero(want)
	}
}

// value checks an expression that must be a value of a type that variables may
// hold.
func (c *checker) value(e ast.Expr, want types.Type) ast.Expr {
	e = c.expr(e, want)
	switch t := e.Type().(type) {
	case *types.Callable, *types.ApplyResult, *types.ActionEnum:
		c.errorf(e.Pos(), "a %s is no value", t)
		ast.Base(e).T = types.Invalid
	case *types.Basic:
		if t == types.Void {
			c.errorf(e.Pos(), "this call gives no value")
			ast.Base(e).T = types.Invalid
		}
	}
	return e
}

// known reports whether an expression is compile-time known: it is a constant, or
// made of constructor parameters that no instance has bound yet.
func known(e ast.Expr) bool {
	if e.Const() != nil || e.Type() == types.Invalid {
		return true
	}
	switch e := e.(type) {
	case *ast.Ident:
		p, ok := e.Decl.(*ast.Param)
		return ok && p.Ctor
	case *ast.Member:
		return e.Sel == ast.SelField && known(e.X)
	case *ast.Unary, *ast.Binary, *ast.Ternary, *ast.Cast, *ast.Slice, *ast.List, *ast.StructLit:
		return !slices.ContainsFunc(ast.Parts(e), func(x ast.Expr) bool { return !known(x) })
	}
	return false
}

// constInt gives a compile-time known integer that fits an int.
func (c *checker) constInt(e ast.Expr, what string) (int, bool) {
	if e.Type() == types.Invalid {
		return 0, false
	}
	v := e.Const()
	if !isInt(v) {
		c.errorf(e.Pos(), "%s must be an integer that is known when the program is compiled", what)
		return 0, false
	}
	if !v.Int.IsInt64() || v.Int.Int64() > 1<<40 || v.Int.Int64() < -1<<40 {
		c.errorf(e.Pos(), "%s is out of range: %s", what, v.Int)
		return 0, false
	}
	return int(v.Int.Int64()), true
}

func (c *checker) ident(e *ast.Ident) {
	switch e.Name {
	case "this":
		if c.ctx.this == nil {
			c.errorf(e.P, "this has a meaning in the methods of an extern object only")
			return
		}
		e.T = c.ctx.this
		return
	case "error", "match_kind":
		c.errorf(e.P, "%s is a type: write %s.NAME", e.Name, e.Name)
		return
	}
	ds := c.find(e.Name, e.Absolute)
	if len(ds) == 0 {
		if c.kinds[e.Name] {
			e.T = types.MatchKind
			e.V = &ast.Value{Kind: ast.MatchValue, Member: e.Name}
			return
		}
		c.unknown(e.P, "nothing", e.Name)
		return
	}
	e.Decl = ds[0]
	c.declared(e)
	if e.T == nil {
		e.T = types.Invalid
	}
}

// declared gives a name the type and the value of its declaration.
func (c *checker) declared(e *ast.Ident) {
	switch d := e.Decl.(type) {
	case *ast.Param:
		e.T = d.T
		if d.Ctor && d.Bound != nil && d.Bound.Kind != ast.InstanceValue {
			e.V = d.Bound
		}
	case *ast.VarDecl:
		e.T = d.T
	case *ast.ConstDecl:
		e.T = d.T
		if d.X != nil {
			e.V = d.X.Const()
		}
	case *ast.Instantiation:
		e.T = d.T
	case *ast.ActionDecl, *ast.FunctionDecl, *ast.TableDecl:
		e.T = c.callable(d)
	case *ast.ValueSetDecl:
		e.T = &types.Set{Elem: d.Elem}
	default:
		c.errorf(e.P, "the type %s is no value", e.Name)
	}
}

// asType gives the type that an expression names, nil if it names none.
func (c *checker) asType(e ast.Expr) types.Type {
	switch e := e.(type) {
	case *ast.TypeRef:
		if e.Ref == nil {
			e.Ref = c.typ(e.Written)
			e.T = e.Ref
		}
		return e.Ref
	case *ast.Ident:
		if e.Name == "error" {
			e.T = c.errType
			return e.T
		}
		ds := c.find(e.Name, e.Absolute)
		if len(ds) == 0 {
			return nil
		}
		switch d := ds[0].(type) {
		case *ast.StructDecl, *ast.EnumDecl, *ast.TypedefDecl, *ast.TypeParam, *ast.ExternDecl, *ast.ParserDecl, *ast.ControlDecl, *ast.PackageDecl:
			e.Decl = d
			if typeParamCount(d) > 0 {
				return types.DontCare
			}
			e.T = c.named(&ast.NamedType{At: e.At, Name: e.Name, Absolute: e.Absolute}, nil, false)
			return e.T
		}
	}
	return nil
}

func (c *checker) member(e *ast.Member) ast.Expr {
	if t := c.asType(e.X); t != nil {
		c.typeMember(e, t)
		return e
	}
	e.X = c.expr(e.X, nil)
	xt := e.X.Type()
	if xt == types.Invalid {
		return e
	}
	switch t := types.Underlying(xt).(type) {
	case *types.Struct:
		c.field(e, t)
	case *types.Stack:
		c.stackMember(e, t)
	case *types.ApplyResult:
		c.applyMember(e, t)
	default:
		c.errorf(e.NameP, "a %s has no member %s", xt, e.Name)
	}
	return e
}

func (c *checker) field(e *ast.Member, t *types.Struct) {
	f, i := t.Field(e.Name)
	if i < 0 {
		c.errorf(e.NameP, "%s has no field %s%s", t, e.Name, cmp.Or(c.otherChip(e.Name), suggest(e.Name, fieldNames(t))))
		return
	}
	e.Sel, e.Index, e.T = ast.SelField, i, f.Type
	if v := e.X.Const(); v != nil && i < len(v.Elems) && v.Kind == ast.ListValue {
		e.V = v.Elems[i]
	}
}

func (c *checker) stackMember(e *ast.Member, t *types.Stack) {
	switch e.Name {
	case "next":
		e.Sel, e.T = ast.SelNext, t.Elem
	case "last":
		e.Sel, e.T = ast.SelLast, t.Elem
	case "lastIndex":
		e.Sel, e.T = ast.SelLastIndex, c.intern(&types.Bit{Width: 32})
	case "size":
		e.Sel, e.T, e.V = ast.SelSize, c.intern(&types.Bit{Width: 32}), smallVal(t.Size)
		return
	default:
		c.errorf(e.NameP, "a stack has no member %s: it has next, last, lastIndex and size", e.Name)
		return
	}
	if c.ctx.kind != ctxState {
		c.errorf(e.NameP, "%s of a stack exists in a parser's states only: use an index", e.Name)
	}
}

func (c *checker) applyMember(e *ast.Member, t *types.ApplyResult) {
	switch e.Name {
	case "hit":
		e.Sel, e.T = ast.SelHit, types.Bool
	case "miss":
		e.Sel, e.T = ast.SelMiss, types.Bool
	case "action_run":
		e.Sel, e.T = ast.SelAction, &types.ActionEnum{Table: t.Table}
	default:
		c.errorf(e.NameP, "the result of apply() has hit, miss and action_run, no %s", e.Name)
	}
}

func fieldNames(t *types.Struct) []string {
	s := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		s[i] = f.Name
	}
	return s
}

// suggest names the candidate that differs least from name, if one is near.
func suggest(name string, among []string) string {
	best, bestD := "", 3
	for _, a := range among {
		if d := distance(name, a, bestD); d < bestD {
			best, bestD = a, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// distance is Levenshtein's, or limit if it is not less.
func distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// typeMember is E.member and error.member.
func (c *checker) typeMember(e *ast.Member, t types.Type) {
	switch t := t.(type) {
	case *types.Error:
		i, ok := c.errIndex[e.Name]
		if !ok {
			c.errorf(e.NameP, "no error is called %s%s", e.Name, suggest(e.Name, c.errType.Members))
			return
		}
		e.Sel, e.T = ast.SelError, t
		e.V = &ast.Value{Kind: ast.ErrorValue, Member: e.Name, Index: i}
	case *types.Enum:
		for i, m := range t.Members {
			if m != e.Name {
				continue
			}
			e.Sel, e.T = ast.SelEnum, t
			if t.Underlying == nil {
				e.V = &ast.Value{Kind: ast.EnumValue, Member: m, Index: i}
			} else if i < len(t.Values) && t.Values[i] != nil {
				e.V = &ast.Value{Kind: ast.IntValue, Int: t.Values[i], Member: m, Index: i}
			} else {
				e.T = types.Invalid
			}
			return
		}
		c.errorf(e.NameP, "the enum %s has no member %s%s", t, e.Name, suggest(e.Name, t.Members))
	default:
		if t != types.Invalid {
			c.errorf(e.NameP, "the type %s has no member %s", t, e.Name)
		}
	}
}

func (c *checker) index(e *ast.Index) {
	e.X = c.expr(e.X, nil)
	e.I = c.expr(e.I, nil)
	if e.X.Type() == types.Invalid || e.I.Type() == types.Invalid {
		return
	}
	e.I = c.number(e.I)
	if !types.IsInteger(e.I.Type()) {
		c.errorf(e.I.Pos(), "an index is an integer, not of type %s", e.I.Type())
		return
	}
	var n int
	switch t := types.Underlying(e.X.Type()).(type) {
	case *types.Stack:
		n, e.T = t.Size, t.Elem
	case *types.Tuple:
		n = len(t.Elems)
		if !c.element(e, t) {
			return
		}
	default:
		c.errorf(e.P, "a %s has no index: only stacks and tuples do", e.X.Type())
		return
	}
	if v := e.I.Const(); isInt(v) && (v.Int.Sign() < 0 || v.Int.Cmp(big.NewInt(int64(n))) >= 0) {
		c.errorf(e.I.Pos(), "index %s is out of range: there are %d elements, 0 to %d", v.Int, n, n-1)
		e.T = types.Invalid
	}
}

// element gives an index of a tuple its element's type and value; false if the index is not known.
func (c *checker) element(e *ast.Index, t *types.Tuple) bool {
	i, ok := c.constInt(e.I, "a tuple's index")
	if !ok || i < 0 || i >= len(t.Elems) {
		return ok
	}
	e.T = t.Elems[i]
	if v := e.X.Const(); v != nil && i < len(v.Elems) {
		e.V = v.Elems[i]
	}
	return true
}

func (c *checker) slice(e *ast.Slice) {
	e.X = c.expr(e.X, nil)
	e.Hi, e.Lo = c.expr(e.Hi, nil), c.expr(e.Lo, nil)
	if types.Underlying(e.X.Type()) == types.Invalid || e.Hi.Type() == types.Invalid || e.Lo.Type() == types.Invalid {
		return
	}
	w, ok := c.sliced(e)
	if !ok {
		c.errorf(e.P, "a slice is of bit<> or int<>, not of %s", e.X.Type())
		return
	}
	bounds := c.sliceBounds
	if e.Plus {
		bounds = c.sliceWidth
	}
	if !bounds(e, w) {
		return
	}
	if e.LoN < 0 || e.HiN >= w {
		c.errorf(e.P, "slice [%d:%d] is out of range: the value has the bits %d to 0", e.HiN, e.LoN, w-1)
		return
	}
	if e.HiN < e.LoN {
		c.errorf(e.P, "slice [%d:%d] is empty: the first bound is the higher", e.HiN, e.LoN)
		return
	}
	e.T = c.intern(&types.Bit{Width: e.HiN - e.LoN + 1})
	if v := e.X.Const(); isInt(v) {
		r := new(big.Int).Rsh(v.Int, uint(e.LoN))
		e.V = intVal(wrap(r, e.T))
	}
}

// sliced returns the width of a slice's operand, false if it has no slices.
func (c *checker) sliced(e *ast.Slice) (int, bool) {
	switch t := types.Underlying(e.X.Type()).(type) {
	case *types.Bit, *types.Int:
		return types.Width(t)
	case *types.Enum:
		if t.Underlying == nil {
			return 0, false
		}
		e.X = c.castNode(e.X, t.Underlying)
		return types.Width(t)
	}
	return maxWidth, e.X.Type() == types.Integer && e.X.Const() != nil
}

// sliceBounds finds the bounds of x[h:l]; false after an error.
func (c *checker) sliceBounds(e *ast.Slice, _ int) bool {
	hi, ok := c.constInt(e.Hi, "a slice's bound")
	if !ok {
		return false
	}
	lo, ok := c.constInt(e.Lo, "a slice's bound")
	e.HiN, e.LoN = hi, lo
	return ok
}

// sliceWidth finds the bounds of x[l+:n]; false after an error, or if l is a variable: then the slice has its type.
func (c *checker) sliceWidth(e *ast.Slice, w int) bool {
	n, ok := c.constInt(e.Hi, "a slice's width")
	if !ok {
		return false
	}
	if n < 1 || n > w {
		c.errorf(e.Hi.Pos(), "a slice of %d bits: the value has %d", n, w)
		return false
	}
	if e.Lo.Const() == nil {
		if _, ok := e.Lo.Type().(*types.Bit); !ok {
			c.errorf(e.Lo.Pos(), "a slice begins at an unsigned number, not at one of type %s", e.Lo.Type())
			return false
		}
		e.HiN, e.LoN = n-1, -1
		e.T = c.intern(&types.Bit{Width: n})
		return false
	}
	lo, ok := c.constInt(e.Lo, "a slice's begin")
	e.HiN, e.LoN = lo+n-1, lo
	return ok
}

// number gives an operand of arithmetic: serialisable enums become numbers.
func (c *checker) number(e ast.Expr) ast.Expr {
	if en, ok := e.Type().(*types.Enum); ok && en.Underlying != nil {
		return c.castNode(e, en.Underlying)
	}
	return e
}

func (c *checker) unary(e *ast.Unary) ast.Expr {
	e.X = c.value(e.X, nil)
	t := e.X.Type()
	if t == types.Invalid {
		return e
	}
	if e.Op == ast.OpNot {
		if t != types.Bool {
			c.errorf(e.P, "! wants a bool, not a %s%s", t, compareZero(t))
			return e
		}
		e.T = types.Bool
		if v := e.X.Const(); isKind(v, ast.BoolValue) {
			e.V = boolVal(!v.Bool)
		}
		return e
	}
	e.X = c.number(e.X)
	t = e.X.Type()
	if !types.IsInteger(t) {
		c.errorf(e.P, "%s wants a number, not a %s", e.Op, t)
		return e
	}
	if t == types.Integer && e.Op == ast.OpCompl {
		c.errorf(e.P, "~ wants a number of known width: write the literal with its width, as 8w1")
		return e
	}
	e.T = t
	v := e.X.Const()
	if !isInt(v) {
		return e
	}
	switch e.Op {
	case ast.OpNeg:
		e.V = intVal(wrap(new(big.Int).Neg(v.Int), t))
	case ast.OpCompl:
		e.V = intVal(wrap(new(big.Int).Not(v.Int), t))
	default:
		e.V = v
	}
	return e
}

func compareZero(t types.Type) string {
	if types.IsInteger(t) {
		return ": compare it, as x != 0"
	}
	return ""
}

func (c *checker) binary(e *ast.Binary) ast.Expr {
	switch e.Op {
	case ast.OpEQ, ast.OpNE:
		return c.equality(e)
	case ast.OpLAnd, ast.OpLOr:
		return c.logical(e)
	}
	e.X, e.Y = c.value(e.X, nil), c.value(e.Y, nil)
	if e.X.Type() == types.Invalid || e.Y.Type() == types.Invalid {
		return e
	}
	if e.Op == ast.OpConcat && e.X.Type() == types.String && e.Y.Type() == types.String {
		return c.fold(e, types.String)
	}
	e.X, e.Y = c.number(e.X), c.number(e.Y)
	for _, x := range []ast.Expr{e.X, e.Y} {
		if t := x.Type(); !types.IsInteger(t) {
			c.errorf(x.Pos(), "%s wants numbers, not a %s%s", e.Op, t, castHint(t))
			return e
		}
	}
	switch e.Op {
	case ast.OpShl, ast.OpShr:
		return c.shift(e)
	case ast.OpConcat:
		return c.concat(e)
	}
	return c.arithmetic(e)
}

// arithmetic is x op y of numbers of one type.
func (c *checker) arithmetic(e *ast.Binary) ast.Expr {
	division := e.Op == ast.OpDiv || e.Op == ast.OpMod
	for _, x := range []ast.Expr{e.X, e.Y} {
		if v := x.Const(); division && isInt(v) && v.Int.Sign() < 0 {
			c.errorf(e.OpP, "%s of a negative number: the specification defines it for none", e.Op)
			return e
		}
	}
	t := c.balance(e)
	if t == nil || !c.defined(e, t) {
		return e
	}
	e.T = t
	switch e.Op {
	case ast.OpLE, ast.OpGE, ast.OpLT, ast.OpGT:
		e.T = types.Bool
	}
	n := len(c.errs)
	e.V = c.binaryValue(e.OpP, e.Op, e.X.Const(), e.Y.Const(), t, t, t)
	if len(c.errs) > n {
		e.T = types.Invalid
	}
	if division && c.elaborate && !runnable(e) {
		c.errorf(e.OpP, "%s at run time is by a constant power of two only", e.Op)
	}
	return e
}

// runnable reports whether a division is of known operands, or by a power of two.
func runnable(e *ast.Binary) bool {
	x := e.X.Const()
	return isInt(x) && x.Int.Sign() == 0 || known(e.X) && known(e.Y) || powerOfTwo(e.Y.Const())
}

// fold gives an expression its type, and its value if that is known.
func (c *checker) fold(e *ast.Binary, t types.Type) ast.Expr {
	e.T = t
	e.V = c.binaryValue(e.OpP, e.Op, e.X.Const(), e.Y.Const(), e.X.Type(), e.Y.Type(), t)
	return e
}

// logical is && or ||.
func (c *checker) logical(e *ast.Binary) ast.Expr {
	e.X, e.Y = c.value(e.X, nil), c.value(e.Y, nil)
	for _, x := range []ast.Expr{e.X, e.Y} {
		if t := x.Type(); t != types.Bool && t != types.Invalid {
			c.errorf(x.Pos(), "%s wants bools, not a %s%s", e.Op, t, compareZero(t))
			return e
		}
	}
	e.T = types.Bool
	if x := e.X.Const(); isKind(x, ast.BoolValue) && x.Bool == (e.Op == ast.OpLOr) {
		e.V = x
	} else if isKind(e.Y.Const(), ast.BoolValue) && isKind(x, ast.BoolValue) {
		e.V = e.Y.Const()
	}
	return e
}

// concat is x ++ y of numbers.
func (c *checker) concat(e *ast.Binary) ast.Expr {
	xt, yt := e.X.Type(), e.Y.Type()
	if xt == types.Integer || yt == types.Integer {
		c.errorf(e.OpP, "++ wants operands of known width: write the literal with its width, as 8w1")
		return e
	}
	wx, _ := types.Width(xt)
	wy, _ := types.Width(yt)
	if wx+wy > maxWidth {
		c.errorf(e.OpP, "not supported: %d bits in one value", wx+wy)
		return e
	}
	if _, signed := xt.(*types.Int); signed {
		return c.fold(e, c.intern(&types.Int{Width: wx + wy}))
	}
	return c.fold(e, c.intern(&types.Bit{Width: wx + wy}))
}

// defined reports whether there is this operator for the operands' type.
func (c *checker) defined(e *ast.Binary, t types.Type) bool {
	switch e.Op {
	case ast.OpAddSat, ast.OpSubSat:
		if t == types.Integer {
			c.errorf(e.OpP, "%s wants operands of known width: write the literal with its width, as 8w1", e.Op)
			return false
		}
	case ast.OpDiv, ast.OpMod:
		if _, signed := t.(*types.Int); signed {
			c.errorf(e.OpP, "%s is not defined for %s: only for bit<> and int", e.Op, t)
			return false
		}
		if v := e.Y.Const(); isInt(v) && v.Int.Sign() == 0 {
			c.errorf(e.OpP, "division by zero")
			return false
		}
	}
	return true
}

func powerOfTwo(v *ast.Value) bool {
	return isInt(v) && v.Int.Sign() > 0 && v.Int.TrailingZeroBits() == uint(v.Int.BitLen()-1)
}

func castHint(t types.Type) string {
	if n, ok := t.(*types.New); ok {
		return ": cast it to " + n.Underlying.String()
	}
	return ""
}

// balance brings the operands to one type, and gives it, or nil.
func (c *checker) balance(e *ast.Binary) types.Type {
	xt, yt := e.X.Type(), e.Y.Type()
	switch {
	case xt == types.Integer && yt != types.Integer:
		e.X = c.castNode(e.X, yt)
		return yt
	case yt == types.Integer && xt != types.Integer:
		e.Y = c.castNode(e.Y, xt)
		return xt
	case types.Equal(xt, yt):
		return xt
	}
	c.errorf(e.OpP, "%s has operands of type %s and %s: cast one", e.Op, xt, yt)
	return nil
}

func (c *checker) shift(e *ast.Binary) ast.Expr {
	xt, yt := e.X.Type(), e.Y.Type()
	v := e.Y.Const()
	if isInt(v) && v.Int.Sign() < 0 {
		c.errorf(e.Y.Pos(), "a shift by %s: the amount is not negative", v.Int)
		return e
	}
	if _, signed := yt.(*types.Int); signed && !known(e.Y) {
		c.errorf(e.Y.Pos(), "a shift's amount is unsigned, not of type %s: cast it", yt)
		return e
	}
	if xt == types.Integer && !known(e.Y) {
		c.errorf(e.X.Pos(), "the shifted value has no width: write the literal with one, as 8w1")
		return e
	}
	e.T = xt
	e.V = c.binaryValue(e.OpP, e.Op, e.X.Const(), v, xt, yt, xt)
	return e
}

func (c *checker) equality(e *ast.Binary) ast.Expr {
	// A list or struct expression takes the other side's type.
	if needsContext(e.X) && !needsContext(e.Y) {
		e.Y = c.value(e.Y, nil)
		e.X = c.value(e.X, e.Y.Type())
	} else {
		e.X = c.value(e.X, nil)
		e.Y = c.value(e.Y, e.X.Type())
	}
	xt, yt := e.X.Type(), e.Y.Type()
	if xt == types.Invalid || yt == types.Invalid {
		return e
	}
	if !same(xt, yt) && !c.compared(e) {
		return e
	}
	if !comparable(e.X.Type()) {
		c.errorf(e.OpP, "values of type %s cannot be compared", e.X.Type())
		return e
	}
	e.T = types.Bool
	e.V = c.binaryValue(e.OpP, e.Op, e.X.Const(), e.Y.Const(), xt, yt, xt)
	return e
}

// compared brings operands of different types to one; false after an error.
func (c *checker) compared(e *ast.Binary) bool {
	xt, yt := e.X.Type(), e.Y.Type()
	for _, p := range [][2]types.Type{{xt, yt}, {yt, xt}} {
		if n, ok := p[0].(*types.New); ok && p[1] == types.Integer {
			c.errorf(e.OpP, "%s compares a %s with a number: cast one", e.Op, n)
			return false
		}
	}
	a, b := c.number(e.X), c.number(e.Y)
	if a != e.X && b != e.Y && types.Equal(a.Type(), b.Type()) {
		e.X, e.Y = a, b
		return true
	}
	if r := c.implicit(e.X, yt); r != nil {
		e.X = r
		return true
	}
	if r := c.implicit(e.Y, xt); r != nil {
		e.Y = r
		return true
	}
	switch {
	case a != e.X && yt == types.Integer:
		e.X, e.Y = a, c.castNode(e.Y, a.Type())
	case b != e.Y && xt == types.Integer:
		e.X, e.Y = c.castNode(e.X, b.Type()), b
	default:
		c.errorf(e.OpP, "%s compares a %s with a %s: cast one", e.Op, xt, yt)
		return false
	}
	return true
}

func comparable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Extern, *types.Callable, *types.ApplyResult, *types.ActionEnum, *types.Set, *types.List:
		return false
	case *types.Basic:
		return t != types.Void && t != types.DontCare
	}
	return true
}

// needsContext reports whether an expression takes its type from its context.
func needsContext(e ast.Expr) bool {
	switch e.(type) {
	case *ast.List, *ast.StructLit, *ast.InvalidHeader, *ast.Dots, *ast.DontCare:
		return true
	}
	return false
}

func (c *checker) ternary(e *ast.Ternary, want types.Type) ast.Expr {
	e.Cond = c.exprTo(e.Cond, types.Bool, "the condition")
	e.Then, e.Else = c.value(e.Then, want), c.value(e.Else, want)
	a, b := e.Then.Type(), e.Else.Type()
	if a == types.Invalid || b == types.Invalid || e.Cond.Type() == types.Invalid {
		return e
	}
	if !same(a, b) {
		if r := c.implicit(e.Then, b); r != nil {
			e.Then = r
		} else if r := c.implicit(e.Else, a); r != nil {
			e.Else = r
		} else {
			c.errorf(e.P, "? chooses between a %s and a %s: cast one", a, b)
			return e
		}
	}
	if e.Then.Type() == types.Integer && !known(e.Cond) {
		if w := want; w != nil && types.IsInteger(w) && w != types.Integer {
			e.Then, e.Else = c.castNode(e.Then, w), c.castNode(e.Else, w)
		} else {
			c.errorf(e.P, "the width of the result is unknown: write a literal with its width, as 8w1")
			return e
		}
	}
	e.T = e.Then.Type()
	if v := e.Cond.Const(); isKind(v, ast.BoolValue) {
		if v.Bool {
			e.V = e.Then.Const()
		} else {
			e.V = e.Else.Const()
		}
	}
	return e
}

func (c *checker) cast(e *ast.Cast) ast.Expr {
	to := c.typ(e.To)
	e.X = c.value(e.X, to)
	from := e.X.Type()
	if to == types.Invalid || from == types.Invalid {
		return e
	}
	switch to {
	case types.Void, types.DontCare:
		c.errorf(e.P, "no cast to %s", to)
		return e
	}
	if needsContext(e.X) {
		if !same(from, to) {
			if r := c.implicit(e.X, to); r != nil {
				return r
			}
			c.errorf(e.P, "no cast from %s to %s", from, to)
			return e
		}
		return e.X
	}
	if !explicitCast(from, to) {
		how := ""
		_, fi := from.(*types.Int)
		_, ti := to.(*types.Int)
		if types.IsInteger(from) && types.IsInteger(to) && fi != ti {
			how = ": change the width first, then the sign"
		}
		c.errorf(e.P, "no cast from %s to %s%s", from, to, how)
		return e
	}
	if v := e.X.Const(); to == types.Bool && isInt(v) && (v.Int.Sign() < 0 || v.Int.Cmp(big.NewInt(1)) > 0) {
		c.errorf(e.P, "no cast from %s to bool: only 0 and 1", v.Int)
		return e
	}
	e.T = to
	e.V = castValue(e.X.Const(), to)
	return e
}

func (c *checker) list(e *ast.List, want types.Type) ast.Expr {
	if l, ok := want.(*types.List); ok {
		if e.Rest {
			c.errorf(e.P, "... has no place in a list<>")
		}
		for i, x := range e.Elems {
			e.Elems[i] = c.exprTo(x, l.Elem, "the element")
		}
		e.T = want
		e.V = listValue(e.Elems, ast.ListValue)
		return e
	}
	elems, ok := elemTypes(want)
	if want == nil || !ok {
		return c.tupleList(e)
	}
	if len(e.Elems) > len(elems) || len(e.Elems) < len(elems) && !e.Rest {
		more := ""
		if len(e.Elems) < len(elems) {
			more = ": end the list with ... for default values"
		}
		c.errorf(e.P, "a list of %d elements for %s, which has %d%s", len(e.Elems), want, len(elems), more)
		for i, x := range e.Elems {
			e.Elems[i] = c.value(x, nil)
		}
		return e
	}
	for i, x := range e.Elems {
		e.Elems[i] = c.exprTo(x, elems[i], "the element")
	}
	for i := len(e.Elems); i < len(elems); i++ {
		e.Elems = append(e.Elems, c.dots(e.P, elems[i]))
	}
	e.Rest = false
	e.T = want
	e.V = listValue(e.Elems, kindOf(want))
	return e
}

// tupleList is a list expression whose context gives no type.
func (c *checker) tupleList(e *ast.List) ast.Expr {
	if e.Rest {
		c.errorf(e.P, "... has no type here: cast the list, as (S){...}")
		return e
	}
	t := &types.Tuple{}
	bad := false
	for i, x := range e.Elems {
		e.Elems[i] = c.value(x, nil)
		bad = bad || e.Elems[i].Type() == types.Invalid
		t.Elems = append(t.Elems, e.Elems[i].Type())
	}
	if bad {
		return e
	}
	e.T = c.intern(t)
	if c.leafCount(e.T) > maxLeaves {
		c.errorf(e.P, "not supported: a list of more than %d basic values", maxLeaves)
		e.T = types.Invalid
		return e
	}
	e.V = listValue(e.Elems, ast.ListValue)
	return e
}

func (c *checker) dots(p ast.Pos, t types.Type) ast.Expr {
	d := &ast.Dots{}
	d.P, d.T, d.V = p, t, c.zero(t)
	return d
}

func (c *checker) structLit(e *ast.StructLit, want types.Type) ast.Expr {
	seen := map[string]bool{}
	for _, f := range e.Fields {
		if seen[f.Name] {
			c.errorf(f.P, "the field %s is given twice", f.Name)
			return e
		}
		seen[f.Name] = true
	}
	s, ok := types.Underlying(wantOrVoid(want)).(*types.Struct)
	switch {
	case ok && !hasVar(s):
		return c.structOf(e, want, s, seen)
	case want != nil && want != types.DontCare && !hasVar(want):
		for _, f := range e.Fields {
			f.Value = c.value(f.Value, nil)
		}
		c.errorf(e.P, "a struct expression for a %s", want)
	case e.Rest:
		c.errorf(e.P, "... has no type here: cast the struct, as (S){...}")
	default:
		c.anonymousStruct(e)
	}
	return e
}

// anonymousStruct gives a struct expression whose context gives no type one of its fields.
func (c *checker) anonymousStruct(e *ast.StructLit) {
	t := &types.Struct{}
	name := ""
	for i, f := range e.Fields {
		f.Value = c.value(f.Value, nil)
		if f.Value.Type() == types.Invalid {
			return
		}
		f.Index = i
		t.Fields = append(t.Fields, types.Field{Name: f.Name, Type: f.Value.Type()})
		if i > 0 {
			name += "; "
		}
		name += f.Value.Type().String() + " " + f.Name
	}
	t.Name = "struct {" + name + "}"
	t.Generic = ""
	e.T = t
	e.V = structValue(e, t)
}

// structOf returns a struct expression of the type want with the fields of s; seen names the fields given so
// far.
func (c *checker) structOf(e *ast.StructLit, want types.Type, s *types.Struct, seen map[string]bool) ast.Expr {
	if s.Kind == types.Union {
		c.errorf(e.P, "a struct expression for the header union %s: set one of its headers", s)
		return e
	}
	for _, f := range e.Fields {
		sf, i := s.Field(f.Name)
		f.Index = i
		if i < 0 {
			c.errorf(f.P, "%s has no field %s%s", s, f.Name, suggest(f.Name, fieldNames(s)))
			f.Value = c.value(f.Value, nil)
			continue
		}
		f.Value = c.exprTo(f.Value, sf.Type, "the field "+f.Name)
	}
	for i, sf := range s.Fields {
		if seen[sf.Name] {
			continue
		}
		if !e.Rest {
			c.errorf(e.P, "the field %s of %s is missing: give it, or end with ... for default values", sf.Name, s)
			return e
		}
		e.Fields = append(e.Fields, &ast.FieldInit{At: e.At, Name: sf.Name, Value: c.dots(e.P, sf.Type), Index: i})
	}
	e.Rest = false
	e.T = want
	e.V = structValue(e, s)
	return e
}

func wantOrVoid(t types.Type) types.Type {
	if t == nil {
		return types.Void
	}
	return t
}

func (c *checker) maskExpr(e *ast.Mask, want types.Type) {
	w := keyWant(want)
	e.X, e.Y = c.value(e.X, w), c.value(e.Y, w)
	e.T = c.setType(&e.X, &e.Y, w, "&&&")
	if x, y := e.X.Const(), e.Y.Const(); x != nil && y != nil {
		e.V = &ast.Value{Kind: ast.SetValue, Set: ast.SetMask, Elems: []*ast.Value{x, y}}
	}
}

func (c *checker) rangeExpr(e *ast.Range, want types.Type) {
	w := keyWant(want)
	e.Lo, e.Hi = c.value(e.Lo, w), c.value(e.Hi, w)
	e.T = c.setType(&e.Lo, &e.Hi, w, "..")
	if x, y := e.Lo.Const(), e.Hi.Const(); x != nil && y != nil {
		e.V = &ast.Value{Kind: ast.SetValue, Set: ast.SetRange, Elems: []*ast.Value{x, y}}
	}
}

func keyWant(t types.Type) types.Type {
	if s, ok := t.(*types.Set); ok {
		return s.Elem
	}
	return t
}

// setType brings the two parts of a set to one type.
func (c *checker) setType(x, y *ast.Expr, want types.Type, op string) types.Type {
	*x, *y = c.number2(*x, want), c.number2(*y, want)
	if xt, yt := (*x).Type(), (*y).Type(); xt != yt && (xt == types.Integer || yt == types.Integer) {
		*x, *y = c.number(*x), c.number(*y)
	}
	xt, yt := (*x).Type(), (*y).Type()
	if xt == types.Invalid || yt == types.Invalid {
		return types.Invalid
	}
	c.unifySet(x, y, want)
	xt, yt = (*x).Type(), (*y).Type()
	if !types.Equal(xt, yt) {
		c.errorf((*x).Pos(), "%s has operands of type %s and %s: cast one", op, xt, yt)
		return types.Invalid
	}
	if !isNumber(xt) {
		c.errorf((*x).Pos(), "%s wants numbers, not a %s", op, xt)
		return types.Invalid
	}
	return &types.Set{Elem: xt}
}

// unifySet converts the part of a set that is an int to the other's type, or both to that of the context.
func (c *checker) unifySet(x, y *ast.Expr, want types.Type) {
	xt, yt := (*x).Type(), (*y).Type()
	switch {
	case xt == types.Integer && yt != types.Integer:
		c.implicitly(x, yt)
	case yt == types.Integer && xt != types.Integer:
		c.implicitly(y, xt)
	case xt == types.Integer && want != nil && want != types.Integer:
		if en, ok := want.(*types.Enum); ok && en.Underlying != nil {
			want = en.Underlying
		}
		c.implicitly(x, want)
		c.implicitly(y, want)
	}
}

// implicitly converts an expression to a type, if it can be.
func (c *checker) implicitly(x *ast.Expr, to types.Type) {
	if r := c.implicit(*x, to); r != nil {
		*x = r
	}
}

// isNumber reports whether a type's values are numbers: bit<>, int<>, int, an enum of these, or a type made of them.
func isNumber(t types.Type) bool {
	u := types.Underlying(t)
	if e, ok := u.(*types.Enum); ok && e.Underlying != nil {
		u = e.Underlying
	}
	return types.IsInteger(u)
}

// number2 makes a serialisable enum a number unless the context wants the enum.
func (c *checker) number2(e ast.Expr, want types.Type) ast.Expr {
	if want != nil && same(e.Type(), want) {
		return e
	}
	return c.number(e)
}

// lvalue reports whether an expression may be assigned to, and why not.
func (c *checker) lvalue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		switch d := e.Decl.(type) {
		case *ast.VarDecl:
			return true
		case *ast.Param:
			if d.Dir == types.Out || d.Dir == types.InOut {
				return true
			}
			if d.Ctor {
				c.errorf(e.P, "%s is a constructor's parameter: it cannot be changed", e.Name)
				return false
			}
			dir := "an in parameter"
			if d.Dir == types.None {
				dir = "a parameter without direction"
			}
			c.errorf(e.P, "%s is %s: it cannot be changed; make it out or inout, or copy it to a variable", e.Name, dir)
			return false
		}
		if e.T != types.Invalid {
			c.errorf(e.P, "%s is no variable: it cannot be changed", e.Name)
		}
		return false
	case *ast.Member:
		switch e.Sel {
		case ast.SelField, ast.SelNext:
			return c.lvalue(e.X)
		case ast.SelLast:
			c.errorf(e.NameP, "last of a stack cannot be changed: use an index")
			return false
		}
	case *ast.Index:
		return c.lvalue(e.X)
	case *ast.Slice:
		return c.lvalue(e.X)
	}
	if e.Type() != types.Invalid {
		c.errorf(e.Pos(), "this is no variable: it cannot be changed")
	}
	return false
}

// unknown says that a name is declared nowhere; kind is "nothing" or "no type".
func (c *checker) unknown(at ast.Pos, kind, name string) {
	c.errorf(at, "%s is called %s here%s", kind, name, cmp.Or(c.otherChip(name), ": declare it before this place"))
}

// otherChip says that a name which a program for Tofino 1 lacks is one of Tofino 2; empty if it is not.
func (c *checker) otherChip(name string) string {
	_, tna := c.global.names["ingress_intrinsic_metadata_for_tm_t"]
	_, second := c.global.names["ghost_intrinsic_metadata_t"]
	if !tna || second || !include.Tofino2Only(name) {
		return ""
	}
	return ": Tofino 2 has it: check with --target tofino2, or include t2na.p4"
}
