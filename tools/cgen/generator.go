package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// generator turns a Spec's part of a program into C.
type generator struct {
	p    *program
	spec *Spec

	pkgs     map[*types.Package]Package
	iface    *types.TypeName          // spec.Interface
	ifaces   map[*types.TypeName]bool // it and spec.As
	opaque   map[*types.TypeName]bool // spec.Opaque
	variants []variant
	funcs    map[*types.Func]*function
	consts   map[*types.Const]bool
	vars     map[*types.Var]bool
	exported []*types.TypeName // root types
	methods  map[string]bool   // of the interface, that are called
	casts    map[*types.TypeName]bool

	typeNames map[string]*types.TypeName // by C's
	hoisted   map[*types.Scope]bool      // of if and switch statements
	words     map[string]string          // Go's names in comments, and C's

	types  typeWriter
	errs   []error
	failed map[string]bool
}

type variant struct {
	tag   string
	named *types.Named
	start *types.Func
}

// function is a function or a method that is generated.
type function struct {
	obj  *types.Func
	decl *ast.FuncDecl
	file *ast.File
	root bool

	// impure says that it writes to memory that its caller sees. constant are the
	// pointer parameters through which it does not write.
	impure   bool
	constant map[*types.Var]bool
	calls    []*types.Func
}

// refusal is a construct that C can't have, or that means different things in Go and C.
type refusal struct {
	pos  token.Position
	in   string
	what string
}

func (r refusal) Error() string {
	return fmt.Sprintf("%s:%d: %s: %s", filepath.Base(filepath.Dir(r.pos.Filename))+"/"+filepath.Base(r.pos.Filename), r.pos.Line, r.in, r.what)
}

// refuse notes what is not in the subset, once for each place.
func (g *generator) refuse(in string, at token.Pos, format string, args ...any) {
	err := refusal{g.p.fset.Position(at), in, fmt.Sprintf(format, args...)}
	if !g.failed[err.Error()] {
		g.failed[err.Error()] = true
		g.errs = append(g.errs, err)
	}
}

// generate returns the files by their names.
func generate(p *program, spec *Spec) (map[string]string, error) {
	g := &generator{
		p: p, spec: spec, pkgs: map[*types.Package]Package{}, ifaces: map[*types.TypeName]bool{}, opaque: map[*types.TypeName]bool{},
		funcs: map[*types.Func]*function{}, consts: map[*types.Const]bool{}, vars: map[*types.Var]bool{},
		methods: map[string]bool{}, casts: map[*types.TypeName]bool{}, failed: map[string]bool{},
	}
	g.types.init(g)
	g.hoisted, g.typeNames = map[*types.Scope]bool{}, map[string]*types.TypeName{}
	if err := g.resolve(); err != nil {
		return nil, err
	}
	for n, s := range p.info.Scopes {
		switch n.(type) {
		case *ast.IfStmt, *ast.SwitchStmt:
			g.hoisted[s] = true
		}
	}
	g.uniqueNames()
	g.analyse()
	files := g.files()
	if len(g.errs) > 0 {
		slices.SortStableFunc(g.errs, func(a, b error) int {
			x, y := a.(refusal).pos, b.(refusal).pos //nolint:errorlint // refuse made them
			return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Line, y.Line))
		})
		return nil, errors.Join(g.errs...)
	}
	return files, nil
}

