package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"strconv"
	"strings"
)

// Precedences of C's operators.
const (
	precTernary = 3
	precOr      = 4
	precAnd     = 5
	precUnary   = 14
	precPostfix = 15
)

var precedence = map[token.Token]int{
	token.MUL: 13, token.QUO: 13, token.REM: 13, token.ADD: 12, token.SUB: 12, token.SHL: 11, token.SHR: 11,
	token.LSS: 10, token.LEQ: 10, token.GTR: 10, token.GEQ: 10, token.EQL: 9, token.NEQ: 9,
	token.AND: 8, token.XOR: 7, token.OR: 6, token.LAND: precAnd, token.LOR: precOr,
}

// text is an expression in C, with its operator's precedence.
type text struct {
	s    string
	prec int
}

// in returns the expression as an operand of an operator of that precedence.
func (t text) in(prec int) string {
	if t.prec < prec {
		return "(" + t.s + ")"
	}
	return t.s
}

func primary(format string, args ...any) text { return text{fmt.Sprintf(format, args...), precPostfix} }

// expr returns an expression as a whole, such as an argument.
func (e *emitter) expr(x ast.Expr) string { return e.sub(x).s }

func (e *emitter) sub(x ast.Expr) text {
	tv := e.g.p.info.Types[x]
	if tv.Value != nil {
		return e.constant(x, tv)
	}
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.sub(x.X)
	case *ast.Ident:
		return e.ident(x)
	case *ast.SelectorExpr:
		return e.selector(x)
	case *ast.StarExpr:
		return text{"*" + e.sub(x.X).in(precUnary), precUnary}
	case *ast.UnaryExpr:
		return e.unary(x)
	case *ast.BinaryExpr:
		return e.binary(x)
	case *ast.CallExpr:
		return e.call(x)
	case *ast.IndexExpr:
		return e.index(x)
	case *ast.SliceExpr:
		return e.slice(x)
	case *ast.CompositeLit:
		return e.composite(x)
	}
	return e.no(x, "%s", strings.TrimPrefix(fmt.Sprintf("%T", x), "*ast."))
}

func (e *emitter) no(at ast.Node, format string, args ...any) text {
	e.g.refuse(e.label, at.Pos(), format, args...)
	return primary("0")
}

func basicOf(t types.Type) *types.Basic {
	b, _ := t.Underlying().(*types.Basic)
	if b == nil {
		return types.Typ[types.Invalid]
	}
	return b
}

func isFloat(t types.Type) bool    { return basicOf(t).Info()&types.IsFloat != 0 }
func isInteger(t types.Type) bool  { return basicOf(t).Info()&types.IsInteger != 0 }
func isUnsigned(t types.Type) bool { return basicOf(t).Info()&types.IsUnsigned != 0 }

// narrow returns the C type to which results of arithmetic have to be cut down, which
// C does in int.
func narrow(t types.Type) string {
	switch k := basicOf(t).Kind(); k {
	case types.Int8, types.Int16, types.Uint8, types.Uint16:
		return basics[k]
	}
	return ""
}

func cut(t types.Type, s text) text {
	if n := narrow(t); n != "" {
		return text{"(" + n + ")" + s.in(precUnary), precUnary}
	}
	return s
}

// constant writes a constant: by its name, by the product that Go has, or by its value.
func (e *emitter) constant(x ast.Expr, tv types.TypeAndValue) text {
	x = ast.Unparen(x)
	var obj types.Object
	switch x := x.(type) {
	case *ast.Ident:
		obj = e.g.p.info.Uses[x]
	case *ast.SelectorExpr:
		obj = e.g.p.info.Uses[x.Sel]
	case *ast.BinaryExpr:
		if s, ok := e.constantBinary(x, tv); ok {
			return s
		}
	case *ast.CallExpr:
		// A conversion, such as units.Bytes(n): C's constants have no type to convert.
		if isInteger(tv.Type) && len(x.Args) == 1 {
			if arg := e.g.p.info.Types[x.Args[0]]; arg.Value != nil && isInteger(arg.Type) {
				return e.constant(x.Args[0], types.TypeAndValue{Type: tv.Type, Value: arg.Value})
			}
		}
	}
	if c, ok := obj.(*types.Const); ok && (isFloat(tv.Type) || !isFloat(c.Type())) {
		if _, declared := e.g.p.decls[c]; declared {
			if e.g.outside(c.Pkg()) {
				return e.no(x, "the constant %s, whose package is not among those of the specification", c.Name())
			}
			return primary("%s", e.g.constName(c))
		}
		if n, ok := e.names[c]; ok {
			return primary("%s", n)
		}
	}
	return e.literal(x, tv.Type, tv.Value)
}

