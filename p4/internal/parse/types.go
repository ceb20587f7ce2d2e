package parse

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

var baseTypes = map[string]bool{"bool": true, "error": true, "match_kind": true, "string": true, "void": true}

// startsBaseType reports whether a token that is a keyword begins a type.
func startsBaseType(t token) bool {
	if t.kind != tIdent {
		return false
	}
	switch t.text {
	case "bool", "error", "match_kind", "string", "void", "bit", "int", "varbit", "tuple":
		return true
	}
	return false
}

// typ reads a type; with stacks, T[n] too.
func (p *parser) typ() ast.TypeExpr {
	p.enter()
	defer p.leave()
	t := p.peek()
	at := ast.At{P: t.pos}
	var res ast.TypeExpr
	switch {
	case t.kind == tIdent && baseTypes[t.text]:
		p.next()
		res = &ast.BaseType{At: at, Name: t.text}
	case isTok(t, "bit"), isTok(t, "int"), isTok(t, "varbit"):
		p.next()
		if !p.is("<") {
			switch t.text {
			case "int":
				return p.stacks(&ast.BaseType{At: at, Name: "int"})
			case "bit":
				return p.stacks(&ast.SizedType{At: at, Name: "bit"})
			}
		}
		p.expect("<")
		w := p.widthExpr()
		p.expect(">")
		res = &ast.SizedType{At: at, Name: t.text, Width: w}
	case isTok(t, "tuple"):
		p.next()
		p.expect("<")
		res = &ast.TupleType{At: at, Elems: p.typeArgs()}
	case isTok(t, "list") && isTok(p.at(1), "<"):
		p.next()
		p.next()
		args := p.typeArgs()
		if len(args) != 1 {
			fail(t.pos, "list takes one type argument")
		}
		res = &ast.ListType{At: at, Elem: args[0]}
	case isName(t), isTok(t, "."):
		abs := p.accept(".")
		n := p.name("type")
		nt := &ast.NamedType{At: at, Name: n.text, Absolute: abs}
		res = nt
		if p.is("<") {
			p.next()
			res = &ast.AppliedType{At: at, Base: nt, Args: p.typeArgs()}
		}
	default:
		fail(t.pos, "expected a type before %s", t)
	}
	return p.stacks(res)
}

func (p *parser) stacks(t ast.TypeExpr) ast.TypeExpr {
	for p.is("[") {
		p.next()
		s := &ast.StackType{At: ast.At{P: t.Pos()}, Elem: t, Size: p.expr()}
		p.expect("]")
		t = s
	}
	return t
}

// typeArgs reads type arguments up to and with the >.
func (p *parser) typeArgs() []ast.TypeExpr {
	var args []ast.TypeExpr
	for !p.is(">") {
		if t := p.peek(); isTok(t, "_") {
			p.next()
			args = append(args, &ast.BaseType{At: ast.At{P: t.pos}, Name: "_"})
		} else {
			args = append(args, p.typ())
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(">")
	return args
}

// typeParams reads <T, U>, if there is one.
func (p *parser) typeParams() []*ast.TypeParam {
	if !p.accept("<") {
		return nil
	}
	var ps []*ast.TypeParam
	for {
		n := p.name("type parameter")
		tp := &ast.TypeParam{}
		tp.P, tp.Name = n.pos, n.text
		ps = append(ps, tp)
		p.types[n.text] = true
		if !p.accept(",") {
			break
		}
	}
	p.expect(">")
	return ps
}
