package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the pages that state names: README.md, SECURITY.md, CONTRIBUTING.md and all of docs.
func pages(t *testing.T, root string) map[string]string {
	t.Helper()
	of := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/engines/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if name != "CHANGELOG.md" { // of what was
				of[name] = string(text)
			}
		}
	}
	return of
}

// tree calls f with every file of the tree with one of the suffixes.
func tree(t *testing.T, root string, f func(path string), suffixes ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "bin" || e.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if e.Type().IsRegular() && slices.Contains(suffixes, filepath.Ext(path)) {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every test that a page names is in the tree.
func TestNamedTestsExist(t *testing.T) {
	root := root(t)
	tests := map[string]bool{}
	tree(t, root, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}, ".go")
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")
	found := 0
	all := pages(t, root)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		for _, m := range named.FindAllStringSubmatch(all[page], -1) {
			if page == "docs/security.md" {
				found++
			}
			if !tests[m[1]] {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("docs/security.md names %d tests", found)
	}
}

// Each row of docs/security.md names a test, or says that there is none.
func TestEverySurfaceHasItsTests(t *testing.T) {
	text := pages(t, root(t))["docs/security.md"]
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.Contains(line, "attacker |") {
			continue
		}
		if last := cells[3]; !strings.Contains(last, "`Test") && !strings.Contains(last, "`Fuzz") && !strings.Contains(last, "not tested") && !strings.Contains(last, "see above") {
			t.Errorf("no test in: %s", line)
		}
	}
}

// variable is one of the environment that Sluice reads. Names that end in an underscore
// are patterns.
var variable = regexp.MustCompile(`\bSLUICE_[A-Z0-9_]*[A-Z0-9]\b`)

// between are the variables that one part of Sluice sets for another, and no user does.
var between = map[string]bool{"SLUICE_TURNS": true}

// A variable is on a page if and only if a program reads it.
func TestVariables(t *testing.T) {
	root := root(t)
	read, known := map[string]string{}, map[string]bool{}
	quoted := regexp.MustCompile(`"(SLUICE_[A-Z0-9_]*[A-Z0-9])"`)
	tree(t, root, func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		rel, _ := filepath.Rel(root, path)
		for _, m := range variable.FindAllString(string(text), -1) {
			known[m] = true
		}
		if strings.HasSuffix(path, "_test.go") || strings.Contains(rel, "testdata") || strings.HasSuffix(rel, "test.go") || strings.HasPrefix(rel, "internal/rxe") {
			return
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = rel
		}
	}, ".go", ".c", ".h", ".sh", ".mk", ".in", ".yaml")
	if text, err := os.ReadFile(filepath.Join(root, "Makefile")); err == nil {
		for _, m := range variable.FindAllString(string(text), -1) {
			known[m] = true
		}
	}
	stated := map[string]bool{}
	for page, text := range pages(t, root) {
		for _, m := range variable.FindAllString(text, -1) {
			stated[m] = true
			if !known[m] {
				t.Errorf("%s states %s, which nothing reads", page, m)
			}
		}
	}
	for name, where := range read {
		if !stated[name] && !between[name] && !strings.HasPrefix(name, "SLUICE_TEST_") {
			t.Errorf("%s reads %s, which is on no page", where, name)
		}
	}
}

// anchors are the names by which links reach a page's headings: as GitHub makes them.
func anchors(page string) (names []string) {
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	linked := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(m[1], "$1")), "")
		name = strings.ReplaceAll(name, " ", "-")
		if n := seen[name]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		} else {
			names = append(names, name)
		}
		seen[name]++
	}
	return names
}

// Targets that pages run with make are in the Makefile, and files and headings that links
// name are there.
func TestTargetsAndLinks(t *testing.T) {
	root := root(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, line := range strings.Split(string(makefile), "\n") {
		if head, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "#") {
			for _, name := range strings.Fields(head) {
				targets[name] = true
			}
		}
	}
	run := regexp.MustCompile("(?m)(?:`|^    |^\\$ )make ([a-z][a-z0-9-]*)")
	link := regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^)]*))?\)`)
	all := pages(t, root)
	for page, text := range all {
		for _, m := range run.FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				t.Errorf("%s runs make %s, which is no target", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links %s: %v", page, m[1], err)
			} else if there, ok := all[target]; ok && m[2] != "" && !slices.Contains(anchors(there), m[2]) {
				t.Errorf("%s links %s#%s, which is no heading there", page, m[1], m[2])
			}
		}
	}
}

// CI's actions and containers are those of a digest: a tag may be moved.
func TestCIIsPinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	used := regexp.MustCompile(`(?m)^\s*(?:- )?(?:uses|image|container):[ \t]+(\S+)`)
	pinned := regexp.MustCompile(`@(sha256:[0-9a-f]{64}|[0-9a-f]{40})$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := used.FindAllStringSubmatch(string(text), -1)
		if len(all) == 0 {
			t.Errorf("%s uses nothing", file)
		}
		for _, m := range all {
			if !pinned.MatchString(m[1]) && !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s uses %s, which has no digest", file, m[1])
			}
		}
	}
}
