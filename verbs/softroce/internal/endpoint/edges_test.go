package endpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// A list of pieces is one message, wherever packets are cut: as source of a Write, as
// place of a Read and of a Send.
func TestPieces(t *testing.T) {
	p := verbs.DefaultRC()
	p.PathMTU = 256
	l := newPair(t, 1, p)
	from, source := l.a.reg(2000, allAccess)
	to, target := l.b.reg(2000, allAccess)
	fill(rand.New(rand.NewPCG(1, 1)), source)
	// Pieces of 300, 5 and 700 bytes with gaps between them.
	pieces := func(m *MR) []verbs.SGE {
		return []verbs.SGE{sge(m, 10, 300)[0], sge(m, 400, 5)[0], sge(m, 500, 700)[0]}
	}
	gathered := func(b []byte) []byte { return bytes.Join([][]byte{b[10:310], b[400:405], b[500:1200]}, nil) }
	done := func(want int) {
		t.Helper()
		l.w.settle()
		got := append(l.a.poll(), l.b.poll()...)
		if len(got) != want {
			t.Fatalf("completions %+v", got)
		}
		for _, wc := range got {
			if wc.Status != ib.WCSuccess {
				t.Fatalf("%+v", wc)
			}
		}
	}
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: pieces(from), RemoteAddr: to.Addr(), RKey: to.Key()})
	done(1)
	if !bytes.Equal(target[:1005], gathered(source)) {
		t.Error("what was written is not what the pieces hold")
	}
	back, local := l.a.reg(2000, allAccess)
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled, SGL: pieces(back), RemoteAddr: to.Addr(), RKey: to.Key()})
	done(1)
	if !bytes.Equal(gathered(local), gathered(source)) {
		t.Error("what was read does not lie in the pieces")
	}
	clear(target)
	l.b.recv(l.y, verbs.RecvWR{SGL: pieces(to)})
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: pieces(from)})
	done(2)
	if !bytes.Equal(gathered(target), gathered(source)) {
		t.Error("what was received does not lie in the pieces")
	}
}

// Inline data are copied as the request is posted.
func TestInlineIsCopied(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	to, target := l.b.reg(64, allAccess)
	data := []byte("as it was posted")
	want := bytes.Clone(data)
	if _, err := l.x.PostSend(l.w.now, []verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: data, RemoteAddr: to.Addr(), RKey: to.Key(),
	}}); err != nil {
		t.Fatal(err)
	}
	clear(data)
	l.a.pump()
	l.w.settle()
	if !bytes.Equal(target[:len(want)], want) {
		t.Errorf("%q was written, posted %q", target[:len(want)], want)
	}
}

