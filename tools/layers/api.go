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
	"strings"
)

// surfaces is the folder of the texts that surface returns, one for each public package.
const surfaces = "docs/api"

// platform is what surfaces are of: files for other systems declare the same names.
func platform(root fs.FS) *build.Context {
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled, c.BuildTags = "linux", "amd64", true, []string{"ibverbs"}
	c.OpenFile = func(name string) (io.ReadCloser, error) { return root.Open(name) }
	c.JoinPath = path.Join
	return &c
}

// surface returns the declarations of a package that other modules can use, without comments,
// bodies, and fields that are not exported.
func surface(root fs.FS, p *pkg) ([]byte, error) {
	var files []*ast.File
	context := platform(root)
	for _, f := range p.files {
		dir, name := path.Split(p.fset.Position(f.Package).Filename)
		match, err := context.MatchFile(dir, name)
		if err != nil {
			return nil, err
		}
		if match {
			files = append(files, f)
		}
	}
	d, err := doc.NewFromFiles(p.fset, files, module+"/"+p.path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "package %s // import %q\n", d.Name, d.ImportPath)
	w := surfaceWriter{&out, p.fset, nil}
	w.values(d.Consts)
	w.values(d.Vars)
	w.funcs(d.Funcs)
	for _, t := range d.Types {
		w.decl(t.Decl)
		w.values(t.Consts)
		w.values(t.Vars)
		w.funcs(t.Funcs)
		w.funcs(t.Methods)
	}
	return out.Bytes(), w.err
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
	for _, p := range all {
		if !p.public() {
			continue
		}
		text, err := surface(root, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		if err := os.WriteFile(path.Join(surfaces, strings.ReplaceAll(p.path, "/", "-")+".txt"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
