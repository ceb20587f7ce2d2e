package endpoint

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"pgregory.net/rapid"
)

// deliver has a packet come from a peer at an instant, with an ECN code point.
func (h *host) deliver(now units.Time, from *host, packet []byte, ecn uint8) {
	h.e.Receive(now, &Packet{Data: packet, Src: from.addr, TrafficClass: ecn})
}

// notify has a congestion notification come for q at an instant, and reports whether it
// counted. It is counted once, one way or the other.
func (h *host) notify(now units.Time, from *host, q *QP) bool {
	h.w.t.Helper()
	var b [64]byte
	p := roce.CNP(q.num, roce.DefaultPKey)
	n := p.Put(b[:]) + roce.ICRCBytes
	before, taken := h.e.Counters, q.CNPs()
	h.deliver(now, from, b[:n], 0)
	after := h.e.Counters
	counted := q.CNPs() - taken
	if after.CNPsHandled-before.CNPsHandled != counted || after.CNPsIgnored-before.CNPsIgnored != 1-counted {
		h.w.t.Errorf("the notification is counted wrongly: %+v, and %d of the queue pair", after, counted)
	}
	return counted == 1
}

// The waits of congestion notifications end exactly when they are over, also where the clock
// was set back meanwhile.
func TestNotificationTimes(t *testing.T) {
	const later = 3 * units.Second
	for _, back := range []units.Time{0, 2 * units.Second} {
		l := newPair(t, 1, patient(1024))
		a, b := l.a, l.b
		setBack := func(h *host, now units.Time) units.Time {
			if back > 0 {
				h.e.SetBack(back, h.e.origin.Add(back))
			}
			return now - back
		}
		// Taken: while a request is under way, and cnpHandled after the last.
		b.absent = true
		a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
		now := later
		if !a.notify(now, b, l.x) || a.notify(now+cnpHandled-1, b, l.x) {
			t.Error("the first notification counts, and none within cnpHandled")
		}
		now = setBack(a, now)
		if a.notify(now+cnpHandled-1, b, l.x) || !a.notify(now+cnpHandled, b, l.x) || a.notify(now+2*cnpHandled-1, b, l.x) {
			t.Errorf("set back by %v: a notification counts from cnpHandled after the last one on", back)
		}

		// Taken by who serves a READ: for cnpOfRead.
		l = newPair(t, 1, patient(1024))
		a, b = l.a, l.b
		w := l.w
		ml, _ := a.reg(8, allAccess)
		mr, _ := b.reg(8, allAccess)
		if b.notify(0, a, l.y) {
			t.Error("a notification counts before anything was sent")
		}
		w.run(later)
		a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMARead, SGL: sge(ml, 0, 8), RemoteAddr: mr.Addr(), RKey: mr.Key()})
		w.run(w.latency)
		now = setBack(b, w.now)
		if !b.notify(now+cnpOfRead-1, a, l.y) || b.notify(now+cnpOfRead, a, l.y) {
			t.Errorf("set back by %v: a notification counts within cnpOfRead of a READ's response", back)
		}

		// Sent: cnpInterval after the last.
		packet := func() []byte {
			p := roce.Packet{DestQP: l.y.num, PKey: roce.DefaultPKey}
			p.Opcode = ib.WriteOnly
			buf := make([]byte, 64)
			return buf[:p.Put(buf)+roce.ICRCBytes]
		}
		l = newPair(t, 1, patient(1024))
		a, b = l.a, l.b
		var buf [MaxPacket]byte
		sent := func(now units.Time) bool {
			b.deliver(now, a, packet(), roce.ECNCE)
			before := b.e.Counters.CNPsSent
			for n := 1; n > 0; {
				n, _ = b.e.Next(now, buf[:])
			}
			return b.e.Counters.CNPsSent == before+1
		}
		now = later
		if !sent(now) || sent(now+cnpInterval-1) {
			t.Error("the first mark is notified, and none within cnpInterval")
		}
		now = setBack(b, now)
		if sent(now+cnpInterval-1) || !sent(now+cnpInterval) || sent(now+2*cnpInterval-1) {
			t.Errorf("set back by %v: a mark is notified from cnpInterval after the last one on", back)
		}
		if b.e.Counters.ECNMarked != 5 {
			t.Errorf("%d marks are counted of 5", b.e.Counters.ECNMarked)
		}
	}
}

