package verbstest

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// readable waits up to limit for a descriptor to become readable, and reports whether it is.
func readable(fd int, limit time.Duration) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit/time.Millisecond))
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}
