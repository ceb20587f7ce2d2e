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
	// The number itself, for whoever computes with it.
	"number":  func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) },
	"si":      si,
	"percent": percent,
	"size":    size,
	"figure":  figure,
	"at":      valueAt,
}).Parse(pageTemplate))

// Style is the page's own style sheet, for pages that are to look like it.
func Style() string { return pageCSS }

// Write writes r as one HTML page. It fails if r is not well formed (the error
// names the run, the system and the series) or if w does.
func Write(w io.Writer, r *Report) error {
	parts, err := partsOf(r)
	if err != nil {
		return err
	}
	parts["CSS"] = template.CSS(uplotCSS + "\n" + pageCSS)
	parts["Uplot"] = template.JS("/*!\n" + uplotLicense + "*/\n" + uplotJS)
	parts["JS"] = template.JS(pageJS)
	return page.Execute(w, parts)
}

// Check reports why Write would not take r, and makes all of the page that depends
// on r but its markup.
func Check(r *Report) error {
	_, err := partsOf(r)
	return err
}

// partsOf returns what the template takes, without what is the same in every page.
func partsOf(r *Report) (map[string]any, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	// json.Marshal writes <, > and & as escapes, and the line separators that
	// JavaScript once knew, so that no text of the report can end the script
	// element that holds it.
	data, err := json.Marshal(dataOf(r))
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"Report":   r,
		"Data":     template.JS(data),
		"Views":    viewsOf(r),
		"Overview": overviewOf(r),
		"Percents": tablePercents,
	}, nil
}

// What the page's JSON holds. docs/report.md gives its names.
type (
	pageData struct {
		Title   string      `json:"title"`
		Command string      `json:"command"`
		Version string      `json:"version"`
		Inputs  []inputData `json:"inputs"`
		Runs    []runData   `json:"runs"`
	}
	inputData struct {
		Name    string `json:"name"`
		Command string `json:"command"`
		Version string `json:"version"`
		Made    string `json:"made"`
	}
	runData struct {
		Scenario    string         `json:"scenario"`
		Description string         `json:"description"`
		Facts       []factData     `json:"facts"`
		Columns     []columnData   `json:"columns"`
		Quantities  []quantityData `json:"quantities"`
		CDFs        []quantityData `json:"cdfs"`
		Systems     []systemData   `json:"systems"`
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
	quantityData struct {
		Key  string `json:"key"`
		Name string `json:"name"`
		Unit string `json:"unit"`
		More bool   `json:"more,omitempty"`
	}
	systemData struct {
		Name     string               `json:"name"`
		Values   json.RawMessage      `json:"values"`
		Plots    map[string]plotData  `json:"plots"`
		CDFs     map[string][]cdfData `json:"cdfs"`
		Slowdown []binData            `json:"slowdown"`
	}
	plotData struct {
		T      json.RawMessage `json:"t"`
		Series []seriesData    `json:"series"`
	}
	seriesData struct {
		Label   string          `json:"label"`
		Summary bool            `json:"summary"`
		V       json.RawMessage `json:"v"`
		Max     json.RawMessage `json:"max,omitempty"`
	}
	cdfData struct {
		Label   string          `json:"label"`
		Summary bool            `json:"summary"`
		V       json.RawMessage `json:"v"`
		Share   json.RawMessage `json:"share"`
	}
	binData struct {
		From  int64           `json:"from"`
		To    *int64          `json:"to"` // null: without end
		Flows uint64          `json:"flows"`
		P     json.RawMessage `json:"p"` // 50th, 95th, 99th percentile
	}
)

// numbers returns v as a JSON array, to digits significant digits, with null for what is
// not finite.
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
	sample = 5  // more than a plot can show
)

func dataOf(r *Report) pageData {
	d := pageData{Title: r.Title, Command: r.Command, Version: r.Version, Inputs: []inputData{}, Runs: []runData{}}
	for _, in := range r.Inputs {
		d.Inputs = append(d.Inputs, inputData(in))
	}
	n := points(r.lines())
	for i := range r.Runs {
		run := &r.Runs[i]
		rd := runData{Scenario: run.Scenario, Description: run.Description,
			Facts: []factData{}, Columns: []columnData{}, Quantities: []quantityData{}, CDFs: []quantityData{}, Systems: []systemData{}}
		for _, f := range run.Facts {
			rd.Facts = append(rd.Facts, factData(f))
		}
		for _, c := range run.Columns {
			rd.Columns = append(rd.Columns, columnData{c.Key, c.Label, c.Unit})
		}
		for _, p := range run.plots() {
			rd.Quantities = append(rd.Quantities, quantityData{p.Key, p.Name, p.Unit, p.More})
		}
		for _, c := range run.cdfs() {
			rd.CDFs = append(rd.CDFs, quantityData{Key: c.Key, Name: c.Name, Unit: c.Unit})
		}
		for j := range run.Systems {
			rd.Systems = append(rd.Systems, systemOf(&run.Systems[j], n))
		}
		d.Runs = append(d.Runs, rd)
	}
	return d
}

// systemOf returns a system with up to points points a series.
func systemOf(s *System, points int) systemData {
	d := systemData{Name: s.Name, Values: numbers(s.Values, exact), Plots: map[string]plotData{},
		CDFs: map[string][]cdfData{}, Slowdown: []binData{}}
	for _, p := range s.Plots {
		if len(p.Series) == 0 {
			continue
		}
		series, a := spread(p.Series, points)
		pd := plotData{T: numbers(a.t, timing)}
		for i, one := range series {
			sd := seriesData{Label: one.Label, Summary: one.Summary, V: numbers(a.v[i], sample)}
			if a.max[i] != nil {
				sd.Max = numbers(a.max[i], sample)
			}
			pd.Series = append(pd.Series, sd)
		}
		d.Plots[p.Key] = pd
	}
	for _, c := range s.CDFs {
		for _, l := range c.Lines[:min(maxLines, len(c.Lines))] {
			v, share := thinCDF(l.V, l.Share)
			d.CDFs[c.Key] = append(d.CDFs[c.Key], cdfData{l.Label, l.Summary, numbers(v, sample), numbers(share, timing)})
		}
	}
	if len(s.Slowdowns) > 0 {
		for _, b := range s.Slowdowns[0].Bins {
			bd := binData{From: b.From, Flows: b.Flows, P: numbers([]float64{b.P50, b.P95, b.P99}, sample)}
			if b.To != math.MaxInt64 {
				bd.To = &b.To
			}
			d.Slowdown = append(d.Slowdown, bd)
		}
	}
	return d
}

// si writes x with three significant digits and, if it is bps or s, a decimal
// prefix, or, if bytes, a binary one.
func si(x float64, unit string) string {
	if !finite(x) {
		return "none"
	}
	switch unit {
	case "":
		return figure(x)
	case "share":
		return percent(x)
	case "bps", "s", "B":
	default:
		return figure(x) + " " + unit
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
