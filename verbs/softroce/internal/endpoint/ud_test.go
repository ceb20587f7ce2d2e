package endpoint

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/verbs"
)

const testQKey = 0x11111111

// newUD makes a datagram queue pair that is ready to send.
func (w *world) newUD(h *host, qkey uint32) *QP {
	w.t.Helper()
	return w.readyUD(w.newQP(h, ib.UD, nil), qkey)
}

func (w *world) readyUD(q *QP, qkey uint32) *QP {
	w.t.Helper()
	for _, m := range []struct {
		a    verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: ib.Init, Port: 1, QKey: qkey}, verbs.ResetToInitUD},
		{verbs.QPAttr{State: ib.RTR}, verbs.AttrState},
		{verbs.QPAttr{State: ib.RTS, SQPSN: 0xfffffe}, verbs.RTRToRTSUD},
	} {
		if err := q.Modify(w.now, m.a, m.mask); err != nil {
			w.t.Fatal(err)
		}
	}
	return q
}

func (h *host) sendTo(q *QP, wr verbs.SendWR, to *host, qpn, qkey uint32) {
	h.w.t.Helper()
	ah, err := h.pd.CreateAH(verbs.AddressVector{GID: to.addr.Addr(), TrafficClass: 0x68, HopLimit: 64})
	if err != nil {
		h.w.t.Fatal(err)
	}
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
	h.post(q, wr)
	if err := ah.Close(); err != nil {
		h.w.t.Fatal(err)
	}
}

func TestDatagrams(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	six := [2]*host{w.add(netip.MustParseAddr("fd00::1")), w.add(netip.MustParseAddr("fd00::2"))}
	for _, h := range [][2]*host{{a, b}, six} {
		a, b := h[0], h[1]
		flags := verbs.WCGRH
		if a.addr.Addr().Is4() {
			flags |= verbs.WCIPv4
		}
		x, y := w.newUD(a, testQKey), w.newUD(b, testQKey)
		ml, local := a.reg(5000, 0)
		mr, remote := b.reg(5000, allAccess)
		fill(w.rng, local)
		for i, n := range []int{0, 1, 1000, 4096} {
			clear(remote)
			b.recv(y, verbs.RecvWR{WRID: 9, SGL: []verbs.SGE{sge(mr, 0, 45)[0], sge(mr, 45, 4500)[0]}})
			wr := verbs.SendWR{WRID: uint64(i), Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: sge(ml, 0, n)}
			want := verbs.WC{WRID: 9, Opcode: ib.WCRecv, Flags: flags, ByteLen: uint32(n + rc.GRHBytes), QPN: y.Num(), SrcQP: x.Num()}
			if i%2 == 1 {
				wr.Opcode, wr.Imm = ib.WRSendWithImm, 77
				want.Flags, want.Imm = flags|verbs.WCWithImm, 77
			}
			a.sendTo(x, wr, b, y.Num(), 1<<31) // its own Q_Key
			if got := a.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess || got[0].WRID != uint64(i) {
				t.Fatalf("sent: %+v", got)
			}
			w.settle()
			got := b.poll()
			if len(got) == 1 {
				want.Timestamp = got[0].Timestamp
			}
			if len(got) != 1 || got[0] != want {
				t.Fatalf("received %+v, want %+v", got, want)
			}
			if !bytes.Equal(remote[rc.GRHBytes:rc.GRHBytes+n], local[:n]) || remote[rc.GRHBytes+n] != 0 {
				t.Error("wrong bytes")
			}
			if a.addr.Addr().Is4() {
				ip := roce.IPv4(remote[20:40])
				if ip.Src() != a.addr.Addr() || ip.Dst() != b.addr.Addr() || ip.TOS() != 0x68 || !ip.ChecksumOK() {
					t.Errorf("GRH % x", remote[:40])
				}
			} else if ip := roce.IPv6(remote[:40]); ip.Src() != a.addr.Addr() || ip.Dst() != b.addr.Addr() || ip.TrafficClass() != 0x68 {
				t.Errorf("GRH % x", remote[:40])
			}
		}
	}
}

// A port takes no datagram above its MTU, though the receive has room.
func TestADatagramAboveThePortsMTU(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	b.e.cfg.MTU = 256
	x, y := w.newUD(a, testQKey), w.newUD(b, testQKey)
	mr, _ := b.reg(5000, allAccess)
	from, _ := a.reg(1000, allAccess)
	for _, bytes := range []int{256, 257} {
		b.recv(y, verbs.RecvWR{SGL: sge(mr, 0, 1000)})
		a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(from, 0, bytes)}, b, y.Num(), testQKey)
		w.settle()
		if got, want := b.e.Counters.UDTooLong, uint64(bytes-256); got != want {
			t.Errorf("after %d bytes %d are counted as too long, want %d", bytes, got, want)
		}
	}
}

