package parse

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

func intExpr(t token) *ast.IntLit {
	v, err := intLit(t)
	if err != "" {
		fail(t.pos, "%s", err)
	}
	e := &ast.IntLit{Value: v.value, Width: v.width, Sized: v.sized, Signed: v.signed}
	e.P = t.pos
	return e
}

var binPrec = map[string]struct {
	prec int
	op   ast.Op
}{
	"||": {2, ast.OpLOr}, "&&": {3, ast.OpLAnd},
	"==": {4, ast.OpEQ}, "!=": {4, ast.OpNE},
	"<=": {5, ast.OpLE}, ">=": {5, ast.OpGE}, "<": {5, ast.OpLT}, ">": {5, ast.OpGT},
	"|": {6, ast.OpOr}, "^": {7, ast.OpXor}, "&": {8, ast.OpAnd},
	"<<": {9, ast.OpShl}, ">>": {9, ast.OpShr},
	"++": {10, ast.OpConcat}, "+": {10, ast.OpAdd}, "-": {10, ast.OpSub}, "|+|": {10, ast.OpAddSat}, "|-|": {10, ast.OpSubSat},
	"*": {11, ast.OpMul}, "/": {11, ast.OpDiv}, "%": {11, ast.OpMod},
}

func (p *parser) expr() ast.Expr { return p.exprUntil(false) }

// widthExpr is an expression that ends before a > of its own.
func (p *parser) widthExpr() ast.Expr { return p.exprUntil(true) }

func (p *parser) exprUntil(greater bool) ast.Expr {
	p.enter()
	old := p.endsAtGreater
	p.endsAtGreater = greater
	defer func() {
		p.endsAtGreater = old
		p.leave()
	}()
	c := p.binary(2)
	if !p.is("?") {
		return c
	}
	p.next()
	a := p.expr()
	p.expect(":")
	b := p.exprUntil(greater)
	e := &ast.Ternary{Cond: c, Then: a, Else: b}
	e.P = c.Pos()
	return e
}

// binOp gives the operator here and how many tokens it is.
func (p *parser) binOp() (string, int) {
	t := p.peek()
	if t.kind != tPunct {
		return "", 0
	}
	if t.text == ">" {
		if p.endsAtGreater {
			return "", 0
		}
		n := p.at(1)
		if n.kind == tPunct && n.glued && n.text == ">" {
			return ">>", 2
		}
		if n.kind == tPunct && n.glued && n.text == ">=" { // >>=
			return "", 0
		}
	}
	return t.text, 1
}

func (p *parser) binary(min int) ast.Expr {
	p.enter()
	defer p.leave()
	x := p.unary()
	depth := p.depth
	defer func() { p.depth = depth }()
	for {
		s, n := p.binOp()
		b, ok := binPrec[s]
		if !ok || b.prec < min {
			return x
		}
		p.enter() // the tree grows to the left
		op := p.next()
		for ; n > 1; n-- {
			p.next()
		}
		y := p.binary(b.prec + 1)
		e := &ast.Binary{Op: b.op, OpP: op.pos, X: x, Y: y}
		e.P = x.Pos()
		x = e
	}
}

func (p *parser) unary() ast.Expr {
	p.enter()
	defer p.leave()
	t := p.peek()
	if t.kind == tPunct {
		op := ast.OpNone
		switch t.text {
		case "!":
			op = ast.OpNot
		case "~":
			op = ast.OpCompl
		case "-":
			op = ast.OpNeg
		case "+":
			op = ast.OpPlus
		case "(":
			if e := p.cast(); e != nil {
				return e
			}
		}
		if op != ast.OpNone {
			p.next()
			e := &ast.Unary{Op: op, X: p.unary()}
			e.P = t.pos
			return e
		}
	}
	return p.postfix(p.primary())
}

