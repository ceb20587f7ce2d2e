package turns

import (
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// schedulers counts the schedulers that run or have run in this process.
var schedulers atomic.Uint32

// stayOnOneProcessor keeps the calling goroutine, and the programs that it starts, on one of the processors that it
// may use, until what it returns is called. Turns pass from thread to thread, of which one runs at a time: on one
// processor that is a switch, between two it wakes one that sleeps, which takes longer. Schedulers of one process, and
// of processes begun one after the other, take different processors. Where the machine does not grant it nothing changes.
func stayOnOneProcessor() (release func()) {
	runtime.LockOSThread()
	var may, one unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || may.Count() == 0 {
		return runtime.UnlockOSThread
	}
	left := (os.Getpid() + int(schedulers.Add(1))) % may.Count()
	for cpu := 0; one.Count() == 0; cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if left == 0 {
			one.Set(cpu)
		}
		left--
	}
	if unix.SchedSetaffinity(0, &one) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &may) // it was so before
		runtime.UnlockOSThread()
	}
}
