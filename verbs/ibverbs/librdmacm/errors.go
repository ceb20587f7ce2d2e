//go:build ibverbs

package librdmacm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// A cause is an errno together with that cause of package verbs which it means.
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

var meanings = map[syscall.Errno]error{
	syscall.EINVAL: verbs.ErrInvalid, syscall.EADDRNOTAVAIL: verbs.ErrInvalid, syscall.EAFNOSUPPORT: verbs.ErrInvalid,
	syscall.ENETUNREACH: verbs.ErrInvalid,
	syscall.EBUSY:       verbs.ErrBusy, syscall.EADDRINUSE: verbs.ErrBusy,
	syscall.ENODEV: verbs.ErrNoDevice, syscall.ENXIO: verbs.ErrNoDevice, syscall.ENOENT: verbs.ErrNoDevice,
	syscall.EOPNOTSUPP: verbs.ErrNotSupported, syscall.ENOSYS: verbs.ErrNotSupported,
	syscall.ETIMEDOUT: verbs.ErrTimeout, syscall.EHOSTUNREACH: verbs.ErrTimeout,
}

var mends = map[syscall.Errno]string{
	syscall.EACCES: "no access: give the user read and write access to /dev/infiniband/rdma_cm; ports below 1024 need CAP_NET_BIND_SERVICE",
	syscall.EPERM:  "the process may not do this: give the user access to /dev/infiniband/rdma_cm",
	syscall.EMFILE: "too many open files: raise `ulimit -n`",
	syscall.ENODEV: "no RDMA device has the address, or the kernel has no rdma_cm: see `rdma link`, and load rdma_ucm",
}

// fail returns the error of an operation whose errno is not 0. The detail may be
// empty: then it is the mend of the errno, if there is one.
func fail(op, object string, errno int, format string, args ...any) error {
	e := syscall.Errno(errno)
	detail := fmt.Sprintf(format, args...)
	if detail == "" {
		detail = mends[e]
	}
	return &verbs.OpError{Op: op, Object: object, Detail: detail, Err: &cause{e, meanings[e]}}
}

// named gives an error that has no operation one.
func named(op, object string, err error) error {
	if o := (*verbs.OpError)(nil); errors.As(err, &o) {
		return err
	}
	return verbs.Errorf(op, object, err, "")
}
