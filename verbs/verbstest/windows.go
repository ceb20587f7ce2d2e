package verbstest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// windowTests are about memory windows. They are skipped over devices without them.
var windowTests = []test{
	{"a memory window of type 1", func(r *rig) error {
		w, err := r.windowed(ib.MWType1)
		if err != nil {
			return err
		}
		// Its rights are its own.
		first, err := w.bind(64, 32, ib.AccessRemoteWrite)
		if err != nil {
			return err
		}
		if err := errors.Join(
			w.reaches(ib.WRRDMAWrite, first, 64, 32), w.refuses(ib.WRRDMARead, first, 64, 8),
			w.refuses(ib.WRRDMAWrite, first, 63, 8), w.refuses(ib.WRRDMAWrite, first, 64+32-7, 8),
		); err != nil {
			return err
		}
		// The next bind ends its key. All queue pairs of the domain share the window: refuses
		// makes new ones.
		second, err := w.bind(0, windowBytes, ib.AccessRemoteRead|ib.AccessRemoteAtomic)
		if err != nil {
			return err
		}
		if second == first || w.mw.RKey() != second {
			return fmt.Errorf("keys %#x and %#x, and the window has %#x", first, second, w.mw.RKey())
		}
		if err := errors.Join(
			w.refuses(ib.WRRDMAWrite, first, 64, 32), w.refuses(ib.WRRDMAWrite, second, 0, 8),
			w.reaches(ib.WRRDMARead, second, 0, windowBytes), w.reaches(ib.WRAtomicFetchAndAdd, second, 8, 8),
			// Only a window of type 2 is a peer's to invalidate, or an application's.
			w.refuses(ib.WRSendWithInv, second, 0, 0), w.fails(verbs.SendWR{Opcode: ib.WRLocalInv, Imm: second}),
			w.reaches(ib.WRRDMARead, second, 0, 8),
		); err != nil {
			return err
		}
		if w.mr.Close() == nil {
			return errors.New("a region with a window bound to it was deregistered")
		}
		third, err := w.bind(0, 0, 0)
		if err != nil {
			return err
		}
		return errors.Join(w.refuses(ib.WRRDMARead, second, 0, 8), w.refuses(ib.WRRDMARead, third, 0, 8))
	}},
	{"a memory window of type 2", func(r *rig) error {
		w, err := r.windowed(ib.MWType2)
		if err != nil {
			return err
		}
		const all = ib.AccessRemoteWrite | ib.AccessRemoteRead
		key, err := w.bind(64, 64, all)
		if err != nil {
			return err
		}
		if err := errors.Join(w.reaches(ib.WRRDMAWrite, key, 64, 64), w.reaches(ib.WRRDMARead, key, 100, 28)); err != nil {
			return err
		}
		// It is the queue pair's that bound it.
		bound := w.ends
		if err := w.anew(); err != nil {
			return err
		}
		if err := w.refuses(ib.WRRDMARead, key, 64, 8); err != nil {
			return err
		}
		w.ends = bound
		// The application takes it away.
		if err := post(w.qb, verbs.SendWR{Opcode: ib.WRLocalInv, Imm: key, Flags: verbs.SendSignaled}); err != nil {
			return err
		}
		wc, err := succeed(&r.b, 1)
		if err != nil {
			return fmt.Errorf("invalidated: %w", err)
		}
		if wc[0].Opcode != ib.WCLocalInv {
			return fmt.Errorf("invalidated: %+v", wc)
		}
		if err := w.refuses(ib.WRRDMARead, key, 64, 8); err != nil {
			return err
		}
		// Or its peer does, by a message that says so.
		if key, err = w.bind(0, windowBytes, all); err != nil {
			return err
		}
		if err := errors.Join(w.reaches(ib.WRRDMAWrite, key, 0, 8), postRecv(w.qb, verbs.RecvWR{WRID: 5})); err != nil {
			return err
		}
		if err := post(w.qa, verbs.SendWR{Opcode: ib.WRSendWithInv, Imm: key, Flags: verbs.SendSignaled}); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		if wc, err = succeed(&r.b, 1); err != nil {
			return fmt.Errorf("a receive that invalidates %#x: %w", key, err)
		}
		if wc[0].Flags&verbs.WCWithInv == 0 || wc[0].Imm != key {
			return fmt.Errorf("a receive that invalidates %#x: %+v", key, wc)
		}
		return w.refuses(ib.WRRDMAWrite, key, 0, 8)
	}},
	{"binds that are not allowed", func(r *rig) error {
		w, err := r.windowed(ib.MWType2)
		if err != nil {
			return err
		}
		_, plain, err := r.register(&r.b, windowBytes, 3) // without MW_BIND
		if err != nil {
			return err
		}
		inside := verbs.BindInfo{MR: w.mr, Addr: w.mr.Addr(), Length: 8, Access: ib.AccessRemoteRead}
		change := func(f func(*verbs.BindInfo)) verbs.SendWR {
			b := inside
			f(&b)
			return verbs.BindMW(w.mw, b)
		}
		stale := verbs.BindMW(w.mw, inside)
		stale.RKey = w.mw.RKey()
		for what, wr := range map[string]verbs.SendWR{
			"a region without MW_BIND": change(func(b *verbs.BindInfo) { b.MR, b.Addr = plain, plain.Addr() }),
			"before the region":        change(func(b *verbs.BindInfo) { b.Addr-- }),
			"beyond the region":        change(func(b *verbs.BindInfo) { b.Length = windowBytes + 1 }),
			"no region":                change(func(b *verbs.BindInfo) { b.MR = nil }),
			"nothing":                  change(func(b *verbs.BindInfo) { b.Length = 0 }),
			"the key that it has":      stale,
		} {
			if err := w.fails(wr); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if _, err := w.bind(0, 8, ib.AccessRemoteRead); err != nil {
			return err
		}
		if err := w.fails(verbs.BindMW(w.mw, inside)); err != nil {
			return fmt.Errorf("a window that is bound: %w", err)
		}
		_, errAccess := w.qb.PostSend([]verbs.SendWR{change(func(b *verbs.BindInfo) { b.Access = ib.AccessLocalWrite })})
		_, errType := verbs.AllocMW(r.b.pd, 3)
		return errors.Join(expect("a bind for local access", errAccess, verbs.ErrInvalid), expect("a window of type 3", errType, verbs.ErrInvalid))
	}},
	{"memory windows end with what they are bound to", func(r *rig) error {
		w, err := r.windowed(ib.MWType2)
		if err != nil {
			return err
		}
		for what, end := range map[string]func() error{
			"reset":   func() error { return w.qb.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState) },
			"destroy": func() error { return w.qb.Close() },
		} {
			// Not the rig's to destroy.
			if w.qb, err = r.b.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: r.b.cq, RecvCQ: r.b.cq, Cap: usualCap}); err != nil {
				return err
			}
			if w.qa, err = r.newQP(&r.a, ib.RC, nil); err != nil {
				return err
			}
			p, err := r.params()
			if err != nil {
				return err
			}
			if err := r.join(w.qa, w.qb, p); err != nil {
				return err
			}
			if _, err := w.bind(0, 8, ib.AccessRemoteRead); err != nil {
				return fmt.Errorf("before %s: %w", what, err)
			}
			if err := end(); err != nil {
				return err
			}
			if what != "destroy" {
				r.later(w.qb.Close)
			}
		}
		if err := w.anew(); err != nil {
			return err
		}
		key, err := w.bind(0, 8, ib.AccessRemoteRead)
		if err != nil {
			return fmt.Errorf("after its queue pair has gone: %w", err)
		}
		// The region's key goes first: what is bound to it is of no use.
		if err := post(w.qb, verbs.SendWR{Opcode: ib.WRLocalInv, Imm: w.mr.LKey(), Flags: verbs.SendSignaled}); err != nil {
			return err
		}
		if _, err := succeed(&r.b, 1); err != nil {
			return err
		}
		return w.refuses(ib.WRRDMARead, key, 0, 8)
	}},
	{"a memory window that is gone", func(r *rig) error {
		w, err := r.windowed(ib.MWType1)
		if err != nil {
			return err
		}
		key, err := w.bind(0, 8, ib.AccessRemoteRead)
		if err != nil {
			return err
		}
		other, err := verbs.AllocMW(r.b.pd, ib.MWType1)
		if err != nil {
			return err
		}
		if err := other.Close(); err != nil {
			return err
		}
		if other.Close() == nil {
			return errors.New("dealloc_mw twice gave no error")
		}
		if err := w.reaches(ib.WRRDMARead, key, 0, 8); err != nil {
			return err
		}
		if r.b.pd.Close() == nil {
			return errors.New("dealloc_pd with a window gave no error")
		}
		if err := w.mw.Close(); err != nil {
			return err
		}
		return w.refuses(ib.WRRDMARead, key, 0, 8)
	}},
}

