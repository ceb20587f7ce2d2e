package run

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// Values of the type int have any number of bits (specification, 7.1.6.5). Where one depends on the packet, its
// expression is computed in int<W>, W being wide enough for every operand and result.

// maxIntBits bounds W.
const maxIntBits = 4096

// widened gives an expression of type int as one of a type int<W> with the same value.
func (c *compiler) widened(e ast.Expr) ast.Expr {
	if v := e.Const(); v != nil && v.Kind == ast.IntValue {
		return c.toInt(e, v.Int.BitLen()+1)
	}
	switch x := e.(type) {
	case *ast.Ident: // a parameter: its place is that of the argument's int<W>
		if p, ok := c.env[x.Decl]; ok {
			y := *x
			y.T = p.t
			return &y
		}
	case *ast.Cast:
		if x.X.Type() == types.Integer {
			return c.widened(x.X)
		}
		w, _ := scalarWidth(x.X.Type())
		if !isSigned(x.X.Type()) {
			w++
		}
		return c.toInt(x.X, w)
	case *ast.Unary:
		y := *x
		switch y.X = c.widened(x.X); x.Op {
		case ast.OpPlus:
			return y.X
		case ast.OpNeg:
			y.X = c.toInt(y.X, intBits(y.X)+1)
			y.T = y.X.Type()
			return &y
		}
	case *ast.Ternary:
		y := *x
		y.Then, y.Else = c.widenedPair(x.Then, x.Else)
		y.T = y.Then.Type()
		return &y
	case *ast.Binary:
		if y := c.widenedBinary(x); y != nil {
			return y
		}
		c.failf(e, "not supported: operator %s on int", x.Op)
	}
	c.failf(e, "not supported: this expression of type int here")
	return nil
}

// castOfInt is a cast whose operand has no type int: an int<W> stands in its place.
func (c *compiler) castOfInt(e *ast.Cast) *ast.Cast {
	if e.X.Type() != types.Integer || e.Type() == types.Bool {
		return e
	}
	y := *e
	y.X = c.widened(e.X)
	return &y
}

// widenedBinary is widened for an operator; nil if its result has no bound, or none is known here.
func (c *compiler) widenedBinary(x *ast.Binary) ast.Expr {
	y := *x
	switch x.Op {
	case ast.OpShl, ast.OpShr:
		k := constOf(x.Y)
		if k == nil {
			return nil
		}
		y.X = c.widened(x.X)
		if x.Op == ast.OpShl {
			y.X = c.toInt(y.X, intBits(y.X)+int(min(*k, maxIntBits)))
		}
	case ast.OpAdd, ast.OpSub, ast.OpMul, ast.OpAnd, ast.OpOr, ast.OpXor:
		y.X, y.Y = c.widenedPair(x.X, x.Y)
		w := intBits(y.X)
		switch x.Op {
		case ast.OpAdd, ast.OpSub:
			w++
		case ast.OpMul:
			w *= 2
		}
		y.X, y.Y = c.toInt(y.X, w), c.toInt(y.Y, w)
	default:
		return nil
	}
	y.T = y.X.Type()
	return &y
}

// widenedPair gives two expressions of type int one type int<W>.
func (c *compiler) widenedPair(x, y ast.Expr) (wx, wy ast.Expr) {
	wx, wy = c.widened(x), c.widened(y)
	w := max(intBits(wx), intBits(wy))
	return c.toInt(wx, w), c.toInt(wy, w)
}

// toInt is e, a number, as an int<w> with its value.
func (c *compiler) toInt(e ast.Expr, w int) ast.Expr {
	if w > maxIntBits {
		c.failf(e, "not supported: an int of more than %d bits that depends on the packet", maxIntBits)
	}
	n := &ast.Cast{X: e, Implicit: true}
	n.P, n.T, n.V = e.Pos(), &types.Int{Width: w}, e.Const()
	return n
}

func intBits(e ast.Expr) int {
	w, _ := scalarWidth(e.Type())
	return w
}
