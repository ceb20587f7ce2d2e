package paced_test

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// adopted is objects that a program made at the provider, and what the shim made
// of them.
type adopted struct {
	*bench
	innerPD verbs.PD
	innerCh verbs.CompChannel
	innerCQ verbs.CQ
	ch      verbs.CompChannel
	cq      *paced.CQ
}

func adopt(t *testing.T, rate units.Rate) *adopted {
	a := &adopted{bench: programs(t, rate)}
	a.innerPD, a.innerCh = must(a.a.AllocPD())(t), must(a.a.CreateCompChannel())(t)
	a.innerCQ = must(a.a.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: a.innerCh}))(t)
	a.pdA, a.ch = a.shim.AdoptPD(a.innerPD), a.shim.AdoptChannel(a.innerCh)
	a.cq = must(a.shim.AdoptCQ(a.innerCQ, a.ch))(t)
	return a
}

// sleep is a program's loop around its descriptor: it sleeps until that is
// readable, fetches one event without waiting, and sleeps again if there is none.
// A helper meanwhile calls Progress at the deadline.
func (a *adopted) sleep(until units.Time) (verbs.CQ, error) {
	for {
		for !fakenic.Readable(a.innerCh) {
			at := min(a.w.Next(), a.shim.Deadline().Time())
			if at > until {
				return nil, verbs.ErrTimeout
			}
			a.w.RunUntil(at)
			if a.shim.Deadline().Time() <= a.w.Now() {
				if err := a.shim.Progress(a.w.Now().Long()); err != nil {
					return nil, err
				}
			}
		}
		if c, err := a.ch.Wait(0); !errors.Is(err, verbs.ErrTimeout) {
			return c, err
		}
	}
}

func TestAProgramThatSleepsOnItsDescriptor(t *testing.T) {
	a := adopt(t, units.Gbps)
	q, peer := a.connectOn(a.cq, a.cq, defaultCap())
	fill(a.bufA, 4)
	a.arm(a.cq, false)
	const n = 10
	for i := range n {
		a.post(q, a.write(uint64(i), 100_000))
	}
	for got := 0; got < n; {
		if c, err := a.sleep(10 * units.Second); c != verbs.CQ(a.cq) {
			t.Fatalf("after %d completions: %v, %v", got, c, err)
		}
		a.arm(a.cq, false)
		for _, w := range a.poll(a.cq) {
			if w.WRID != uint64(got) || w.Status != ib.WCSuccess {
				t.Fatalf("completion %+v, want %d", w, got)
			}
			got++
		}
	}
	if want := units.Gbps.Serialize(n * 100_000); a.w.Now() < want-200*us || a.w.Now() > want+100*us {
		t.Errorf("it took %v, want about %v", a.w.Now(), want)
	}
	// Receives are the inner CQ's.
	a.recv(q, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{verbs.SGEOf(a.mrA, 0, 100)}})
	send := a.write(1, 10)
	send.Opcode, send.SGL = ib.WRSend, []verbs.SGE{verbs.SGEOf(a.mrB, 0, 10)}
	a.post(peer, send)
	if c, err := a.sleep(20 * units.Second); c != verbs.CQ(a.cq) {
		t.Fatalf("no event for a receive: %v", err)
	}
	if wcs := a.poll(a.cq); len(wcs) != 1 || wcs[0].WRID != 7 {
		t.Errorf("receives: %+v", wcs)
	}
	// What no completion of the NIC brings about wakes it too: a queue pair that
	// the program takes into error.
	a.arm(a.cq, false)
	a.post(q, a.write(50, 500_000))
	if err := q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if c, err := a.sleep(30 * units.Second); c != verbs.CQ(a.cq) {
		t.Fatalf("no event for what was flushed: %v", err)
	}
	if wcs := a.poll(a.cq); len(wcs) != 1 || wcs[0].Status != ib.WCWRFlushErr {
		t.Errorf("flushed: %+v", wcs)
	}
	for fakenic.Readable(a.innerCh) { // segments that were flushed
		if c, err := a.ch.Wait(0); !errors.Is(err, verbs.ErrTimeout) {
			t.Fatalf("an event of %v: %v", c, err)
		}
	}
	a.arm(a.cq, false)
	a.post(q, a.write(51, 10))
	if c, err := a.sleep(40 * units.Second); c != verbs.CQ(a.cq) {
		t.Fatalf("no event for a post in error: %v", err)
	}
}

