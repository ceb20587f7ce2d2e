package main

import (
	"slices"
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
		"p/alias.go": {Data: []byte(`package p

import deep "github.com/sluice-rdma/sluice/p/internal/inner"

type Known = deep.Thing
`)},
		"p/internal/inner/inner.go": {Data: []byte(`package inner

type Thing struct{ Size, shape int }

func (Thing) Grow() {}
func (Thing) wilt() {}

type Another struct{}
`)},
		"p/p_linux.go":   {Data: []byte("package p\n\nfunc OnLinux() {}\n")},
		"p/p_darwin.go":  {Data: []byte("package p\n\nfunc OnDarwin() {}\n")},
		"p/p_ibverbs.go": {Data: []byte("//go:build ibverbs\n\npackage p\n\nfunc Tagged() {}\n")},
	}
	all, err := packages(root)
	if err != nil {
		t.Fatal(err)
	}
	reader := surfaceReader{root: root, all: all}
	text, err := reader.surface(all[slices.IndexFunc(all, func(p *pkg) bool { return p.path == "p" })])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Limit", "A int", "func (t *T) Do(n int) error\n", "func Make() (*T, error)\n", "func OnLinux()\n", "func Tagged()\n",
		"type Known = deep.Thing\n", "Size int", "func (Thing) Grow()\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q", want)
		}
	}
	for _, no := range []string{"inner", "b int", "hidden", "small", "Seen", "OnDarwin", "return", "bounds", "both", "shape", "wilt", "Another"} {
		if strings.Contains(string(text), no) {
			t.Errorf("it has %q", no)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
