package parse

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// maxDepth bounds how deep expressions, statements and types nest.
const maxDepth = 1500

type parser struct {
	toks  []token
	i     int
	eof   token
	depth int
	// steps counts tokens taken, with those of attempts that failed.
	steps, maxSteps int
	// types are the names that are declared as types so far.
	types map[string]bool
	// endsAtGreater: a > ends the expression, as within bit<...>.
	endsAtGreater bool
}

func newParser(file string, toks []token) *parser {
	p := &parser{toks: toks, types: map[string]bool{}, maxSteps: 10000 + 64*len(toks)}
	p.eof = token{kind: tEOF, pos: ast.Pos{File: file, Line: 1, Col: 1}}
	if len(toks) > 0 {
		p.eof.pos = toks[len(toks)-1].pos
	}
	return p
}

func (p *parser) peek() token { return p.at(0) }

func (p *parser) at(n int) token {
	if p.i+n < len(p.toks) {
		return p.toks[p.i+n]
	}
	return p.eof
}

func (p *parser) next() token {
	t := p.peek()
	p.steps++
	if p.steps > p.maxSteps {
		fail(t.pos, "types and expressions are too ambiguous here: add parentheses")
	}
	if p.i < len(p.toks) {
		p.i++
	}
	return t
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		fail(p.peek().pos, "nested more than %d deep: split it", maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// is reports whether the next token is this punctuation or keyword.
func (p *parser) is(s string) bool { return isTok(p.peek(), s) }

func isTok(t token, s string) bool {
	return (t.kind == tPunct || t.kind == tIdent) && t.text == s
}

func (p *parser) accept(s string) bool {
	if p.is(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(s string) token {
	t := p.peek()
	if !isTok(t, s) {
		fail(t.pos, "expected '%s' before %s", s, t)
	}
	return p.next()
}

// keywords name nothing. apply, key, state and the like do, and so do abstract,
// break, continue, for and list where the grammar leaves no doubt.
var keywords = map[string]bool{
	"action": true, "bool": true, "bit": true, "const": true, "control": true, "default": true, "else": true, "enum": true,
	"error": true, "exit": true, "extern": true, "false": true, "header": true, "header_union": true, "if": true, "in": true,
	"inout": true, "int": true, "match_kind": true, "out": true, "package": true, "parser": true, "return": true,
	"select": true, "string": true, "struct": true, "switch": true, "table": true, "this": true, "transition": true,
	"true": true, "tuple": true, "typedef": true, "varbit": true, "value_set": true, "void": true, "_": true,
}

func isName(t token) bool { return t.kind == tIdent && !keywords[t.text] }

func (p *parser) name(what string) token {
	t := p.peek()
	if !isName(t) {
		if t.kind == tIdent {
			fail(t.pos, "%s is a keyword: give the %s another name", t, what)
		}
		fail(t.pos, "expected the name of the %s before %s", what, t)
	}
	return p.next()
}

// try runs f; if it fails or says false, the parser is back where it was.
func (p *parser) try(f func() bool) (ok bool) {
	i, depth := p.i, p.depth
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(bailout); !is || p.steps > p.maxSteps {
				panic(r)
			}
		}
		if !ok {
			p.i, p.depth = i, depth
		}
	}()
	return f()
}

// annotations

func (p *parser) annotations() ast.Annotations {
	var as ast.Annotations
	for p.is("@") {
		at := p.next()
		a := &ast.Annotation{At: ast.At{P: at.pos}}
		n := p.peek()
		if n.kind != tIdent {
			fail(n.pos, "an annotation is @name, not @ and %s", n)
		}
		p.next()
		a.Name = n.text
		switch {
		case a.Name == "pragma":
			// @pragma name text up to the end of the line.
			if t := p.peek(); t.kind != tEOF && !t.bol {
				a.Name = p.next().text
			}
			var body []token
			for t := p.peek(); t.kind != tEOF && !t.bol; t = p.peek() {
				body = append(body, p.next())
			}
			a.Text = tokensText(body)
		case p.is("("):
			p.annotationBody(a)
		case p.is("["):
			p.next()
			a.Structured = true
			p.structured(a)
			p.expect("]")
		}
		as = append(as, a)
	}
	return as
}

func (p *parser) annotationBody(a *ast.Annotation) {
	open := p.expect("(")
	depth := 1
	var body []token
	for {
		t := p.next()
		if t.kind == tEOF {
			fail(open.pos, "the annotation @%s lacks its )", a.Name)
		}
		if t.kind == tPunct && t.text == "(" {
			depth++
		}
		if t.kind == tPunct && t.text == ")" {
			if depth--; depth == 0 {
				break
			}
		}
		body = append(body, t)
	}
	allStrings := len(body) > 0
	text := ""
	for _, t := range body {
		allStrings = allStrings && t.kind == tString
		text += t.text
	}
	if allStrings {
		a.Text, a.IsString = text, true
		return
	}
	a.Text = tokensText(body)
}

func (p *parser) structured(a *ast.Annotation) {
	for !p.is("]") {
		if isName(p.peek()) && isTok(p.at(1), "=") {
			n := p.next()
			p.next()
			a.Pairs = append(a.Pairs, &ast.KV{At: ast.At{P: n.pos}, Key: n.text, Value: p.expr()})
		} else {
			a.Exprs = append(a.Exprs, p.expr())
		}
		if !p.accept(",") {
			return
		}
	}
}
