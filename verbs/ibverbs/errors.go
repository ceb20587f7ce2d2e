//go:build ibverbs

package ibverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// A cause is an errno together with that cause of package verbs which it means.
// errors.Is finds either.
type cause struct {
	errno syscall.Errno
	means error
}

func (c *cause) Error() string { return c.errno.Error() }

func (c *cause) Unwrap() []error {
	if c.means == nil {
		return []error{c.errno}
	}
	return []error{c.means, c.errno}
}

// meanings are those of errnos, unless the operation knows better.
var meanings = map[syscall.Errno]error{
	syscall.EINVAL: verbs.ErrInvalid, syscall.EFAULT: verbs.ErrInvalid, syscall.ERANGE: verbs.ErrInvalid,
	syscall.EBUSY:  verbs.ErrBusy,
	syscall.ENODEV: verbs.ErrNoDevice, syscall.ENXIO: verbs.ErrNoDevice, syscall.ENOENT: verbs.ErrNoDevice,
	syscall.EOPNOTSUPP: verbs.ErrNotSupported, syscall.ENOSYS: verbs.ErrNotSupported,
	syscall.EPROTONOSUPPORT: verbs.ErrNotSupported, syscall.ENOTTY: verbs.ErrNotSupported,
	syscall.ETIMEDOUT: verbs.ErrTimeout, syscall.EAGAIN: verbs.ErrTimeout,
}

// mends say what to do about errnos that have more to do with the machine than
// with the call.
var mends = map[syscall.Errno]string{
	syscall.EPERM:  "the process may not do this: it needs CAP_NET_RAW, or access to /dev/infiniband/uverbs*",
	syscall.EACCES: "no access: give the user read and write access to /dev/infiniband/uverbs*",
	syscall.ENODEV: "the device has gone: see ibv_devices, and dmesg for a reset",
	syscall.EIO:    "the device or its driver failed: see dmesg",
	syscall.EMFILE: "too many open files: raise `ulimit -n`",
}

// locked is the mend of what fails for want of locked memory: libibverbs'
// drivers lock the buffers of queues, and reg_mr the region.
const locked = "no memory, or none that may be locked: see `ulimit -l`, and raise memlock in /etc/security/limits.conf or the unit's LimitMEMLOCK"

// fail returns the error of an operation whose errno is not 0. The detail may be
// empty: then it is the mend of the errno, if there is one.
func fail(op, object string, errno int, format string, args ...any) error {
	e := syscall.Errno(errno)
	detail := fmt.Sprintf(format, args...)
	switch {
	case detail != "":
	case e == syscall.ENOMEM && op != "post_send" && op != "post_recv":
		detail = locked
	default:
		detail = mends[e]
	}
	return &verbs.OpError{Op: op, Object: object, Detail: detail, Err: &cause{e, meanings[e]}}
}

// as returns err with another meaning.
func as(err, means error) error {
	var op *verbs.OpError
	var c *cause
	if errors.As(err, &op) && errors.As(op.Err, &c) {
		return &verbs.OpError{Op: op.Op, Object: op.Object, Detail: op.Detail, Err: &cause{c.errno, means}}
	}
	return err
}
