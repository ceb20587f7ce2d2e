package report

import "fmt"

// Report is what one page shows.
type Report struct {
	Title   string  // heading of the page
	Command string  // command line that made it; may be empty
	Version string  // version of the program that made it; may be empty
	Missing string  // what was to be run and has no result; may be empty
	Inputs  []Input // the earlier runs that a comparison is of; else empty
	Runs    []Run   // in the order shown
}

// Input is an earlier call of the program, whose results a page compares.
type Input struct {
	Name    string // what the page calls it
	Command string // command line; may be empty
	Version string // of the program; may be empty
	Made    string // when, and on what; may be empty
}

// Run is one scenario and the systems that ran it.
type Run struct {
	Scenario    string // name of the scenario
	Description string // a sentence or two; may be empty
	Outputs     []Output
	Texts       []Text // the scenario as it ran; several if it ran in several forms
	Facts       []Fact // what holds for the run as a whole: seed, simulated time, events
	Columns     []Column
	Systems     []System // in the order shown
	Timelines   []Timeline
	Tables      []Table // behind all else that was measured
}

// Table is a table of text, formatted by the caller.
type Table struct {
	Title   string
	Notes   []string // paragraphs ahead of it
	Columns []string // the first is of the rows' names
	Rows    [][]string
}

// Text is the text of a scenario.
type Text struct {
	Name string // whose it is, where there are several
	YAML string
}

