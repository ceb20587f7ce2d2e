package endpoint

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// A completion queue is a list, from which the completions of a queue pair can be
// taken out, and which can be given another length.
func TestCQ(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.collect.Delay = &telemetry.DelayFormat{}
	w.add(netip.AddrFrom4([4]byte{10, 0, 0, 1}))
	rapid.Check(t, func(t *rapid.T) {
		c, err := w.hosts[0].e.CreateCQ(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		qps := map[uint32]*QP{}
		for qpn := range uint32(3) {
			qps[qpn] = &QP{init: QPInit{SendCQ: c, RecvCQ: c}, incarnation: new(incarnation)}
		}
		var want []verbs.WC
		// Departed ones' places are free after the next Poll.
		used, room := 0, 8
		freed := map[*incarnation]uint32{}
		id := uint64(0)
		qpn := rapid.Uint32Range(0, 2)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if used == room {
					return
				}
				id++
				used++
				wc := verbs.WC{WRID: id, QPN: qpn.Draw(t, "qpn")}
				var r *Report
				if id%3 == 0 {
					r = &Report{HasMaxDelay: true, MaxHopDelay: units.Time(id)}
				}
				if !c.push(&wc, qps[wc.QPN].incarnation, places{id%4 != 0, uint32(id)}, noticed{ecn: id%2 == 0}, r, false) {
					t.Fatalf("the queue is full at %d", used)
				}
				want = append(want, wc)
			},
			"end": func(t *rapid.T) {
				gone := qpn.Draw(t, "gone")
				qps[gone].endIncarnation()
				want = slices.DeleteFunc(want, func(wc verbs.WC) bool { return wc.QPN == gone })
			},
			"poll": func(t *rapid.T) {
				wc := make([]verbs.WC, rapid.IntRange(0, 10).Draw(t, "n"))
				n, err := c.Poll(wc)
				if err != nil || n != min(len(wc), len(want)) || !slices.Equal(wc[:n], want[:n]) {
					t.Fatalf("polled %v, %v, want %v", wc[:n], err, want)
				}
				for i := range wc[:n] {
					id := wc[i].WRID
					if id%4 != 0 {
						freed[qps[wc[i].QPN].incarnation] = uint32(id)
					}
					var got verbs.Telemetry
					told := c.Telemetry(&wc[i], &got)
					if told != (id%2 == 0 || id%3 == 0) || got.ECN != (id%2 == 0) || got.HasMaxDelay != (id%3 == 0) || id%3 == 0 && got.MaxHopDelay != units.Time(id) {
						t.Fatalf("completion %d has %+v", id, got)
					}
				}
				for _, q := range qps {
					if got := q.incarnation.freed.Load(); got != freed[q.incarnation] {
						t.Fatalf("the place %d is free, want %d", got, freed[q.incarnation])
					}
				}
				want = want[n:]
				used = len(want)
			},
			"resize": func(t *rapid.T) {
				n := rapid.IntRange(0, 20).Draw(t, "entries")
				err := c.Resize(n)
				if ok := n > 0 && n >= used; ok != (err == nil) || err != nil && !errors.Is(err, verbs.ErrInvalid) {
					t.Fatalf("%d entries for %d completions: %v", n, used, err)
				}
				if err == nil {
					room = c.Cap()
				}
				if room < n && err == nil || room >= 2*max(n, 1) && err == nil {
					t.Fatalf("room for %d, asked for %d", room, n)
				}
			},
		})
	})
}

// A Poll that takes out one queue pair's completions moves another's, which go with
// their own all the same.
func TestCompletionsThatMovedGo(t *testing.T) {
	w := newWorld(t, 1, 1)
	c, err := w.hosts[0].e.CreateCQ(8, nil)
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]*QP
	for i := range qps {
		qps[i] = &QP{init: QPInit{SendCQ: c, RecvCQ: c}, incarnation: new(incarnation)}
		c.push(&verbs.WC{WRID: uint64(i)}, qps[i].incarnation, places{}, noticed{}, nil, false)
	}
	qps[1].endIncarnation()
	if n, err := c.Poll(nil); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	qps[0].endIncarnation()
	var wc [2]verbs.WC
	if n, err := c.Poll(wc[:]); n != 0 || err != nil {
		t.Errorf("polled %+v, %v of a queue pair that is gone", wc[:n], err)
	}
}

// One goroutine polls while the device completes and ends queue pairs: the others'
// completions all come, in order.
func TestCQPolledWhileQueuePairsEnd(t *testing.T) {
	w := newWorld(t, 1, 1)
	const n, size = 20_000, 64
	c, err := w.hosts[0].e.CreateCQ(size, nil)
	if err != nil {
		t.Fatal(err)
	}
	stays := new(incarnation)
	goes := &QP{init: QPInit{SendCQ: c, RecvCQ: c}, incarnation: new(incarnation)}
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
		c.push(&verbs.WC{WRID: i, QPN: 1}, stays, places{}, noticed{}, nil, false)
		c.push(&verbs.WC{WRID: i, QPN: 2}, goes.incarnation, places{}, noticed{}, nil, false)
		if i++; i%7 == 0 {
			goes.endIncarnation()
		}
	}
	done.Wait()
}

// While a completion waits, queue pairs that have completed nothing go at no cost.
func TestDestroyCostsNothingWhileCompletionsWait(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	const n = 1000
	qps := make([]*QP, n)
	for i := range qps {
		qps[i] = w.newQP(h, ib.RC, nil)
	}
	h.cq.push(&verbs.WC{WRID: 1, QPN: 1}, new(incarnation), places{}, noticed{}, nil, false)
	next := 0
	if allocs := testing.AllocsPerRun(n-2, func() {
		qps[next].endIncarnation()
		next++
	}); allocs != 0 {
		t.Errorf("%v allocations a queue pair", allocs)
	}
	for _, q := range qps {
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if h.cq.stale.Load() {
		t.Error("the next Poll looks for completions that there are not")
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
		l.x.Close,
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
