package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"strings"
)

// emitter writes the body of one function.
type emitter struct {
	g      *generator
	f      *function
	label  string // of the function, in messages
	out    strings.Builder
	indent int

	names    map[types.Object]string
	taken    map[string][]types.Object // names, and whose they are; nil is a temporary's
	comments []*ast.CommentGroup       // not written yet
	ranges   map[types.Object]string   // loops' variables, and what they index
	below    map[types.Object]int64    // variables less than a constant
	result   string                    // C type, if there is a result
	breaks   []bool                    // what break would leave: whether C has it
}

func (e *emitter) line(format string, args ...any) {
	e.out.WriteString(strings.Repeat("\t", e.indent))
	fmt.Fprintf(&e.out, format, args...)
	e.out.WriteByte('\n')
}

// local is the C name of a variable: another one if C would mistake it.
func (e *emitter) local(v types.Object) string {
	if n, ok := e.names[v]; ok {
		return n
	}
	n := name(v.Name())
	for i := 2; e.conflicts(n, v); i++ {
		n = fmt.Sprintf("%s%d", name(v.Name()), i)
	}
	e.names[v] = n
	e.taken[n] = append(e.taken[n], v)
	return n
}

// conflicts reports whether a name is that of another variable in a scope around v's,
// or within it.
func (e *emitter) conflicts(n string, v types.Object) bool {
	mine := e.g.scopeOf(v)
	for _, other := range e.taken[n] {
		theirs := e.g.scopeOf(other)
		if mine == nil || theirs == nil || within(mine, theirs) || within(theirs, mine) {
			return true
		}
	}
	return false
}

func within(inner, outer *types.Scope) bool {
	for ; inner != nil; inner = inner.Parent() {
		if inner == outer {
			return true
		}
	}
	return false
}

// scopeOf is the scope that a variable has in C, where what an if or a switch sets up
// stands before it.
func (g *generator) scopeOf(v types.Object) *types.Scope {
	if v == nil {
		return nil
	}
	s := v.Parent()
	for s != nil && g.hoisted[s] {
		s = s.Parent()
	}
	return s
}

// temporary is a name for a value that Go has none for.
func (e *emitter) temporary(base string) string {
	n := base
	for i := 2; e.taken[n] != nil; i++ {
		n = fmt.Sprintf("%s%d", base, i)
	}
	e.taken[n] = []types.Object{nil}
	return n
}

// before writes the comments that stand before a place.
func (e *emitter) before(pos token.Pos) {
	for len(e.comments) > 0 && e.comments[0].Pos() < pos {
		e.comment()
	}
}

func (e *emitter) comment() {
	for _, c := range e.comments[0].List {
		if !strings.HasPrefix(c.Text, "//nolint") {
			e.line("%s", e.g.cComment(c.Text))
		}
	}
	e.comments = e.comments[1:]
}

// after writes a comment that stands behind a statement, on its line.
func (e *emitter) after(end token.Pos) {
	if len(e.comments) == 0 || e.g.p.fset.Position(e.comments[0].Pos()).Line != e.g.p.fset.Position(end).Line {
		return
	}
	c := e.comments[0].List[0].Text
	e.comments = e.comments[1:]
	if strings.HasPrefix(c, "//nolint") {
		return
	}
	s := e.out.String()
	e.out.Reset()
	e.out.WriteString(strings.TrimSuffix(s, "\n") + " " + e.g.cComment(c) + "\n")
}

func (e *emitter) block(list []ast.Stmt, end token.Pos) {
	e.indent++
	e.stmts(list)
	if end.IsValid() {
		e.before(end)
	}
	e.indent--
}

