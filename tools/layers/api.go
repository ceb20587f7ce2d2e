package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// surfaces is the folder of the texts that surfaceReader.surface returns, one for each public package.
const surfaces = "docs/api"

// platform is what surfaces are of: files for other systems declare the same names.
func platform(root fs.FS) *build.Context {
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled, c.BuildTags = "linux", "amd64", true, []string{"ibverbs"}
	c.OpenFile = func(name string) (io.ReadCloser, error) { return root.Open(name) }
	c.JoinPath = path.Join
	return &c
}

// surfaceReader has the documentation of packages, each read once: reading takes from their files what
// is not exported.
type surfaceReader struct {
	root fs.FS
	all  []*pkg
	docs map[string]*doc.Package
}

// doc returns the exported declarations of a package, nil where the tree has none of that path.
func (t *surfaceReader) doc(own string) (*doc.Package, *token.FileSet, error) {
	i := slices.IndexFunc(t.all, func(p *pkg) bool { return p.path == own })
	if i < 0 {
		return nil, nil, nil
	}
	p := t.all[i]
	if d := t.docs[own]; d != nil {
		return d, p.fset, nil
	}
	var files []*ast.File
	context := platform(t.root)
	for _, f := range p.files {
		dir, name := path.Split(p.fset.Position(f.Package).Filename)
		match, err := context.MatchFile(dir, name)
		if err != nil {
			return nil, nil, err
		}
		if match {
			files = append(files, f)
		}
	}
	d, err := doc.NewFromFiles(p.fset, files, module+"/"+own)
	if err != nil {
		return nil, nil, err
	}
	if t.docs == nil {
		t.docs = map[string]*doc.Package{}
	}
	t.docs[own] = d
	return d, p.fset, nil
}

// surface returns the declarations of a package that other modules can use, without comments,
// bodies, and fields that are not exported. What it gives a name and an internal package
// declares is among them.
func (t *surfaceReader) surface(p *pkg) ([]byte, error) {
	imported := map[string]string{} // the internal packages by what the package calls them
	for _, f := range p.files {
		for _, spec := range f.Imports {
			at, err := strconv.Unquote(spec.Path.Value)
			own, inModule := strings.CutPrefix(at, module+"/")
			if err != nil || !inModule || !slices.Contains(strings.Split(own, "/"), "internal") {
				continue
			}
			name := path.Base(own)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			imported[name] = own
		}
	}
	d, fset, err := t.doc(p.path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "package %s // import %q\n", d.Name, d.ImportPath)
	w := surfaceWriter{&out, fset, nil}
	w.values(d.Consts)
	w.values(d.Vars)
	w.funcs(d.Funcs)
	for _, typ := range d.Types {
		w.typ(typ)
		own, name := aliased(typ.Decl, imported)
		if own == "" {
			continue
		}
		inner, innerSet, err := t.doc(own)
		if err != nil {
			return nil, err
		}
		if inner == nil {
			continue
		}
		for _, of := range inner.Types {
			if of.Name == name {
				iw := surfaceWriter{&out, innerSet, nil}
				iw.decl(of.Decl)
				iw.funcs(of.Methods)
				if iw.err != nil {
					return nil, iw.err
				}
			}
		}
	}
	return out.Bytes(), w.err
}

// aliased returns the package and the name of the type that a declaration gives another name to,
// where the package is among those imported.
func aliased(decl *ast.GenDecl, imported map[string]string) (own, name string) {
	spec, ok := decl.Specs[0].(*ast.TypeSpec)
	if !ok || !spec.Assign.IsValid() {
		return "", ""
	}
	if s, ok := spec.Type.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return imported[x.Name], s.Sel.Name
		}
	}
	return "", ""
}

type surfaceWriter struct {
	out  *bytes.Buffer
	fset *token.FileSet
	err  error
}

func (w *surfaceWriter) decl(node any) {
	w.out.WriteByte('\n')
	config := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}
	if err := config.Fprint(w.out, w.fset, node); err != nil && w.err == nil {
		w.err = err
	}
	w.out.WriteByte('\n')
}

func (w *surfaceWriter) typ(t *doc.Type) {
	w.decl(t.Decl)
	w.values(t.Consts)
	w.values(t.Vars)
	w.funcs(t.Funcs)
	w.funcs(t.Methods)
}

func (w *surfaceWriter) values(all []*doc.Value) {
	for _, v := range all {
		w.decl(v.Decl)
	}
}

func (w *surfaceWriter) funcs(all []*doc.Func) {
	for _, f := range all {
		w.decl(f.Decl)
	}
}

// writeSurfaces writes the surface of each public package into a file of its own, and removes
// those of packages that are gone.
func writeSurfaces(root fs.FS) error {
	all, err := packages(root)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(surfaces); err != nil {
		return err
	}
	if err := os.MkdirAll(surfaces, 0o755); err != nil {
		return err
	}
	t := surfaceReader{root: root, all: all}
	for _, p := range all {
		if !p.public() {
			continue
		}
		text, err := t.surface(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		if err := os.WriteFile(path.Join(surfaces, strings.ReplaceAll(p.path, "/", "-")+".txt"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
