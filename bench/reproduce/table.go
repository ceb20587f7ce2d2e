package reproduce

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes the report for a reader: a line for each thing that must hold.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	grid := [][]string{{"", "row", "what", "paper", "ours", ""}}
	for _, row := range r.Rows {
		for i, c := range row.Checks {
			id := row.ID
			if i > 0 {
				id = ""
			}
			grid = append(grid, []string{c.verdict(), id, c.Text, dash(c.Paper), dash(c.Ours), c.Why})
		}
	}
	writeTable(&b, grid)
	fmt.Fprintf(&b, "\n%s\n", r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict is one word on a check.
func (c *checkResult) verdict() string {
	switch {
	case !c.Counts:
		return "report"
	case c.Met:
		return "met"
	}
	return "MISSED"
}

func dash(n rounded) string {
	if !n.there() {
		return "-"
	}
	return n.String()
}

// Summary says how many rows were met, and what it took.
func (r *Report) Summary() string {
	var parts []string
	for _, c := range r.counts() {
		if c.Kind == kindReport {
			parts = append(parts, fmt.Sprintf("%d reported, not counted", c.Rows))
		} else {
			part := fmt.Sprintf("%s rows %d of %d met", c.Kind, c.Met, c.Rows)
			if c.Artefact > 0 {
				part += fmt.Sprintf(", %d of them in the artefact's set-up", c.Artefact)
			}
			parts = append(parts, part)
		}
	}
	s := strings.Join(parts, "; ") + "."
	if r.Quick {
		s += " In small: the full length counts."
	}
	s += fmt.Sprintf(" %d of the papers' %d rows can be run.", r.Defined, r.Listed)
	if len(r.Missing) > 0 {
		why := ""
		if r.Interrupted {
			why = ", by an interrupt"
		}
		s += fmt.Sprintf(" %d rows are missing%s: %s.", len(r.Missing), why, strings.Join(r.Missing, ", "))
	}
	return s + fmt.Sprintf("\n%d runs, %d of them kept from earlier; %.0f s with %d at a time; %d MiB of memory.",
		r.Runs, r.RunsReused, r.WallS, r.Cores, r.MemoryMiB)
}

// writeTable aligns columns to the left, but for the fourth and fifth, which hold
// numbers.
func writeTable(b *strings.Builder, grid [][]string) {
	var widths []int
	for _, row := range grid {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range grid {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 3 || i == 4 {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// List writes the rows that can be run, and those of the papers' list that can't.
func List(w io.Writer, rows []*Row) error {
	var b strings.Builder
	defined := map[string]*Row{}
	for _, r := range rows {
		defined[r.ID] = r
	}
	grid := [][]string{{"row", "kind", "source", "seeds", "about", "in small"}}
	var missing []string
	for _, p := range allPapers() {
		for _, about := range p.Rows {
			r := defined[about.ID]
			if r == nil {
				missing = append(missing, about.ID)
				continue
			}
			quick := "-"
			if r.quick != nil {
				quick = seconds(r.quick.Seconds)
			}
			grid = append(grid, []string{r.ID, string(about.Kind), p.Name + ", " + about.Source, fmt.Sprint(r.Seeds), seconds(r.seconds), quick})
		}
	}
	writeTable(&b, grid)
	fmt.Fprintf(&b, "\nTimes are of one core. %d of the papers' %d rows can be run.\n", papersRows(rows), listed())
	if len(missing) > 0 {
		fmt.Fprintf(&b, "Not yet: %s.\n", strings.Join(missing, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func seconds(s float64) string {
	if s >= 90 {
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.0f s", s)
}