func (e *emitter) stmts(list []ast.Stmt) {
	last := token.NoPos
	for _, s := range list {
		start := s.Pos()
		if len(e.comments) > 0 && e.comments[0].Pos() < start {
			start = e.comments[0].Pos()
		}
		if last.IsValid() && e.g.p.fset.Position(start).Line > e.g.p.fset.Position(last).Line+1 {
			e.out.WriteByte('\n')
		}
		e.before(s.Pos())
		switch s.(type) {
		case *ast.AssignStmt, *ast.ReturnStmt, *ast.ExprStmt:
			if e.g.p.fset.Position(s.Pos()).Line != e.g.p.fset.Position(s.End()).Line {
				e.before(s.End()) // within it there is no place for them
			}
		}
		e.stmt(s)
		e.after(s.End())
		last = s.End()
	}
}

func (e *emitter) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			e.no(s, "an expression as a statement")
			return
		}
		e.line("%s;", e.call(call).s)
	case *ast.AssignStmt:
		e.assign(s)
	case *ast.IncDecStmt:
		e.line("%s%s;", e.sub(s.X).in(precPostfix), s.Tok)
	case *ast.DeclStmt:
		e.declStmt(s)
	case *ast.ReturnStmt:
		e.returns(s)
	case *ast.BlockStmt:
		e.line("{")
		e.block(s.List, s.Rbrace)
		e.line("}")
	case *ast.IfStmt:
		e.ifStmt(s, "")
	case *ast.SwitchStmt:
		e.switchStmt(s)
	case *ast.ForStmt:
		e.forStmt(s)
	case *ast.RangeStmt:
		e.rangeStmt(s)
	case *ast.BranchStmt:
		e.branch(s)
	case *ast.EmptyStmt:
	default:
		e.no(s, "%s", strings.TrimPrefix(fmt.Sprintf("%T", s), "*ast."))
	}
}

func (e *emitter) branch(s *ast.BranchStmt) {
	switch {
	case s.Label != nil:
		e.no(s, "%s with a label", s.Tok)
	case s.Tok == token.CONTINUE:
		e.line("continue;")
	case s.Tok == token.BREAK && len(e.breaks) > 0 && e.breaks[len(e.breaks)-1]:
		e.line("break;")
	case s.Tok == token.BREAK:
		e.no(s, "break out of a switch without a tag")
	default:
		e.no(s, "%s", s.Tok)
	}
}

func (e *emitter) declStmt(s *ast.DeclStmt) {
	d := s.Decl.(*ast.GenDecl)
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			e.no(spec, "a type within a function")
			continue
		}
		e.before(v.Pos())
		for i, id := range v.Names {
			obj := e.g.p.info.Defs[id]
			if d.Tok == token.CONST {
				c := obj.(*types.Const)
				// A name for the value: what C calls constant is none in its expressions.
				t := types.Default(c.Type())
				e.line("%s = %s;", "const "+e.g.declare(e.label, id, t, e.local(obj)), e.literal(id, t, c.Val()).s)
				continue
			}
			if obj == nil {
				continue
			}
			switch {
			case len(v.Values) == 0:
				e.line("%s = %s;", e.g.declare(e.label, id, obj.Type(), e.local(obj)), e.zero(obj.Type()))
			case len(v.Values) == len(v.Names):
				e.define(obj, v.Values[i])
			default:
				e.no(v, "variables from one call")
			}
		}
		e.after(v.End())
	}
}

// zero is the zero value of a type as an initialiser.
func (e *emitter) zero(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Struct, *types.Array, *types.Slice:
		return "{0}"
	case *types.Pointer, *types.Interface:
		if isError(t) {
			return "0"
		}
		return "NULL"
	case *types.Basic:
		if u.Info()&types.IsString != 0 {
			return `""`
		}
		if u.Info()&types.IsFloat != 0 {
			return "0.0"
		}
		if u.Info()&types.IsBoolean != 0 {
			return "false"
		}
	}
	return "0"
}

// define declares a variable with its value.
func (e *emitter) define(obj types.Object, x ast.Expr) {
	t := obj.Type()
	var value string
	if c, ok := ast.Unparen(x).(*ast.CompositeLit); ok {
		value = e.fields(c)
	} else {
		if _, array := t.Underlying().(*types.Array); array {
			e.no(x, "an array as a value")
		}
		value = e.converted(t, x)
	}
	// The name comes last: the value may have an outer variable of it.
	e.line("%s = %s;", e.g.declare(e.label, x, t, e.local(obj)), value)
}

