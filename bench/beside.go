package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// Systems of a scenario share nothing that they change, so they run beside each other.
// What they hand over comes in their order, as if they had run one after the other.

// outcome is the result of a system's run.
type outcome struct {
	system *results.System
	end    units.Time
	err    error
}

// jobs is the number of systems run at once: by workers, by memory, and one where what they
// write can't be put in order, or where they run programs, which use the terminal.
//
// The first may take all memory; beside it, each is counted with twice what its network
// takes at least, because connections come on top.
func (o *Options) jobs(s *scenario.Scenario) int {
	if o.Packets != nil || o.NICTrace != nil || o.NICVCD != nil || len(s.Programs) > 0 {
		return 1
	}
	n := min(o.Workers, len(s.Systems))
	if o.Memory > 0 {
		n = min(n, int(o.Memory/(2*s.LeastMemory())))
	}
	return max(n, 1)
}

// errDropped ends the run of a system that nobody waits for: one before it failed.
var errDropped = errors.New("an earlier system failed")

// inOrder runs run for 0 to n-1, up to jobs of them at a time, and hands each outcome to
// take, in order, up to the first with an error, which it returns. A run that fails ends
// the runs after it; the runs before it go on. All have ended when inOrder returns.
//
// With one job everything happens in the caller's goroutine.
func inOrder(n, jobs int, run func(i int, t *slot) outcome, take func(outcome)) error {
	if jobs == 1 {
		for i := range n {
			o := run(i, nil)
			if o.err != nil {
				return o.err
			}
			take(o)
		}
		return nil
	}
	slots, ended := make([]*slot, n), make([]chan outcome, n)
	for i := range n {
		slots[i] = &slot{come: make(chan struct{}), dropped: make(chan struct{})}
		ended[i] = make(chan outcome, 1)
	}
	var drop sync.Mutex
	left := n // those from here on are dropped
	dropFrom := func(i int) {
		drop.Lock()
		defer drop.Unlock()
		for ; left > i; left-- {
			close(slots[left-1].dropped)
		}
	}
	next := make(chan int)
	var crew sync.WaitGroup
	for range jobs {
		crew.Go(func() {
			for i := range next {
				o := outcome{err: errDropped}
				if !slots[i].over() {
					o = run(i, slots[i])
				}
				if o.err != nil {
					dropFrom(i + 1)
				}
				ended[i] <- o
			}
		})
	}
	crew.Go(func() {
		defer close(next)
		for i := range n {
			next <- i
		}
	})
	defer crew.Wait()
	for i := range n {
		close(slots[i].come)
		o := <-ended[i] // of one that was interrupted, what it wrote until then counts
		if err := slots[i].flush(); o.err == nil {
			o.err = err
		}
		if o.err != nil {
			dropFrom(i + 1)
			return o.err
		}
		take(o)
	}
	return nil
}

// slot is a run's place among those beside it. What it writes before its turn is kept, and
// when that is much, it waits.
type slot struct {
	come    chan struct{} // closed when those before have ended
	dropped chan struct{} // closed when one of them has failed
	kept    []func() error
}

// keptRows is the number of rows a run keeps before it waits, some 20 MB.
const keptRows = 1 << 16

// over reports whether nobody waits for the run.
func (t *slot) over() bool {
	select {
	case <-t.dropped:
		return true
	default:
		return false
	}
}

// write writes a row by now if it is the run's turn; otherwise it keeps the function that
// keep returns, which writes a copy.
func (t *slot) write(now func() error, keep func() func() error) error {
	if len(t.kept) < keptRows {
		select {
		case <-t.come:
		default:
			t.kept = append(t.kept, keep())
			return nil
		}
	}
	select {
	case <-t.dropped:
		return errDropped
	case <-t.come:
	}
	if err := t.flush(); err != nil {
		return err
	}
	return now()
}

// flush writes what was kept.
func (t *slot) flush() error {
	for _, write := range t.kept {
		if err := write(); err != nil {
			return err
		}
	}
	t.kept = nil
	return nil
}

// ordered returns options by which a system writes in its turn, and not while mu is held.
func (o *Options) ordered(t *slot, mu *sync.Mutex) *Options {
	if t == nil {
		return o
	}
	mine := *o
	flow := func(r *results.FlowRecord) error {
		mu.Lock()
		defer mu.Unlock()
		return o.Flows(r)
	}
	series := func(r *results.SeriesRow) error {
		mu.Lock()
		defer mu.Unlock()
		return o.Series(r)
	}
	if o.Flows != nil {
		mine.Flows = func(r *results.FlowRecord) error {
			return t.write(func() error { return flow(r) }, func() func() error {
				c := *r
				for _, f := range []**float64{&c.FCTUs, &c.IdealUs, &c.Slowdown, &c.ThroughputGbps, &c.RTTAvgUs, &c.RTTMaxUs} {
					if *f != nil {
						value := **f
						*f = &value
					}
				}
				return func() error { return flow(&c) }
			})
		}
	}
	if o.Series != nil {
		mine.Series = func(r *results.SeriesRow) error {
			return t.write(func() error { return series(r) }, func() func() error {
				c := *r
				c.Values, c.Max = slices.Clone(r.Values), slices.Clone(r.Max)
				return func() error { return series(&c) }
			})
		}
	}
	mine.Interrupted = func() error {
		if t.over() {
			return errDropped
		}
		if o.Interrupted != nil {
			return o.Interrupted()
		}
		return nil
	}
	return &mine
}

// progress puts together how far systems are that run beside each other.
type progress struct {
	mu      sync.Mutex
	systems []*scenario.System
	done    []float64
	tell    func(done float64, what string)
}

func newProgress(s *scenario.Scenario, tell func(float64, string)) *progress {
	return &progress{systems: s.Systems, done: make([]float64, len(s.Systems)), tell: tell}
}

// of notes what share of system i is done.
func (p *progress) of(i int, done float64) {
	if p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = done
	sum := 0.0
	var names, numbers []string
	for j, d := range p.done {
		sum += d
		if j == i || d > 0 && d < 1 {
			names, numbers = append(names, p.systems[j].Name), append(numbers, strconv.Itoa(j+1))
		}
	}
	p.tell(sum/float64(len(p.systems)), fmt.Sprintf("%s (%s of %d)", strings.Join(names, ", "), strings.Join(numbers, ", "), len(p.systems)))
}
