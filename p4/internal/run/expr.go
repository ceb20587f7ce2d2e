package run

import (
	"slices"

	"math/bits"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// num compiles an expression whose value has up to 64 bits.
func (c *compiler) num(e ast.Expr) num {
	c.step(e)
	if v := e.Const(); v != nil && v.Kind != ast.InstanceValue {
		k := c.constNum(e, v)
		return func(*machine) uint64 { return k }
	}
	if e.Type() == types.Integer { // an index or a shift's operand: a negative one is beyond all others
		x := c.widened(e)
		if intBits(x) > 64 {
			c.failf(e, "not supported: an int of more than 64 bits here")
		}
		return c.num(c.toInt(x, 64))
	}
	switch e := e.(type) {
	case *ast.Ident, *ast.Index, *ast.Slice:
		return c.loadRef(e)
	case *ast.Member:
		switch e.Sel {
		case ast.SelHit, ast.SelMiss, ast.SelAction:
			return c.applyResult(e)
		}
		return c.loadRef(e)
	case *ast.Unary:
		return c.unary(e)
	case *ast.Binary:
		return c.binary(e)
	case *ast.Ternary:
		return c.choice(e)
	case *ast.Cast:
		return c.cast(e)
	case *ast.Dots:
		return func(*machine) uint64 { return 0 }
	case *ast.Call:
		return c.callNum(e)
	}
	c.failf(e, "not supported: this expression of type %s here", e.Type())
	return nil
}

// constNum is a value known when the program is compiled, of a type of up to 64 bits or an int: an index or a shift's operand.
func (c *compiler) constNum(e ast.Expr, v *ast.Value) uint64 {
	t := e.Type()
	if t == types.Integer {
		if v.Int.Sign() < 0 {
			c.failf(e, "not supported: negative value %v here", v.Int)
		}
		if v.Int.IsUint64() {
			return v.Int.Uint64()
		}
		return ^uint64(0)
	}
	w, err := constWords(t, v)
	c.check(e, err)
	if len(w) == 0 {
		c.failf(e, "not supported: value of type %s here", t)
	}
	return w[0]
}

func (c *compiler) choice(e *ast.Ternary) num {
	cond, a, b := c.num(e.Cond), c.num(e.Then), c.num(e.Else)
	return func(m *machine) uint64 {
		if cond(m) != 0 {
			return a(m)
		}
		return b(m)
	}
}

func (c *compiler) loadRef(e ast.Expr) num {
	if s, ok := e.(*ast.Slice); ok && !isLvalue(s.X) { // of a value
		if w, _ := scalarWidth(s.X.Type()); w <= 64 && !(s.Plus && s.Lo.Const() == nil) {
			x := c.num(s.X)
			lo, mask := uint(s.LoN), mask64(s.HiN-s.LoN+1)
			return func(m *machine) uint64 { return x(m) >> lo & mask }
		}
	}
	pre, p := c.ref(e)
	l := c.load(p)
	if pre == nil {
		return l
	}
	return func(m *machine) uint64 {
		pre(m)
		return l(m)
	}
}

func isLvalue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Const() == nil
	case *ast.Member:
		return e.Const() == nil && (e.Sel == ast.SelField && isLvalue(e.X) || e.Sel == ast.SelNext || e.Sel == ast.SelLast)
	case *ast.Index:
		return isLvalue(e.X)
	case *ast.Slice:
		return isLvalue(e.X)
	}
	return false
}