// A clock that is set back moves every deadline with it, in their order; queue pairs in RESET
// have none. Stamps go on.
func TestDeadlinesAreSetBack(t *testing.T) {
	const at, back = 10 * units.Second, 7 * units.Second
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	b.absent = true
	w.newQP(a, ib.RC, nil)
	w.now = at
	var qps []*QP
	for i := range 3 {
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		p := patient(1024)
		p.Timeout = 16 - uint8(i)
		w.connect(x, y, a, b, p, 0)
		a.post(x, verbs.SendWR{Opcode: ib.WRRDMAWrite})
		qps = append(qps, x)
	}
	due, stamp := a.e.Deadline(), a.e.stampOf(at)
	a.e.SetBack(back, a.e.origin.Add(back))
	if got := a.e.Deadline(); got != due-back {
		t.Errorf("the deadline is %v, want %v", got, due-back)
	}
	if got := a.e.stampOf(at - back); got != stamp {
		t.Errorf("the stamp is %d, and was %d", got, stamp)
	}
	for i := 2; i >= 0; i-- {
		due := a.e.Deadline()
		a.e.Expire(due - 1)
		if n := qps[i].Transport().LocalAckTimeoutErr; n != 0 {
			t.Errorf("queue pair %d: a timeout before its time", i)
		}
		a.e.Expire(due)
		if n := qps[i].Transport().LocalAckTimeoutErr; n != 1 {
			t.Errorf("queue pair %d: %d timeouts, want 1", i, n)
		}
		if err := qps[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	if a.e.Deadline() != units.Never {
		t.Error("a deadline without a queue pair")
	}
}

// A shared receive queue says once that fewer receives than its limit are left, when a message
// takes one.
func TestReceiveLimit(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	srq, err := b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, srq)
	w.connect(x, y, a, b, patient(1024), 0)
	for n, want := range map[int]error{-1: verbs.ErrInvalid, 0: nil, 4: nil, 5: verbs.ErrInvalid} {
		if err := srq.SetLimit(n); !errors.Is(err, want) {
			t.Errorf("a limit of %d: %v, want %v", n, err, want)
		}
	}
	if n, err := srq.PostRecv(make([]verbs.RecvWR, 5)); n != 4 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d of 5 receives are posted, %v", n, err)
	}
	if err := srq.SetLimit(3); err != nil {
		t.Fatal(err)
	}
	for sent, events := range []int{0, 0, 1, 1} {
		if sent > 0 {
			a.post(x, verbs.SendWR{Opcode: ib.WRSend})
		}
		w.settle()
		b.events = slices.DeleteFunc(b.events, func(e Event) bool { return e.Type != ib.EventSRQLimit })
		if len(b.events) != events {
			t.Errorf("after %d of 4 messages: events %v, want %d", sent, b.events, events)
		}
	}
	if want := (Event{Type: ib.EventSRQLimit, SRQ: srq}); len(b.events) != 1 || b.events[0] != want {
		t.Errorf("events %+v, want %+v", b.events, want)
	}
}

