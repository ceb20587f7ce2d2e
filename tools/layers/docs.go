package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/internal/markdown"
)

// pages have the tables.
var pages = []string{"docs/packages.md", "docs/api.md"}

// fill writes the tables into a page: each stands between a line
// <!-- layers: NAME --> and a line <!-- end -->. NAME is "all" or an audience.
func fill(page []byte, layers Layers) ([]byte, error) {
	var out bytes.Buffer
	inside := false
	for line := range strings.Lines(string(page)) {
		name, begins := strings.CutPrefix(strings.TrimSpace(line), "<!-- layers: ")
		name, _ = strings.CutSuffix(name, " -->")
		ends := strings.TrimSpace(line) == "<!-- end -->"
		if begins == inside && (begins || ends) || ends && !inside {
			return nil, fmt.Errorf("unexpected line %q", strings.TrimSpace(line))
		}
		inside = (inside || begins) && !ends
		if !inside || begins {
			out.WriteString(line)
		}
		if begins {
			out.WriteString(layers.table(name))
		}
	}
	if inside {
		return nil, fmt.Errorf("a table has no <!-- end -->")
	}
	return out.Bytes(), nil
}

// table is the table of all packages, or of those for an audience.
func (l Layers) table(audience string) string {
	var b strings.Builder
	head := []string{"package", "is"}
	if audience == "all" {
		head = append(head, "pure", "may import, beside leaves")
	}
	t := markdown.NewTable(&b, head...)
	for _, p := range l.paths {
		row := l.rows[p]
		if audience != "all" {
			if row.API == audience {
				t.Row(markdown.Code(p), row.Is)
			}
			continue
		}
		pure := ""
		if row.Pure {
			pure = "pure"
		}
		var imports []string
		for _, a := range row.Imports {
			if !foreign(a) && a != "C" {
				imports = append(imports, markdown.Code(a))
			}
		}
		t.Row(markdown.Code(p), row.Is, pure, strings.Join(imports, ", "))
	}
	return b.String()
}