// constantBinary keeps the form of 4*units.Microsecond, where nothing can overflow.
func (e *emitter) constantBinary(x *ast.BinaryExpr, tv types.TypeAndValue) (text, bool) {
	if !isInteger(tv.Type) || x.Op != token.MUL && x.Op != token.ADD && x.Op != token.SUB {
		return text{}, false
	}
	if v, ok := constant.Int64Val(tv.Value); !ok || v < 0 {
		return text{}, false
	}
	named := false
	for _, y := range []ast.Expr{x.X, x.Y} {
		v := e.g.p.info.Types[y]
		if i, ok := constant.Int64Val(constant.ToInt(v.Value)); !ok || i < 0 {
			return text{}, false
		}
		ast.Inspect(y, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				c, ok := e.g.p.info.Uses[id].(*types.Const)
				_, declared := e.g.p.decls[c]
				named = named || ok && declared
			}
			return true
		})
	}
	if !named {
		return text{}, false
	}
	p := precedence[x.Op]
	l, r := e.constant(x.X, e.g.p.info.Types[x.X]), e.constant(x.Y, e.g.p.info.Types[x.Y])
	// One factor is a macro of 64 bits where the product needs them.
	if v, _ := constant.Int64Val(tv.Value); v > math.MaxInt32 && !wide(e, x.X) && !wide(e, x.Y) {
		return text{}, false
	}
	return text{fmt.Sprintf("%s %s %s", l.in(p), x.Op, r.in(p+1)), p}, true
}

func wide(e *emitter, x ast.Expr) bool {
	v, ok := constant.Int64Val(constant.ToInt(e.g.p.info.Types[x].Value))
	return ok && v > math.MaxInt32
}

// literal writes a value.
func (e *emitter) literal(at ast.Node, t types.Type, v constant.Value) text {
	return e.g.literal(e.label, at, t, v)
}

func (g *generator) literal(in string, at ast.Node, t types.Type, v constant.Value) text {
	switch v.Kind() {
	case constant.Bool:
		return primary("%t", constant.BoolVal(v))
	case constant.String:
		if s := constant.StringVal(v); !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return primary("%q", s)
		}
	case constant.Int, constant.Float:
		if isFloat(t) || v.Kind() == constant.Float && constant.ToInt(v).Kind() != constant.Int {
			f, _ := constant.Float64Val(v)
			s := strconv.FormatFloat(f, 'g', -1, 64)
			if !strings.ContainsAny(s, ".e") {
				s += ".0"
			}
			return negative(s)
		}
		v = constant.ToInt(v)
		if i, ok := constant.Int64Val(v); ok {
			switch {
			case i == math.MaxInt64:
				return primary("INT64_MAX")
			case i == math.MinInt64:
				return primary("INT64_MIN")
			case isUnsigned(t) && i > math.MaxInt32 && basics[basicOf(t).Kind()] == "uint64_t":
				return primary("UINT64_C(%#x)", i)
			case isUnsigned(t) && i > math.MaxInt32:
				return primary("%#xu", i)
			}
			return negative(strconv.FormatInt(i, 10))
		}
		if u, ok := constant.Uint64Val(v); ok {
			return primary("%#xu", u)
		}
	}
	g.refuse(in, at.Pos(), "the constant %s", v)
	return primary("0")
}

func negative(s string) text {
	if s[0] == '-' {
		return text{s, precUnary}
	}
	return text{s, precPostfix}
}

