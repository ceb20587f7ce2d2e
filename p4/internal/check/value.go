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
	case ast.ListValue, ast.HeaderValue:
		if a.Kind == ast.HeaderValue {
			if a.Valid != b.Valid {
				return false, true
			}
			if !a.Valid {
				return true, true
			}
		}
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
	return false, false
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
		return &ast.Value{Kind: ast.ErrorValue, Member: "NoError"}
	case *types.Enum:
		if t.Underlying != nil {
			return smallVal(0)
		}
		if len(t.Members) > 0 {
			return &ast.Value{Kind: ast.EnumValue, Member: t.Members[0]}
		}
	case *types.Struct:
		v := &ast.Value{Kind: ast.ListValue}
		switch t.Kind {
		case types.Header:
			v.Kind = ast.HeaderValue
		case types.Union:
			return nil
		}
		for _, f := range t.Fields {
			e := c.zero(f.Type)
			if e == nil {
				return nil
			}
			v.Elems = append(v.Elems, e)
		}
		return v
	case *types.Tuple:
		v := &ast.Value{Kind: ast.ListValue}
		for _, f := range t.Elems {
			e := c.zero(f)
			if e == nil {
				return nil
			}
			v.Elems = append(v.Elems, e)
		}
		return v
	}
	return nil
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
		eq, ok := equalValues(x, y)
		if !ok {
			return nil
		}
		return boolVal(eq == (op == ast.OpEQ))
	case ast.OpLAnd:
		return boolVal(x.Bool && y.Bool)
	case ast.OpLOr:
		return boolVal(x.Bool || y.Bool)
	}
	if x.Kind == ast.StringValue && y.Kind == ast.StringValue && op == ast.OpConcat {
		if len(x.String)+len(y.String) > 1<<20 {
			c.errorf(p, "not supported: a string of more than 1 MiB")
			return nil
		}
		return &ast.Value{Kind: ast.StringValue, String: x.String + y.String}
	}
	if !isInt(x) || !isInt(y) {
		return nil
	}
	a, b := x.Int, y.Int
	switch op {
	case ast.OpLT:
		return boolVal(a.Cmp(b) < 0)
	case ast.OpLE:
		return boolVal(a.Cmp(b) <= 0)
	case ast.OpGT:
		return boolVal(a.Cmp(b) > 0)
	case ast.OpGE:
		return boolVal(a.Cmp(b) >= 0)
	}
	var r *big.Int
	switch op {
	case ast.OpDiv, ast.OpMod:
		r = c.quotient(p, op, a, b, t)
	case ast.OpShl, ast.OpShr:
		r = c.shifted(p, op, a, b, t)
	case ast.OpConcat:
		wy, ok := types.Width(yt)
		wx, okx := types.Width(xt)
		if !ok || !okx {
			return nil
		}
		r = new(big.Int).And(a, mask(wx))
		r.Or(r.Lsh(r, uint(wy)), new(big.Int).And(b, mask(wy)))
	default:
		r = arith(op, a, b, t)
	}
	if r == nil {
		return nil
	}
	if r.BitLen() > maxIntBits {
		return c.tooLarge(p)
	}
	return intVal(wrap(r, t))
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
	case t == types.Integer && (x.Sign() < 0 || y.Sign() < 0):
		c.errorf(p, "%s of a negative number: the specification defines it for none", op)
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
