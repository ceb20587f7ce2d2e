package reproduce

import (
	_ "embed" // the page
	"html/template"
	"io"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
	"github.com/sluice-rdma/sluice/bench/internal/report"
)

//go:embed assets/page.html.tmpl
var pageTemplate string

//go:embed assets/page.css
var pageCSS string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"number":   number,
	"interval": withInterval,
	"svg":      func(c chart) template.HTML { return c.svg() },
	"lines":    func(s string) []string { return strings.Split(s, "\n") },
	"mod":      func(i int) int { return i % 8 },
	"next":     func(i int) int { return i + 1 },
}).Parse(pageTemplate))

// pagePaper is a paper's part of the page.
type pagePaper struct {
	*paper
	Results []pageRow
	Missing []*paperRow
}

type pageRow struct {
	*rowResult
	Charts     []chart
	Deviations []int
}

// Page writes the report as one HTML page that loads nothing.
func (r *Report) Page(w io.Writer) error {
	known := differences()
	var papers []pagePaper
	for _, p := range allPapers() {
		one := pagePaper{paper: p}
		for _, about := range p.Rows {
			row := r.row(about.ID)
			if row == nil {
				one.Missing = append(one.Missing, about)
				continue
			}
			one.Results = append(one.Results, pageRow{row, row.charts, deviations.About(known, row.ID, "")})
		}
		if len(one.Results) > 0 {
			papers = append(papers, one)
		}
	}
	return page.Execute(w, map[string]any{
		"Report": r, "Papers": papers, "Deviations": known, "Command": "sluice " + strings.Join(r.Arguments, " "),
		"CSS": template.CSS(report.Style() + pageCSS),
	})
}

// Verdict is what the page says of a check.
func (c checkResult) Verdict() string { return c.verdict() }
