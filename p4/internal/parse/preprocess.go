package parse

import (
	"fmt"
	"math/big"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// Bounds on the growth of a program's text, so that hostile text ends in an error.
const (
	maxInclude = 64
	maxTokens  = 1 << 18
	maxExpand  = 256
)

type macro struct {
	name   string
	params []string
	isFunc bool
	body   []token
	busy   bool
}

type condition struct {
	pos ast.Pos
	// active: this branch is taken; done: some branch was; outer: what is
	// around is active.
	active, done, outer, sawElse bool
}

type preprocessor struct {
	opts   Options
	macros map[string]*macro
	out    []token
	depth  int

	warnings []ast.Warning
}

type bailout struct{ err *Error }

func fail(p ast.Pos, format string, args ...any) {
	panic(bailout{&Error{p, fmt.Sprintf(format, args...)}})
}

func (pp *preprocessor) define(name, body string, p ast.Pos) {
	l := &lexer{file: p.File, src: body, line: p.Line, col: p.Col, inDirective: true}
	m := &macro{name: name}
	for t := l.next(); t.kind != tEOF; t = l.next() {
		m.body = append(m.body, t)
	}
	pp.macros[name] = m
}

// file reads one file's tokens, directives done, into out.
func (pp *preprocessor) file(name string, src []byte) {
	pp.depth++
	l := &lexer{file: name, src: string(src), line: 1, col: 1, bol: true}
	var conds conditions
	var pending []token // text between directives, so that calls may span lines
	flush := func() {
		if len(pending) > 0 {
			pp.expand(pending, 0)
			pending = pending[:0]
		}
	}
	for {
		l.skipping = !conds.active()
		t := l.next()
		switch {
		case t.kind == tEOF:
			flush()
			if len(conds) > 0 {
				fail(conds[len(conds)-1].pos, "this #if has no #endif")
			}
			pp.depth--
			return
		case t.kind == tDirective:
			flush()
			word, rest := splitWord(t.text)
			if !pp.conditional(&conds, word, rest, t.pos) && conds.active() {
				pp.directive(word, rest, t.pos)
			}
		case conds.active():
			if t.kind == tBad {
				fail(t.pos, "%s", t.text)
			}
			if len(pending) == maxTokens {
				fail(t.pos, "the program has more than %d tokens", maxTokens)
			}
			pending = append(pending, t)
		}
	}
}

// conditions are the #if that are open, outermost first.
type conditions []condition

func (cs conditions) active() bool { return len(cs) == 0 || cs[len(cs)-1].active }

// conditional handles #if and its like; it returns false for another directive.
func (pp *preprocessor) conditional(cs *conditions, word, rest string, pos ast.Pos) bool {
	switch word {
	case "if", "ifdef", "ifndef":
		c := condition{pos: pos, outer: cs.active()}
		c.active = c.outer && pp.holds(word, rest, pos)
		c.done = c.active
		if *cs = append(*cs, c); len(*cs) > maxExpand {
			fail(pos, "conditions are nested more than %d deep", maxExpand)
		}
		return true
	case "elif", "else", "endif":
	default:
		return false
	}
	if len(*cs) == 0 {
		fail(pos, "#%s without #if: remove it or add the #if", word)
	}
	c := &(*cs)[len(*cs)-1]
	switch {
	case word == "endif":
		*cs = (*cs)[:len(*cs)-1]
	case c.sawElse && word == "else":
		fail(pos, "a second #else for the #if of line %d", c.pos.Line)
	case c.sawElse:
		fail(pos, "#elif behind the #else of the #if of line %d", c.pos.Line)
	default:
		c.sawElse = word == "else"
		c.active = c.outer && !c.done && (c.sawElse || pp.condition(rest, pos))
		c.done = c.done || c.active
	}
	return true
}

// holds evaluates #if, #ifdef or #ifndef.
func (pp *preprocessor) holds(word, rest string, pos ast.Pos) bool {
	if word == "if" {
		return pp.condition(rest, pos)
	}
	id, _ := splitWord(rest)
	if id == "" {
		fail(pos, "#%s needs a name", word)
	}
	_, defined := pp.macros[id]
	return defined == (word == "ifdef")
}

// directive does what a directive that is no condition says.
func (pp *preprocessor) directive(word, rest string, pos ast.Pos) {
	switch word {
	case "include":
		pp.include(rest, pos)
	case "define":
		pp.defineLine(rest, pos)
	case "undef":
		id, _ := splitWord(rest)
		delete(pp.macros, id)
	case "error":
		fail(pos, "#error%s", strings.TrimRight(" "+rest, " "))
	case "pragma", "warning", "line", "":
	default:
		if !isDigit(word[0]) { // a line marker of a preprocessed file
			pp.warnings = append(pp.warnings, ast.Warning{Pos: pos, Msg: "no preprocessor directive is called #" + word + ": the line is left out"})
		}
	}
}

func splitWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t\r\f\v")
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
		n++
	}
	if n == 0 && s != "" {
		return s[:1], strings.TrimSpace(s[1:])
	}
	return s[:n], strings.TrimSpace(s[n:])
}