func (e *emitter) ident(x *ast.Ident) text {
	switch obj := e.g.p.info.Uses[x].(type) {
	case *types.Nil:
		return primary("NULL")
	case *types.Var:
		if _, global := e.g.p.decls[obj]; global {
			return primary("%s", e.g.constName(obj))
		}
		return primary("%s", e.local(obj))
	case nil:
		if v, ok := e.g.p.info.Defs[x].(*types.Var); ok {
			return primary("%s", e.local(v))
		}
	}
	return e.no(x, "%s as a value", x.Name)
}

// fieldPath writes the way from a value to a field or an embedded struct.
func (e *emitter) fieldPath(x text, t types.Type, path []int) (text, types.Type) {
	for _, i := range path {
		op := "."
		if p, ok := types.Unalias(t).Underlying().(*types.Pointer); ok {
			op, t = "->", p.Elem()
		}
		f := t.Underlying().(*types.Struct).Field(i)
		x = primary("%s%s%s", x.in(precPostfix), op, fieldName(f.Name()))
		t = f.Type()
	}
	return x, t
}

func (e *emitter) selector(x *ast.SelectorExpr) text {
	s := e.g.p.info.Selections[x]
	if s == nil {
		if v, ok := e.g.p.info.Uses[x.Sel].(*types.Var); ok {
			if _, global := e.g.p.decls[v]; global {
				return primary("%s", e.g.constName(v))
			}
		}
		return e.no(x, "%s as a value", x.Sel.Name)
	}
	if s.Kind() != types.FieldVal {
		return e.no(x, "the method value %s", x.Sel.Name)
	}
	t, _ := e.fieldPath(e.sub(x.X), s.Recv(), s.Index())
	return t
}

func (e *emitter) unary(x *ast.UnaryExpr) text {
	t := e.g.p.info.TypeOf(x)
	switch x.Op {
	case token.NOT:
		return text{"!" + e.sub(x.X).in(precUnary), precUnary}
	case token.SUB, token.XOR:
		op := "-"
		if x.Op == token.XOR {
			op = "~"
		}
		s := e.sub(x.X).in(precUnary)
		if strings.HasPrefix(s, op) {
			s = "(" + s + ")"
		}
		return cut(t, text{op + s, precUnary})
	case token.ADD:
		return e.sub(x.X)
	case token.AND:
		if _, ok := ast.Unparen(x.X).(*ast.CompositeLit); ok {
			return e.no(x, "an allocation, &T{...}")
		}
		return e.address(x.X)
	}
	return e.no(x, "the operator %s", x.Op)
}

// address is &x.
func (e *emitter) address(x ast.Expr) text {
	s := e.sub(x)
	if _, ok := e.g.p.info.TypeOf(x).Underlying().(*types.Array); ok {
		return s // a pointer to an array is one to its first element
	}
	if inner, ok := strings.CutPrefix(s.s, "*"); ok && s.prec == precUnary {
		return text{inner, precPostfix}
	}
	return text{"&" + s.in(precUnary), precUnary}
}

func (e *emitter) binary(x *ast.BinaryExpr) text {
	l, r := e.g.p.info.TypeOf(x.X), e.g.p.info.TypeOf(x.Y)
	t := e.g.p.info.TypeOf(x)
	if x.Op != token.LAND && x.Op != token.LOR {
		e.ordered(x, x.X, x.Y)
	}
	switch x.Op {
	case token.SHL, token.SHR:
		return e.shift(x.Op, x.X, x.Y)
	case token.QUO, token.REM:
		if isInteger(t) {
			return e.divide(x.Op, x.X, x.Y, t)
		}
	case token.ADD, token.SUB:
		if isFloat(t) {
			e.unfused(x.X)
			e.unfused(x.Y)
		}
	case token.AND_NOT:
		p := precedence[token.AND]
		return cut(t, text{e.operand(x.X, p, 0) + " & ~" + e.sub(x.Y).in(precUnary), p})
	case token.EQL, token.NEQ:
		if isError(l) {
			return text{fmt.Sprintf("%s %s 0", e.sub(x.X).in(10), x.Op), 9}
		}
		switch u := l.Underlying().(type) {
		case *types.Struct, *types.Array:
			return e.no(x, "a comparison of two values of type %s", types.TypeString(l, nil))
		case *types.Slice:
			return primary("(%s.at %s NULL)", e.sub(x.X).in(precPostfix), x.Op)
		case *types.Interface:
			if !e.g.mapped(l) && !e.g.mapped(r) && !e.g.hidden(l) {
				return e.no(x, "the type %s", types.TypeString(l, nil))
			}
		case *types.Basic:
			if u.Info()&types.IsString != 0 {
				not := map[token.Token]string{token.EQL: "", token.NEQ: "!"}[x.Op]
				return text{fmt.Sprintf("%ssluice_same(%s, %s)", not, e.expr(x.X), e.expr(x.Y)), precUnary}
			}
		}
	}
	p, ok := precedence[x.Op]
	if basicOf(l).Info()&types.IsString != 0 {
		return e.no(x, "%s of strings: they may be compared for equality alone", x.Op)
	}
	if !ok {
		return e.no(x, "the operator %s", x.Op)
	}
	s := text{fmt.Sprintf("%s %s %s", e.operand(x.X, p, x.Op), x.Op, e.operand(x.Y, p+1, x.Op)), p}
	if isInteger(t) {
		return cut(t, s)
	}
	return s
}