// cast reads (type) operand, or gives nil if this is no cast.
func (p *parser) cast() ast.Expr {
	t := p.peek()
	first := p.at(1)
	if !startsBaseType(first) && !isName(first) && !isTok(first, ".") {
		return nil
	}
	if isTok(first, "error") && isTok(p.at(2), ".") {
		return nil
	}
	var ty ast.TypeExpr
	ok := p.try(func() bool {
		p.next()
		ty = p.typ()
		if !p.accept(")") {
			return false
		}
		if startsBaseType(first) {
			return true
		}
		return p.startsOperand(ty)
	})
	if !ok {
		return nil
	}
	e := &ast.Cast{To: ty, X: p.unary()}
	e.P = t.pos
	return e
}

// startsOperand reports whether the operand of a cast to a named type begins here.
func (p *parser) startsOperand(ty ast.TypeExpr) bool {
	n := p.peek()
	switch n.kind {
	case tInt, tString, tIdent:
		return true
	case tPunct:
		switch n.text {
		case "!", "~", "{", "...":
			return true
		case "(", "-", "+":
			return p.isTypeName(ty)
		}
	}
	// (x).f is a member; a name with a leading dot after a cast is not told from it and needs parentheses.
	return false
}

func (p *parser) isTypeName(t ast.TypeExpr) bool {
	switch t := t.(type) {
	case *ast.NamedType:
		return p.types[t.Name]
	case *ast.StackType:
		return p.isTypeName(t.Elem)
	}
	return true
}

func (p *parser) primary() ast.Expr {
	t := p.peek()
	switch t.kind {
	case tInt:
		p.next()
		return intExpr(t)
	case tString:
		p.next()
		e := &ast.StringLit{Value: t.text}
		e.P = t.pos
		return e
	case tIdent:
		return p.identExpr(t)
	case tPunct:
		switch t.text {
		case "(":
			p.next()
			e := p.expr()
			p.expect(")")
			return e
		case "{":
			return p.braces()
		case ".":
			p.next()
			n := p.name("thing behind the dot")
			e := &ast.Ident{Name: n.text, Absolute: true}
			e.P = t.pos
			return e
		case "...":
			p.next()
			e := &ast.Dots{}
			e.P = t.pos
			return e
		}
	}
	fail(t.pos, "expected an expression before %s", t)
	return nil
}

func (p *parser) identExpr(t token) ast.Expr {
	switch t.text {
	case "true", "false":
		p.next()
		e := &ast.BoolLit{Value: t.text == "true"}
		e.P = t.pos
		return e
	case "_", "default":
		p.next()
		e := &ast.DontCare{Default: t.text == "default"}
		e.P = t.pos
		return e
	case "error", "this", "match_kind":
		p.next()
		e := &ast.Ident{Name: t.text}
		e.P = t.pos
		return e
	}
	if startsBaseType(t) || t.text == "list" && isTok(p.at(1), "<") {
		e := &ast.TypeRef{Written: p.typ()}
		e.P = t.pos
		return e
	}
	n := p.name("thing")
	e := &ast.Ident{Name: n.text}
	e.P = n.pos
	return e
}

// braces reads {}, {#}, { a, b, ... } or { a = x, ... }.
func (p *parser) braces() ast.Expr {
	o := p.expect("{")
	if p.is("#") && isTok(p.at(1), "}") {
		p.next()
		p.next()
		e := &ast.InvalidHeader{}
		e.P = o.pos
		return e
	}
	if isName(p.peek()) && isTok(p.at(1), "=") {
		e := &ast.StructLit{}
		e.P = o.pos
		for !p.is("}") {
			if p.is("...") {
				p.next()
				e.Rest = true
				p.accept(",")
				break
			}
			n := p.name("field")
			p.expect("=")
			e.Fields = append(e.Fields, &ast.FieldInit{At: ast.At{P: n.pos}, Name: n.text, Value: p.expr()})
			if !p.accept(",") {
				break
			}
		}
		p.expect("}")
		return e
	}
	e := &ast.List{}
	e.P = o.pos
	for !p.is("}") {
		if p.is("...") && (isTok(p.at(1), "}") || isTok(p.at(1), ",") && isTok(p.at(2), "}")) {
			p.next()
			e.Rest = true
			p.accept(",")
			break
		}
		// list<tuple<...>> arguments hold sets.
		e.Elems = append(e.Elems, p.keyExpr())
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
	return e
}

func (p *parser) postfix(x ast.Expr) ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	for {
		t := p.peek()
		if t.kind != tPunct {
			return x
		}
		switch t.text {
		case ".":
			p.enter()
			p.next()
			n := p.peek()
			if n.kind != tIdent || keywords[n.text] {
				fail(n.pos, "expected a member's name behind the dot before %s", n)
			}
			p.next()
			m := &ast.Member{X: x, Name: n.text, NameP: n.pos}
			m.P = x.Pos()
			x = m
		case "[":
			p.enter()
			x = p.index(x)
		case "(":
			p.enter()
			c := &ast.Call{Fun: x, Args: p.args()}
			c.P = x.Pos()
			x = c
		case "<":
			c := p.genericCall(x)
			if c == nil {
				return x
			}
			p.enter()
			x = c
		default:
			return x
		}
	}
}

