package parse

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (p *parser) block() *ast.Block {
	o := p.expect("{")
	return p.blockRest(o, nil)
}

func (p *parser) blockRest(o token, as ast.Annotations) *ast.Block {
	b := &ast.Block{At: ast.At{P: o.pos}, Annotations: as}
	for !p.is("}") {
		if p.peek().kind == tEOF {
			fail(o.pos, "this { has no }")
		}
		b.Stmts = append(b.Stmts, p.stmt())
	}
	p.expect("}")
	return b
}

func (p *parser) stmt() ast.Stmt {
	p.enter()
	defer p.leave()
	as := p.annotations()
	t := p.peek()
	at := ast.At{P: t.pos}
	if t.kind == tPunct {
		switch t.text {
		case "{":
			p.next()
			return p.blockRest(t, as)
		case ";":
			p.next()
			return &ast.Empty{At: at}
		}
	}
	if t.kind == tIdent {
		if s := p.keywordStmt(t, as); s != nil {
			return s
		}
	}
	if d := p.localDecl(as); d != nil {
		return &ast.DeclStmt{At: at, Decl: d}
	}
	s := p.simple()
	p.expect(";")
	return s
}

// keywordStmt is the statement that begins with a keyword, or nil if t is none here.
func (p *parser) keywordStmt(t token, as ast.Annotations) ast.Stmt {
	at := ast.At{P: t.pos}
	switch t.text {
	case "const":
		return &ast.DeclStmt{At: at, Decl: p.constDecl(as)}
	case "if":
		return p.ifStmt()
	case "switch":
		return p.switchStmt()
	case "return":
		p.next()
		r := &ast.Return{At: at}
		if !p.is(";") {
			r.X = p.expr()
		}
		p.expect(";")
		return r
	case "exit":
		p.next()
		p.expect(";")
		return &ast.Exit{At: at}
	case "break", "continue":
		if !isTok(p.at(1), ";") {
			return nil
		}
		p.next()
		p.next()
		if t.text == "break" {
			return &ast.Break{At: at}
		}
		return &ast.Continue{At: at}
	case "for":
		if isTok(p.at(1), "(") {
			return p.forStmt(as)
		}
	case "transition":
		fail(t.pos, "transition ends a parser's state: it has no place among statements")
	}
	return nil
}

// localDecl reads a variable's declaration or an instantiation, or gives nil if
// what follows is no declaration.
func (p *parser) localDecl(as ast.Annotations) ast.Decl {
	t := p.peek()
	if !startsBaseType(t) && !isName(t) && !isTok(t, ".") {
		return nil
	}
	var ty ast.TypeExpr
	inst := false
	ok := p.try(func() bool {
		ty = p.typ()
		if isName(p.peek()) {
			return true
		}
		inst = p.is("(") && p.namedObject()
		return inst
	})
	if !ok {
		if startsBaseType(t) && !p.typeThenUse() {
			p.typ()
			p.name("variable")
		}
		return nil
	}
	if inst {
		return p.instantiation(as, ty)
	}
	n := p.name("variable")
	p.noArray(n)
	v := &ast.VarDecl{TypeExpr: ty}
	v.P, v.Name, v.Annotations = n.pos, n.text, as
	if p.accept("=") {
		v.X = p.expr()
	}
	p.expect(";")
	return v
}

// namedObject reports whether (args) name follows.
func (p *parser) namedObject() bool {
	i := p.i
	depth := 0
	for ; i < len(p.toks); i++ {
		switch x := p.toks[i]; {
		case isTok(x, "("):
			depth++
		case isTok(x, ")"):
			depth--
		case isTok(x, ";"), isTok(x, "{") && depth == 0:
			return false
		}
		p.steps++
		if p.steps > p.maxSteps {
			return false
		}
		if depth == 0 {
			break
		}
	}
	return i+1 < len(p.toks) && isName(p.toks[i+1])
}

// noArray refuses a size behind a declared name, which p4c takes as an array.
func (p *parser) noArray(name token) {
	if p.is("[") {
		fail(p.peek().pos, "not supported: an array, as %s[...]: there are stacks of headers and header unions", name.text)
	}
}

// typeThenUse reports whether what follows is type.member: an expression.
func (p *parser) typeThenUse() bool {
	i := p.i
	defer func() { p.i = i }()
	return p.try(func() bool {
		p.typ()
		return p.is(".") || p.is("(")
	})
}

// instantiation reads what follows the type in T(args) name = {...};
func (p *parser) instantiation(as ast.Annotations, ty ast.TypeExpr) ast.Decl {
	d := &ast.Instantiation{TypeExpr: ty, Args: p.args()}
	n := p.name("instance")
	p.noArray(n)
	d.P, d.Name, d.Annotations = n.pos, n.text, as
	if p.accept("=") {
		d.HasBody = true
		p.expect("{")
		for !p.is("}") {
			d.Body = append(d.Body, p.objectMember())
		}
		p.expect("}")
	}
	p.expect(";")
	return d
}

func (p *parser) objectMember() ast.Decl {
	as := p.annotations()
	p.accept("abstract")
	ty := p.typ()
	if p.is("(") {
		return p.instantiation(as, ty)
	}
	return p.function(as, ty)
}