func (pp *preprocessor) include(rest string, p ast.Pos) {
	if pp.depth >= maxInclude {
		fail(p, "files include each other more than %d deep: guard them with #ifndef", maxInclude)
	}
	if rest != "" && isLetter(rest[0]) { // #include MACRO
		var b strings.Builder
		for _, t := range pp.expandText(rest, p) {
			if t.kind == tString {
				fmt.Fprintf(&b, "%q", t.text)
			} else {
				b.WriteString(t.text)
			}
		}
		rest = b.String()
	}
	name, system := includeName(rest)
	if name == "" {
		fail(p, `#include needs "file" or <file>`)
	}
	var dirs []string
	if path.IsAbs(name) {
		dirs = []string{""}
	} else {
		if !system {
			dirs = append(dirs, path.Dir(p.File))
		}
		dirs = append(dirs, pp.opts.Include...)
	}
	if !pp.read(name, dirs) {
		fail(p, "cannot find %s in %s: name its directory with -I", name, describeDirs(dirs))
	}
}

// includeName is the file that #include names, as "file" or, of the system, as <file>; empty if it names none.
func includeName(s string) (name string, system bool) {
	if len(s) < 2 {
		return "", false
	}
	switch s[0] {
	case '"':
		name, _, ok := strings.Cut(s[1:], "\"")
		if ok {
			return name, false
		}
	case '<':
		name, _, ok := strings.Cut(s[1:], ">")
		if ok {
			return name, true
		}
	}
	return "", false
}

// read reads a file from the first directory that has it, or the built-in one; false if there is none.
func (pp *preprocessor) read(name string, dirs []string) bool {
	if pp.opts.ReadFile != nil {
		for _, d := range dirs {
			full := name
			if d != "" && d != "." {
				full = path.Join(d, name)
			}
			if src, err := pp.opts.ReadFile(full); err == nil {
				pp.file(full, src)
				return true
			}
		}
	}
	if pp.opts.Builtin != nil {
		if src, err := pp.opts.Builtin(name); err == nil {
			pp.file("<"+name+">", src)
			return true
		}
	}
	return false
}

func describeDirs(dirs []string) string {
	if len(dirs) == 0 {
		return "the includes that are built in"
	}
	return strings.Join(dirs, ", ")
}

func (pp *preprocessor) defineLine(rest string, p ast.Pos) {
	l := &lexer{file: p.File, src: rest, line: p.Line, col: p.Col, inDirective: true}
	t := l.next()
	if t.kind != tIdent {
		fail(p, "#define needs a name")
	}
	m := &macro{name: t.text}
	t = l.next()
	if t.kind == tPunct && t.text == "(" && t.glued {
		m.isFunc = true
		t = l.next()
		for t.text != ")" || t.kind != tPunct {
			if t.kind != tIdent {
				fail(p, "parameters of macro %s are names between commas", m.name)
			}
			m.params = append(m.params, t.text)
			t = l.next()
			switch {
			case isTok(t, ")"):
			case isTok(t, ","):
				if t = l.next(); isTok(t, ")") {
					fail(p, "parameters of macro %s are names between commas", m.name)
				}
			default:
				fail(p, "parameters of macro %s are names between commas", m.name)
			}
		}
		t = l.next()
	}
	for ; t.kind != tEOF; t = l.next() {
		m.body = append(m.body, t)
	}
	pp.macros[m.name] = m
}

