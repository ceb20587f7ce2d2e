package completions

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestOneCompletionForAllSegments(t *testing.T) {
	tab := NewTable(17, 4, 8)
	slot, ok := tab.Add(Message{WRID: 5, Opcode: ib.WRRDMARead, Signaled: true})
	if !ok {
		t.Fatal("full")
	}
	a := tab.Post(slot, 100, false, 10)
	b := tab.Post(slot, 50, true, 20)
	if tab.Outstanding() != 150 || tab.InFlight() != 2 || tab.Reads() != 2 {
		t.Errorf("%v in %d segments, %d reads", tab.Outstanding(), tab.InFlight(), tab.Reads())
	}
	var seg Segment
	var wc verbs.WC
	if !tab.Complete(a, &verbs.WC{Timestamp: 7}, &seg) || seg != (Segment{Bytes: 100, PostedAt: 10, Acked: 100, Sent: 150}) {
		t.Errorf("the first segment is %+v", seg)
	}
	if tab.Next(&wc) {
		t.Error("finished with a segment outstanding")
	}
	if !tab.Complete(b, &verbs.WC{Timestamp: 9}, &seg) || seg != (Segment{Bytes: 50, PostedAt: 20, Acked: 150, Sent: 150}) {
		t.Errorf("the second segment is %+v", seg)
	}
	want := verbs.WC{WRID: 5, Opcode: ib.WCRDMARead, ByteLen: 150, QPN: 17, Timestamp: 9}
	if !tab.Next(&wc) || wc != want || tab.Next(&wc) {
		t.Errorf("completion %+v, want %+v, once", wc, want)
	}
	if tab.Complete(b, &verbs.WC{}, &seg) || tab.Complete(b+1, &verbs.WC{}, &seg) {
		t.Error("a segment completed twice, or before it was posted")
	}
}

// The verbs: a completion says that all before it have finished.
func TestACompletionStandsForThoseBefore(t *testing.T) {
	tab := NewTable(1, 4, 8)
	var seqs []uint32
	for i := range 3 {
		slot, _ := tab.Add(Message{WRID: uint64(i), Signaled: true})
		seqs = append(seqs, tab.Post(slot, 10, true, 0))
	}
	var seg Segment
	if !tab.Complete(seqs[1], &verbs.WC{Status: ib.WCRemOpErr}, &seg) {
		t.Fatal("no such segment")
	}
	var wc verbs.WC
	if !tab.Next(&wc) || wc.WRID != 0 || wc.Status != ib.WCSuccess || wc.ByteLen != 10 {
		t.Errorf("the first is %+v", wc)
	}
	if !tab.Next(&wc) || wc.WRID != 1 || wc.Status != ib.WCRemOpErr || wc.ByteLen != 0 {
		t.Errorf("the second is %+v", wc)
	}
	if tab.Next(&wc) {
		t.Error("the third finished too")
	}
}

func TestTableSizes(t *testing.T) {
	for _, size := range [][2]int{{0, 1}, {1, 0}, {1 << 21, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a table of %v was made", size)
				}
			}()
			NewTable(1, size[0], size[1])
		}()
	}
	tab := NewTable(1, 3, 2)
	if tab.Slots() < 3 {
		t.Errorf("%d slots", tab.Slots())
	}
	slot, _ := tab.Add(Message{})
	tab.Post(slot, 1, false, 0)
	tab.Post(slot, 1, false, 0)
	defer func() {
		if recover() == nil {
			t.Error("a third segment of two")
		}
	}()
	tab.Post(slot, 1, true, 0)
}

// modelMessage is a request in the plainest terms.
type modelMessage struct {
	Message
	size, posted, placed units.Bytes
	sent, returned       int
	whole                bool
	status, refused      ib.WCStatus
}

