package check

import (
	"reflect"
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// sameExpr reports whether two expressions are written alike.
func sameExpr(a, b ast.Expr) bool {
	if a == nil || b == nil {
		return a == b
	}
	if x, y := a.Const(), b.Const(); x != nil || y != nil {
		eq, ok := equalValues(x, y)
		return a == b || eq && ok
	}
	x, xs := parts(a)
	y, ys := parts(b)
	return a == b || x.kind != nil && x == y && slices.EqualFunc(xs, ys, sameExpr)
}

// exprHead identifies an expression's operator, apart from its operands.
type exprHead struct {
	kind   reflect.Type // nil for expressions that equal no other
	name   string
	decl   ast.Decl
	hi, lo int
	op     ast.Op
	call   ast.CallKind
}

// parts takes an expression apart; an operand that is missing is nil.
func parts(e ast.Expr) (exprHead, []ast.Expr) {
	k := reflect.TypeOf(e)
	switch e := e.(type) {
	case *ast.Ident:
		return exprHead{kind: k, name: e.Name, decl: e.Decl}, nil
	case *ast.Member:
		return exprHead{kind: k, name: e.Name}, []ast.Expr{e.X}
	case *ast.Index:
		return exprHead{kind: k}, []ast.Expr{e.X, e.I}
	case *ast.Slice:
		h := exprHead{kind: k, hi: e.HiN, lo: e.LoN}
		if e.Plus {
			return h, []ast.Expr{e.X, e.Lo}
		}
		return h, []ast.Expr{e.X}
	case *ast.Cast:
		return exprHead{kind: k, name: e.T.String()}, []ast.Expr{e.X}
	case *ast.Unary:
		return exprHead{kind: k, op: e.Op}, []ast.Expr{e.X}
	case *ast.Binary:
		return exprHead{kind: k, op: e.Op}, []ast.Expr{e.X, e.Y}
	case *ast.Call:
		return exprHead{kind: k, call: e.Kind, decl: e.Func}, append(boundExprs(e.Bound), e.Recv)
	case *ast.List:
		return exprHead{kind: k}, e.Elems
	case *ast.StructLit:
		h := exprHead{kind: k}
		var xs []ast.Expr
		for _, f := range e.Fields {
			h.name += f.Name + " "
			xs = append(xs, f.Value)
		}
		return h, xs
	case *ast.Ternary:
		return exprHead{kind: k}, []ast.Expr{e.Cond, e.Then, e.Else}
	}
	return exprHead{}, nil
}

func boundExprs(bs []*ast.BoundArg) []ast.Expr {
	xs := make([]ast.Expr, len(bs))
	for i, b := range bs {
		xs[i] = b.Expr
	}
	return xs
}
