package perf

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// renewal makes the connections of an end anew, all of them together, when one is lost. Memory and
// completion queues stay.
type renewal struct {
	limit  time.Duration // how long nothing may complete; 0 for no renewals
	broken bool          // nothing has completed since a connection was lost,
	since  units.Time    // and since then
	lost   error         // what is to be repaired before the next poll
	looked units.Time    // whether the other end asks
	count  uint64        // of this run

	qpns     map[uint32]bool // of the present queue pairs
	repaired repaired        // by former ones

	// What is under way, of the row that runs; nil where the test has none.
	sender   *sender
	receiver *receiver
	pace     *pace
}

// loses reports whether a completion's status is the loss of a connection.
func loses(s ib.WCStatus) bool { return s == ib.WCRetryExcErr || s == ib.WCWRFlushErr }

// begin finds out whether the other end makes connections anew, too.
func (r *renewal) begin(conn *exchange.Conn) error {
	if r.limit == 0 {
		return nil
	}
	return conn.Renew()
}

// clear forgets the row before.
func (r *renewal) clear() { r.sender, r.receiver, r.pace = nil, nil, nil }

// connected takes note of the queue pairs that there are now.
func (r *renewal) connected(local []exchange.Dest) {
	if r.limit == 0 {
		return
	}
	r.qpns = make(map[uint32]bool, len(local))
	for i := range local {
		r.qpns[local[i].QPN] = true
	}
}

// sift takes losses and what is of former queue pairs out of polled completions, and remembers a
// loss. What is left has succeeded.
func (e *end) sift(wcs []verbs.WC) ([]verbs.WC, error) {
	kept := wcs[:0]
	for i := range wcs {
		wc := &wcs[i]
		switch {
		case e.renewal.qpns != nil && !e.renewal.qpns[wc.QPN]:
		case wc.Status == ib.WCSuccess:
			kept = append(kept, *wc)
		case e.renewal.limit == 0 || !loses(wc.Status):
			return nil, e.failed(wc)
		case e.renewal.lost == nil:
			e.renewal.lost = e.failed(wc)
		}
	}
	return kept, nil
}

// recover makes the connections anew after one was lost.
func (e *end) recover() error {
	r := &e.renewal
	cause := r.lost
	if !r.broken {
		r.broken, r.since = true, e.now()
	}
	if e.now()-r.since > units.FromDuration(r.limit) {
		return fmt.Errorf("the connection was lost again and again for %v: %w", r.limit, cause)
	}
	if err := e.renew(); err != nil {
		return fmt.Errorf("%w, and no new connection within %v: %w", cause, r.limit, err)
	}
	return nil
}

// askTime is how often an end that has nothing to do looks whether the other asks for new connections.
const askTime = units.Millisecond

// asked makes the connections anew if the other end asks for that.
func (e *end) asked(now units.Time) error {
	r := &e.renewal
	if r.limit == 0 || !e.simulated && now < r.looked+askTime {
		return nil
	}
	r.looked = now
	asked, err := e.conn.Asked()
	if err != nil || !asked {
		return err
	}
	return e.renew()
}

// meet is a barrier that only ends with renewals have: none may be in need of one while the other
// is beyond it.
func (e *end) meet() error {
	if e.renewal.limit == 0 {
		return nil
	}
	return e.barrier()
}

// renew makes all connections anew, with the other end, and goes on with what is under way.
func (e *end) renew() error {
	r := &e.renewal
	timeout := e.conn.Timeout()
	e.conn.SetTimeout(r.limit)
	defer e.conn.SetTimeout(timeout)
	if err := e.settle(); err != nil {
		return err
	}
	if err := e.conn.Renew(); err != nil {
		return err
	}
	r.count++
	e.books.renewed++
	if err := e.replaceQPs(); err != nil {
		return err
	}
	for i := range e.local {
		var err error
		if e.remote[i], err = e.conn.Swap(e.local[i]); err != nil {
			return err
		}
		if err := e.connectWithin(i); err != nil {
			return err
		}
	}
	if err := e.resume(); err != nil {
		return err
	}
	r.lost = nil
	e.last = e.now()
	e.armed = false
	return nil
}

