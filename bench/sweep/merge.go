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
	"github.com/sluice-rdma/sluice/internal/infile"
)

// columns are those of the merged table but for the parameters, which stand before scope.
var columns = []string{"cell", "scenario", "system", "seed", "scope", "name", "figure", "unit", "value"}

// Row is a figure of a cell.
type Row struct {
	cell *Cell
	// scope is the figure's subject: "system", or "label", "priority" and "link" with
	// their Name.
	scope, name  string
	figure, unit string
	value        float64
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
		c, s, err := r.cell, r.system, r.err
		if errors.Is(err, fs.ErrNotExist) {
			if partial {
				continue
			}
			return cells, fmt.Errorf("%v has no result: run it (sluice sweep status shows what is missing), or merge what there is by --partial", c)
		}
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

// ahead is the number of results read before they are needed: of a store that is far away
// each takes a round trip.
const ahead = 16

// reading is a cell with its result, which is there once done is closed.
type reading struct {
	cell   *Cell
	system *results.System
	err    error // fs.ErrNotExist where there is none, and a *Misfit
	done   chan struct{}
}

// results are the plan's cells, in order, with the results that they have.
func (f Folder) results(p *Plan) iter.Seq2[*reading, error] {
	return f.resultsOf(p, func(*Cell) bool { return true })
}

// resultsOf is results for the cells that there are; those of others are fs.ErrNotExist
// without a look.
func (f Folder) resultsOf(p *Plan, there func(*Cell) bool) iter.Seq2[*reading, error] {
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
				if !there(c) {
					r.err = fs.ErrNotExist
					return
				}
				r.system, r.err = f.read(c)
			}()
			if waiting = append(waiting, r); len(waiting) >= ahead && !next() {
				return
			}
		}
		for len(waiting) > 0 && next() {
		}
	}
}

// Misfit is the error for a result that is not whole, or not of the cell or task whose name
// it has.
type Misfit struct {
	File string
	Err  error
}

func (e *Misfit) Error() string {
	return fmt.Sprintf("%s is not the result that it should be: %v: run again what has it, which replaces it", e.File, e.Err)
}

func (e *Misfit) Unwrap() error { return e.Err }

// read reads a cell's result, and holds it against the cell.
func (f Folder) read(c *Cell) (*results.System, error) {
	name := fileOf(resultsDir, c.Hash)
	text, err := f.get(name)
	if errors.As(err, new(*infile.TooLarge)) {
		return nil, &Misfit{f.path(name), err}
	}
	if err != nil {
		return nil, err
	}
	s, err := c.parse(text)
	if err != nil {
		return nil, &Misfit{f.path(name), err}
	}
	return s, nil
}

// parse reads a result and holds it against the cell.
func (c *Cell) parse(text []byte) (*results.System, error) {
	d, err := results.ReadJSON(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, err
	case d.Version != results.FormatVersion:
		return nil, fmt.Errorf("it has format version %d, and results of this program %d", d.Version, results.FormatVersion)
	case d.Interrupted || len(d.Missing) > 0:
		return nil, errors.New("it is of a run that was interrupted")
	case len(d.Results) != 1 || len(d.Results[0].Systems) != 1:
		return nil, errors.New("it is not the result of one system")
	}
	r := d.Results[0]
	if s := r.Systems[0]; r.Scenario != c.Scenario || s.Name != c.System || r.Seed != c.Seed {
		return nil, fmt.Errorf("it is of %s, %s, seed %d, and the cell is %v", r.Scenario, s.Name, r.Seed, c)
	}
	return r.Systems[0], nil
}

// Result returns a cell's result, or nil where it has none. The error is a *Misfit
// where it has one that is not whole, or another's.
func (f Folder) Result(c *Cell) (*results.System, error) {
	s, err := f.read(c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// computed are figures of the computation, not of the simulation.
var computed = []string{"wall_s", "events"}

func rows(c *Cell, s *results.System, row func(*Row) error) error {
	of := func(scope, name string, figures any) error {
		for figure, value := range results.Figures(figures) {
			if !value.Measured() || slices.Contains(computed, figure) {
				continue
			}
			if err := row(&Row{cell: c, scope: scope, name: name, figure: figure, unit: unitOf(figure), value: float64(value)}); err != nil {
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

// newCSV returns a Table that writes CSV, of a plan's sweep.
func newCSV(w io.Writer, p *Plan) (Table, error) {
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
	t.cells = append(t.cells[:0], strconv.Itoa(r.cell.Index), r.cell.Scenario, r.cell.System, strconv.FormatUint(r.cell.Seed, 10))
	for _, name := range t.plan.Parameters {
		t.cells = append(t.cells, r.cell.Parameters[name])
	}
	t.cells = append(t.cells, r.scope, r.name, r.figure, r.unit, strconv.FormatFloat(r.value, 'g', -1, 64))
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
		return newCSV(w, p)
	case ".parquet":
		return newParquet(w, p), nil
	}
	return nil, fmt.Errorf("%s: the ending of the name is the format: take .csv or .parquet", name)
}