// Output is what a program printed.
type Output struct {
	Name string // the program, and how it ended
	Text string
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

// System is one row of a run's table, and its plots. What it lacks is not shown.
type System struct {
	Name string
	// Of and Input are what a comparison pairs by: the system's name in its own
	// input, and that input's. They may be empty.
	Of, Input string
	Values    []float64 // one a column, in the column's unit; NaN where not measured
	Parts     []Part    // rows below the system's own: of its labels or classes
	Plots     []Plot
	CDFs      []CDF
	Slowdowns []Slowdown // the first is of all flows
	Network   *Network
}

// Part is a row of the table for a part of a system's flows.
type Part struct {
	Name   string
	Values []float64 // as System.Values
}

// Plot is a quantity over time.
type Plot struct {
	Key    string // rate; one name, unit and rank for all systems of a run
	Name   string // Rate
	Unit   string // of the values: bps, s and B get decimal or binary prefixes; share is shown in percent
	More   bool   // shown folded, behind the others
	Series []Series
}

// Series is one quantity over time: of a flow, of a port, or of the whole
// system. It may have any number of points; Write thins it to what a screen can
// show (see maxPoints), and shows many series by their spread (see maxLines).
type Series struct {
	Label string // flow 3; total; leaf0 port 2. One label has one colour within a run.
	// Summary marks a series of the whole system: the total rate, a percentile of all
	// RTTs, the deepest queue. It is drawn over the others. Where a plot overlays
	// systems, only summaries are drawn.
	Summary bool
	T       []float64 // seconds of simulated time from 0 on, never decreasing
	V       []float64 // one a time; what is not finite is left out, and the line spans it
	// Max, if it is not nil, has one a time too: V is then the mean of a step and Max its
	// most, which is drawn as a band from V up to it.
	Max []float64
}

// CDF is the cumulative distribution of a measured quantity.
type CDF struct {
	Key   string // rtt; one name and unit for all systems of a run
	Name  string // RTT
	Unit  string // as Plot.Unit; empty for a pure number
	Lines []CDFLine
}

// CDFLine is a distribution: the share Share[i] of the samples is at or below
// V[i]. Neither decreases.
type CDFLine struct {
	Label   string
	Summary bool // of all flows
	V       []float64
	Share   []float64 // 0 to 1
}

// Slowdown is the slowdown of flows by their size.
type Slowdown struct {
	Label string
	Bins  []SlowdownBin // in the order of sizes
}

// SlowdownBin is the slowdown of flows above From and up to and including To
// bytes; To may be math.MaxInt64. Percentiles are NaN where not measured.
type SlowdownBin struct {
	From, To      int64
	Flows         uint64
	P50, P95, P99 float64
}

// check says what is wrong with a report's shape.
func (r *Report) check() error {
	for _, run := range r.Runs {
		if err := run.check(); err != nil {
			return fmt.Errorf("report: run %q, %w", run.Scenario, err)
		}
	}
	return nil
}

func (run *Run) check() error {
	for _, c := range run.Columns {
		if c.Digits < 0 {
			return fmt.Errorf("column %q: %d digits", c.Key, c.Digits)
		}
	}
	for i := range run.Timelines {
		if err := run.Timelines[i].check(); err != nil {
			return fmt.Errorf("timeline %q, %w", run.Timelines[i].Title, err)
		}
	}
	for _, t := range run.Tables {
		for i, row := range t.Rows {
			if len(row) != len(t.Columns) {
				return fmt.Errorf("table %q, row %d: %d cells for %d columns", t.Title, i, len(row), len(t.Columns))
			}
		}
	}
	plots, cdfs := map[string]Plot{}, map[string]CDF{}
	for i := range run.Systems {
		s := &run.Systems[i]
		if err := s.check(len(run.Columns)); err != nil {
			return fmt.Errorf("system %q%w", s.Name, err)
		}
		for _, p := range s.Plots {
			if first, ok := plots[p.Key]; ok && (first.Name != p.Name || first.Unit != p.Unit || first.More != p.More) {
				return fmt.Errorf("system %q: plot %q is %q in %q, and elsewhere %q in %q", s.Name, p.Key, p.Name, p.Unit, first.Name, first.Unit)
			}
			plots[p.Key] = p
		}
		for _, c := range s.CDFs {
			if first, ok := cdfs[c.Key]; ok && (first.Name != c.Name || first.Unit != c.Unit) {
				return fmt.Errorf("system %q: distribution %q is %q in %q, and elsewhere %q in %q", s.Name, c.Key, c.Name, c.Unit, first.Name, first.Unit)
			}
			cdfs[c.Key] = c
		}
	}
	return nil
}

// check checks a system for a table with a number of columns.
func (s *System) check(columns int) error {
	if len(s.Values) != columns {
		return fmt.Errorf(": %d values for %d columns", len(s.Values), columns)
	}
	for _, p := range s.Parts {
		if len(p.Values) != columns {
			return fmt.Errorf(", part %q: %d values for %d columns", p.Name, len(p.Values), columns)
		}
	}
	seen := map[string]bool{}
	for _, p := range s.Plots {
		if seen[p.Key] {
			return fmt.Errorf(": two plots are named %q", p.Key)
		}
		seen[p.Key] = true
		for _, series := range p.Series {
			if err := series.check(); err != nil {
				return fmt.Errorf(", %s of %q: %w", p.Key, series.Label, err)
			}
		}
	}
	for _, c := range s.CDFs {
		for _, line := range c.Lines {
			if err := line.check(); err != nil {
				return fmt.Errorf(", distribution %s of %q: %w", c.Key, line.Label, err)
			}
		}
	}
	if s.Network != nil {
		if err := s.Network.check(); err != nil {
			return fmt.Errorf(", network: %w", err)
		}
	}
	return nil
}

func (s *Series) check() error {
	if len(s.T) != len(s.V) {
		return fmt.Errorf("%d times and %d values", len(s.T), len(s.V))
	}
	if s.Max != nil && len(s.Max) != len(s.T) {
		return fmt.Errorf("%d times and %d largest values", len(s.T), len(s.Max))
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

func (l *CDFLine) check() error {
	if len(l.V) != len(l.Share) {
		return fmt.Errorf("%d values and %d shares", len(l.V), len(l.Share))
	}
	for i, share := range l.Share {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("share %d is %v: it must be from 0 to 1", i, share)
		}
		if !finite(l.V[i]) {
			return fmt.Errorf("value %d is %v", i, l.V[i])
		}
		if i > 0 && (share < l.Share[i-1] || l.V[i] < l.V[i-1]) {
			return fmt.Errorf("point %d, %v at %v, is below the one ahead of it, %v at %v", i, share, l.V[i], l.Share[i-1], l.V[i-1])
		}
	}
	return nil
}
