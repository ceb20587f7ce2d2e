package results

import (
	"encoding/csv"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rdma/sluice/internal/outfile"
)

// SeriesLog writes the rows of series into a directory as they are measured: for each
// system and kind SCENARIO.SYSTEM.KIND.csv, with a row for each step. A label or link has
// a column, or two where a step has a mean and a most. A file has its name when its
// system is done, or at Close. A SeriesLog holds a few KiB a file, of one system at a
// time. Make one with CreateSeriesLog.
type SeriesLog struct {
	dir      string
	scenario string // whose files are open
	system   string
	files    map[string]*seriesFile // by kind
	err      error                  // of the first Write that failed
}

type seriesFile struct {
	file  *outfile.File
	csv   *csv.Writer
	cells []string
}

// CreateSeriesLog writes into a directory, which it makes if need be.
func CreateSeriesLog(dir string) (*SeriesLog, error) {
	return &SeriesLog{dir: dir, files: map[string]*seriesFile{}}, os.MkdirAll(dir, 0o777)
}

// Write appends a row to the file of its kind. It keeps no reference to r.
func (l *SeriesLog) Write(r *SeriesRow) error {
	if l.err == nil {
		l.err = l.write(r)
	}
	return l.err
}

func (l *SeriesLog) write(r *SeriesRow) error {
	if r.Scenario != l.scenario || r.System != l.system {
		if err := l.Close(); err != nil {
			return err
		}
		l.scenario, l.system = r.Scenario, r.System
	}
	f := l.files[r.Kind]
	if f == nil {
		var err error
		if f, err = l.create(r); err != nil {
			return err
		}
		l.files[r.Kind] = f
	}
	f.cells = append(f.cells[:0], csvNumber(r.AtUs))
	for i, v := range r.Values {
		f.cells = append(f.cells, csvNumber(v))
		if r.Max != nil {
			f.cells = append(f.cells, csvNumber(r.Max[i]))
		}
	}
	return f.csv.Write(f.cells)
}

func (l *SeriesLog) create(r *SeriesRow) (*seriesFile, error) {
	file, err := outfile.Create(filepath.Join(l.dir, FileName(r.Scenario)+"."+FileName(r.System)+"."+r.Kind+".csv"))
	if err != nil {
		return nil, err
	}
	f := &seriesFile{file: file, csv: csv.NewWriter(file)}
	header := []string{"time [us]"}
	unit := ""
	if r.Unit != "" {
		unit = " [" + r.Unit + "]"
	}
	for _, name := range r.Names {
		if r.Max == nil {
			header = append(header, name+unit)
		} else {
			header = append(header, name+" mean"+unit, name+" max"+unit)
		}
	}
	return f, f.csv.Write(header)
}

// Flush writes what is still in memory. An error is also the next Write's.
func (l *SeriesLog) Flush() error {
	for _, f := range l.files {
		if f.csv.Flush(); l.err == nil {
			l.err = f.csv.Error()
		}
	}
	return l.err
}

// Close finishes the files. Errors of a write may show only here. After a Write that
// failed it leaves older files as they were, and has no news.
func (l *SeriesLog) Close() error {
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(l.files)) {
		f := l.files[kind]
		delete(l.files, kind)
		if l.err != nil {
			f.file.Abort()
			continue
		}
		f.csv.Flush() // a failure is the file's
		errs = append(errs, f.file.Commit())
	}
	return errors.Join(errs...)
}
