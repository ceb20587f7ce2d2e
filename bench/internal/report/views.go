package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// runView is what the page shows of a run as text and tables, so that nothing of
// it needs a script.
type runView struct {
	Summaries []summary // of the plots
	CDFs      []cdfRow
	Slowdowns []slowdownRow
	Bins      []SlowdownBin // columns of Slowdowns
	Networks  []networkView
	Longest   float64 // queue that the colours of the networks are relative to
	Timelines []timelineView
	Texts     []textView
}

// summary is one line of the table that says in words what the plots show.
type summary struct {
	System, Quantity, Label string
	Least, Greatest, Last   string
}

// cdfRow is a distribution at tablePercents.
type cdfRow struct {
	System, Quantity, Label, Unit string
	Line                          CDFLine
}

// tablePercents are the percentiles of a distribution's table.
var tablePercents = []float64{1, 10, 25, 50, 75, 90, 95, 99, 99.9, 100}

// slowdownRow has a bin a column, nil where the system has none.
type slowdownRow struct {
	System, Label string
	Bins          []*SlowdownBin
}

// textView is a scenario's text, and how it differs from the first.
type textView struct {
	Text
	First       string // whose text the differences are to; empty for the first itself
	Differences []difference
}

func viewsOf(r *Report) []runView {
	networks := networkViews(r)
	views := make([]runView, len(r.Runs))
	for i := range r.Runs {
		run := &r.Runs[i]
		v := runView{Summaries: run.summaries(), CDFs: run.cdfRows(), Networks: networks[i], Longest: longestQueue(run)}
		v.Bins = run.bins()
		v.Slowdowns = run.slowdownRows(v.Bins)
		for j := range run.Timelines {
			v.Timelines = append(v.Timelines, run.Timelines[j].view())
		}
		for j, text := range run.Texts {
			one := textView{Text: text}
			if j > 0 {
				if d, ok := differences(run.Texts[0].YAML, text.YAML); ok {
					one.First, one.Differences = run.Texts[0].Name, d
				}
			}
			v.Texts = append(v.Texts, one)
		}
		views[i] = v
	}
	return views
}

