package sweep

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// Figures returns a summary's default figures: those of a system as a whole.
func Figures() []string {
	return []string{"throughput_gbps", "jain", "rtt_p50_us", "rtt_p99_us", "fct_p50_us", "fct_p99_us", "queue_max_bytes", "queue_avg_bytes", "drops", "pause_us"}
}

// Summary is a sweep's figures over its seeds.
type Summary struct {
	Name       string   `json:"name"`
	Program    string   `json:"program"`
	Cells      int      `json:"cells"` // with a result
	Of         int      `json:"of_cells"`
	Parameters []string `json:"parameters"`
	Tables     []*Grid  `json:"tables"`
}

// Grid is a figure of a scenario: a row a combination of parameters, a column a system.
type Grid struct {
	Scenario string      `json:"scenario"`
	Figure   string      `json:"figure"`
	Unit     string      `json:"unit,omitempty"`
	Systems  []string    `json:"systems"`
	Rows     []*Averages `json:"rows"`
}

// Averages are of one combination of parameters.
type Averages struct {
	Values  []string   `json:"parameters"` // in the order of Summary.Parameters
	Systems []*Average `json:"systems"`    // nil where a system has no result
	text    string     // of the scenario
}

// Average is a figure of a system over the seeds. What is not there is NaN, and null in
// JSON.
type Average struct {
	Seeds int         `json:"seeds"` // that have the figure
	Mean  stats.Float `json:"mean"`
	// Half is half of the mean's 95 percent interval, of Student's t.
	Half stats.Float `json:"half"`
	// Difference is the mean of the differences to the first system with the same seed,
	// and DifferenceHalf half of its interval. The difference holds where the interval
	// has no 0.
	Difference     stats.Float `json:"difference"`
	DifferenceHalf stats.Float `json:"difference_half"`

	values map[uint64]float64
	seed   uint64 // the first
}

// Holds reports whether the difference to the first system is one: its interval has no 0.
func (a *Average) Holds() bool { return math.Abs(float64(a.Difference)) > float64(a.DifferenceHalf) }

// Summarize averages figures over seeds. Cells without a result are left out, and tables
// that nothing was measured for.
func Summarize(f Folder, figures []string) (*Summary, error) {
	p, err := f.Plan()
	if err != nil {
		return nil, err
	}
	s := &Summary{Name: p.Name, Program: p.Program, Of: p.Cells, Parameters: p.Parameters}
	grids := map[[2]string]*Grid{}
	at := map[string]*Averages{}
	s.Cells, err = Merge(f, true, func(r *Row) error {
		if r.scope != "system" || !slices.Contains(figures, r.figure) {
			return nil
		}
		g := grids[[2]string{r.cell.Scenario, r.figure}]
		if g == nil {
			g = &Grid{Scenario: r.cell.Scenario, Figure: r.figure, Unit: r.unit}
			grids[[2]string{r.cell.Scenario, r.figure}] = g
			s.Tables = append(s.Tables, g)
		}
		key := r.cell.Scenario + "\n" + r.figure
		var values []string
		for _, name := range p.Parameters {
			values = append(values, r.cell.Parameters[name])
			key += "\n" + r.cell.Parameters[name]
		}
		row := at[key]
		if row == nil {
			row = &Averages{Values: values, text: r.cell.Text}
			at[key] = row
			g.Rows = append(g.Rows, row)
		}
		column := slices.Index(g.Systems, r.cell.System)
		if column < 0 {
			column = len(g.Systems)
			g.Systems = append(g.Systems, r.cell.System)
		}
		for len(row.Systems) <= column {
			row.Systems = append(row.Systems, nil)
		}
		if row.Systems[column] == nil {
			row.Systems[column] = &Average{values: map[uint64]float64{}, seed: r.cell.Seed}
		}
		row.Systems[column].values[r.cell.Seed] = r.value
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	var scenarios []string // as they come
	for _, g := range s.Tables {
		if !slices.Contains(scenarios, g.Scenario) {
			scenarios = append(scenarios, g.Scenario)
		}
	}
	slices.SortStableFunc(s.Tables, func(a, b *Grid) int {
		return cmp.Or(cmp.Compare(slices.Index(scenarios, a.Scenario), slices.Index(scenarios, b.Scenario)),
			cmp.Compare(slices.Index(figures, a.Figure), slices.Index(figures, b.Figure)))
	})
	for _, g := range s.Tables {
		for _, row := range g.Rows {
			for len(row.Systems) < len(g.Systems) {
				row.Systems = append(row.Systems, nil)
			}
			for _, a := range row.Systems {
				if a != nil {
					a.average(row.Systems[0])
				}
			}
		}
	}
	return s, nil
}

// average sets what is shown; first is of the system that differences are to, and may be
// nil.
func (a *Average) average(first *Average) {
	var seeds []uint64
	for seed := range a.values {
		seeds = append(seeds, seed)
	}
	slices.Sort(seeds) // so that the same values give the same sums
	var values, differences []float64
	for _, seed := range seeds {
		values = append(values, a.values[seed])
		if first != nil && first != a {
			if v, ok := first.values[seed]; ok {
				differences = append(differences, a.values[seed]-v)
			}
		}
	}
	m, d := stats.MeanOf(values), stats.MeanOf(differences)
	a.Seeds, a.Mean, a.Half = len(values), stats.Float(m.Mean), stats.Float(m.Half())
	a.Difference, a.DifferenceHalf = stats.Float(d.Mean), stats.Float(d.Half())
}

// short writes a number up to the second digit of half its interval, or with four digits.
func short(v, half float64) string {
	digits := 4
	if half > 0 && v != 0 {
		digits = int(math.Floor(math.Log10(math.Abs(v)))-math.Floor(math.Log10(half))) + 2
	}
	x, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', min(max(digits, 2), 6), 64), 64)
	if err != nil {
		x = v
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// String is the mean, with half of its interval where there is one.
func (a *Average) String() string {
	if a == nil {
		return "-"
	}
	text := short(float64(a.Mean), float64(a.Half))
	if !math.IsNaN(float64(a.Half)) {
		text += " ± " + short(float64(a.Half), float64(a.Half))
	}
	return text
}

// Print writes the tables as text. A * is behind a mean that differs from the first
// system's.
func (s *Summary) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s: %d of %d cells; means over seeds with 95 percent intervals; * differs from the first system, pair by pair\n", s.Name, s.Cells, s.Of)
	for _, g := range s.Tables {
		fmt.Fprintf(t, "\n%s\t%s\t\n", name(g), strings.Join(append(slices.Clone(s.Parameters), g.Systems...), "\t"))
		for _, row := range g.Rows {
			cells := append([]string{""}, row.Values...)
			for i, a := range row.Systems {
				text := a.String()
				if i > 0 && a != nil && a.Holds() {
					text += "*"
				}
				cells = append(cells, text)
			}
			fmt.Fprintf(t, "%s\t\n", strings.Join(cells, "\t"))
		}
	}
	return t.Flush()
}

// name returns a table's title: the scenario's figure in its unit.
func name(g *Grid) string {
	text := g.Scenario + " " + g.Figure
	if g.Unit != "" {
		text += " [" + g.Unit + "]"
	}
	return text
}
