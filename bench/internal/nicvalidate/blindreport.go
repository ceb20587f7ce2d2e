package nicvalidate

import (
	_ "embed" // the first figures
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/internal/markdown"
)

//go:embed blindfirst.yaml
var blindFirstYAML []byte

// First returns the figures that blind rows had when they were first run, by row.
func First() map[string]float64 {
	var all map[string]float64
	if err := yaml.UnmarshalWithOptions(blindFirstYAML, &all, yaml.Strict()); err != nil {
		panic(fmt.Errorf("blindfirst.yaml: %w", err)) // it is part of the program
	}
	return all
}

// WriteFirst appends to blindfirst.yaml what blind rows came to that it does not have yet.
func WriteFirst(w io.Writer, results []Result) error {
	first := First()
	for i := range results {
		r := &results[i]
		if _, known := first[r.Row.ID]; known || r.Row.Class != Blind {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", r.Row.ID, number(r.Figures[0].Value)); err != nil {
			return err
		}
	}
	return nil
}

// firstFigures returns the results with the blind rows' figures of their first run.
func firstFigures(results []Result) []Result {
	first := First()
	all := slices.Clone(results)
	for i := range all {
		if v, ok := first[all[i].Row.ID]; ok {
			all[i].Figures = []Figure{{Value: v}}
		}
	}
	return all
}

// everBlind are the results as they were when each blind row was first run.
func everBlind(results []Result) []Result {
	was := First()
	all := firstFigures(results)
	for i := range all {
		if all[i].Row.wasBlind(was) {
			all[i].Row.Class = Blind
		}
	}
	return all
}

// farOff is the error above which a blind row is listed with its limit.
const farOff = 0.5

// blindSummary writes what the rows came to, first and now.
func blindSummary(b *strings.Builder, results []Result) {
	b.WriteString(`
#### Blind rows

The first figure of a row stands, and the medians of the class are of first figures; beside it is the model's present figure. Rows with large errors are looked at first, and so leave
the class: the rows that are still blind are no fair sample of all that ever were. All PCIe rows but one are of one device in several hosts: they say little of another device.

`)
	t := markdown.NewTable(b, "of", "points", "first: quartiles, 90 %", "over 50 %", "now: quartiles, 90 %", "over 50 %")
	before := firstFigures(results)
	was := First()
	third := map[string]bool{}
	for _, b := range BlindRows() {
		third[b.row.ID] = b.run.Collection == 3
	}
	for _, kind := range []string{"NICs", "PCIe"} {
		for _, rows := range []struct {
			name string
			take func(*Row) bool
		}{
			{kind + ", all", func(r *Row) bool { return r.wasBlind(was) }},
			{kind + ", all but fit", func(r *Row) bool { return r.wasBlind(was) && r.Class != Fit }},
			{kind + ", third collection", func(r *Row) bool { return third[r.ID] && r.wasBlind(was) }},
			{kind + ", still blind", func(r *Row) bool { return r.Class == Blind }},
		} {
			take := func(r *Row) bool { return r.kind() == kind && rows.take(r) }
			first, now := rowErrors(before, take), rowErrors(results, take)
			if len(now) == 0 {
				continue
			}
			t.Row(rows.name, len(now), quantiles(first), over(first), quantiles(now), over(now))
		}
	}
	b.WriteString(`
Latencies that the model was mended by have left the class, and with them most of the large errors: the median of the rows that are still blind says less than that of all.

The third collection, 42 points of NICs, was taken down by someone who saw neither the model nor its results, its set-ups by someone else, and run once. Its first figures are the
model's predictions for NICs that it was not held against: a median error of 27 percent. Two of its rows showed that counting began within the first window; they are seen.
`)
	status := map[BlindStatus]map[string][]string{}
	rows := BlindRows()
	for i := range rows {
		r := &rows[i]
		if status[r.Status] == nil {
			status[r.Status] = map[string][]string{}
		}
		status[r.Status][r.Why] = append(status[r.Status][r.Why], r.row.ID)
	}
	fmt.Fprintf(b, "\nOf %d rows that were taken down these are not among them:\n\n", len(rows))
	t = markdown.NewTable(b, "row", "")
	for _, s := range []BlindStatus{NoPreset, Excluded, Repeats} {
		for i := range rows {
			if ids := status[s][rows[i].Why]; rows[i].Status == s && ids[0] == rows[i].row.ID {
				t.Row(strings.Join(ids, ", "), fmt.Sprintf("%s: %s", s, rows[i].Why))
			}
		}
	}
}

// rowErrors are the absolute errors of the first points of some rows, sorted.
func rowErrors(results []Result, take func(*Row) bool) (errs []float64) {
	for i := range results {
		if r := &results[i]; take(&r.Row) {
			errs = append(errs, math.Abs(r.Row.Points[0].Error(r.Figures[0].Value)))
		}
	}
	slices.Sort(errs)
	return errs
}

func quantiles(sorted []float64) string {
	var all []string
	for _, q := range []float64{0.25, 0.5, 0.75, 0.9} {
		all = append(all, fmt.Sprintf("%.1f", 100*quantile(sorted, q)))
	}
	return strings.Join(all, " / ") + " %"
}

// quantile interpolates between the two values next to it: a group has few rows, and package
// quantile's, always one of the values, would jump with each new one.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func over(errs []float64) (n int) {
	for _, e := range errs {
		if e > farOff {
			n++
		}
	}
	return n
}