// Two CQs have an event by one of the provider's, which Wait has taken when it
// returns the first: the descriptor must be readable still.
func TestNoEventIsForgotten(t *testing.T) {
	a := adopt(t, line)
	other := must(a.a.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: a.innerCh}))(t)
	cq2 := must(a.shim.AdoptCQ(other, a.ch))(t)
	q1, _ := a.connectOn(a.cq, a.cq, defaultCap())
	q2, _ := a.connectOn(cq2, cq2, defaultCap())
	for round := range 3 {
		a.arm(a.cq, false)
		a.arm(cq2, false)
		a.post(q1, a.write(1, 10))
		a.post(q2, a.write(2, 10))
		// Both complete while Wait looks, between its poll and its sleep.
		a.w.RunUntil(a.w.Now() + latency - 100*units.Nanosecond)
		if fakenic.Readable(a.innerCh) {
			t.Fatal("they complete too early for the test")
		}
		c, err := a.ch.Wait(0)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		got := map[verbs.CQ]bool{c: true}
		if c, err = a.sleep(a.w.Now() + units.Second); err != nil {
			t.Fatalf("round %d, the second event: %v", round, err)
		}
		got[c] = true
		if !got[a.cq] || !got[cq2] {
			t.Errorf("events of %v", got)
		}
		a.poll(a.cq)
		a.poll(cq2)
		// Each has a segment's event, too.
		for again := 0; again == 0 || fakenic.Readable(a.innerCh); again++ {
			if c, err := a.ch.Wait(0); !errors.Is(err, verbs.ErrTimeout) || again == 3 {
				t.Fatalf("round %d: a third event of %v, %v", round, c, err)
			}
		}
	}
	for _, free := range []func() error{
		q1.Destroy, q2.Destroy, a.cq.Destroy, cq2.Destroy, a.ch.Destroy, a.pdA.Dealloc, a.bench.cq.Destroy,
		other.Destroy, a.innerCQ.Destroy, a.innerCh.Destroy, a.innerPD.Dealloc,
	} {
		if err := free(); err != nil {
			t.Fatal(err)
		}
	}
}

// What is adopted stays its owner's, and goes on afterwards.
func TestWhatIsAdoptedIsLeftToItsOwner(t *testing.T) {
	a := adopt(t, line)
	if _, err := a.shim.AdoptCQ(a.innerCQ, a.ch); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("adopted twice: %v", err)
	}
	other := must(a.a.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	if _, err := a.shim.AdoptCQ(other, a.innerCh); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("adopted with the provider's channel: %v", err)
	}
	q, _ := a.connectOn(a.cq, a.cq, defaultCap())
	for name, free := range map[string]func() error{"CQ": a.cq.Destroy, "channel": a.ch.Destroy} {
		if err := free(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("the %s was given up while in use: %v", name, err)
		}
	}
	for _, free := range []func() error{
		q.Destroy, a.cq.Destroy, a.ch.Destroy, a.pdA.Dealloc, // of the shim
		a.bench.cq.Destroy,
	} {
		if err := free(); err != nil {
			t.Fatal(err)
		}
	}
	// Everything can be adopted anew.
	pd, ch := a.shim.AdoptPD(a.innerPD), a.shim.AdoptChannel(a.innerCh)
	cq := must(a.shim.AdoptCQ(a.innerCQ, ch))(t)
	plain := must(a.shim.AdoptCQ(other, nil))(t)
	for _, free := range []func() error{
		plain.Destroy, cq.Destroy, ch.Destroy, pd.Dealloc,
		other.Destroy, a.innerCQ.Destroy, a.innerCh.Destroy, a.innerPD.Dealloc, // of the owner
	} {
		if err := free(); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.a.CQs; got != 0 {
		t.Errorf("%d CQs are left", got)
	}
}
