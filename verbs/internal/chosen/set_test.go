package chosen

import (
	"errors"
	"syscall"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Requests that the device refused do not count, and those of other queue pairs neither.
func TestRefusedPostsDoNotCount(t *testing.T) {
	var s Set
	s.Add(verbs.CallFailure{Call: verbs.FailPostSend, QP: 1, After: 3, Errno: syscall.ENOMEM})
	takes := func(most int) func(int) (int, error) {
		return func(n int) (int, error) {
			if n > most {
				return most, verbs.ErrQueueFull
			}
			return n, nil
		}
	}
	for i, c := range []struct {
		qpn       uint32
		n, takes  int
		want      int
		wantError error
	}{
		{2, 9, 9, 9, nil},
		{1, 2, 1, 1, verbs.ErrQueueFull},
		{1, 5, 1, 1, verbs.ErrQueueFull}, // 2 are left, of which it took 1
		{1, 1, 1, 1, nil},
		{1, 2, 9, 0, syscall.ENOMEM},
		{1, 2, 9, 2, nil},
	} {
		if n, err := s.PostSend(c.qpn, "qp", c.n, takes(c.takes)); n != c.want || !errors.Is(err, c.wantError) {
			t.Errorf("step %d: %d and %v, expected %d and %v", i, n, err, c.want, c.wantError)
		}
	}
}

// owner is a device of one queue pair.
type owner struct{ broken, broke bool }

func (o *owner) Break(uint32)       { o.broken, o.broke = true, true }
func (o *owner) Broken(uint32) bool { return o.broken }

// A queue pair that was reset completes as before, and two failures of it follow each other.
func TestResetAfterFailure(t *testing.T) {
	var s Set
	s.Add(verbs.CallFailure{Call: verbs.FailCompletion, QP: 1, Status: ib.WCFatalErr})
	s.Add(verbs.CallFailure{Call: verbs.FailCompletion, QP: 1, After: 1, Status: ib.WCRetryExcErr})
	o := &owner{}
	for i, c := range []struct {
		opcode ib.WCOpcode
		reset  bool
		want   ib.WCStatus
		vendor uint32
	}{
		{ib.WCRecv, false, ib.WCSuccess, 0},
		{0, false, ib.WCFatalErr, 0},
		{0, false, ib.WCWRFlushErr, 0xf9},
		{0, true, ib.WCSuccess, 0},
		{0, false, ib.WCRetryExcErr, 0x81},
		{0, false, ib.WCWRFlushErr, 0xf9},
	} {
		if c.reset {
			o.broken = false
		}
		w := verbs.WC{QPN: 1, Opcode: c.opcode}
		if s.Polled(&w, o); w.Status != c.want || w.VendorErr != c.vendor {
			t.Errorf("completion %d: %+v, expected %v and %#x", i, w, c.want, c.vendor)
		}
	}
	s.Add(verbs.CallFailure{Call: verbs.FailPollCQ, QP: 1, Errno: syscall.EIO})
	s.Forget(1)
	if err := s.Poll("cq", func(uint32) bool { return true }); err != nil {
		t.Errorf("a queue pair that is gone fails a poll: %v", err)
	}
}
