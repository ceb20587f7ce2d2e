package verbstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// stateTests test the effects of a queue pair's changes of state on requests, completions
// and events.
var stateTests = []test{
	{"a post before RTS", func(r *rig) error {
		p, err := r.params()
		if err != nil {
			return err
		}
		q, err := r.newQP(&r.a, ib.RC, nil)
		if err != nil {
			return err
		}
		_, mr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		refused := func(state ib.QPState) error {
			n, err := q.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 8)}}})
			if n != 0 {
				return fmt.Errorf("in %v, %d requests were taken", state, n)
			}
			return expect(fmt.Sprintf("post_send in %v", state), err, verbs.ErrState)
		}
		if err := refused(ib.Reset); err != nil {
			return err
		}
		if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: p.Port, Access: p.Access}, verbs.ResetToInitRC); err != nil {
			return err
		}
		return refused(ib.Init)
	}},
	{"completions not polled at RESET", func(r *rig) error {
		if err := r.dropsCompletions(); err != nil {
			return err
		}
		p, err := r.params()
		if err != nil {
			return err
		}
		x, err := r.unpolled()
		if err != nil {
			return err
		}
		for range 2 {
			for _, q := range []verbs.QP{x.qa, x.qb} {
				if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
					return err
				}
			}
			if err := x.nothing(); err != nil {
				return err
			}
			// Its places are free again.
			if err := r.join(x.qa, x.qb, p); err != nil {
				return err
			}
			if err := x.fill(); err != nil {
				return fmt.Errorf("after RESET: %w", err)
			}
		}
		return nil
	}},
	{"completions not polled at Close", func(r *rig) error {
		if err := r.dropsCompletions(); err != nil {
			return err
		}
		x, err := r.unpolled()
		if err != nil {
			return err
		}
		if err := x.qa.Close(); err != nil {
			return err
		}
		x.gone = true
		return x.nothing()
	}},
	{"the wake from INIT to ERR", func(r *rig) error {
		channel, cq, err := r.channelled()
		if err != nil {
			return err
		}
		r.b.cq = cq
		p, err := r.params()
		if err != nil {
			return err
		}
		q, err := r.newQP(&r.b, ib.RC, nil)
		if err != nil {
			return err
		}
		_, mr, err := r.register(&r.b, 64, 1)
		if err != nil {
			return err
		}
		if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: p.Port, Access: p.Access}, verbs.ResetToInitRC); err != nil {
			return err
		}
		if err := postRecv(q, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}); err != nil {
			return err
		}
		if err := errors.Join(cq.ReqNotify(false), q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)); err != nil {
			return err
		}
		got, err := channel.Wait(context.Background(), patience)
		if err != nil {
			return err
		}
		if got != cq {
			return fmt.Errorf("the event names %v", got)
		}
		wc, err := wait(&r.b, 1)
		if err == nil && (wc[0].WRID != 7 || wc[0].Status != ib.WCWRFlushErr) {
			err = fmt.Errorf("receive %d ended with %w", wc[0].WRID, wc[0].Status)
		}
		return err
	}},
	{"one event for a long request", func(r *rig) error {
		const n = 300_000 // many segments, where something cuts requests
		channel, cq, err := r.channelled()
		if err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, n, 1)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, n, 2)
		if err != nil {
			return err
		}
		r.b.cq = cq
		_, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		if err := cq.ReqNotify(false); err != nil {
			return err
		}
		if err := post(qb, verbs.SendWR{
			WRID: 1, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, n)},
			RemoteAddr: lmr.Addr(), RKey: lmr.RKey(),
		}); err != nil {
			return err
		}
		if _, err := channel.Wait(context.Background(), patience); err != nil {
			return err
		}
		if n, err := cq.Poll(make([]verbs.WC, 4)); n != 1 || err != nil {
			return fmt.Errorf("%d completions after the event: %w", n, err)
		}
		if err := cq.ReqNotify(false); err != nil {
			return err
		}
		if _, err := channel.Wait(context.Background(), time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
			return expect("a second event", err, verbs.ErrTimeout)
		}
		return nil
	}},
	{"two events on one channel", func(r *rig) error {
		channel, first, err := r.channelled()
		if err != nil {
			return err
		}
		// Two queue pairs send, each with a queue of its own on the channel.
		cqs := []verbs.CQ{first, nil}
		if cqs[1], err = r.B.CreateCQ(verbs.CQInitAttr{CQE: cqe, Channel: channel}); err != nil {
			return err
		}
		r.later(cqs[1].Close)
		_, lmr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		var qs []verbs.QP
		for _, cq := range cqs {
			r.b.cq = cq
			_, qb, err := r.connected(nil)
			if err != nil {
				return err
			}
			qs = append(qs, qb)
		}
		for round := range 3 {
			for i, cq := range cqs {
				if err := cq.ReqNotify(false); err != nil {
					return err
				}
				if err := post(qs[i], verbs.SendWR{
					WRID: uint64(i), Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 8)},
					RemoteAddr: lmr.Addr(), RKey: lmr.RKey(),
				}); err != nil {
					return err
				}
			}
			seen := map[verbs.CQ]int{}
			for range cqs {
				got, err := channel.Wait(context.Background(), patience)
				if err != nil {
					return fmt.Errorf("round %d, after %d events: %w", round, len(seen), err)
				}
				seen[got]++
			}
			if seen[cqs[0]] != 1 || seen[cqs[1]] != 1 {
				return fmt.Errorf("round %d: the events name %v", round, seen)
			}
			if _, err := channel.Wait(context.Background(), time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
				return expect("a third event", err, verbs.ErrTimeout)
			}
			for _, cq := range cqs {
				r.b.cq = cq
				if _, err := succeed(&r.b, 1); err != nil {
					return err
				}
			}
		}
		return nil
	}},
}

