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
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	var all []*Mutant
	change := func(op string, from, to token.Pos, with string) {
		old := string(source[at(from):at(to)])
		where := fset.Position(from)
		m := &Mutant{Kind: op, File: name, Line: where.Line, column: where.Column}
		m.Breaks = brief(old) + " becomes " + brief(with)
		if with == "" {
			m.Breaks = brief(old) + " is gone"
		}
		m.Name = fmt.Sprintf("%s:%d:%d %s", name, m.Line, m.column, op)
		m.place = marked(source, at(from))
		m.source = bytes.Join([][]byte{source[:at(from):at(from)], []byte(with), source[at(to):]}, nil)
		all = append(all, m)
	}
	swap := func(p token.Pos, t token.Token) {
		if s, ok := swapped[t]; ok {
			change(s.op, p, p+token.Pos(len(t.String())), s.to.String())
		}
	}
	condition := func(e ast.Expr) {
		if e != nil {
			change(opNegate, e.Pos(), e.End(), "!("+string(source[at(e.Pos()):at(e.End())])+")")
		}
	}
	boolean := func(e ast.Expr) {
		switch id, ok := e.(*ast.Ident); {
		case !ok:
		case id.Name == "true":
			change(opBool, id.Pos(), id.End(), "false")
		case id.Name == "false":
			change(opBool, id.Pos(), id.End(), "true")
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok {
				switch id.Name {
				case "min":
					change(opExtremum, id.Pos(), id.End(), "max")
				case "max":
					change(opExtremum, id.Pos(), id.End(), "min")
				case "panic":
					return false
				}
			}
			return !isMessage(n)
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			swap(n.TokPos, n.Tok)
			change(opDrop, n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			swap(n.TokPos, n.Tok)
			for _, e := range n.Rhs {
				boolean(e)
			}
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				boolean(e)
			}
		case *ast.IfStmt:
			condition(n.Cond)
		case *ast.BranchStmt:
			if n.Label == nil && n.Tok == token.BREAK {
				change(opLoop, n.Pos(), n.End(), "continue")
			} else if n.Label == nil && n.Tok == token.CONTINUE {
				change(opLoop, n.Pos(), n.End(), "break")
			}
		case *ast.BlockStmt:
			drop(n.List, change)
		case *ast.CaseClause:
			drop(n.Body, change)
		}
		return true
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "String" || f.Name.Name == "init" {
			continue // tables, names and registries
		}
		if f.Type.Results == nil && len(f.Body.List) > 0 {
			change(opReturn, f.Body.Lbrace+1, f.Body.Lbrace+1, "\nreturn\n")
			all[len(all)-1].Breaks = f.Name.Name + " returns at once"
		}
		ast.Inspect(f.Body, visit)
	}
	return all, nil
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
