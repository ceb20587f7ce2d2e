package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const lintConfig = `
      - linters: [forbidigo]
        path-except: ^(pure|des)/
        text: no clock here
`

func TestRun(t *testing.T) {
	file := func(body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n" + body)}
	}
	tests := []struct {
		name string
		dirs []string
		file string
		body string
		want []string // what each finding contains
	}{
		{"clean", []string{"pure"}, "pure/p.go", "func f() {}", nil},
		{"goroutine", []string{"pure"}, "pure/p.go", "func f() { go f() }", []string{"pure/p.go:2:12: a goroutine"}},
		{"below", []string{"pure"}, "pure/sub/p.go", "func f() { go f() }", []string{"pure/sub/p.go:2:12: a goroutine"}},
		{"channel", []string{"pure"}, "pure/p.go", "var c chan int", []string{"a channel"}},
		{"send", []string{"pure"}, "pure/p.go", "func f() { c <- 1 }", []string{"a channel send"}},
		{"receive", []string{"pure"}, "pure/p.go", "func f() { <-c }", []string{"a channel receive"}},
		{"select", []string{"pure"}, "pure/p.go", "func f() { select {} }", []string{"a select"}},
		{"test", []string{"pure"}, "pure/p_test.go", "func f() { go f() }", nil},
		{"elsewhere", []string{"pure"}, "edge/p.go", "func f() { go f() }", nil},
		{"linter lacks it", []string{"edge"}, "edge/p.go", "func f() {}", []string{"edge is a pure package"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := run(fstest.MapFS{
				".golangci.yml": {Data: []byte(lintConfig)},
				"pure/ok.go":    file(""),
				tt.file:         file(tt.body),
			}, tt.dirs)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, tt.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRunErrors(t *testing.T) {
	config := &fstest.MapFile{Data: []byte(lintConfig)}
	tests := []struct {
		name string
		fsys fstest.MapFS
		dirs []string
	}{
		{"no packages", fstest.MapFS{".golangci.yml": config}, nil},
		{"no such package", fstest.MapFS{".golangci.yml": config}, []string{"pure"}},
		{"no config", fstest.MapFS{"pure/p.go": {Data: []byte("package p")}}, []string{"pure"}},
		{"no Go", fstest.MapFS{".golangci.yml": config, "pure/p.go": {Data: []byte("pack")}}, []string{"pure"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := run(tt.fsys, tt.dirs); err == nil {
				t.Error("no error")
			}
		})
	}
}
