package nicvalidate

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
	"github.com/sluice-rdma/sluice/internal/markdown"
)

// The page for readers, docs/nic-validation.md, its plot and its rows as data: all from the results.

// point is a point of a row with what the model has.
type point struct {
	r       *Result
	k       int
	class   Class // of first figures: blind for all that ever were
	now     float64
	first   float64 // of its first run if it was blind, else now
	counted bool    // in medians
}

func (p *point) row() *Row         { return &p.r.Row }
func (p *point) published() *Point { return &p.r.Row.Points[p.k] }
func (p *point) off() float64      { return math.Abs(p.published().Error(p.now)) }

// value is the published figure, the middle of a range.
func (p *point) value() float64 {
	if q := p.published(); q.High > 0 {
		return (q.Low + q.High) / 2
	}
	return p.published().Value
}

func points(results []Result) (all []point) {
	was := First()
	for i := range results {
		r := &results[i]
		for k, f := range r.Figures {
			if f.Missing != "" {
				continue
			}
			p := point{r: r, k: k, class: r.Row.ClassOf(k), now: f.Value, first: f.Value}
			if v, ran := was[r.Row.ID]; ran {
				p.first = v
			}
			if r.Row.wasBlind(was) {
				p.class = Blind
			}
			p.counted = r.Row.Apart == "" && r.Row.Points[k].Apart == ""
			all = append(all, p)
		}
	}
	return all
}

const (
	worst   = 10
	plotted = "img/nic-validation.svg"
	data    = "nic-validation.csv"
)