var assignOps = map[string]ast.Op{
	"=": ast.OpNone, "+=": ast.OpAdd, "-=": ast.OpSub, "|+|=": ast.OpAddSat, "|-|=": ast.OpSubSat,
	"*=": ast.OpMul, "/=": ast.OpDiv, "%=": ast.OpMod, "<<=": ast.OpShl, "&=": ast.OpAnd, "|=": ast.OpOr, "^=": ast.OpXor,
}

// simple is an assignment or a call, without its semicolon.
func (p *parser) simple() ast.Stmt {
	t := p.peek()
	at := ast.At{P: t.pos}
	x := p.unary()
	n := p.peek()
	if n.kind == tPunct {
		if op, ok := assignOps[n.text]; ok {
			p.next()
			return &ast.Assign{At: at, Lhs: x, Op: op, Rhs: p.expr()}
		}
		if m := p.at(1); n.text == ">" && m.kind == tPunct && m.glued && m.text == ">=" {
			p.next()
			p.next()
			return &ast.Assign{At: at, Lhs: x, Op: ast.OpShr, Rhs: p.expr()}
		}
	}
	c, ok := x.(*ast.Call)
	if !ok {
		fail(n.pos, "expected '=' or a call before %s: an expression alone is no statement", n)
	}
	return &ast.CallStmt{At: at, Call: c}
}

func (p *parser) ifStmt() ast.Stmt {
	t := p.expect("if")
	s := &ast.If{At: ast.At{P: t.pos}}
	p.expect("(")
	s.Cond = p.expr()
	p.expect(")")
	s.Then = p.branch()
	if p.accept("else") {
		s.Else = p.branch()
	}
	return s
}

// branch is a statement that may be no declaration.
func (p *parser) branch() ast.Stmt {
	s := p.stmt()
	if d, ok := s.(*ast.DeclStmt); ok {
		fail(d.P, "a declaration alone is no branch and no body of a loop: put it into { }")
	}
	return s
}

func (p *parser) switchStmt() ast.Stmt {
	t := p.expect("switch")
	s := &ast.Switch{At: ast.At{P: t.pos}}
	p.expect("(")
	s.X = p.expr()
	p.expect(")")
	p.expect("{")
	for !p.is("}") {
		c := &ast.SwitchCase{At: ast.At{P: p.peek().pos}}
		if p.accept("default") {
			c.Default = true
		} else {
			c.Label = p.expr()
		}
		p.expect(":")
		if as := p.annotations(); p.is("{") {
			c.Body = p.blockRest(p.next(), as)
		}
		s.Cases = append(s.Cases, c)
	}
	p.expect("}")
	return s
}

func (p *parser) forStmt(as ast.Annotations) ast.Stmt {
	t := p.expect("for")
	at := ast.At{P: t.pos}
	p.expect("(")
	if n := p.peek(); isName(n) && isTok(p.at(1), "in") {
		fail(n.pos, "the variable of this loop needs its type: write for (TYPE %s in ...)", n.text)
	}
	// for (T x in ...)
	var in *ast.ForIn
	p.try(func() bool {
		vas := p.annotations()
		ty := p.typ()
		n := p.peek()
		if !isName(n) || !isTok(p.at(1), "in") {
			return false
		}
		p.next()
		p.next()
		v := &ast.VarDecl{TypeExpr: ty}
		v.P, v.Name, v.Annotations = n.pos, n.text, vas
		in = &ast.ForIn{At: at, Annotations: as, Var: v}
		return true
	})
	if in != nil {
		in.X = p.keyExpr()
		p.expect(")")
		in.Body = p.branch()
		return in
	}
	f := &ast.For{At: at, Annotations: as}
	for !p.is(";") {
		f.Init = append(f.Init, p.forInit())
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
	if !p.is(";") {
		f.Cond = p.expr()
	}
	p.expect(";")
	for !p.is(")") {
		f.Update = append(f.Update, p.simple())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	f.Body = p.branch()
	return f
}

func (p *parser) forInit() ast.Stmt {
	as := p.annotations()
	var v *ast.VarDecl
	t := p.peek()
	p.try(func() bool {
		ty := p.typ()
		n := p.peek()
		if !isName(n) {
			return false
		}
		p.next()
		v = &ast.VarDecl{TypeExpr: ty}
		v.P, v.Name, v.Annotations = n.pos, n.text, as
		return true
	})
	if v == nil {
		return p.simple()
	}
	if p.accept("=") {
		v.X = p.expr()
	}
	return &ast.DeclStmt{At: ast.At{P: t.pos}, Decl: v}
}

// parameters

func (p *parser) params(ctor bool) []*ast.Param {
	p.expect("(")
	var ps []*ast.Param
	for !p.is(")") {
		q := &ast.Param{Ctor: ctor}
		q.Annotations = p.annotations()
		switch {
		case p.accept("in"):
			q.Dir = types.In
		case p.accept("out"):
			q.Dir = types.Out
		case p.accept("inout"):
			q.Dir = types.InOut
		}
		q.TypeExpr = p.typ()
		n := p.name("parameter")
		q.P, q.Name = n.pos, n.text
		q.Optional = q.Annotations.Find("optional") != nil
		if p.accept("=") {
			q.Default = p.expr()
		}
		ps = append(ps, q)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return ps
}