// operand writes an operand, in parentheses also where a C compiler asks for them to be
// sure of what is meant.
func (e *emitter) operand(x ast.Expr, prec int, op token.Token) string {
	t := e.sub(x)
	if t.prec >= precUnary || t.prec == precTernary {
		return t.in(prec)
	}
	bitwise := op == token.AND || op == token.OR || op == token.XOR || op == token.SHL || op == token.SHR || op == 0
	mixed := op == token.LOR && t.prec == precAnd || t.prec <= precedence[token.SHL] && t.prec >= precedence[token.OR] && !isComparison(t.prec)
	comparisons := isComparison(t.prec) && isComparison(prec)
	if bitwise && t.prec != precedence[op] || mixed && t.prec != precedence[op] || comparisons {
		return "(" + t.s + ")"
	}
	return t.in(prec)
}

func isComparison(prec int) bool { return prec == 9 || prec == 10 }

// unfused refuses a product as a summand: Go may round it, or not.
func (e *emitter) unfused(x ast.Expr) {
	if e.g.p.info.Types[x].Value != nil {
		return
	}
	y := ast.Unparen(x)
	if u, ok := y.(*ast.UnaryExpr); ok {
		y = ast.Unparen(u.X)
	}
	if b, ok := y.(*ast.BinaryExpr); ok && b.Op == token.MUL {
		e.no(x, "a product that a compiler of Go may fuse with the sum: round it, as float64(a*b)")
	}
}

// shift writes a shift: Go's are by any count.
func (e *emitter) shift(op token.Token, x, n ast.Expr) text {
	t := e.g.p.info.TypeOf(x)
	count := e.g.p.info.Types[n]
	bits := map[string]int64{"int8_t": 8, "uint8_t": 8, "int16_t": 16, "uint16_t": 16, "int32_t": 32, "uint32_t": 32}[basics[basicOf(t).Kind()]]
	if bits == 0 {
		bits = 64
	}
	c := basics[basicOf(t).Kind()]
	if v := count.Value; v != nil {
		k, ok := constant.Int64Val(constant.ToInt(v))
		if ok && k < bits {
			p := precedence[op]
			if op == token.SHL && !isUnsigned(t) {
				return text{fmt.Sprintf("(%s)((u%s)%s << %d)", c, c, e.sub(x).in(precUnary), k), precUnary}
			}
			left := e.operand(x, p, op)
			if e.g.p.info.Types[x].Value != nil {
				left = "(" + c + ")" + left
			}
			return cut(t, text{fmt.Sprintf("%s %s %s", left, op, e.operand(n, p+1, op)), p})
		}
	} else if !isUnsigned(count.Type) {
		return e.no(n, "a shift by a signed count, which may be negative: convert it, as uint(n)")
	}
	f := "sluice_shl"
	switch {
	case op == token.SHR && isUnsigned(t):
		f = "sluice_shr"
	case op == token.SHR:
		f = "sluice_sar"
	}
	s := primary("%s(%s, %s)", f, e.expr(x), e.expr(n))
	if op == token.SHL && !isUnsigned(t) {
		return text{"(" + c + ")" + s.s, precUnary}
	}
	return e.back(t, s)
}

