package paced

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// drain is a change to SQD that waits until the requests that have begun are complete: a
// provider's queue pair in SQD would keep their other segments, and report a drained
// queue in the middle of a request.
type drain struct {
	attr verbs.QPAttr
	mask verbs.QPAttrMask
}

// deferSQD begins a change from RTS to SQD if requests have begun, and reports whether
// it did.
func (q *QP) deferSQD(a *verbs.QPAttr, mask verbs.QPAttrMask, to ib.QPState) (deferred bool, err error) {
	if to != ib.SQD {
		return false, nil
	}
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.drain.Load() != nil {
		return false, q.errorf("modify_qp", verbs.ErrState, "the send queue has not drained: await the event SQ drained")
	}
	if q.core.State() != ib.RTS || !q.core.Begun() {
		return false, nil
	}
	q.drain.Store(&drain{*a, mask})
	s.drains.Add(1)
	t := s.now()
	t.read(s.core)
	q.core.Drain(t.now)
	s.release(&t)
	s.publish(t.long)
	return true, nil
}

// undrain forgets a drain, as the queue pair goes elsewhere.
func (q *QP) undrain() {
	if q.drain.Swap(nil) != nil {
		q.shard.drains.Add(-1)
	}
}

// finishDrains is takeToSQD without the lock.
func (s *shard) finishDrains() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.drained) > 0 {
		s.takeToSQD()
	}
}

// takeToSQD takes queue pairs whose requests are complete to SQD at the provider, without
// the lock. One that a thread is modifying stays until that thread is done. If the
// provider refuses, its queue pair is in error, which completions tell.
func (s *shard) takeToSQD() {
	var later []*QP
	for len(s.drained) > 0 {
		q := s.drained[len(s.drained)-1]
		s.drained = s.drained[:len(s.drained)-1]
		if q.drain.Load() == nil || !q.modifying.TryLock() {
			if q.drain.Load() != nil {
				later = append(later, q)
			}
			continue
		}
		d := *q.drain.Load()
		q.undrain()
		if q.core.State() == ib.SQD && !q.going {
			s.mu.Unlock()
			_ = q.inner.Modify(d.attr, d.mask)
			s.mu.Lock()
		}
		q.modifying.Unlock()
	}
	s.drained = append(s.drained, later...)
}

// asyncEvent is the provider's AsyncEvent, with progress while something drains.
func (s *Shim) asyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	end := units.LongNever
	if timeout >= 0 {
		end = s.Clock().Plus(units.Long(timeout))
	}
	for {
		nap := timeout
		if s.drains.Load() > 0 {
			if err := s.progress(s.now()); err != nil {
				return verbs.AsyncEvent{}, err
			}
			nap = longestNap.Duration()
			if timeout >= 0 {
				nap = min(nap, max(end.Sub(s.Clock()), 0).Duration())
			}
		} else if timeout > 0 {
			nap = max(end.Sub(s.Clock()), 0).Duration()
		}
		e, err := s.dev.AsyncEvent(ctx, nap)
		if !errors.Is(err, verbs.ErrTimeout) || timeout >= 0 && !s.Clock().Before(end) {
			return e, err
		}
	}
}