// resolve finds what the Spec names, and all that this needs.
func (g *generator) resolve() error {
	for _, pkg := range g.spec.Packages {
		t, err := g.p.Import(path.Join(g.p.module, pkg.Path))
		if err != nil {
			return err
		}
		g.pkgs[t] = pkg
	}
	for i, name := range append([]string{g.spec.Interface}, g.spec.As...) {
		if name == "" {
			continue
		}
		t, err := g.lookupInterface(name)
		if err != nil {
			return err
		}
		if i == 0 {
			g.iface = t
		}
		g.ifaces[t] = true
	}
	for _, name := range g.spec.Opaque {
		t, err := g.lookupInterface(name)
		if err != nil {
			return err
		}
		g.opaque[t] = true
	}
	for _, v := range g.spec.Variants {
		obj, err := g.p.lookup(v.Type)
		if err != nil {
			return err
		}
		named, ok := obj.Type().(*types.Named)
		if !ok || !types.Implements(types.NewPointer(named), g.iface.Type().Underlying().(*types.Interface)) {
			return fmt.Errorf("%s is no %s", v.Type, g.spec.Interface)
		}
		one := variant{tag: v.Tag, named: named}
		if v.Start != "" {
			start, err := g.p.lookup(v.Start)
			if err != nil {
				return err
			}
			if one.start, ok = start.(*types.Func); !ok {
				return fmt.Errorf("%s is no function", v.Start)
			}
			g.reach(one.start, true)
		}
		g.variants = append(g.variants, one)
	}
	if g.iface != nil {
		t := g.iface.Type().Underlying().(*types.Interface)
		for m := range t.Methods() {
			g.callAny(m.Name())
		}
	}
	for _, name := range g.spec.Roots {
		obj, err := g.p.lookup(name)
		if err != nil {
			return err
		}
		switch obj := obj.(type) {
		case *types.Func:
			g.reach(obj, true)
		case *types.TypeName:
			g.exported = append(g.exported, obj)
		case *types.Const:
			g.consts[obj] = true
		default:
			return fmt.Errorf("%s is neither a function nor a type nor a constant", name)
		}
	}
	return nil
}

func (g *generator) lookupInterface(name string) (*types.TypeName, error) {
	obj, err := g.p.lookup(name)
	if err != nil {
		return nil, err
	}
	t, ok := obj.(*types.TypeName)
	if !ok || !types.IsInterface(t.Type()) {
		return nil, fmt.Errorf("%s is no interface", name)
	}
	return t, nil
}

// uniqueNames refuses two functions of one name in C, such as Offer and offer.
func (g *generator) uniqueNames() {
	byName := map[string]*function{}
	for _, f := range g.sorted() {
		c := g.funcName(f.obj)
		if other := byName[c]; other != nil {
			g.refuse(g.label(f.obj), f.obj.Pos(), "it and %s are both %s in C: rename one", g.label(other.obj), c)
		}
		byName[c] = f
	}
}

// callAny takes in the method of that name of all variants that have it.
func (g *generator) callAny(method string) {
	if g.methods[method] {
		return
	}
	g.methods[method] = true
	for _, v := range g.variants {
		if m, _ := g.methodOf(v.named, method); m != nil {
			g.reach(m, false)
		}
	}
}

// methodOf finds a method of a variant, which may be one of an embedded struct, and
// the path to that.
func (g *generator) methodOf(t *types.Named, name string) (*types.Func, []int) {
	obj, index, _ := types.LookupFieldOrMethod(types.NewPointer(t), true, t.Obj().Pkg(), name)
	m, _ := obj.(*types.Func)
	if m == nil {
		return nil, nil
	}
	return m, index[:len(index)-1]
}

// reach takes in a function and all that it refers to.
func (g *generator) reach(obj *types.Func, root bool) *function {
	obj = obj.Origin()
	if f := g.funcs[obj]; f != nil {
		f.root = f.root || root
		return f
	}
	d := g.p.decls[obj]
	f := &function{obj: obj, decl: d.fn, file: d.file, root: root, constant: map[*types.Var]bool{}}
	g.funcs[obj] = f
	if d.fn == nil || d.fn.Body == nil {
		g.refuse(obj.Name(), obj.Pos(), "the function has no body in Go")
		return f
	}
	if _, ok := g.pkgs[obj.Pkg()]; !ok {
		g.refuse(g.label(obj), d.fn.Pos(), "package %s is not among the packages of the specification", obj.Pkg().Path())
	}
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && (g.ends(call) || g.fails(call)) {
			return false
		}
		if _, ok := n.(*ast.FuncLit); ok {
			g.refuse(g.label(obj), n.Pos(), "a closure")
			return false
		}
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		switch use := g.p.info.Uses[id].(type) {
		case *types.Func:
			g.reachCall(f, use)
		case *types.Const:
			g.reachConst(use)
		case *types.Var:
			if d, ok := g.p.decls[use]; ok && !g.vars[use] {
				g.vars[use] = true
				g.reachIn(d.spec)
			}
		}
		return true
	})
	return f
}