func (pp *preprocessor) emit(t token) {
	if len(pp.out) >= maxTokens {
		fail(t.pos, "the program has more than %d tokens after its macros are expanded", maxTokens)
	}
	if t.kind == tBad {
		fail(t.pos, "%s", t.text)
	}
	pp.out = append(pp.out, t)
}

// expand appends toks, macros expanded, to out.
func (pp *preprocessor) expand(toks []token, depth int) {
	if depth > maxExpand {
		fail(toks[0].pos, "macros expand each other more than %d deep", maxExpand)
	}
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		m := pp.macro(&t)
		if m == nil {
			pp.emit(t)
			continue
		}
		args, end, ok := pp.macroUse(m, toks, i)
		if !ok {
			pp.emit(t)
			continue
		}
		body := pp.substitute(m, args, t)
		i = end
		if len(body) == 0 {
			continue
		}
		body[0].bol = t.bol
		body[0].glued = t.glued
		before := len(pp.out)
		m.busy = true
		pp.expand(body, depth+1)
		m.busy = false
		// The arguments of a macro may follow one that expands to its name.
		if n := len(pp.out); n > before && pp.awaits(pp.out[n-1]) && i+1 < len(toks) && isTok(toks[i+1], "(") {
			toks[i], pp.out = pp.out[n-1], pp.out[:n-1]
			i--
		}
	}
}

// macro is the macro that a token names; if there is none, the token becomes what stands there.
func (pp *preprocessor) macro(t *token) *macro {
	if t.kind != tIdent || t.hide {
		return nil
	}
	switch t.text {
	case "__LINE__":
		*t = token{kind: tInt, text: strconv.Itoa(t.pos.Line), pos: t.pos, bol: t.bol}
		return nil
	case "__FILE__":
		*t = token{kind: tString, text: t.pos.File, pos: t.pos, bol: t.bol}
		return nil
	}
	m := pp.macros[t.text]
	if m != nil && m.busy {
		t.hide = true
		return nil
	}
	return m
}

// macroUse finds the arguments of the macro at toks[i] and the last token of its use; false if it takes arguments and none follow.
func (pp *preprocessor) macroUse(m *macro, toks []token, i int) (args [][]token, end int, ok bool) {
	if !m.isFunc {
		return nil, i, true
	}
	args, end, ok = macroArgs(toks, i+1)
	if !ok {
		return nil, i, false
	}
	if len(m.params) == 0 && len(args) == 1 && len(args[0]) == 0 {
		args = nil
	}
	if len(args) != len(m.params) {
		fail(toks[i].pos, "macro %s takes %d arguments, not %d", m.name, len(m.params), len(args))
	}
	return args, end, true
}

// awaits reports whether a token is the name of a macro that takes arguments.
func (pp *preprocessor) awaits(t token) bool {
	m := pp.macros[t.text]
	return t.kind == tIdent && !t.hide && m != nil && m.isFunc && !m.busy
}

// macroArgs splits the arguments of a call whose ( is at toks[i]; end is the
// index of its ).
func macroArgs(toks []token, i int) (args [][]token, end int, ok bool) {
	if i >= len(toks) || toks[i].kind != tPunct || toks[i].text != "(" {
		return nil, 0, false
	}
	depth := 0
	var cur []token
	for ; i < len(toks); i++ {
		t := toks[i]
		if t.kind == tPunct {
			switch t.text {
			case "(":
				depth++
				if depth == 1 {
					continue
				}
			case ")":
				depth--
				if depth == 0 {
					return append(args, cur), i, true
				}
			case ",":
				if depth == 1 {
					args = append(args, cur)
					cur = nil
					continue
				}
			}
		}
		cur = append(cur, t)
	}
	return nil, 0, false
}

