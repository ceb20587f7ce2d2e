package paced_test

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// take is a hook's ibv_get_cq_event: it takes the provider's events itself and
// lets time pass until there is one for the program.
func (a *adopted) take(t *testing.T, until units.Time) verbs.CQ {
	t.Helper()
	for {
		c, nap, settled, err := a.shim.Look(a.ch)
		a.ok(err)
		if c != nil {
			return c
		}
		if !settled {
			t.Fatal("somebody else polls, but there is nobody")
		}
		switch inner, err := a.innerCh.Wait(t.Context(), 0); {
		case err == nil:
			a.shim.Fired(inner)
			if inner == a.innerCQ {
				return a.cq // the program's own event: of a receive
			}
			continue
		case !errors.Is(err, verbs.ErrTimeout):
			t.Fatal(err)
		}
		at := a.w.Next()
		if nap != units.Never {
			at = min(at, a.w.Now()+nap)
		}
		if at > until {
			t.Fatalf("nothing until %v", until)
		}
		a.w.RunUntil(max(at, a.w.Now()))
	}
}

func TestAHookThatTakesEventsItself(t *testing.T) {
	a := adopt(t, units.Gbps)
	q, _ := a.connectOn(a.cq, a.cq, defaultCap())
	wc := make([]verbs.WC, 4)
	if n, idle, err := a.cq.PollSends(wc); n != 0 || !idle || err != nil {
		t.Errorf("with nothing posted: %d, %v, %v", n, idle, err)
	}
	a.arm(a.cq, false)
	const total = 10
	for i := range total {
		a.post(q, a.write(uint64(i), 100_000))
	}
	for got := 0; got < total; {
		if c := a.take(t, 10*units.Second); c != verbs.CQ(a.cq) {
			t.Fatalf("an event of %v", c)
		}
		a.arm(a.cq, false)
		n, idle, err := a.cq.PollSends(wc)
		a.ok(err)
		for _, w := range wc[:n] {
			if w.WRID != uint64(got) || w.Status != ib.WCSuccess {
				t.Fatalf("completion %+v, want %d", w, got)
			}
			got++
		}
		if idle != (got == total) {
			t.Errorf("idle is %v after %d of %d", idle, got, total)
		}
	}
	if want := units.Gbps.Serialize(total * 100_000); a.w.Now() < want-200*us || a.w.Now() > want+100*us {
		t.Errorf("it took %v, want about %v", a.w.Now(), want)
	}
	if a.cq.Unwrap() != a.innerCQ || q.SendCQ() == nil || q.SendCQ() == a.innerCQ {
		t.Error("the provider's CQs are mixed up")
	}
}

// Completions that are not polled keep a CQ busy, though nothing is outstanding.
func TestIdleIsOfACQ(t *testing.T) {
	a := adopt(t, 100*units.Gbps)
	q, _ := a.connectOn(a.cq, a.cq, defaultCap())
	for i := range 3 {
		a.post(q, a.write(uint64(i), 100))
	}
	a.w.RunUntil(units.Millisecond)
	var one [1]verbs.WC
	for i := range 3 {
		n, idle, err := a.cq.PollSends(one[:])
		if n != 1 || idle != (i == 2) || err != nil {
			t.Errorf("completion %d: %d, %v, %v", i, n, idle, err)
		}
	}
}

func TestCloseAdopted(t *testing.T) {
	a := adopt(t, units.Gbps)
	if err := a.shim.CloseAdopted(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("with objects: %v", err)
	}
	if _, _, _, err := a.shim.Look(a.innerCh); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a channel that is not the shim's: %v", err)
	}
	// Another shim, with a CQ of its own for a queue pair that has come and gone.
	s := must(paced.Wrap(a.a, paced.DefaultConfig()))(t)
	inner := must(a.a.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	cq, pd := must(s.AdoptCQ(inner, nil))(t), s.AdoptPD(a.innerPD)
	q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: defaultCap()}))(t)
	a.ok(q.Close())
	a.ok(cq.Close())
	a.ok(pd.Close())
	a.ok(s.CloseAdopted())
	a.ok(inner.Close()) // the program's own still
}

func (a *adopted) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func TestPostWholeTakesAllOrNothing(t *testing.T) {
	a := adopt(t, units.Gbps)
	q, _ := a.connectOn(a.cq, a.cq, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
	list := func(n int) []verbs.SendWR {
		wrs := make([]verbs.SendWR, n)
		for i := range wrs {
			wrs[i] = a.write(uint64(i), 100)
		}
		return wrs
	}
	a.ok(q.PostWhole(list(3)))
	if err := q.PostWhole(list(2)); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("two requests where one fits: %v", err)
	}
	wrong := list(1)
	wrong[0].Opcode = ib.WROpcode(99)
	if err := q.PostWhole(wrong); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("an opcode that is none: %v", err)
	}
	a.ok(q.PostWhole(list(1)))
	if err := q.PostWhole(list(1)); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("a full queue: %v", err)
	}
}