// converted writes a value for a place of type t: an interface may get a variant's.
func (e *emitter) converted(t types.Type, x ast.Expr) string {
	tv := e.g.p.info.Types[x]
	if tv.IsNil() && isError(t) {
		return "0"
	}
	if tv.IsNil() {
		if _, ok := t.Underlying().(*types.Slice); ok {
			return "(" + e.g.ctype(e.label, x, t) + "){0}"
		}
		return "NULL"
	}
	if types.IsInterface(t) && !isError(t) && tv.Type != nil && !types.IsInterface(tv.Type) {
		e.no(x, "a value of type %s as an interface", types.TypeString(tv.Type, nil))
	}
	return e.expr(x)
}

func blank(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "_"
}

func (e *emitter) assign(s *ast.AssignStmt) {
	if s.Tok != token.ASSIGN && s.Tok != token.DEFINE {
		e.assignOp(s)
		return
	}
	if len(s.Lhs) > 1 && len(s.Rhs) == 1 {
		e.unpack(s)
		return
	}
	if len(s.Lhs) == 1 {
		e.assignOne(s.Lhs[0], s.Rhs[0], s.Tok == token.DEFINE)
		return
	}
	// Go evaluates all first. Where one changes what a later one reads, C needs a copy.
	var copies map[int]string
	for i, x := range s.Rhs {
		if e.changedBy(s.Lhs[:i], x) || e.movedBy(s.Lhs[:i], s.Lhs[i]) {
			if copies == nil {
				copies = map[int]string{}
			}
			tmp := e.temporary("was")
			e.line("%s = %s;", e.g.declare(e.label, x, e.g.p.info.TypeOf(s.Lhs[i]), tmp), e.expr(x))
			copies[i] = tmp
		}
	}
	for i, l := range s.Lhs {
		if tmp, ok := copies[i]; ok {
			if e.movedBy(s.Lhs[:i], l) {
				e.no(l, "an assignment to what the same statement moves")
			}
			e.line("%s = %s;", e.expr(l), tmp)
			continue
		}
		e.assignOne(l, s.Rhs[i], s.Tok == token.DEFINE && e.g.p.info.Defs[identOf(l)] != nil)
	}
}

func identOf(x ast.Expr) *ast.Ident {
	id, _ := x.(*ast.Ident)
	return id
}

// movedBy reports whether an assignment to one of those may change where l is.
func (e *emitter) movedBy(targets []ast.Expr, l ast.Expr) bool {
	if e.plain(l) || !e.fixed(l) {
		return !e.plain(l) && e.changedBy(targets, l)
	}
	found := false
	ast.Inspect(l, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			for _, t := range targets {
				found = found || identOf(t) != nil && e.g.p.info.ObjectOf(identOf(t)) == e.g.p.info.Uses[id]
			}
		}
		return true
	})
	return found
}

// plain reports whether x is a variable.
func (e *emitter) plain(x ast.Expr) bool { return identOf(x) != nil }

// changedBy reports whether an assignment to one of those may change what x is.
func (e *emitter) changedBy(targets []ast.Expr, x ast.Expr) bool {
	info := e.g.p.info
	target := func(t ast.Expr) types.Object {
		for {
			switch u := t.(type) {
			case *ast.ParenExpr:
				t = u.X
			case *ast.IndexExpr:
				t = u.X
			case *ast.SelectorExpr:
				return info.Uses[u.Sel]
			case *ast.Ident:
				if o := info.Uses[u]; o != nil {
					return o
				}
				return info.Defs[u]
			default:
				return nil // through a pointer: anything
			}
		}
	}
	for _, t := range targets {
		if blank(t) {
			continue
		}
		o := target(t)
		whole := o == nil
		if o != nil {
			_, whole = o.Type().Underlying().(*types.Struct)
		}
		found := false
		ast.Inspect(x, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || info.Uses[n] == o && o != nil
			case *ast.SelectorExpr:
				if sel := info.Selections[n]; sel != nil && sel.Kind() == types.FieldVal && whole {
					found = true
				}
			case *ast.CallExpr:
				if f := e.g.callee(n); f != nil && intrinsics[f.FullName()] == "" && o != nil && e.g.shared(t) {
					found = true
				}
			case *ast.StarExpr:
				found = found || e.g.shared(t)
			}
			return true
		})
		if found {
			return true
		}
	}
	return false
}

