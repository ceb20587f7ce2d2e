package simverbs

import (
	"errors"
	"sync"

	"github.com/sluice-rdma/sluice/units"
)

// ErrIdle is the error of a wait that can't end: every application waits without
// a timeout, and nothing is scheduled to happen.
var ErrIdle = errors.New("nothing is scheduled in the simulation and every application waits without a timeout")

// actors runs applications one at a time. The mutex guards the fields; the baton,
// the right to touch the world, belongs to the running actor.
type actors struct {
	mu      sync.Mutex
	world   *World
	all     []*actor
	running *actor // nil while none may run: outside Run, or with all actors outside
}

type actorState uint8

const (
	actorWaiting actorState = iota // for time or a condition of the world
	actorRunning
	actorOutside // in Blocking
	actorReady   // back from outside, or new
	actorDone
)

type actor struct {
	state actorState
	until units.Time
	ready func() bool // nil for a wait for time only
	idle  bool        // set when the wait was given up
	wake  chan struct{}
}

// Run implements verbs.Runner.
func (w *World) run(applications []func() error) error {
	a := &w.actors
	a.mu.Lock()
	if len(a.all) > 0 {
		a.mu.Unlock()
		return errors.New("simverbs: Run is active already: start all applications of a network with one call of verbs.Run")
	}
	errs := make([]error, len(applications))
	var wg sync.WaitGroup
	for range applications {
		a.all = append(a.all, &actor{state: actorReady, wake: make(chan struct{}, 1)})
	}
	for i, f := range applications {
		me := a.all[i]
		wg.Go(func() {
			<-me.wake
			// A panic must not leave the others waiting for ever; it still ends
			// the program.
			defer a.leave(me)
			errs[i] = f()
		})
	}
	a.dispatch()
	a.mu.Unlock()
	wg.Wait()
	a.mu.Lock()
	a.all, a.running = nil, nil
	a.mu.Unlock()
	return errors.Join(errs...)
}

func (a *actors) leave(me *actor) {
	a.mu.Lock()
	me.state = actorDone
	a.running = nil
	a.dispatch()
	a.mu.Unlock()
}

// dispatch gives the baton to the next actor that can run, and advances the
// simulation until there is one. The caller holds the mutex and has given up the
// baton. If all remaining actors are outside, no actor gets the baton.
func (a *actors) dispatch() {
	e := a.world.engine
	for {
		earliest, waiting, outside := units.Never, false, false
		for _, c := range a.all {
			switch c.state {
			case actorReady:
				a.resume(c)
				return
			case actorWaiting:
				if c.until <= e.Now() || c.ready != nil && c.ready() {
					a.resume(c)
					return
				}
				earliest, waiting = min(earliest, c.until), true
			case actorOutside:
				outside = true
			}
		}
		switch next := e.Next(); {
		case next != units.Never && next <= earliest:
			e.Step()
		case earliest != units.Never:
			e.RunUntil(earliest)
		case !waiting || outside:
			return // all done, or it is for those outside to go on
		default:
			for _, c := range a.all {
				if c.state == actorWaiting {
					c.idle = true
					a.resume(c)
					return
				}
			}
		}
	}
}

func (a *actors) resume(c *actor) {
	c.state = actorRunning
	a.running = c
	c.wake <- struct{}{}
}

// wait lets simulated time pass until the given instant, or until ready holds,
// and returns ErrIdle if neither can come. Outside Run the caller drives the
// simulation itself.
func (w *World) wait(until units.Time, ready func() bool) error {
	a := &w.actors
	a.mu.Lock()
	me := a.running
	if me == nil {
		defer a.mu.Unlock()
		return w.waitAlone(until, ready)
	}
	me.state, me.until, me.ready, me.idle = actorWaiting, until, ready, false
	a.running = nil
	a.dispatch()
	a.mu.Unlock()
	<-me.wake
	if me.idle {
		return ErrIdle
	}
	return nil
}

func (w *World) waitAlone(until units.Time, ready func() bool) error {
	e := w.engine
	for e.Now() < until && (ready == nil || !ready()) {
		switch next := e.Next(); {
		case next <= until && next != units.Never:
			e.Step()
		case until == units.Never:
			return ErrIdle
		default:
			e.RunUntil(until)
		}
	}
	return nil
}

// blocking runs f while other actors go on.
func (w *World) blocking(f func()) {
	a := &w.actors
	a.mu.Lock()
	me := a.running
	if me == nil {
		a.mu.Unlock()
		f()
		return
	}
	me.state = actorOutside
	a.running = nil
	a.dispatch()
	a.mu.Unlock()
	f()
	a.mu.Lock()
	me.state = actorReady
	if a.running == nil {
		a.dispatch()
	}
	a.mu.Unlock()
	<-me.wake
}
