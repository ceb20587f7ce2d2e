package reproduce

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
)

// evaluate reads the results of all rows and says what they show.
func evaluate(p *plan, f sweep.Folder) (*Report, error) {
	r := &Report{Version: reportVersion, Listed: listed(), Defined: papersRows(Rows()), Fingerprints: map[string]string{}}
	for _, row := range p.rows {
		seeds, err := p.load(row, f, r.Fingerprints)
		if err != nil {
			return nil, err
		}
		one, err := row.evaluate(seeds)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
		r.Rows = append(r.Rows, one)
	}
	return r, nil
}

// listed counts the rows of the papers' list, without rows that stand beside another.
func listed() int {
	n := 0
	for _, p := range allPapers() {
		for _, r := range p.Rows {
			if r.Beside == "" {
				n++
			}
		}
	}
	return n
}

// papersRows counts rows as listed does.
func papersRows(rows []*Row) int {
	n := 0
	for _, r := range rows {
		if r.paper.Beside == "" {
			n++
		}
	}
	return n
}

// load reads the results that a row wants, seed by seed, and adds their fingerprints.
func (p *plan) load(row *Row, f sweep.Folder, fingerprints map[string]string) ([]*seed, error) {
	seeds := make([]*seed, row.seeds(p.quick))
	for i := range seeds {
		seeds[i] = &seed{Number: uint64(i + 1), systems: map[string]*results.System{}}
	}
	for _, w := range p.of[row] {
		result, err := f.Result(w.job.cell)
		if err != nil {
			return nil, err
		}
		if result == nil {
			return nil, fmt.Errorf("%v is gone from %v: run it again", w.job, f)
		}
		seeds[w.seed-1].systems[w.run+"/"+w.job.system] = result
		fingerprints[w.job.key] = fingerprint(result)
	}
	return seeds, nil
}

// evaluate is a row's result.
func (r *Row) evaluate(seeds []*seed) (*rowResult, error) {
	out := &rowResult{
		ID: r.ID, Beside: r.paper.Beside, Paper: r.from.Name, Source: r.paper.Source, Kind: r.paper.Kind, What: r.paper.What,
		Scaling: r.scaling, Note: joinNotes(r.paper.Note, r.note), Seeds: len(seeds),
	}
	figures := make([]*figureSet, len(seeds))
	for i, s := range seeds {
		figures[i] = &figureSet{}
		r.read(s, figures[i])
		if err := s.err(); err != nil {
			return nil, fmt.Errorf("seed %d: %w", s.Number, err)
		}
	}
	mean := &figureSet{}
	for _, name := range figures[0].names {
		m := stats.MeanOf(across(figures, name))
		mean.add(name, m.Mean)
		out.Figures = append(out.Figures, figure{name, rounded(r.paper.value(name)), rounded(m.Mean), rounded(m.Low), rounded(m.High)})
	}
	for i := range r.checks {
		out.Checks = append(out.Checks, r.checks[i].result(figures))
	}
	out.Status = out.status()
	if r.charts != nil {
		out.charts = r.charts(seeds[0], mean)
		if err := seeds[0].err(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ". " + b
}

// across returns a figure of every seed.
func across(figures []*figureSet, name string) []float64 {
	var out []float64
	for _, f := range figures {
		out = append(out, f.get(name))
	}
	return out
}

// result says whether a check holds, and why.
func (c *check) result(figures []*figureSet) checkResult {
	out := checkResult{Text: c.Text, Paper: rounded(c.Paper), Ours: none, Low: none, High: none, Counts: !c.Reported}
	switch {
	case c.Figure != "":
		m := stats.MeanOf(across(figures, c.Figure))
		out.set(m)
		off := (m.Mean - c.Paper) / c.Paper
		out.Met = math.Abs(off) <= c.Within
		out.Why = fmt.Sprintf("%+.1f percent, where %.0f are allowed", off*100, c.Within*100)
		if math.IsNaN(m.Mean) {
			out.Why = "not measured"
		}
	case c.Of != "":
		of, to := across(figures, c.Of), across(figures, c.To)
		m := ratioOf(of, to)
		out.set(m)
		side := "below"
		if c.Above {
			side = "above"
		}
		switch {
		case math.IsNaN(m.Mean):
			out.Why = "not measured"
		case len(figures) < 5:
			out.Met = c.Above == (m.Mean > 1) && m.Mean != 1
			out.Why = fmt.Sprintf("%d seeds are too few for an interval: only that it lies %s 1 was looked at", len(figures), side)
		default:
			out.Met = c.Above && m.Low > 1 || !c.Above && m.High < 1
			out.Why = fmt.Sprintf("95 percent interval %s to %s of %d seeds, to lie %s 1", short(m.Low), short(m.High), len(figures), side)
		}
	default:
		n := 0
		for _, f := range figures {
			if c.Holds(f) {
				n++
			}
		}
		out.Met = n == len(figures)
		switch {
		case len(figures) == 1 && out.Met:
			out.Why = "holds"
		case len(figures) == 1:
			out.Why = "does not hold"
		default:
			out.Why = fmt.Sprintf("holds with %d of %d seeds", n, len(figures))
		}
	}
	return out
}

func (c *checkResult) set(m stats.Interval) {
	c.Ours, c.Low, c.High = rounded(m.Mean), rounded(m.Low), rounded(m.High)
}

// status is what the checks come to.
func (r *rowResult) status() status {
	if r.Kind == kindReport {
		return uncounted
	}
	for _, c := range r.Checks {
		if c.Counts && !c.Met {
			return missed
		}
	}
	return met
}

// short writes a number with three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1 || v == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
