package bench

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// WriteCSV writes results into a directory, which it makes if need be: for each
// system and kind of series SCENARIO.SYSTEM.KIND.csv, with a column a label or
// link, and SCENARIO.csv with the figures of each system and label.
func WriteCSV(dir string, results ...*Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, r := range results {
		base := filepath.Join(dir, fileName(r.Scenario))
		if err := writeCSVFile(base+".csv", r.figuresCSV()); err != nil {
			return err
		}
		for _, s := range r.Systems {
			for _, kind := range s.seriesKinds() {
				if err := writeCSVFile(base+"."+fileName(s.Name)+"."+kind+".csv", s.seriesCSV(kind)); err != nil {
					return err
				}
			}
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

func (s *System) seriesKinds() []string {
	var kinds []string
	for i := range s.Series {
		if !slices.Contains(kinds, s.Series[i].Kind) {
			kinds = append(kinds, s.Series[i].Kind)
		}
	}
	return kinds
}

// seriesCSV lays the series of a kind side by side. Series with other steps than
// the first have cells only where their times meet its own.
func (s *System) seriesCSV(kind string) [][]string {
	var series []*Series
	points := 0
	for i := range s.Series {
		if s.Series[i].Kind == kind {
			series = append(series, &s.Series[i])
			points = max(points, len(s.Series[i].Values))
		}
	}
	header := []string{"time [us]"}
	for _, one := range series {
		header = append(header, fmt.Sprintf("%s [%s]", one.Name, one.Unit))
	}
	rows := [][]string{header}
	first := series[0]
	for i := range points {
		at := first.StartUs + Float(float64(i)*float64(first.StepUs))
		cells := []string{csvNumber(at)}
		for _, one := range series {
			j := i
			if one.StartUs != first.StartUs || one.StepUs != first.StepUs {
				steps := float64(at-one.StartUs) / float64(one.StepUs)
				if j = int(steps); float64(j) != steps {
					j = -1
				}
			}
			cell := ""
			if j >= 0 && j < len(one.Values) {
				cell = csvNumber(one.Values[j])
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
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

func writeCSVFile(path string, rows [][]string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return csv.NewWriter(f).WriteAll(rows)
}