func (c *compiler) unary(e *ast.Unary) num {
	w, _ := scalarWidth(e.Type())
	x := c.num(e.X)
	mask := mask64(w)
	switch e.Op {
	case ast.OpNot:
		return func(m *machine) uint64 { return x(m) ^ 1 }
	case ast.OpCompl:
		return func(m *machine) uint64 { return ^x(m) & mask }
	case ast.OpNeg:
		return func(m *machine) uint64 { return -x(m) & mask }
	case ast.OpPlus:
		return x
	}
	c.failf(e, "not supported: operator %s", e.Op)
	return nil
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (c *compiler) binary(e *ast.Binary) num {
	switch e.Op {
	case ast.OpLAnd:
		x, y := c.num(e.X), c.num(e.Y)
		return func(m *machine) uint64 {
			if x(m) == 0 {
				return 0
			}
			return y(m)
		}
	case ast.OpLOr:
		x, y := c.num(e.X), c.num(e.Y)
		return func(m *machine) uint64 {
			if x(m) != 0 {
				return 1
			}
			return y(m)
		}
	case ast.OpEQ, ast.OpNE, ast.OpLE, ast.OpGE, ast.OpLT, ast.OpGT:
		if e.X.Type() == types.Integer {
			y := *e
			y.X, y.Y = c.widenedPair(e.X, e.Y)
			e = &y
		}
	}
	switch e.Op {
	case ast.OpEQ, ast.OpNE:
		return c.equal(e)
	}
	wx, okx := scalarWidth(e.X.Type())
	if !okx && e.X.Const() == nil {
		c.failf(e, "not supported: operator %s on %s", e.Op, e.X.Type())
	}
	switch e.Op {
	case ast.OpLE, ast.OpGE, ast.OpLT, ast.OpGT:
		if wx > 64 {
			return c.compareWide(e, wx)
		}
		return c.compare(e, wx)
	case ast.OpConcat:
		wy, _ := scalarWidth(e.Y.Type())
		x, y := c.num(e.X), c.num(e.Y)
		s := uint(wy)
		return func(m *machine) uint64 {
			a := x(m)
			return a<<s | y(m)
		}
	}
	w, ok := scalarWidth(e.Type())
	if !ok {
		c.failf(e, "not supported: operator %s giving %s", e.Op, e.Type())
	}
	return c.arith(e, e.Op, w, isSigned(e.Type()), c.num(e.X), c.shiftOrNum(e.Op, e.Y), constOf(e.Y))
}

// constOf is the small constant value of e, if it has one.
func constOf(e ast.Expr) *uint64 {
	if v := e.Const(); v != nil && v.Kind == ast.IntValue && v.Int.Sign() >= 0 && v.Int.IsUint64() {
		k := v.Int.Uint64()
		return &k
	}
	return nil
}

// shiftOrNum compiles a right operand. A shift's may be wider than 64 bits: what does not fit counts as a lot.
func (c *compiler) shiftOrNum(o ast.Op, e ast.Expr) num {
	if w, ok := scalarWidth(e.Type()); ok && w > 64 && (o == ast.OpShl || o == ast.OpShr) {
		pre, p := c.ref(e)
		n := wordsOf(w)
		return func(m *machine) uint64 {
			if pre != nil {
				pre(m)
			}
			at := p.at(m)
			for _, h := range m.w[at+1 : at+n] {
				if h != 0 {
					return ^uint64(0)
				}
			}
			return m.w[at]
		}
	}
	return c.num(e)
}

// arith is x op y on w bits, w up to 64; k is y if that is constant.
func (c *compiler) arith(n ast.Node, o ast.Op, w int, signed bool, x, y num, k *uint64) num {
	var f num
	switch o {
	case ast.OpAdd, ast.OpSub, ast.OpMul:
		f = addOrMul(o, mask64(w), x, y, k)
	case ast.OpDiv, ast.OpMod:
		if !signed {
			f = divide(o, x, y)
		}
	case ast.OpAddSat, ast.OpSubSat:
		f = saturated(o, w, signed, x, y)
	case ast.OpShl, ast.OpShr:
		f = shift(o, w, signed, x, y, k)
	case ast.OpAnd, ast.OpOr, ast.OpXor:
		f = bitwise(o, x, y, k)
	}
	if f == nil {
		c.failf(n, "not supported: operator %s here", o)
	}
	return f
}

// addOrMul is x + y, x - y or x * y; k is y if that is constant.
func addOrMul(o ast.Op, mask uint64, x, y num, k *uint64) num {
	switch {
	case o == ast.OpMul:
		return func(m *machine) uint64 { a := x(m); return a * y(m) & mask }
	case o == ast.OpAdd && k != nil:
		k := *k
		return func(m *machine) uint64 { return (x(m) + k) & mask }
	case o == ast.OpAdd:
		return func(m *machine) uint64 { a := x(m); return (a + y(m)) & mask }
	case k != nil:
		k := *k
		return func(m *machine) uint64 { return (x(m) - k) & mask }
	}
	return func(m *machine) uint64 { a := x(m); return (a - y(m)) & mask }
}

// divide is x / y or x % y of unsigned numbers, 0 by 0.
func divide(o ast.Op, x, y num) num {
	if o == ast.OpDiv {
		return func(m *machine) uint64 {
			a, b := x(m), y(m)
			if b == 0 {
				return 0
			}
			return a / b
		}
	}
	return func(m *machine) uint64 {
		a, b := x(m), y(m)
		if b == 0 {
			return 0
		}
		return a % b
	}
}

// saturated is x |+| y or x |-| y.
func saturated(o ast.Op, w int, signed bool, x, y num) num {
	mask, sub := mask64(w), o == ast.OpSubSat
	switch {
	case signed:
		return func(m *machine) uint64 {
			a := sign64(x(m), w)
			return satSigned(a, sign64(y(m), w), w, sub)
		}
	case sub:
		return func(m *machine) uint64 {
			a := x(m)
			b := y(m)
			if b > a {
				return 0
			}
			return a - b
		}
	}
	return func(m *machine) uint64 {
		a := x(m)
		s, carry := bits.Add64(a, y(m), 0)
		if carry != 0 || s > mask {
			return mask
		}
		return s
	}
}

// shift is x << y or x >> y, which keeps the sign of a signed x; k is y if that is constant.
func shift(o ast.Op, w int, signed bool, x, y num, k *uint64) num {
	mask := mask64(w)
	s := uint(0)
	if k != nil {
		s = uint(min(*k, 64))
	}
	switch {
	case o == ast.OpShl && k != nil:
		return func(m *machine) uint64 { return x(m) << s & mask }
	case o == ast.OpShl:
		return func(m *machine) uint64 {
			a := x(m)
			return a << min(y(m), 64) & mask
		}
	case signed:
		return func(m *machine) uint64 {
			a := sign64(x(m), w)
			return uint64(a>>min(y(m), 63)) & mask
		}
	case k != nil:
		return func(m *machine) uint64 { return x(m) >> s }
	}
	return func(m *machine) uint64 {
		a := x(m)
		return a >> min(y(m), 64)
	}
}

// bitwise is x & y, x | y or x ^ y; k is y if that is constant.
func bitwise(o ast.Op, x, y num, k *uint64) num {
	switch {
	case o == ast.OpAnd && k != nil:
		k := *k
		return func(m *machine) uint64 { return x(m) & k }
	case o == ast.OpAnd:
		return func(m *machine) uint64 { a := x(m); return a & y(m) }
	case o == ast.OpOr:
		return func(m *machine) uint64 { a := x(m); return a | y(m) }
	}
	return func(m *machine) uint64 { a := x(m); return a ^ y(m) }
}

// satSigned is a+b or a-b held within w bits of two's complement.
func satSigned(a, b int64, w int, sub bool) uint64 {
	lo, hi := int64(-1)<<uint(w-1), int64(mask64(w-1))
	var s int64
	var over bool
	if sub {
		s = a - b
		over = (a >= 0) != (b >= 0) && (s >= 0) != (a >= 0)
	} else {
		s = a + b
		over = (a >= 0) == (b >= 0) && (s >= 0) != (a >= 0)
	}
	switch {
	case over && a >= 0, !over && s > hi:
		s = hi
	case over || s < lo:
		s = lo
	}
	return uint64(s) & mask64(w)
}

func (c *compiler) compare(e *ast.Binary, w int) num {
	x, y := c.num(e.X), c.num(e.Y)
	if isSigned(e.X.Type()) {
		switch e.Op {
		case ast.OpLT:
			return func(m *machine) uint64 { a := sign64(x(m), w); return b2u(a < sign64(y(m), w)) }
		case ast.OpLE:
			return func(m *machine) uint64 { a := sign64(x(m), w); return b2u(a <= sign64(y(m), w)) }
		case ast.OpGT:
			return func(m *machine) uint64 { a := sign64(x(m), w); return b2u(a > sign64(y(m), w)) }
		}
		return func(m *machine) uint64 { a := sign64(x(m), w); return b2u(a >= sign64(y(m), w)) }
	}
	switch e.Op {
	case ast.OpLT:
		return func(m *machine) uint64 { a := x(m); return b2u(a < y(m)) }
	case ast.OpLE:
		return func(m *machine) uint64 { a := x(m); return b2u(a <= y(m)) }
	case ast.OpGT:
		return func(m *machine) uint64 { a := x(m); return b2u(a > y(m)) }
	}
	return func(m *machine) uint64 { a := x(m); return b2u(a >= y(m)) }
}

// operands puts two values into memory, the first copied if the second's evaluation could change it.
func (c *compiler) operands(x, y ast.Expr) (act, place, place) {
	px, lx := c.ref(x)
	var as []act
	if px != nil {
		as = append(as, px)
	}
	if hasCall(y) {
		t := c.temp(x.Type())
		as = append(as, c.copyTo(t, lx))
		lx = t
	}
	py, ly := c.ref(y)
	if py != nil {
		as = append(as, py)
	}
	if lx.slice {
		t := c.temp(x.Type())
		as = append(as, c.copyTo(t, lx))
		lx = t
	}
	if ly.slice {
		t := c.temp(y.Type())
		as = append(as, c.copyTo(t, ly))
		ly = t
	}
	a := acts(as)
	if a == nil {
		a = func(*machine) {}
	}
	return a, lx, ly
}

func (c *compiler) compareWide(e *ast.Binary, w int) num {
	pre, x, y := c.operands(e.X, e.Y)
	n := wordsOf(w)
	signed := isSigned(e.X.Type())
	o := e.Op
	return func(m *machine) uint64 {
		pre(m)
		xa, ya := x.at(m), y.at(m)
		a, b := m.w[xa:xa+n], m.w[ya:ya+n]
		r := wideCmp(a, b)
		if signed && signBit(a, w) != signBit(b, w) {
			r = -r
		}
		switch o {
		case ast.OpLT:
			return b2u(r < 0)
		case ast.OpLE:
			return b2u(r <= 0)
		case ast.OpGT:
			return b2u(r > 0)
		}
		return b2u(r >= 0)
	}
}

// equal compares any two values of one type.
func (c *compiler) equal(e *ast.Binary) num {
	ne := b2u(e.Op == ast.OpNE)
	if w, ok := scalarWidth(e.X.Type()); ok && w <= 64 {
		x := c.num(e.X)
		if v := e.Y.Const(); v != nil {
			k := c.num(e.Y)(nil)
			return func(m *machine) uint64 { return b2u(x(m) == k) ^ ne }
		}
		y := c.num(e.Y)
		return func(m *machine) uint64 { a := x(m); return b2u(a == y(m)) ^ ne }
	}
	pre, x, y := c.operands(e.X, e.Y)
	t := e.X.Type()
	if l, ok := types.Underlying(t).(*types.Struct); !ok || len(l.Fields) == 0 {
		if _, ok := types.Underlying(e.Y.Type()).(*types.Struct); ok {
			t = e.Y.Type()
		}
	}
	same := sameValue(t)
	return func(m *machine) uint64 {
		pre(m)
		return b2u(same(m.w, x.at(m), y.at(m))) ^ ne
	}
}

// sameFunc compares two values in memory, which begin at a and b.
type sameFunc func(w []uint64, a, b int) bool

// sameValue compares two values in memory: headers are equal if both are invalid, or both valid with equal fields.
func sameValue(t types.Type) sameFunc {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		var parts []samePart
		for i, f := range u.Fields {
			parts = append(parts, samePart{fieldAt(u, i), sameValue(f.Type)})
		}
		all := sameParts(parts)
		if u.Kind != types.Header {
			return all
		}
		return func(w []uint64, a, b int) bool { return w[a] == w[b] && (w[a] == 0 || all(w, a, b)) }
	case *types.Tuple:
		var parts []samePart
		at := 0
		for _, e := range u.Elems {
			parts = append(parts, samePart{at, sameValue(e)})
			at += size(e)
		}
		return sameParts(parts)
	case *types.Stack:
		var parts []samePart
		elem, n := sameValue(u.Elem), size(u.Elem)
		for i := range u.Size {
			parts = append(parts, samePart{1 + i*n, elem})
		}
		return sameParts(parts)
	}
	n := size(t)
	return func(w []uint64, a, b int) bool { return slices.Equal(w[a:a+n], w[b:b+n]) }
}