// What waits in either completion queue goes with the queue pair.
func TestEitherQueueForgets(t *testing.T) {
	w := newWorld(t, 1, 1)
	h := w.hosts[0]
	recv, err := h.e.CreateCQ(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := h.pd.CreateQP(QPInit{
		Type: ib.RC, SendCQ: h.cq, RecvCQ: recv, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Modify(w.now, verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err != nil {
		t.Fatal(err)
	}
	h.recv(q, verbs.RecvWR{WRID: 1})
	if err := q.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if _, err := q.PostSend(w.now, []verbs.SendWR{{WRID: 2, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	var wc [4]verbs.WC
	for name, c := range map[string]*CQ{"send": h.cq, "receive": recv} {
		if n, err := c.Poll(wc[:]); n != 0 || err != nil {
			t.Errorf("the %s queue: %+v, %v", name, wc[:n], err)
		}
	}
}

// A queue that is armed for solicited completions can be armed for all.
func TestArmedForMore(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	for _, solicitedOnly := range []bool{true, false} {
		if err := l.b.cq.ReqNotify(solicitedOnly); err != nil {
			t.Fatal(err)
		}
	}
	l.b.recv(l.y, verbs.RecvWR{})
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	l.w.settle()
	if l.b.fired != 1 {
		t.Errorf("%d events, want 1", l.b.fired)
	}
}

// A deadline that becomes earlier is kept: after an RNR NAK the request goes again when
// the peer has said, not when the acknowledgement's timer would have run out.
func TestEarlierDeadline(t *testing.T) {
	p := verbs.DefaultRC()
	p.Timeout, p.MinRNRTimer = 20, 1 // 4.3 s, 10 us
	l := newPair(t, 1, p)
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	l.w.run(5 * units.Microsecond)
	l.b.recv(l.y, verbs.RecvWR{})
	l.w.run(units.Millisecond)
	if got := l.a.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess {
		t.Errorf("within a millisecond: %+v", got)
	}
}

// A connection in RTS takes another time for its RNR NAKs, and no other attribute.
func TestMinRNRTimerInRTS(t *testing.T) {
	p := verbs.DefaultRC()
	p.Timeout, p.MinRNRTimer = 20, 31 // 4.3 s, 491 ms
	l := newPair(t, 1, p)
	if err := l.y.Modify(l.w.now, verbs.QPAttr{MinRNRTimer: 1}, verbs.AttrMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	if a, err := l.y.Query(); err != nil || a.MinRNRTimer != 1 {
		t.Errorf("the timer is %d, %v", a.MinRNRTimer, err)
	}
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	l.w.run(5 * units.Microsecond)
	l.b.recv(l.y, verbs.RecvWR{})
	l.w.run(units.Millisecond)
	if got := l.a.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess {
		t.Errorf("within a millisecond: %+v", got)
	}
	if err := l.y.Modify(l.w.now, verbs.QPAttr{MinRNRTimer: 32}, verbs.AttrMinRNRTimer); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a timer that there is not: %v", err)
	}
	if err := l.y.Modify(l.w.now, verbs.QPAttr{MinRNRTimer: 1, Timeout: 1}, verbs.AttrMinRNRTimer|verbs.AttrTimeout); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("another attribute: %v", err)
	}
}

// RESET forgets requests and receives: after it, only what is posted then is carried
// out.
func TestResetForgets(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	w := l.w
	to, target := l.b.reg(64, allAccess)
	from, source := l.a.reg(64, allAccess)
	source[0], source[1] = 1, 2
	write := func(id uint64, at int) verbs.SendWR {
		return verbs.SendWR{
			WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(from, at, 1), RemoteAddr: to.Addr() + uint64(at), RKey: to.Key(),
		}
	}
	if _, err := l.x.PostSend(w.now, []verbs.SendWR{write(1, 0)}); err != nil { // and it does not leave
		t.Fatal(err)
	}
	l.b.recv(l.y, verbs.RecvWR{WRID: 7})
	for _, q := range []*QP{l.x, l.y} {
		if err := q.Modify(w.now, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	p := verbs.DefaultRC()
	p.MinRNRTimer = 1
	w.connect(l.x, l.y, l.a, l.b, p, 0)
	l.a.post(l.x, write(2, 1))
	w.settle()
	if got := l.a.poll(); len(got) != 1 || got[0].WRID != 2 || got[0].Status != ib.WCSuccess {
		t.Errorf("completions %+v, want that of the request after RESET", got)
	}
	if target[0] != 0 || target[1] != 2 {
		t.Errorf("the peer's memory is % x: the request of before RESET was carried out", target[:2])
	}
	l.a.post(l.x, verbs.SendWR{WRID: 3, Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	w.run(100 * units.Microsecond)
	if got := l.b.poll(); len(got) != 0 {
		t.Errorf("a receive of before RESET took a message: %+v", got)
	}
	l.b.recv(l.y, verbs.RecvWR{WRID: 8})
	w.run(10 * units.Millisecond)
	if got := l.b.poll(); len(got) != 1 || got[0].WRID != 8 {
		t.Errorf("received %+v", got)
	}
}

// The numbers of queue pairs that are destroyed are free again.
func TestNumbersComeBack(t *testing.T) {
	w := newWorld(t, 1, 0)
	h := &host{w: w, addr: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), 4791), timer: units.Never}
	var err error
	h.e, err = New(Config{
		Name: "test:few", GIDs: []netip.Addr{h.addr.Addr()}, MTU: 1024, Window: func(ib.MTU) int { return 8 }, MaxQPs: 2, Rand: seeded(1, 1),
		Resolve: func(verbs.AddressVector) (Route, error) { return Route{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.pd = newPD(h.e)
	if h.cq, err = h.e.CreateCQ(16, nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		q := w.newQP(h, ib.RC, nil)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
