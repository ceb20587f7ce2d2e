package storm

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// filling is a completion queue that queue pairs of its own fill, and what it must hold (rule 22).
type filling struct {
	w    *peer
	cq   verbs.CQ
	ah   verbs.AH
	qps  [2]verbs.QP
	lost [2]bool // they have lost a completion
	held []held
	wc   []verbs.WC
	next uint64
}

// held is a completion that the queue has.
type held struct {
	id uint64
	of int // queue pair
}

// fillDepth is of the queue pairs' send queues: all that a filling posts.
const fillDepth = 48

// fill fills a completion queue by datagrams that nobody gets, polls it now and then, and sometimes
// has it overrun.
func (w *peer) fill() {
	f := &filling{w: w, wc: make([]verbs.WC, 1+w.fills.IntN(4))}
	err := f.make()
	if err == nil {
		err = f.run()
	}
	if err = errors.Join(err, f.free()); err != nil {
		w.p.Failf("rule 22: %v", err)
	}
}

func (f *filling) make() (err error) {
	w, r := f.w, f.w.fills
	if f.cq, err = w.dev.CreateCQ(verbs.CQInitAttr{CQE: 1 + r.IntN(8)}); err != nil {
		return err
	}
	to := (w.p.ID + 1 + r.IntN(w.p.Processes-1)) % w.p.Processes
	if f.ah, err = w.pd.CreateAH(verbs.AddressVector{GID: w.p.Address(to), HopLimit: 64}); err != nil {
		return err
	}
	for i := range f.qps {
		if f.qps[i], err = w.pd.CreateQP(verbs.QPInitAttr{
			Type: ib.UD, SendCQ: f.cq, RecvCQ: f.cq, Cap: verbs.QPCap{MaxSendWR: fillDepth, MaxSendSGE: 1},
		}); err == nil {
			err = readyUD(f.qps[i], r.Uint32())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) run() error {
	r, overruns := f.w.fills, f.w.fills.IntN(3) > 0
	for range fillDepth {
		i := r.IntN(2)
		switch {
		case r.IntN(6) == 0:
			f.poll()
		case r.IntN(12) == 0 && !f.overrun():
			f.resize(r.IntN(20) - 1)
		case f.lost[i] || len(f.held) == f.cq.Cap() && !overruns:
		default:
			if err := f.post(i); err != nil {
				return err
			}
		}
	}
	for i, q := range f.qps {
		want := ib.RTS
		if f.lost[i] {
			want = ib.Err
		}
		if a, err := q.Query(); err != nil || a.State != want {
			f.w.p.Failf("rule 22: queue pair %#x is in %v (%v), expected %v: it has lost a completion: %v", q.Num(), a.State, err, want, f.lost[i])
		}
	}
	f.events()
	if r.IntN(2) == 0 { // what it has not given by then never comes
		i := r.IntN(2)
		if err := f.qps[i].Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			return err
		}
		rest := f.held[:0]
		for _, h := range f.held {
			if h.of != i {
				rest = append(rest, h)
			}
		}
		f.held = rest
	}
	for len(f.held) > 0 {
		f.poll()
	}
	f.poll()
	return nil
}

// overrun reports whether the queue has.
func (f *filling) overrun() bool { return f.lost[0] || f.lost[1] }

// resize has the queue hold n completions or more.
func (f *filling) resize(n int) {
	before := f.cq.Cap()
	err := f.cq.(verbs.ResizableCQ).Resize(n)
	switch after := f.cq.Cap(); {
	case n < 1 || n < len(f.held):
		if !errors.Is(err, verbs.ErrInvalid) || after != before {
			f.w.p.Failf("rule 22: a completion queue with %d completions is made one of %d (%v), and holds %d, before %d", len(f.held), n, err, after, before)
		}
	case err != nil || after < n:
		f.w.p.Failf("rule 22: a completion queue with %d completions is made one of %d (%v), and holds %d", len(f.held), n, err, after)
	}
}

// post sends one datagram, and waits until it has left.
func (f *filling) post(i int) error {
	f.next++
	_, err := f.qps[i].PostSend([]verbs.SendWR{{
		WRID: f.next, Opcode: ib.WRSend, Flags: verbs.SendSignaled, AH: f.ah, RemoteQPN: 1<<24 - 2, RemoteQKey: datagramQKey,
	}})
	if err != nil {
		return err
	}
	f.w.p.Sleep(time.Microsecond)
	if f.overrun() || len(f.held) == f.cq.Cap() {
		f.lost[i] = true
		return nil
	}
	f.held = append(f.held, held{f.next, i})
	return nil
}

// poll takes completions, and compares them with the expected ones.
func (f *filling) poll() {
	n, err := f.cq.Poll(f.wc)
	want := min(len(f.wc), len(f.held))
	if n != want || (err != nil) != (want == 0 && f.overrun()) || err != nil && !errors.Is(err, verbs.ErrQueueFull) {
		f.w.p.Failf("rule 22: a completion queue that has %d completions, and has overrun: %v, gives %d of %d, and the error %v", len(f.held), f.overrun(), n, len(f.wc), err)
		return
	}
	for k, h := range f.held[:n] {
		if wc := &f.wc[k]; wc.WRID != h.id || wc.QPN != f.qps[h.of].Num() || wc.Status != ib.WCSuccess {
			f.w.p.Failf("rule 22: a completion queue gives %+v, expected request %d of queue pair %#x", *wc, h.id, f.qps[h.of].Num())
		}
	}
	f.held = f.held[n:]
}

// events takes the asynchronous events: one of the queue if it has overrun, and one of each queue
// pair that has lost a completion.
func (f *filling) events() {
	var ofQueue int
	var ofPairs [2]int
	for {
		e, err := f.w.dev.AsyncEvent(context.Background(), 0)
		if err != nil {
			break
		}
		switch {
		case e.Type == ib.EventCQErr && e.CQ == f.cq:
			ofQueue++
		case e.Type == ib.EventQPFatal && e.QP == f.qps[0]:
			ofPairs[0]++
		case e.Type == ib.EventQPFatal && e.QP == f.qps[1]:
			ofPairs[1]++
		default:
			f.w.happened(&e)
		}
	}
	times := map[bool]int{true: 1}
	if ofQueue != times[f.overrun()] || ofPairs[0] != times[f.lost[0]] || ofPairs[1] != times[f.lost[1]] {
		f.w.p.Failf("rule 22: a completion queue that has overrun: %v, of queue pairs that have lost by it: %v, raises %d events, and they %v", f.overrun(), f.lost, ofQueue, ofPairs)
	}
}

func (f *filling) free() error {
	var err error
	for _, q := range f.qps {
		if q != nil {
			err = errors.Join(err, q.Close())
		}
	}
	if f.ah != nil {
		err = errors.Join(err, f.ah.Close())
	}
	if f.cq != nil {
		err = errors.Join(err, f.cq.Close())
	}
	return err
}
