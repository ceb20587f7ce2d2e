package simverbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestReadWithoutResourcesIsAnError(t *testing.T) {
	a, b := open(t, "sim:noread/h0"), open(t, "sim:noread/h1")
	p := verbs.DefaultRC()
	p.MaxRdAtomic = 0
	if err := verbs.ConnectRC(a.qp, a.me, b.me, p); err != nil {
		t.Fatal(err)
	}
	mr, err := a.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 8)}}})
	if !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a Read on a queue pair that may have none: %v", err)
	}
}

func TestUseAfterDestroyIsAnError(t *testing.T) {
	a, _ := pair(t, "gone")
	if err := a.qp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.qp.(verbs.RateLimitQP).SetRateLimit(1e9); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("rate limit of a destroyed queue pair: %v", err)
	}
	if err := a.qp.(verbs.WeightQP).SetWeight(2); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("weight of a destroyed queue pair: %v", err)
	}
	pd, err := a.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if err := pd.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 4}})
	if !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a queue pair in a deallocated PD: %v", err)
	}
}

func TestFailedCreateHoldsNothing(t *testing.T) {
	a, _ := pair(t, "srq")
	s, err := a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, SRQ: s, Cap: verbs.QPCap{MaxSendWR: 0}}); err == nil {
		t.Fatal("a queue pair without a send queue was made")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A queue pair in ERR flushes what is posted to it, so that a program can drain it.
func TestReceivesInErrAreFlushed(t *testing.T) {
	a, _ := pair(t, "drain")
	if err := a.qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if _, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: 5}}); err != nil {
		t.Fatal(err)
	}
	verbs.Sleep(a.dev, time.Millisecond)
	wc := make([]verbs.WC, 4)
	if n, err := a.cq.Poll(wc); n != 1 || err != nil || wc[0].WRID != 5 || wc[0].Status != ib.WCWRFlushErr {
		t.Errorf("%d completions, %v: %+v", n, err, wc[0])
	}
}

// What was posted to a queue pair in INIT is flushed when it goes to ERR, and what
// is posted then.
func TestFlushFromInit(t *testing.T) {
	a := open(t, "sim:initerr/h0")
	if err := a.qp.Modify(verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err != nil {
		t.Fatal(err)
	}
	recv := func(id uint64) {
		if _, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	recv(1)
	recv(2)
	if err := a.qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	recv(3)
	for id := uint64(4); id < 8; id++ {
		if _, err := a.qp.PostSend([]verbs.SendWR{{WRID: id, Opcode: ib.WRSend}}); err != nil {
			t.Fatal(err)
		}
	}
	wc := make([]verbs.WC, 8)
	verbs.Sleep(a.dev, time.Millisecond)
	if n, err := a.cq.Poll(wc); n != 7 || err != nil {
		t.Fatalf("%d completions, %v", n, err)
	}
	for i, c := range wc[:7] {
		if c.WRID != uint64(i+1) || c.Status != ib.WCWRFlushErr || c.QPN != a.qp.Num() {
			t.Errorf("%+v", c)
		}
	}
}

// What a queue pair has completed is gone with it (ibv_destroy_qp), another's on
// the same queue is not.
func TestDestroyTakesCompletions(t *testing.T) {
	a := open(t, "sim:destroyed/h0")
	other, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range []verbs.QP{a.qp, other, a.qp, other} {
		if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); i < 2 && err != nil {
			t.Fatal(err)
		}
		if _, err := q.PostRecv([]verbs.RecvWR{{WRID: uint64(i)}}); err != nil {
			t.Fatal(err)
		}
		if err := q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	verbs.Sleep(a.dev, time.Millisecond)
	if err := a.qp.Close(); err != nil {
		t.Fatal(err)
	}
	wc := make([]verbs.WC, 8)
	if n, err := a.cq.Poll(wc); n != 2 || err != nil || wc[0].WRID != 1 || wc[1].WRID != 3 || wc[0].QPN != other.Num() {
		t.Errorf("%d completions, %v: %+v", n, err, wc[:n])
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestDestroyedSRQTakesNothing(t *testing.T) {
	a, _ := pair(t, "srq")
	s, err := a.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PostRecv([]verbs.RecvWR{{WRID: 1}}); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("%d taken, %v", n, err)
	}
}
