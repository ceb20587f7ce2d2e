package verbstest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// failureTests are about requests that must fail, and what becomes of the others.
var failureTests = []test{
	{"a wrong remote key", func(r *rig) error {
		return r.fails(func(wr *verbs.SendWR, _, rmr verbs.MR) { wr.RKey = rmr.RKey() ^ 0x5a5a00 }, ib.WCRemAccessErr)
	}},
	{"beyond the remote region", func(r *rig) error {
		return r.fails(func(wr *verbs.SendWR, _, rmr verbs.MR) { wr.RemoteAddr = rmr.Addr() + uint64(rmr.Length()) - 7 }, ib.WCRemAccessErr)
	}},
	// The Linux soft-RoCE driver calls faults of one's own memory "local QP operation
	// error", whatever they are.
	{"a wrong local key", func(r *rig) error {
		return r.fails(func(wr *verbs.SendWR, lmr, _ verbs.MR) { wr.SGL[0].LKey = lmr.LKey() ^ 0x5a5a00 }, ib.WCLocProtErr, ib.WCLocQPOpErr)
	}},
	// Who may write a region must not be able to end its key for everybody.
	{"invalidate of a plain region", func(r *rig) error {
		qa, qb, err := r.connected(nil)
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
		if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 64)}}); err != nil {
			return err
		}
		if err := post(qa, verbs.SendWR{Opcode: ib.WRSendWithInv, Imm: rmr.RKey(), Flags: verbs.SendSignaled}); err != nil {
			return err
		}
		// The kernel's soft-RoCE acknowledges the Send, and fails its receive only.
		if err := r.status(&r.a, ib.WCRemAccessErr, ib.WCRemInvReqErr, ib.WCRemOpErr, ib.WCSuccess); err != nil {
			return err
		}
		// The receive ends with whatever status the device has for that.
		wc := make([]verbs.WC, 1)
		if _, err := verbs.Drain(r.b.dev, r.b.cq, wc, patience); err == nil {
			return fmt.Errorf("a receive that was refused completed as %+v", wc[0])
		}
		if qa, _, err = r.connected(nil); err != nil {
			return err
		}
		if err := post(qa, verbs.SendWR{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 64)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey(),
		}); err != nil {
			return err
		}
		_, err = succeed(&r.a, 1)
		return err
	}},
	{"no receive", func(r *rig) error {
		qa, _, err := r.connected(func(_ *verbs.QPInitAttr, p *verbs.RCParams) { p.RNRRetry = 0 })
		if err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		if err := post(qa, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}}); err != nil {
			return err
		}
		return r.status(&r.a, ib.WCRNRRetryExcErr)
	}},
	{"a receive too short", func(r *rig) error {
		qa, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, 64, 1)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 16)}}); err != nil {
			return err
		}
		if err := post(qa, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 32)}}); err != nil {
			return err
		}
		if err := errors.Join(r.status(&r.a, ib.WCRemInvReqErr, ib.WCRemOpErr), r.status(&r.b, ib.WCLocLenErr, ib.WCLocQPOpErr)); err != nil {
			return err
		}
		if !bytes.Equal(remote[16:], pattern(64, 2)[16:]) {
			return errors.New("memory behind the receive has changed")
		}
		return nil
	}},
	{"flush", func(r *rig) error {
		_, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		for i := range 5 {
			if err := postRecv(qb, verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 16)}}); err != nil {
				return err
			}
		}
		if err := qb.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			return err
		}
		wc, err := wait(&r.b, 5)
		if err != nil {
			return err
		}
		for i, w := range wc {
			if w.Status != ib.WCWRFlushErr || w.WRID != uint64(i) {
				return fmt.Errorf("receive %d: %w of %d", i, w.Status, w.WRID)
			}
		}
		// It is of use again after RESET.
		if err := qb.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			return err
		}
		a, err := qb.Query()
		if err == nil && a.State != ib.Reset {
			err = fmt.Errorf("it is in %v after RESET", a.State)
		}
		return err
	}},
	{"a full queue", func(r *rig) error {
		_, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, 64, 2)
		if err != nil {
			return err
		}
		for n := range 1 << 16 {
			took, err := qb.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 1)}}})
			switch {
			case err == nil && took == 1:
				continue
			case took != 0:
				return fmt.Errorf("a receive was taken with an error: %w", err)
			case n < usualCap.MaxRecvWR:
				return fmt.Errorf("full after %d receives: it was made for %d: %w", n, usualCap.MaxRecvWR, err)
			}
			return expect("a receive too many", err, verbs.ErrQueueFull)
		}
		return errors.New("65536 receives were taken by a queue for 128")
	}},
}

// fails posts a Write that must end with the status, and one behind it that must
// be flushed. Remote memory must not change.
func (r *rig) fails(spoil func(wr *verbs.SendWR, lmr, rmr verbs.MR), want ...ib.WCStatus) error {
	qa, _, err := r.connected(nil)
	if err != nil {
		return err
	}
	_, lmr, err := r.register(&r.a, 64, 1)
	if err != nil {
		return err
	}
	remote, rmr, err := r.register(&r.b, 64, 2)
	if err != nil {
		return err
	}
	before := slices.Clone(remote)
	good := func(id uint64) verbs.SendWR {
		return verbs.SendWR{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()}
	}
	bad := good(1)
	spoil(&bad, lmr, rmr)
	if err := post(qa, bad); err != nil {
		return err
	}
	if err := r.status(&r.a, want...); err != nil {
		return err
	}
	if !bytes.Equal(remote, before) {
		return errors.New("remote memory has changed")
	}
	a, err := qa.Query()
	if err == nil && a.State != ib.Err && a.State != ib.SQE {
		err = fmt.Errorf("the queue pair is in %v", a.State)
	}
	if err != nil {
		return err
	}
	if err := post(qa, good(2)); err != nil {
		return err
	}
	_, err = verbs.Drain(r.a.dev, r.a.cq, make([]verbs.WC, 1), patience)
	return expect("the request behind it", err, ib.WCWRFlushErr)
}

// status expects that the next completion ends so.
func (r *rig) status(s *side, want ...ib.WCStatus) error {
	wc, err := wait(s, 1)
	if err == nil && !slices.Contains(want, wc[0].Status) {
		err = fmt.Errorf("request %d ended with %w, want %v", wc[0].WRID, wc[0].Status, want)
	}
	return err
}