// plots are the quantities that the systems of a run have, in the order in which
// they first do; folded ones come last. Series are those
// of the first system.
func (run *Run) plots() []Plot {
	var all []Plot
	for _, s := range run.Systems {
		for _, p := range s.Plots {
			if len(p.Series) > 0 && !slices.ContainsFunc(all, func(q Plot) bool { return q.Key == p.Key }) {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Plot) int {
		switch {
		case a.More == b.More:
			return 0
		case a.More:
			return 1
		}
		return -1
	})
	return all
}

// cdfs are the distributions that the systems of a run have.
func (run *Run) cdfs() []CDF {
	var all []CDF
	for _, s := range run.Systems {
		for _, c := range s.CDFs {
			if len(c.Lines) > 0 && !slices.ContainsFunc(all, func(q CDF) bool { return q.Key == c.Key }) {
				all = append(all, c)
			}
		}
	}
	return all
}

// summaries are the summary series of each plot, or up to maxLines where none is
// marked.
func (run *Run) summaries() []summary {
	var all []summary
	for _, q := range run.plots() {
		for _, s := range run.Systems {
			for _, p := range s.Plots {
				if p.Key != q.Key {
					continue
				}
				for _, one := range shown(p.Series) {
					least, greatest, last := extremes(one.V)
					if one.Max != nil {
						_, greatest, _ = extremes(one.Max)
					}
					all = append(all, summary{s.Name, p.Name, one.Label, si(least, p.Unit), si(greatest, p.Unit), si(last, p.Unit)})
				}
			}
		}
	}
	return all
}

func (run *Run) cdfRows() []cdfRow {
	var all []cdfRow
	for _, q := range run.cdfs() {
		for _, s := range run.Systems {
			for _, c := range s.CDFs {
				if c.Key != q.Key {
					continue
				}
				for _, l := range c.Lines[:min(maxLines, len(c.Lines))] {
					all = append(all, cdfRow{s.Name, c.Name, l.Label, c.Unit, l})
				}
			}
		}
	}
	return all
}

// valueAt is the least value of a distribution that p percent of the samples are
// at or below; NaN if it has none.
func valueAt(l CDFLine, p float64) float64 {
	for i, share := range l.Share {
		// A hundredth as written by one program and read by another.
		if share >= p/100-1e-9 {
			return l.V[i]
		}
	}
	return math.NaN()
}

// bins returns the bins of any system of a run, by size.
func (run *Run) bins() []SlowdownBin {
	var all []SlowdownBin
	for _, s := range run.Systems {
		for _, sl := range s.Slowdowns {
			for _, b := range sl.Bins {
				if !slices.ContainsFunc(all, b.same) {
					all = append(all, b)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b SlowdownBin) int {
		switch {
		case a.From != b.From:
			return sign(a.From < b.From)
		case a.To != b.To:
			return sign(a.To < b.To)
		}
		return 0
	})
	return all
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// same reports whether two bins are of the same sizes.
func (b SlowdownBin) same(o SlowdownBin) bool { return b.From == o.From && b.To == o.To }

func (run *Run) slowdownRows(bins []SlowdownBin) []slowdownRow {
	var all []slowdownRow
	for _, s := range run.Systems {
		for _, sl := range s.Slowdowns {
			row := slowdownRow{System: s.Name, Label: sl.Label, Bins: make([]*SlowdownBin, len(bins))}
			for i := range sl.Bins {
				row.Bins[slices.IndexFunc(bins, sl.Bins[i].same)] = &sl.Bins[i]
			}
			all = append(all, row)
		}
	}
	return all
}

// size names the sizes of a bin, in decimal units as flow sizes are given.
func size(b SlowdownBin) string {
	text := func(n int64) string {
		x, unit := float64(n), "B"
		for _, u := range []string{"KB", "MB", "GB", "TB"} {
			if x < 1000 {
				break
			}
			x, unit = x/1000, u
		}
		return strconv.FormatFloat(x, 'g', 4, 64) + " " + unit
	}
	switch {
	case b.To == math.MaxInt64 && b.From <= 0:
		return "all sizes"
	case b.To == math.MaxInt64:
		return "above " + text(b.From)
	}
	return "up to " + text(b.To)
}

// figure writes a pure number with three significant digits.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case !finite(x):
		return "–"
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// overview is a table over all runs of a page of several: the columns that they
// have in common.
type overview struct {
	Columns []Column
	Rows    []overviewRow
}

type overviewRow struct {
	Run      int // whose first row has a name
	Scenario string
	System   string
	Values   []float64
}

func overviewOf(r *Report) *overview {
	if len(r.Runs) < 2 {
		return nil
	}
	o := &overview{}
	for _, c := range r.Runs[0].Columns {
		everywhere := !slices.ContainsFunc(r.Runs, func(run Run) bool { return !slices.Contains(run.Columns, c) })
		if everywhere {
			o.Columns = append(o.Columns, c)
		}
	}
	if len(o.Columns) == 0 {
		return nil
	}
	for i, run := range r.Runs {
		for _, s := range run.Systems {
			row := overviewRow{Run: i, Scenario: run.Scenario, System: s.Name}
			for _, c := range o.Columns {
				row.Values = append(row.Values, s.Values[slices.Index(run.Columns, c)])
			}
			o.Rows = append(o.Rows, row)
		}
	}
	return o
}

func shown(series []Series) []Series {
	var marked []Series
	for _, s := range series {
		if s.Summary {
			marked = append(marked, s)
		}
	}
	if marked == nil {
		return series[:min(maxLines, len(series))]
	}
	return marked
}

// extremes are NaN where v holds nothing finite.
func extremes(v []float64) (least, greatest, last float64) {
	least, greatest, last = math.NaN(), math.NaN(), math.NaN()
	for _, x := range v {
		switch {
		case !finite(x):
			continue
		case math.IsNaN(last):
			least, greatest = x, x
		default:
			least, greatest = min(least, x), max(greatest, x)
		}
		last = x
	}
	return least, greatest, last
}

// cdfPoints is how many points of a distribution a page holds at most.
const cdfPoints = 400

// thinCDF leaves out points evenly, but not the ends.
func thinCDF(v, share []float64) (tv, tshare []float64) {
	if len(v) <= cdfPoints {
		return v, share
	}
	for i := range cdfPoints {
		j := i * (len(v) - 1) / (cdfPoints - 1)
		tv, tshare = append(tv, v[j]), append(tshare, share[j])
	}
	return tv, tshare
}

// Title is the heading of a text among several.
func (t textView) Title() string {
	if t.Name == "" {
		return "The scenario as it ran"
	}
	return fmt.Sprintf("The scenario as it ran in %s", t.Name)
}
