package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Alike are changes that make no difference that anybody could see, each with the reason.
// They are written down as
//
//	= FILE OPERATOR
//	 the line, with » where it is changed
//	# Why nothing can tell.
//
//go:embed alike.txt
var alike string

// change names an automatic mutant, also after lines have moved.
type change struct{ file, op, place string }

// reasons parses what alike has.
func reasons(text string) (map[change]string, error) {
	found := map[change]string{}
	var c change
	for i, line := range strings.Split(text, "\n") {
		bad := func(what string) error { return fmt.Errorf("alike.txt: line %d: %s: %q", i+1, what, line) }
		if line == "" {
			c = change{}
			continue
		}
		switch rest := line[1:]; line[0] {
		case '=':
			f := strings.Fields(rest)
			if len(f) != 2 {
				return nil, bad("expected = FILE OPERATOR")
			}
			c = change{file: f[0], op: f[1]}
		case ' ':
			if c.place = rest; c.file == "" || strings.Count(rest, mark) != 1 {
				return nil, bad("expected a line of the file, with one " + mark)
			}
		case '#':
			if c.file == "" {
				continue // a comment
			}
			if c.place == "" {
				return nil, bad("expected the line that is changed first")
			}
			found[c] = strings.TrimSpace(found[c] + rest)
		default:
			return nil, bad("expected =, a blank or # first")
		}
	}
	return found, nil
}

// why is the reason for which a mutant is left out, empty if it is judged.
func (m *Mutant) why(reasons map[change]string) string {
	return reasons[change{m.File, m.Kind, m.place}]
}

// fitAlike looks for each of the changes in the tree.
func fitAlike(tree fs.FS, text string) error {
	known, err := reasons(text)
	if err != nil {
		return err
	}
	var bad []error
	at := map[string]map[change]bool{}
	for c := range known {
		if at[c.file] == nil {
			at[c.file] = map[change]bool{}
			source, err := fs.ReadFile(tree, c.file)
			if err != nil {
				return err
			}
			all, err := mutations(c.file, source)
			if err != nil {
				return err
			}
			for _, m := range all {
				at[c.file][change{m.File, m.Kind, m.place}] = true
			}
		}
		if !at[c.file][c] {
			bad = append(bad, fmt.Errorf("alike.txt: %s has no line for %s: %s; write it down anew, or remove it", c.file, c.op, c.place))
		}
	}
	return errors.Join(bad...)
}
