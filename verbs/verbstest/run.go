package verbstest

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Ends are the devices between which things are sent. They may be one.
type Ends struct {
	A, B verbs.Device
	// Port is that of both; 0 is 1.
	Port int
	// GIDA and GIDB are indexes in the ports' tables, negative for the first
	// IPv4 one, or else the first.
	GIDA, GIDB int
	// KeepsCompletions says that completions of A stay in their queue when the queue pair is
	// destroyed or reset: rdma-core's provider for the kernel's soft-RoCE leaves them there.
	// It frees the places of a send queue without a poll, too.
	KeepsCompletions bool
}

// patience bounds a wait, in the device's time.
const patience = 30 * time.Second

// A test is one thing that a provider promises.
type test struct {
	name string
	do   func(*rig) error
}

// Run runs all tests as subtests of t. The devices are open before and after.
func Run(t *testing.T, e Ends) {
	if e.Port == 0 {
		e.Port = 1
	}
	for _, part := range [][]test{apiTests, addressTests, trafficTests, failureTests, chosenTests, stateTests, eventTests, memoryTests, windowTests, placeTests, limitTests} {
		for _, c := range part {
			t.Run(c.name, func(t *testing.T) { e.run(t, c) })
		}
	}
}

func (e Ends) run(t *testing.T, c test) {
	err := verbs.Run(e.A, func() (err error) {
		r := &rig{Ends: e}
		defer func() { err = errors.Join(err, r.close()) }()
		if err := r.open(); err != nil {
			return err
		}
		return c.do(r)
	})
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		t.Skipf("not supported: %v", err)
	case err != nil:
		t.Error(err)
	}
}

// side is one end with its resources.
type side struct {
	dev   verbs.Device
	pd    verbs.PD
	cq    verbs.CQ
	gid   netip.Addr
	index int
}

// rig holds a test's resources. What it makes through the rig goes when the test ends.
type rig struct {
	Ends
	a, b    side
	cleanup []func() error // the newest last
}

func (r *rig) later(f func() error) { r.cleanup = append(r.cleanup, f) }

func (r *rig) close() error {
	var errs []error
	for i := len(r.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, r.cleanup[i]())
	}
	return errors.Join(errs...)
}

const cqe = 512

func (r *rig) open() error {
	for _, x := range []struct {
		s   *side
		dev verbs.Device
		gid int
	}{{&r.a, r.A, r.GIDA}, {&r.b, r.B, r.GIDB}} {
		s := x.s
		s.dev = x.dev
		var err error
		if s.index, s.gid, err = chooseGID(x.dev, r.Port, x.gid); err != nil {
			return err
		}
		if s.pd, err = x.dev.AllocPD(); err != nil {
			return err
		}
		r.later(s.pd.Close)
		if s.cq, err = x.dev.CreateCQ(verbs.CQInitAttr{CQE: cqe}); err != nil {
			return err
		}
		r.later(s.cq.Close)
	}
	return nil
}

func chooseGID(dev verbs.Device, port, index int) (int, netip.Addr, error) {
	if index >= 0 {
		gid, err := dev.GID(port, index)
		return index, gid, err
	}
	return verbs.UsualGID(dev, port)
}

var usualCap = verbs.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4}

// newQP makes a queue pair that is in RESET.
func (r *rig) newQP(s *side, kind ib.QPType, change func(*verbs.QPInitAttr)) (verbs.QP, error) {
	init := verbs.QPInitAttr{Type: kind, SendCQ: s.cq, RecvCQ: s.cq, Cap: usualCap}
	if change != nil {
		change(&init)
	}
	q, err := s.pd.CreateQP(init)
	if err == nil {
		r.later(q.Close)
	}
	return q, err
}

// connected makes two queue pairs and connects them.
func (r *rig) connected(change func(*verbs.QPInitAttr, *verbs.RCParams)) (qa, qb verbs.QP, err error) {
	p, err := r.params()
	if err != nil {
		return nil, nil, err
	}
	modify := func(init *verbs.QPInitAttr) {
		if change != nil {
			change(init, &p)
		}
	}
	if qa, err = r.newQP(&r.a, ib.RC, modify); err != nil {
		return nil, nil, err
	}
	if qb, err = r.newQP(&r.b, ib.RC, modify); err != nil {
		return nil, nil, err
	}
	return qa, qb, r.join(qa, qb, p)
}

