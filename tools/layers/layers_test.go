package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const rows = `
units:
  is: times and rates
  api: tool
  leaf: true
  pure: true
ib:
  is: names
  api: tool
  leaf: true
  pure: true
pure:
  is: logic
  api: tool
  pure: true
  hot: true
  imports: [pure/rc]
pure/rc:
  is: a part
  api: tool
  pure: true
pure/*:
  is: the others
  api: tool
  imports: [pure]
edge:
  is: a driver
  api: tool
  imports: [pure/..., example.org/x, C]
`

// tree is a tree that keeps to rows, with one file more or another one.
func tree(name, body string) fstest.MapFS {
	file := func(body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n" + strings.ReplaceAll(body, "@", module))}
	}
	fs := fstest.MapFS{
		source:               {Data: []byte(rows)},
		"units/u.go":         file(""),
		"ib/i.go":            file(""),
		"pure/p.go":          file(`import ("@/pure/rc"; "@/units"; "net/netip"; "time")`),
		"pure/rc/r.go":       file(""),
		"pure/a/a.go":        file(`import "@/pure"; func f() { go f() }`),
		"edge/e.go":          file(`import ("@/pure/a"; "@/pure"; "os"; "example.org/x/y")`),
		"edge/cgo.go":        file(`import "C"`),
		"docs/docs_test.go":  file(`import "@/edge"`),
		"edge/testdata/t.go": file(`import "example.org/z"`),
	}
	fs[name] = file(body)
	return fs
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name, file, body string
		want             []string // what each finding contains
	}{
		{"clean", "edge/more.go", `import "@/ib"`, nil},
		{"no row", "other/o.go", "", []string{"other: the package has no row"}},
		{"not allowed", "pure/p2.go", `import "@/edge"`, []string{"pure/p2.go:2:8: pure may not import edge"}},
		{"not allowed below", "pure/p2.go", `import "@/pure/a"`, []string{"pure may not import pure/a"}},
		{"not allowed by a pattern", "pure/a/b.go", `import "@/pure/rc"`, []string{"pure/a may not import pure/rc"}},
		{"another module", "pure/p2.go", `import "example.org/x"`, []string{"pure may not import example.org/x"}},
		{"a module with the same beginning", "edge/e2.go", `import "example.org/xx"`, []string{"edge may not import example.org/xx"}},
		{"a leaf imports a leaf", "units/v.go", `import "@/ib"`, []string{"units may not import ib"}},
		{"allowances unused", "edge/e.go", `import "@/pure"`, []string{"edge: it may import example.org/x,"}},
		{"cgo", "pure/c.go", `import "C"`, []string{"pure may not import C"}},
		{"other systems", "pure/p_darwin.go", `import "@/edge"`, []string{"pure may not import edge"}},

		{"goroutine", "pure/p2.go", "func f() { go f() }", []string{"pure/p2.go:2:12: a goroutine"}},
		{"channel", "pure/p2.go", "var c chan int", []string{"a channel"}},
		{"send", "pure/p2.go", "func f() { c <- 1 }", []string{"a channel send"}},
		{"receive", "pure/p2.go", "func f() { <-c }", []string{"a channel receive"}},
		{"select", "pure/p2.go", "func f() { select {} }", []string{"a select"}},
		{"files", "pure/p2.go", `import "os/exec"`, []string{"package os/exec"}},
		{"sockets", "pure/p2.go", `import "net"`, []string{"package net in"}},
		{"logs", "pure/p2.go", `import "log/slog"`, []string{"package log/slog"}},
		{"clock", "pure/p2.go", `import "time"; var t = time.Now()`, []string{"time.Now"}},
		{"clock as a value", "pure/p2.go", `import "time"; var t = time.Sleep`, []string{"time.Sleep"}},
		{"clock by another name", "pure/p2.go", `import x "time"; var t = x.Now()`, []string{"time.Now"}},
		{"clock by no name", "pure/p2.go", `import . "time"; var t = Now()`, []string{"dot import"}},
		{"other Now", "pure/p2.go", `var t = time.Now()`, nil},
		{"test", "pure/p_test.go", `import ("os"; "time"; "@/edge"); func f() { go f(); time.Now() }`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(tt.file, tt.body)
			layers, err := read(root)
			if err != nil {
				t.Fatal(err)
			}
			got, err := check(root, layers)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, tt.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckRows(t *testing.T) {
	tests := []struct {
		name, rows, want string
	}{
		{"no package", "gone:\n  is: away", "gone: there is no such package"},
		{"no package for a pattern", "gone/*:\n  is: away", "gone/*: there is no such package"},
		{"no words", "more:\n  api: tool\n  pure: true", "more: the row does not say what the package is"},
		{"leaf", "more:\n  is: more\n  api: tool\n  imports: [units]", "more: it may import units, which it does not"},
		{"public", "more:\n  is: more", "more: the package is public and its row in tools/layers/layers.yaml has no api"},
		{"internal", "internal/more:\n  is: more\n  api: tool", "internal/more: the row in tools/layers/layers.yaml has an api"},
		{"upper storey", "internal/more:\n  is: more\n  imports: [internal/other, pure]", "internal/more: it imports pure, and internal/ is for what stands below all others"},
		{"audience", "more:\n  is: more\n  api: all", `more: unknown api "all"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree("more/m.go", "")
			if !strings.HasPrefix(tt.rows, "more") {
				delete(root, "more/m.go")
			}
			if strings.HasPrefix(tt.rows, "internal") {
				root["internal/more/m.go"] = &fstest.MapFile{Data: []byte("package more\n")}
			}
			if strings.Contains(tt.rows, "internal/other") {
				root["internal/more/m.go"].Data = []byte("package more\nimport (\"" + module + "/internal/other\"; \"" + module + "/pure\")\n")
				root["internal/other/o.go"] = &fstest.MapFile{Data: []byte("package other\n")}
				tt.rows += "\ninternal/other:\n  is: another"
			}
			root[source] = &fstest.MapFile{Data: []byte(rows + tt.rows)}
			layers, err := read(root)
			if err != nil {
				t.Fatal(err)
			}
			got, err := check(root, layers)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for name, rows := range map[string]string{
		"unknown key":  "units:\n  it: is",
		"no row":       "units:",
		"twice":        "units:\n  is: a\nunits:\n  is: b",
		"bad pattern":  "'cc/[':\n  is: a",
		"not a map":    "- units",
		"not YAML":     "units: [",
		"a bad switch": "units:\n  pure: perhaps",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(fstest.MapFS{source: {Data: []byte(rows)}}); err == nil || !strings.Contains(err.Error(), source) {
				t.Errorf("got error %v, want one with %s", err, source)
			}
		})
	}
	if _, err := check(fstest.MapFS{"p/p.go": {Data: []byte("pack")}}, Layers{}); err == nil {
		t.Error("a file that is no Go: no error")
	}
}

func TestFill(t *testing.T) {
	layers, err := read(tree("edge/e2.go", ""))
	if err != nil {
		t.Fatal(err)
	}
	layers.rows["edge"].API = "engine"
	const page = "a\n<!-- layers: engine -->\nold\n<!-- end -->\nb\n<!-- layers: all -->\n<!-- end -->\nc\n"
	got, err := fill([]byte(page), layers)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a\n<!-- layers: engine -->\n| package | is |\n|---|---|\n| `edge` | a driver |\n<!-- end -->\nb\n",
		"| `units` | times and rates | pure |  |\n",
		"| `edge` | a driver |  | `pure/...` |\n<!-- end -->\nc\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	again, err := fill(got, layers)
	if err != nil || string(again) != string(got) {
		t.Errorf("filled again: error %v, and\n%s", err, again)
	}
	for _, page := range []string{"<!-- layers: all -->\n", "<!-- end -->\n", "<!-- layers: all -->\n<!-- layers: tool -->\n<!-- end -->\n"} {
		if _, err := fill([]byte(page), layers); err == nil {
			t.Errorf("%q: no error", page)
		}
	}
}

// The tables of docs/ are those of layers.yaml.
func TestPages(t *testing.T) {
	root := os.DirFS("../..")
	layers, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		have, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		want, err := fill(have, layers)
		if err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		if string(have) != string(want) || !strings.Contains(string(want), "<!-- layers: ") {
			t.Errorf("%s has no table or an old one: go generate ./tools/layers", page)
		}
	}
}

// arrow is a line "a --> b & c" of the picture, and label a package of a longer name.
var (
	arrow = regexp.MustCompile(`(?m)^  (\w+) --> (.+)$`)
	label = regexp.MustCompile(`(\w+)\[([a-z0-9/]+)\]`)
)

// arrows returns the imports that a picture shows, as "importer imported".
func arrows(page string) (all []string) {
	_, picture, _ := strings.Cut(page, "graph TD")
	picture, _, _ = strings.Cut(picture, "```")
	named := map[string]string{}
	for _, m := range label.FindAllStringSubmatch(picture, -1) {
		named[m[1]] = m[2]
	}
	name := func(node string) string {
		if long := named[node]; long != "" {
			return long
		}
		return node
	}
	for _, m := range arrow.FindAllStringSubmatch(picture, -1) {
		for _, to := range strings.Split(m[2], " & ") {
			all = append(all, name(m[1])+" "+name(to))
		}
	}
	return all
}

// imported reports whether a package, or one in its internal folder, may import another by its row.
func (l Layers) imported(from, to string) bool {
	for _, p := range l.paths {
		if (p == from || strings.HasPrefix(p, from+"/internal/")) && l.rows[p].allowance(to) != "" {
			return true
		}
	}
	return false
}

// The picture of docs/architecture.md shows imports that there are.
func TestPicture(t *testing.T) {
	layers, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	all := arrows(string(page))
	if len(all) < 30 {
		t.Errorf("the picture has %d arrows", len(all))
	}
	for _, a := range all {
		from, to, _ := strings.Cut(a, " ")
		if layers.rows[to] == nil || !layers.imported(from, to) {
			t.Errorf("the picture shows that %s imports %s, which %s does not", from, to, source)
		}
	}
	if layers.imported("sim/des", "nicmodel") || layers.imported("cc", "verbs") {
		t.Error("imports that there are not")
	}
}