// A Table does what a list of requests and a list of segments do.
func TestTableAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, depth := rapid.IntRange(1, 9).Draw(t, "messages"), rapid.IntRange(1, 9).Draw(t, "depth")
		tab := NewTable(3, limit, depth)
		small := rapid.Bool().Draw(t, "small")
		if small {
			tab = NewSmallTable(3, limit, depth)
		}
		tab.segHead, tab.segTail = ^uint32(3), ^uint32(3) // numbers wrap around
		type sentSegment struct {
			m   *modelMessage
			seq uint32
			n   units.Bytes
		}
		var open []*modelMessage // not finished
		slots := map[*modelMessage]int{}
		var flight []sentSegment
		held, silent, id := 0, 0, uint64(0)
		var places []place // of completions not released
		aborted := false
		var out units.Bytes
		next := func() *modelMessage { // to post of
			for _, m := range open {
				if !m.whole {
					return m
				}
			}
			return nil
		}

		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id++
				m := &modelMessage{size: units.Bytes(rapid.IntRange(0, 40).Draw(t, "size"))}
				m.Message = Message{id, rapid.SampledFrom([]ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead}).Draw(t, "op"), rapid.Bool().Draw(t, "signaled")}
				if tab.Tight() {
					if !small || len(open)+held >= limit && len(open) >= limit {
						t.Fatalf("a table is tight with %d of %d messages", len(open)+held, limit)
					}
					tab.Grow()
				}
				slot, ok := tab.Add(m.Message)
				if ok != (len(open)+held < limit) {
					t.Fatalf("Add said %v with %d of %d", ok, len(open)+held, limit)
				}
				if ok {
					open, slots[m] = append(open, m), slot
				}
			},
			"post": func(t *rapid.T) {
				m := next()
				if m == nil || len(flight) == depth || aborted {
					t.Skip("nothing is left to post, or no room to post it")
				}
				n := min(m.size-m.posted, units.Bytes(rapid.IntRange(1, 16).Draw(t, "bytes")))
				m.posted += n
				m.sent++
				m.whole = m.posted == m.size
				out += n
				flight = append(flight, sentSegment{m, tab.Post(slots[m], n, m.whole, 0), n})
			},
			"unpost": func(t *rapid.T) {
				k := rapid.IntRange(0, len(flight)).Draw(t, "segments")
				for range k {
					s := flight[len(flight)-1]
					flight = flight[:len(flight)-1]
					s.m.posted -= s.n
					s.m.sent--
					s.m.whole = false
					out -= s.n
				}
				tab.Unpost(k)
			},
			"complete": func(t *rapid.T) {
				if len(flight) == 0 {
					t.Skip("nothing is in flight")
				}
				s := flight[0]
				flight = flight[1:]
				status := ib.WCSuccess
				if aborted {
					status = ib.WCWRFlushErr
				} else if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
					status = ib.WCRemAccessErr
				}
				s.m.returned++
				out -= s.n
				if s.m.status == ib.WCSuccess {
					if s.m.status = status; status == ib.WCSuccess {
						s.m.placed += s.n
					}
				}
				aborted = aborted || status != ib.WCSuccess
				var seg Segment
				if !tab.Complete(s.seq, &verbs.WC{Status: status}, &seg) || seg.Bytes != s.n {
					t.Fatalf("segment %d: %+v", s.seq, seg)
				}
			},
			"refuse": func(t *rapid.T) {
				m := next()
				if m == nil || aborted || rapid.IntRange(0, 5).Draw(t, "really") > 0 {
					t.Skip("there is no request to refuse, or none is refused this time")
				}
				aborted, m.refused = true, ib.WCLocProtErr
				tab.Fail(slots[m], ib.WCLocProtErr)
			},
			"abort": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					aborted = true
					tab.Abort()
				}
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					tab.Reset()
					held, silent, places = 0, 0, nil
					open, flight, aborted, out = nil, nil, false, 0
				}
			},
			"release": func(t *rapid.T) {
				if len(places) == 0 {
					t.Skip("nothing is held")
				}
				held -= places[0].n
				tab.Release(places[0].last)
				places = places[1:]
			},
			"": func(t *rapid.T) {
				// Whatever has finished comes out, in order.
				for len(open) > 0 {
					m := open[0]
					if m.returned < m.sent || !m.whole && !aborted {
						break
					}
					open = open[1:]
					if !m.whole && (m.status == ib.WCSuccess || m.status == ib.WCWRFlushErr) {
						m.status = ib.WCWRFlushErr
						if m.refused != 0 {
							m.status = m.refused
						}
					}
					held++
					silent++
					if m.status == ib.WCSuccess && !m.Signaled {
						continue
					}
					var wc verbs.WC
					if !tab.Next(&wc) || wc.WRID != m.WRID || wc.Status != m.status || wc.ByteLen != uint32(m.placed) {
						t.Fatalf("completion %+v, want %d with %v, %d bytes", wc, m.WRID, m.status, m.placed)
					}
					places, silent = append(places, place{silent, tab.Last()}), 0
				}
				var wc verbs.WC
				if tab.Next(&wc) {
					t.Fatalf("completion %+v of nothing", wc)
				}
				reads := 0
				for _, s := range flight {
					if s.m.Opcode == ib.WRRDMARead {
						reads++
					}
				}
				if tab.Outstanding() != out || tab.InFlight() != len(flight) || tab.Reads() != reads || tab.Unfinished() != len(open) || tab.Aborted() != aborted {
					t.Fatalf("outstanding %v in %d, %d reads, %d open; want %v in %d, %d, %d", tab.Outstanding(), tab.InFlight(), tab.Reads(), tab.Unfinished(), out, len(flight), reads, len(open))
				}
			},
		})
	})
}

