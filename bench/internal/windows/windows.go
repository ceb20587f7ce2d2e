// Package windows runs networks (package fabric): one that is not divided by its
// engine, a divided one in windows on a worker for each of its lanes.
//
// Each worker has a share of the nodes, and helps others when it is done with that;
// they wait for each other at the end of each window. What is done does not depend on
// who does it, so that any number of workers gives the same results.
package windows

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Run runs a network and the engine that it was made on up to and including the given
// time, or until Stop is called on the engine. The engine's events see the network in
// its state at their time.
//
// Call Run from the goroutine of the engine. The other workers are goroutines,
// which end before Run returns.
func Run(e *des.Engine, n *fabric.Network, until units.Time) {
	d := n.Division()
	if d == nil {
		e.RunUntil(until)
		return
	}
	c := newCrew(n, d, n.Lanes())
	defer c.dismiss()
	e.RunUntil(e.Now())
	for !e.Stopped() {
		if d.Begin(until) {
			c.run()
			d.End()
			continue
		}
		outside := e.Next()
		if outside > until || outside == units.Never {
			e.RunUntil(until)
			return
		}
		e.Step() // and first what it makes due at once
	}
}

// crew is the workers of a run, the caller among them.
type crew struct {
	n       *fabric.Network
	d       *fabric.Division
	last    uint64 // events of the window before
	workers int
	shares  [][]share // by Turn

	_      [64]byte
	window atomic.Uint64 // that has started; the last one ends the run
	_      [64]byte
	busy   atomic.Int64 // workers besides the caller that are not done with it
	over   atomic.Bool

	mu   sync.Mutex
	wake sync.Cond
	gone sync.WaitGroup
}

// share is the nodes that a worker runs, so that it finds in its cache what it left
// there in the window before. It takes them from the front; others, when they are
// done with their own, from the back.
type share struct {
	first, last int           // all
	left        atomic.Uint64 // the first node that is not taken yet and, from bit 32 on, the end of the nodes
	batch       int
	_           [64]byte
}

// batches is how many times a worker comes for nodes in a window, so that none waits
// long for the last.
const batches = 32

// spins is how often a worker looks for the next window before it sleeps: as long
// as the others take, which is microseconds.
const spins = 4000

func newCrew(n *fabric.Network, d *fabric.Division, workers int) *crew {
	c := &crew{n: n, d: d, workers: workers, shares: make([][]share, d.Turns())}
	for turn := range d.Turns() {
		shares := make([]share, workers)
		for i, first := 0, 0; i < workers; i++ {
			s := &shares[i]
			s.first, s.last = first, d.Split(turn, i+1, workers)
			s.batch = max(1, (s.last-s.first)/batches)
			first = s.last
		}
		c.shares[turn] = shares
	}
	c.wake.L = &c.mu
	for i := 1; i < workers; i++ {
		c.gone.Add(1)
		go c.worker(i)
	}
	return c
}

// refill gives a share all its nodes.
func (s *share) refill() { s.left.Store(uint64(s.first) | uint64(s.last)<<32) }

// take takes some nodes, from the front or from the back.
func (s *share) take(front bool) (first, last int, ok bool) {
	for {
		old := s.left.Load()
		first, last = int(uint32(old)), int(old>>32)
		if first >= last {
			return 0, 0, false
		}
		rest := old
		if front {
			last = min(first+s.batch, last)
			rest += uint64(last - first)
		} else {
			first = max(last-s.batch, first)
			rest -= uint64(last-first) << 32
		}
		if s.left.CompareAndSwap(old, rest) {
			return first, last, true
		}
	}
}

// alone is how many events the window before had at most for the caller to run the next
// one by itself: some 100 us of work. Less is soon done, and others that have no core just
// then would be waited for much longer.
var alone uint64 = 1000

// run runs a window that has started.
func (c *crew) run() {
	if c.workers == 1 {
		c.d.Run(0, 0, c.d.Nodes())
		return
	}
	before := c.n.Events()
	defer func() { c.last = c.n.Events() - before }()
	if c.last < alone {
		c.d.Run(0, 0, c.d.Nodes())
		return
	}
	shares := c.shares[c.d.Turn()]
	for i := range shares {
		shares[i].refill()
	}
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

// work runs nodes until none is left.
func (c *crew) work(lane int) {
	shares := c.shares[c.d.Turn()]
	for i := range c.workers {
		s := &shares[(lane+i)%c.workers]
		for {
			first, last, ok := s.take(i == 0)
			if !ok {
				break
			}
			c.d.Run(lane, first, last)
		}
	}
}

func (c *crew) dismiss() {
	c.over.Store(true)
	c.announce()
	c.gone.Wait()
}
