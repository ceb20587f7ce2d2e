package verbstest

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// chosenTests are about calls and completions that fail as was asked (verbs.CallFailer).
var chosenTests = []test{
	{"a post that fails as was asked", func(r *rig) error {
		x, err := r.chosen(verbs.CallFailure{Call: verbs.FailPostSend, After: 2, Errno: syscall.ENOMEM})
		if err != nil {
			return err
		}
		if n, err := x.qp.PostSend([]verbs.SendWR{x.write(1), x.write(2), x.write(3)}); n != 2 || !errors.Is(err, syscall.ENOMEM) {
			return fmt.Errorf("%d requests were taken, and then %w; expected 2, and ENOMEM", n, err)
		}
		if err := post(x.qp, x.write(3)); err != nil {
			return fmt.Errorf("the next post: %w", err)
		}
		_, err = succeed(&r.a, 3)
		return err
	}},
	{"a poll that fails as was asked", func(r *rig) error {
		x, err := r.chosen(verbs.CallFailure{Call: verbs.FailPollCQ, After: 1, Errno: syscall.EIO})
		if err != nil {
			return err
		}
		if err := post(x.qp, x.write(1), x.write(2)); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		var wc [1]verbs.WC
		if n, err := r.a.cq.Poll(wc[:]); n != 0 || !errors.Is(err, syscall.EIO) {
			return fmt.Errorf("a poll found %d, %w; expected EIO", n, err)
		}
		_, err = succeed(&r.a, 1)
		return err
	}},
	{"a completion with the status that was asked for", func(r *rig) error {
		x, err := r.chosen(verbs.CallFailure{Call: verbs.FailCompletion, After: 1, Status: ib.WCRemAccessErr, VendorErr: 0x77})
		if err != nil {
			return err
		}
		if err := post(x.qp, x.write(1), x.write(2), x.write(3)); err != nil {
			return err
		}
		wc, err := wait(&r.a, 3)
		if err != nil {
			return err
		}
		for i, want := range []struct {
			status ib.WCStatus
			vendor uint32
		}{{ib.WCSuccess, 0}, {ib.WCRemAccessErr, 0x77}, {ib.WCWRFlushErr, 0xf9}} {
			if wc[i].WRID != uint64(i+1) || wc[i].Status != want.status || wc[i].VendorErr != want.vendor {
				return fmt.Errorf("completion %d is %+v, expected %w and %#x", i, wc[i], want.status, want.vendor)
			}
		}
		if a, err := x.qp.Query(); err != nil || a.State != ib.Err {
			return fmt.Errorf("the queue pair is in %v (%w)", a.State, err)
		}
		if err := post(x.qp, x.write(4)); err != nil {
			return err
		}
		_, err = verbs.Drain(r.a.dev, r.a.cq, make([]verbs.WC, 1), patience)
		return expect("the request behind it", err, ib.WCWRFlushErr)
	}},
	{"failures that can't be asked for", func(r *rig) error {
		x, err := r.chosen(verbs.CallFailure{Call: verbs.FailPollCQ, After: 1 << 40, Errno: syscall.EIO})
		if err != nil {
			return err
		}
		num := x.qp.Num()
		for _, f := range []verbs.CallFailure{
			{Call: verbs.FailCompletion + 1, QP: num, Errno: syscall.EIO},
			{Call: verbs.FailCompletion, QP: num},
			{Call: verbs.FailCompletion, QP: num, Status: 200},
			{Call: verbs.FailCompletion, QP: num, Status: ib.WCFatalErr, VendorErr: 0x100},
			{Call: verbs.FailCompletion, QP: num, Status: ib.WCFatalErr, Errno: syscall.EIO},
			{Call: verbs.FailPostSend, QP: num},
			{Call: verbs.FailPollCQ, QP: num, Errno: syscall.EIO, Status: ib.WCFatalErr},
			{Call: verbs.FailPostSend, QP: num ^ 0x800000, Errno: syscall.EIO},
		} {
			if err := r.a.dev.(verbs.CallFailer).FailCall(f); !errors.Is(err, verbs.ErrInvalid) {
				return fmt.Errorf("%+v: %w, expected %w", f, err, verbs.ErrInvalid)
			}
		}
		return nil
	}},
}

// chooser is a connected queue pair that can write, of which something fails.
type chooser struct {
	qp       verbs.QP
	lmr, rmr verbs.MR
}

func (r *rig) chosen(f verbs.CallFailure) (*chooser, error) {
	dev, ok := r.a.dev.(verbs.CallFailer)
	if !ok {
		return nil, fmt.Errorf("calls that fail as asked: %w", verbs.ErrNotSupported)
	}
	x := &chooser{}
	var err error
	if x.qp, _, err = r.connected(nil); err != nil {
		return nil, err
	}
	if _, x.lmr, err = r.register(&r.a, 64, 1); err != nil {
		return nil, err
	}
	if _, x.rmr, err = r.register(&r.b, 64, 2); err != nil {
		return nil, err
	}
	f.QP = x.qp.Num()
	return x, dev.FailCall(f)
}

func (x *chooser) write(id uint64) verbs.SendWR {
	return verbs.SendWR{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(x.lmr, 0, 8)}, RemoteAddr: x.rmr.Addr(), RKey: x.rmr.RKey()}
}
