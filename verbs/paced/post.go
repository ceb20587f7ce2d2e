package paced

import (
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// PostSend implements verbs.QP. It takes requests while the queue has room, cuts
// them, and sends at once what is due, unless a segment of the queue pair waits for its
// time already: then up to eight posts in a row leave that to the next. It returns the errors of a request that can
// be found without the NIC. A request whose memory is not registered may fail only
// in its completion.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	return q.post(q.shard.now(), wrs)
}

// PostSendAt is PostSend at the time now, a reading of Shim.Clock.
func (q *QP) PostSendAt(now units.LongTime, wrs []verbs.SendWR) (int, error) {
	return q.post(at(now), wrs)
}

// mostUnread is the largest number of posts in a row without a reading of the clock, and so
// without what is due. They are posts to queue pairs whose next segment waits for its
// time, so that nothing of theirs can leave now. Each poll begins anew. Where time is simulated each post reads it.
const mostUnread = 8

// post takes requests up to the first that is wrong or has no room.
func (q *QP) post(t instant, wrs []verbs.SendWR) (int, error) {
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.core.Filed() && t.clock != nil && !s.free && s.unread < mostUnread {
		s.unread++ // the request waits behind a segment that has its time already
	} else {
		s.unread = 0
		t.read(s.core)
		if s.core.Filed() > 0 {
			s.release(&t) // which may unlock
		}
	}
	switch q.core.State() {
	case ib.RTS, ib.SQD, ib.SQE, ib.Err:
	default:
		return 0, q.errorf("post_send", verbs.ErrState, "the queue pair is in %s: take it to RTS", q.core.State())
	}
	var err error
	n := 0
	for ; n < len(wrs); n++ {
		if err = q.core.Check(&wrs[n]); err != nil {
			err = q.wrong(err)
			break
		}
		if !q.core.Accept(&wrs[n]) {
			err = errQueueFull
			break
		}
	}
	if n > 0 {
		switch {
		case q.core.State() == ib.Err:
			q.finish(false)
		case !q.core.Filed():
			q.core.Offer(t.now)
			s.release(&t)
		}
		if s.unread == 0 {
			s.publish(t.long)
		}
	}
	return n, err
}

// errQueueFull is made once: running into the bound is part of a sender's normal
// work and must not allocate.
var errQueueFull error = &verbs.OpError{Op: "post_send", Err: verbs.ErrQueueFull}

// wrong says what is wrong with a request that only the application can mend.
func (q *QP) wrong(err error) error { return q.errorf("post_send", verbs.ErrInvalid, "%v", err) }

// posted takes note of what became of a batch: the provider took that many of its
// requests, all if err is nil.
func (q *QP) posted(now units.Time, b *core.Batch, taken int, err error) {
	s := q.shard
	var why core.Refusal
	if err == nil {
		taken = len(b.WRs)
	} else {
		why = core.Refusal{Full: errors.Is(err, verbs.ErrQueueFull), Status: refusal(err)}
	}
	bytes, failed := s.core.Posted(now, b, taken, why)
	s.stats.SegmentBytes += bytes
	q.tally.segmentBytes += bytes
	s.stats.Segments += uint64(taken)
	q.tally.segments += uint64(taken)
	q.sends.inFlight += taken
	if !failed {
		s.stats.ProviderFull += uint64(len(b.WRs) - taken)
		return
	}
	s.doomed = append(s.doomed, q)
}

// refusal is the completion status of a request whose segment the provider did
// not take.
func refusal(err error) ib.WCStatus {
	switch {
	case errors.Is(err, verbs.ErrAccess):
		return ib.WCLocProtErr
	case errors.Is(err, verbs.ErrState), errors.Is(err, verbs.ErrClosed):
		return ib.WCWRFlushErr
	case errors.Is(err, verbs.ErrInvalid), errors.Is(err, verbs.ErrNotSupported):
		return ib.WCLocQPOpErr
	}
	return ib.WCGeneralErr
}

// finish moves requests that have finished to the application's CQ. fromNIC says
// that a completion of the provider's is the cause.
func (q *QP) finish(fromNIC bool) {
	for {
		wc := q.core.Finish(&q.cq.sends)
		if wc == nil {
			return
		}
		if q.cq.armed.Load() != disarmed {
			q.cq.notify(wc, q, fromNIC)
		}
	}
}
