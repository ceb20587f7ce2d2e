package ast

import "fmt"

// Pos is a place in a source file. Line and Col count from 1; Col counts bytes.
type Pos struct {
	File      string
	Line, Col int
}

// String gives file:line:column, or "-" for no position.
func (p Pos) String() string {
	if p.Line == 0 {
		if p.File == "" {
			return "-"
		}
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Node is any node of the tree.
type Node interface{ Pos() Pos }

// At is the position that nodes embed.
type At struct{ P Pos }

// Pos returns the node's first position.
func (a At) Pos() Pos { return a.P }

// Annotation is @Name, @Name(...) or @Name[...].
type Annotation struct {
	At
	Name string
	// Structured is set for @Name[...]: Exprs or Pairs hold its content.
	Structured bool
	Exprs      []Expr
	Pairs      []*KV
	// Text is the body between the parentheses, tokens separated by single
	// spaces, a single string literal without its quotes.
	Text string
	// IsString is set if the body was one string literal.
	IsString bool
}

// KV is key = value in a structured annotation or, with a position, elsewhere.
type KV struct {
	At
	Key   string
	Value Expr
}

// Annotations is a list of annotations with look-up.
type Annotations []*Annotation

// Find gives the first annotation of a name, nil if there is none.
func (as Annotations) Find(name string) *Annotation {
	for _, a := range as {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Map gives the annotations' texts by name (the first of a name wins).
func (as Annotations) Map() map[string]string {
	if len(as) == 0 {
		return nil
	}
	m := make(map[string]string, len(as))
	for _, a := range as {
		if _, ok := m[a.Name]; !ok {
			m[a.Name] = a.Text
		}
	}
	return m
}