const windowBytes = 256

// windowed is the set-up of the tests of windows: a window at B, and A as the peer.
type windowed struct {
	r     *rig
	mw    verbs.MW
	mr    verbs.MR
	local verbs.MR
	from  []byte // local's memory
	to    []byte // mr's
	ends
}

// ends are two queue pairs that are connected.
type ends struct{ qa, qb verbs.QP }

func (r *rig) windowed(t ib.MWType) (*windowed, error) {
	w := &windowed{r: r, to: pattern(windowBytes, 2)}
	var err error
	if w.mw, err = verbs.AllocMW(r.b.pd, t); err != nil {
		return nil, err
	}
	if w.mw.Type() != t {
		return nil, fmt.Errorf("a window of %v was made, not %v", w.mw.Type(), t)
	}
	r.later(func() error { // after its region
		if err := w.mw.Close(); !errors.Is(err, verbs.ErrClosed) {
			return err
		}
		return nil
	})
	if w.mr, err = r.b.pd.RegMR(w.to, everything|ib.AccessMWBind); err != nil {
		return nil, err
	}
	r.later(w.close)
	if w.from, w.local, err = r.register(&r.a, windowBytes, 1); err != nil {
		return nil, err
	}
	return w, w.anew()
}

// close deregisters the region that a window may be bound to.
func (w *windowed) close() error {
	if err := w.mw.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		return err
	}
	return w.mr.Close()
}

