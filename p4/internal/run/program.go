package run

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// A Program is compiled code without state. Several pipelines may share one, in several goroutines.
type Program struct {
	arch     string
	impl     architecture
	words    int // of a machine's memory
	state    int // the first of them, which a packet carries from ingress to egress
	tables   []*tableDef
	objects  []objectDef
	codes    errorCodes
	errors   []string
	warnings []string
}

// Architecture is "v1model" or "tna".
func (p *Program) Architecture() string { return p.arch }

// ErrorName is the name of an error's number, as Verdict.ParserError has it.
func (p *Program) ErrorName(code int) string {
	if code < 0 || code >= len(p.errors) {
		return fmt.Sprintf("error %d", code)
	}
	return p.errors[code]
}

// Tables describes all tables.
func (p *Program) Tables() []TableInfo {
	ts := make([]TableInfo, len(p.tables))
	for i, t := range p.tables {
		ts[i] = t.TableInfo
	}
	return ts
}

// Table describes one table; its name may leave out leading parts.
func (p *Program) Table(name string) (TableInfo, error) {
	i, err := find("table", name, len(p.tables), func(i int) string { return p.tables[i].Name })
	if err != nil {
		return TableInfo{}, err
	}
	return p.tables[i].TableInfo, nil
}

// Compile makes a program of a checked tree. What this package cannot run is an error that
// begins with a position and "not supported".
func Compile(p *ast.Program) (*Program, error) { return compileTree(p, false) }

// Check says of a checked tree what Compile would, but that an extern that the program itself declares is a
// warning and no error: the program is right, though nothing here can run it.
func Check(p *ast.Program) (Report, error) {
	prog, err := compileTree(p, true)
	if err != nil {
		return Report{}, err
	}
	return Report{Architecture: prog.arch, Tables: len(prog.tables), Warnings: prog.warnings}, nil
}

// A Report is Check's findings in a correct program.
type Report struct {
	Architecture string // "v1model" or "tna"
	Tables       int    // how many it has
	// Warnings are the places that p4c takes though the specification does not allow them, and the externs of
	// the program's own, as FILE:LINE:COLUMN: warning: TEXT.
	Warnings []string
}

func compileTree(p *ast.Program, checkOnly bool) (prog *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			var ce compileError
			if e, ok := r.(compileError); ok {
				ce = e
			} else {
				panic(r)
			}
			prog, err = nil, ce.err
		}
	}()
	if p.Main == nil {
		return nil, errors.New("the program has no main: instantiate a package with this name")
	}
	prog = &Program{}
	if p.Error != nil {
		prog.errors = p.Error.Members
	}
	for _, w := range p.Warnings {
		prog.warnings = append(prog.warnings, w.String())
	}
	code := func(name string) uint64 {
		for i, e := range prog.errors {
			if e == name {
				return uint64(i)
			}
		}
		return uint64(len(prog.errors)) // core.p4 is not included
	}
	prog.codes = errorCodes{
		tooShort: code("PacketTooShort"), noMatch: code("NoMatch"), stack: code("StackOutOfBounds"),
		headerTooShort: code("HeaderTooShort"), timeout: code("ParserTimeout"), argument: code("ParserInvalidArgument"),
		counter: code("CounterRange"),
	}
	c := &compiler{
		prog: prog, env: map[ast.Decl]place{}, objs: map[ast.Decl]int{}, insts: map[*ast.Instance]int{}, directs: map[int]*directRegister{},
		tables: map[*ast.TableDecl]*tableCode{}, tableIdx: map[*ast.TableDecl]int{}, checkOnly: checkOnly,
	}
	name := ""
	if p.Main.Package != nil {
		name = p.Main.Package.Name
	}
	switch name {
	case "V1Switch":
		prog.arch = "v1model"
		c.arch = &v1model{}
	case "Switch", "Pipeline":
		prog.arch = "tna"
		c.arch = &tna{sums: map[int]int{}}
	default:
		return nil, fmt.Errorf("%s: not supported: package %s; there is V1Switch (v1model) and Switch (tna)", p.Main.At, name)
	}
	for _, in := range p.Instances {
		if in.Kind == ast.InstExtern {
			d := c.arch.object(c, in)
			if d.make != nil {
				c.insts[in] = c.addObject(d)
			}
		}
	}
	prog.impl = c.arch.compile(c, p)
	prog.words = c.words
	return prog, nil
}
