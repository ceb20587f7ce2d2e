package cli

import (
	"syscall"
	"time"
)

// cpuTime returns the process's time on all cores, user and system, or 0 if it is not
// known.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
