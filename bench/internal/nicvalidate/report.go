package nicvalidate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/deviations"
)

// Result is a row with what the model says.
type Result struct {
	Row         Row
	Measurement Measurement
	Figures     []Figure // of Row.Points
}

// Figure is the model's figure for a point. It is 0 where Missing is not empty: what the
// model lacks for it.
type Figure struct {
	Value   float64
	Missing string
}

// Limits on points to predict: the median of their errors, and the error above which a
// point needs a deviation.
const (
	MedianLimit = 0.10
	PointLimit  = 0.35
)

// Run takes all measurements. It fails where one fails for another reason than that the
// model lacks something.
func Run() ([]Result, error) {
	measurements := map[string]Measurement{}
	for _, m := range Measurements() {
		measurements[m.Row] = m
	}
	var results []Result
	for _, row := range Published() {
		m, ok := measurements[row.ID]
		if !ok {
			return nil, fmt.Errorf("row %s has no measurement", row.ID)
		}
		r := Result{Row: row, Measurement: m}
		for _, p := range row.Points {
			v, err := m.Figure(p.At)
			var missing *Missing
			switch {
			case errors.As(err, &missing):
				r.Figures = append(r.Figures, Figure{Missing: missing.What})
			case err != nil:
				return nil, fmt.Errorf("row %s, %s: %w", row.ID, p.At, err)
			default:
				r.Figures = append(r.Figures, Figure{Value: v})
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// MedianError returns the median absolute error of the points in the rows for a use,
// and the number of points. added includes the rows that were added.
func MedianError(results []Result, use Use, added bool) (median float64, points int) {
	var errs []float64
	for i := range results {
		r := &results[i]
		for k, f := range r.Figures {
			if r.Row.Use == use && f.Missing == "" && (added || !r.Row.Added) {
				errs = append(errs, math.Abs(r.Row.Points[k].Error(f.Value)))
			}
		}
	}
	if len(errs) == 0 {
		return 0, 0
	}
	slices.Sort(errs)
	n := len(errs)
	return (errs[(n-1)/2] + errs[n/2]) / 2, n
}

// Markdown writes docs/nic-validation.md.
func Markdown(w io.Writer, results []Result, clock []*RoundTrips) error {
	var b strings.Builder
	b.WriteString(`<!-- Written by make validate-nic. -->

# The NIC model against published measurements

What was measured of real NICs and PCIe devices, beside what the [model](nic.md) says: ` + "`make validate-nic`" + `
takes all figures anew and writes this page. The published figures and their sources are in
[published.yaml](../bench/internal/nicvalidate/published.yaml).

- **fit**: a preset may be set from the row. One preset serves all its rows.
- **predict**: the row is only compared with. That is not the same as blind: who set the presets had seen these rows. In
  connectib, fetches of one element follow K3, and 16 units of 116 ns lie near what K5 and K12 imply; the 47 million
  writes a second of nfp6000 are from the note on P8. The set-ups of K5, K11 and L3, and the length
  of all floods, were changed after a first result; those of K8, K10 and K15 later, to what the benchmarks of the paper have.
- Rows **that were added** are raw data of the same sources, for mechanisms that the others do not reach. Each parameter is fitted to one
  point. That translations come in order, that a write of another socket's line costs a look at that socket's memory, and that reads leave nothing
  in the cache was decided with PB8 and PB14 in view; the figures of their points were not fitted.

Rates and latencies are taken through the verbs API over the model. Rows of a PCIe device (P and PB) drive the
model's link and DMA engine by themselves. InfiniBand NICs have InfiniBand framing on the link. Figures come out the same
on every run. An error is the figure over the published one, less 1. B marks figures read off a plot, to about 3 percent, or from one public log. [D1] and so on are the
[deviations](#deviations) below.

`)
	summary(&b, results)
	known := differences()
	for _, table := range []struct {
		title string
		use   Use
		added bool
	}{
		{"Predicted", Predict, false}, {"Predicted, in rows that were added", Predict, true},
		{"Fitted, and facts", Fit, false}, {"Fitted, in rows that were added", Fit, true},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| row | what | preset | published | model | error | |\n|---|---|---|---|---|---|---|\n", table.title)
		for i := range results {
			if r := &results[i].Row; r.Use == table.use && r.Added == table.added {
				results[i].markdown(&b, known)
			}
		}
	}
	clockMarkdown(&b, clock)
	notThereYet(&b, results)
	b.WriteString("\n## How each figure is taken\n\nWhat the sources do not say was chosen, and is named here.\n\n")
	for i := range results {
		if m := &results[i].Measurement; m.How != "" {
			fmt.Fprintf(&b, "- %s: %s.\n", m.Row, m.How)
		}
	}
	b.WriteString("\n## Deviations\n")
	for i, d := range known {
		fmt.Fprintf(&b, "\n### D%d\n\n%s: %s\n", i+1, strings.Join(d.Rows, ", "), strings.TrimSpace(d.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func summary(b *strings.Builder, results []Result) {
	all := 0
	for i := range results {
		if r := &results[i]; r.Row.Use == Predict && !r.Row.Added {
			all += len(r.Figures)
		}
	}
	median, n := MedianError(results, Predict, false)
	fmt.Fprintf(b, "Of %d points to predict, the model has %d; the median of their errors is %.1f percent (wanted: at most %.0f).",
		all, n, 100*median, 100*MedianLimit)
	median, n = MedianError(results, Predict, true)
	fmt.Fprintf(b, " With the rows that were added, it is %.1f percent of %d.", 100*median, n)
	median, n = MedianError(results, Fit, true)
	fmt.Fprintf(b, " Of the points to fit it has %d, with a median of %.1f percent.\n", n, 100*median)
}

func (r *Result) markdown(b *strings.Builder, known []deviations.Deviation) {
	name := fmt.Sprintf("%s, %s", r.Row.ID, r.Row.Source)
	if r.Row.Confidence == "B" {
		name += " (B)"
	}
	what, nic := r.Row.What+" ("+r.Row.Unit+"): ", r.Measurement.Preset
	for k, f := range r.Figures {
		if f.Missing != "" {
			continue
		}
		p := &r.Row.Points[k]
		published := number(p.Value)
		if p.High > 0 {
			published = number(p.Low) + " to " + number(p.High)
		}
		var marks []string
		for _, n := range deviations.About(known, r.Row.ID, p.At) {
			marks = append(marks, fmt.Sprintf("[D%d](#d%d)", n, n))
		}
		fmt.Fprintf(b, "| %s | %s%s | %s | %s | %s | %+.1f %% | %s |\n",
			name, what, p.At, nic, published, number(f.Value), 100*p.Error(f.Value), strings.Join(marks, " "))
		name, what, nic = "", "", ""
	}
}

// number has as many digits as a comparison needs.
func number(v float64) string {
	if v == math.Trunc(v) || v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// notThereYet lists the points without a figure by what the model lacks for them.
func notThereYet(b *strings.Builder, results []Result) {
	var order []string
	rows := map[string][]string{}
	for i := range results {
		r := &results[i]
		points := map[string][]string{}
		var lacks []string
		for k, f := range r.Figures {
			if f.Missing != "" {
				if points[f.Missing] == nil {
					lacks = append(lacks, f.Missing)
				}
				points[f.Missing] = append(points[f.Missing], r.Row.Points[k].At)
			}
		}
		for _, what := range lacks {
			if rows[what] == nil {
				order = append(order, what)
			}
			name := r.Row.ID
			if len(points[what]) < len(r.Figures) {
				name += " (" + strings.Join(points[what], ", ") + ")"
			}
			rows[what] = append(rows[what], fmt.Sprintf("%s, %s", name, r.Row.Use))
		}
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n## Not there yet\n\nWhat the model lacks, and the rows that want it.\n\n| lacks | rows |\n|---|---|\n")
	for _, what := range order {
		fmt.Fprintf(b, "| %s | %s |\n", what, strings.Join(rows[what], "; "))
	}
}