// reachIn takes in the constants of a declaration.
func (g *generator) reachIn(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if c, ok := g.p.info.Uses[id].(*types.Const); ok {
				g.reachConst(c)
			}
		}
		return true
	})
}

func (g *generator) reachConst(c *types.Const) {
	if _, ok := g.p.decls[c]; ok {
		g.consts[c] = true
	}
}

func (g *generator) reachCall(f *function, callee *types.Func) {
	sig := callee.Signature()
	if recv := sig.Recv(); recv != nil && types.IsInterface(recv.Type()) {
		if g.mapped(recv.Type()) {
			g.callAny(callee.Name())
			for _, v := range g.variants {
				if m, _ := g.methodOf(v.named, callee.Name()); m != nil {
					f.calls = append(f.calls, m)
				}
			}
		}
		return
	}
	if callee.Pkg() == nil || !strings.HasPrefix(callee.Pkg().Path(), g.p.module) || intrinsics[callee.FullName()] != "" || g.outside(callee.Pkg()) {
		return // expr says what is wrong with it
	}
	f.calls = append(f.calls, callee.Origin())
	g.reach(callee, false)
}

// outside reports whether a package is not among those of the Spec.
func (g *generator) outside(pkg *types.Package) bool {
	_, ok := g.pkgs[pkg]
	return !ok
}

// mapped reports whether an interface is one of the Spec's.
func (g *generator) mapped(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && g.ifaces[named.Obj()]
}

// hidden reports whether an interface is one of those whose values C does not know.
func (g *generator) hidden(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && g.opaque[named.Obj()]
}

// sorted returns the functions in the order of the source, package by package as the
// Spec has them.
func (g *generator) sorted() []*function {
	order := map[string]int{}
	for i, pkg := range g.spec.Packages {
		order[path.Join(g.p.module, pkg.Path)] = i
	}
	return slices.SortedFunc(maps.Values(g.funcs), func(a, b *function) int {
		return cmp.Or(cmp.Compare(order[a.obj.Pkg().Path()], order[b.obj.Pkg().Path()]), g.compare(a.obj.Pos(), b.obj.Pos()))
	})
}

// compare orders two places by the files' names and by line.
func (g *generator) compare(a, b token.Pos) int {
	x, y := g.p.fset.Position(a), g.p.fset.Position(b)
	return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Offset, y.Offset))
}

// label names a function in messages, as Go does.
func (g *generator) label(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Pkg().Name() + "." + f.Name()
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return f.Pkg().Name() + "." + n.Obj().Name() + "." + f.Name()
	}
	return f.Name()
}

// prefix returns the prefix of a package's names.
func (g *generator) prefix(pkg *types.Package) string {
	p := g.pkgs[pkg].Prefix
	if p == "" {
		return "sluice_"
	}
	return "sluice_" + p + "_"
}

// typeName is the C name of a declared type, without struct.
func (g *generator) typeName(t *types.TypeName) string {
	p := g.pkgs[t.Pkg()]
	if p.Main == t.Name() {
		return strings.TrimSuffix(g.prefix(t.Pkg()), "_")
	}
	return g.prefix(t.Pkg()) + snake(t.Name())
}

// funcName is the C name of a function or method.
func (g *generator) funcName(f *types.Func) string {
	if recv := f.Signature().Recv(); recv != nil {
		t := recv.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		return g.typeName(t.(*types.Named).Obj()) + "_" + snake(f.Name())
	}
	return g.prefix(f.Pkg()) + snake(f.Name())
}

// constName is the C name of a package's constant or variable.
func (g *generator) constName(c types.Object) string {
	return strings.ToUpper(g.prefix(c.Pkg()) + snake(c.Name()))
}
