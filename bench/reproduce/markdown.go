package reproduce

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
	"github.com/sluice-rdma/sluice/internal/markdown"
)

// Markdown writes docs/reproductions.md: each row, and the deviations with what they
// came to in this report.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	known := differences()
	b.WriteString(`<!-- Written by sluice reproduce --markdown; run go generate ./bench/reproduce. -->

# Reproductions

What the papers measured beside what comes out here: ` + "`sluice reproduce --all`" + `, as
[reproductions.json](reproductions.json) has it. A row is a figure or table of a paper. What is held
against it depends on its kind:

- **value**: the figure lies within a stated fraction of the paper's.
- **ratio**: the quotient of two systems in the same runs, over at least five seeds, lies on the paper's side of 1 with
  its whole 95 percent interval; its size stands beside the paper's.
- **order**: a statement about what is more and what is less holds with every seed.
- **report**: set by something that the paper does not state; shown, and not counted.

A row whose id ends in -artefact has the figure in the set-up, and with the parameters, of the paper's public code, where
they differ from its text ([artefact.md](artefact.md)). It counts with the row beside it, as one that is met if either is.

All rows take their systems from one file,
[scenario/systems.yaml](../scenario/systems.yaml); an experiment changes no parameter but what it is about.
[D1] and so on are the [deviations](#deviations) below.

`)
	fmt.Fprintf(&b, "%s\n", strings.ReplaceAll(r.Summary(), "\n", "\n\n"))
	for _, p := range allPapers() {
		r.markdownPaper(&b, p, known)
	}
	r.markdownDeviations(&b, known)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markdownPaper(b *strings.Builder, p *paper, known []deviations.Deviation) {
	fmt.Fprintf(b, "\n## %s\n\n", p.Title)
	var t *markdown.Table
	var missing []string
	for _, about := range p.Rows {
		row := r.row(about.ID)
		if row == nil {
			missing = append(missing, fmt.Sprintf("`%s` (%s)", about.ID, about.Source))
			continue
		}
		if t == nil {
			t = markdown.NewTable(b, "row", "what", "paper", "ours", "")
		}
		for i, c := range row.Checks {
			id := ""
			if i == 0 {
				id = fmt.Sprintf("[`%s`](#%s)", row.ID, row.ID)
			}
			verdict := map[string]string{"met": "met", "MISSED": "**missed**", "report": "not counted"}[c.verdict()]
			if c.Counts && !c.Met {
				for _, n := range deviations.About(known, row.ID, "") {
					verdict += fmt.Sprintf(" [D%d](#d%d)", n, n)
				}
			}
			t.Row(id, c.Text, number(c.Paper), withInterval(c.Ours, c.Low, c.High), verdict)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(b, "\nNot run: %s.\n", strings.Join(missing, ", "))
	}
	for _, about := range p.Rows {
		if row := r.row(about.ID); row != nil {
			row.markdown(b)
		}
	}
}

// markdown is a row with all its figures.
func (r *rowResult) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n", r.ID)
	fmt.Fprintf(b, "%s, %s", r.Source, r.Kind)
	if r.What != "" {
		fmt.Fprintf(b, ": %s", r.What)
	}
	b.WriteString(".")
	if r.Scaling != "" {
		fmt.Fprintf(b, "\n\nScaled: %s", r.Scaling)
	}
	if r.Note != "" {
		fmt.Fprintf(b, "\n\nNote: %s", r.Note)
	}
	seeds := "1 seed"
	if r.Seeds > 1 {
		seeds = fmt.Sprintf("mean of %d seeds, 95 percent interval", r.Seeds)
	}
	b.WriteString("\n\n")
	t := markdown.NewTable(b, "figure", "paper", "ours ("+seeds+")")
	for _, f := range r.Figures {
		t.Row(markdown.Code(f.Name), number(f.Paper), withInterval(f.Ours, f.Low, f.High))
	}
}

func (r *Report) markdownDeviations(b *strings.Builder, all []deviations.Deviation) {
	b.WriteString("\n## Deviations\n\nWhat differs from the papers, by how much, and what is known about why.\n")
	for i, d := range all {
		fmt.Fprintf(b, "\n### D%d\n\n", i+1)
		var rows []string
		for _, id := range d.Rows {
			rows = append(rows, "`"+id+"`")
		}
		fmt.Fprintf(b, "%s: %s\n", strings.Join(rows, ", "), strings.TrimSpace(d.Differs))
		for _, id := range d.Rows {
			row := r.row(id)
			if row == nil {
				continue
			}
			for _, c := range row.Checks {
				if !c.Met {
					fmt.Fprintf(b, "\n- `%s`, %s: paper %s, ours %s; %s", id, c.Text, number(c.Paper), withInterval(c.Ours, c.Low, c.High), c.Why)
				}
			}
		}
		fmt.Fprintf(b, "\n\nWhy: %s\n", strings.TrimSpace(d.Why))
	}
	if len(all) == 0 {
		b.WriteString("\nNone.\n")
	}
}

func (r *Report) row(id string) *rowResult {
	for _, row := range r.Rows {
		if row.ID == id {
			return row
		}
	}
	return nil
}

func number(n rounded) string {
	if !n.there() {
		return ""
	}
	return n.String()
}

func withInterval(n, low, high rounded) string {
	if !n.there() || !low.there() || !high.there() {
		return number(n)
	}
	return fmt.Sprintf("%v (%v to %v)", n, low, high)
}