func (p *parser) index(x ast.Expr) ast.Expr {
	p.expect("[")
	a := p.expr()
	if p.accept(":") {
		s := &ast.Slice{X: x, Hi: a, Lo: p.expr()}
		s.P = x.Pos()
		p.expect("]")
		return s
	}
	if p.is("+:") {
		p.next()
		s := &ast.Slice{X: x, Lo: a, Hi: p.expr(), Plus: true}
		s.P = x.Pos()
		p.expect("]")
		return s
	}
	p.expect("]")
	i := &ast.Index{X: x, I: a}
	i.P = x.Pos()
	return i
}

// genericCall reads x<types>(args), or gives nil if < is an operator here.
// Types before a dot (S<T>.m) are TypeRefs.
func (p *parser) genericCall(x ast.Expr) ast.Expr {
	switch x.(type) {
	case *ast.Ident, *ast.Member:
	default:
		return nil
	}
	var args []ast.TypeExpr
	ok := p.try(func() bool {
		p.next()
		args = p.typeArgs()
		if p.is("(") {
			return true
		}
		id, isID := x.(*ast.Ident)
		return isID && p.types[id.Name] && p.is(".")
	})
	if !ok {
		return nil
	}
	if p.is(".") {
		id := x.(*ast.Ident)
		base := &ast.NamedType{At: ast.At{P: id.P}, Name: id.Name, Absolute: id.Absolute}
		r := &ast.TypeRef{Written: &ast.AppliedType{At: ast.At{P: id.P}, Base: base, Args: args}}
		r.P = id.P
		return r
	}
	c := &ast.Call{Fun: x, TypeArgs: args, Args: p.args()}
	c.P = x.Pos()
	return c
}

func (p *parser) args() []*ast.Arg {
	p.expect("(")
	var as []*ast.Arg
	for !p.is(")") {
		t := p.peek()
		a := &ast.Arg{At: ast.At{P: t.pos}}
		if isName(t) && isTok(p.at(1), "=") {
			a.Name = p.next().text
			p.next()
		}
		a.Value = p.expr()
		as = append(as, a)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return as
}

// keyExpr is an expression or a set of them: e, a &&& b, a .. b, _, default.
func (p *parser) keyExpr() ast.Expr {
	x := p.expr()
	switch {
	case p.is("&&&"):
		p.next()
		m := &ast.Mask{X: x, Y: p.expr()}
		m.P = x.Pos()
		return m
	case p.is(".."):
		p.next()
		r := &ast.Range{Lo: x, Hi: p.expr()}
		r.P = x.Pos()
		return r
	}
	return x
}

// keySet is a label: (a, b) or one set, up to the colon.
func (p *parser) keySet() *ast.KeySet {
	k := &ast.KeySet{}
	k.P = p.peek().pos
	if p.is("(") {
		ok := p.try(func() bool {
			p.next()
			var es []ast.Expr
			for !p.is(")") {
				es = append(es, p.keyExpr())
				if !p.accept(",") {
					break
				}
			}
			if !p.accept(")") || !p.is(":") {
				return false
			}
			k.Elems = es
			return true
		})
		if ok {
			k.Paren = true
			return k
		}
	}
	k.Elems = []ast.Expr{p.keyExpr()}
	return k
}
