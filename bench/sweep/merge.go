package sweep

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sluice-rdma/sluice/bench/results"
)

// columns are those of the merged table but for the parameters, which stand before scope.
var columns = []string{"cell", "scenario", "system", "seed", "scope", "name", "figure", "unit", "value"}

// Row is a figure of a cell.
type Row struct {
	Cell *Cell
	// Scope is what the figure is of: "system", or "label", "priority" and "link" with
	// their Name.
	Scope, Name  string
	Figure, Unit string
	Value        float64
}

// Merge passes each figure that was measured of all cells to row, in the order of the
// plan; an error of row ends it. If partial is not set, a cell without a result is an
// error. It returns how many cells have a result. It holds few results at a time.
func Merge(f Folder, partial bool, row func(*Row) error, progress func(done float64)) (cells int, err error) {
	p, err := f.Plan()
	if err != nil {
		return 0, err
	}
	for r, err := range f.results(p) {
		if err != nil {
			return cells, err
		}
		c, text, err := r.cell, r.text, r.err
		if errors.Is(err, fs.ErrNotExist) {
			if partial {
				continue
			}
			return cells, fmt.Errorf("%v has no result: run it (sluice sweep status shows what is missing), or merge what there is by --partial", c)
		}
		if err != nil {
			return cells, err
		}
		s, err := f.parse(c, text)
		if err != nil {
			return cells, err
		}
		if err := rows(c, s, row); err != nil {
			return cells, err
		}
		cells++
		if progress != nil {
			progress(float64(c.Index+1) / float64(p.Cells))
		}
	}
	return cells, nil
}

// ahead is how many results are read before they are needed: of a store that is far away
// each takes a round trip.
const ahead = 16

// reading is a cell with its result, which is there once done is closed.
type reading struct {
	cell *Cell
	text []byte
	err  error
	done chan struct{}
}

// results are the plan's cells, in order, with the results that they have.
func (f Folder) results(p *Plan) iter.Seq2[*reading, error] {
	return func(yield func(*reading, error) bool) {
		var waiting []*reading // in order
		next := func() bool {
			r := waiting[0]
			waiting = waiting[1:]
			<-r.done
			return yield(r, nil)
		}
		for c, err := range f.cells(p, 0, p.Cells) {
			if err != nil {
				yield(nil, err)
				return
			}
			r := &reading{cell: c, done: make(chan struct{})}
			go func() {
				defer close(r.done)
				r.text, r.err = f.get(fileOf(resultsDir, c.Hash))
			}()
			if waiting = append(waiting, r); len(waiting) >= ahead && !next() {
				return
			}
		}
		for len(waiting) > 0 && next() {
		}
	}
}

// parse reads a cell's result.
func (f Folder) parse(c *Cell, text []byte) (*results.System, error) {
	d, err := results.ReadJSON(bytes.NewReader(text))
	if err == nil && (len(d.Results) != 1 || len(d.Results[0].Systems) != 1) {
		err = errors.New("it is not the result of one system")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file to have it made again", f.path(fileOf(resultsDir, c.Hash)), err)
	}
	return d.Results[0].Systems[0], nil
}

// Result returns what a cell gave, or nil where it has no result.
func (f Folder) Result(c *Cell) (*results.System, error) {
	text, err := f.get(fileOf(resultsDir, c.Hash))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return f.parse(c, text)
}

// computed are figures of the computation, not of what was simulated.
var computed = []string{"wall_s", "events"}

func rows(c *Cell, s *results.System, row func(*Row) error) error {
	of := func(scope, name string, figures any) error {
		for figure, value := range results.Figures(figures) {
			if !value.Measured() || slices.Contains(computed, figure) {
				continue
			}
			if err := row(&Row{Cell: c, Scope: scope, Name: name, Figure: figure, Unit: unitOf(figure), Value: float64(value)}); err != nil {
				return err
			}
		}
		return nil
	}
	err := of("system", "", s)
	for i := range s.Labels {
		err = errors.Join(err, of("label", s.Labels[i].Label, &s.Labels[i]))
	}
	for i := range s.Priorities {
		err = errors.Join(err, of("priority", strconv.Itoa(s.Priorities[i].Priority), &s.Priorities[i]))
	}
	for i := range s.Links {
		err = errors.Join(err, of("link", s.Links[i].Link, &s.Links[i]))
	}
	return err
}

// Table writes rows to a file of a format.
type Table interface {
	Write(*Row) error
	// Close ends the file's contents; the writer below stays open.
	Close() error
}

// NewCSV returns a Table that writes CSV, of a plan's sweep.
func NewCSV(w io.Writer, p *Plan) (Table, error) {
	t := &csvTable{plan: p, csv: csv.NewWriter(w)}
	header := slices.Insert(slices.Clone(columns), slices.Index(columns, "scope"), p.Parameters...)
	return t, t.csv.Write(header)
}

type csvTable struct {
	plan  *Plan
	csv   *csv.Writer
	cells []string
}

func (t *csvTable) Write(r *Row) error {
	t.cells = append(t.cells[:0], strconv.Itoa(r.Cell.Index), r.Cell.Scenario, r.Cell.System, strconv.FormatUint(r.Cell.Seed, 10))
	for _, name := range t.plan.Parameters {
		t.cells = append(t.cells, r.Cell.Parameters[name])
	}
	t.cells = append(t.cells, r.Scope, r.Name, r.Figure, r.Unit, strconv.FormatFloat(r.Value, 'g', -1, 64))
	return t.csv.Write(t.cells)
}

func (t *csvTable) Close() error {
	t.csv.Flush()
	return t.csv.Error()
}

// NewTable returns the Table that the ending of a file's name asks for.
func NewTable(w io.Writer, name string, p *Plan) (Table, error) {
	switch filepath.Ext(name) {
	case ".csv":
		return NewCSV(w, p)
	case ".parquet":
		return NewParquet(w, p), nil
	}
	return nil, fmt.Errorf("%s: the ending of the name is the format: take .csv or .parquet", name)
}
