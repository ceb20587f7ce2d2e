package chosen

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Set is a device's failures to come. The zero value has none.
type Set struct {
	any atomic.Bool // there has been one

	mu    sync.Mutex
	of    []verbs.CallFailure
	ended []uint32 // queue pairs that a chosen completion took to ERR
}

// Owner is the device.
type Owner interface {
	// Break takes a queue pair to ERR, without an event.
	Break(qpn uint32)
	// Broken reports whether a queue pair is in ERR.
	Broken(qpn uint32) bool
}

// Any reports whether there may be anything to do.
func (s *Set) Any() bool { return s.any.Load() }

// Add adds a failure, which Validate has found good.
func (s *Set) Add(f verbs.CallFailure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = append(s.of, f)
	s.any.Store(true)
}

// Forget drops what is to happen to a queue pair, which is destroyed.
func (s *Set) Forget(qpn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = slices.DeleteFunc(s.of, func(f verbs.CallFailure) bool { return f.QP == qpn })
	s.ended = slices.DeleteFunc(s.ended, func(n uint32) bool { return n == qpn })
}

// PostSend posts n requests of a queue pair by post, and of these no more than those before the one that fails.
func (s *Set) PostSend(qpn uint32, object string, n int, post func(n int) (int, error)) (int, error) {
	f, fails := s.takePost(qpn, n)
	if fails {
		n = int(f.After)
	}
	taken, err := post(n)
	switch {
	case err == nil && fails:
		err = refused("post_send", object, &f)
	case err != nil && f.QP != 0: // it has not come so far
		f.After = uint64(n - taken)
		s.giveBack(f, fails)
	}
	return taken, err
}

// takePost counts n requests against the first failure of the queue pair's posts. It returns that and
// takes it away if one of them fails.
func (s *Set) takePost(qpn uint32, n int) (f verbs.CallFailure, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.first(verbs.FailPostSend, qpn)
	if i < 0 {
		return f, false
	}
	if f = s.of[i]; f.After < uint64(n) {
		s.of = slices.Delete(s.of, i, i+1)
		return f, true
	}
	s.of[i].After -= uint64(n)
	return f, false
}

// giveBack undoes the count of requests that the device did not take.
func (s *Set) giveBack(f verbs.CallFailure, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole {
		s.of = append(s.of, f)
	} else if i := s.first(f.Call, f.QP); i >= 0 {
		s.of[i].After += f.After
	}
}

func (s *Set) first(c verbs.FailedCall, qpn uint32) int {
	return slices.IndexFunc(s.of, func(f verbs.CallFailure) bool { return f.Call == c && f.QP == qpn })
}

// Poll returns the error of a poll that fails; uses says which queue pairs complete on the queue.
func (s *Set) Poll(object string, uses func(qpn uint32) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.of {
		if f.Call == verbs.FailPollCQ && f.After == 0 && uses(f.QP) {
			s.of = slices.Delete(s.of, i, i+1)
			return refused("poll_cq", object, &f)
		}
	}
	return nil
}

// Polled looks at a completion that a poll is about to return, and has it fail if it is its turn. What the queue
// held behind one that failed is flushed.
func (s *Set) Polled(w *verbs.WC, o Owner) {
	if w.Status != ib.WCSuccess || w.Opcode&ib.WCRecv != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.ended, w.QPN) {
		if o.Broken(w.QPN) {
			end(w, ib.WCWRFlushErr, 0)
			return
		}
		s.ended = slices.DeleteFunc(s.ended, func(n uint32) bool { return n == w.QPN }) // it was reset
	}
	polls := true // the first of each kind counts
	fails := true
	for i := 0; i < len(s.of); i++ {
		f := &s.of[i]
		if f.QP != w.QPN {
			continue
		}
		switch {
		case f.Call == verbs.FailPollCQ && polls:
			polls = false
			f.After -= min(f.After, 1)
		case f.Call == verbs.FailCompletion && fails:
			fails = false
			if f.After > 0 {
				f.After--
				continue
			}
			end(w, f.Status, f.VendorErr)
			s.of = slices.Delete(s.of, i, i+1)
			s.ended = append(s.ended, w.QPN)
			o.Break(w.QPN)
			i--
		}
	}
}

// end has a completion end with a status.
func end(w *verbs.WC, status ib.WCStatus, vendorErr uint32) {
	if w.Status, w.VendorErr = status, vendorErr; vendorErr == 0 {
		w.VendorErr = connectx.VendorErr(status, false)
	}
}

func refused(op, object string, f *verbs.CallFailure) error {
	return verbs.Errorf(op, object, f.Errno, "as was asked of the device (verbs.CallFailer)")
}
