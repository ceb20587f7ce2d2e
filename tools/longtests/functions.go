package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const module = "github.com/sluice-rdma/sluice/"

// programs are in the packages that `make deps-all` adds to those of `make deps`.
var programs = []string{"prometheus", "promtool", "slurmctld", "dpkg-deb"}

// name is a function or method: its receiver's type is left out, so methods of one name in one
// directory are one.
type name struct{ dir, function string }

type functions struct {
	calls map[name]map[name]bool
	asks  map[name]bool // directly
	test  map[name]bool
}

// read parses the files below root that import testing.
func read(root fs.FS) (*functions, error) {
	f := &functions{calls: map[name]map[name]bool{}, asks: map[name]bool{}, test: map[name]bool{}}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f.add(path.Dir(file), strings.HasSuffix(file, "_test.go"), parsed)
		return nil
	})
	return f, err
}

func (f *functions) add(dir string, tests bool, file *ast.File) {
	imports := map[string]string{}
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value) // parsed
		local := path.Base(p)
		if i.Name != nil {
			local = i.Name.Name
		}
		imports[local] = p
	}
	if imports["testing"] != "testing" {
		return
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := name{dir, decl.Name.Name}
		f.test[n] = tests && decl.Recv == nil && isTest(decl.Name.Name)
		calls := f.calls[n]
		if calls == nil {
			calls = map[name]bool{}
			f.calls[n] = calls
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr:
				p := ""
				if x, ok := node.X.(*ast.Ident); ok {
					p = imports[x.Name]
				}
				switch {
				case p == "testing" && node.Sel.Name == "Short", p == "pgregory.net/rapid" && slices.Contains([]string{"Check", "MakeCheck"}, node.Sel.Name):
					f.asks[n] = true
				case strings.HasPrefix(p, module):
					calls[name{strings.TrimPrefix(p, module), node.Sel.Name}] = true
				case p == "":
					calls[name{dir, node.Sel.Name}] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(node.Value); err == nil && slices.Contains(programs, text) {
					f.asks[n] = true
				}
			case *ast.Ident:
				calls[name{dir, node.Name}] = true
			}
			return true
		})
	}
}

// isTest is the rule of go test.
func isTest(function string) bool {
	rest, ok := strings.CutPrefix(function, "Test")
	r, _ := utf8.DecodeRuneInString(rest)
	return ok && function != "TestMain" && !unicode.IsLower(r)
}

// tests gives the names of the tests that ask, themselves or through what they call, by their
// directories.
func (f *functions) tests() map[string][]string {
	callers := map[name][]name{}
	for caller, called := range f.calls {
		for c := range called {
			callers[c] = append(callers[c], caller)
		}
	}
	ask := maps.Clone(f.asks)
	for queue := slices.Collect(maps.Keys(ask)); len(queue) > 0; queue = queue[1:] {
		for _, caller := range callers[queue[0]] {
			if !ask[caller] {
				ask[caller] = true
				queue = append(queue, caller)
			}
		}
	}
	found := map[string][]string{}
	for n := range ask {
		if f.test[n] {
			found[n.dir] = append(found[n.dir], n.function)
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}