// A datagram that does not belong is dropped and counted, and does no harm.
func TestDatagramsThatAreDropped(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	x, y := w.newUD(a, testQKey), w.newUD(b, testQKey)
	mr, _ := b.reg(5000, allAccess)
	b.recv(y, verbs.RecvWR{SGL: sge(mr, 0, 100)})
	c := &b.e.Counters
	for name, d := range map[string]struct {
		qpn, qkey uint32
		bytes     int
		counter   *uint64
	}{
		"wrong Q_Key":       {y.Num(), testQKey + 1, 0, &c.BadQKey},
		"no queue pair":     {y.Num() ^ 1, testQKey, 0, &c.NoQP},
		"too long":          {y.Num(), testQKey, 61, &c.UDTooLong},
		"QP 1, wrong Q_Key": {1, testQKey, 0, &c.BadQKey},
		"QP 1, wrong size":  {1, roce.GSIQKey &^ (1 << 31), 0, &c.BadQKey},
	} {
		before := *d.counter
		a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, d.bytes)}, b, d.qpn, d.qkey)
		w.settle()
		if *d.counter != before+1 {
			t.Errorf("%s: not counted: %+v", name, *c)
		}
	}
	if got := b.poll(); len(got) != 0 || y.State() != ib.RTS {
		t.Errorf("completions %+v, state %v", got, y.State())
	}
	// The receive is still there for one that fits.
	a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 60)}, b, y.Num(), testQKey)
	w.settle()
	if got := b.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess {
		t.Errorf("completions %+v", got)
	}
	a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend}, b, y.Num(), testQKey)
	w.settle()
	if c.UDNoReceive != 1 {
		t.Errorf("without a receive: %+v", *c)
	}
}

// A send whose memory is wrong brings the send queue down, not the receives.
func TestSendQueueError(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	x, y := w.newUD(a, testQKey), w.newUD(b, testQKey)
	m, _ := a.reg(100, allAccess)
	bad := sge(m, 0, 100)
	bad[0].LKey++
	ah, err := a.pd.CreateAH(verbs.AddressVector{GID: b.addr.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	send := verbs.SendWR{Opcode: ib.WRSend, AH: ah, RemoteQPN: y.Num(), RemoteQKey: testQKey}
	first := send
	first.SGL = bad
	if _, err := x.PostSend(w.now, []verbs.SendWR{first, send}); err != nil {
		t.Fatal(err)
	}
	a.pump()
	if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCLocProtErr, ib.WCWRFlushErr}) || x.State() != ib.SQE {
		t.Fatalf("completions %v, state %v", got, x.State())
	}
	a.recv(x, verbs.RecvWR{WRID: 4, SGL: sge(m, 0, 100)})
	b.sendTo(y, verbs.SendWR{Opcode: ib.WRSend}, a, x.Num(), testQKey)
	w.settle()
	if got := a.poll(); len(got) != 1 || got[0].WRID != 4 || got[0].Status != ib.WCSuccess {
		t.Errorf("receives %+v", got)
	}
	if err := x.Modify(w.now, verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled}, b, y.Num(), testQKey)
	if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCSuccess}) {
		t.Errorf("after it went on: %v", got)
	}
	a.recv(x, verbs.RecvWR{WRID: 5})
	if err := x.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.sendTo(x, verbs.SendWR{Opcode: ib.WRSend}, b, y.Num(), testQKey)
	if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCWRFlushErr, ib.WCWRFlushErr}) {
		t.Errorf("in error: %v", got)
	}
}

func TestManagementDatagrams(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	data := make([]byte, roce.MADBytes)
	fill(w.rng, data)
	av := verbs.AddressVector{GID: b.addr.Addr()}
	if err := a.e.SendMAD(av, 1, data); err != nil {
		t.Fatal(err)
	}
	a.pump()
	w.settle()
	if b.e.Counters.MADsDropped != 1 {
		t.Error("a datagram that nobody wants is not counted")
	}
	got := 0
	b.e.OnMAD(func(local netip.Addr, src netip.AddrPort, qpn uint32, d []byte) bool {
		got++
		if local != b.addr.Addr() || src != a.addr || qpn != 1 || !bytes.Equal(d, data) {
			t.Errorf("to %v from %v, QP %d", local, src, qpn)
		}
		return true
	})
	for range gsiDepth {
		if err := a.e.SendMAD(av, 1, data); err != nil {
			t.Fatal(err)
		}
	}
	if a.e.SendMAD(av, 1, data) == nil || a.e.SendMAD(av, 1, data[1:]) == nil {
		t.Error("too many, or too few bytes, is no error")
	}
	a.pump()
	w.settle()
	if got != gsiDepth {
		t.Errorf("%d datagrams came, want %d", got, gsiDepth)
	}
}