// samePart compares a part of two values, at words behind where they begin.
type samePart struct {
	at   int
	same sameFunc
}

func sameParts(parts []samePart) sameFunc {
	return func(w []uint64, a, b int) bool {
		for _, p := range parts {
			if !p.same(w, a+p.at, b+p.at) {
				return false
			}
		}
		return true
	}
}

// cast to a type of up to 64 bits.
func (c *compiler) cast(e *ast.Cast) num {
	e = c.castOfInt(e)
	to, ok := scalarWidth(e.Type())
	from, ok2 := scalarWidth(e.X.Type())
	if !ok || !ok2 {
		// A struct or list of one field, or the like.
		c.failf(e, "not supported: cast of %s to %s", e.X.Type(), e.Type())
	}
	if from > 64 {
		pre, p := c.ref(e.X)
		l := c.load(c.sliceOf(p, to))
		return func(m *machine) uint64 {
			if pre != nil {
				pre(m)
			}
			return l(m)
		}
	}
	x := c.num(e.X)
	switch {
	case to < from:
		mask := mask64(to)
		return func(m *machine) uint64 { return x(m) & mask }
	case to > from && isSigned(e.X.Type()):
		mask := mask64(to)
		return func(m *machine) uint64 { return uint64(sign64(x(m), from)) & mask }
	}
	return x
}

// sliceOf is the w low bits of the number at p.
func (c *compiler) sliceOf(p place, w int) place {
	if p.slice {
		p.w = min(w, p.w)
		return p
	}
	whole, _ := scalarWidth(p.t)
	p.slice, p.whole, p.lo, p.w = true, whole, 0, w
	p.t = &types.Bit{Width: w}
	return p
}
