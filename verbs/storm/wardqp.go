package storm

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// softQP is what a soft device's queue pair can do, which the shim above asks for.
type softQP interface {
	verbs.QP
	verbs.CNPQP
	verbs.TelemetryQP
	verbs.RepairsQP
}

// softWardQP is a wardQP with all that.
type softWardQP struct {
	*wardQP
	verbs.CNPQP
	verbs.TelemetryQP
	verbs.RepairsQP
}

// simQP is what a queue pair of the NIC model can do, and simWardQP a wardQP with all that.
type simQP interface {
	verbs.QP
	verbs.RateLimitQP
	verbs.TelemetryQP
	verbs.RepairsQP
	verbs.SentTimestampQP
}

type simWardQP struct {
	*wardQP
	verbs.RateLimitQP
	verbs.TelemetryQP
	verbs.RepairsQP
	verbs.SentTimestampQP
}

// SentTimestamps implements verbs.SentTimestampQP, by the NIC's clock.
func (q *simWardQP) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	first, last, ok = q.SentTimestampQP.SentTimestamps(wc)
	return q.w.clock.read(first), q.w.clock.read(last), ok
}

// wardQP is a queue pair below the shim, whose twin is told what it is told.
type wardQP struct {
	verbs.QP
	w    *ward
	twin *twin // nil over the NIC model
	pace *pace // nil without a shim
}

// quiet holds the device against what it had to do before this call.
func (q *wardQP) quiet() *observer {
	o := q.w.watch
	if o == nil {
		return nil
	}
	o.quiet(o.run.engine.Now(), q.w.host)
	return o
}

// PostSend implements verbs.QP.
func (q *wardQP) PostSend(wrs []verbs.SendWR) (int, error) {
	q.quiet()
	var marks []postMark
	known := q.twin != nil && q.twin.service != ib.UD
	if known {
		marks = q.twin.post(wrs)
	}
	n, err := q.QP.PostSend(wrs)
	if known {
		q.twin.taken(marks, n)
	}
	if q.pace != nil && (len(wrs) == 0 || wrs[0].WRID != math.MaxUint64) { // no kick of the shim's
		q.w.posts++
		q.w.segments += uint64(n)
		q.pace.handed(q.w.p.Now(), wrs[:n])
	}
	return n, err
}

// PostRecv implements verbs.QP.
func (q *wardQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.quiet()
	n, err := q.QP.PostRecv(wrs)
	if q.twin == nil {
		return n, err
	}
	q.twin.receives.post(wrs[:n])
	if q.twin.state == ib.Err {
		q.twin.flushReceives(true)
	}
	return n, err
}

func (r *receives) post(wrs []verbs.RecvWR) {
	for i := range wrs {
		wr := wrs[i]
		wr.SGL = slices.Clone(wr.SGL)
		r.wrs = append(r.wrs, wr)
	}
}

// Modify implements verbs.QP.
func (q *wardQP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	o, t := q.quiet(), q.twin
	if t == nil {
		err := q.QP.Modify(a, mask)
		q.forgets(err, &a, mask)
		return err
	}
	before, repairs := t.state, q.QP.(verbs.RepairsQP).Repairs()
	if mask&verbs.AttrState != 0 && a.State == ib.RTS && (before == ib.SQD || before == ib.SQE) {
		t.state, t.dirty = ib.RTS, true // what waits leaves within the call
	}
	if err := q.QP.Modify(a, mask); err != nil {
		t.state = before
		return err
	}
	q.forgets(nil, &a, mask)
	if mask&verbs.AttrAccess != 0 && before <= ib.Init {
		t.access = a.Access
	}
	if mask&verbs.AttrState == 0 || t.service == ib.UD {
		return nil
	}
	switch {
	case a.State == ib.Reset:
		t.compare(repairs, q.QP.(verbs.CNPQP).CNPs())
		o.unlink(t)
		t.reset()
	case a.State == ib.Init:
		t.state = ib.Init
	case a.State == ib.RTR && before == ib.Init:
		t.toRTR(&a)
		o.link(t)
	case a.State == ib.RTS && before == ib.RTR:
		t.toRTS(&a)
	case a.State == ib.SQD && before == ib.RTS:
		t.drain()
	case a.State == ib.Err:
		t.answering = false
		t.enterErr(ib.WCSuccess, false)
	}
	return nil
}