// Page writes docs/nic-validation.md.
func Page(w io.Writer, results []Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# The NIC model against published measurements

What was measured of real NICs and PCIe devices, beside what [the model](nic.md) says. `+"`make validate-nic`"+` writes this page and
takes all figures anew. [%s](%s) has each point with its source; [nic-figures.md](nic-figures.md#against-published-measurements) has
the rule of the classes, how each figure is taken, and what is known of each that differs.

*Blind* is what was written down before the model was first run for it, by its first run; of *seen* points whoever made the model knew, and a parameter
was set from those of class *fit*. Errors are absolute, of the published figure.

## By group

`, data, data)
	t := markdown.NewTable(&b, "class", "of", "source", "rows", "points", "median", "worst")
	for _, class := range classes {
		groups(t, results, class)
	}
	fmt.Fprintf(&b, "\n## Published against model\n\n![each point by its published figure and the model's](%s)\n\nThe line is where both are the same, the broken ones where they are apart by a factor of two. "+
		"Millions of requests a second, nanoseconds, microseconds and gigabits a second all stand as numbers.\n", plotted)
	known := differences()
	fmt.Fprintf(&b, "\n## The worst %d\n\nOf blind and seen points, by the present figure: the worst of each source.\n\n", worst)
	t = markdown.NewTable(&b, "row", "what", "preset", "published", "model", "error", "known of it")
	for _, p := range theWorst(points(results)) {
		t.Row(p.row().ID+", "+p.row().Source, fmt.Sprintf("%s: %s (%s)", p.row().What, p.published().At, p.row().Unit), p.r.Measurement.Preset,
			number(p.value()), number(p.now), fmt.Sprintf("%+.0f %%", 100*p.published().Error(p.now)), whatIsKnown(known, p))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// groups writes the lines of a class: all, NICs and PCIe, and each source. Those of
// blind rows are of their first run, and of all that ever were blind.
func groups(t *markdown.Table, results []Result, class Class) {
	if class == Blind {
		results = everBlind(results)
	}
	line := func(kind, source string) {
		s := Summarise(results, class, func(r *Row) bool {
			return (kind == "all" || r.kind() == kind) && (source == "all" || r.origin() == source)
		})
		if s.Points > 0 {
			t.Row(class, kind, source, s.Rows, s.Points, fmt.Sprintf("%.1f %%", 100*s.Median), fmt.Sprintf("%.0f %%", 100*s.Worst))
		}
	}
	line("all", "all")
	for _, kind := range []string{"NICs", "PCIe"} {
		line(kind, "all")
		var sources []string
		for i := range results {
			if r := &results[i].Row; r.kind() == kind && !slices.Contains(sources, r.origin()) {
				sources = append(sources, r.origin())
				line(kind, r.origin())
			}
		}
	}
}

// theWorst returns the points that are off most, the worst of each source.
func theWorst(all []point) []*point {
	bySource := map[string]*point{}
	var rows []*point
	for i := range all {
		p := &all[i]
		if !p.counted || p.row().ClassOf(p.k) == Fit {
			continue
		}
		if q := bySource[p.row().origin()]; q == nil {
			bySource[p.row().origin()] = p
			rows = append(rows, p)
		} else if p.off() > q.off() {
			rows[slices.Index(rows, q)] = p
			bySource[p.row().origin()] = p
		}
	}
	slices.SortStableFunc(rows, func(a, b *point) int { return cmp.Compare(b.off(), a.off()) })
	return rows[:min(worst, len(rows))]
}

// whatIsKnown is the text of the deviations about a point, up to the end of its first sentence.
func whatIsKnown(known []deviations.Deviation, p *point) string {
	numbers := deviations.About(known, p.row().ID, p.published().At)
	if len(numbers) == 0 {
		return ""
	}
	why := strings.TrimSpace(known[numbers[0]-1].Why)
	if end := strings.Index(why, ". "); end >= 0 {
		why = why[:end+1]
	}
	return fmt.Sprintf("%s [D%d](nic-figures.md#d%d)", why, numbers[0], numbers[0])
}

// Data writes docs/nic-validation.csv.
func Data(w io.Writer, results []Result) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"row", "source", "confidence", "class", "of", "what", "unit", "at", "preset", "published", "published_to", "first", "model", "error_percent", "deviations", "apart"}}
	known, was := differences(), First()
	for _, p := range points(results) {
		q, row := p.published(), p.row()
		value, to, first := number(q.Value), "", ""
		if q.High > 0 {
			value, to = number(q.Low), number(q.High)
		}
		if _, ran := was[row.ID]; ran {
			first = number(p.first)
		}
		var about []string
		for _, n := range deviations.About(known, row.ID, q.At) {
			about = append(about, fmt.Sprintf("D%d", n))
		}
		lines = append(lines, []string{
			row.ID, row.Source, row.Confidence, string(row.ClassOf(p.k)), row.kind(), row.What, row.Unit, q.At, p.r.Measurement.Preset,
			value, to, first, number(p.now), fmt.Sprintf("%.1f", 100*q.Error(p.now)), strings.Join(about, " "), cmp.Or(q.Apart, row.Apart),
		})
	}
	return out.WriteAll(lines)
}

// marks are the plot's, by class.
var marks = map[Class]string{
	Blind: `<circle cx="%[1]s" cy="%[2]s" r="3.2" class="blind"/>`,
	Seen:  `<path d="M%[1]s %[2]sm-3 -3l6 6m0 -6l-6 6" class="seen"/>`,
	Fit:   `<rect x="%[1]s" y="%[2]s" width="5" height="5" transform="translate(-2.5 -2.5)" class="fit"/>`,
}

// Plot writes docs/img/nic-validation.svg: both axes logarithmic, the same.
func Plot(w io.Writer, results []Result) error {
	const size, margin = 560, 56
	all := slices.DeleteFunc(points(results), func(p point) bool { return !p.counted || p.now <= 0 || p.value() <= 0 })
	low, high := math.Inf(1), math.Inf(-1)
	for i := range all {
		low = min(low, math.Floor(math.Log10(min(all[i].now, all[i].value()))))
		high = max(high, math.Ceil(math.Log10(max(all[i].now, all[i].value()))))
	}
	at := func(v float64) float64 { return (v - low) / (high - low) * size }
	x := func(v float64) string { return fmt.Sprintf("%.1f", margin+at(v)) }
	y := func(v float64) string { return fmt.Sprintf("%.1f", margin/2+size-at(v)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<style>.blind{fill:none;stroke:#c0392b;stroke-width:1.4}.seen{fill:none;stroke:#2c5f8a;stroke-width:1.4}.fit{fill:#999}.line{stroke:#444}.half{stroke:#bbb;stroke-dasharray:4 4}.grid{stroke:#eee}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, size+margin+24, size+margin+24)
	for v := low; v <= high; v++ {
		fmt.Fprintf(&b, `<path d="M%s %sV%sM%s %sH%s" class="grid"/><text x="%s" y="%d" text-anchor="middle">%s</text><text x="%d" y="%s" text-anchor="end">%s</text>`+"\n",
			x(v), y(low), y(high), x(low), y(v), x(high), x(v), size+margin/2+18, number(math.Pow(10, v)), margin-6, y(v), number(math.Pow(10, v)))
	}
	fmt.Fprintf(&b, `<path d="M%s %sL%s %s" class="line"/>`+"\n", x(low), y(low), x(high), y(high))
	two := math.Log10(2)
	fmt.Fprintf(&b, `<path d="M%s %sL%s %sM%s %sL%s %s" class="half"/>`+"\n", x(low), y(low+two), x(high-two), y(high), x(low+two), y(low), x(high), y(high-two))
	for _, class := range []Class{Fit, Seen, Blind} {
		for i := range all {
			if p := &all[i]; p.class == class {
				fmt.Fprintf(&b, marks[class]+"\n", x(math.Log10(p.value())), y(math.Log10(p.now)))
			}
		}
	}
	for i, class := range classes {
		fmt.Fprintf(&b, marks[class]+`<text x="%[3]d" y="%[4]d">%[5]s</text>`+"\n", fmt.Sprint(margin+14), fmt.Sprint(margin/2+14+18*i), margin+24, margin/2+18+18*i, class)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">published</text><text x="14" y="%d" text-anchor="middle" transform="rotate(-90 14 %d)">model</text>`+"\n</svg>\n",
		margin+size/2, size+margin+12, margin/2+size/2, margin/2+size/2)
	_, err := io.WriteString(w, b.String())
	return err
}

// Files are what is written beside docs/nic-figures.md, by name from there.
func Files() map[string]func(w io.Writer, results []Result) error {
	return map[string]func(w io.Writer, results []Result) error{"nic-validation.md": Page, data: Data, plotted: Plot}
}
