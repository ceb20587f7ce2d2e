package sweep

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/report"
)

//go:embed assets/page.html.tmpl
var pageTemplate string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"heat": heat,
	"mean": func(a *Average) string { return short(float64(a.Mean), float64(a.Half)) },
	"half": func(a *Average) string { return giveOrTake(float64(a.Half)) },
	"difference": func(a *Average) string {
		d, half := float64(a.Difference), float64(a.DifferenceHalf)
		if math.IsNaN(d) {
			return ""
		}
		sign := ""
		if d >= 0 {
			sign = "+"
		}
		return sign + short(d, half) + " " + giveOrTake(half)
	},
	"command": func(r *Averages, a *Average, system string) string {
		return fmt.Sprintf("sluice run %s%s --seed %d --report cell.html # %s", scenariosDir, r.text, a.seed, system)
	},
}).Parse(pageTemplate))

func giveOrTake(half float64) string {
	if math.IsNaN(half) {
		return ""
	}
	return "± " + short(half, half)
}

// heat colours a field by where its value lies in its table.
func heat(g *Grid, a *Average) template.CSS {
	least, most := math.Inf(1), math.Inf(-1)
	for _, row := range g.Rows {
		for _, x := range row.Systems {
			if x != nil {
				least, most = min(least, float64(x.Mean)), max(most, float64(x.Mean))
			}
		}
	}
	if !(most > least) {
		return ""
	}
	share := (float64(a.Mean) - least) / (most - least)
	return template.CSS(fmt.Sprintf("background: color-mix(in srgb, var(--accent) %.0f%%, transparent)", 40*share)) //nolint:gosec // a number
}

// pageScenario is a scenario's part of the page.
type pageScenario struct {
	Name   string
	Tables []*Grid
}

// Page writes the summary as one HTML page that loads nothing.
func (s *Summary) Page(w io.Writer) error {
	var scenarios []*pageScenario
	for _, g := range s.Tables {
		if len(scenarios) == 0 || scenarios[len(scenarios)-1].Name != g.Scenario {
			scenarios = append(scenarios, &pageScenario{Name: g.Scenario})
		}
		last := scenarios[len(scenarios)-1]
		last.Tables = append(last.Tables, g)
	}
	return page.Execute(w, map[string]any{"Summary": s, "Scenarios": scenarios, "CSS": template.CSS(report.Style())}) //nolint:gosec // our own
}
