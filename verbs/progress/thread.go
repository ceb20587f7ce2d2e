package progress

import (
	"runtime"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

type thread struct {
	Options
	shim  *paced.Shim
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
		return errTwice
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
