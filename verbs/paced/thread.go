package paced

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Thread is a thread that makes the progress of a Shim, for a program that calls the
// Shim too rarely: one that computes between its calls, sleeps on a file descriptor of
// its own, or waits for something other than the device.
//
//	stop, err := paced.Thread{}.Start(shim)
//	...
//	err = stop()
//
// The thread sleeps in the kernel while the shim has nothing to do, until a post, a
// poll or a change of state gives it something. While segments wait for their pace,
// it sleeps until shortly before the next is due and spins for the rest, since a
// kernel's sleep ends late and a segment that leaves more than 10 us late costs its
// flow some of its rate. While segments are with the NIC it polls for completions
// at intervals.
//
// A program that polls or waits all the time needs none of this, and pays for a
// thread that competes for the shim's lock if it has it.
//
// The fields say how much of a processor the thread may take to be punctual. A zero
// field takes its default.
type Thread struct {
	// Spin is the time before a deadline at which the thread stops sleeping and looks at
	// the clock instead. It should cover how late the kernel wakes a thread; a
	// flow whose segments are less than Spin apart keeps a processor busy. The
	// default is 30 us; a negative one never spins, and deadlines are met as well
	// as the kernel wakes the thread. At most 1 ms.
	Spin time.Duration
	// Look is the time for which the thread leaves completions unseen while segments are
	// with the NIC. They are then too late by up to this as round trips, unless
	// the NIC gives timestamps, and a window that is full opens as much later. The
	// default is 50 us; from 1 us to 1 s.
	Look time.Duration
}

const (
	defaultSpin = 30 * time.Microsecond
	defaultLook = 50 * time.Microsecond
)

// resolve puts the defaults in, or says what is out of range.
func (o Thread) resolve() (Thread, error) {
	switch {
	case o.Spin == 0:
		o.Spin = defaultSpin
	case o.Spin < 0:
		o.Spin = 0
	}
	if o.Look == 0 {
		o.Look = defaultLook
	}
	switch {
	case o.Spin > time.Millisecond:
		return o, fmt.Errorf("paced: Spin is %v: give at most 1ms, or a negative span to never spin", o.Spin)
	case o.Look < time.Microsecond || o.Look > time.Second:
		return o, fmt.Errorf("paced: Look is %v: give 1us to 1s, or 0 for %v", o.Look, defaultLook)
	}
	return o, nil
}

// Start starts a thread that makes the progress of s, which may have one such
// thread. stop ends the thread and waits until it has ended. It returns the error
// of the last Progress that failed, if one did; a failure does not end the thread.
// Call it once, before s is closed.
//
// Start fails with verbs.ErrNotSupported on a simulated device, whose time does not
// pass for a thread, and on systems other than Linux.
func (o Thread) Start(s *Shim) (stop func() error, err error) {
	o, err = o.resolve()
	if err != nil {
		return nil, err
	}
	if _, simulated := s.Unwrap().(verbs.PreciseClock); simulated {
		return nil, verbs.Errorf("progress", s.Name(), verbs.ErrNotSupported, "the time of this device is simulated: call Progress at Deadline from its driver, or poll")
	}
	a, err := newAlarm()
	if err != nil {
		return nil, verbs.Errorf("progress", s.Name(), err, "no alarm for the thread")
	}
	t := &thread{shim: s, alarm: a, Thread: o, done: make(chan struct{})}
	go t.run()
	return t.stop, nil
}

var errStopped = errors.New("paced: the thread is stopped already")

type thread struct {
	Thread
	shim  *Shim
	alarm *alarm
	ended atomic.Bool
	done  chan struct{}
	err   error // of the last Progress that failed
}

// run is the thread. It has one of the system's to itself, as its sleeps are the
// kernel's: those of the runtime end up to a millisecond late.
func (t *thread) run() {
	runtime.LockOSThread()
	defer close(t.done)
	t.alarm.sharpen()
	spin, look := units.FromDuration(t.Spin), units.FromDuration(t.Look)
	for !t.ended.Load() {
		if err := t.shim.Progress(t.shim.Clock()); err != nil {
			t.err = err
		}
		until := t.shim.Rest(look, t.alarm.ring)
		if until == units.LongNever {
			t.alarm.wait(-1)
			continue
		}
		if left := until.Sub(t.shim.Clock()) - spin; left > 0 {
			if t.alarm.wait(left.Duration()) {
				continue // something else is due earlier
			}
		}
		for t.shim.Clock().Before(until) && !t.alarm.rung.Load() {
			spinOnce()
		}
	}
	t.shim.Rest(0, nil)
}

func (t *thread) stop() error {
	if t.ended.Swap(true) {
		return errStopped
	}
	t.alarm.ring()
	<-t.done
	t.alarm.close()
	return t.err
}

// spinOnce lets the other goroutines of a program with one processor run.
func spinOnce() {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched()
	}
}
