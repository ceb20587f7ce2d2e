package reproduce

import (
	"fmt"
	"math"
	"slices"
)

// Row is how a row of a paper is reproduced.
type Row struct {
	ID   string // in papers.yaml
	runs []rowRun
	// Seeds is how many seeds a whole run has; 0 is 1. Ratios need 5.
	Seeds int
	// seconds is about how long a whole run takes, all seeds, on one core.
	seconds float64
	// quick is the row in small; nil where it can't be had in small.
	quick *quick
	// read adds what the row shows to f, from the results of one seed.
	read func(s *seed, f *figureSet)
	// checks is what must hold. Of a report they are shown and not counted.
	checks []check
	// charts draws what was measured with one seed; f is the mean of all seeds.
	charts func(s *seed, f *figureSet) []chart
	// scaling says what is smaller than in the paper, and why.
	scaling string
	// note says what the figures hang on that the paper does not state.
	note string
	// varies lists the engine parameters that the experiment itself varies.
	varies []string

	// paper is what papers.yaml says about the row, and From whose it is.
	paper *paperRow
	from  *paper
}

// rowRun is a scenario that a row runs, in one variant.
type rowRun struct {
	name     string   // how Read refers to it; may be empty if it is the only one
	scenario string   // a built-in one; empty is that of the row's id
	sets     []string // overrides, such as "params.t_low=20us"
	only     []string // systems to run; empty for all
}

// quick is a row in small.
type quick struct {
	Sets    []string // overrides of every run
	Seeds   int      // 0 is 1
	Seconds float64  // about how long it takes on one core
	// Unlike says what does not come out in small though it does at full length;
	// empty if all does.
	Unlike string
}

// check is one thing that must hold. Make one with value, below, above or holds.
type check struct {
	Text string
	// Of a value: the figure's name, and what it should be.
	Figure string
	Paper  float64 // NaN if the paper gives none
	Within float64
	// Of a ratio: Of over To, which lies below 1 or above it.
	Of, To string
	Above  bool
	// Of an order.
	Holds func(f *figureSet) bool
	// Reported is shown and not counted.
	Reported bool
}

// value is a check that a figure is as the paper has it under the same name, within
// the row's fraction.
func value(figure string) check { return check{Figure: figure, Paper: math.NaN()} }

// none64 stands for a number that a paper does not give.
var none64 = math.NaN()

// below is a check that one figure is below another: of/to lies below 1. paper is the
// paper's quotient, NaN if it gives none.
func below(text, of, to string, paper float64) check {
	return check{Text: text, Of: of, To: to, Paper: paper}
}

// above is the same with of/to above 1.
func above(text, of, to string, paper float64) check {
	return check{Text: text, Of: of, To: to, Paper: paper, Above: true}
}

// holds is a check that a statement is true of every seed.
func holds(text string, is func(f *figureSet) bool) check {
	return check{Text: text, Holds: is, Paper: math.NaN()}
}

// figureSet are named numbers in the order in which they were added. The name ends in
// the unit: rtt_p99_us.
type figureSet struct {
	names  []string
	values map[string]float64
}

// add adds a figure. NaN is one that was not measured.
func (f *figureSet) add(name string, v float64) {
	if f.values == nil {
		f.values = map[string]float64{}
	}
	if _, ok := f.values[name]; !ok {
		f.names = append(f.names, name)
	}
	f.values[name] = v
}

// get returns a figure, NaN if there is none of that name.
func (f *figureSet) get(name string) float64 {
	if v, ok := f.values[name]; ok {
		return v
	}
	return math.NaN()
}

// Names are the figures' names.
func (f *figureSet) Names() []string { return f.names }

// Rows returns every row that can be run, in the order of papers.yaml.
func Rows() []*Row {
	defined := map[string]*Row{}
	for _, row := range slices.Concat(timely(), powertcp(), poseidon(), pulser()) {
		if defined[row.ID] != nil {
			panic(fmt.Sprintf("reproduce: two rows are called %s", row.ID))
		}
		defined[row.ID] = row
	}
	var rows []*Row
	for _, p := range allPapers() {
		for _, about := range p.Rows {
			if row := defined[about.ID]; row != nil {
				row.complete(p, about)
				rows = append(rows, row)
				delete(defined, about.ID)
			}
		}
	}
	for id := range defined {
		panic(fmt.Sprintf("reproduce: papers.yaml has no row %s", id))
	}
	return rows
}

// complete fills in what papers.yaml says.
func (r *Row) complete(p *paper, about *paperRow) {
	r.from, r.paper = p, about
	r.Seeds = max(r.Seeds, 1)
	if r.quick != nil {
		r.quick.Seeds = max(r.quick.Seeds, 1)
	}
	for i := range r.runs {
		if r.runs[i].scenario == "" {
			r.runs[i].scenario = r.ID
		}
	}
	for i := range r.checks {
		c := &r.checks[i]
		if c.Figure != "" {
			c.Within = about.Within
			c.Paper = about.value(c.Figure)
			if c.Text == "" {
				c.Text = c.Figure
			}
		}
		c.Reported = c.Reported || about.Kind == kindReport
	}
}

// seeds returns how many seeds the row has.
func (r *Row) seeds(quick bool) int {
	if quick {
		return r.quick.Seeds
	}
	return r.Seeds
}

// sets returns the overrides of a run.
func (r *Row) sets(run *rowRun, quick bool) []string {
	if quick {
		return slices.Concat(run.sets, r.quick.Sets)
	}
	return run.sets
}

// Select returns the rows that patterns choose: an id, a paper's name, or a pattern
// with * and ?, such as poseidon-multihop*. None chooses all.
func Select(rows []*Row, patterns []string) ([]*Row, error) {
	if len(patterns) == 0 {
		return rows, nil
	}
	chosen := map[string]bool{}
	for _, p := range patterns {
		some, err := match(rows, p)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			chosen[id] = true
		}
	}
	var out []*Row
	for _, r := range rows {
		if chosen[r.ID] {
			out = append(out, r)
		}
	}
	return out, nil
}