// settle has the lost queue pairs end what is under way, and takes what had succeeded.
func (e *end) settle() error {
	for _, qp := range e.qps {
		_ = qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState) // it may be there, or its device gone
	}
	r := &e.renewal
	until := e.now() + units.FromDuration(r.limit)
	for flushed := uint64(0); r.receiver != nil && r.receiver.outstanding() > flushed && e.now() < until; {
		n, err := e.recvCQ.Poll(e.wc[:])
		if err != nil {
			return err
		}
		got, err := e.sift(e.wc[:n])
		if err != nil {
			return err
		}
		flushed += uint64(n - len(got))
		r.receiver.note(got, e.now())
		if !e.cfg.Test.Latency {
			e.books.count(uint64(len(got)), e.now())
		}
	}
	for {
		n, err := e.sendCQ.Poll(e.wc[:])
		if err != nil || n == 0 {
			return err
		}
		sent, err := e.sift(e.wc[:n])
		if err != nil {
			return err
		}
		switch {
		case r.sender != nil:
			r.sender.take(sent, e.now())
		case r.pace != nil && len(sent) > 0:
			r.pace.posted = false
		}
	}
}

// replaceQPs makes new queue pairs in place of the present ones.
func (e *end) replaceQPs() error {
	e.renewal.repaired = e.repairs()
	open := e.books.open
	if open != nil {
		e.leave(open.engine)
	}
	for i, qp := range e.qps {
		if err := qp.Close(); err != nil {
			return err
		}
		fresh, err := e.createQP()
		if err != nil {
			e.qps = append(e.qps[:i], e.qps[i+1:]...) // the one that is closed
			return err
		}
		e.qps[i] = fresh
		e.local[i].QPN, e.local[i].PSN = fresh.Num(), e.firstPSN(i)
	}
	e.renewal.connected(e.local)
	e.paced = e.pacedQPs()
	if open != nil {
		e.join(open.engine)
	}
	return nil
}

// connectWithin connects queue pair i. A port that is down, or a neighbour that does not answer, may
// keep it from that for a while.
func (e *end) connectWithin(i int) error {
	until := e.now() + units.FromDuration(e.renewal.limit)
	for {
		err := e.connectQP(e.qps[i], e.local[i], e.remote[i])
		if err == nil || e.now() >= until || errors.Is(err, verbs.ErrNoDevice) {
			return err
		}
		verbs.Sleep(e.dev, 20*time.Millisecond)
		if err := e.qps[i].Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			return err
		}
	}
}

// resume goes on with the row: the requests that did not succeed are posted again, but for messages
// that the other end has received.
func (e *end) resume() error {
	r := &e.renewal
	if r.receiver != nil {
		if err := r.receiver.resume(); err != nil {
			return err
		}
	}
	received := make([]uint64, len(e.qps)) // by the other end
	if e.cfg.Test.Verb == Send {
		for k := range received {
			mine := uint64(0)
			if r.receiver != nil {
				mine = r.receiver.got[k]
			}
			var err error
			if received[k], err = e.conn.SwapCount(mine); err != nil {
				return err
			}
		}
	}
	if _, err := e.conn.Swap(e.local[0]); err != nil { // both are ready
		return err
	}
	switch {
	case r.sender != nil:
		r.sender.resume(received, e.now())
	case r.pace != nil:
		return r.pace.resume(received[0])
	}
	return nil
}

// resume has what did not complete posted again.
func (s *sender) resume(received []uint64, now units.Time) {
	// Of messages that are posted twice there is no one time of posting.
	s.posted, s.completed = nil, nil
	for k := range s.flows {
		f := &s.flows[k]
		if n := received[k]; n > f.done {
			s.count(f, n-f.done, now)
		}
		s.sent -= f.sent - f.done
		f.sent = f.done
	}
}

// resume posts the message again that is under way, unless the other end has received it.
func (p *pace) resume(received uint64) error {
	if !p.posted {
		return nil
	}
	if p.e.cfg.Test.Verb == Send && received >= p.wr[0].WRID {
		p.posted = false
		return nil
	}
	return p.e.postSend(0, p.wr[:])
}

// outstanding is how many receives are posted and not used.
func (r *receiver) outstanding() (n uint64) {
	for k := range r.posted {
		n += r.posted[k] - r.got[k]
	}
	return n
}

// resume posts receives again, on new queue pairs.
func (r *receiver) resume() error {
	copy(r.posted, r.got)
	return r.fillAll()
}
