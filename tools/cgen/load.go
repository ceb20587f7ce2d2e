package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// program is the type-checked packages of a module.
type program struct {
	fset  *token.FileSet
	info  *types.Info
	decls map[types.Object]decl
	files map[*token.File]*ast.File

	root, module string
	packages     map[string]*types.Package
	std          types.Importer
	context      build.Context
}

// decl locates the declaration of a package-level name or a method.
type decl struct {
	file  *ast.File
	fn    *ast.FuncDecl
	group *ast.GenDecl
	spec  ast.Spec
	index int // of the name in a ValueSpec
}

// newProgram returns an empty program over the module at root.
func newProgram(root, module string) *program {
	context := build.Default
	context.CgoEnabled = false
	fset := token.NewFileSet()
	return &program{
		fset: fset, root: root, module: module, context: context,
		packages: map[string]*types.Package{}, decls: map[types.Object]decl{}, files: map[*token.File]*ast.File{},
		std: importer.ForCompiler(fset, "source", nil),
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
			Scopes: map[ast.Node]*types.Scope{},
		},
	}
}

// findModule returns the directory of the module that dir is in, and the module's path.
func findModule(dir string) (root, module string, err error) {
	for root = dir; ; root = filepath.Dir(root) {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			for line := range strings.Lines(string(text)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
					return root, name, nil
				}
			}
		}
		if root == filepath.Dir(root) {
			return "", "", fmt.Errorf("%s is in no Go module", dir)
		}
	}
}

// Import implements types.Importer.
func (p *program) Import(name string) (*types.Package, error) {
	if pkg := p.packages[name]; pkg != nil {
		return pkg, nil
	}
	sub, ok := strings.CutPrefix(name, p.module)
	if !ok || sub != "" && sub[0] != '/' {
		return p.std.Import(name)
	}
	return p.load(name, filepath.Join(p.root, filepath.FromSlash(sub)))
}

// load parses and checks the package in a directory.
func (p *program) load(name, dir string) (*types.Package, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match, err := p.context.MatchFile(dir, e.Name()); err != nil || !match {
			continue
		}
		f, err := parser.ParseFile(p.fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	pkg, err := p.check(name, files)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", name, err)
	}
	return pkg, nil
}

func (p *program) check(name string, files []*ast.File) (*types.Package, error) {
	conf := types.Config{Importer: p, Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := conf.Check(name, p.fset, files, p.info)
	if err != nil {
		return nil, err
	}
	p.packages[name] = pkg
	for _, f := range files {
		p.files[p.fset.File(f.FileStart)] = f
		for _, d := range f.Decls {
			p.declare(f, d)
		}
	}
	return pkg, nil
}

func (p *program) declare(f *ast.File, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		p.decls[p.info.Defs[d.Name]] = decl{file: f, fn: d}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				p.decls[p.info.Defs[s.Name]] = decl{file: f, group: d, spec: s}
			case *ast.ValueSpec:
				for i, name := range s.Names {
					p.decls[p.info.Defs[name]] = decl{file: f, group: d, spec: s, index: i}
				}
			}
		}
	}
}

// lookup finds "package.Name" or "package.Type.Method", the package by its path
// within the module.
func (p *program) lookup(name string) (types.Object, error) {
	dir, base := path.Split(name)
	parts := strings.Split(base, ".")
	pkg, err := p.Import(path.Join(p.module, dir, parts[0]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return nil, fmt.Errorf("%q: expected PACKAGE.NAME or PACKAGE.TYPE.METHOD", name)
	}
	obj := pkg.Scope().Lookup(parts[1])
	if obj == nil {
		return nil, fmt.Errorf("%s: package %s declares no %s", name, pkg.Path(), parts[1])
	}
	if len(parts) == 2 {
		return obj, nil
	}
	named, ok := obj.Type().(*types.Named)
	if !ok {
		return nil, fmt.Errorf("%s: %s is no type", name, parts[1])
	}
	if m := method(named, parts[2]); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%s: type %s has no method %s", name, parts[1], parts[2])
}

// method returns a method that a type declares, or nil.
func method(t *types.Named, name string) *types.Func {
	i := slices.IndexFunc(slices.Collect(t.Methods()), func(m *types.Func) bool { return m.Name() == name })
	if i < 0 {
		return nil
	}
	return t.Method(i)
}