// A device that fails takes its queue pairs to ERR, but for those in RESET; each flushes what it has.
func TestDeviceFails(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	a, w := l.a, l.w
	unused, posted, failed := w.newQP(a, ib.RC, nil), w.newQP(a, ib.RC, nil), w.newQP(a, ib.RC, nil)
	for _, q := range []*QP{posted, failed} {
		if err := q.Modify(0, verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC); err != nil {
			t.Fatal(err)
		}
	}
	a.recv(posted, verbs.RecvWR{WRID: 1})
	a.recv(l.x, verbs.RecvWR{WRID: 2})
	if err := failed.Modify(0, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.e.Fail(w.now)
	for q, want := range map[*QP]ib.QPState{unused: ib.Reset, posted: ib.Err, failed: ib.Err, l.x: ib.Err} {
		if q.State() != want {
			t.Errorf("queue pair %#x in %v, want %v", q.num, q.State(), want)
		}
	}
	var ids []uint64
	for _, wc := range a.poll() {
		if ids = append(ids, wc.WRID); wc.Status != ib.WCWRFlushErr {
			t.Errorf("%+v", wc)
		}
	}
	if slices.Sort(ids); !slices.Equal(ids, []uint64{1, 2}) {
		t.Errorf("flushed %v, want 1 and 2", ids)
	}
}

// The device's counters are the sums of its connections', also of connections that have gone or
// begun anew.
func TestTransportCounters(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	if c := w.newQP(a, ib.RC, nil).Transport(); c.SentPackets != 0 {
		t.Errorf("in RESET: %+v", c)
	}
	var qps []*QP
	for range 3 {
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(x, y, a, b, patient(1024), 0)
		a.post(x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
		qps = append(qps, x)
	}
	w.settle()
	check := func(when string) {
		t.Helper()
		if c := a.e.Transport(); c.SentPackets != 3 {
			t.Errorf("%s: %d packets sent, want 3", when, c.SentPackets)
		}
	}
	check("of three")
	if err := qps[0].Close(); err != nil {
		t.Fatal(err)
	}
	check("one has gone")
	if err := qps[1].Modify(0, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	check("one is in RESET")
}

// A place of the GID table is in use while a queue pair or an address handle sends from it.
func TestGIDUsed(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	a := l.a
	used := func(want bool, when string) {
		t.Helper()
		if a.e.GIDUsed(0) != want {
			t.Errorf("%s: in use %v, want %v", when, !want, want)
		}
		if a.e.GIDUsed(1) {
			t.Errorf("%s: a place that there is not is in use", when)
		}
	}
	used(true, "connected")
	ah, err := a.pd.CreateAH(verbs.AddressVector{GID: l.b.addr.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.x.Close(); err != nil {
		t.Fatal(err)
	}
	used(true, "with a handle")
	if err := ah.Close(); err != nil {
		t.Fatal(err)
	}
	used(false, "without")
}

// The ready list is a queue, from which any can go.
func TestReadyList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &Endpoint{}
		var want []*QP
		qps := make([]*QP, 6)
		for i := range qps {
			qps[i] = &QP{e: e}
		}
		which := rapid.SampledFrom(qps)
		t.Repeat(map[string]func(*rapid.T){
			"wake": func(t *rapid.T) {
				q := which.Draw(t, "q")
				if q.wake(); !slices.Contains(want, q) {
					want = append(want, q)
				}
			},
			"remove": func(t *rapid.T) {
				q := which.Draw(t, "q")
				e.ready.remove(q)
				want = slices.DeleteFunc(want, func(p *QP) bool { return p == q })
			},
			"": func(t *rapid.T) {
				var got, back []*QP
				for q := e.ready.first; q != nil; q = q.ready.next {
					got = append(got, q)
				}
				for q := e.ready.last; q != nil; q = q.ready.prev {
					back = append(back, q)
				}
				slices.Reverse(back)
				if !slices.Equal(got, want) || !slices.Equal(back, want) || e.Pending() != (len(want) > 0) {
					t.Fatalf("forwards %v, backwards %v, want %v", got, back, want)
				}
			},
		})
	})
}

// A READ in more parts than the transport takes at once comes whole, with one completion, and
// fails with one, wherever it goes wrong.
func TestReadInParts(t *testing.T) {
	const size = 200 * 1024
	w := newWorld(t, 1, 2)
	w.window = 2 // a part is one packet
	a, b := w.hosts[0], w.hosts[1]
	ml, local := a.reg(size, allAccess)
	mr, remote := b.reg(size, allAccess)
	fill(w.rng, remote)
	for _, c := range []struct {
		remote, local int // bytes that the peer's region has, and the list here
		status        ib.WCStatus
	}{{size, size, ib.WCSuccess}, {size / 2, size, ib.WCRemAccessErr}, {size, size / 2, ib.WCLocProtErr}} {
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(x, y, a, b, patient(1024), 0)
		clear(local)
		sgl := sge(ml, 0, size)
		addr := mr.Addr() + uint64(size-c.remote)
		if c.local < size { // the rest by a key that is wrong
			sgl = append(sge(ml, 0, c.local), sge(ml, c.local, size-c.local)...)
			sgl[1].LKey++
		}
		wrs := []verbs.SendWR{
			{WRID: 1, Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled, SGL: sgl, RemoteAddr: addr, RKey: mr.Key()},
			{WRID: 2, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: addr, RKey: mr.Key()},
		}
		if n, err := x.PostSend(w.now, wrs); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		a.pump()
		w.settle()
		got := a.poll()
		if len(got) != 2 || got[0].WRID != 1 || got[0].Status != c.status || got[1].WRID != 2 {
			t.Fatalf("completions %+v, want status %v", got, c.status)
		}
		good := size
		if c.status != ib.WCSuccess {
			good = size / 4 // more or less: what came before
		}
		if !bytes.Equal(local[:good], remote[size-c.remote:][:good]) {
			t.Errorf("%v: wrong bytes", c.status)
		}
	}
}

// What waits to be written with the rest of its message fails the message, when the rest does
// not come or when too much has come to wait.
func TestLateWritesFail(t *testing.T) {
	for _, packets := range []int{1, maxLate, maxLate + 1, 60} { // of the message, that come at first
		l := newPair(t, 5, patient(1024))
		l.w.batches = true
		const n = 60 * 1024
		ml, _ := l.a.reg(n, allAccess)
		mr, remote := l.b.regOther(n, allAccess)
		remote.noWrite = remote.start
		came := 0
		l.w.tap = func(from *host, _ *Route, _ []byte) bool {
			if from == l.a {
				came++
			}
			return from != l.a || came <= packets
		}
		l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, n), RemoteAddr: mr.Addr(), RKey: mr.Key()})
		l.w.run(units.Millisecond)
		l.w.tap = nil
		if s := l.y.State(); s != ib.Err {
			t.Errorf("%d packets: the responder is in %v", packets, s)
		}
		l.w.settle()
		if got := statuses(l.a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCRemAccessErr}) {
			t.Errorf("%d packets: completions %v", packets, got)
		}
		if l.b.e.Counters.RemoteKeyFaults != 1 {
			t.Errorf("%d packets: %d faults are counted", packets, l.b.e.Counters.RemoteKeyFaults)
		}
	}
}

