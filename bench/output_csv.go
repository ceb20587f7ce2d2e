package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/scenario"
)

// WriteCSV writes figures into a directory, which it makes if need be: SCENARIO.csv
// with those of each system and label, SCENARIO.slowdown.csv with those by size of
// flows, SCENARIO.priorities.csv by priority, SCENARIO.links.csv with those of the links that the scenario measures, and
// SCENARIO.link_use.csv with what is known of every link; all but
// the first only if they have a row. Series are a SeriesLog's.
func WriteCSV(dir string, results ...*Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, r := range results {
		base := filepath.Join(dir, fileName(r.Scenario))
		for _, f := range []struct {
			ending string
			rows   [][]string
			always bool
		}{{".csv", r.figuresCSV(), true}, {".slowdown.csv", r.slowdownCSV(), false}, {".priorities.csv", r.prioritiesCSV(), false}, {".links.csv", r.linksCSV(), false}, {".link_use.csv", r.linkUseCSV(), false}} {
			if len(f.rows) < 2 && !f.always {
				continue
			}
			if err := writeCSVFile(base+f.ending, f.rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckCSV refuses scenarios that could not be told apart in a directory of WriteCSV
// and SeriesLog, which leave out of names what is not fit for a file.
func CheckCSV(scenarios ...*scenario.Scenario) error {
	files := map[string]string{} // scenarios by the name of their file
	for _, s := range scenarios {
		if other, taken := files[fileName(s.Name)]; taken {
			return fmt.Errorf("the CSV of scenarios %q and %q would have the same file, %s.csv: give them names that differ in letters or digits, or run one after the other into directories of their own", other, s.Name, fileName(s.Name))
		}
		files[fileName(s.Name)] = s.Name
		systems := map[string]string{}
		for i, sys := range s.Systems {
			if other, taken := systems[fileName(sys.Name)]; taken {
				return s.Errorf(fmt.Sprintf("systems[%d].name", i), "the CSV of systems %q and %q would have the same files, %s.%s.*.csv: give them names that differ in letters or digits", other, sys.Name, fileName(s.Name), fileName(sys.Name))
			}
			systems[fileName(sys.Name)] = sys.Name
		}
	}
	return nil
}

// fileName makes a name fit for a file.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}

func (r *Result) figuresCSV() [][]string {
	// A system has all the figures that its labels have.
	header := append([]string{"system", "label"}, metricNames(&System{})...)
	rows := [][]string{header}
	row := func(system, label string, figures any) {
		cells := []string{system, label}
		for _, name := range header[2:] {
			v, _ := metricOf(figures, name)
			cells = append(cells, csvNumber(v))
		}
		rows = append(rows, cells)
	}
	for _, s := range r.Systems {
		row(s.Name, "", s)
		for i := range s.Labels {
			row(s.Name, s.Labels[i].Label, &s.Labels[i])
		}
	}
	return rows
}

func (r *Result) slowdownCSV() [][]string {
	rows := [][]string{{"system", "label", "from_bytes", "to_bytes", "flows", "slowdown_p50", "slowdown_p95", "slowdown_p99"}}
	add := func(system, label string, f *Flows) {
		for _, b := range f.Slowdown {
			rows = append(rows, []string{
				system, label, strconv.FormatInt(b.FromBytes, 10), strconv.FormatInt(b.ToBytes, 10), strconv.FormatUint(b.Flows, 10),
				csvNumber(b.P50), csvNumber(b.P95), csvNumber(b.P99),
			})
		}
	}
	for _, s := range r.Systems {
		add(s.Name, "", &s.Flows)
		for i := range s.Labels {
			add(s.Name, s.Labels[i].Label, &s.Labels[i].Flows)
		}
	}
	return rows
}

func (r *Result) prioritiesCSV() [][]string {
	rows := [][]string{append([]string{"system"}, metricNames(&Priority{})...)}
	for _, s := range r.Systems {
		for i := range s.Priorities {
			cells := []string{s.Name}
			for _, m := range metricsOf(&s.Priorities[i]) {
				cells = append(cells, csvNumber(m.value))
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func (r *Result) linksCSV() [][]string {
	rows := [][]string{append([]string{"system", "link"}, metricNames(&Link{})...)}
	for _, s := range r.Systems {
		for i := range s.Links {
			cells := []string{s.Name, s.Links[i].Link}
			for _, m := range metricsOf(&s.Links[i]) {
				cells = append(cells, csvNumber(m.value))
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func (r *Result) linkUseCSV() [][]string {
	rows := [][]string{{"system", "link", "rate_gbps", "busy", "queue_max_bytes", "drops", "pause_us"}}
	if r.Topology == nil {
		return rows
	}
	for _, s := range r.Systems {
		u := s.LinkUse
		if u == nil {
			continue
		}
		for i, l := range r.Topology.Links {
			rows = append(rows, []string{
				s.Name, l.Link, csvNumber(l.RateGbps), csvNumber(u.Busy[i]), strconv.FormatInt(u.QueueMaxBytes[i], 10),
				strconv.FormatUint(u.Drops[i], 10), csvNumber(u.PauseUs[i]),
			})
		}
	}
	return rows
}

// csvNumber prints what was not measured as an empty cell.
func csvNumber(v Float) string {
	if !v.Measured() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

func writeCSVFile(path string, rows [][]string) error {
	return outfile.Write(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
}
