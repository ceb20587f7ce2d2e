package virtual

import (
	"errors"
	"syscall"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// TestErrno checks programs' errors for errors of the device below.
func TestErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{verbs.Errorf("create_qp", "d", verbs.ErrBusy, "the device has 2 queue pairs and takes no more"), syscall.ENOMEM},
		{verbs.Errorf("create_cq", "d", verbs.ErrBusy, "it is full"), syscall.ENOMEM},
		{verbs.Errorf("alloc_pd", "d", verbs.ErrBusy, "it is full"), syscall.ENOMEM},
		{verbs.Errorf("reg_mr", "d", verbs.ErrBusy, "it is full"), syscall.ENOMEM},
		{verbs.Errorf("dealloc_pd", "d", verbs.ErrBusy, "a queue pair is made from it"), syscall.EBUSY},
		{verbs.Errorf("create_qp", "d", verbs.ErrInvalid, "too deep"), syscall.EINVAL},
		{verbs.Errorf("post_send", "d", verbs.ErrQueueFull, ""), syscall.ENOMEM},
		{verbs.Errorf("query_port", "d", verbs.ErrNoDevice, ""), syscall.EIO},
		{syscall.EAGAIN, syscall.EAGAIN},
		{errors.New("another"), syscall.EINVAL},
	} {
		if got := errnoOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
