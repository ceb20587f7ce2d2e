package storm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Process is one incarnation of a process, as its program sees it. Only its program
// may use it.
type Process struct {
	ID          int        // from 0 on
	Processes   int        // how many there are
	Incarnation int        // how often it has crashed
	Rand        *rand.Rand // depends on the seed, ID and Incarnation alone

	run     *run
	dev     verbs.Device // the provider's
	ward    *ward
	guard   *guard
	stats   paced.QPStats
	engines *rand.Rand     // of erratic engines
	faults  fault.Schedule // crashes and stalls ahead, by their instant
	dead    bool
	over    bool // the program has ended
	inbox   []letter

	qps   map[verbs.QP]*guardQP
	byNum map[uint32]*guardQP
	cqs   map[verbs.CQ]*guardCQ

	onCrash []func()
}

// letter is a message on its way to a process.
type letter struct {
	at   units.Time
	from int
	msg  any
}

// letterDelay is how long a message between processes takes.
const letterDelay = 20 * units.Microsecond

func (r *run) process(id int) *Process {
	p := &Process{ID: id, Processes: r.cfg.Processes, run: r, dev: r.devices[id]}
	for _, f := range r.cfg.Faults {
		if f.A == id && (f.Kind == fault.Crash || f.Kind == fault.Stall) {
			p.faults = append(p.faults, f)
		}
	}
	slices.SortStableFunc(p.faults, func(a, b fault.Fault) int { return int(min(1, max(-1, a.At-b.At))) })
	return p
}

// live runs the program, anew after each crash.
func (p *Process) live() (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.run.panicked(v)
		}
	}()
	for {
		again, err := p.incarnate()
		p.dead = true
		if p.run.over() {
			_ = p.ward.takeAway()
			return nil
		}
		if !again {
			return err
		}
	}
}

// incarnate runs the program once, and reports whether it has crashed.
func (p *Process) incarnate() (crashed bool, err error) {
	p.Rand = newRand(p.run.cfg.Seed, p.ID, p.Incarnation)
	p.engines = newRand(p.run.cfg.Seed^0xe44a, p.ID, p.Incarnation)
	p.ward = &ward{
		Device: p.dev, clock: newNICClock(p.dev.Attr().CoreClockHz, p.ID, p.run.cfg.Faults), host: p.ID, watch: p.run.observer,
		qps: map[verbs.QP]verbs.QP{}, cqs: map[verbs.CQ]*wardCQ{}, srqs: map[verbs.SRQ]*wardSRQ{}, paces: map[uint32]*pace{}, lanes: map[string]*lane{}, p: p, tells: map[uint32]verbs.TelemetryQP{}, later: p.run.observer != nil && p.run.observer.start > 0,
	}
	p.qps, p.byNum, p.cqs = map[verbs.QP]*guardQP{}, map[uint32]*guardQP{}, map[verbs.CQ]*guardCQ{}
	p.dead, p.onCrash = false, nil
	for len(p.inbox) > 0 && p.inbox[0].at < p.Now() {
		p.inbox = p.inbox[1:] // they found nobody
	}
	shim, err := p.run.shim(p)
	if err != nil {
		return false, err
	}
	p.guard = &guard{shim, p}
	err, crashed = p.call()
	switch {
	case p.run.over():
	case crashed:
		down := p.faults[0]
		p.faults = p.faults[1:]
		if err := p.ward.takeAway(); err != nil {
			p.Failf("%v", err)
			return false, nil
		}
		for _, f := range p.onCrash {
			f()
		}
		verbs.Sleep(p.dev, down.For.Duration())
		p.Incarnation++
		return true, nil
	case err != nil:
		p.Failf("%v", err)
	default:
		p.ended(shim)
	}
	return false, nil
}

// ended sees that nothing of a program that has ended remains.
func (p *Process) ended(shim verbs.Device) {
	p.over = true
	p.run.result.End = max(p.run.result.End, p.Now())
	for _, f := range p.onCrash {
		f()
	}
	if s, ok := shim.(*paced.Shim); ok {
		p.ward.counted(s)
	}
	if err := shim.Close(); err != nil {
		p.Failf("process %d has ended, and its device can't be closed: %v", p.ID, err)
		return
	}
	if n, err := p.ward.left(); n > 0 || err != nil {
		p.Failf("process %d has ended and closed its device, and %d objects remained (%v)", p.ID, n, err)
	}
}

