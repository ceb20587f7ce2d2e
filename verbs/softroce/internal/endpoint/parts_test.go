package endpoint

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// A table is a map.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[int]
		want := map[uint32]*int{}
		key := rapid.Uint32Range(0, 80) // so that runs form
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				if k := key.Draw(t, "key"); want[k] == nil {
					v := int(k)
					got.put(k, &v)
					want[k] = &v
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got.remove(k)
				delete(want, k)
			},
			"": func(t *rapid.T) {
				if got.n != len(want) {
					t.Fatalf("%d entries, want %d", got.n, len(want))
				}
				for k := range uint32(90) {
					if got.get(k) != want[k] {
						t.Fatalf("key %d is wrong", k)
					}
				}
			},
		})
	})
}

// The heap gives the earliest, whatever was moved or taken out.
func TestTimerHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		qps := make([]*QP, 20)
		for i := range qps {
			qps[i] = &QP{timerIndex: -1, timerAt: units.Never}
		}
		which := rapid.IntRange(0, len(qps)-1)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				h.set(qps[which.Draw(t, "qp")], units.Time(rapid.IntRange(0, 50).Draw(t, "at")))
			},
			"remove": func(t *rapid.T) { h.remove(qps[which.Draw(t, "qp")]) },
			"pop": func(t *rapid.T) {
				if first := h.first(); first != units.Never {
					if q := h.pop(); q.timerIndex != -1 || q.timerAt != units.Never {
						t.Fatal("what was popped is still in")
					}
				}
			},
			"": func(t *rapid.T) {
				first := units.Never
				for _, q := range qps {
					first = min(first, q.timerAt)
					if (q.timerIndex >= 0) != (q.timerAt != units.Never) || q.timerIndex >= 0 && h.qps[q.timerIndex] != q {
						t.Fatal("a queue pair does not know its place")
					}
				}
				if h.first() != first {
					t.Fatalf("first is %v, want %v", h.first(), first)
				}
			},
		})
	})
}

// Queue pairs take turns: none waits for another's long message.
func TestTurns(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	ml, _ := a.reg(1<<20, allAccess)
	mr, _ := b.reg(1<<20, allAccess)
	w.window = 1 << 12
	for range 3 {
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(x, y, a, b, patient(1024), 0)
		if _, err := x.PostSend(w.now, []verbs.SendWR{{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 1<<20), RemoteAddr: mr.Addr(), RKey: mr.Key()}}); err != nil {
			t.Fatal(err)
		}
	}
	var buf [MaxPacket]byte
	last, run := (*Route)(nil), 0
	for i := range 3 * 1024 {
		n, to := a.e.Next(w.now, buf[:])
		if n == 0 {
			t.Fatalf("only %d packets", i)
		}
		if to == last {
			run++
		} else {
			last, run = to, 1
		}
		if i < 2*1024 && run > turn {
			t.Fatalf("packet %d: %d of one queue pair in a row", i, run)
		}
	}
}

// A packet there, its acknowledgement back and the completion take no memory.
func TestNoAllocation(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	w := l.w
	ml, _ := l.a.reg(1<<16, allAccess)
	mr, _ := l.b.reg(1<<16, allAccess)
	wr := []verbs.SendWR{
		{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 1<<16), RemoteAddr: mr.Addr(), RKey: mr.Key()},
		{Opcode: ib.WRRDMARead, SGL: sge(ml, 0, 1<<16), RemoteAddr: mr.Addr(), RKey: mr.Key()},
		{Opcode: ib.WRAtomicFetchAndAdd, SGL: sge(ml, 0, 8), RemoteAddr: mr.Addr()&^7 + 8, RKey: mr.Key()},
		{Opcode: ib.WRSend, SGL: sge(ml, 0, 3000), Flags: verbs.SendSignaled},
	}
	recv := []verbs.RecvWR{{SGL: sge(mr, 0, 1<<16)}}
	wc := make([]verbs.WC, 8)
	var buf [MaxPacket]byte
	p := Packet{Data: buf[:], HopLimit: 64}
	move := func(from, to *host) bool {
		n, _ := from.e.Next(w.now, buf[:])
		if n == 0 {
			return false
		}
		p.Data, p.Src = buf[:n], from.addr
		to.e.Receive(w.now, &p)
		return true
	}
	round := func() {
		if _, err := l.y.PostRecv(w.now, recv); err != nil {
			t.Fatal(err)
		}
		if _, err := l.x.PostSend(w.now, wr); err != nil {
			t.Fatal(err)
		}
		for move(l.a, l.b) || move(l.b, l.a) {
			w.now += units.Microsecond
		}
		l.a.e.Expire(w.now)
		if n, err := l.a.cq.Poll(wc); n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
			t.Fatal(n, err, wc[0])
		}
		if n, err := l.b.cq.Poll(wc); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for range 70 { // every slot once, which then keeps its scatter list
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// BenchmarkPacket is the endpoint's share of a packet of 4096 bytes: encoding and
// decoding, transport, two copies; without ICRC and sockets.
func BenchmarkPacket(b *testing.B) {
	p := verbs.DefaultRC()
	p.PathMTU = 4096
	l := newPair(b, 1, p)
	w := l.w
	ml, _ := l.a.reg(1<<16, allAccess)
	mr, _ := l.b.reg(1<<16, allAccess)
	wr := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 1<<16), RemoteAddr: mr.Addr(), RKey: mr.Key()}}
	wc := make([]verbs.WC, 8)
	var buf [MaxPacket]byte
	in := Packet{HopLimit: 64}
	packets := 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.x.PostSend(w.now, wr); err != nil {
			b.Fatal(err)
		}
		for from, to := l.a, l.b; ; from, to = to, from {
			any := false
			for {
				n, _ := from.e.Next(w.now, buf[:])
				if n == 0 {
					break
				}
				any = true
				packets++
				in.Data, in.Src = buf[:n], from.addr
				to.e.Receive(w.now, &in)
			}
			if !any {
				break
			}
		}
		if n, err := l.a.cq.Poll(wc); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}

// Stamps go on with the device's counter after instants were set back.
func TestStampsGoOn(t *testing.T) {
	e := &Endpoint{}
	const day = 24 * 3600 * units.Second
	before := e.stampOf(13 * day)
	e.SetBack(13*day, (13 * day).Long())
	if got := e.stampOf(5 * units.Nanosecond); got != before+5 {
		t.Errorf("stamp %d, expected %d", got, before+5)
	}
}
