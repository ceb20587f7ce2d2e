package nicvalidate

import (
	_ "embed" // the first figures
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/internal/deviations"
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

// firstFigures are the results with what blind rows came to when they were first run.
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

// farOff is the error above which a blind row is listed with what limits it.
const farOff = 0.5

// blindSummary writes what the rows came to, first and now.
func blindSummary(b *strings.Builder, results []Result) {
	b.WriteString(`
### Blind rows

The first figure of a row stands, and the medians above are of those; beside it is what the model says now, which changes only for
reasons of its own. All PCIe rows but one are of the device that the older ones are of, in other hosts: they say little of another device.

| of | points | first: quartiles, 90 % | over 50 % | now: quartiles, 90 % | over 50 % |
|---|---|---|---|---|---|
`)
	for _, kind := range []string{"NICs", "PCIe"} {
		first, now := blindErrors(firstFigures(results), kind), blindErrors(results, kind)
		fmt.Fprintf(b, "| %s | %d | %s | %d | %s | %d |\n", kind, len(now), quantiles(first), over(first), quantiles(now), over(now))
	}
	status := map[BlindStatus]map[string][]string{}
	rows := BlindRows()
	for i := range rows {
		r := &rows[i]
		if status[r.Status] == nil {
			status[r.Status] = map[string][]string{}
		}
		status[r.Status][r.Why] = append(status[r.Status][r.Why], r.row.ID)
	}
	fmt.Fprintf(b, "\nOf %d rows that were taken down these are not among them:\n\n| row | |\n|---|---|\n", len(rows))
	for _, s := range []BlindStatus{NoPreset, Excluded, Repeats} {
		for i := range rows {
			if ids := status[s][rows[i].Why]; rows[i].Status == s && ids[0] == rows[i].row.ID {
				fmt.Fprintf(b, "| %s | %s: %s |\n", strings.Join(ids, ", "), s, rows[i].Why)
			}
		}
	}
}

// blindErrors are the absolute errors of blind rows of a kind, sorted.
func blindErrors(results []Result, kind string) (errs []float64) {
	for i := range results {
		if r := &results[i]; r.Row.Class == Blind && r.Row.kind() == kind {
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

// quantile is between the two next to it.
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

// blindMarkdown writes the rows: what they came to first, and now.
func blindMarkdown(b *strings.Builder, results []Result, known []deviations.Deviation) {
	b.WriteString("\n## Blind\n\n| row | what | preset | published | first | error | now | error | |\n|---|---|---|---|---|---|---|---|---|\n")
	first := firstFigures(results)
	for i := range results {
		r := &results[i]
		if r.Row.Class != Blind {
			continue
		}
		p := &r.Row.Points[0]
		then, now := first[i].Figures[0].Value, r.Figures[0].Value
		var marks []string
		for _, n := range deviations.About(known, r.Row.ID, p.At) {
			marks = append(marks, fmt.Sprintf("[D%d](#d%d)", n, n))
		}
		fmt.Fprintf(b, "| %s, %s | %s (%s): %s | %s | %s | %s | %+.1f %% | %s | %+.1f %% | %s |\n", r.Row.ID, r.Row.Source, r.Row.What, r.Row.Unit, p.At,
			r.Measurement.Preset, number(p.Value), number(then), 100*p.Error(then), number(now), 100*p.Error(now), strings.Join(marks, " "))
	}
}
