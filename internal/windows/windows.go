// Package windows runs a divided network (package fabric) on several workers.
//
// Workers take nodes from a common list, a few at a time, and wait for each other
// at the end of each window. What they do does not depend on which of them takes
// which, so that any number of workers gives the same results.
package windows

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Run runs a divided network and the engine that it was made on up to and
// including the given time, or until Stop is called on the engine. It does what
// RunUntil does for one that is not divided: the engine's events see the network
// as it is at their time. settle is called after each window, with the engine's Now
// there. The network has a lane for each worker.
//
// Run is to be called from the goroutine of the engine. Workers beside it are
// goroutines, which end before Run returns.
func Run(e *des.Engine, d *fabric.Division, workers int, until units.Time, settle func()) {
	c := newCrew(d, workers)
	defer c.dismiss()
	e.RunUntil(e.Now())
	for !e.Stopped() {
		outside := e.Next()
		limit := min(until, outside)
		if next := d.Next(); next <= limit && next != units.Never {
			end := limit
			if limit != units.Never {
				end++
			}
			d.Begin(end)
			c.run()
			// All is done that comes before the end.
			e.Advance(min(max(e.Now(), d.End()-1), limit))
			settle()
			continue
		}
		if outside > until || outside == units.Never {
			e.RunUntil(until)
			return
		}
		e.RunUntil(outside)
	}
}

// crew is the workers of a run, the caller among them.
type crew struct {
	d       *fabric.Division
	nodes   int
	batch   int
	workers int

	_      [64]byte
	next   atomic.Int64 // the first node that nobody has taken
	_      [64]byte
	window atomic.Uint64 // that has begun; the last one ends all
	_      [64]byte
	busy   atomic.Int64 // workers beside the caller that are not done with it
	over   atomic.Bool

	mu   sync.Mutex
	wake sync.Cond
	gone sync.WaitGroup
}

// fewestBatches is how many times a worker comes for nodes in a window, so that
// none waits long for the last.
const fewestBatches = 32

// spins is how often a worker looks for the next window before it sleeps: as long
// as the others take, which is microseconds.
const spins = 4000

func newCrew(d *fabric.Division, workers int) *crew {
	c := &crew{d: d, nodes: d.Nodes(), workers: workers}
	c.batch = max(1, c.nodes/(workers*fewestBatches))
	c.wake.L = &c.mu
	for i := 1; i < workers; i++ {
		c.gone.Add(1)
		go c.worker(i)
	}
	return c
}

// run runs a window that has begun.
func (c *crew) run() {
	if c.workers == 1 {
		c.d.Run(0, 0, c.nodes)
		return
	}
	c.next.Store(0)
	c.busy.Store(int64(c.workers - 1))
	c.announce()
	c.work(0)
	for i := 0; c.busy.Load() > 0; i++ {
		if i >= spins {
			runtime.Gosched()
		}
	}
}

func (c *crew) announce() {
	c.mu.Lock()
	c.window.Add(1)
	c.wake.Broadcast()
	c.mu.Unlock()
}

func (c *crew) worker(lane int) {
	defer c.gone.Done()
	for seen := uint64(0); ; seen++ {
		for i := 0; c.window.Load() == seen; i++ {
			if i < spins {
				continue
			}
			c.mu.Lock()
			for c.window.Load() == seen {
				c.wake.Wait()
			}
			c.mu.Unlock()
		}
		if c.over.Load() {
			return
		}
		c.work(lane)
		c.busy.Add(-1)
	}
}

// work takes nodes until there are none.
func (c *crew) work(lane int) {
	for {
		last := int(c.next.Add(int64(c.batch)))
		first := last - c.batch
		if first >= c.nodes {
			return
		}
		c.d.Run(lane, first, min(last, c.nodes))
	}
}

func (c *crew) dismiss() {
	c.over.Store(true)
	c.announce()
	c.gone.Wait()
}