func (e *emitter) assignOne(l, r ast.Expr, define bool) {
	if blank(l) {
		e.line("(void)%s;", e.sub(r).in(precUnary))
		return
	}
	if define {
		e.define(e.g.p.info.Defs[identOf(l)], r)
		return
	}
	t := e.g.p.info.TypeOf(l)
	if _, ok := t.Underlying().(*types.Array); ok {
		e.no(l, "an array as a value")
	}
	if e.impure(r) && !e.plain(l) && !e.fixed(l) {
		e.no(l, "an assignment to a place that the call on its right may move")
	}
	e.line("%s = %s;", e.expr(l), e.converted(t, r))
}

// fixed reports whether the place of x is known before a call: fields of what a
// variable points to.
func (e *emitter) fixed(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			_ = id
			return true
		}
		return !isPointer(e.g.p.info.TypeOf(x.X)) && e.fixed(x.X)
	case *ast.StarExpr:
		return identOf(x.X) != nil
	}
	return false
}

func (e *emitter) assignOp(s *ast.AssignStmt) {
	l, r := s.Lhs[0], s.Rhs[0]
	t := e.g.p.info.TypeOf(l)
	e.ordered(s, l, r)
	op := s.Tok - token.ADD_ASSIGN + token.ADD
	left := e.sub(l)
	switch {
	case op == token.ADD && isFloat(t), op == token.SUB && isFloat(t):
		e.unfused(r)
	case op == token.AND_NOT:
		if narrow(t) != "" {
			e.line("%s = (%s)(%s & ~%s);", left.s, basics[basicOf(t).Kind()], left.in(8), e.sub(r).in(precUnary))
			return
		}
		e.line("%s &= ~%s;", left.s, e.sub(r).in(precUnary))
		return
	case op == token.SHL, op == token.SHR:
		e.line("%s = %s;", left.s, e.shift(op, l, r).s)
		return
	case (op == token.QUO || op == token.REM) && isInteger(t):
		if v := e.g.p.info.Types[r].Value; v == nil || constant.Sign(v) <= 0 {
			e.line("%s = %s;", left.s, e.divide(op, l, r, t).s)
			return
		}
	}
	e.line("%s %s= %s;", left.s, op, e.expr(r))
}

// unpack assigns the results of a call, or of an assertion, to several variables.
func (e *emitter) unpack(s *ast.AssignStmt) {
	switch r := ast.Unparen(s.Rhs[0]).(type) {
	case *ast.TypeAssertExpr:
		e.assertion(s, r)
	case *ast.CallExpr:
		callee := e.g.callee(r)
		if callee == nil {
			e.no(s, "a call of a function value")
			return
		}
		var c string
		var fields []string
		if in, ok := intrinsicResults[intrinsics[callee.FullName()]]; ok {
			c, fields = in[0], in[1:]
		} else if d, ok := e.g.p.decls[callee]; ok && d.fn != nil && !e.g.outside(callee.Pkg()) {
			c, fields = e.g.results(callee)
		} else {
			e.no(s, "a call of %s", callee.FullName())
			return
		}
		call := e.call(r).s
		tmp := e.temporary("got")
		e.line("%s %s = %s;", c, tmp, call)
		for i, l := range s.Lhs {
			if blank(l) {
				continue
			}
			if id := identOf(l); id != nil && s.Tok == token.DEFINE && e.g.p.info.Defs[id] != nil {
				obj := e.g.p.info.Defs[id]
				e.line("%s = %s.%s;", e.g.declare(e.label, id, obj.Type(), e.local(obj)), tmp, fields[i])
				continue
			}
			e.line("%s = %s.%s;", e.expr(l), tmp, fields[i])
		}
	default:
		e.no(s, "several values from %T", r)
	}
}

