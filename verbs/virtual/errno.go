//go:build linux

package virtual

import (
	"errors"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// causes are what the kernel's write returns for errors of the back end.
var causes = []struct {
	err   error
	errno syscall.Errno
}{
	{verbs.ErrBusy, syscall.EBUSY},
	{verbs.ErrNotSupported, syscall.EOPNOTSUPP},
	{verbs.ErrQueueFull, syscall.ENOMEM},
	{verbs.ErrAccess, syscall.EFAULT},
	{verbs.ErrClosed, syscall.EIO},
	{verbs.ErrNoDevice, syscall.EIO}, // as the kernel has it for a device that was removed
	{verbs.ErrState, syscall.EINVAL},
	{verbs.ErrInvalid, syscall.EINVAL},
}

func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.errno
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EINVAL
}
