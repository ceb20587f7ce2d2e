package verbstest

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// placeTests are about the places of a send queue. One is free when the completion of its
// request, or of a later one, has been polled: a NIC's driver learns of requests in no other
// way (libmlx5 and libmlx4 move sq.tail as they poll).
var placeTests = []test{
	{"a queue of silent requests stays full", func(r *rig) error {
		w, err := r.writer()
		if err != nil {
			return err
		}
		if err := w.fill(0, verbs.ErrQueueFull); err != nil {
			return err
		}
		// Those of another queue pair follow: when they are done, time has passed.
		if err := w.pass(); err != nil {
			return err
		}
		return expect("post_send after all have ended, and none was polled", post(w.q, w.wr), verbs.ErrQueueFull)
	}},
	{"a poll frees up to its request", func(r *rig) error {
		w, err := r.writer()
		if err != nil {
			return err
		}
		const at = 5 // signaled
		if err := w.fill(at, verbs.ErrQueueFull); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		for range at {
			if err := post(w.q, w.wr); err != nil {
				return fmt.Errorf("after the poll of request %d: %w", at, err)
			}
		}
		return expect("post_send beyond", post(w.q, w.wr), verbs.ErrQueueFull)
	}},
	{"a completion that nobody polls frees nothing", func(r *rig) error {
		w, err := r.writer()
		if err != nil {
			return err
		}
		w.wr.Flags = verbs.SendSignaled
		if err := w.fill(0, verbs.ErrQueueFull); err != nil {
			return err
		}
		if err := expect("post_send before a poll", post(w.q, w.wr), verbs.ErrQueueFull); err != nil {
			return err
		}
		if _, err := succeed(&r.a, w.depth); err != nil {
			return err
		}
		return w.fill(0, verbs.ErrQueueFull)
	}},
	{"RESET frees all places", func(r *rig) error {
		w, err := r.writer()
		if err != nil {
			return err
		}
		if err := w.fill(0, verbs.ErrQueueFull); err != nil {
			return err
		}
		for _, q := range []verbs.QP{w.q, w.peer} {
			if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
				return err
			}
		}
		p, err := r.params()
		if err != nil {
			return err
		}
		if err := r.join(w.q, w.peer, p); err != nil {
			return err
		}
		return w.fill(0, verbs.ErrQueueFull)
	}},
}

// writer is a queue pair that posts Writes of no bytes, without completions.
type writer struct {
	rig     *rig
	q, peer verbs.QP
	depth   int
	wr      verbs.SendWR
}

func (r *rig) writer() (*writer, error) {
	if r.KeepsCompletions {
		return nil, verbs.ErrNotSupported // the kernel's soft-RoCE frees places as requests end
	}
	w := &writer{rig: r, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite}}
	var err error
	if w.q, w.peer, err = r.connected(func(init *verbs.QPInitAttr, _ *verbs.RCParams) { init.Cap.MaxSendWR = 16 }); err != nil {
		return nil, err
	}
	a, err := w.q.Query()
	w.depth = a.Cap.MaxSendWR
	return w, err
}

// fill posts as many as the queue holds, of which request number signaled, from 1, gives a
// completion, and expects an error for one more.
func (w *writer) fill(signaled int, want error) error {
	for i := 1; i <= w.depth; i++ {
		wr := w.wr
		if i == signaled {
			wr.Flags |= verbs.SendSignaled
		}
		if err := post(w.q, wr); err != nil {
			return fmt.Errorf("request %d of %d: %w", i, w.depth, err)
		}
	}
	return expect(fmt.Sprintf("post_send of request %d to a queue of %d", w.depth+1, w.depth), post(w.q, w.wr), want)
}

// pass waits for requests of another queue pair, so that those of w have probably ended.
func (w *writer) pass() error {
	q, _, err := w.rig.connected(nil)
	if err != nil {
		return err
	}
	for i := range 50 {
		if err := post(q, verbs.SendWR{WRID: uint64(1000 + i), Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}); err != nil {
			return err
		}
		if _, err := succeed(&w.rig.a, 1); err != nil {
			return err
		}
	}
	return nil
}
