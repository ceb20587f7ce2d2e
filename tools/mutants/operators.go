package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// operators are the changes that auto makes.
const (
	opCompare  = "compare"   // < and <=, > and >=, == and !=
	opNegate   = "negate"    // a condition
	opLogic    = "logic"     // && and ||
	opArith    = "arith"     // + and -, * and /, << and >>, also in assignments
	opBits     = "bits"      // & and |
	opStep     = "step"      // ++ and --
	opExtremum = "min-max"   // min and max
	opBool     = "bool"      // true and false, where they are returned or assigned
	opDrop     = "drop"      // a statement
	opReturn   = "return"    // at once, from a function without results
	opLoop     = "loop-ctrl" // break and continue
)

var swapped = map[token.Token]struct {
	to token.Token
	op string
}{
	token.LSS: {token.LEQ, opCompare}, token.LEQ: {token.LSS, opCompare},
	token.GTR: {token.GEQ, opCompare}, token.GEQ: {token.GTR, opCompare},
	token.EQL: {token.NEQ, opCompare}, token.NEQ: {token.EQL, opCompare},
	token.LAND: {token.LOR, opLogic}, token.LOR: {token.LAND, opLogic},
	token.ADD: {token.SUB, opArith}, token.SUB: {token.ADD, opArith},
	token.MUL: {token.QUO, opArith}, token.QUO: {token.MUL, opArith},
	token.SHL: {token.SHR, opArith}, token.SHR: {token.SHL, opArith},
	token.AND: {token.OR, opBits}, token.OR: {token.AND, opBits},
	token.ADD_ASSIGN: {token.SUB_ASSIGN, opArith}, token.SUB_ASSIGN: {token.ADD_ASSIGN, opArith},
	token.OR_ASSIGN: {token.AND_NOT_ASSIGN, opBits}, token.AND_NOT_ASSIGN: {token.OR_ASSIGN, opBits},
	token.INC: {token.DEC, opStep}, token.DEC: {token.INC, opStep},
}

// mutations returns every mutant of a file, in the order of its text. Some do not
// compile.
func mutations(name string, source []byte) ([]*Mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	m := mutator{name: name, source: source, fset: fset}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "String" || f.Name.Name == "init" {
			continue // tables, names and registries
		}
		if f.Type.Results == nil && len(f.Body.List) > 0 {
			m.change(opReturn, f.Body.Lbrace+1, f.Body.Lbrace+1, "\nreturn\n")
			m.all[len(m.all)-1].Breaks = f.Name.Name + " returns at once"
		}
		ast.Inspect(f.Body, m.visit)
	}
	return m.all, nil
}

// mutator makes the mutants of a file.
type mutator struct {
	name   string
	source []byte
	fset   *token.FileSet
	all    []*Mutant
}

func (m *mutator) at(p token.Pos) int { return m.fset.Position(p).Offset }

// change adds a mutant in which a part of the text is another.
func (m *mutator) change(op string, from, to token.Pos, with string) {
	start, end := m.at(from), m.at(to)
	old := string(m.source[start:end])
	where := m.fset.Position(from)
	x := &Mutant{Kind: op, File: m.name, Line: where.Line, column: where.Column}
	x.Breaks = brief(old) + " becomes " + brief(with)
	if with == "" {
		x.Breaks = brief(old) + " is gone"
	}
	x.Name = fmt.Sprintf("%s:%d:%d %s", m.name, x.Line, x.column, op)
	x.place = marked(m.source, start)
	x.source = bytes.Join([][]byte{m.source[:start:start], []byte(with), m.source[end:]}, nil)
	m.all = append(m.all, x)
}

func (m *mutator) swap(p token.Pos, t token.Token) {
	if s, ok := swapped[t]; ok {
		m.change(s.op, p, p+token.Pos(len(t.String())), s.to.String())
	}
}

func (m *mutator) booleans(all []ast.Expr) {
	for _, e := range all {
		switch id, ok := e.(*ast.Ident); {
		case !ok:
		case id.Name == "true":
			m.change(opBool, id.Pos(), id.End(), "false")
		case id.Name == "false":
			m.change(opBool, id.Pos(), id.End(), "true")
		}
	}
}

// call exchanges min and max, and reports whether faults in the arguments count.
func (m *mutator) call(n *ast.CallExpr) bool {
	if id, ok := n.Fun.(*ast.Ident); ok {
		switch id.Name {
		case "min":
			m.change(opExtremum, id.Pos(), id.End(), "max")
		case "max":
			m.change(opExtremum, id.Pos(), id.End(), "min")
		case "panic":
			return false
		}
	}
	return !isMessage(n)
}

// visit adds the mutants of a node, and reports whether to go on below it.
func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return m.call(n)
	case *ast.BinaryExpr:
		m.swap(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		m.swap(n.TokPos, n.Tok)
		m.change(opDrop, n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		m.swap(n.TokPos, n.Tok)
		m.booleans(n.Rhs)
	case *ast.ReturnStmt:
		m.booleans(n.Results)
	case *ast.IfStmt:
		if e := n.Cond; e != nil {
			m.change(opNegate, e.Pos(), e.End(), "!("+string(m.source[m.at(e.Pos()):m.at(e.End())])+")")
		}
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok == token.BREAK {
			m.change(opLoop, n.Pos(), n.End(), "continue")
		} else if n.Label == nil && n.Tok == token.CONTINUE {
			m.change(opLoop, n.Pos(), n.End(), "break")
		}
	case *ast.BlockStmt:
		drop(n.List, m.change)
	case *ast.CaseClause:
		drop(n.Body, m.change)
	}
	return true
}

// mark stands in a line of source where it is changed.
const mark = "»"

// marked is the line around an offset, with a mark there.
func marked(source []byte, at int) string {
	start := bytes.LastIndexByte(source[:at], '\n') + 1
	end := len(source)
	if n := bytes.IndexByte(source[at:], '\n'); n >= 0 {
		end = at + n
	}
	return strings.TrimSpace(string(source[start:at])+mark) + string(source[at:end])
}

// drop offers to leave out each call, each assignment to what is declared elsewhere.
func drop(list []ast.Stmt, change func(op string, from, to token.Pos, with string)) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); ok && !isPanic(c) {
				change(opDrop, s.Pos(), s.End(), "")
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !discards(s) {
				change(opDrop, s.Pos(), s.End(), "")
			}
		}
	}
}

// discards reports whether an assignment is to nothing.
func discards(s *ast.AssignStmt) bool {
	id, ok := s.Lhs[0].(*ast.Ident)
	return ok && id.Name == "_" && len(s.Lhs) == 1
}

func isPanic(c *ast.CallExpr) bool {
	id, ok := c.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// isMessage reports whether a call makes an error's text, in which no test should
// find a fault.
func isMessage(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && (x.Name == "fmt" || x.Name == "errors") || s.Sel.Name == "Errorf" || s.Sel.Name == "errorf"
}

// brief is one line of source for a table.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return s
}
