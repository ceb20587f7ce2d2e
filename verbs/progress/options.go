package progress

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Options say how much of a processor the thread may take to be punctual. A zero
// field takes its default.
type Options struct {
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
func (o Options) resolve() (Options, error) {
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
		return o, fmt.Errorf("progress: Spin is %v: give at most 1ms, or a negative span to never spin", o.Spin)
	case o.Look < time.Microsecond || o.Look > time.Second:
		return o, fmt.Errorf("progress: Look is %v: give 1us to 1s, or 0 for %v", o.Look, defaultLook)
	}
	return o, nil
}

// Start is Options.Start with the defaults.
func Start(s *paced.Shim) (stop func() error, err error) { return Options{}.Start(s) }

// Start starts a thread that makes the progress of s, which may have one such
// thread. stop ends the thread and waits until it has ended. It returns the error
// of the last Progress that failed, if one did; a failure does not end the thread.
// Call it once, before s is closed.
//
// Start fails with verbs.ErrNotSupported on a simulated device, whose time does not
// pass for a thread, and on systems other than Linux.
func (o Options) Start(s *paced.Shim) (stop func() error, err error) {
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
	t := &thread{shim: s, alarm: a, Options: o, done: make(chan struct{})}
	go t.run()
	return t.stop, nil
}

var errTwice = errors.New("progress: the thread is stopped already")