// channelled makes a channel and a queue of b on it.
func (r *rig) channelled() (verbs.CompChannel, verbs.CQ, error) {
	channel, err := r.B.CreateCompChannel()
	if err != nil {
		return nil, nil, err
	}
	r.later(channel.Close)
	cq, err := r.B.CreateCQ(verbs.CQInitAttr{CQE: cqe, Channel: channel})
	if err == nil {
		r.later(cq.Close)
	}
	return channel, cq, err
}

// unpolled is a queue pair that is full of requests whose completions nobody polls,
// and another one, with a queue of its own, that makes time pass.
type unpolled struct {
	*rig
	qa, qb verbs.QP
	gone   bool // qa is destroyed
	cq     verbs.CQ
	other  verbs.QP
	own    side
	wr     verbs.SendWR
}

const unpolledDepth = 4

// dropsCompletions fails where completions outlive their queue pair.
func (r *rig) dropsCompletions() error {
	if r.KeepsCompletions {
		return fmt.Errorf("%w: dropping completions with their queue pair", verbs.ErrNotSupported)
	}
	return nil
}

func (r *rig) unpolled() (*unpolled, error) {
	x := &unpolled{rig: r, cq: r.a.cq}
	_, lmr, err := r.register(&r.a, 64, 1)
	if err != nil {
		return nil, err
	}
	_, rmr, err := r.register(&r.b, 64, 2)
	if err != nil {
		return nil, err
	}
	x.wr = verbs.SendWR{WRID: 1000, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()}
	p, err := r.params()
	if err != nil {
		return nil, err
	}
	small := verbs.QPInitAttr{Type: ib.RC, SendCQ: r.a.cq, RecvCQ: r.a.cq, Cap: verbs.QPCap{MaxSendWR: unpolledDepth, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if x.qa, err = r.a.pd.CreateQP(small); err != nil {
		return nil, err
	}
	r.later(func() error {
		if x.gone {
			return nil
		}
		return x.qa.Close()
	})
	if x.qb, err = r.newQP(&r.b, ib.RC, nil); err != nil {
		return nil, err
	}
	if err := r.join(x.qa, x.qb, p); err != nil {
		return nil, err
	}
	x.own = r.a
	if x.own.cq, err = r.A.CreateCQ(verbs.CQInitAttr{CQE: cqe}); err != nil {
		return nil, err
	}
	r.later(x.own.cq.Close)
	r.a.cq = x.own.cq
	if x.other, _, err = r.connected(nil); err != nil {
		return nil, err
	}
	return x, x.fill()
}

// fill posts what the queue pair takes, and lets time pass.
func (x *unpolled) fill() error {
	for i := range unpolledDepth {
		if err := post(x.qa, x.wr); err != nil {
			return fmt.Errorf("request %d of %d: %w", i, unpolledDepth, err)
		}
	}
	return x.pass()
}

// pass has the other queue pair send something several times.
func (x *unpolled) pass() error {
	for i := range 8 {
		wr := x.wr
		wr.WRID = uint64(i)
		if err := post(x.other, wr); err != nil {
			return err
		}
		if _, err := succeed(&x.own, 1); err != nil {
			return err
		}
	}
	return nil
}

// nothing expects that no completion comes any more.
func (x *unpolled) nothing() error {
	for range 3 {
		var wc [16]verbs.WC
		n, err := x.cq.Poll(wc[:])
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%d completions came back, the first of request %d: %w", n, wc[0].WRID, wc[0].Status)
		}
		if err := x.pass(); err != nil {
			return err
		}
	}
	return nil
}
