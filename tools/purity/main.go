package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	findings, err := run(os.DirFS("."), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "purity:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Println("purity: ok")
}

// run checks the packages in and below dirs, which are slash-separated and
// relative to the module root.
func run(root fs.FS, dirs []string) (findings []string, err error) {
	if len(dirs) == 0 {
		return nil, errors.New("no packages named")
	}
	clockless, err := clocklessPackages(root)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !clockless.MatchString(dir + "/") {
			findings = append(findings, fmt.Sprintf(
				".golangci.yml: %s is a pure package (Makefile), and the path-except of \"no clock here\" lacks it", dir))
		}
		err := fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			found, err := checkFile(path, src)
			findings = append(findings, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return findings, nil
}

var pathExcept = regexp.MustCompile(`(?m)^\s*path-except:\s*(\S+)\n\s*text: no clock here$`)

// clocklessPackages is the pattern by which .golangci.yml limits its ban on
// clocks.
func clocklessPackages(root fs.FS) (*regexp.Regexp, error) {
	config, err := fs.ReadFile(root, ".golangci.yml")
	if err != nil {
		return nil, err
	}
	m := pathExcept.FindSubmatch(config)
	if m == nil {
		return nil, errors.New(".golangci.yml: no path-except with the text \"no clock here\"")
	}
	return regexp.Compile(string(m[1]))
}

// checkFile says where a file starts goroutines or uses channels.
func checkFile(path string, src []byte) (findings []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	say := func(n ast.Node, what string) {
		findings = append(findings, fmt.Sprintf("%s: %s in a pure package; drivers at the edge own concurrency",
			fset.Position(n.Pos()), what))
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
	return findings, nil
}
