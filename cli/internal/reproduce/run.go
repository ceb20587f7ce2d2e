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
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
)

// Options is how to run rows.
type Options struct {
	Quick bool
	// Dir keeps finished runs, and is asked for them first.
	Dir string
	// Foreign also uses what other versions of the program left in Dir.
	Foreign bool
	// Jobs is how many runs go on at a time; 0 is one a core.
	Jobs int
	// Arguments is the command line, for the report.
	Arguments []string
	// Progress, unless it is nil, is called now and then, never concurrently, with
	// the share of the work that is done and what goes on.
	Progress func(done float64, what string)
}

// DefaultDir is where finished runs are kept if nobody says.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "sluice", "reproduce"), nil
}

// Do runs rows and evaluates them. If ctx is done or a run fails, it begins no other
// run and returns an error, which for ctx is its cause, and a report of the rows whose
// runs are there, nil if there are none. What has finished is kept, and doing the same
// again goes on from there. When ctx is done it does not wait for the runs under way.
func Do(ctx context.Context, rows []*Row, o Options) (*Report, error) {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	program := sweep.Program()
	if program == "" {
		return nil, errors.New("the program can't be told from others: its own file can't be read")
	}
	st := &store{dir: o.Dir, program: program, foreign: o.Foreign}
	if err := st.open(); err != nil {
		return nil, err
	}
	p, err := newPlan(rows, o.Quick)
	if err != nil {
		return nil, err
	}
	if len(p.rows) == 0 {
		return nil, errors.New("none of these rows is there in small: leave out --quick")
	}
	start := time.Now()
	done, failed := runAll(ctx, p, st, &o)
	var missing []string
	if failed != nil {
		if missing, err = p.without(st); err != nil {
			return nil, errors.Join(failed, err)
		}
		if len(p.rows) == 0 {
			return nil, failed
		}
	}
	r, err := evaluate(p, st)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	r.Interrupted, r.Missing = failed != nil && ctx.Err() != nil, missing
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.Program, r.Arguments, r.Quick, r.AnyVersion = program, o.Arguments, o.Quick, o.Foreign
	r.StartTime = start.UTC().Format(time.RFC3339)
	r.WallS, r.Cores = time.Since(start).Round(time.Millisecond).Seconds(), o.Jobs
	r.Runs, r.RunsReused = len(p.jobs), len(p.jobs)-done
	r.MemoryMiB = int(memory.Sys >> 20)
	return r, failed
}

// without takes rows whose runs are not all there out of the plan, and names them.
func (p *plan) without(st *store) (missing []string, err error) {
	there := map[string]bool{}
	for _, j := range p.jobs {
		if there[j.key], err = st.has(j.key); err != nil {
			return nil, err
		}
	}
	p.jobs = slices.DeleteFunc(p.jobs, func(j *job) bool { return !there[j.key] })
	p.rows = slices.DeleteFunc(p.rows, func(row *Row) bool {
		if !slices.ContainsFunc(p.of[row], func(w want) bool { return !there[w.job.key] }) {
			return false
		}
		missing = append(missing, row.ID)
		return true
	})
	return missing, nil
}

// runAll runs what is not kept, and returns how many that were.
func runAll(ctx context.Context, p *plan, st *store, o *Options) (int, error) {
	var todo []*job
	work := 0.0
	for _, j := range p.jobs {
		ok, err := st.has(j.key)
		if err != nil {
			return 0, err
		}
		if !ok {
			todo = append(todo, j)
			work += j.seconds
		}
	}
	r := &runner{st: st, o: o, work: max(work, 1e-9), under: map[*job]float64{}, total: len(todo)}
	queue := make(chan *job, len(todo))
	for _, j := range longestFirst(todo) {
		queue <- j
	}
	close(queue)
	finished := make(chan struct{})
	var workers sync.WaitGroup
	for range min(o.Jobs, len(todo)) {
		workers.Go(func() {
			for j := range queue {
				if ctx.Err() != nil || r.failed() {
					return
				}
				r.one(j)
			}
		})
	}
	go func() {
		workers.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
	}
	r.Lock()
	defer r.Unlock()
	if r.err != nil {
		return r.count, r.err
	}
	if ctx.Err() != nil {
		r.over = true
		return r.count, fmt.Errorf("%w: %d of %d runs are kept in %s, and the same command goes on from there", context.Cause(ctx), len(p.jobs)-len(todo)+r.count, len(p.jobs), st.dir)
	}
	return r.count, nil
}

// longestFirst orders jobs so that the last ones are short, and cores idle little.
func longestFirst(jobs []*job) []*job {
	return slices.SortedStableFunc(slices.Values(jobs), func(a, b *job) int { return cmp.Compare(b.seconds, a.seconds) })
}

// runner is what its workers share.
type runner struct {
	sync.Mutex
	st    *store
	o     *Options
	work  float64          // seconds in all
	past  float64          // of those, of jobs that have ended
	under map[*job]float64 // share done of those under way
	count int
	total int
	err   error
	over  bool // nobody waits for the runs that are still under way
}

func (r *runner) failed() bool {
	r.Lock()
	defer r.Unlock()
	return r.err != nil
}

func (r *runner) one(j *job) {
	doc := results.NewDocument(time.Now(), r.o.Arguments)
	result, err := j.run(func(done float64) { r.progress(j, done) })
	if err == nil {
		doc.Results = append(doc.Results, result)
		err = r.st.put(j.key, doc)
	}
	r.Lock()
	defer r.Unlock()
	delete(r.under, j)
	r.past += j.seconds
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("%v: %w", j, err))
		return
	}
	r.count++
}

func (r *runner) progress(j *job, done float64) {
	r.Lock()
	defer r.Unlock()
	r.under[j] = done
	if r.o.Progress == nil || r.over {
		return
	}
	sum := r.past
	for j, share := range r.under {
		sum += float64(share * j.seconds)
	}
	r.o.Progress(min(sum/r.work, 1), fmt.Sprintf("%s: %s (%d of %d runs done)", j.scenario, j.system, r.count, r.total))
}
