// Package parse reads P4_16 programs (language specification 1.2.5): the
// preprocessor, the lexer and the grammar. It resolves no names: package check
// does. It reads files only through Options.ReadFile.
package parse

import (
	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// Options are the inputs beside the program's own text.
type Options struct {
	// Include are the directories in which #include looks, first to last; those
	// of "file" behind the directory of the including file.
	Include []string
	// Define are macros that are defined before the first line: name to text.
	Define map[string]string
	// ReadFile reads an included file. If it is nil there are only built-in
	// files.
	ReadFile func(name string) ([]byte, error)
	// Builtin reads a file of the includes that come with a back end, for names
	// that no directory of Include has.
	Builtin func(name string) ([]byte, error)
}

// Program parses a program whose file's name is for messages and for where
// #include "file" looks first. The error is an *Error: the first fault.
func Program(name string, src []byte, opts Options) (prog *ast.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(bailout)
			if !ok {
				panic(r)
			}
			prog, err = nil, b.err
		}
	}()
	pp := &preprocessor{opts: opts, macros: map[string]*macro{}}
	for _, k := range sortedKeys(opts.Define) {
		pp.define(k, opts.Define[k], ast.Pos{File: "<-D " + k + ">", Line: 1, Col: 1})
	}
	pp.file(name, src)
	p := newParser(name, pp.out)
	return &ast.Program{At: ast.At{P: ast.Pos{File: name, Line: 1, Col: 1}}, Decls: p.program(), Warnings: pp.warnings}, nil
}
