package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// Done counts what Run did with the cells of its tasks.
type Done struct {
	Cells  int
	Ran    int // and have a result now
	Before int // had one
	Failed int // now
	First  error
}

// Options configure the run of cells.
type Options struct {
	Tasks Tasks
	// Cells, unless nil, are run in place of those of Tasks: whoever has just planned them in
	// a folder that another process may plan in as well.
	Cells []*Cell
	Jobs  int // cells at a time, at least 1
	// Workers are those of a cell whose network can be divided; 0 is one. Results do not
	// depend on them.
	Workers int
	// Memory refuses cells whose network takes more; 0 is no limit.
	Memory units.Bytes
	// Progress, unless nil, is called after each cell, never concurrently.
	Progress func(*Cell, Done)
	// Running, unless nil, is called now and then, never concurrently, with the share of a
	// cell under way that is done.
	Running func(c *Cell, done float64)
}

// Failure is the reason why a cell has no result: its file below failed/.
type Failure struct {
	Index int    `json:"index"`
	Error string `json:"error"`
	Host  string `json:"host"`
}

// Run runs the cells of tasks that have no result. A cell that fails is noted and does
// not end the run; a folder that can't be written, and the end of ctx, do. What was under
// way then is lost.
func Run(ctx context.Context, f Folder, o Options) (Done, error) {
	p, err := f.Plan()
	if err != nil {
		return Done{}, err
	}
	if program := thisProgram(); p.Program != program {
		return Done{}, fmt.Errorf("%s was planned by %s, and this is %s: results of two programs are not to be mixed: plan anew, or take that program", f, p.Program, program)
	}
	r := &runner{folder: f, options: o}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cells := make(chan *Cell)
	var workers sync.WaitGroup
	for range max(1, o.Jobs) {
		workers.Go(func() {
			l := loader{folder: f, plan: p, memory: o.Memory, workers: o.Workers}
			for c := range cells {
				if err := r.cell(ctx, &l, c); err != nil {
					cancel(err)
				}
			}
		})
	}
	list := f.cells(p, o.Tasks.First*p.Chunk, (o.Tasks.Last+1)*p.Chunk)
	if o.Cells != nil {
		list = func(yield func(*Cell, error) bool) {
			for _, c := range o.Cells {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
	for c, failed := range list {
		if failed != nil {
			cancel(failed)
		}
		if ctx.Err() != nil {
			break
		}
		select {
		case cells <- c:
		case <-ctx.Done():
		}
	}
	close(cells)
	workers.Wait()
	return r.done, context.Cause(ctx)
}

type runner struct {
	folder  Folder
	options Options
	mu      sync.Mutex
	done    Done
}

// cell runs a cell unless it has a result. Its error is the folder's or the context's.
func (r *runner) cell(ctx context.Context, l *loader, c *Cell) error {
	if ctx.Err() != nil {
		return nil
	}
	file := fileOf(resultsDir, c.Hash)
	before, err := r.folder.Result(c)
	keep := r.folder.add
	if errors.As(err, new(*Misfit)) {
		keep, err = r.folder.put, nil // in its place
	}
	if err != nil {
		return err
	}
	if before != nil {
		r.count(c, func(d *Done) { d.Before++ })
		return nil
	}
	text, err := l.run(ctx, c, func(share float64, _ string) {
		if r.options.Running == nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.options.Running(c, share)
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		host, _ := os.Hostname()
		note, encoding := json.MarshalIndent(Failure{c.Index, err.Error(), host}, "", "  ")
		if err := errors.Join(encoding, r.folder.put(fileOf(failedDir, c.Hash), append(note, '\n'))); err != nil {
			return err
		}
		r.count(c, func(d *Done) {
			d.Failed++
			if d.First == nil {
				d.First = fmt.Errorf("%v: %w", c, err)
			}
		})
		return nil
	}
	if err := errors.Join(keep(file, text), r.folder.remove(fileOf(failedDir, c.Hash))); err != nil {
		return err
	}
	r.count(c, func(d *Done) { d.Ran++ })
	return nil
}

func (r *runner) count(c *Cell, add func(*Done)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Cells++
	add(&r.done)
	if r.options.Progress != nil {
		r.options.Progress(c, r.done)
	}
}

// loader runs cells one after the other, and keeps the scenario that the last one had:
// neighbours share it, with its topology.
type loader struct {
	folder   Folder
	plan     *Plan
	memory   units.Bytes
	workers  int // 0 is one
	text     string
	scenario *scenario.Scenario
}

// run returns a cell's result as its file has it: a function of the cell alone.
func (l *loader) run(ctx context.Context, c *Cell, progress func(float64, string)) ([]byte, error) {
	if l.text != c.Text {
		text, err := l.folder.get(scenariosDir + c.Text)
		if err != nil {
			return nil, err
		}
		s, err := scenario.ParseWithin(l.memory, c.Scenario+".yaml", text)
		if err != nil {
			return nil, err
		}
		l.text, l.scenario = c.Text, s
	}
	for _, sys := range l.scenario.Systems {
		if sys.Name != c.System {
			continue
		}
		one := alone(l.scenario, sys)
		essence, err := essence(l.scenario, sys)
		if err != nil {
			return nil, err
		}
		if hash := l.plan.hash(essence, c.Seed); hash != c.Hash {
			return nil, fmt.Errorf("the scenario's text is not what was planned: %s%s was changed: plan anew", scenariosDir, c.Text)
		}
		result, err := bench.Run(one, bench.Options{
			Seed: &c.Seed, NoSeries: !l.plan.Series, Workers: max(1, l.workers),
			Progress: progress, Interrupted: func() error { return context.Cause(ctx) },
		})
		if err != nil {
			return nil, err
		}
		d := results.Document{Version: results.FormatVersion, Arguments: []string{}, Results: []*results.Result{result}}
		d.ClearWall()
		var b bytes.Buffer
		err = results.WriteJSON(&b, &d)
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("the scenario has no system %q: plan anew", c.System)
}
