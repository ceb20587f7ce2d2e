package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Mutant is the tree with one change to it.
type Mutant struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`            // of fault, or the operator that made it
	Group  string `json:"group,omitempty"` // of a planted one: the file of plants/ that has it
	File   string `json:"file"`            // from the top of the tree
	Line   int    `json:"line,omitempty"`  // of an automatic one
	Breaks string `json:"breaks"`          // what is wrong then, in a sentence

	hunks  []hunk // of a planted one
	column int    // of an automatic one
	source []byte // of an automatic one: the changed file
	place  string // of an automatic one: its line, with a mark where it is changed
}

// hunk is some lines in a row and what takes their place.
type hunk struct{ old, new []string }

// Dir is the package's folder, from the top of the tree.
func (m *Mutant) Dir() string { return path.Dir(m.File) }

// FullName tells planted mutants of all groups apart.
func (m *Mutant) FullName() string {
	if m.Group == "" {
		return m.Name
	}
	return m.Group + "/" + m.Name
}

//go:embed plants/*.txt
var plants embed.FS

// planted reads the planted faults, by group and in the order of their files.
func planted() ([]*Mutant, error) {
	files, err := fs.Glob(plants, "plants/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Mutant
	for _, name := range files {
		text, err := fs.ReadFile(plants, name)
		if err != nil {
			return nil, err
		}
		group := strings.TrimSuffix(path.Base(name), ".txt")
		ms, err := parse(group, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, ms...)
	}
	return all, nil
}

// parse reads faults that are written down as
//
//	= NAME KIND FILE
//	# What breaks, in a sentence.
//	 a line that stays
//	-a line that goes
//	+a line that comes in its place
//	@@ between two places of one file
//
// with empty lines between them. Lines before the first are a comment.
func parse(group, text string) ([]*Mutant, error) {
	var all []*Mutant
	var m *Mutant
	var h *hunk
	for i, line := range strings.Split(text, "\n") {
		bad := func(what string) error { return fmt.Errorf("line %d: %s: %q", i+1, what, line) }
		if m == nil && !strings.HasPrefix(line, "= ") {
			continue
		}
		if line == "" {
			h = nil
			continue
		}
		switch rest := line[1:]; line[0] {
		case '=':
			f := strings.Fields(rest)
			if len(f) != 3 {
				return nil, bad("expected = NAME KIND FILE")
			}
			m, h = &Mutant{Name: f[0], Kind: f[1], Group: group, File: f[2]}, nil
			if slices.ContainsFunc(all, func(o *Mutant) bool { return o.Name == m.Name }) {
				return nil, bad("the name is taken")
			}
			all = append(all, m)
		case '#':
			m.Breaks = strings.TrimSpace(m.Breaks + rest)
		case '@':
			h = nil
		case ' ', '-', '+':
			if h == nil {
				m.hunks = append(m.hunks, hunk{})
				h = &m.hunks[len(m.hunks)-1]
			}
			if line[0] != '+' {
				h.old = append(h.old, rest)
			}
			if line[0] != '-' {
				h.new = append(h.new, rest)
			}
		default:
			return nil, bad("expected =, #, @@, -, + or a blank first")
		}
	}
	for _, m := range all {
		if m.Breaks == "" || len(m.hunks) == 0 {
			return nil, fmt.Errorf("%s: a sentence on what breaks, and a change, are required", m.Name)
		}
	}
	return all, nil
}

// apply returns the mutant's file, of which source is the original.
func (m *Mutant) apply(source []byte) ([]byte, error) {
	if m.source != nil {
		return m.source, nil
	}
	text := "\n" + string(source)
	for _, h := range m.hunks {
		if len(h.old) == 0 || slices.Equal(h.old, h.new) {
			return nil, errors.New("a change of nothing")
		}
		old := "\n" + strings.Join(h.old, "\n") + "\n"
		if n := strings.Count(text, old); n != 1 {
			return nil, fmt.Errorf("%s has these lines %d times, expected once; write down the fault anew, or remove it:\n%s",
				m.File, n, strings.Join(h.old, "\n"))
		}
		lines := "\n"
		if len(h.new) > 0 {
			lines = "\n" + strings.Join(h.new, "\n") + "\n"
		}
		text = strings.Replace(text, old, lines, 1)
	}
	return []byte(text[1:]), nil
}

// fit applies each of the planted faults to the tree and returns what is wrong.
func fit(tree fs.FS, all []*Mutant) error {
	var bad []error
	for _, m := range all {
		source, err := fs.ReadFile(tree, m.File)
		if err == nil {
			_, err = m.apply(source)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", m.FullName(), err))
		}
	}
	return errors.Join(bad...)
}
