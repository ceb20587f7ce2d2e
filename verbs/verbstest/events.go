package verbstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// eventTests wait in place of polling.
var eventTests = []test{
	{"completion channel", func(r *rig) error {
		channel, err := r.B.CreateCompChannel()
		if err != nil {
			return err
		}
		r.later(channel.Destroy)
		cq, err := r.B.CreateCQ(verbs.CQInitAttr{CQE: cqe, Channel: channel})
		if err != nil {
			return err
		}
		r.later(cq.Destroy)
		r.b.cq = cq
		qa, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		if err := expect("destroy of a channel in use", channel.Destroy(), verbs.ErrBusy); err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		for range 4 {
			if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 64)}}); err != nil {
				return err
			}
		}
		if _, err := channel.Wait(context.Background(), time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
			return expect("a wait with nothing to come", err, verbs.ErrTimeout)
		}
		send := func(flags verbs.SendFlags) error {
			if err := post(qa, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled | flags, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}}); err != nil {
				return err
			}
			_, err := succeed(&r.a, 1)
			return err
		}
		for range 2 {
			if err := errors.Join(cq.ReqNotify(false), send(0)); err != nil {
				return err
			}
			got, err := channel.Wait(context.Background(), patience)
			if err != nil {
				return err
			}
			if got != cq {
				return fmt.Errorf("the event names %v", got)
			}
			if _, err := succeed(&r.b, 1); err != nil {
				return err
			}
		}
		// One arming, one event; and a solicited one only if requested.
		if err := errors.Join(cq.ReqNotify(true), send(0)); err != nil {
			return err
		}
		if _, err := succeed(&r.b, 1); err != nil {
			return err
		}
		if _, err := channel.Wait(context.Background(), time.Millisecond); !errors.Is(err, verbs.ErrTimeout) {
			return expect("a completion that is not solicited", err, verbs.ErrTimeout)
		}
		if err := send(verbs.SendSolicited); err != nil {
			return err
		}
		if _, err := channel.Wait(context.Background(), patience); err != nil {
			return err
		}
		_, err = succeed(&r.b, 1)
		return err
	}},
	{"a context ends a wait", func(r *rig) error {
		channel, cq, err := r.channelled()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, errWait := channel.Wait(ctx, patience)
		_, errAsync := r.B.AsyncEvent(ctx, patience)
		if err := errors.Join(expect("a wait", errWait, context.Canceled), expect("a wait for an asynchronous event", errAsync, context.Canceled)); err != nil {
			return err
		}
		if !verbs.Simulated(r.B) { // whose waits end at once: nobody else is there
			for range 10 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				_, errWait := channel.Wait(ctx, -1)
				_, errAsync := r.B.AsyncEvent(ctx, -1)
				if err := errors.Join(expect("a wait that lasts", errWait, context.Canceled), expect("a wait that lasts for an asynchronous event", errAsync, context.Canceled)); err != nil {
					return err
				}
			}
		}
		// An event that is there is not lost.
		r.b.cq = cq
		_, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, mr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}); err != nil {
			return err
		}
		if err := errors.Join(cq.ReqNotify(false), qb.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)); err != nil {
			return err
		}
		if _, err := wait(&r.b, 1); err != nil {
			return err
		}
		verbs.Sleep(r.B, time.Millisecond) // an event takes longer than its completion
		got, err := channel.Wait(ctx, patience)
		if err == nil && got != cq {
			err = fmt.Errorf("the event names %v", got)
		}
		return err
	}},
	{"a descriptor that polls", func(r *rig) error {
		channel, cq, err := r.channelled()
		if err != nil {
			return err
		}
		r.b.cq = cq
		_, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		if err := polls(channel, "a channel without events", false); err != nil {
			return err
		}
		_, mr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}); err != nil {
			return err
		}
		if err := errors.Join(cq.ReqNotify(false), qb.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)); err != nil {
			return err
		}
		if err := polls(channel, "a channel with an event", true); err != nil {
			return err
		}
		if _, err := channel.Wait(context.Background(), 0); err != nil {
			return err
		}
		if err := polls(channel, "a channel whose event was taken", false); err != nil {
			return err
		}
		if _, err := wait(&r.b, 1); err != nil {
			return err
		}
		for range 1000 {
			if _, err := r.B.AsyncEvent(context.Background(), 0); err != nil {
				return errors.Join(expect("no event", err, verbs.ErrTimeout), polls(r.B, "a device without events", false))
			}
		}
		return errors.New("events without end")
	}},
	{"asynchronous events of a destroyed queue pair", func(r *rig) error {
		inner := &rig{Ends: r.Ends}
		err := inner.open()
		if err == nil {
			err = inner.fails(func(wr *verbs.SendWR, _, rmr verbs.MR) { wr.RKey = rmr.RKey() ^ 0x5a5a00 }, ib.WCRemAccessErr)
		}
		if err := errors.Join(err, inner.close()); err != nil {
			return err
		}
		for range 1000 {
			e, err := r.B.AsyncEvent(context.Background(), 0)
			if err != nil {
				return expect("no event", err, verbs.ErrTimeout)
			}
			if e.QP != nil {
				return fmt.Errorf("event %v of a queue pair that is gone", e.Type)
			}
		}
		return errors.New("events without end")
	}},
	{"asynchronous events", func(r *rig) error {
		// Earlier events are about other tests.
		for range 1000 {
			if _, err := r.A.AsyncEvent(context.Background(), 0); err != nil {
				return expect("no event", err, verbs.ErrTimeout)
			}
		}
		return errors.New("events without end")
	}},
}

// polls expects that the descriptor of a channel or a device is readable, or not.
func polls(of any, what string, want bool) error {
	p, ok := of.(verbs.Pollable)
	if !ok {
		return fmt.Errorf("a descriptor that polls: %w", verbs.ErrNotSupported)
	}
	fd, err := p.FD()
	if err != nil {
		return err
	}
	limit := time.Duration(0)
	if want {
		limit = patience
	}
	is, err := readable(fd, limit)
	if err == nil && is != want {
		err = fmt.Errorf("%s: its descriptor is readable: %v, want %v", what, is, want)
	}
	return err
}