// What waits to be written is written before another queue pair's packet is taken: that it fails
// is its own queue pair's matter.
func TestLateWritesFailTheirOwn(t *testing.T) {
	w := newWorld(t, 5, 2)
	w.batches = true
	a, b := w.hosts[0], w.hosts[1]
	const n = 2 * pageBytes
	ml, local := a.reg(n, allAccess)
	mr, remote := b.regOther(n, allAccess)
	fill(w.rng, local)
	remote.noWrite = remote.start
	var qps, peers [2]*QP
	for i := range qps {
		qps[i], peers[i] = w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(qps[i], peers[i], a, b, patient(1024), 0)
	}
	w.tap = func(from *host, _ *Route, p []byte) bool { return from != a || ib.Opcode(p[0]) != ib.WriteLast }
	a.post(qps[0], verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 2048), RemoteAddr: mr.Addr(), RKey: mr.Key()})
	a.post(qps[1], verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, pageBytes, 100), RemoteAddr: mr.Addr() + pageBytes, RKey: mr.Key()})
	w.run(units.Millisecond)
	if s := [2]ib.QPState{peers[0].State(), peers[1].State()}; s != [2]ib.QPState{ib.Err, ib.RTS} {
		t.Errorf("the responders are in %v", s)
	}
	if !bytes.Equal(remote.data[pageBytes:][:100], local[pageBytes:][:100]) {
		t.Error("what could be written was not")
	}
	for _, wc := range a.poll() {
		if want := map[uint32]ib.WCStatus{qps[0].num: ib.WCRemAccessErr, qps[1].num: ib.WCSuccess}[wc.QPN]; wc.Status != want {
			t.Errorf("%+v, want %v", wc, want)
		}
	}
}

