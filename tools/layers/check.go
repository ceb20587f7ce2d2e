package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pkg is a folder with Go files that are no tests, for whatever system and with whatever build tags.
type pkg struct {
	path  string
	files []*ast.File
	fset  *token.FileSet
}

// public reports whether other modules can import the package. Examples are there to
// be read.
func (p *pkg) public() bool {
	return !strings.HasPrefix(p.path, "examples/") && p.files[0].Name.Name != "main" && !slices.Contains(strings.Split(p.path, "/"), "internal")
}

// packages returns the packages of the tree by path.
func packages(root fs.FS) ([]*pkg, error) {
	found := map[string]*pkg{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || p == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		dir := path.Dir(p)
		if found[dir] == nil {
			found[dir] = &pkg{path: dir, fset: token.NewFileSet()}
		}
		k := found[dir]
		file, err := parser.ParseFile(k.fset, p, text, parser.SkipObjectResolution)
		k.files = append(k.files, file)
		return err
	})
	return slices.SortedFunc(maps.Values(found), func(a, b *pkg) int { return strings.Compare(a.path, b.path) }), err
}

// check says where the tree and layers.yaml differ.
func check(root fs.FS, layers Layers) (findings []string, err error) {
	packages, err := packages(root)
	if err != nil {
		return nil, err
	}
	used := map[string][]string{} // the allowances of each row that are needed
	for _, p := range packages {
		key, row := layers.row(p.path)
		if row == nil {
			findings = append(findings, fmt.Sprintf("%s: the package has no row in %s", p.path, source))
			continue
		}
		used[key] = append(used[key], "") // there is such a package
		if p.public() && row.API == "" {
			findings = append(findings, fmt.Sprintf("%s: the package is public and its row in %s has no api; "+
				"name its audience, or move it below internal/", p.path, source))
		}
		if !p.public() && row.API != "" {
			findings = append(findings, fmt.Sprintf("%s: the row in %s has an api, and no other module can import the package",
				p.path, source))
		}
		for _, file := range p.files {
			found, allowances := imports(p, file, row, layers)
			findings = append(findings, found...)
			used[key] = append(used[key], allowances...)
			if row.Pure {
				findings = append(findings, impure(p.fset, file)...)
				findings = append(findings, clocks(p.fset, file)...)
			}
		}
	}
	say := func(p, format string, a ...any) {
		findings = append(findings, fmt.Sprintf(source+": "+p+": "+format, a...))
	}
	for _, p := range layers.paths {
		row := layers.rows[p]
		switch {
		case used[p] == nil:
			say(p, "there is no such package")
			continue
		case row.Is == "":
			say(p, "the row does not say what the package is")
		case row.API != "" && !slices.Contains(audiences, row.API):
			say(p, "unknown api %q, expected one of %s", row.API, strings.Join(audiences, ", "))
		}
		for _, a := range row.Imports {
			if !slices.Contains(used[p], a) {
				say(p, "it may import %s, which it does not; leaves and the standard library need no entry", a)
			}
			if strings.HasPrefix(p, "internal/") && !strings.HasPrefix(a, "internal/") && a != "C" && !foreign(a) {
				say(p, "it imports %s, and internal/ is for what stands below all others: move it to whom it belongs", a)
			}
		}
	}
	return findings, nil
}

// imports says which imports of a file its row does not allow, and by which
// allowances the others are.
func imports(p *pkg, file *ast.File, row *Layer, layers Layers) (findings, allowances []string) {
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // which no compiler takes
		}
		own, inModule := strings.CutPrefix(imported, module+"/")
		if !inModule && imported != "C" && !foreign(imported) {
			continue
		}
		if a := row.allowance(own); a != "" {
			allowances = append(allowances, a)
		} else if _, target := layers.row(own); !inModule || row.Leaf || target == nil || !target.Leaf {
			findings = append(findings, fmt.Sprintf("%s: %s may not import %s (%s)",
				p.fset.Position(spec.Pos()), p.path, own, source))
		}
	}
	return findings, allowances
}

// outside has the packages of the standard library, with those below them, that no
// pure package imports; net/netip is fine.
var outside = []string{"os", "syscall", "net", "log"}

// impure says where a file does I/O, starts goroutines or uses channels.
func impure(fset *token.FileSet, file *ast.File) (findings []string) {
	say := func(n ast.Node, what string) {
		findings = append(findings, fmt.Sprintf("%s: %s in a pure package; drivers at the edge own I/O and concurrency",
			fset.Position(n.Pos()), what))
	}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if first, _, _ := strings.Cut(imported, "/"); slices.Contains(outside, first) && imported != "net/netip" {
			say(spec, "package "+imported)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n, "a goroutine")
		case *ast.ChanType:
			say(n, "a channel")
		case *ast.SelectStmt:
			say(n, "a select")
		case *ast.SendStmt:
			say(n, "a channel send")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				say(n, "a channel receive")
			}
		}
		return true
	})
	return findings
}

// clock are the names of package time that read or wait for a clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// clocks says where a file reads a clock.
func clocks(fset *token.FileSet, file *ast.File) (findings []string) {
	name := ""
	for _, spec := range file.Imports {
		if spec.Path.Value == `"time"` {
			name = "time"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	if name == "." {
		return []string{fset.Position(file.Pos()).String() + ": a dot import of time in a pure package"}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clock, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				findings = append(findings, fmt.Sprintf("%s: time.%s in a pure package; the time is an argument",
					fset.Position(n.Pos()), s.Sel.Name))
			}
		}
		return true
	})
	return findings
}
