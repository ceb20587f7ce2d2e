package verbstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		r.later(channel.Close)
		cq, err := r.B.CreateCQ(verbs.CQInitAttr{CQE: cqe, Channel: channel})
		if err != nil {
			return err
		}
		r.later(cq.Close)
		r.b.cq = cq
		qa, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		if err := expect("destroy of a channel in use", channel.Close(), verbs.ErrBusy); err != nil {
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
		// An event takes longer than its completion, by how much nobody says.
		got, err := channel.Wait(ctx, patience)
		for waited := time.Duration(0); errors.Is(err, context.Canceled) && waited < patience; waited += time.Millisecond {
			verbs.Sleep(r.B, time.Millisecond)
			got, err = channel.Wait(ctx, patience)
		}
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
	{"an SRQ that runs low", func(r *rig) error {
		srq, err := r.b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1})
		if err != nil {
			return err
		}
		r.later(srq.Close)
		limited, ok := srq.(verbs.LimitSRQ)
		if !ok {
			return fmt.Errorf("limits of SRQs: %w", verbs.ErrNotSupported)
		}
		if err := errors.Join(expect("a limit above the size", limited.SetLimit(1<<16), verbs.ErrInvalid), expect("a negative limit", limited.SetLimit(-1), verbs.ErrInvalid)); err != nil {
			return err
		}
		q, err := r.newQP(&r.a, ib.RC, nil)
		if err != nil {
			return err
		}
		drawing, err := r.newQP(&r.b, ib.RC, func(a *verbs.QPInitAttr) { a.SRQ = srq })
		if err != nil {
			return err
		}
		p, err := r.params()
		if err != nil {
			return err
		}
		if err := r.join(q, drawing, p); err != nil {
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
		if err := r.noEvents(); err != nil {
			return err
		}
		if n, err := srq.PostRecv(slices.Repeat([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 64)}}}, 5)); n != 5 || err != nil {
			return fmt.Errorf("%d of 5 receives posted: %w", n, err)
		}
		if err := limited.SetLimit(4); err != nil {
			return err
		}
		for i, wait := range []time.Duration{0, patience, 0, 0} { // the second leaves 3
			if err := post(q, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}}); err != nil {
				return err
			}
			if _, err := succeed(&r.a, 1); err != nil {
				return err
			}
			if _, err := succeed(&r.b, 1); err != nil {
				return err
			}
			if wait == 0 {
				if err := r.noEvents(); err != nil {
					return fmt.Errorf("after message %d: %w", i+1, err)
				}
				continue
			}
			// Devices may report other things of their own.
			for {
				e, err := r.B.AsyncEvent(context.Background(), wait)
				if err != nil {
					return fmt.Errorf("after message %d: %w", i+1, err)
				}
				if e.Type != ib.EventSRQLimit {
					continue
				}
				if e.SRQ != srq || e.QP != nil || e.CQ != nil {
					return fmt.Errorf("the event is %+v", e)
				}
				break
			}
		}
		return nil
	}},
	{"a completion queue of another size", func(r *rig) error {
		const n = 10
		first, err := r.A.CreateCQ(verbs.CQInitAttr{CQE: n})
		if err != nil {
			return err
		}
		r.later(first.Close)
		resizable, ok := first.(verbs.ResizableCQ)
		if !ok {
			return fmt.Errorf("resizing completion queues: %w", verbs.ErrNotSupported)
		}
		other := r.a
		r.a.cq = first
		qa, _, err := r.connected(func(a *verbs.QPInitAttr, _ *verbs.RCParams) {
			if a.SendCQ == first {
				a.RecvCQ = other.cq
			}
		})
		if err != nil {
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
		id := uint64(0)
		write := func() error {
			id++
			return post(qa, verbs.SendWR{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()})
		}
		for _, size := range []int{256, 16, 1024} {
			// The oldest of some that wait has been polled: the ring has turned.
			for range n {
				if err := write(); err != nil {
					return err
				}
			}
			if _, err := succeed(&r.a, 1); err != nil {
				return err
			}
			if err := resizable.Resize(size); err != nil {
				return err
			}
			if first.Cap() < size {
				return fmt.Errorf("resized to %d, it holds %d", size, first.Cap())
			}
			want := id - n + 2
			for range n - 1 {
				wc, err := succeed(&r.a, 1)
				if err != nil {
					return err
				}
				if wc[0].WRID != want {
					return fmt.Errorf("after a resize request %d came, want %d", wc[0].WRID, want)
				}
				want++
			}
			for range 300 {
				if err := write(); err != nil {
					return err
				}
				if _, err := succeed(&r.a, 1); err != nil {
					return err
				}
			}
		}
		return errors.Join(
			expect("resize to nothing", resizable.Resize(0), verbs.ErrInvalid),
			expect("resize beyond the device's most", resizable.Resize(r.A.Attr().MaxCQE+1), verbs.ErrInvalid),
		)
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

// noEvents drops events of what came before, and fails if an SRQ has run low.
func (r *rig) noEvents() error {
	for range 1000 {
		e, err := r.B.AsyncEvent(context.Background(), 0)
		if err != nil {
			return expect("no event", err, verbs.ErrTimeout)
		}
		if e.Type == ib.EventSRQLimit {
			return fmt.Errorf("an event that was not due: %+v", e)
		}
	}
	return errors.New("events without end")
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
