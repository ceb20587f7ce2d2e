package results

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/internal/outfile"
)

// WriteCSV writes figures into a directory, which it makes if need be. SCENARIO.csv has
// those of each system and label, SCENARIO.slowdown.csv those by size of flows,
// SCENARIO.priorities.csv those by priority. SCENARIO.links.csv has those of the links
// that the scenario measures, SCENARIO.link_use.csv what is known of every link. All but
// the first are written only if they have a row. A SeriesLog writes series.
func WriteCSV(dir string, results ...*Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, r := range results {
		base := filepath.Join(dir, FileName(r.Scenario))
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

// FileName makes a name fit for a file.
func FileName(name string) string {
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
	header := append([]string{"system", "label"}, FigureNames(&System{})...)
	rows := [][]string{header}
	row := func(system, label string, figures any) {
		cells := []string{system, label}
		for _, name := range header[2:] {
			v, _ := FigureOf(figures, name)
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
	rows := [][]string{append([]string{"system"}, FigureNames(&Priority{})...)}
	for _, s := range r.Systems {
		for i := range s.Priorities {
			cells := []string{s.Name}
			for _, m := range figuresOf(&s.Priorities[i]) {
				cells = append(cells, csvNumber(m.value))
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func (r *Result) linksCSV() [][]string {
	rows := [][]string{append([]string{"system", "link"}, FigureNames(&Link{})...)}
	for _, s := range r.Systems {
		for i := range s.Links {
			cells := []string{s.Name, s.Links[i].Link}
			for _, m := range figuresOf(&s.Links[i]) {
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
func csvNumber(v stats.Float) string {
	if !v.Measured() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

func writeCSVFile(path string, rows [][]string) error {
	return outfile.Write(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
}
