package parse

import (
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (p *parser) program() []ast.Decl {
	var ds []ast.Decl
	for p.peek().kind != tEOF {
		if p.accept(";") {
			continue
		}
		ds = append(ds, p.decl())
	}
	return ds
}

func declBase(n token, as ast.Annotations) ast.DeclBase {
	return ast.DeclBase{At: ast.At{P: n.pos}, Name: n.text, Annotations: as}
}

func (p *parser) decl() ast.Decl {
	as := p.annotations()
	t := p.peek()
	if t.kind == tIdent {
		switch t.text {
		case "const":
			return p.constDecl(as)
		case "extern":
			return p.externDecl(as)
		case "action":
			return p.actionDecl(as)
		case "parser":
			return p.parserDecl(as)
		case "control":
			return p.controlDecl(as)
		case "package":
			return p.packageDecl(as)
		case "struct", "header", "header_union", "enum":
			return p.derived(as)
		case "error", "match_kind":
			if isTok(p.at(1), "{") {
				return p.memberDecl(as)
			}
		case "typedef", "type":
			return p.typedef(as)
		}
	}
	if t.kind != tIdent && !p.is(".") {
		fail(t.pos, "expected a declaration before %s", t)
	}
	ty := p.typ()
	if p.is("(") {
		return p.instantiation(as, ty)
	}
	return p.function(as, ty)
}

func (p *parser) packageDecl(as ast.Annotations) ast.Decl {
	p.expect("package")
	n := p.name("package")
	p.types[n.text] = true
	d := &ast.PackageDecl{DeclBase: declBase(n, as), TypeParams: p.typeParams(), Params: p.params(true)}
	p.expect(";")
	return d
}

// memberDecl is error { ... } or match_kind { ... }.
func (p *parser) memberDecl(as ast.Annotations) ast.Decl {
	t := p.next()
	if t.text == "error" {
		return &ast.ErrorDecl{DeclBase: declBase(t, as), Members: p.members(false)}
	}
	return &ast.MatchKindDecl{DeclBase: declBase(t, as), Members: p.members(false)}
}

func (p *parser) constDecl(as ast.Annotations) ast.Decl {
	p.expect("const")
	ty := p.typ()
	n := p.name("constant")
	d := &ast.ConstDecl{DeclBase: declBase(n, as), TypeExpr: ty}
	p.expect("=")
	d.X = p.expr()
	p.expect(";")
	return d
}

// function reads what follows the return type.
func (p *parser) function(as ast.Annotations, ret ast.TypeExpr) ast.Decl {
	n := p.name("function")
	d := &ast.FunctionDecl{DeclBase: declBase(n, as), ReturnType: ret}
	d.TypeParams = p.typeParams()
	d.Params = p.params(false)
	d.Body = p.block()
	return d
}

func (p *parser) externDecl(as ast.Annotations) ast.Decl {
	p.expect("extern")
	n := p.peek()
	object := false
	if isName(n) {
		j := 1
		if isTok(p.at(1), "<") {
			for j = 2; isName(p.at(j)) || isTok(p.at(j), ","); j++ {
			}
			if isTok(p.at(j), ">") {
				j++
			}
		}
		object = isTok(p.at(j), "{") || isTok(p.at(j), ";")
	}
	if !object {
		d := &ast.FunctionDecl{ReturnType: p.typ()}
		n := p.name("function")
		d.DeclBase = declBase(n, as)
		d.TypeParams = p.typeParams()
		d.Params = p.params(false)
		p.expect(";")
		return d
	}
	p.next()
	p.types[n.text] = true
	d := &ast.ExternDecl{DeclBase: declBase(n, as), TypeParams: p.typeParams()}
	if p.accept(";") {
		return d
	}
	p.expect("{")
	for !p.is("}") {
		mas := p.annotations()
		m := &ast.FunctionDecl{Extern: d}
		if t := p.peek(); isName(t) && t.text == n.text && isTok(p.at(1), "(") {
			p.next()
			m.DeclBase = declBase(t, mas)
			m.Params = p.params(true)
			d.Ctors = append(d.Ctors, m)
		} else {
			if p.is("abstract") && !isTok(p.at(1), "(") {
				p.next()
				m.Abstract = true
			}
			m.ReturnType = p.typ()
			t := p.name("method")
			m.DeclBase = declBase(t, mas)
			m.TypeParams = p.typeParams()
			m.Params = p.params(false)
			d.Methods = append(d.Methods, m)
		}
		p.expect(";")
	}
	p.expect("}")
	return d
}

func (p *parser) actionDecl(as ast.Annotations) *ast.ActionDecl {
	p.expect("action")
	n := p.name("action")
	d := &ast.ActionDecl{DeclBase: declBase(n, as), Params: p.params(false)}
	d.Body = p.block()
	return d
}

// applyDecl reads a parser or control, but for its own members: member reads one
// of those, if there is one.
func (p *parser) applyDecl(as ast.Annotations, member func(t token, as ast.Annotations, d *ast.ApplyDecl) bool, expected string) ast.ApplyDecl {
	what := p.next().text
	n := p.name(what)
	p.types[n.text] = true
	d := ast.ApplyDecl{DeclBase: declBase(n, as), TypeParams: p.typeParams(), Params: p.params(false)}
	if p.accept(";") {
		d.IsType = true
		return d
	}
	if p.is("(") {
		d.Ctor = p.params(true)
	}
	open := p.expect("{")
	for !p.is("}") {
		las := p.annotations()
		t := p.peek()
		switch {
		case t.kind == tEOF:
			fail(open.pos, "the %s %s has no }", what, d.Name)
		case member(t, las, &d), p.accept(";"):
		case isTok(t, "const"):
			d.Locals = append(d.Locals, p.constDecl(las))
		default:
			l := p.localDecl(las)
			if l == nil {
				fail(t.pos, "expected a %s before %s", expected, t)
			}
			d.Locals = append(d.Locals, l)
		}
	}
	return d
}

func (p *parser) parserDecl(as ast.Annotations) ast.Decl {
	d := &ast.ParserDecl{}
	d.ApplyDecl = p.applyDecl(as, func(t token, as ast.Annotations, a *ast.ApplyDecl) bool {
		switch {
		case isTok(t, "state") && isName(p.at(1)):
			d.States = append(d.States, p.state(as))
		case isTok(t, "value_set"):
			a.Locals = append(a.Locals, p.valueSet(as))
		case len(d.States) > 0 && !isTok(t, "const") && !isTok(t, ";"):
			fail(t.pos, "expected a state before %s: declare what the states share before the first", t)
		default:
			return false
		}
		return true
	}, "state or a declaration")
	if !d.IsType {
		p.expect("}")
	}
	return d
}

func (p *parser) controlDecl(as ast.Annotations) ast.Decl {
	d := &ast.ControlDecl{}
	d.ApplyDecl = p.applyDecl(as, func(t token, as ast.Annotations, a *ast.ApplyDecl) bool {
		switch {
		case d.Apply != nil:
			fail(t.pos, "apply is a control's last part: move what follows it in front")
		case isTok(t, "apply") && (isTok(p.at(1), "{") || isTok(p.at(1), "@")):
			p.next()
			bas := p.annotations()
			d.Apply = p.blockRest(p.expect("{"), bas)
		case isTok(t, "action"):
			a.Locals = append(a.Locals, p.actionDecl(as))
		case isTok(t, "table"):
			a.Locals = append(a.Locals, p.tableDecl(as))
		default:
			return false
		}
		return true
	}, "declaration or apply")
	if d.IsType {
		return d
	}
	if end := p.expect("}"); d.Apply == nil {
		fail(end.pos, "the control %s has no apply { }", d.Name)
	}
	return d
}

func (p *parser) valueSet(as ast.Annotations) ast.Decl {
	p.expect("value_set")
	p.expect("<")
	d := &ast.ValueSetDecl{}
	d.ElemExpr = p.typ()
	p.expect(">")
	p.expect("(")
	d.Size = p.expr()
	p.expect(")")
	d.DeclBase = declBase(p.name("value set"), as)
	p.expect(";")
	return d
}

func (p *parser) state(as ast.Annotations) *ast.StateDecl {
	p.expect("state")
	n := p.name("state")
	s := &ast.StateDecl{DeclBase: declBase(n, as)}
	open := p.expect("{")
	for !p.is("}") {
		t := p.peek()
		if t.kind == tEOF {
			fail(open.pos, "the state %s has no }", s.Name)
		}
		if isTok(t, "transition") {
			p.next()
			s.Transition = p.transition(t)
			if !p.is("}") {
				fail(p.peek().pos, "the transition is a state's last statement: close the state before %s", p.peek())
			}
			break
		}
		s.Stmts = append(s.Stmts, p.stmt())
	}
	p.expect("}")
	return s
}

func (p *parser) stateRef() *ast.StateRef {
	n := p.name("state")
	return &ast.StateRef{At: ast.At{P: n.pos}, Name: n.text}
}

func (p *parser) transition(t token) *ast.Transition {
	tr := &ast.Transition{At: ast.At{P: t.pos}}
	if !p.is("select") {
		tr.Next = p.stateRef()
		p.expect(";")
		return tr
	}
	s := &ast.Select{At: ast.At{P: p.next().pos}}
	p.expect("(")
	for !p.is(")") {
		s.Exprs = append(s.Exprs, p.expr())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	p.expect("{")
	for !p.is("}") {
		c := &ast.SelectCase{At: ast.At{P: p.peek().pos}}
		c.Keys = p.keySet()
		p.expect(":")
		c.Next = p.stateRef()
		p.expect(";")
		s.Cases = append(s.Cases, c)
	}
	p.expect("}")
	p.accept(";")
	tr.Select = s
	return tr
}

func (p *parser) tableDecl(as ast.Annotations) ast.Decl {
	p.expect("table")
	n := p.name("table")
	d := &ast.TableDecl{DeclBase: declBase(n, as)}
	p.expect("{")
	seen := map[string]bool{}
	early := map[string]token{} // what comes in front of the property that it needs, by that one
	for !p.is("}") {
		pas := p.annotations()
		t := p.peek()
		isConst := p.accept("const")
		pn := p.peek()
		if pn.kind != tIdent {
			fail(pn.pos, "expected a table's property before %s", pn)
		}
		p.next()
		p.expect("=")
		e, late := early[pn.text]
		switch {
		case seen[pn.text]:
			fail(pn.pos, "a second %s of table %s: leave one", pn.text, d.Name)
		case late:
			fail(e.pos, "%s of table %s in front of its %s: move it behind", e.text, d.Name, pn.text)
		}
		seen[pn.text] = true
		switch {
		case pn.text == "key" && p.is("{"):
			p.keys(d)
		case pn.text == "actions" && p.is("{"):
			p.actionList(d)
		case pn.text == "entries" && p.is("{"):
			d.HasEntries, d.ConstEntries = true, isConst
			if p.entries(d); len(d.Entries) > 0 {
				early["key"] = pn // a key behind it is refused
			}
		case pn.text == "default_action":
			early["actions"] = pn // actions behind it are refused
			d.ConstDefault = isConst
			d.Default = p.actionCall()
			p.expect(";")
		default:
			d.Props = append(d.Props, p.property(t.pos, declBase(pn, pas), isConst))
		}
	}
	if e, ok := early["actions"]; ok && !seen["actions"] {
		fail(e.pos, "table %s has a default_action and no actions: write actions = { ... } in front of it", d.Name)
	}
	p.expect("}")
	return d
}

// property reads the value of a table's property of the architecture.
func (p *parser) property(at ast.Pos, base ast.DeclBase, isConst bool) *ast.Property {
	pr := &ast.Property{DeclBase: base, Const: isConst}
	pr.P = at
	pr.X = p.expr()
	p.expect(";")
	return pr
}

func (p *parser) keys(d *ast.TableDecl) {
	p.expect("{")
	for !p.is("}") {
		k := &ast.Key{At: ast.At{P: p.peek().pos}}
		from := p.i
		k.X = p.expr()
		var b strings.Builder
		for _, t := range p.toks[from:p.i] {
			b.WriteString(t.text)
		}
		k.Name = b.String()
		p.expect(":")
		m := p.name("match kind")
		k.MatchKind, k.MatchKindP = m.text, m.pos
		k.Annotations = p.annotations()
		if a := k.Annotations.Find("name"); a != nil && a.Text != "" {
			k.Name = a.Text
		}
		p.expect(";")
		d.Keys = append(d.Keys, k)
	}
	p.expect("}")
}

func (p *parser) actionName() (name string, abs bool) {
	abs = p.accept(".")
	return p.name("action").text, abs
}

func (p *parser) actionList(d *ast.TableDecl) {
	d.HasActions = true
	p.expect("{")
	for !p.is("}") {
		a := &ast.ActionRef{}
		a.Annotations = p.annotations()
		a.P = p.peek().pos
		a.Name, a.Absolute = p.actionName()
		if p.is("(") {
			a.HasArgs = true
			a.Args = p.args()
		}
		a.DefaultOnly = a.Annotations.Find("defaultonly") != nil
		a.TableOnly = a.Annotations.Find("tableonly") != nil
		p.expect(";")
		d.Actions = append(d.Actions, a)
	}
	p.expect("}")
}

func (p *parser) actionCall() *ast.ActionCall {
	a := &ast.ActionCall{At: ast.At{P: p.peek().pos}}
	a.Name, a.Absolute = p.actionName()
	if p.is("(") {
		a.HasArgs = true
		a.Args = p.args()
	}
	return a
}

func (p *parser) entries(d *ast.TableDecl) {
	p.expect("{")
	for !p.is("}") {
		e := &ast.Entry{At: ast.At{P: p.peek().pos}}
		e.Const = p.accept("const")
		if p.is("priority") && isTok(p.at(1), "=") {
			p.next()
			p.next()
			e.Priority = p.expr()
			p.expect(":")
		}
		e.Keys = p.keySet()
		p.expect(":")
		e.Action = p.actionCall()
		e.Annotations = p.annotations()
		p.expect(";")
		d.Entries = append(d.Entries, e)
	}
	p.expect("}")
}

// derived reads a struct, header, header_union or enum.
func (p *parser) derived(as ast.Annotations) ast.Decl {
	t := p.next()
	if t.text == "enum" {
		d := &ast.EnumDecl{}
		if startsBaseType(p.peek()) || isName(p.peek()) && isName(p.at(1)) {
			d.Underlying = p.typ()
		}
		n := p.name("enum")
		p.types[n.text] = true
		d.DeclBase = declBase(n, as)
		d.Members = p.members(true)
		return d
	}
	d := &ast.StructDecl{}
	switch t.text {
	case "header":
		d.Kind = types.Header
	case "header_union":
		d.Kind = types.Union
	}
	n := p.name(t.text)
	p.types[n.text] = true
	d.DeclBase = declBase(n, as)
	d.TypeParams = p.typeParams()
	p.expect("{")
	for !p.is("}") {
		f := &ast.FieldDecl{}
		fas := p.annotations()
		f.TypeExpr = p.typ()
		n := p.name("field")
		p.noArray(n)
		f.DeclBase = declBase(n, fas)
		p.expect(";")
		d.Fields = append(d.Fields, f)
	}
	p.expect("}")
	return d
}

// members reads { a, b = 1, ... }.
func (p *parser) members(values bool) []*ast.EnumMember {
	p.expect("{")
	var ms []*ast.EnumMember
	for !p.is("}") {
		as := p.annotations()
		m := &ast.EnumMember{DeclBase: declBase(p.name("member"), as)}
		if values && p.accept("=") {
			m.Value = p.expr()
		}
		ms = append(ms, m)
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
	return ms
}

func (p *parser) typedef(as ast.Annotations) ast.Decl {
	t := p.next()
	d := &ast.TypedefDecl{New: t.text == "type"}
	switch p.peek().text {
	case "struct", "header", "header_union", "enum":
		if p.peek().kind == tIdent {
			d.Struct = p.derived(p.annotations())
			d.TypeExpr = &ast.NamedType{At: ast.At{P: d.Struct.Pos()}, Name: d.Struct.DeclName()}
		}
	}
	if d.TypeExpr == nil {
		d.TypeExpr = p.typ()
	}
	n := p.name("type")
	p.types[n.text] = true
	d.DeclBase = declBase(n, as)
	p.expect(";")
	return d
}
