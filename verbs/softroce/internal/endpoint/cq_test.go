package endpoint

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// A completion queue is a list, from which the completions of a queue pair can be
// taken out.
func TestCQ(t *testing.T) {
	w := newWorld(t, 1, 1)
	rapid.Check(t, func(t *rapid.T) {
		c, err := w.hosts[0].e.CreateCQ(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []verbs.WC
		// The places that dropped ones take are free after the next Poll.
		used := 0
		id := uint64(0)
		last := map[uint32]uint64{}
		qpn := rapid.Uint32Range(1, 3)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if used == 8 {
					return
				}
				id++
				used++
				wc := verbs.WC{WRID: id, QPN: qpn.Draw(t, "qpn")}
				last[wc.QPN] = c.push(&wc, noticed{ecn: id%2 == 0}, nil, false)
				want = append(want, wc)
			},
			"drop": func(t *rapid.T) {
				q := qpn.Draw(t, "gone")
				c.drop(q, last[q])
				delete(last, q)
				if n := c.waitingDrops(); n > used {
					t.Fatalf("%d drops for %d places", n, used)
				}
				want = slices.DeleteFunc(want, func(wc verbs.WC) bool { return wc.QPN == q })
			},
			"poll": func(t *rapid.T) {
				wc := make([]verbs.WC, rapid.IntRange(0, 10).Draw(t, "n"))
				n, err := c.Poll(wc)
				if err != nil || n != min(len(wc), len(want)) || !slices.Equal(wc[:n], want[:n]) {
					t.Fatalf("polled %v, %v, want %v", wc[:n], err, want)
				}
				for i := range wc[:n] {
					var got verbs.Telemetry
					if c.Telemetry(&wc[i], &got); got.ECN != (wc[i].WRID%2 == 0) {
						t.Fatalf("completion %d has lost its mark", wc[i].WRID)
					}
				}
				want = want[n:]
				used = len(want)
			},
		})
	})
}

// One goroutine polls while the device completes and drops: the others' completions
// all come, in order.
func TestCQDropsWhilePolled(t *testing.T) {
	w := newWorld(t, 1, 1)
	const n, size = 20_000, 64
	c, err := w.hosts[0].e.CreateCQ(size, nil)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		wc := make([]verbs.WC, 5)
		for next := uint64(0); next < n; {
			got, err := c.Poll(wc)
			if err != nil {
				t.Error(err)
				return
			}
			if got == 0 {
				runtime.Gosched()
			}
			for _, wc := range wc[:got] {
				if wc.QPN == 1 {
					if wc.WRID != next {
						t.Errorf("completion %d, want %d", wc.WRID, next)
						return
					}
					next++
				}
			}
		}
	})
	for i := uint64(0); i < n; {
		if c.tail.Load()-c.head.Load() > size-2 {
			runtime.Gosched()
			continue
		}
		c.push(&verbs.WC{WRID: i, QPN: 1}, noticed{}, nil, false)
		last := c.push(&verbs.WC{WRID: i, QPN: 2}, noticed{}, nil, false)
		if i++; i%7 == 0 {
			c.drop(2, last)
		}
	}
	done.Wait()
}

// waitingDrops is how many drops wait for the next Poll.
func (c *CQ) waitingDrops() (n int) {
	for d := c.drops.Load(); d != nil; d = d.next {
		n++
	}
	return n
}

// While a completion waits, queue pairs without one go at no cost.
func TestDestroyCostsNothingWhileCompletionsWait(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	const n = 1000
	qps := make([]*QP, n)
	for i := range qps {
		qps[i] = w.newQP(h, ib.RC, nil)
	}
	h.cq.push(&verbs.WC{WRID: 1, QPN: 1}, noticed{}, nil, false)
	next := 0
	if allocs := testing.AllocsPerRun(n-2, func() {
		h.cq.drop(qps[next].num, qps[next].lastSend)
		next++
	}); allocs != 0 {
		t.Errorf("%v allocations a queue pair", allocs)
	}
	for _, q := range qps {
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.cq.waitingDrops(); got != 0 {
		t.Errorf("%d drops wait for completions that there are not", got)
	}
	if got := h.poll(); len(got) != 1 || got[0].WRID != 1 {
		t.Errorf("polled %+v", got)
	}
}

// What a queue pair has completed is gone with it, and after RESET too
// (ibv_destroy_qp); another's on the same queue is not.
func TestDestroyTakesCompletions(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	w := l.w
	other := w.newUD(l.a, testQKey)
	for _, end := range []func() error{
		func() error { return l.x.Modify(w.now, verbs.QPAttr{State: ib.Reset}, verbs.AttrState) },
		l.x.Destroy,
	} {
		if l.x.State() == ib.Reset {
			if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err != nil {
				t.Fatal(err)
			}
		}
		for i := range uint64(3) {
			l.a.recv(l.x, verbs.RecvWR{WRID: i})
			l.a.sendTo(other, verbs.SendWR{WRID: 10 + i, Opcode: ib.WRSend, Flags: verbs.SendSignaled}, l.b, 5, 6)
		}
		if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		got := l.a.poll()
		if len(got) != 3 {
			t.Fatalf("completions %+v", got)
		}
		for i, wc := range got {
			if wc.WRID != 10+uint64(i) || wc.QPN != other.Num() {
				t.Errorf("%+v", wc)
			}
		}
	}
}
