package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/bench/sweep"
)

// Options is how to run rows.
type Options struct {
	Quick bool
	// Dir keeps finished runs, and is asked for them first: a sweep's folder, in an object
	// store at Endpoint where it is s3://BUCKET/PREFIX.
	Dir, Endpoint string
	// Jobs is how many runs go on at a time; 0 is one a core.
	Jobs int
	// Arguments is the command line, for the report.
	Arguments []string
	// Progress, unless it is nil, is called now and then, never concurrently, with
	// the share of the work that is done and what goes on.
	Progress func(done float64, what string)
}

// DirError says that finished runs can't be kept in a directory.
type DirError struct{ error }

// Unwrap is for errors.Is.
func (e DirError) Unwrap() error { return e.error }

// DefaultDir is where finished runs are kept if nobody says.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "sluice", "reproduce"), nil
}

// PlanRuns plans the runs of rows as cells of a folder, and runs none: sluice sweep run
// does, on any number of machines, and Do evaluates what there is.
func PlanRuns(rows []*Row, o Options) (sweep.Folder, *sweep.Planned, error) {
	_, f, planned, _, err := o.plan(rows)
	return f, planned, err
}

// plan resolves rows, and lists their runs in the folder.
func (o *Options) plan(rows []*Row) (*plan, sweep.Folder, *sweep.Planned, []*sweep.Cell, error) {
	p, err := newPlan(rows, o.Quick)
	if err != nil {
		return nil, sweep.Folder{}, nil, nil, err
	}
	if len(p.rows) == 0 {
		return nil, sweep.Folder{}, nil, nil, errors.New("none of these rows is there in small: leave out --quick")
	}
	f, err := sweep.Open(o.Dir, o.Endpoint)
	if err != nil {
		return nil, f, nil, nil, DirError{err}
	}
	planned, cells, err := p.list(f)
	if err != nil {
		return nil, f, nil, nil, DirError{fmt.Errorf("finished runs can't be kept: %w", err)}
	}
	return p, f, planned, cells, nil
}

// Do runs rows and evaluates them. A run that fails does not end the others. If ctx is
// done or a run failed it returns an error, which for ctx is its cause, and a report of the
// rows whose runs are there, nil if there are none. What has finished is kept, and doing
// the same again goes on from there.
func Do(ctx context.Context, rows []*Row, o Options) (*Report, error) {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	p, f, planned, cells, err := o.plan(rows)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	w := newWatch(p.jobs, o.Progress)
	done, failed := sweep.Run(ctx, f, sweep.Options{Cells: cells, Jobs: o.Jobs, Progress: w.end, Running: w.running})
	switch {
	case failed != nil && ctx.Err() != nil:
		failed = fmt.Errorf("%w: %d of %d runs are kept in %v, and the same command goes on from there", failed, done.Before+done.Ran, len(cells), f)
	case failed == nil && done.Failed > 0:
		failed = fmt.Errorf("%d of %d runs failed; the first: %w", done.Failed, len(cells), done.First)
	}
	var missing []string
	if failed != nil {
		if missing, err = p.without(f); err != nil {
			return nil, errors.Join(failed, err)
		}
		if len(p.rows) == 0 {
			return nil, failed
		}
	}
	r, err := evaluate(p, f)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	r.Interrupted, r.Missing = failed != nil && ctx.Err() != nil, missing
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.Program, r.Arguments, r.Quick = planned.Program, o.Arguments, o.Quick
	r.StartTime = start.UTC().Format(time.RFC3339)
	r.WallS, r.Cores = time.Since(start).Round(time.Millisecond).Seconds(), o.Jobs
	r.Runs, r.RunsReused = len(p.jobs), len(p.jobs)-done.Ran
	r.MemoryMiB = int(memory.Sys >> 20)
	return r, failed
}

// without takes rows whose runs are not all there out of the plan, and names them.
func (p *plan) without(f sweep.Folder) (missing []string, err error) {
	there := map[*job]bool{}
	for _, j := range p.jobs {
		if there[j], err = f.Has(j.cell); err != nil {
			return nil, err
		}
	}
	p.jobs = slices.DeleteFunc(p.jobs, func(j *job) bool { return !there[j] })
	p.rows = slices.DeleteFunc(p.rows, func(row *Row) bool {
		if !slices.ContainsFunc(p.of[row], func(w want) bool { return !there[w.job] }) {
			return false
		}
		missing = append(missing, row.ID)
		return true
	})
	return missing, nil
}

// longestFirst orders jobs by how long they take; those of one run stay together.
func longestFirst(jobs []*job) []*job {
	return slices.SortedStableFunc(slices.Values(jobs), func(a, b *job) int { return cmp.Compare(b.seconds, a.seconds) })
}

// watch says how much of the work is done, by how long jobs take about. Its functions are
// not called concurrently.
type watch struct {
	show  func(float64, string)
	jobs  map[*sweep.Cell]*job
	work  float64          // seconds in all
	share map[*job]float64 // of jobs that ended or are under way
	ended int
	last  *job // that was seen to run
}

func newWatch(jobs []*job, show func(float64, string)) *watch {
	w := &watch{show: show, jobs: map[*sweep.Cell]*job{}, share: map[*job]float64{}}
	for _, j := range jobs {
		w.jobs[j.cell] = j
		w.work += j.seconds
	}
	return w
}

func (w *watch) running(c *sweep.Cell, share float64) {
	w.last = w.jobs[c]
	w.share[w.last] = share
	w.tell()
}

func (w *watch) end(c *sweep.Cell, d sweep.Done) {
	w.ended = d.Cells
	w.share[w.jobs[c]] = 1
	w.tell()
}

func (w *watch) tell() {
	if w.show == nil || w.last == nil {
		return // what is kept from earlier takes no time
	}
	sum := 0.0
	for j, share := range w.share {
		sum += float64(share * j.seconds)
	}
	w.show(min(sum/max(w.work, 1e-9), 1), fmt.Sprintf("%s: %s (%d of %d runs done)", w.last.scenario, w.last.system, w.ended, len(w.jobs)))
}
