package check

import (
	"math/big"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func intVal(n *big.Int) *ast.Value              { return &ast.Value{Kind: ast.IntValue, Int: n} }
func boolVal(b bool) *ast.Value                 { return &ast.Value{Kind: ast.BoolValue, Bool: b} }
func smallVal(n int) *ast.Value                 { return intVal(big.NewInt(int64(n))) }
func one(shift int) *big.Int                    { return new(big.Int).Lsh(big.NewInt(1), uint(shift)) }
func mask(width int) *big.Int                   { return new(big.Int).Sub(one(width), big.NewInt(1)) }
func isInt(v *ast.Value) bool                   { return v != nil && v.Kind == ast.IntValue && v.Int != nil }
func isKind(v *ast.Value, k ast.ValueKind) bool { return v != nil && v.Kind == k }

// wrap brings an integer into the range of its type.
func wrap(n *big.Int, t types.Type) *big.Int {
	switch t := types.Underlying(t).(type) {
	case *types.Bit:
		return new(big.Int).And(n, mask(t.Width))
	case *types.Int:
		m := new(big.Int).And(n, mask(t.Width))
		if t.Width > 0 && m.Bit(t.Width-1) == 1 {
			m.Sub(m, one(t.Width))
		}
		return m
	case *types.Enum:
		if t.Underlying != nil {
			return wrap(n, t.Underlying)
		}
	}
	return n
}

// equalValues compares two values of one type; ok is false if that is unknown.
func equalValues(a, b *ast.Value) (eq, ok bool) {
	if a == nil || b == nil || a.Kind != b.Kind {
		return false, false
	}
	switch a.Kind {
	case ast.IntValue:
		return a.Int.Cmp(b.Int) == 0, true
	case ast.BoolValue:
		return a.Bool == b.Bool, true
	case ast.StringValue:
		return a.String == b.String, true
	case ast.EnumValue, ast.ErrorValue, ast.MatchValue:
		return a.Member == b.Member, true
	case ast.HeaderValue:
		if a.Valid != b.Valid || !a.Valid {
			return a.Valid == b.Valid, true
		}
		return equalElems(a, b)
	case ast.ListValue:
		return equalElems(a, b)
	}
	return false, false
}

func equalElems(a, b *ast.Value) (eq, ok bool) {
	if len(a.Elems) != len(b.Elems) {
		return false, false
	}
	for i := range a.Elems {
		if e, ok := equalValues(a.Elems[i], b.Elems[i]); !e || !ok {
			return e, ok
		}
	}
	return true, true
}

// zero is the default value of a type, nil if it has none that is a constant.
func (c *checker) zero(t types.Type) *ast.Value {
	switch t := types.Underlying(t).(type) {
	case *types.Bit, *types.Int, *types.Varbit:
		return smallVal(0)
	case *types.Basic:
		switch t {
		case types.Bool:
			return boolVal(false)
		case types.Integer:
			return smallVal(0)
		case types.String:
			return &ast.Value{Kind: ast.StringValue}
		}
	case *types.Error:
		return &ast.Value{Kind: ast.ErrorValue, Member: noError}
	case *types.Enum:
		if t.Underlying != nil {
			return smallVal(0)
		}
		if len(t.Members) > 0 {
			return &ast.Value{Kind: ast.EnumValue, Member: t.Members[0]}
		}
	case *types.Struct:
		if t.Kind == types.Union {
			return nil
		}
		elems, _ := elemTypes(t)
		return c.zeros(kindOf(t), elems)
	case *types.Tuple:
		return c.zeros(ast.ListValue, t.Elems)
	}
	return nil
}

// zeros are the default values of a struct's or tuple's elements; nil if one has none. A header is invalid.
func (c *checker) zeros(k ast.ValueKind, elems []types.Type) *ast.Value {
	v := &ast.Value{Kind: k}
	for _, t := range elems {
		e := c.zero(t)
		if e == nil {
			return nil
		}
		v.Elems = append(v.Elems, e)
	}
	return v
}

// castValue converts a constant; nil if it cannot.
func castValue(v *ast.Value, to types.Type) *ast.Value {
	if v == nil {
		return nil
	}
	t := types.Underlying(to)
	switch {
	case v.Kind == ast.IntValue:
		if t == types.Bool {
			return boolVal(v.Int.Sign() != 0)
		}
		return intVal(wrap(v.Int, t))
	case v.Kind == ast.BoolValue && t != types.Bool:
		if v.Bool {
			return smallVal(1)
		}
		return smallVal(0)
	}
	return v
}

// binaryValue folds x op y; nil if it cannot. t is the operands' type.
func (c *checker) binaryValue(p ast.Pos, op ast.Op, x, y *ast.Value, xt, yt, t types.Type) *ast.Value {
	if x == nil || y == nil {
		return nil
	}
	switch op {
	case ast.OpEQ, ast.OpNE:
		return equated(op, x, y)
	case ast.OpConcat:
		if x.Kind == ast.StringValue && y.Kind == ast.StringValue {
			return c.joined(p, x, y)
		}
	}
	if !isInt(x) || !isInt(y) {
		return nil
	}
	if less := ordered(op, x.Int.Cmp(y.Int)); less != nil {
		return less
	}
	var r *big.Int
	switch op {
	case ast.OpDiv, ast.OpMod:
		r = c.quotient(p, op, x.Int, y.Int, t)
	case ast.OpShl, ast.OpShr:
		r = c.shifted(p, op, x.Int, y.Int, t)
	case ast.OpConcat:
		r = concatenated(x.Int, y.Int, xt, yt)
	default:
		r = arith(op, x.Int, y.Int, t)
	}
	switch {
	case r == nil:
		return nil
	case r.BitLen() > maxIntBits:
		return c.tooLarge(p)
	}
	return intVal(wrap(r, t))
}

// equated is x == y or x != y; nil if that is not known.
func equated(op ast.Op, x, y *ast.Value) *ast.Value {
	eq, ok := equalValues(x, y)
	if !ok {
		return nil
	}
	return boolVal(eq == (op == ast.OpEQ))
}

// joined is x ++ y of strings.
func (c *checker) joined(p ast.Pos, x, y *ast.Value) *ast.Value {
	if len(x.String)+len(y.String) > 1<<20 {
		c.errorf(p, "not supported: a string of more than 1 MiB")
		return nil
	}
	return &ast.Value{Kind: ast.StringValue, String: x.String + y.String}
}

// ordered is x op y for an op that compares, where order is that of x and y; nil for another.
func ordered(op ast.Op, order int) *ast.Value {
	switch op {
	case ast.OpLT:
		return boolVal(order < 0)
	case ast.OpLE:
		return boolVal(order <= 0)
	case ast.OpGT:
		return boolVal(order > 0)
	case ast.OpGE:
		return boolVal(order >= 0)
	}
	return nil
}

// concatenated is x ++ y of numbers; nil if a width is not known.
func concatenated(x, y *big.Int, xt, yt types.Type) *big.Int {
	wx, okx := types.Width(xt)
	wy, oky := types.Width(yt)
	if !okx || !oky {
		return nil
	}
	r := new(big.Int).And(x, mask(wx))
	return r.Or(r.Lsh(r, uint(wy)), new(big.Int).And(y, mask(wy)))
}

// arith is x op y where every result is a number; nil for other operators.
func arith(op ast.Op, x, y *big.Int, t types.Type) *big.Int {
	r := new(big.Int)
	switch op {
	case ast.OpAdd:
		return r.Add(x, y)
	case ast.OpSub:
		return r.Sub(x, y)
	case ast.OpMul:
		return r.Mul(x, y)
	case ast.OpAddSat:
		return saturate(r.Add(x, y), t)
	case ast.OpSubSat:
		return saturate(r.Sub(x, y), t)
	case ast.OpAnd:
		return r.And(x, y)
	case ast.OpOr:
		return r.Or(x, y)
	case ast.OpXor:
		return r.Xor(x, y)
	}
	return nil
}

// quotient is x / y or x % y; nil after an error.
func (c *checker) quotient(p ast.Pos, op ast.Op, x, y *big.Int, t types.Type) *big.Int {
	switch {
	case y.Sign() == 0:
		c.errorf(p, "division by zero")
	case op == ast.OpDiv:
		return new(big.Int).Quo(x, y)
	default:
		return new(big.Int).Rem(x, y)
	}
	return nil
}

// shifted is x << y or x >> y; nil after an error.
func (c *checker) shifted(p ast.Pos, op ast.Op, x, y *big.Int, t types.Type) *big.Int {
	if y.Sign() < 0 {
		return nil
	}
	n := maxIntBits + 1
	if y.IsInt64() && y.Int64() < int64(n) {
		n = int(y.Int64())
	}
	if op == ast.OpShr {
		return new(big.Int).Rsh(x, uint(n))
	}
	if w, ok := types.Width(t); ok && n >= w {
		return new(big.Int)
	}
	if n > maxIntBits && x.Sign() != 0 {
		c.tooLarge(p)
		return nil
	}
	return new(big.Int).Lsh(x, uint(n))
}

func (c *checker) tooLarge(p ast.Pos) *ast.Value {
	c.errorf(p, "not supported: a constant of more than %d bits", maxIntBits)
	return nil
}

func saturate(n *big.Int, t types.Type) *big.Int {
	lo := new(big.Int)
	var hi *big.Int
	switch t := t.(type) {
	case *types.Bit:
		hi = mask(t.Width)
	case *types.Int:
		hi = mask(t.Width - 1)
		lo.Neg(one(t.Width - 1))
	default:
		return n
	}
	if n.Cmp(lo) < 0 {
		return lo
	}
	if n.Cmp(hi) > 0 {
		return hi
	}
	return n
}