// A replacement is a macro's body with the arguments put in.
type replacement struct {
	pp   *preprocessor
	m    *macro
	args [][]token
	use  token
	out  []token
}

// substitute puts the arguments into a macro's body. Positions become those of
// the use.
func (pp *preprocessor) substitute(m *macro, args [][]token, use token) []token {
	r := &replacement{pp: pp, m: m, args: args, use: use}
	for i := 0; i < len(m.body); i++ {
		t := m.body[i]
		t.pos, t.bol = use.pos, false
		last := i+1 == len(m.body)
		switch {
		case !last && m.isFunc && isTok(t, "#") && r.param(m.body[i+1]) >= 0:
			i++
			r.add(token{kind: tString, text: tokensText(args[r.param(m.body[i])])})
		case !last && isTok(t, "##") && len(r.out) > 0:
			i++
			r.paste(m.body[i])
		case r.param(t) >= 0:
			r.argument(t, !last && m.body[i+1].text == "##")
		default:
			r.add(t)
		}
	}
	return slices.DeleteFunc(r.out, isEmpty)
}

// param is the index of the parameter that a token names, or -1.
func (r *replacement) param(t token) int {
	if t.kind != tIdent {
		return -1
	}
	return slices.Index(r.m.params, t.text)
}

func (r *replacement) add(ts ...token) {
	if len(r.out)+len(ts) > maxTokens {
		fail(r.use.pos, "macro %s expands to more than %d tokens", r.m.name, maxTokens)
	}
	for _, t := range ts {
		t.pos, t.bol = r.use.pos, false
		r.out = append(r.out, t)
	}
}

// paste joins a token, or a parameter's first, to the last so far.
func (r *replacement) paste(t token) {
	next := []token{t}
	if k := r.param(t); k >= 0 {
		next = r.args[k]
	}
	if len(next) == 0 {
		return
	}
	last := r.out[len(r.out)-1]
	r.out = r.out[:len(r.out)-1]
	if isEmpty(last) {
		r.add(next...)
		return
	}
	l := &lexer{file: r.use.pos.File, src: last.text + next[0].text, line: r.use.pos.Line, col: r.use.pos.Col, inDirective: true}
	for p := l.next(); p.kind != tEOF; p = l.next() {
		r.add(p)
	}
	r.add(next[1:]...)
}

// argument puts in what a parameter stands for: expanded, but for an operand of ##.
func (r *replacement) argument(t token, pasted bool) {
	arg := slices.Clone(r.args[r.param(t)])
	switch {
	case !pasted:
		arg = r.pp.expandList(arg)
	case len(arg) == 0:
		arg = []token{empty}
	}
	if len(arg) > 0 {
		arg[0].glued = t.glued
	}
	r.add(arg...)
}

// empty stands for an argument without tokens at the left of ##.
var empty = token{kind: tIdent}

func isEmpty(t token) bool { return t.kind == tIdent && t.text == "" }

// expandList expands tokens on their own.
func (pp *preprocessor) expandList(toks []token) []token {
	if len(toks) == 0 {
		return nil
	}
	saved := pp.out
	pp.out = nil
	pp.expand(toks, 1)
	res := pp.out
	pp.out = saved
	return res
}

func (pp *preprocessor) expandText(s string, p ast.Pos) []token {
	l := &lexer{file: p.File, src: s, line: p.Line, col: p.Col, inDirective: true}
	var ts []token
	for t := l.next(); t.kind != tEOF; t = l.next() {
		t.pos = p
		ts = append(ts, t)
	}
	return pp.expandList(ts)
}