// forgets takes note that a queue pair has forgotten all, by RESET.
func (q *wardQP) forgets(err error, a *verbs.QPAttr, mask verbs.QPAttrMask) {
	if q.pace != nil && err == nil && mask&verbs.AttrState != 0 && a.State == ib.Reset {
		q.pace.reset()
		q.w.leave(q.pace)
	}
}

// Query implements verbs.QP.
func (q *wardQP) Query() (verbs.QPAttr, error) {
	q.quiet()
	a, err := q.QP.Query()
	if t := q.twin; t != nil && err == nil && !t.off && t.service != ib.UD && a.State != t.state {
		t.wrong(15, "it says that it is in %v", a.State)
	}
	return a, err
}

// Close implements verbs.QP.
func (q *wardQP) Close() error {
	o := q.quiet()
	if o == nil {
		err := q.QP.Close()
		if err == nil {
			q.w.forget(q)
		}
		return err
	}
	repairs, cnps := q.QP.(verbs.RepairsQP).Repairs(), q.QP.(verbs.CNPQP).CNPs()
	err := q.QP.Close()
	if err == nil {
		if q.twin.service != ib.UD {
			q.twin.compare(repairs, cnps)
		}
		o.remove(q.twin)
		q.w.forget(q)
	}
	return err
}

// forget forgets a queue pair that is destroyed.
func (w *ward) forget(q *wardQP) {
	delete(w.qps, q.QP)
	delete(w.tells, q.QP.Num())
	if num := q.QP.Num(); w.paces[num] == q.pace {
		delete(w.paces, num)
		if q.pace != nil {
			w.leave(q.pace)
		}
	}
}

// wardSRQ is a shared receive queue below the shim.
type wardSRQ struct {
	verbs.SRQ
	w        *ward
	receives receives
}

// PostRecv implements verbs.SRQ.
func (s *wardSRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	n, err := s.SRQ.PostRecv(wrs)
	s.receives.post(wrs[:n])
	return n, err
}

// SetLimit implements verbs.LimitSRQ.
func (s *wardSRQ) SetLimit(n int) error {
	l, ok := s.SRQ.(verbs.LimitSRQ)
	if !ok {
		return verbs.Errorf("modify_srq", s.w.Name(), verbs.ErrNotSupported, "")
	}
	err := l.SetLimit(n)
	if err == nil {
		s.receives.limit = n
	}
	return err
}

// Close implements verbs.SRQ.
func (s *wardSRQ) Close() error {
	err := s.SRQ.Close()
	if err == nil {
		delete(s.w.srqs, s.SRQ)
		if o := s.w.watch; o != nil {
			delete(o.expected[s.w.host], event{kind: ib.EventSRQLimit, srq: s})
		}
	}
	return err
}

// AsyncEvent implements verbs.Device, with the objects of the ward.
func (w *ward) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	e, err := w.Device.AsyncEvent(ctx, timeout)
	if q := w.qps[e.QP]; q != nil {
		e.QP = q
	}
	if c := w.cqs[e.CQ]; c != nil {
		e.CQ = c
	}
	if s := w.srqs[e.SRQ]; s != nil {
		e.SRQ = s
	}
	if o := w.watch; o != nil {
		if err == nil {
			o.happened(o.run.engine.Now(), w.host, &e)
		} else if timeout == 0 {
			o.noEvent(o.run.engine.Now(), w.host)
		}
	}
	return e, err
}
