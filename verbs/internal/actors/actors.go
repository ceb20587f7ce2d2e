// Package actors runs applications in simulated time, one at a time: the actor rule
// of verbs.Runner, for providers. An actor is a function on a goroutine of its own.
// When it waits, the actor with the lowest number of those whose wait is over runs
// next; when there is none, the simulation takes its next event.
package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// ErrIdle is the error of a wait that can't end: every application waits without
// a timeout, and nothing is scheduled to happen.
var ErrIdle = errors.New("nothing is scheduled in the simulation and every application waits without a timeout")

// Actors runs applications one at a time. The mutex guards the fields; the baton,
// the right to touch what is simulated, belongs to the running actor.
type Actors struct {
	engine  *des.Engine
	mu      sync.Mutex
	all     []*actor
	running *actor // nil while none may run: outside Run, or with all actors outside
	// now is the engine's time for goroutines that have no baton: scrapes of metrics.
	now atomic.Int64
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

// New returns actors of a simulation, which advances while all of them wait.
func New(e *des.Engine) *Actors { return &Actors{engine: e} }

// Running reports whether an actor runs.
func (a *Actors) Running() bool { return a.running != nil }

// Now is the time of the simulation, as far as it advances by waits. Any goroutine may call it
// at any time.
func (a *Actors) Now() units.Time { return units.Time(a.now.Load()) }

// step delivers the earliest event.
func (a *Actors) step() {
	a.now.Store(int64(a.engine.Next()))
	a.engine.Step()
}

// passTo lets time pass until an instant before which nothing is scheduled.
func (a *Actors) passTo(end units.Time) {
	a.now.Store(int64(end))
	a.engine.RunUntil(end)
}

// Run implements verbs.Runner.
func (a *Actors) Run(applications ...func() error) error {
	a.mu.Lock()
	if len(a.all) > 0 {
		a.mu.Unlock()
		return errors.New("verbs: Run is active already: start all applications of a network with one call of verbs.Run")
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

func (a *Actors) leave(me *actor) {
	a.mu.Lock()
	me.state = actorDone
	a.running = nil
	a.dispatch()
	a.mu.Unlock()
}

// dispatch gives the baton to the next actor that can run, and advances the
// simulation until there is one. The caller holds the mutex and has given up the
// baton. If all remaining actors are outside, no actor gets the baton.
func (a *Actors) dispatch() {
	e := a.engine
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
			a.step()
		case earliest != units.Never:
			a.passTo(earliest)
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

func (a *Actors) resume(c *actor) {
	c.state = actorRunning
	a.running = c
	c.wake <- struct{}{}
}

// Wait lets simulated time pass until the given instant, or until ready holds,
// and returns ErrIdle if neither can come. Outside Run the caller drives the
// simulation itself.
func (a *Actors) Wait(until units.Time, ready func() bool) error {
	a.mu.Lock()
	me := a.running
	if me == nil {
		defer a.mu.Unlock()
		return a.waitAlone(until, ready)
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

// WaitContext is Wait until ctx is done, too, whose error it then returns. An actor that
// cancels ctx ends the wait at that instant of the simulation.
func (a *Actors) WaitContext(ctx context.Context, until units.Time, ready func() bool) error {
	if ctx.Done() == nil {
		return a.Wait(until, ready)
	}
	// Nobody looks while all running actors are outside.
	stop := context.AfterFunc(ctx, a.onDone)
	defer stop()
	err := a.Wait(until, func() bool { return ready() || ctx.Err() != nil })
	if err == nil && !ready() {
		err = ctx.Err()
	}
	return err
}

// onDone gives the baton to an actor whose context is done, if nobody has it.
func (a *Actors) onDone() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != nil {
		return // who dispatches next finds it
	}
	for _, c := range a.all {
		if c.state == actorWaiting && c.ready != nil && c.ready() {
			a.resume(c)
			return
		}
	}
}

func (a *Actors) waitAlone(until units.Time, ready func() bool) error {
	e := a.engine
	for e.Now() < until && (ready == nil || !ready()) {
		switch next := e.Next(); {
		case next <= until && next != units.Never:
			a.step()
		case until == units.Never:
			return ErrIdle
		default:
			a.passTo(until)
		}
	}
	return nil
}

// Blocking implements verbs.Runner: it runs f while other actors go on.
func (a *Actors) Blocking(f func()) {
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
