package nicvalidate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/markdown"
)

// Result is a row with the model's figures.
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

// PointLimit is the error above which a blind or a seen point needs a deviation.
const PointLimit = 0.35

// Errors sums up the errors of points.
type Errors struct {
	Rows, Points int
	Median       float64 // of absolute errors
	Worst        float64
	Over         int // points with an error above PointLimit
}

// Summarise sums up the points of a class in the rows that the filter takes. Points that are
// apart and those without a figure do not count.
func Summarise(results []Result, class Class, filter func(*Row) bool) Errors {
	var s Errors
	var errs []float64
	for i := range results {
		r := &results[i]
		if r.Row.Apart != "" || !filter(&r.Row) {
			continue
		}
		before := len(errs)
		for k, f := range r.Figures {
			p := &r.Row.Points[k]
			if r.Row.ClassOf(k) != class || p.Apart != "" || f.Missing != "" {
				continue
			}
			e := math.Abs(p.Error(f.Value))
			errs = append(errs, e)
			if e > PointLimit {
				s.Over++
			}
		}
		if len(errs) > before {
			s.Rows++
		}
	}
	s.Points = len(errs)
	if s.Points == 0 {
		return s
	}
	slices.Sort(errs)
	s.Median, s.Worst = (errs[(s.Points-1)/2]+errs[s.Points/2])/2, errs[s.Points-1]
	return s
}

// Section names what Markdown writes within docs/nic-figures.md.
const Section = "written by make validate-nic"

// Markdown writes its section of docs/nic-figures.md.
func Markdown(w io.Writer, results []Result, clock []*RoundTrips) error {
	var b strings.Builder
	b.WriteString(`
What was measured of real NICs and PCIe devices, beside what the model says: [nic-validation.md](nic-validation.md) has medians by group, a plot and the worst,
[nic-validation.csv](nic-validation.csv) each point. ` + "`make validate-nic`" + ` takes all figures anew, and writes them and this section: the rule, the clock, how figures are taken, and deviations. The published figures and their sources are in
[published.yaml](../bench/internal/nicvalidate/published.yaml); those of the blind rows in [blind.yaml](../bench/internal/nicvalidate/blind.yaml),
and how these are run in [blindruns.yaml](../bench/internal/nicvalidate/blindruns.yaml).

### Classes

The rule, written down before any blind row was run:

- **fit**: a parameter of a preset or of the measurement was set from the point, or is the same fact. Its error says how well one
  preset serves all that it was fitted to, and nothing of what the model predicts.
- **seen**: no parameter was set from it, but whoever made the model had seen it, and could have chosen mechanisms and set-ups by it.
- **blind**: it was committed, by someone who saw neither the model's code nor its results, before the model was first run for it. The set-up
  is written from the source alone. It is run once, and that figure stands: nothing is tuned to it. A fault that it shows is mended only if the mend has
  a reason of its own, and the point is then *seen*; the median of blind rows stays that of all that ever were blind, by their first run.

A point's class only ever goes from blind to seen to fit, and in doubt it is the later one. Medians are of absolute errors. A figure that stands in
two sources counts once, and what is no prediction not at all: such points are *apart*, with the reason, and are among the data all the same. Wanted of blind rows is a median of at most 15 percent, of NICs and of PCIe each; the two
are summed up apart, because a PCIe device's rows say little of a NIC. A blind or seen point that is off by more than 35 percent has its deviation.

Rows that were made with the presets, by the same hands, are not blind. K3 and the 64 B of P9 are fit, since a parameter follows from them. The 16 units of
connectib lie near what K5 and K12 imply, though they are a product brief's. The set-ups of K5, K8, K10, K11, K15 and L3 and the length of all floods were
chosen with a result in view, and so were three mechanisms, with PB8 and PB14: translations come in order, a write of another socket's line costs a look
at that socket's memory, and reads leave nothing in the cache.

`)
	blindSummary(&b, results)
	b.WriteString(`
Rates and latencies are taken through the verbs API over the model. Rows of a PCIe device (P and PB) drive the
model's link and DMA engine by themselves. InfiniBand NICs have InfiniBand framing on the link. Figures come out the same
on every run. An error is the figure over the published one, less 1. Confidence B is of figures read off a plot, to about 3 percent, or from one public log. D1 and so on are the
[deviations](#deviations) below.
`)
	known := differences()
	clockMarkdown(&b, clock)
	notThereYet(&b, results)
	b.WriteString("\n### How each figure is taken\n\nWhat the sources do not say was chosen, and is named here.\n\n")
	for i := range results {
		if m := &results[i].Measurement; m.How != "" {
			fmt.Fprintf(&b, "- %s: %s.\n", m.Row, m.How)
		}
	}
	b.WriteString("\n### Deviations\n")
	for i, d := range known {
		fmt.Fprintf(&b, "\n#### D%d\n\n%s: %s\n", i+1, strings.Join(d.Rows, ", "), strings.TrimSpace(d.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number has as many digits as a comparison needs.
func number(v float64) string {
	if v == math.Trunc(v) || v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// notThereYet lists the points without a figure by the missing part of the model.
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
			rows[what] = append(rows[what], fmt.Sprintf("%s, %s", name, r.Row.Class))
		}
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n### Not there yet\n\nWhat the model lacks, and the rows that want it.\n\n")
	t := markdown.NewTable(b, "lacks", "rows")
	for _, what := range order {
		t.Row(what, strings.Join(rows[what], "; "))
	}
}