// anew connects queue pairs.
func (w *windowed) anew() (err error) {
	w.qa, w.qb, err = w.r.connected(nil)
	return err
}

// bind binds length bytes from offset on, and returns the key.
func (w *windowed) bind(offset, length uint64, access ib.AccessFlags) (uint32, error) {
	wr := verbs.BindMW(w.mw, verbs.BindInfo{MR: w.mr, Addr: w.mr.Addr() + offset, Length: length, Access: access})
	wr.Flags = verbs.SendSignaled
	if err := post(w.qb, wr); err != nil {
		return 0, err
	}
	wc, err := succeed(&w.r.b, 1)
	if err != nil {
		return 0, fmt.Errorf("bind of %d bytes at %d: %w", length, offset, err)
	}
	if wc[0].Opcode != ib.WCBindMW || w.mw.RKey() != wr.RKey {
		return 0, fmt.Errorf("a bind of key %#x completed as %v, with key %#x", wr.RKey, wc[0].Opcode, w.mw.RKey())
	}
	return wr.RKey, nil
}

// fails has B post what must end with a bind error, on queue pairs of its own.
func (w *windowed) fails(wr verbs.SendWR) error {
	before := w.ends
	defer func() { w.ends = before }()
	if err := w.anew(); err != nil {
		return err
	}
	wr.Flags = verbs.SendSignaled
	if err := post(w.qb, wr); err != nil {
		return err
	}
	return w.r.status(&w.r.b, ib.WCMWBindErr, ib.WCLocQPOpErr)
}

// request is A's for n bytes at offset of the region.
func (w *windowed) request(op ib.WROpcode, key uint32, offset uint64, n int) verbs.SendWR {
	wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: w.mr.Addr() + offset, RKey: key, CompareAdd: 1}
	if op == ib.WRSendWithInv {
		wr.Imm = key
	}
	if n > 0 {
		wr.SGL = []verbs.SGE{verbs.SGEOf(w.local, int(offset), n)}
	}
	return wr
}

// reaches checks that A's request succeeds, and does what it is to do.
func (w *windowed) reaches(op ib.WROpcode, key uint32, offset uint64, n int) error {
	copy(w.from, pattern(windowBytes, w.from[0]+1))
	want := w.from
	if op == ib.WRRDMARead || op.IsAtomic() {
		want = bytes.Clone(w.to)
	}
	if err := post(w.qa, w.request(op, key, offset, n)); err != nil {
		return err
	}
	if _, err := succeed(&w.r.a, 1); err != nil {
		return fmt.Errorf("%v of %d bytes at %d by key %#x: %w", op, n, offset, key, err)
	}
	end := offset + uint64(n)
	got := w.to[offset:end]
	if op == ib.WRRDMARead || op.IsAtomic() {
		got = w.from[offset:end]
	}
	if !bytes.Equal(got, want[offset:end]) {
		return fmt.Errorf("%v of %d bytes at %d: memory differs", op, n, offset)
	}
	return nil
}

// refuses checks that A's request fails, and connects queue pairs anew, unless the window
// is of a pair that goes on.
func (w *windowed) refuses(op ib.WROpcode, key uint32, offset uint64, n int) error {
	before := bytes.Clone(w.to)
	if op == ib.WRSendWithInv {
		if err := postRecv(w.qb, verbs.RecvWR{WRID: 6}); err != nil {
			return err
		}
	}
	if err := post(w.qa, w.request(op, key, offset, n)); err != nil {
		return err
	}
	if err := w.r.status(&w.r.a, ib.WCRemAccessErr, ib.WCRemInvReqErr, ib.WCRemOpErr); err != nil {
		return fmt.Errorf("%v of %d bytes at %d by key %#x, which does not allow it: %w", op, n, offset, key, err)
	}
	if !bytes.Equal(w.to, before) {
		return fmt.Errorf("%v of %d bytes at %d by key %#x, which does not allow it, changed memory", op, n, offset, key)
	}
	if op == ib.WRSendWithInv { // the receive ends with whatever status the device has for that
		if _, err := verbs.Drain(w.r.b.dev, w.r.b.cq, make([]verbs.WC, 1), patience); err == nil {
			return errors.New("a receive that was refused succeeded")
		}
	}
	return w.anew()
}