// assertion is v, ok = x.(T) for the Spec's interfaces: a value that lacks T's methods
// is nil.
func (e *emitter) assertion(s *ast.AssignStmt, r *ast.TypeAssertExpr) {
	if r.Type == nil || !e.g.mapped(e.g.p.info.TypeOf(r.Type)) || !e.g.mapped(e.g.p.info.TypeOf(r.X)) {
		e.no(s, "a type assertion but between the interfaces of the specification")
		return
	}
	to := types.Unalias(e.g.p.info.TypeOf(r.Type)).(*types.Named).Obj()
	e.g.casts[to] = true
	value := fmt.Sprintf("%s(%s)", e.g.castName(to), e.expr(r.X))
	set := func(x ast.Expr, value string) {
		if id := identOf(x); id != nil && s.Tok == token.DEFINE && e.g.p.info.Defs[id] != nil {
			obj := e.g.p.info.Defs[id]
			e.line("%s = %s;", e.g.declare(e.label, id, obj.Type(), e.local(obj)), value)
			return
		}
		e.line("%s = %s;", e.expr(x), value)
	}
	switch {
	case blank(s.Lhs[0]):
		e.no(s, "a type assertion without its value")
	case blank(s.Lhs[1]):
		set(s.Lhs[0], value)
	default:
		set(s.Lhs[0], value)
		set(s.Lhs[1], e.expr(s.Lhs[0])+" != NULL")
	}
}

func (g *generator) castName(to *types.TypeName) string {
	return "sluice_" + snake(g.iface.Name()) + "_as_" + snake(to.Name())
}

func (e *emitter) returns(s *ast.ReturnStmt) {
	res := e.f.obj.Signature().Results()
	for _, x := range s.Results {
		if u, ok := ast.Unparen(x).(*ast.UnaryExpr); ok && u.Op == token.AND && !e.g.shared(u.X) {
			e.no(x, "the address of a variable that ends with the function")
		}
	}
	switch {
	case res.Len() == 0:
		e.line("return;")
	case len(s.Results) == 0 && res.Len() == 1:
		e.line("return %s;", e.local(res.At(0)))
	case len(s.Results) == 0:
		var parts []string
		for v := range res.Variables() {
			parts = append(parts, e.local(v))
		}
		e.line("return (%s){%s};", e.result, strings.Join(parts, ", "))
	case res.Len() == 1:
		e.line("return %s;", e.converted(res.At(0).Type(), s.Results[0]))
	case len(s.Results) == 1:
		call, ok := ast.Unparen(s.Results[0]).(*ast.CallExpr)
		callee := e.g.callee(call)
		if !ok || callee == nil {
			e.no(s, "several results from no call")
			return
		}
		if in, known := intrinsicResults[intrinsics[callee.FullName()]]; known {
			tmp := e.temporary("got")
			e.line("%s %s = %s;", in[0], tmp, e.call(call).s)
			e.line("return (%s){%s.%s, %s.%s};", e.result, tmp, in[1], tmp, in[2])
			return
		}
		c, fields := e.g.results(callee)
		if c == e.result {
			e.line("return %s;", e.call(call).s)
			return
		}
		tmp := e.temporary("got")
		e.line("%s %s = %s;", c, tmp, e.call(call).s)
		for i := range fields {
			fields[i] = tmp + "." + fields[i]
		}
		e.line("return (%s){%s};", e.result, strings.Join(fields, ", "))
	default:
		e.ordered(s, s.Results...)
		var parts []string
		for i, x := range s.Results {
			if c, ok := x.(*ast.CompositeLit); ok {
				parts = append(parts, e.fields(c))
				continue
			}
			parts = append(parts, e.converted(res.At(i).Type(), x))
		}
		e.line("return (%s){%s};", e.result, strings.Join(parts, ", "))
	}
}