// A queue pair that loses a completion fails at once, also where its send queue alone had failed
// and flushes what is posted.
func TestOverrunInTheSendQueueError(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	cq, err := a.e.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.pd.CreateQP(QPInit{Type: ib.UC, SendCQ: cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxSendSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	w.connectUC(x, w.newQP(b, ib.UC, nil), a, b, 1024)
	a.post(x, verbs.SendWR{Opcode: ib.WRSend, SGL: []verbs.SGE{{Length: 1, LKey: 1}}})
	for range 3 {
		a.post(x, verbs.SendWR{Opcode: ib.WRSend})
	}
	if x.State() != ib.SQE || len(a.events) != 0 {
		t.Fatalf("in %v, events %v", x.State(), a.events)
	}
	if _, err := x.PostSend(w.now, []verbs.SendWR{{Opcode: ib.WRSend}}); err != nil {
		t.Fatal(err)
	}
	if e := a.eventTypes(); x.State() != ib.Err || !slices.Equal(e, []ib.EventType{ib.EventCQErr, ib.EventQPFatal}) {
		t.Errorf("in %v, events %v", x.State(), e)
	}
}

// A packet that calls for no answer gives its queue pair no turn: the driver need not look.
func TestNoTurnWithoutAnAnswer(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	ml, _ := l.a.reg(3000, allAccess)
	mr, _ := l.b.reg(3000, allAccess)
	l.b.pump()
	var got []bool
	l.b.absent = true
	l.w.tap = func(*host, *Route, []byte) bool {
		l.w.run(l.w.latency) // what left before has arrived
		got = append(got, l.b.e.Pending())
		return true
	}
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 3000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
	l.w.run(l.w.latency)
	if got = append(got, l.b.e.Pending()); !slices.Equal(got, []bool{false, false, false, true}) {
		t.Errorf("after each of three packets, of which the last asks for an answer, there is something to send: %v", got)
	}
}

// RESET forgets every mark: what the connection made anew sends and completes says nothing of
// those before it. The notifications that have counted go on.
func TestResetForgetsMarks(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	for _, q := range []*QP{l.x, l.y} {
		now := w.now
		q.congestion = congestion{
			cnpDue: true, cnpSent: true, cnpAt: now, echo: true, marked: true, echoEIN: true, ein: true,
			cnpTaken: true, cnpTakenAt: now, served: true, servedAt: now,
		}
		q.cnps.Store(3)
		if err := q.Modify(now, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	w.connect(l.x, l.y, l.a, l.b, patient(1024), 0)
	if l.b.notify(w.now, l.a, l.y) {
		t.Error("a notification counts before anything was sent")
	}
	w.tap = func(_ *host, _ *Route, b []byte) bool {
		var p roce.Packet
		if _, err := p.Decode(b); err != nil || p.BECN || p.Reserved6 != 0 || p.Opcode == ib.CNP {
			t.Errorf("%v: %+v leaves, %v", p.Opcode, p.Header, err)
		}
		return true
	}
	ml, _ := l.a.reg(8, allAccess)
	mr, _ := l.b.reg(8, allAccess)
	for id, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		l.a.post(l.x, verbs.SendWR{WRID: uint64(id), Opcode: op, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 8), RemoteAddr: mr.Addr(), RKey: mr.Key()})
	}
	w.settle()
	got := l.a.told()
	if len(got) != 2 {
		t.Errorf("%d completions", len(got))
	}
	for id, told := range got {
		if told != (verbs.Telemetry{}) {
			t.Errorf("request %d: %+v", id, told)
		}
	}
	if l.x.CNPs() != 3 {
		t.Errorf("%d notifications, want 3", l.x.CNPs())
	}
}