func (e *emitter) divide(op token.Token, x, y ast.Expr, t types.Type) text {
	if v := e.g.p.info.Types[y].Value; v != nil && constant.Sign(v) > 0 {
		p := precedence[op]
		return cut(t, text{fmt.Sprintf("%s %s %s", e.operand(x, p, op), op, e.operand(y, p+1, op)), p})
	}
	f := map[token.Token]string{token.QUO: "sluice_div", token.REM: "sluice_rem"}[op]
	if isUnsigned(t) {
		f += "u"
	}
	return e.back(t, primary("%s(%s, %s)", f, e.expr(x), e.expr(y)))
}

// back converts what a function of 64 bits returned to a narrower type.
func (e *emitter) back(t types.Type, s text) text {
	switch c := basics[basicOf(t).Kind()]; c {
	case "int64_t", "uint64_t", "double", "bool", "":
		return s
	default:
		return text{"(" + c + ")" + s.in(precUnary), precUnary}
	}
}

// index writes an element, whose index is checked where it is not known to be in range.
func (e *emitter) index(x *ast.IndexExpr) text {
	base := e.sub(x.X)
	t := e.g.p.info.TypeOf(x.X)
	e.ordered(x, x.X, x.Index)
	if s, ok := t.Underlying().(*types.Slice); ok {
		_ = s
		b := base.in(precPostfix)
		if e.inRange(x.X, x.Index) {
			return primary("%s.at[%s]", b, e.expr(x.Index))
		}
		return primary("%s.at[sluice_at((uint64_t)%s, (uint64_t)%s.len)]", b, e.sub(x.Index).in(precUnary), b)
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	a, ok := t.Underlying().(*types.Array)
	if !ok {
		return e.no(x, "an index of %s", types.TypeString(t, nil))
	}
	if e.inRange(x.X, x.Index) || e.bounded(x.Index, a.Len()) {
		return primary("%s[%s]", base.in(precPostfix), e.expr(x.Index))
	}
	return primary("%s[sluice_at((uint64_t)%s, %d)]", base.in(precPostfix), e.sub(x.Index).in(precUnary), a.Len())
}

// inRange reports whether the index is that of a loop over this very thing.
func (e *emitter) inRange(x, index ast.Expr) bool {
	id, ok := ast.Unparen(index).(*ast.Ident)
	if !ok {
		return false
	}
	over, ok := e.ranges[e.g.p.info.Uses[id]]
	return ok && over == types.ExprString(x)
}

// bounded reports whether an index is below n whatever the variables are.
func (e *emitter) bounded(x ast.Expr, n int64) bool {
	info := e.g.p.info
	if info.Types[x].Value != nil {
		return true // Go has checked it
	}
	if id, ok := ast.Unparen(x).(*ast.Ident); ok {
		most, ok := e.below[info.Uses[id]]
		return ok && most <= n
	}
	b, ok := ast.Unparen(x).(*ast.BinaryExpr)
	if !ok || !isUnsigned(info.TypeOf(x)) {
		return false
	}
	v := info.Types[b.Y].Value
	if v == nil {
		return false
	}
	c, ok := constant.Int64Val(v)
	return ok && (b.Op == token.REM && c <= n || b.Op == token.AND && c < n)
}

// slice writes x[lo:hi].
func (e *emitter) slice(x *ast.SliceExpr) text {
	c := e.g.ctype(e.label, x, e.g.p.info.TypeOf(x))
	base, length, capacity := "", "", ""
	b := e.sub(x.X).in(precPostfix)
	switch t := e.g.p.info.TypeOf(x.X).Underlying().(type) {
	case *types.Slice:
		base, length, capacity = b+".at", b+".len", b+".cap"
	case *types.Array:
		base, length, capacity = b, strconv.FormatInt(t.Len(), 10), strconv.FormatInt(t.Len(), 10)
	case *types.Pointer:
		a, ok := t.Elem().Underlying().(*types.Array)
		if !ok {
			return e.no(x, "a slice of %s", types.TypeString(t, nil))
		}
		base, length, capacity = b, strconv.FormatInt(a.Len(), 10), strconv.FormatInt(a.Len(), 10)
	default:
		return e.no(x, "a slice of %s", types.TypeString(t, nil))
	}
	lo, hi := "0", length
	if x.Low != nil {
		lo = "(int64_t)" + e.sub(x.Low).in(precUnary)
	}
	if x.High != nil {
		hi = e.expr(x.High)
	}
	if x.Max != nil {
		capacity = e.expr(x.Max)
	}
	if x.Low == nil {
		return primary("(%s){%s, sluice_span(0, %s, %s), %s}", c, base, hi, capacity, capacity)
	}
	return primary("(%s){%s + %s, sluice_span(%s, %s, %s), %s - %s}", c, base, lo, lo, hi, capacity, capacity, lo)
}

// composite writes a struct's literal, fields by their names.
func (e *emitter) composite(x *ast.CompositeLit) text {
	t := e.g.p.info.TypeOf(x)
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return e.no(x, "a literal of type %s", types.TypeString(t, nil))
	}
	c := e.g.ctype(e.label, x, t)
	return primary("(%s)%s", c, e.fields(x))
}

