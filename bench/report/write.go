package report

import (
	_ "embed" // the assets of the page
	"encoding/json"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

var (
	//go:embed assets/page.html.tmpl
	pageTemplate string
	//go:embed assets/report.css
	pageCSS string
	//go:embed assets/report.js
	pageJS string

	// uPlot 1.6.32, as its package on npm has it.
	//
	//go:embed assets/uPlot.iife.min.js
	uplotJS string
	//go:embed assets/uPlot.min.css
	uplotCSS string
	//go:embed assets/uPlot.LICENSE
	uplotLicense string
)

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"value": func(c Column, v float64) string {
		if !finite(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'f', c.Digits, 64)
	},
}).Parse(pageTemplate))

// Write writes r as one HTML page. It fails if r is not well formed (the error
// names the run, the system and the series) or if w does.
func Write(w io.Writer, r *Report) error {
	if err := r.check(); err != nil {
		return err
	}
	// json.Marshal writes <, > and & as escapes, so that no text of the report
	// can end the script element that holds it.
	data, err := json.Marshal(dataOf(r))
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{
		"Report":  r,
		"Data":    template.JS(data),
		"CSS":     template.CSS(uplotCSS + "\n" + pageCSS),
		"Uplot":   template.JS("/*!\n" + uplotLicense + "*/\n" + uplotJS),
		"JS":      template.JS(pageJS),
		"Summary": summaries(r),
	})
}

// What the page's JSON holds. Its names are those that docs/report.md gives.
type (
	pageData struct {
		Title   string    `json:"title"`
		Command string    `json:"command"`
		Version string    `json:"version"`
		Runs    []runData `json:"runs"`
	}
	runData struct {
		Scenario    string       `json:"scenario"`
		Description string       `json:"description"`
		YAML        string       `json:"yaml"`
		Facts       []factData   `json:"facts"`
		Columns     []columnData `json:"columns"`
		Systems     []systemData `json:"systems"`
	}
	factData struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	columnData struct {
		Key   string `json:"key"`
		Label string `json:"label"`
		Unit  string `json:"unit"`
	}
	systemData struct {
		Name   string              `json:"name"`
		Values json.RawMessage     `json:"values"`
		Plots  map[string]plotData `json:"plots"`
	}
	plotData struct {
		Unit   string          `json:"unit"`
		T      json.RawMessage `json:"t"`
		Series []seriesData    `json:"series"`
	}
	seriesData struct {
		Label   string          `json:"label"`
		Summary bool            `json:"summary"`
		V       json.RawMessage `json:"v"`
	}
)

// numbers is v as a JSON array with so many significant digits, and null for what
// is not finite.
func numbers(v []float64, digits int) json.RawMessage {
	out := make([]byte, 0, 2+8*len(v))
	out = append(out, '[')
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if finite(x) {
			out = strconv.AppendFloat(out, x, 'g', digits, 64)
		} else {
			out = append(out, "null"...)
		}
	}
	return append(out, ']')
}

const (
	exact  = -1 // as many digits as it takes to read the same number back
	timing = 9  // a microsecond in a quarter of an hour
	sample = 6  // more than a plot can show
)

func dataOf(r *Report) pageData {
	d := pageData{Title: r.Title, Command: r.Command, Version: r.Version, Runs: []runData{}}
	for _, run := range r.Runs {
		rd := runData{Scenario: run.Scenario, Description: run.Description, YAML: run.YAML,
			Facts: []factData{}, Columns: []columnData{}, Systems: []systemData{}}
		for _, f := range run.Facts {
			rd.Facts = append(rd.Facts, factData(f))
		}
		for _, c := range run.Columns {
			rd.Columns = append(rd.Columns, columnData{c.Key, c.Label, c.Unit})
		}
		for _, s := range run.Systems {
			rd.Systems = append(rd.Systems, systemOf(&s))
		}
		d.Runs = append(d.Runs, rd)
	}
	return d
}

func systemOf(s *System) systemData {
	d := systemData{Name: s.Name, Values: numbers(s.Values, exact), Plots: map[string]plotData{}}
	for _, q := range quantities {
		series := q.of(s)
		if len(series) == 0 {
			continue
		}
		a := thin(series, points(len(series)))
		p := plotData{Unit: q.unit, T: numbers(a.t, timing)}
		for i, one := range series {
			p.Series = append(p.Series, seriesData{one.Label, one.Summary, numbers(a.v[i], sample)})
		}
		d.Plots[q.key] = p
	}
	return d
}

// summary is one line of the table that says in words what the plots show.
type summary struct {
	System, Quantity, Label string
	Least, Greatest, Last   string
}

// summaries are the lines of each run: the summary series of each plot, or all
// where none is marked.
func summaries(r *Report) [][]summary {
	all := make([][]summary, len(r.Runs))
	for i, run := range r.Runs {
		for _, s := range run.Systems {
			for _, q := range quantities {
				for _, one := range shown(q.of(&s)) {
					least, greatest, last := extremes(one.V)
					all[i] = append(all[i], summary{s.Name, q.name, one.Label,
						si(least, q.unit), si(greatest, q.unit), si(last, q.unit)})
				}
			}
		}
	}
	return all
}

func shown(series []Series) []Series {
	var marked []Series
	for _, s := range series {
		if s.Summary {
			marked = append(marked, s)
		}
	}
	if marked == nil {
		return series
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

// si writes x with three significant digits and a decimal prefix, or, for bytes, a
// binary one.
func si(x float64, unit string) string {
	if !finite(x) {
		return "none"
	}
	step, small, large := 1000.0, []string{"m", "µ", "n", "p"}, []string{"k", "M", "G", "T"}
	if unit == "B" {
		step, small, large = 1024, nil, []string{"Ki", "Mi", "Gi", "Ti"}
	}
	prefix := ""
	for ; len(large) > 0 && math.Abs(x) >= step; large = large[1:] {
		x, prefix, small = x/step, large[0], nil
	}
	for ; len(small) > 0 && x != 0 && math.Abs(x) < 1; small = small[1:] {
		x, prefix = x*step, small[0]
	}
	digits := 2
	switch a := math.Abs(x); {
	case a >= 100:
		digits = 0
	case a >= 10:
		digits = 1
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " " + prefix + unit
}