// An address handle belongs to a protection domain, which it keeps, and only UD
// queue pairs send by one.
func TestAddressHandles(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	x := w.newUD(a, testQKey)
	connected := w.newQP(a, ib.RC, nil)
	peer := w.newQP(b, ib.RC, nil)
	w.connect(connected, peer, a, b, verbs.DefaultRC(), 0)
	av := verbs.AddressVector{GID: b.addr.Addr()}
	other := newPD(a.e)
	handle := func(p *PD) *AH {
		ah, err := p.CreateAH(av)
		if err != nil {
			t.Fatal(err)
		}
		return ah
	}
	good, foreign, gone := handle(a.pd), handle(other), handle(a.pd)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("destroyed twice: %v", err)
	}
	for name, c := range map[string]struct {
		q  *QP
		wr verbs.SendWR
	}{
		"no handle":         {x, verbs.SendWR{Opcode: ib.WRSend}},
		"another domain's":  {x, verbs.SendWR{Opcode: ib.WRSend, AH: foreign}},
		"destroyed":         {x, verbs.SendWR{Opcode: ib.WRSend, AH: gone}},
		"25 bits":           {x, verbs.SendWR{Opcode: ib.WRSend, AH: good, RemoteQPN: 1 << 24}},
		"on a connection":   {connected, verbs.SendWR{Opcode: ib.WRSend, AH: good}},
		"a write by handle": {x, verbs.SendWR{Opcode: ib.WRRDMAWrite, AH: good}},
	} {
		if n, err := c.q.PostSend(w.now, []verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %d posted, %v", name, n, err)
		}
	}
	if err := other.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("Close with a handle: %v", err)
	}
	if err := errors.Join(foreign.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if _, err := other.CreateAH(av); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a handle of a domain that is gone: %v", err)
	}
}

// Datagram queue pairs and connections draw on one SRQ, in the order in which
// messages come; one that fails leaves it to the others.
func TestDatagramsOnSRQ(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.hosts[0], w.hosts[1]
	srq, err := b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 8, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	x := w.newUD(a, testQKey)
	y1, y2 := w.readyUD(w.newQP(b, ib.UD, srq), testQKey), w.readyUD(w.newQP(b, ib.UD, srq), testQKey)
	rx, ry := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, srq)
	w.connect(rx, ry, a, b, verbs.DefaultRC(), 0)
	m, buf := b.reg(8*100, allAccess)
	for i := range 5 {
		if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: sge(m, 100*i, 100)}}); err != nil {
			t.Fatal(err)
		}
	}
	inline := func(text string) verbs.SendWR {
		return verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: []byte(text)}
	}
	want := []verbs.WC{}
	got := []verbs.WC{}
	for i, q := range []*QP{y1, ry, y2, y1} {
		text := string(rune('a' + i))
		wc := verbs.WC{WRID: uint64(i), Opcode: ib.WCRecv, QPN: q.Num(), ByteLen: 1}
		at := 100 * i
		if q == ry {
			a.post(rx, inline(text))
		} else {
			a.sendTo(x, inline(text), b, q.Num(), testQKey)
			wc.SrcQP, wc.Flags, wc.ByteLen = x.Num(), verbs.WCGRH|verbs.WCIPv4, rc.GRHBytes+1
			at += rc.GRHBytes
		}
		w.settle()
		got = append(got, b.poll()...)
		got[len(got)-1].Timestamp = 0
		want = append(want, wc)
		if string(buf[at]) != text {
			t.Errorf("message %d is not where its receive is", i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if err := y1.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if flushed := b.poll(); len(flushed) != 0 || len(b.events) == 0 || b.events[len(b.events)-1] != (Event{Type: ib.EventQPLastWQE, QP: y1}) {
		t.Errorf("completions %+v, events %+v", flushed, b.events)
	}
	a.sendTo(x, inline("z"), b, y2.Num(), testQKey)
	w.settle()
	if last := b.poll(); len(last) != 1 || last[0].WRID != 4 || last[0].Status != ib.WCSuccess {
		t.Errorf("%+v", last)
	}
}

// What was posted to a queue pair in INIT is flushed when it goes to ERR.
func TestFlushFromInit(t *testing.T) {
	w := newWorld(t, 1, 1)
	a := w.hosts[0]
	for _, typ := range []ib.QPType{ib.RC, ib.UD} {
		q := w.newQP(a, typ, nil)
		if err := q.Modify(w.now, verbs.QPAttr{State: ib.Init, Port: 1}, verbs.ResetToInitRC|verbs.ResetToInitUD); err != nil {
			t.Fatal(err)
		}
		a.recv(q, verbs.RecvWR{WRID: 1})
		a.recv(q, verbs.RecvWR{WRID: 2})
		if err := q.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		a.recv(q, verbs.RecvWR{WRID: 3})
		got := a.poll()
		if len(got) != 3 {
			t.Fatalf("%v: %d completions", typ, len(got))
		}
		for i, wc := range got {
			if wc.WRID != uint64(i+1) || wc.Status != ib.WCWRFlushErr || wc.QPN != q.Num() {
				t.Errorf("%v: %+v", typ, wc)
			}
		}
	}
}