// fields writes what stands between the braces of a literal, and these.
func (e *emitter) fields(x *ast.CompositeLit) string {
	if len(x.Elts) == 0 {
		return "{0}"
	}
	t := e.g.p.info.TypeOf(x)
	var parts []string
	var values []ast.Expr
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i, elt := range x.Elts {
			field, value := u.Field(i).Name(), elt
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				field, value = kv.Key.(*ast.Ident).Name, kv.Value
			}
			values = append(values, value)
			parts = append(parts, fmt.Sprintf(".%s = %s", fieldName(field), e.value(value)))
		}
	case *types.Array:
		for _, elt := range x.Elts {
			at := ""
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				at, elt = fmt.Sprintf("[%s] = ", e.expr(kv.Key)), kv.Value
			}
			values = append(values, elt)
			parts = append(parts, at+e.value(elt))
		}
	default:
		e.no(x, "a literal of type %s", types.TypeString(t, nil))
	}
	e.ordered(x, values...)
	line := "{" + strings.Join(parts, ", ") + "}"
	if len(line) < 90 {
		return line
	}
	inner := strings.Repeat("\t", e.indent+1)
	return "{\n" + inner + strings.Join(parts, ",\n"+inner) + ",\n" + strings.Repeat("\t", e.indent) + "}"
}

// value writes an element of a literal: of an inner literal the braces alone.
func (e *emitter) value(x ast.Expr) string {
	if c, ok := x.(*ast.CompositeLit); ok {
		return e.fields(c)
	}
	return e.expr(x)
}

// ordered refuses what Go does in order and C in any: a call that writes, beside other
// operands that may see it.
func (e *emitter) ordered(at ast.Node, operands ...ast.Expr) {
	impure, unstable := 0, 0
	for _, x := range operands {
		switch {
		case e.impure(x):
			impure++
		case !e.stable(x):
			unstable++
		}
	}
	if impure > 1 || impure == 1 && unstable > 0 {
		e.no(at, "a call that writes beside what may see it, in no order in C: make it a statement of its own")
	}
}

// impure reports whether x contains a call that writes.
func (e *emitter) impure(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f := e.g.callee(call); f != nil {
			if c := e.g.funcs[f]; c != nil {
				found = found || c.impure
			} else if recv := f.Signature().Recv(); recv != nil && e.g.mapped(recv.Type()) {
				for _, v := range e.g.variants {
					if m, _ := e.g.methodOf(v.named, f.Name()); m != nil {
						found = found || e.g.funcs[m].impure
					}
				}
			}
		} else if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "copy" {
			found = true
		}
		return true
	})
	return found
}

// stable reports whether no call can change what x is: it reads variables of the
// function alone.
func (e *emitter) stable(x ast.Expr) bool {
	ok := true
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if s := e.g.p.info.Selections[n]; s != nil && s.Kind() == types.FieldVal && e.g.shared(n) {
				ok = false
			}
		case *ast.IndexExpr, *ast.StarExpr:
			if e.g.shared(n.(ast.Expr)) {
				ok = false
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				return false // an address does not change
			}
		}
		return true
	})
	return ok
}