func tokensText(ts []token) string {
	var b strings.Builder
	for i, t := range ts {
		if i > 0 && !t.glued {
			b.WriteByte(' ')
		}
		if t.kind == tString {
			fmt.Fprintf(&b, "%q", t.text)
		} else {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// condition evaluates the expression of #if and #elif.
func (pp *preprocessor) condition(s string, p ast.Pos) bool {
	l := &lexer{file: p.File, src: s, line: p.Line, col: p.Col, inDirective: true}
	var ts []token
	for t := l.next(); t.kind != tEOF; t = l.next() {
		t.pos = p
		if t.kind == tIdent && t.text == "defined" {
			n := l.next()
			paren := n.kind == tPunct && n.text == "("
			if paren {
				n = l.next()
			}
			if n.kind != tIdent {
				fail(p, "defined needs a name")
			}
			if paren {
				if c := l.next(); c.text != ")" {
					fail(p, "defined(%s lacks its )", n.text)
				}
			}
			v := "0"
			if _, ok := pp.macros[n.text]; ok {
				v = "1"
			}
			t = token{kind: tInt, text: v, pos: p}
		}
		ts = append(ts, t)
	}
	e := &condExpr{toks: pp.expandList(ts), pos: p}
	v := e.ternary(0)
	if e.i < len(e.toks) {
		fail(p, "the condition ends before %s", e.toks[e.i])
	}
	return v != 0
}

type condExpr struct {
	toks []token
	i    int
	pos  ast.Pos
	skip bool // what is read now does not count
}

func (e *condExpr) op() string {
	if e.i < len(e.toks) && e.toks[e.i].kind == tPunct {
		if e.toks[e.i].text == ">" && e.i+1 < len(e.toks) && e.toks[e.i+1].text == ">" && e.toks[e.i+1].glued {
			return ">>"
		}
		return e.toks[e.i].text
	}
	return ""
}

func (e *condExpr) ternary(depth int) int64 {
	c := e.binary(1, depth)
	if e.op() != "?" {
		return c
	}
	e.i++
	a := e.unless(c == 0, func() int64 { return e.ternary(depth + 1) })
	if e.op() != ":" {
		fail(e.pos, "? lacks its : in the condition")
	}
	e.i++
	b := e.unless(c != 0, func() int64 { return e.ternary(depth + 1) })
	if c != 0 {
		return a
	}
	return b
}

var condPrec = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

func (e *condExpr) binary(prec, depth int) int64 {
	x := e.unary(depth)
	for {
		op := e.op()
		p := condPrec[op]
		if p < prec || p == 0 {
			return x
		}
		e.i++
		if op == ">>" {
			e.i++
		}
		known := op == "&&" && x == 0 || op == "||" && x != 0
		y := e.unless(known, func() int64 { return e.binary(p+1, depth+1) })
		x = e.apply(op, x, y)
	}
}

// unless reads an operand that does not count if skip is set: there a division
// by zero is no fault.
func (e *condExpr) unless(skip bool, operand func() int64) int64 {
	old := e.skip
	e.skip = e.skip || skip
	v := operand()
	e.skip = old
	return v
}

func (e *condExpr) apply(op string, x, y int64) int64 {
	if f := condOps[op]; f != nil {
		return f(x, y)
	}
	if y == 0 {
		if !e.skip {
			fail(e.pos, "division by zero in the condition")
		}
		return 0
	}
	quotient, rest := -x, int64(0) // by -1
	if y != -1 {
		quotient, rest = x/y, x%y
	}
	if op == "/" {
		return quotient
	}
	return rest
}

// condOps are the operators of conditions but for / and %.
var condOps = map[string]func(x, y int64) int64{
	"||": func(x, y int64) int64 { return truth(x != 0 || y != 0) },
	"&&": func(x, y int64) int64 { return truth(x != 0 && y != 0) },
	"|":  func(x, y int64) int64 { return x | y },
	"^":  func(x, y int64) int64 { return x ^ y },
	"&":  func(x, y int64) int64 { return x & y },
	"==": func(x, y int64) int64 { return truth(x == y) },
	"!=": func(x, y int64) int64 { return truth(x != y) },
	"<":  func(x, y int64) int64 { return truth(x < y) },
	">":  func(x, y int64) int64 { return truth(x > y) },
	"<=": func(x, y int64) int64 { return truth(x <= y) },
	">=": func(x, y int64) int64 { return truth(x >= y) },
	"<<": func(x, y int64) int64 { return x << (uint64(y) & 63) },
	">>": func(x, y int64) int64 { return x >> (uint64(y) & 63) },
	"+":  func(x, y int64) int64 { return x + y },
	"-":  func(x, y int64) int64 { return x - y },
	"*":  func(x, y int64) int64 { return x * y },
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

func (e *condExpr) unary(depth int) int64 {
	if depth > maxExpand {
		fail(e.pos, "the condition is nested more than %d deep", maxExpand)
	}
	if e.i >= len(e.toks) {
		fail(e.pos, "the condition ends too early")
	}
	t := e.toks[e.i]
	e.i++
	switch t.kind {
	case tInt:
		return new(big.Int).And(condInt(t, e.pos), big.NewInt(1<<63-1)).Int64()
	case tIdent:
		if t.text == "true" {
			return 1
		}
		return 0
	}
	switch t.text {
	case "(":
		v := e.ternary(depth + 1)
		if e.op() != ")" {
			fail(e.pos, "( lacks its ) in the condition")
		}
		e.i++
		return v
	case "!":
		if e.unary(depth+1) == 0 {
			return 1
		}
		return 0
	case "-":
		return -e.unary(depth + 1)
	case "+":
		return e.unary(depth + 1)
	case "~":
		return ^e.unary(depth + 1)
	}
	fail(e.pos, "%s has no place in a condition", t)
	return 0
}

// condInt reads an integer of a condition. One that begins with 0 is octal, as C's preprocessor has it; in P4 it is decimal.
func condInt(t token, at ast.Pos) *big.Int {
	if t.text[0] == '0' && allDigits(t.text) {
		n, ok := new(big.Int).SetString(t.text, 8)
		if !ok {
			fail(at, "%s is no integer of base 8, which the 0 in front makes it", t)
		}
		return n
	}
	lit, err := intLit(t)
	if err != "" {
		fail(at, "%s", err)
	}
	return lit.value
}

type intValue struct {
	value  *big.Int
	width  int
	sized  bool
	signed bool
}

// intLit reads an integer literal. err is "" or what is wrong.
func intLit(t token) (v intValue, err string) {
	s := t.text
	if i := strings.IndexAny(s, "ws"); i > 0 && allDigits(s[:i]) {
		n, e := strconv.Atoi(s[:i])
		if e != nil || n > maxWidth {
			return v, fmt.Sprintf("the width of %s is beyond %d bits", s, maxWidth)
		}
		v.sized, v.signed, v.width = true, s[i] == 's', n
		s = s[i+1:]
		if n == 0 && v.signed {
			return v, fmt.Sprintf("%s has no bits: a width is 1 or more", t.text)
		}
	}
	base, s := baseOf(s)
	s = strings.ReplaceAll(s, "_", "")
	if len(s) > 10000 {
		return v, "an integer of more than 10000 digits"
	}
	n, ok := new(big.Int).SetString(s, base)
	if !ok || s == "" || s[0] == '-' || s[0] == '+' {
		return v, fmt.Sprintf("%s is no integer of base %d", t, base)
	}
	v.value = n
	return v, ""
}

// baseOf is the base of a number and its digits.
func baseOf(s string) (int, string) {
	if len(s) > 1 && s[0] == '0' {
		switch s[1] {
		case 'x', 'X':
			return 16, s[2:]
		case 'o', 'O':
			return 8, s[2:]
		case 'b', 'B':
			return 2, s[2:]
		case 'd', 'D':
			return 10, s[2:]
		}
	}
	return 10, s
}

// maxWidth bounds widths of types and literals.
const maxWidth = 1 << 16

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func sortedKeys(m map[string]string) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}