// ifStmt writes an if. lead is what stands before: "} else " in a chain.
func (e *emitter) ifStmt(s *ast.IfStmt, lead string) {
	if s.Init != nil && lead != "" {
		// What it sets up is computed only here.
		e.line("} else {")
		e.indent++
		e.ifStmt(s, "")
		e.indent--
		e.line("}")
		return
	}
	if s.Init != nil {
		e.stmt(s.Init)
	}
	e.line("%sif (%s) {", lead, e.expr(s.Cond))
	e.after(s.Body.Lbrace)
	e.block(s.Body.List, s.Body.Rbrace)
	switch other := s.Else.(type) {
	case *ast.IfStmt:
		e.ifStmt(other, "} else ")
		return
	case *ast.BlockStmt:
		e.line("} else {")
		e.after(other.Lbrace)
		e.block(other.List, other.Rbrace)
	}
	e.line("}")
}

func (e *emitter) switchStmt(s *ast.SwitchStmt) {
	if s.Init != nil {
		e.stmt(s.Init)
	}
	var tag string
	words := false
	if s.Tag != nil {
		t := e.g.p.info.TypeOf(s.Tag)
		words = basicOf(t).Info()&types.IsString != 0
		if !isInteger(t) && !words {
			e.no(s, "a switch over %s", types.TypeString(t, nil))
			return
		}
		if !words && e.constantCases(s) {
			e.tagged(s)
			return
		}
		if e.impure(s.Tag) || !words && !e.stable(s.Tag) {
			tag = e.temporary("tag")
			e.line("%s = %s;", e.g.declare(e.label, s, t, tag), e.expr(s.Tag))
		} else {
			tag = e.sub(s.Tag).in(precPostfix)
		}
	}
	e.breaks = append(e.breaks, false)
	defer func() { e.breaks = e.breaks[:len(e.breaks)-1] }()
	lead := ""
	var other *ast.CaseClause
	for i, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		if c.List == nil {
			other = c
			if i < len(s.Body.List)-1 {
				e.no(c, "a default that is not the last case")
			}
			continue
		}
		var conds []string
		prec := precOr
		if len(c.List) == 1 {
			prec = 0
		}
		for _, x := range c.List {
			if words {
				conds = append(conds, fmt.Sprintf("sluice_same(%s, %s)", tag, e.expr(x)))
				continue
			}
			if tag != "" {
				conds = append(conds, fmt.Sprintf("%s == %s", tag, e.sub(x).in(10)))
				continue
			}
			e.ordered(x, x)
			t := e.sub(x)
			if t.prec == precAnd && prec > 0 {
				t = primary("(%s)", t.s)
			}
			conds = append(conds, t.in(prec))
		}
		if lead != "" && len(e.comments) > 0 && e.comments[0].Pos() < c.Pos() {
			e.indent++
			e.before(c.Pos())
			e.indent--
		}
		e.before(c.Pos())
		e.line("%sif (%s) {", lead, strings.Join(conds, " || "))
		lead = "} else "
		e.after(c.Colon)
		e.clause(s, i, c)
	}
	if other != nil {
		if lead == "" {
			e.line("{")
		} else {
			e.line("} else {")
		}
		e.after(other.Colon)
		e.clause(s, len(s.Body.List)-1, other)
	}
	e.line("}")
}

// clause writes the statements of a case, with the comments up to the next.
func (e *emitter) clause(s *ast.SwitchStmt, i int, c *ast.CaseClause) {
	end := s.Body.Rbrace
	if i+1 < len(s.Body.List) {
		end = c.End() + 1
	}
	e.block(c.Body, end)
}

func (e *emitter) constantCases(s *ast.SwitchStmt) bool {
	for _, c := range s.Body.List {
		for _, x := range c.(*ast.CaseClause).List {
			if e.g.p.info.Types[x].Value == nil {
				return false
			}
		}
	}
	return true
}

