package report

import "fmt"

// Report is what one page shows.
type Report struct {
	Title   string // heading of the page
	Command string // command line that made it; may be empty
	Version string // version of the program that made it; may be empty
	Runs    []Run  // in the order shown
}

// Run is one scenario and the systems that ran it.
type Run struct {
	Scenario    string // name of the scenario
	Description string // a sentence or two; may be empty
	YAML        string // text of the scenario as run; may be empty
	Facts       []Fact // what holds for the run as a whole: seed, simulated time, events
	Columns     []Column
	Systems     []System // in the order shown
}

// Fact is one line about a run, formatted by the caller.
type Fact struct{ Name, Value string }

// Column is one measured quantity of a run's table.
type Column struct {
	Key    string // its name in the JSON results, such as rtt_p99_us
	Label  string // what the table says: RTT p99
	Unit   string // unit of the values: us; empty for a pure number
	Digits int    // digits after the decimal point, 0 or more
}

// System is one row of a run's table, and its plots. Quantities without series
// have no plot.
type System struct {
	Name   string
	Values []float64 // one a column, in the column's unit; NaN where not measured
	Rate   []Series  // bits per second
	RTT    []Series  // seconds
	Queue  []Series  // bytes
}

// Series is one quantity over time: of a flow, of a port, or of the whole
// system. It may have any number of points; Write thins it to what a screen can
// show (see MaxPoints).
type Series struct {
	Label string // flow 3; total; leaf0 port 2. One label has one colour within a run.
	// Summary marks what stands for the whole system: the total rate, a
	// percentile of all RTTs, the deepest queue. It is drawn over the others,
	// and where systems are laid over one another it alone is drawn.
	Summary bool
	T       []float64 // seconds of simulated time from 0 on, never decreasing
	V       []float64 // one a time; what is not finite is left out, and the line spans it
}

// check says what is wrong with a report's shape.
func (r *Report) check() error {
	for _, run := range r.Runs {
		for _, c := range run.Columns {
			if c.Digits < 0 {
				return fmt.Errorf("report: run %q, column %q: %d digits", run.Scenario, c.Key, c.Digits)
			}
		}
		for _, s := range run.Systems {
			if len(s.Values) != len(run.Columns) {
				return fmt.Errorf("report: run %q, system %q: %d values for %d columns",
					run.Scenario, s.Name, len(s.Values), len(run.Columns))
			}
			for _, q := range quantities {
				for _, series := range q.of(&s) {
					if err := series.check(); err != nil {
						return fmt.Errorf("report: run %q, system %q, %s of %q: %w",
							run.Scenario, s.Name, q.name, series.Label, err)
					}
				}
			}
		}
	}
	return nil
}

func (s *Series) check() error {
	if len(s.T) != len(s.V) {
		return fmt.Errorf("%d times and %d values", len(s.T), len(s.V))
	}
	for i, t := range s.T {
		if !finite(t) || t < 0 {
			return fmt.Errorf("time %d is %v s", i, t)
		}
		if i > 0 && t < s.T[i-1] {
			return fmt.Errorf("time %d, %v s, is before the one ahead of it, %v s", i, t, s.T[i-1])
		}
	}
	return nil
}

// quantity is one of the kinds of series that a system has.
type quantity struct {
	key  string // in the JSON
	name string // in messages and headings
	unit string
	of   func(*System) []Series
}

var quantities = []quantity{
	{"rate", "rate", "bps", func(s *System) []Series { return s.Rate }},
	{"rtt", "RTT", "s", func(s *System) []Series { return s.RTT }},
	{"queue", "queue", "B", func(s *System) []Series { return s.Queue }},
}
