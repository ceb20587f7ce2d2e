//go:build linux

package virtual

import (
	"errors"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// causes maps errors of the back end to those of the kernel's write.
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
	if op := (*verbs.OpError)(nil); errors.As(err, &op) && errors.Is(err, verbs.ErrBusy) && makes(op.Op) {
		return syscall.ENOMEM // a device that holds as many as it can, as mlx5 has it
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

// makes reports whether an operation is one that makes an object.
func makes(op string) bool {
	return strings.HasPrefix(op, "create_") || strings.HasPrefix(op, "alloc_") || strings.HasPrefix(op, "reg_")
}
