package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// analyse finds which functions write to memory of their callers, and through which
// parameters.
func (g *generator) analyse() {
	for _, f := range g.funcs {
		if f.decl == nil {
			continue
		}
		sig := f.obj.Signature()
		if recv := sig.Recv(); recv != nil && isPointer(recv.Type()) {
			f.constant[recv] = true
		}
		for v := range sig.Params().Variables() {
			if isPointer(v.Type()) && !g.mapped(v.Type()) {
				f.constant[v] = true
			}
		}
		f.impure = g.writes(f)
	}
	for changed := true; changed; {
		changed = false
		for _, f := range g.funcs {
			if f.decl == nil {
				continue
			}
			for _, callee := range f.calls {
				if c := g.funcs[callee]; c != nil && c.impure && !f.impure {
					f.impure, changed = true, true
				}
			}
			for v, is := range f.constant {
				if is && !g.constantIn(f, v) {
					f.constant[v], changed = false, true
				}
			}
		}
	}
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// writes reports whether f itself writes to memory other than its variables.
func (g *generator) writes(f *function) bool {
	found := false
	see := func(x ast.Expr) {
		if g.shared(x) {
			found = true
		}
	}
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				see(x)
			}
		case *ast.IncDecStmt:
			see(n.X)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok {
				if b, ok := g.p.info.Uses[id].(*types.Builtin); ok && b.Name() == "copy" {
					found = true
				}
			}
		}
		return true
	})
	return found
}

// shared reports whether x is in memory that a pointer or a slice leads to.
func (g *generator) shared(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return g.shared(x.X)
	case *ast.StarExpr:
		return true
	case *ast.SelectorExpr:
		if s := g.p.info.Selections[x]; s != nil && s.Indirect() {
			return true
		}
		return g.shared(x.X)
	case *ast.IndexExpr:
		if _, ok := g.p.info.TypeOf(x.X).Underlying().(*types.Array); ok {
			return g.shared(x.X)
		}
		return true
	case *ast.Ident:
		if v, ok := g.p.info.Uses[x].(*types.Var); ok {
			_, global := g.p.decls[v]
			return global
		}
		return false
	}
	return true
}

// constantIn reports whether nothing in f writes through v or lets others do so.
func (g *generator) constantIn(f *function, v *types.Var) bool {
	ok := true
	var stack []ast.Node
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		if id, is := n.(*ast.Ident); is && g.p.info.Uses[id] == v && !g.onlyRead(stack) {
			ok = false
		}
		return true
	})
	return ok
}

// onlyRead reports whether the use of a pointer at the end of the stack neither writes
// through it nor passes it to who may.
func (g *generator) onlyRead(stack []ast.Node) bool {
	i := len(stack) - 1
	cur := stack[i].(ast.Expr)
	address := true // cur is a pointer into the memory, or names a part of it
	for i--; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.ParenExpr:
		case *ast.StarExpr:
			address = false
		case *ast.SelectorExpr:
			s := g.p.info.Selections[n]
			if s == nil {
				return true
			}
			if m, ok := s.Obj().(*types.Func); ok {
				if types.IsInterface(s.Recv()) || !isPointer(m.Signature().Recv().Type()) {
					return true
				}
				c := g.funcs[m.Origin()]
				return c != nil && c.constant[m.Origin().Signature().Recv()]
			}
			address = false
			switch s.Obj().Type().Underlying().(type) {
			case *types.Pointer, *types.Slice, *types.Interface:
				return !g.assigned(stack[:i], n) // what it leads to is not the memory
			}
		case *ast.IndexExpr:
			if n.X != cur {
				return true
			}
			address = false
		case *ast.UnaryExpr:
			if n.Op != token.AND {
				return true
			}
			address = true
		case *ast.SliceExpr:
			return n.X != cur
		case *ast.CallExpr:
			if !address {
				return true
			}
			return g.passesConstant(n, cur)
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if x == cur {
					return false
				}
			}
			return !address
		case *ast.IncDecStmt:
			return false
		case *ast.BinaryExpr, *ast.IfStmt, *ast.SwitchStmt, *ast.CaseClause, *ast.ForStmt, *ast.RangeStmt, *ast.ExprStmt:
			return true
		default:
			return !address
		}
		cur = stack[i].(ast.Expr)
	}
	return false
}

// assigned reports whether x, whose parents are in the stack, is assigned to, or its
// address taken.
func (g *generator) assigned(stack []ast.Node, x ast.Expr) bool {
	switch n := stack[len(stack)-1].(type) {
	case *ast.AssignStmt:
		for _, l := range n.Lhs {
			if l == x {
				return true
			}
		}
	case *ast.IncDecStmt:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.AND
	}
	return false
}

func (g *generator) passesConstant(call *ast.CallExpr, arg ast.Expr) bool {
	callee := g.callee(call)
	if callee == nil {
		tv := g.p.info.Types[call.Fun]
		return tv.IsType() || tv.IsBuiltin()
	}
	c := g.funcs[callee]
	if c == nil {
		// A method of the interface: all variants have to keep to it.
		return g.anyConstant(call, callee, arg)
	}
	for i, a := range call.Args {
		if a == arg {
			return c.constant[callee.Signature().Params().At(i)]
		}
	}
	return false
}

func (g *generator) anyConstant(call *ast.CallExpr, callee *types.Func, arg ast.Expr) bool {
	recv := callee.Signature().Recv()
	if recv == nil || !g.mapped(recv.Type()) {
		return false
	}
	for i, a := range call.Args {
		if a == arg {
			return g.constantParam(callee.Name(), i)
		}
	}
	return false
}

// constantParam reports whether no variant's method writes through its i-th parameter.
func (g *generator) constantParam(method string, i int) bool {
	for _, v := range g.variants {
		if m, _ := g.methodOf(v.named, method); m != nil {
			if c := g.funcs[m]; c == nil || !c.constant[m.Signature().Params().At(i)] {
				return false
			}
		}
	}
	return true
}

// callee returns the function that a call names, or nil.
func (g *generator) callee(call *ast.CallExpr) *types.Func {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		f, _ := g.p.info.Uses[fun].(*types.Func)
		return origin(f)
	case *ast.SelectorExpr:
		f, _ := g.p.info.Uses[fun.Sel].(*types.Func)
		return origin(f)
	case *ast.IndexExpr: // of a generic function
		if id, ok := fun.X.(*ast.Ident); ok {
			f, _ := g.p.info.Uses[id].(*types.Func)
			return origin(f)
		}
	}
	return nil
}

func origin(f *types.Func) *types.Func {
	if f == nil {
		return nil
	}
	return f.Origin()
}
