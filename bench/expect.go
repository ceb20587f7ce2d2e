package bench

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// CheckCSV refuses scenarios whose files in a directory of results.WriteCSV and
// results.SeriesLog would have the same names.
func CheckCSV(scenarios ...*scenario.Scenario) error {
	files := map[string]string{} // scenarios by the name of their file
	for _, s := range scenarios {
		if other, taken := files[results.FileName(s.Name)]; taken {
			return fmt.Errorf("the CSV of scenarios %q and %q would have the same file, %s.csv: give them names that differ in letters or digits, or run one after the other into directories of their own", other, s.Name, results.FileName(s.Name))
		}
		files[results.FileName(s.Name)] = s.Name
		systems := map[string]string{}
		for i, sys := range s.Systems {
			if other, taken := systems[results.FileName(sys.Name)]; taken {
				return s.Errorf(fmt.Sprintf("systems[%d].name", i), "the CSV of systems %q and %q would have the same files, %s.%s.*.csv: give them names that differ in letters or digits", other, sys.Name, results.FileName(s.Name), results.FileName(sys.Name))
			}
			systems[results.FileName(sys.Name)] = sys.Name
		}
	}
	return nil
}

// CheckExpectations reports an expectation of a figure that no result has.
func CheckExpectations(s *scenario.Scenario) error {
	for i, e := range s.Expect {
		var figures any = &results.System{}
		switch {
		case e.Label != "":
			figures = &results.Label{}
		case e.Link != "":
			figures = &results.Link{}
		}
		if _, ok := results.FigureOf(figures, e.Metric); !ok {
			return s.Errorf(fmt.Sprintf("expect[%d].metric", i), "there is no figure %q: take one of %s", e.Metric, strings.Join(results.FigureNames(figures), ", "))
		}
	}
	return nil
}

// Misses returns the expectations of a scenario that its result does not meet. A figure
// that was not measured meets none.
func Misses(s *scenario.Scenario, r *results.Result) []results.Miss {
	var misses []results.Miss
	for _, e := range s.Expect {
		for _, sys := range r.Systems {
			if e.System != "" && e.System != sys.Name {
				continue
			}
			m := results.Miss{System: sys.Name, Label: e.Label, Link: e.Link, Metric: e.Metric, Value: figureOf(sys, e), Min: stats.Unmeasured, Max: stats.Unmeasured}
			if e.Min != nil {
				m.Min = stats.Float(*e.Min)
			}
			if e.Max != nil {
				m.Max = stats.Float(*e.Max)
			}
			if !m.Value.Measured() || m.Value < m.Min || m.Value > m.Max {
				misses = append(misses, m)
			}
		}
	}
	return misses
}

// figureOf is the figure that an expectation is about.
func figureOf(s *results.System, e scenario.Expectation) stats.Float {
	switch {
	case e.Label != "":
		for i := range s.Labels {
			if s.Labels[i].Label == e.Label {
				v, _ := results.FigureOf(&s.Labels[i], e.Metric)
				return v
			}
		}
		return stats.Unmeasured
	case e.Link != "":
		for i := range s.Links {
			if s.Links[i].Link == e.Link {
				v, _ := results.FigureOf(&s.Links[i], e.Metric)
				return v
			}
		}
		return stats.Unmeasured
	}
	v, _ := results.FigureOf(s, e.Metric)
	return v
}
