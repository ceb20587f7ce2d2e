// Package markdown writes Markdown tables, as GitHub reads them.
//
// It must not know what is in them.
package markdown

import (
	"fmt"
	"strings"
)

// Table writes a table, row by row. Its methods are for one goroutine.
type Table struct {
	b       *strings.Builder
	columns int
}

// NewTable writes a table's head into b. What is written into b between rows ends the table.
func NewTable(b *strings.Builder, columns ...string) *Table {
	t := &Table{b, len(columns)}
	row(t, columns)
	b.WriteString("|" + strings.Repeat("---|", len(columns)) + "\n")
	return t
}

// Row writes a row: each cell as fmt.Sprint has it, on one line, with its bars escaped. It
// panics if there are more cells than columns; those that are not given are empty.
func (t *Table) Row(cells ...any) { row(t, cells) }

func row[T any](t *Table, cells []T) {
	if len(cells) > t.columns {
		panic(fmt.Sprintf("markdown: %d cells in a table of %d columns", len(cells), t.columns))
	}
	t.b.WriteByte('|')
	for i := range t.columns {
		text := ""
		if i < len(cells) {
			text = escape.Replace(fmt.Sprint(cells[i]))
		}
		t.b.WriteString(" " + text + " |")
	}
	t.b.WriteByte('\n')
}

var escape = strings.NewReplacer("|", `\|`, "\n", " ")

// Code is text as code: `text`.
func Code(text string) string { return "`" + text + "`" }