// place is the room that polling a completion frees: n places, up to last.
type place struct {
	n    int
	last uint32
}

func TestQueueKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tabs := []*Table{NewTable(0, 1<<10, 1), NewTable(1, 1<<10, 1)}
		var q Queue
		q.Reserve(rapid.IntRange(0, 20).Draw(t, "reserve"))
		var want []verbs.WC
		next := uint64(0)
		which := rapid.Uint32Range(0, 1)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				tab := tabs[which.Draw(t, "table")]
				for range rapid.IntRange(1, 9).Draw(t, "n") {
					// One that succeeds unsignaled before, which gives no completion.
					for _, signaled := range []bool{false, true} {
						slot, _ := tab.Add(Message{WRID: next, Signaled: signaled})
						seq := tab.Post(slot, 1, true, 0)
						tab.Complete(seq, &verbs.WC{}, &Segment{})
					}
					if wc := q.Push(tab); wc == nil || wc.WRID != next {
						t.Fatalf("pushed %+v, want %d", wc, next)
					}
					if room := len(q.ring); q.Push(tab) != nil || len(q.ring) != room {
						t.Fatal("pushed a request that there is not, or made room for it")
					}
					want = append(want, verbs.WC{WRID: next, QPN: tab.qpn})
					next++
				}
			},
			"reserve": func(t *rapid.T) { q.Reserve(rapid.IntRange(0, 50).Draw(t, "n")) },
			"drop": func(t *rapid.T) {
				tab := tabs[which.Draw(t, "table")]
				q.Drop(tab)
				want = slices.DeleteFunc(want, func(wc verbs.WC) bool { return wc.QPN == tab.qpn })
			},
			"pop": func(t *rapid.T) {
				wc := make([]verbs.WC, rapid.IntRange(0, 7).Draw(t, "n"))
				n := q.Pop(wc)
				if n != min(len(wc), len(want)) {
					t.Fatalf("popped %d of %d", n, len(want))
				}
				for i, w := range wc[:n] {
					if w.WRID != want[i].WRID || w.QPN != want[i].QPN {
						t.Fatalf("popped %+v, want %+v", w, want[i])
					}
				}
				want = want[n:]
			},
			"": func(t *rapid.T) {
				var held [2]uint32
				for _, wc := range want {
					held[wc.QPN] += 2 // with that of the one before
				}
				if q.Len() != len(want) || held != [2]uint32{tabs[0].taken(), tabs[1].taken()} {
					t.Fatalf("%d in the queue, %d and %d held, want %d and %v", q.Len(), tabs[0].taken(), tabs[1].taken(), len(want), held)
				}
			},
		})
	})
}

func TestNothingAllocates(t *testing.T) {
	w := newWork()
	if n := testing.AllocsPerRun(1000, w.turn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// work is a queue pair with requests of four segments.
type work struct {
	tab *Table
	q   Queue
	seg Segment
	wc  [1]verbs.WC
}

func newWork() *work {
	w := &work{tab: NewTable(1, 16, 16)}
	w.q.Reserve(16)
	return w
}

func (w *work) turn() {
	slot, _ := w.tab.Add(Message{WRID: 1, Signaled: true})
	for i := range 4 {
		w.tab.Post(slot, 16384, i == 3, 0)
	}
	for range 4 {
		w.tab.Complete(w.tab.segHead, &w.wc[0], &w.seg)
		m := Measure(&w.seg, 100, 100*units.Gbps)
		if !m.Clamped {
			panic("16 KiB in 100 ps")
		}
		for w.q.Push(w.tab) != nil {
		}
	}
	w.q.Pop(w.wc[:])
}

// BenchmarkMessage is the bookkeeping of a request of four segments, with an RTT
// sample of each.
func BenchmarkMessage(b *testing.B) {
	w := newWork()
	b.ReportAllocs()
	for b.Loop() {
		w.turn()
	}
}
