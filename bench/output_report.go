package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rdma/sluice/bench/report"
)

// WriteHTML writes a document as one self-contained page.
func WriteHTML(w io.Writer, d *Document) error {
	page := &report.Report{
		Title:   "Sluice",
		Command: strings.Join(append([]string{"sluice"}, d.Arguments...), " "),
		Version: d.Environment.Sluice,
	}
	for i, r := range d.Results {
		if i == 0 {
			page.Title += ": " + r.Scenario
		} else {
			page.Title += ", " + r.Scenario
		}
		page.Runs = append(page.Runs, r.reportRun())
	}
	return report.Write(w, page)
}

func (r *Result) reportRun() report.Run {
	run := report.Run{Scenario: r.Scenario, Description: r.Description, YAML: r.YAML}
	fact := func(name, format string, args ...any) {
		run.Facts = append(run.Facts, report.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if r.Source != "" {
		fact("source", "%s", r.Source)
	}
	fact("seed", "%d", r.Seed)
	fact("simulated", "%.4g ms", float64(r.SimS)*1e3)
	fact("events", "%d", r.Events)
	fact("packet-hops", "%d", r.PacketHops)
	fact("elapsed", "%.1f s", r.WallS)
	shown := columnsOf(r)
	for _, c := range shown {
		run.Columns = append(run.Columns, report.Column{Key: c.key, Label: c.title, Unit: c.unit, Digits: c.digits})
	}
	for _, s := range r.Systems {
		sys := report.System{Name: s.Name}
		for _, c := range shown {
			sys.Values = append(sys.Values, float64(c.of(s)))
		}
		sys.Rate = s.reportSeries(SeriesRate, 1e9)
		sys.RTT = s.reportSeries(SeriesRTT, 1e-6)
		sys.Queue = s.reportSeries(SeriesQueue, 1)
		run.Systems = append(run.Systems, sys)
		if len(s.Labels) > 1 {
			for _, l := range s.Labels {
				fact(s.Name+", "+l.Label, "%.2f Gbps, %.2f Gbps on the wire, RTT %.1f us on average", l.ThroughputGbps, l.WireGbps, l.RTTAvgUs)
			}
		}
	}
	for _, m := range r.Misses {
		fact("missed", "%v", m)
	}
	return run
}

// reportSeries returns the series of a kind in the report's unit, which is scale
// of the JSON's.
func (s *System) reportSeries(kind string, scale float64) []report.Series {
	var all []report.Series
	for i := range s.Series {
		one := &s.Series[i]
		if one.Kind != kind {
			continue
		}
		x := report.Series{Label: one.Name, Summary: one.Name == SeriesAll}
		for j, v := range one.Values {
			x.T = append(x.T, (float64(one.StartUs)+float64(float64(j)*float64(one.StepUs)))*1e-6)
			x.V = append(x.V, float64(v)*scale)
		}
		all = append(all, x)
	}
	return all
}
