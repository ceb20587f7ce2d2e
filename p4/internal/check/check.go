// Package check resolves the names of a parsed P4_16 program, infers and checks
// its types, folds its constants, and makes the tree of instances that runs
// (language specification 1.2.5, chapters 6 to 18). What it promises of the
// tree is at the top of package ast.
package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// Error is a fault at a place of the program.
type Error struct {
	Pos ast.Pos
	Msg string
}

// Error gives file:line:column: message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Pos, e.Msg) }

// Errors are the faults of a program, in the order in which they were found, at
// most 20. There is at least one.
type Errors []*Error

// Error gives one line for each.
func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

const (
	maxErrors    = 20
	maxInstances = 4096    // in one program
	maxLeaves    = 1 << 16 // basic values in one type
	maxWidth     = 1 << 16 // bits of one basic type
	maxIntBits   = 1 << 17 // bits of a constant of type int
	maxSpecial   = 1024    // copies of generic functions
)

// Options are a check's inputs beside the program.
type Options struct {
	// NoMain lets a program pass that has no package instance called main; its
	// Program.Main is nil then.
	NoMain bool
}

// Program checks a program and completes its tree. The error is of type Errors.
func Program(p *ast.Program, opts Options) error {
	c := &checker{
		prog:      p,
		global:    &scope{names: map[string][]ast.Decl{}},
		errType:   &types.Error{Members: []string{noError}},
		errIndex:  map[string]int{},
		kinds:     map[string]bool{},
		structs:   map[string]*ast.StructDecl{},
		externs:   map[string]*ast.ExternDecl{},
		interned:  map[string]types.Type{},
		leaves:    map[types.Type]int{},
		pristine:  map[ast.Decl]ast.Decl{},
		special:   map[string]*ast.FunctionDecl{},
		callables: map[ast.Decl]*types.Callable{},
		seen:      map[string]bool{},
	}
	c.scope = c.global
	c.program()
	if len(c.errs) == 0 && p.Main == nil && !opts.NoMain {
		pos := p.P
		if n := len(p.Decls); n > 0 {
			pos = p.Decls[n-1].Pos()
		}
		c.errorf(pos, "the program has no package instance called main: end it with the architecture's package, as V1Switch(...) main;")
	}
	if len(c.errs) > 0 {
		return c.errs
	}
	return nil
}

type checker struct {
	prog   *ast.Program
	global *scope
	scope  *scope
	errs   Errors
	seen   map[string]bool

	errType  *types.Error
	errIndex map[string]int // of the errors that are declared so far
	kinds    map[string]bool

	structs   map[string]*ast.StructDecl
	externs   map[string]*ast.ExternDecl
	interned  map[string]types.Type
	leaves    map[types.Type]int
	pristine  map[ast.Decl]ast.Decl
	special   map[string]*ast.FunctionDecl
	callables map[ast.Decl]*types.Callable

	// elaborate: what is checked belongs to an instance (or the top level), so
	// that instantiations make Instances. cur is the instance around.
	elaborate bool
	cur       *ast.Instance
	instances int
	depth     int

	ctx context
}

// context holds the rules that the surrounding code sets.
type context struct {
	kind   ctxKind
	ret    types.Type // of the function around, or nil
	loops  int
	states map[string]*ast.StateDecl
	this   types.Type
}

type ctxKind uint8

const (
	ctxTop ctxKind = iota
	ctxParserLocal
	ctxState
	ctxControlLocal
	ctxApply
	ctxAction
	ctxFunction
	ctxTable
)

func (c *checker) errorf(p ast.Pos, format string, args ...any) {
	if len(c.errs) >= maxErrors {
		return
	}
	e := &Error{p, fmt.Sprintf(format, args...)}
	if k := e.Error(); !c.seen[k] {
		c.seen[k] = true
		c.errs = append(c.errs, e)
	}
}

// warnf notes what is taken though the specification does not allow it.
func (c *checker) warnf(p ast.Pos, format string, args ...any) {
	if len(c.prog.Warnings) >= maxErrors {
		return
	}
	w := ast.Warning{Pos: p, Msg: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.prog.Warnings, w) {
		c.prog.Warnings = append(c.prog.Warnings, w)
	}
}

// full says that no more errors are wanted.
func (c *checker) full() bool { return len(c.errs) >= maxErrors }

// scope

type scope struct {
	parent *scope
	names  map[string][]ast.Decl
}

func (c *checker) push() { c.scope = &scope{parent: c.scope, names: map[string][]ast.Decl{}} }
func (c *checker) pop()  { c.scope = c.scope.parent }

func (s *scope) lookup(name string) []ast.Decl {
	for ; s != nil; s = s.parent {
		if d := s.names[name]; d != nil {
			return d
		}
	}
	return nil
}

func (c *checker) find(name string, absolute bool) []ast.Decl {
	if absolute {
		return c.global.names[name]
	}
	return c.scope.lookup(name)
}

// declare adds a name to the innermost scope.
func (c *checker) declare(d ast.Decl) {
	name := d.DeclName()
	old := c.scope.names[name]
	if len(old) > 0 && !overloads(old, d) {
		c.errorf(d.Pos(), "%s is declared already, at %s: rename one", name, old[0].Pos())
		return
	}
	c.shadows(d)
	c.scope.names[name] = append(old, d)
}

// shadows refuses a variable or constant of a body that hides a parameter.
func (c *checker) shadows(d ast.Decl) {
	switch d.(type) {
	case *ast.VarDecl, *ast.ConstDecl:
	default:
		return
	}
	switch c.ctx.kind {
	case ctxApply, ctxAction, ctxFunction, ctxState:
	default:
		return
	}
	if hidden := c.scope.parent.lookup(d.DeclName()); len(hidden) > 0 {
		if p, ok := hidden[0].(*ast.Param); ok {
			c.errorf(d.Pos(), "%s hides the parameter %s of line %d: rename one", d.DeclName(), p.Name, p.P.Line)
		}
	}
}

// overloads reports whether d may share its name with what has it: functions that
// differ in their parameters.
func overloads(old []ast.Decl, d ast.Decl) bool {
	switch d := d.(type) {
	case *ast.FunctionDecl:
		for _, o := range old {
			f, ok := o.(*ast.FunctionDecl)
			if !ok || sameNames(f.Params, d.Params) {
				return false
			}
		}
		return true
	}
	return false
}

func sameNames(a, b []*ast.Param) bool {
	if len(a) != len(b) {
		return false
	}
	x, y := make([]string, len(a)), make([]string, len(b))
	for i := range a {
		x[i], y[i] = a[i].Name, b[i].Name
	}
	sort.Strings(x)
	sort.Strings(y)
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}

// nest bounds the depth of checks that start each other.
func (c *checker) nest(p ast.Pos) bool {
	c.depth++
	if c.depth > 4000 {
		c.errorf(p, "not supported: nested too deep")
		return false
	}
	return true
}
