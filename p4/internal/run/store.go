package run

import (
	"math/big"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// store compiles the evaluation of e, of any type, into dst.
func (c *compiler) store(e ast.Expr, dst place) act {
	c.step(e)
	t := e.Type()
	if w, ok := scalarWidth(t); ok && w <= 64 {
		return c.put(dst, c.num(e))
	}
	if v := e.Const(); v != nil && v.Kind != ast.InstanceValue {
		return c.storeConst(e, v, dst)
	}
	switch e := e.(type) {
	case *ast.Ident, *ast.Member, *ast.Index, *ast.Slice:
		return c.storePlace(e, dst)
	case *ast.Cast:
		return c.storeCast(e, dst)
	case *ast.Dots:
		return c.zero(dst)
	case *ast.InvalidHeader:
		return c.withUnion(dst, c.zero(dst))
	case *ast.List:
		return c.storeParts(t, dst, len(e.Elems), func(i int) (int, ast.Expr) { return i, e.Elems[i] })
	case *ast.StructLit:
		return c.storeParts(t, dst, len(e.Fields), func(i int) (int, ast.Expr) { return e.Fields[i].Index, e.Fields[i].Value })
	case *ast.Ternary:
		return c.storeChoice(e, dst)
	case *ast.Call:
		return c.callStore(e, dst)
	case *ast.Unary:
		return c.unaryWide(e, dst)
	case *ast.Binary:
		return c.binaryWide(e, dst)
	}
	c.failf(e, "not supported: this expression of type %s here", t)
	return nil
}

// storePlace copies what lies in memory.
func (c *compiler) storePlace(e ast.Expr, dst place) act {
	pre, src := c.ref(e)
	if src.t == nil || size(src.t) != size(e.Type()) {
		src.t = e.Type()
	}
	return acts(append(nonNil(pre), c.copyTo(dst, src)))
}

// storeConst puts a value that is known when the program is compiled into dst.
func (c *compiler) storeConst(e ast.Expr, v *ast.Value, dst place) act {
	t := e.Type()
	ct := t
	if dst.t != nil && size(dst.t) != size(t) {
		ct = dst.t
	}
	words, err := constWords(ct, v)
	c.check(e, err)
	if dst.slice {
		tmp := c.temp(t)
		return acts([]act{setConst(tmp, words), c.copyTo(dst, tmp)})
	}
	return c.withUnion(dst, setConst(dst, words))
}

func (c *compiler) storeChoice(e *ast.Ternary, dst place) act {
	cond, a, b := c.num(e.Cond), c.store(e.Then, dst), c.store(e.Else, dst)
	return func(m *machine) {
		if cond(m) != 0 {
			a(m)
		} else {
			b(m)
		}
	}
}

func setConst(dst place, words []uint64) act {
	n := len(words)
	return func(m *machine) {
		at := dst.at(m)
		copy(m.w[at:at+n], words)
	}
}

// withUnion appends what a union's other members need after the whole of dst was written.
func (c *compiler) withUnion(dst place, a act) act {
	if dst.union == nil || dst.slice {
		return a
	}
	return acts([]act{a, c.unionAfter(dst)})
}

func (c *compiler) zero(dst place) act {
	n := size(dst.t)
	if dst.slice {
		return c.put(dst, func(*machine) uint64 { return 0 })
	}
	off := dst.off
	if dst.dyn == nil {
		if n == 1 {
			return func(m *machine) { m.w[off] = 0 }
		}
		return func(m *machine) { clear(m.w[off : off+n]) }
	}
	return func(m *machine) {
		at := dst.at(m)
		clear(m.w[at : at+n])
	}
}

// storeParts evaluates the parts of a struct, header, tuple or stack into a temporary
// (they may read what is assigned to) and copies that to dst.
func (c *compiler) storeParts(t types.Type, dst place, n int, part func(int) (int, ast.Expr)) act {
	tmp := c.temp(t)
	as := []act{c.zero(tmp)}
	for i := range n {
		j, e := part(i)
		var p place
		switch u := types.Underlying(t).(type) {
		case *types.Struct:
			p = tmp.add(fieldAt(u, j), u.Fields[j].Type)
		case *types.Tuple:
			at := 0
			for _, x := range u.Elems[:j] {
				at += size(x)
			}
			p = tmp.add(at, u.Elems[j])
		case *types.Stack:
			p = tmp.add(1+j*size(u.Elem), u.Elem)
		default:
			c.failf(e, "not supported: list of type %s", t)
		}
		if _, ok := e.(*ast.Dots); ok {
			continue
		}
		as = append(as, c.store(e, p))
	}
	if s, ok := types.Underlying(t).(*types.Struct); ok && s.Kind == types.Header {
		off := tmp.off
		as = append(as, func(m *machine) { m.w[off] = 1 })
	}
	return acts(append(as, c.copyTo(dst, tmp)))
}

// storeCast is a cast to a wide number or to a type of several parts.
func (c *compiler) storeCast(e *ast.Cast, dst place) act {
	e = c.castOfInt(e)
	to, ok := scalarWidth(e.Type())
	if !ok {
		return c.storeParted(e, dst)
	}
	from, ok := scalarWidth(e.X.Type())
	if !ok {
		c.failf(e, "not supported: cast of %s to %s", e.X.Type(), e.Type())
	}
	if to == from {
		return c.store(e.X, dst)
	}
	return c.storeWidened(e, dst, from, to)
}

// storeParted is a cast to a type of several parts.
func (c *compiler) storeParted(e *ast.Cast, dst place) act {
	if sameRep(e.Type(), e.X.Type()) || size(e.Type()) == size(e.X.Type()) {
		return c.store(e.X, dst)
	}
	// A tuple becomes a struct or a header: the header is valid.
	s, ok := types.Underlying(e.Type()).(*types.Struct)
	if !ok || s.Kind != types.Header || size(e.X.Type())+1 != size(e.Type()) {
		c.failf(e, "not supported: cast of %s to %s", e.X.Type(), e.Type())
	}
	tmp := c.temp(e.Type())
	off := tmp.off
	return acts([]act{
		c.store(e.X, place{t: e.X.Type(), off: off + 1}),
		func(m *machine) { m.w[off] = 1 },
		c.copyTo(dst, tmp),
	})
}

// storeWidened is a number of from bits as one of to, either of more than a word.
func (c *compiler) storeWidened(e *ast.Cast, dst place, from, to int) act {
	n := wordsOf(to)
	wide := c.temp(e.Type())
	signed := isSigned(e.X.Type())
	var fill act
	if from <= 64 {
		x := c.num(e.X)
		fill = func(m *machine) {
			v := x(m)
			d := m.w[wide.off : wide.off+n]
			clear(d)
			d[0] = v
			if signed {
				extendSign(d, from)
				trim(d, to)
			}
		}
	} else {
		pre, src := c.ref(e.X)
		if src.slice {
			tmp := c.temp(e.X.Type())
			pre = acts(append(nonNil(pre), c.copyTo(tmp, src)))
			src = tmp
		}
		nf := wordsOf(from)
		fill = func(m *machine) {
			if pre != nil {
				pre(m)
			}
			at := src.at(m)
			d := m.w[wide.off : wide.off+n]
			clear(d)
			copy(d, m.w[at:at+nf])
			if signed && to > from {
				extendSign(d, from)
			}
			trim(d, to)
		}
	}
	return acts([]act{fill, c.copyTo(dst, wide)})
}

func nonNil(a act) []act {
	if a == nil {
		return nil
	}
	return []act{a}
}

func (c *compiler) unaryWide(e *ast.Unary, dst place) act {
	w, ok := scalarWidth(e.Type())
	if !ok {
		c.failf(e, "not supported: operator %s on %s", e.Op, e.Type())
	}
	n := wordsOf(w)
	tmp := c.temp(e.Type())
	fill := c.store(e.X, tmp)
	o := e.Op
	return acts([]act{fill, func(m *machine) {
		d := m.w[tmp.off : tmp.off+n]
		switch o {
		case ast.OpCompl:
			for i := range d {
				d[i] = ^d[i]
			}
		case ast.OpNeg:
			carry := uint64(1)
			for i := range d {
				d[i] = ^d[i] + carry
				carry &= b2u(d[i] == 0)
			}
		}
		trim(d, w)
	}, c.copyTo(dst, tmp)})
}

func (c *compiler) binaryWide(e *ast.Binary, dst place) act {
	w, ok := scalarWidth(e.Type())
	if !ok {
		c.failf(e, "not supported: operator %s giving %s", e.Op, e.Type())
	}
	return c.arithWide(e, e.Op, e.X, e.Y, w, isSigned(e.Type()), dst)
}

func (c *compiler) arithWide(at ast.Node, o ast.Op, ex, ey ast.Expr, w int, signed bool, dst place) act {
	if o == ast.OpDiv || o == ast.OpMod {
		o, ey = byPowerOfTwo(o, ey)
	}
	n := wordsOf(w)
	tmp := c.temp(dstType(dst, ex))
	if size(tmp.t) != n {
		tmp.off = c.alloc(n)
	}
	res := place{t: &types.Bit{Width: w}, off: tmp.off}
	switch o {
	case ast.OpShl, ast.OpShr:
		return acts([]act{c.shiftWide(o, ex, ey, w, signed, res.off), c.copyTo(dst, res)})
	case ast.OpConcat:
		return acts([]act{c.concatWide(ex, ey, w, res.off), c.copyTo(dst, res)})
	}
	f := wideOp(o, w, signed)
	if f == nil {
		c.failf(at, "not supported: operator %s on %d bits", o, w)
	}
	pre, x, y := c.operands(ex, ey)
	return acts([]act{pre, func(m *machine) {
		xa, ya := x.at(m), y.at(m)
		f(m.w[res.off:res.off+n], m.w[xa:xa+n], m.w[ya:ya+n])
	}, c.copyTo(dst, res)})
}

// shiftWide is x << y or x >> y on w bits, into the words from res on.
func (c *compiler) shiftWide(o ast.Op, ex, ey ast.Expr, w int, signed bool, res int) act {
	pre, x := c.ref(ex)
	as := nonNil(pre)
	if x.slice || hasCall(ey) {
		t := c.temp(ex.Type())
		as = append(as, c.copyTo(t, x))
		x = t
	}
	y, n := c.shiftOrNum(o, ey), wordsOf(w)
	return acts(append(as, func(m *machine) {
		s := y(m)
		a := x.at(m)
		d, v := m.w[res:res+n], m.w[a:a+n]
		if o == ast.OpShl {
			wideShl(d, v, s, w)
			return
		}
		var fill uint64
		copy(d, v)
		if signed && signBit(v, w) {
			fill = ^uint64(0)
			extendSign(d, w)
		}
		wideShr(d, d, s, fill)
		trim(d, w)
	}))
}

// concatWide is x ++ y of w bits, into the words from res on.
func (c *compiler) concatWide(ex, ey ast.Expr, w, res int) act {
	wx, _ := scalarWidth(ex.Type())
	wy, _ := scalarWidth(ey.Type())
	pre, x, y := c.operands(ex, ey)
	n, nx, ny := wordsOf(w), wordsOf(wx), wordsOf(wy)
	return acts([]act{pre, func(m *machine) {
		xa, ya := x.at(m), y.at(m)
		d := m.w[res : res+n]
		clear(d)
		putBits(d, m.w[ya:ya+ny], 0, wy)
		putBits(d, m.w[xa:xa+nx], wy, wx)
	}})
}

// wideOp is an operator on numbers of w bits in words; nil for another than arithmetic and bits.
func wideOp(o ast.Op, w int, signed bool) func(d, a, b []uint64) {
	switch o {
	case ast.OpAdd:
		return func(d, a, b []uint64) { wideAdd(d, a, b, w) }
	case ast.OpSub:
		return func(d, a, b []uint64) { wideSub(d, a, b, w) }
	case ast.OpMul:
		return func(d, a, b []uint64) { wideMul(d, a, b, w) }
	case ast.OpAddSat, ast.OpSubSat:
		sub := o == ast.OpSubSat
		return func(d, a, b []uint64) { wideSat(d, a, b, w, signed, sub) }
	case ast.OpAnd:
		return func(d, a, b []uint64) {
			for i := range d {
				d[i] = a[i] & b[i]
			}
		}
	case ast.OpOr:
		return func(d, a, b []uint64) {
			for i := range d {
				d[i] = a[i] | b[i]
			}
		}
	case ast.OpXor:
		return func(d, a, b []uint64) {
			for i := range d {
				d[i] = a[i] ^ b[i]
			}
		}
	}
	return nil
}

// byPowerOfTwo is a division, or what it leaves, by a constant power of two as a shift or a mask; the same operation if it is
// by something else.
func byPowerOfTwo(o ast.Op, y ast.Expr) (ast.Op, ast.Expr) {
	v := y.Const()
	if v == nil || v.Int == nil || v.Int.Sign() <= 0 || int(v.Int.TrailingZeroBits()) != v.Int.BitLen()-1 {
		return o, y
	}
	by, op, t := new(big.Int).Sub(v.Int, big.NewInt(1)), ast.OpAnd, y.Type()
	if o == ast.OpDiv {
		by, op, t = big.NewInt(int64(v.Int.BitLen()-1)), ast.OpShr, types.Type(types.Integer)
	}
	e := &ast.IntLit{Value: by}
	e.P, e.T, e.V = y.Pos(), t, &ast.Value{Kind: ast.IntValue, Int: by}
	return op, e
}

func dstType(dst place, e ast.Expr) types.Type {
	if dst.t != nil {
		return dst.t
	}
	return e.Type()
}

// wideSat is a+b or a-b, held at the ends of the range instead of wrapping round.
func wideSat(d, a, b []uint64, w int, signed, sub bool) {
	sa, sb := signBit(a, w), signBit(b, w)
	var carry uint64
	if sub {
		carry = wideSub(d, a, b, w)
	} else {
		carry = wideAdd(d, a, b, w)
	}
	if !signed {
		switch {
		case carry == 0:
		case sub:
			clear(d)
		default:
			ones(d, w)
		}
		return
	}
	over := sa == sb
	if sub {
		over = sa != sb
	}
	if over && signBit(d, w) != sa {
		if sa {
			clear(d)
			d[(w-1)/64] = 1 << uint((w-1)%64)
		} else {
			ones(d, w-1)
		}
	}
}

func ones(d []uint64, w int) {
	for i := range d {
		d[i] = ^uint64(0)
	}
	trim(d, w)
}