// call calls the program, through which a crash passes as a panic.
func (p *Process) call() (err error, crashed bool) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case errCrash:
			crashed = true
		case errStop:
		default:
			p.run.panicked(v)
		}
	}()
	return p.run.cfg.Program(p), false
}

// enter is called at each call of the program. It reports whether the process is alive,
// and does not return if this is where it crashes.
func (p *Process) enter() bool {
	if p.dead {
		return false
	}
	for len(p.faults) > 0 && p.faults[0].At <= p.run.engine.Now() {
		if p.faults[0].Kind == fault.Crash {
			p.dead = true
			panic(errCrash)
		}
		pause := p.faults[0].For
		p.faults = p.faults[1:]
		verbs.Sleep(p.dev, pause.Duration())
	}
	switch now := p.run.engine.Now(); {
	case p.run.over():
		p.dead = true
		panic(errStop)
	case now > p.run.cfg.Span+p.run.cfg.Grace:
		p.dead = true
		p.run.failf("process %d has not ended, %v after the last fault", p.ID, p.run.cfg.Grace)
		panic(errStop)
	}
	return true
}

// next is when enter has something to do.
func (p *Process) next() units.Time {
	at := p.run.cfg.Span + p.run.cfg.Grace + units.Nanosecond
	if len(p.faults) > 0 {
		at = min(at, p.faults[0].At)
	}
	return at
}

// bounded runs a wait of the device for so long at most, in parts between which the
// process may crash.
func (p *Process) bounded(timeout time.Duration, op string, wait func(time.Duration) error) error {
	end := units.Never
	if timeout >= 0 {
		end = p.run.engine.Now() + units.FromDuration(timeout)
	}
	for {
		if !p.enter() {
			return closed(op)
		}
		now := p.run.engine.Now()
		d := max(min(end, p.next())-now, 0) // enter may have let time pass
		// A nanosecond more, so that the instant has come.
		err := wait(d.Duration() + time.Duration(min(1, d)))
		if err == nil || p.run.engine.Now() >= end {
			return err
		}
		if p.run.engine.Now() < p.next() {
			return err
		}
	}
}

// Device is the device of the process: the provider's, with the shim over it if the run
// has one. It is a verbs.Runner.
func (p *Process) Device() verbs.Device { return p.guard }

// Now is simulated time.
func (p *Process) Now() units.Time { return p.run.engine.Now() }

// Calm reports whether nothing goes wrong any more.
func (p *Process) Calm() bool { return p.Now() > p.run.cfg.Span }

// Address is the address of a process's device.
func (p *Process) Address(id int) netip.Addr {
	a, err := p.run.devices[id].GID(1, 0)
	if err != nil {
		p.Failf("process %d: %v", id, err)
	}
	return a
}

// Sleep lets simulated time pass.
func (p *Process) Sleep(d time.Duration) {
	_ = p.bounded(d, "sleep", func(d time.Duration) error {
		verbs.Sleep(p.dev, d)
		return verbs.ErrTimeout // it sleeps to the end
	})
}

// Failf makes the run fail, at the next call of any program. Only the first failure of
// a run counts.
func (p *Process) Failf(format string, args ...any) {
	p.run.failf("process %d: %s", p.ID, fmt.Sprintf(format, args...))
}

// Send sends a message to a process outside of RDMA, as by TCP: it comes 20 us later, in
// order, unless the process is down by then. The message must not be changed afterwards.
func (p *Process) Send(to int, msg any) {
	if !p.enter() {
		return
	}
	q := p.run.procs[to]
	q.inbox = append(q.inbox, letter{p.Now() + letterDelay, p.ID, msg})
}

// Receive returns the next message that has come and its sender; ok is false if there
// is none. It does not wait.
func (p *Process) Receive() (from int, msg any, ok bool) {
	if !p.enter() || len(p.inbox) == 0 || p.inbox[0].at > p.Now() {
		return 0, nil, false
	}
	l := p.inbox[0]
	p.inbox = p.inbox[1:]
	return l.from, l.msg, true
}
