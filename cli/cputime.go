package cli

import (
	"syscall"
	"time"
)

// cpuTime is what the process has taken of all cores, user and system, or 0 if that
// can't be told.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
