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

// farOff is the error above which a blind row is listed with what limits it.
const farOff = 0.5

// blindSummary writes what the rows came to, first and now.
func blindSummary(b *strings.Builder, results []Result) {
	b.WriteString(`
#### Blind rows

The first figure of a row stands, and the medians of the class are of those; beside it is what the model says now, which changes only for
reasons of its own. Rows that were far off are looked at first, and so leave the class: what is still blind is no fair sample of all that ever were. All PCIe rows but one are of the device that the older ones are of, in other hosts: they say little of another device.

| of | points | first: quartiles, 90 % | over 50 % | now: quartiles, 90 % | over 50 % |
|---|---|---|---|---|---|
`)
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
			fmt.Fprintf(b, "| %s | %d | %s | %d | %s | %d |\n", rows.name, len(now), quantiles(first), over(first), quantiles(now), over(now))
		}
	}
	b.WriteString(`
What changes of the model and of the runs did to the NICs' rows of the first collection, 48 points, each with those before it:

| change | quartiles, 90 % | over 50 % |
|---|---|---|
| first run | 10.5 / 36.2 / 99.9 / 198.6 % | 21 |
| a link and a receive buffer that hold back, one memory for state, units for requests and answers | 8.4 / 29.9 / 80.0 / 198.6 % | 15 |
| elements of READs under way in a memory of the receive side | 9.1 / 29.9 / 80.0 / 198.6 % | 15 |
| threads that take time to post and to poll, rounds counted as wholes, swarms of 150 us | 8.1 / 26.2 / 46.8 / 131.0 % | 10 |
| hosts' time in latencies, links that correct errors, the pipelines' depth without both and as a time | 8.2 / 23.1 / 48.0 / 132.3 % | 10 |
| elements are read no further ahead than there is room for | 9.1 / 19.0 / 45.2 / 132.3 % | 9 |
| elements of READs that wait for units or for PCIe displace others | 9.1 / 19.0 / 45.2 / 132.9 % | 9 |
| memory for state of ConnectX-3, and its reads at a time, fitted to two of the rows | 8.2 / 15.2 / 32.5 / 53.0 % | 5 |

The third did little here, since few of these rows have more READs under way at a time than the memory holds. A thread's times are of other sources
(150 ns a post, 62 ns a completion that is polled); ping-pongs and single requests had none until the fifth change, which took
them out of the pipelines' depth (row L1). That made latencies of ConnectX-6 and -7 better and those of ConnectX-3 worse, and of all that ever
were blind, with the second collection, the median went from 29.4 to 31.4 percent by it, to 28.0 by the sixth, and to 20.9 by the last; without the two rows
that are fit it is 21.3. The seventh is of rows that are no blind ones (KS4). Latencies that were looked at for it have left the class, and with them went most
of what was far off: the median of what is still blind says less than before.

The third collection, 42 points of NICs that run, was taken down by someone who saw neither the model nor its results, its set-ups by someone else, and run once, after all of these
changes. It is what the model predicts of NICs that it was not held against: a median error of 27 percent. It showed that counting began within the first window (nc-wr16k-q1 had
618 Gbps over a link of 400); since that was mended the two rows are seen.
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
	fmt.Fprintf(b, "\nOf %d rows that were taken down these are not among them:\n\n| row | |\n|---|---|\n", len(rows))
	for _, s := range []BlindStatus{NoPreset, Excluded, Repeats} {
		for i := range rows {
			if ids := status[s][rows[i].Why]; rows[i].Status == s && ids[0] == rows[i].row.ID {
				fmt.Fprintf(b, "| %s | %s: %s |\n", strings.Join(ids, ", "), s, rows[i].Why)
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
	b.WriteString("\n### Blind, or once blind\n\n| row | what | preset | published | first | error | now | error | |\n|---|---|---|---|---|---|---|---|---|\n")
	first, was := firstFigures(results), First()
	for i := range results {
		r := &results[i]
		if !r.Row.wasBlind(was) {
			continue
		}
		p := &r.Row.Points[0]
		then, now := first[i].Figures[0].Value, r.Figures[0].Value
		var marks []string
		if r.Row.Class != Blind {
			marks = append(marks, string(r.Row.Class))
		}
		for _, n := range deviations.About(known, r.Row.ID, p.At) {
			marks = append(marks, fmt.Sprintf("[D%d](#d%d)", n, n))
		}
		fmt.Fprintf(b, "| %s, %s | %s (%s): %s | %s | %s | %s | %+.1f %% | %s | %+.1f %% | %s |\n", r.Row.ID, r.Row.Source, r.Row.What, r.Row.Unit, p.At,
			r.Measurement.Preset, number(p.Value), number(then), 100*p.Error(then), number(now), 100*p.Error(now), strings.Join(marks, " "))
	}
}
