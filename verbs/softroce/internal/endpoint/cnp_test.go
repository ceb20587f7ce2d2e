package endpoint

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// A marked packet comes back as a notification, not more often than the interval
// allows, and shows with the request's completion.
func TestCongestionNotification(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		w := newWorld(t, 1, 2)
		a, b := w.hosts[0], w.hosts[1]
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(x, y, a, b, patient(1024), roce.ECNECT0)
		ml, _ := a.reg(50000, allAccess)
		mr, _ := b.reg(50000, allAccess)
		request := func(id uint64) bool {
			a.post(x, verbs.SendWR{WRID: id, Opcode: op, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 50000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
			w.settle()
			wc := make([]verbs.WC, 1)
			n, err := a.cq.Poll(wc)
			if n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
				t.Fatal(n, err, wc)
			}
			var got verbs.Telemetry
			return a.cq.Telemetry(&wc[0], &got) && got.ECN
		}
		if request(1) || a.e.Counters.CNPsSent+b.e.Counters.CNPsSent != 0 {
			t.Errorf("%v: congestion without a mark", op)
		}
		w.mark = 1
		if !request(2) {
			t.Errorf("%v: no mark with the completion", op)
		}
		w.mark = 0
		if request(3) {
			t.Errorf("%v: the mark of the last request is still there", op)
		}
		// All 49 packets were marked at once: one notification, from whom they
		// went to. That of the READ's request is one too.
		receiver, sender, q := b, a, x
		if op == ib.WRRDMARead {
			receiver, sender, q = a, b, y
		}
		if n := receiver.e.Counters.CNPsSent; n != 1 {
			t.Errorf("%v: %d notifications, want 1", op, n)
		}
		if n := sender.e.Counters.CNPsHandled; n != 1 || q.CNPs() != 1 {
			t.Errorf("%v: %d and %d notifications handled, want 1", op, n, q.CNPs())
		}
		if receiver.e.Counters.ECNMarked == 0 {
			t.Errorf("%v: marked packets are not counted", op)
		}
	}
}

func TestNotificationsAreRateLimited(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
	w.connect(x, y, a, b, patient(1024), roce.ECNECT0)
	w.mark = 1
	start := w.now
	for range 100 {
		a.post(x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
		w.run(11 * units.Microsecond)
		a.poll()
	}
	took := w.now - start
	if n, most := b.e.Counters.CNPsSent, uint64(took/cnpInterval)+1; n < most/2 || n > most {
		t.Errorf("%d notifications in %v, want up to %d", n, took, most)
	}
}

// A notification has no PSN and can be forged by who knows the queue pair's number. It
// counts only while there is something that it could be about, and no more often than
// an honest peer sends it.
func TestForgedNotifications(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	var b [64]byte
	p := roce.CNP(l.x.Num(), roce.DefaultPKey)
	n := p.Put(b[:]) + roce.ICRCBytes
	for range 100 {
		w.inject(l.b.addr, l.a, b[:n])
	}
	w.settle()
	if got := l.x.CNPs(); got != 0 {
		t.Errorf("%d counted while nothing was outstanding", got)
	}
	l.b.absent = true // what is posted stays outstanding
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
	const span = 100 * units.Microsecond
	for until := w.now + span; w.now < until; {
		w.inject(l.b.addr, l.a, b[:n])
		w.run(units.Microsecond)
	}
	if got := units.Time(l.x.CNPs()); got == 0 || got > span/cnpHandled+1 {
		t.Errorf("%d counted within %v", got, span)
	}
}

// A notification for nobody, or from elsewhere, is ignored.
func TestStrayNotification(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	stranger := w.add(l.a.addr.Addr().Next().Next())
	var b [64]byte
	for i, c := range []struct {
		src *host
		qpn uint32
	}{{l.b, l.x.Num() ^ 1}, {stranger, l.x.Num()}} {
		p := roce.CNP(c.qpn, roce.DefaultPKey)
		n := p.Put(b[:])
		w.inject(c.src.addr, l.a, b[:n+roce.ICRCBytes])
		w.settle()
		if l.x.CNPs() != 0 || l.a.e.Counters.CNPsHandled != 0 {
			t.Errorf("case %d: handled", i)
		}
	}
	if c := l.a.e.Counters; c.CNPsIgnored != 1 || c.WrongSource != 1 {
		t.Errorf("%+v", c)
	}
}