// params are those of a connection of the rig's.
func (r *rig) params() (verbs.RCParams, error) {
	p := verbs.DefaultRC()
	p.Port, p.Timeout = r.Port, 17 // a busy machine is slow to acknowledge
	p.MaxRdAtomic = uint8(min(16, r.A.Attr().MaxQPInitRdAtom, r.B.Attr().MaxQPInitRdAtom))
	p.MaxDestRdAtomic = uint8(min(16, r.A.Attr().MaxQPRdAtom, r.B.Attr().MaxQPRdAtom))
	attr, err := r.A.Port(r.Port)
	p.PathMTU = min(p.PathMTU, attr.ActiveMTU)
	return p, err
}

// join connects two queue pairs that are in RESET.
func (r *rig) join(qa, qb verbs.QP, p verbs.RCParams) error {
	ea := verbs.Endpoint{GID: r.a.gid, QPN: qa.Num(), PSN: 0xfffff0} // wraps soon
	eb := verbs.Endpoint{GID: r.b.gid, QPN: qb.Num(), PSN: 77}
	p.SGIDIndex = r.a.index
	if err := verbs.ConnectRC(qa, ea, eb, p); err != nil {
		return err
	}
	p.SGIDIndex = r.b.index
	return verbs.ConnectRC(qb, eb, ea, p)
}

// connectedUC makes two queue pairs and connects them unreliably.
func (r *rig) connectedUC() (qa, qb verbs.QP, err error) {
	var q [2]verbs.QP
	sides := [2]*side{&r.a, &r.b}
	for i, s := range sides {
		if q[i], err = r.newQP(s, ib.UC, nil); err != nil {
			return nil, nil, err
		}
	}
	for i, s := range sides {
		for _, step := range []struct {
			a    verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: r.Port, Access: everything &^ (ib.AccessRemoteRead | ib.AccessRemoteAtomic)}, verbs.ResetToInitUC},
			{verbs.QPAttr{
				State: ib.RTR, PathMTU: 1024, DestQPN: q[1-i].Num(), RQPSN: uint32(0xfffffe + i),
				AV: verbs.AddressVector{GID: sides[1-i].gid, SGIDIndex: s.index, HopLimit: 64},
			}, verbs.InitToRTRUC},
			{verbs.QPAttr{State: ib.RTS, SQPSN: uint32(0xffffff - i)}, verbs.RTRToRTSUC},
		} {
			if err := q[i].Modify(step.a, step.mask); err != nil {
				return nil, nil, err
			}
		}
	}
	return q[0], q[1], nil
}

const everything = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic

// register makes a region of n bytes, each of which is derived from seed.
func (r *rig) register(s *side, n int, seed byte) ([]byte, verbs.MR, error) {
	buf := pattern(n, seed)
	mr, err := s.pd.RegMR(buf, everything)
	if err == nil {
		r.later(mr.Close)
	}
	return buf, mr, err
}

func pattern(n int, seed byte) []byte {
	buf := make([]byte, n)
	for i := range buf {
		buf[i] = byte(i*7+i>>8) ^ seed
	}
	return buf
}

// wait returns the next n completions of a queue.
func wait(s *side, n int) ([]verbs.WC, error) {
	wc := make([]verbs.WC, n)
	got, start := 0, s.dev.Now()
	for got < n {
		k, err := s.cq.Poll(wc[got:])
		if err != nil {
			return wc[:got], err
		}
		if got += k; k == 0 && s.dev.Now()-start > patience {
			return wc[:got], fmt.Errorf("%d of %d completions after %v", got, n, patience)
		}
	}
	return wc, nil
}

// succeed waits for n completions, of which all must have succeeded.
func succeed(s *side, n int) ([]verbs.WC, error) {
	wc, err := wait(s, n)
	for _, w := range wc {
		if w.Status != ib.WCSuccess {
			return wc, fmt.Errorf("request %d: %w (vendor %#x)", w.WRID, w.Status, w.VendorErr)
		}
	}
	return wc, err
}

// post posts all of wrs.
func post(q verbs.QP, wrs ...verbs.SendWR) error {
	n, err := q.PostSend(wrs)
	if err == nil && n != len(wrs) {
		err = fmt.Errorf("post_send took %d of %d requests without an error", n, len(wrs))
	}
	return err
}

func postRecv(q verbs.QP, wrs ...verbs.RecvWR) error {
	n, err := q.PostRecv(wrs)
	if err == nil && n != len(wrs) {
		err = fmt.Errorf("post_recv took %d of %d receives without an error", n, len(wrs))
	}
	return err
}

// expect says that an error is not the one that was due.
func expect(what string, got, want error) error {
	if errors.Is(got, want) {
		return nil
	}
	return fmt.Errorf("%s: error %v, want %v", what, got, want) //nolint:errorlint // one of them may be nil
}
