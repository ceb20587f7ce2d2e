package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSurface(t *testing.T) {
	root := fstest.MapFS{
		"p/p.go": {Data: []byte(`// Package p is there.
package p

// Limit bounds.
const Limit, inner = 7, 8

// T is a type.
type T struct {
	A, b int // both
}

func (t *T) Do(n int) error { return nil }
func (t *T) hidden()        {}

type small int

func (small) Seen() {}

func Make() (*T, error) { return nil, nil }
`)},
		"p/p_linux.go":   {Data: []byte("package p\n\nfunc OnLinux() {}\n")},
		"p/p_darwin.go":  {Data: []byte("package p\n\nfunc OnDarwin() {}\n")},
		"p/p_ibverbs.go": {Data: []byte("//go:build ibverbs\n\npackage p\n\nfunc Tagged() {}\n")},
	}
	p := &pkg{path: "p", fset: token.NewFileSet()}
	for name, f := range root {
		file, err := parser.ParseFile(p.fset, name, f.Data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, file)
	}
	text, err := surface(root, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Limit", "A int", "func (t *T) Do(n int) error\n", "func Make() (*T, error)\n", "func OnLinux()\n", "func Tagged()\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q", want)
		}
	}
	for _, no := range []string{"inner", "b int", "hidden", "small", "Seen", "OnDarwin", "return", "bounds", "both"} {
		if strings.Contains(string(text), no) {
			t.Errorf("it has %q", no)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