// tagged writes a switch whose cases are constants as C's.
func (e *emitter) tagged(s *ast.SwitchStmt) {
	e.breaks = append(e.breaks, true)
	defer func() { e.breaks = e.breaks[:len(e.breaks)-1] }()
	e.line("switch (%s) {", e.expr(s.Tag))
	for i, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		e.before(c.Pos())
		for _, x := range c.List {
			e.line("case %s:", e.expr(x))
		}
		if c.List == nil {
			e.line("default:")
		}
		e.after(c.Colon)
		declares := false
		for _, b := range c.Body {
			if a, ok := b.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				declares = true
			}
			switch b := b.(type) {
			case *ast.DeclStmt:
				declares = true
			case *ast.IfStmt:
				declares = declares || b.Init != nil
			case *ast.SwitchStmt:
				declares = true
			}
		}
		if declares {
			e.indent++
			e.line("{")
		}
		e.clause(s, i, c)
		if !e.leaves(c.Body) {
			e.indent++
			e.line("break;")
			e.indent--
		}
		if declares {
			e.line("}")
			e.indent--
		}
	}
	e.line("}")
}

// leaves reports whether statements end with one that does not go on.
func (e *emitter) leaves(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch list[len(list)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

func (e *emitter) forStmt(s *ast.ForStmt) {
	e.breaks = append(e.breaks, true)
	defer func() { e.breaks = e.breaks[:len(e.breaks)-1] }()
	cond := ""
	part := func(st ast.Stmt) string {
		switch st := st.(type) {
		case nil:
			return ""
		case *ast.AssignStmt, *ast.IncDecStmt:
			if a, ok := st.(*ast.AssignStmt); ok && len(a.Lhs) > 1 {
				return e.forParts(a)
			}
			sub := &emitter{g: e.g, f: e.f, label: e.label, names: e.names, taken: e.taken, ranges: e.ranges, below: e.below}
			sub.stmt(st)
			return strings.TrimSuffix(strings.TrimSpace(sub.out.String()), ";")
		}
		e.no(st, "%T in the head of a loop", st)
		return ""
	}
	start := part(s.Init)
	if s.Cond != nil {
		cond = e.expr(s.Cond)
	}
	switch step := part(s.Post); {
	case start == "" && step == "" && cond == "":
		e.line("for (;;) {")
	case start == "" && step == "":
		e.line("while (%s) {", cond)
	default:
		if cond != "" {
			cond = " " + cond
		}
		if step != "" {
			step = " " + step
		}
		e.line("for (%s;%s;%s) {", start, cond, step)
	}
	e.after(s.Body.Lbrace)
	e.block(s.Body.List, s.Body.Rbrace)
	e.line("}")
}

// forParts writes i, j := a, b and i, j = i+1, j+1 in the head of a loop.
func (e *emitter) forParts(a *ast.AssignStmt) string {
	var parts []string
	for i, l := range a.Lhs {
		if e.changedBy(a.Lhs[:i], a.Rhs[i]) || blank(l) || identOf(l) == nil {
			e.no(a, "an assignment in the head of a loop that needs a copy")
		}
		obj := e.g.p.info.Defs[identOf(l)]
		switch {
		case a.Tok == token.DEFINE && i == 0:
			parts = append(parts, fmt.Sprintf("%s = %s", e.g.declare(e.label, l, obj.Type(), e.local(obj)), e.expr(a.Rhs[i])))
		case a.Tok == token.DEFINE:
			first := e.g.p.info.Defs[identOf(a.Lhs[0])]
			if !types.Identical(obj.Type().Underlying(), first.Type().Underlying()) {
				e.no(a, "variables of different types in the head of a loop")
			}
			parts = append(parts, fmt.Sprintf("%s = %s", e.local(obj), e.expr(a.Rhs[i])))
		default:
			parts = append(parts, fmt.Sprintf("%s = %s", e.expr(l), e.expr(a.Rhs[i])))
		}
	}
	return strings.Join(parts, ", ")
}

func (e *emitter) rangeStmt(s *ast.RangeStmt) {
	e.breaks = append(e.breaks, true)
	defer func() { e.breaks = e.breaks[:len(e.breaks)-1] }()
	info := e.g.p.info
	t := info.TypeOf(s.X)
	if s.Tok == token.ASSIGN {
		e.no(s, "range over a variable of outside")
	}
	var key types.Object
	if s.Key != nil && !blank(s.Key) {
		key = info.Defs[identOf(s.Key)]
	}
	keyType := types.Type(types.Typ[types.Int])
	if isInteger(t) {
		keyType = t
		if key != nil {
			keyType = key.Type()
		}
	}
	var limit string
	once := false
	most := int64(math.MaxInt64)
	over, at := t, e.sub(s.X)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		over = p.Elem()
	}
	switch u := over.Underlying().(type) {
	case *types.Basic:
		if !isInteger(over) {
			e.no(s, "range over %s", types.TypeString(t, nil))
			return
		}
		if v := info.Types[s.X].Value; v != nil {
			most, _ = constant.Int64Val(v)
		}
		limit = at.in(11)
		if info.Types[s.X].Value == nil && e.assignedIn(s.X, s.Body) {
			tmp := e.temporary("n")
			e.line("%s = %s;", e.g.declare(e.label, s, keyType, tmp), at.s)
			limit = tmp
		}
	case *types.Array:
		most = u.Len()
		limit = fmt.Sprint(u.Len())
		if s.Value != nil && !blank(s.Value) {
			e.no(s, "range over the values of an array, which Go copies: use the index")
		}
	case *types.Slice:
		limit = at.in(precPostfix) + ".len"
		if _, part := ast.Unparen(s.X).(*ast.SliceExpr); part || e.movedIn(s.X, s.Body) {
			// Go looks once at what it ranges over.
			tmp := e.temporary("part")
			e.line("%s = %s;", e.g.declare(e.label, s, t, tmp), at.s)
			at, limit, once = primary("%s", tmp), tmp+".len", true
		}
	default:
		e.no(s, "range over %s", types.TypeString(t, nil))
		return
	}
	var i string
	if key != nil {
		i = e.local(key)
		if e.assignedIn(s.Key, s.Body) {
			e.no(s, "a loop over a range that changes its variable")
		}
		if !once {
			e.ranges[key] = types.ExprString(s.X)
		}
		e.below[key] = most
	} else {
		i = e.temporary("i")
	}
	e.line("for (%s = 0; %s < %s; %s++) {", e.g.declare(e.label, s, keyType, i), i, limit, i)
	e.after(s.Body.Lbrace)
	if s.Value != nil && !blank(s.Value) {
		v := info.Defs[identOf(s.Value)]
		e.indent++
		e.line("%s = %s.at[%s];", e.g.declare(e.label, s, v.Type(), e.local(v)), at.in(precPostfix), i)
		e.indent--
	}
	e.block(s.Body.List, s.Body.Rbrace)
	e.line("}")
}

// assignedIn reports whether the body may change x, by what x is made of.
func (e *emitter) assignedIn(x ast.Expr, body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			found = found || e.changedBy(n.Lhs, x)
		case *ast.IncDecStmt:
			found = found || e.changedBy([]ast.Expr{n.X}, x)
		case *ast.CallExpr:
			found = found || e.impure(n) && !e.stable(x)
		case *ast.UnaryExpr:
			found = found || n.Op == token.AND && types.ExprString(n.X) == types.ExprString(x)
		}
		return true
	})
	return found
}

// movedIn is assignedIn for a slice, which its elements are not part of.
func (e *emitter) movedIn(x ast.Expr, body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for _, l := range a.Lhs {
				_, element := ast.Unparen(l).(*ast.IndexExpr)
				found = found || !element && e.changedBy([]ast.Expr{l}, x)
			}
		}
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || e.impure(call) && !e.stable(x)
		}
		return true
	})
	return found
}
