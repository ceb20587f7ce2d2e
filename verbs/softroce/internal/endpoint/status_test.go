package endpoint

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func (h *host) eventTypes() []ib.EventType {
	var types []ib.EventType
	for _, v := range h.events {
		types = append(types, v.Type)
	}
	return types
}

func statuses(wc []verbs.WC) []ib.WCStatus {
	var s []ib.WCStatus
	for _, c := range wc {
		s = append(s, c.Status)
	}
	return s
}

func vendorErrs(wc []verbs.WC) []uint32 {
	var v []uint32
	for _, c := range wc {
		v = append(v, c.VendorErr)
	}
	return v
}

// What goes wrong gives the status that the specification has for it, at both
// ends, and leaves memory alone.
func TestStatuses(t *testing.T) {
	const n = 9000
	type env struct {
		l             *pair
		ml, mr        *MR // 2*n bytes each, with all accesses
		local, remote []byte
	}
	write := func(e *env) verbs.SendWR {
		return verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: sge(e.ml, 0, n), RemoteAddr: e.mr.Addr(), RKey: e.mr.Key()}
	}
	read := func(e *env) verbs.SendWR {
		wr := write(e)
		wr.Opcode = ib.WRRDMARead
		return wr
	}
	send := func(e *env) verbs.SendWR { return verbs.SendWR{Opcode: ib.WRSend, SGL: sge(e.ml, 0, n)} }
	add := func(e *env) verbs.SendWR {
		return verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGL: sge(e.ml, 0, 8), RemoteAddr: e.mr.Addr(), RKey: e.mr.Key()}
	}
	recv := func(e *env, s []verbs.SGE) {
		e.l.b.recv(e.l.y, verbs.RecvWR{SGL: s})
	}
	other := func(e *env) *MR { // of the peer, in another protection domain
		m, err := newPD(e.l.b.e).RegMR(make([]byte, n), allAccess)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, c := range map[string]struct {
		wr           func(e *env) verbs.SendWR
		access       ib.AccessFlags // of the queue pair; 0 is all
		status, peer ib.WCStatus    // of the request, and of the peer's receive if it posts one
		peerState    ib.QPState
		event        ib.EventType // at the peer; none if a receive tells of it
	}{
		"write with no such key": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.RKey ^= 1
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write with the key of another protection domain": {wr: func(e *env) verbs.SendWR {
			wr, m := write(e), other(e)
			wr.RKey, wr.RemoteAddr = m.Key(), m.Addr()
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write before the region": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.RemoteAddr--
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write beyond the region": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.RemoteAddr += n + 1
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write around the end of the address space": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.RemoteAddr = ^uint64(n / 2)
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write to a region that is read only": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			m, _ := e.l.b.reg(n, ib.AccessRemoteRead)
			wr.RKey, wr.RemoteAddr = m.Key(), m.Addr()
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"read of a region that is write only": {wr: func(e *env) verbs.SendWR {
			wr := read(e)
			m, _ := e.l.b.reg(n, ib.AccessLocalWrite|ib.AccessRemoteWrite)
			wr.RKey, wr.RemoteAddr = m.Key(), m.Addr()
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"atomic on a region without atomics": {wr: func(e *env) verbs.SendWR {
			wr := add(e)
			m, _ := e.l.b.reg(n, ib.AccessLocalWrite|ib.AccessRemoteWrite)
			wr.RKey, wr.RemoteAddr = m.Key(), m.Addr()&^7+8
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write with a key that is gone": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			if err := e.mr.Close(); err != nil {
				t.Fatal(err)
			}
			return wr
		}, status: ib.WCRemAccessErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"write to a queue pair that admits none":  {wr: write, access: ib.AccessRemoteRead, status: ib.WCRemInvReqErr, peerState: ib.Err, event: ib.EventQPReqErr},
		"read from a queue pair that admits none": {wr: read, access: ib.AccessRemoteWrite, status: ib.WCRemInvReqErr, peerState: ib.Err, event: ib.EventQPReqErr},
		"atomic to a queue pair that admits none": {wr: add, access: ib.AccessRemoteWrite, status: ib.WCRemInvReqErr, peerState: ib.Err, event: ib.EventQPReqErr},
		"invalidate of a key that is not for peers": {wr: func(e *env) verbs.SendWR {
			m, _ := e.l.b.reg(n, ib.AccessLocalWrite)
			recv(e, sge(e.mr, 0, n))
			wr := send(e)
			wr.Opcode, wr.Imm = ib.WRSendWithInv, m.Key()
			wr.SGL = nil
			return wr
		}, status: ib.WCRemAccessErr, peer: ib.WCWRFlushErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"invalidate of a region that peers may read and write": {wr: func(e *env) verbs.SendWR {
			m, _ := e.l.b.reg(n, allAccess)
			recv(e, sge(e.mr, 0, n))
			wr := send(e)
			wr.Opcode, wr.Imm = ib.WRSendWithInv, m.Key()
			wr.SGL = nil
			return wr
		}, status: ib.WCRemAccessErr, peer: ib.WCWRFlushErr, peerState: ib.Err, event: ib.EventQPAccessErr},
		"send longer than its receive": {wr: func(e *env) verbs.SendWR {
			recv(e, sge(e.mr, 0, n-1))
			return send(e)
		}, status: ib.WCRemInvReqErr, peer: ib.WCLocLenErr, peerState: ib.Err},
		"send to a receive whose key is wrong": {wr: func(e *env) verbs.SendWR {
			s := sge(e.mr, 0, n)
			s[0].LKey ^= 1
			recv(e, s)
			return send(e)
		}, status: ib.WCRemOpErr, peer: ib.WCLocProtErr, peerState: ib.Err},
		"send to a receive that may not be written": {wr: func(e *env) verbs.SendWR {
			m, _ := e.l.b.reg(n, ib.AccessRemoteRead)
			recv(e, sge(m, 0, n))
			return send(e)
		}, status: ib.WCRemOpErr, peer: ib.WCLocProtErr, peerState: ib.Err},
		"send without a receive": {wr: send, status: ib.WCRNRRetryExcErr, peerState: ib.RTS},
		"write from memory whose key is wrong": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.SGL[0].LKey ^= 1
			return wr
		}, status: ib.WCLocProtErr, peerState: ib.RTS},
		"write from beyond a region": {wr: func(e *env) verbs.SendWR {
			wr := write(e)
			wr.SGL[0].Addr += 2*n - 1
			return wr
		}, status: ib.WCLocProtErr, peerState: ib.RTS},
		"read into memory that may not be written": {wr: func(e *env) verbs.SendWR {
			m, _ := e.l.a.reg(n, 0)
			wr := read(e)
			wr.SGL = sge(m, 0, n)
			return wr
		}, status: ib.WCLocProtErr, peerState: ib.RTS},
		"atomic into memory whose key is wrong": {wr: func(e *env) verbs.SendWR {
			wr := add(e)
			wr.SGL[0].LKey ^= 1
			return wr
		}, status: ib.WCLocProtErr, peerState: ib.RTS},
		"local invalidate of no key": {wr: func(*env) verbs.SendWR {
			return verbs.SendWR{Opcode: ib.WRLocalInv, Imm: 1}
		}, status: ib.WCMWBindErr, peerState: ib.RTS},
		"write to nobody": {wr: func(e *env) verbs.SendWR {
			e.l.w.drop = 1
			return write(e)
		}, status: ib.WCRetryExcErr, peerState: ib.RTS},
	} {
		t.Run(name, func(t *testing.T) {
			p := patient(1024)
			p.RetryCnt, p.RNRRetry = 2, 2
			e := &env{l: &pair{w: newWorld(t, 7, 2)}}
			w := e.l.w
			e.l.a, e.l.b = w.hosts[0], w.hosts[1]
			a, b := e.l.a, e.l.b
			e.l.x, e.l.y = w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
			if c.access != 0 {
				p.Access = c.access
			}
			w.connect(e.l.x, e.l.y, a, b, p, 0)
			e.ml, e.local = a.reg(2*n, allAccess)
			e.mr, e.remote = b.reg(2*n, allAccess)
			fill(w.rng, e.local)
			wr := c.wr(e)
			wr.WRID = 1
			before := slices.Clone(e.local)
			a.post(e.l.x, wr)
			a.post(e.l.x, verbs.SendWR{WRID: 2, Opcode: ib.WRRDMAWrite}) // behind it, not signaled
			w.settle()

			ended := a.poll()
			if got := statuses(ended); !slices.Equal(got, []ib.WCStatus{c.status, ib.WCWRFlushErr}) {
				t.Errorf("completions %v, want %v and a flush", got, c.status)
			}
			vendor := map[ib.WCStatus]uint32{ib.WCLocProtErr: 0x52, ib.WCRemInvReqErr: 0x8a, ib.WCRemAccessErr: 0x88, ib.WCRemOpErr: 0x89, ib.WCRetryExcErr: 0x81}[c.status]
			if got := vendorErrs(ended); !slices.Equal(got, []uint32{vendor, 0xf9}) {
				t.Errorf("vendor errors %#x, expected %#x and a flush's 0xf9", got, vendor)
			}
			if s := e.l.x.State(); s != ib.Err {
				t.Errorf("the requester is in %v", s)
			}
			if s := e.l.y.State(); s != c.peerState {
				t.Errorf("the responder is in %v, want %v", s, c.peerState)
			}
			wantRecvs, wantEvents := []ib.WCStatus(nil), []ib.EventType(nil)
			if c.peer != 0 {
				wantRecvs = []ib.WCStatus{c.peer}
			}
			if c.event != 0 {
				wantEvents = []ib.EventType{c.event}
			}
			if got := statuses(b.poll()); !slices.Equal(got, wantRecvs) {
				t.Errorf("the peer's receives: %v, want %v", got, wantRecvs)
			}
			if got := b.eventTypes(); !slices.Equal(got, wantEvents) {
				t.Errorf("the peer's events: %v, want %v", got, wantEvents)
			}
			if !slices.Equal(e.local, before) {
				t.Error("local memory has changed")
			}
			// A send may have come part of the way, into its own receive.
			if wr.Opcode != ib.WRSend && slices.ContainsFunc(e.remote, func(v byte) bool { return v != 0 }) {
				t.Error("the peer's memory has changed")
			}
			// What comes later is flushed at once.
			a.post(e.l.x, wr)
			if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCWRFlushErr}) {
				t.Errorf("a later request completed as %v", got)
			}
			a.recv(e.l.x, verbs.RecvWR{})
			if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCWRFlushErr}) {
				t.Errorf("a later receive completed as %v", got)
			}
			if e.l.x.sq.posted != e.l.x.incarnation.freed.Load() {
				t.Error("the send queue is not empty")
			}
		})
	}
}

// A queue pair can be brought back from the error state and connected anew.
func TestReset(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	ml, local := l.a.reg(100, allAccess)
	mr, remote := l.b.reg(100, allAccess)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 100), RemoteAddr: mr.Addr(), RKey: mr.Key()}
	bad := wr
	bad.RKey++
	l.a.post(l.x, bad)
	l.b.recv(l.y, verbs.RecvWR{})
	w.settle()
	if l.x.State() != ib.Err || l.y.State() != ib.Err {
		t.Fatal("not in error")
	}
	l.a.poll()
	l.b.poll()
	fill(w.rng, local)
	for _, q := range []*QP{l.x, l.y} {
		if err := q.Modify(w.now, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	w.connect(l.x, l.y, l.a, l.b, patient(1024), 0)
	l.a.post(l.x, wr)
	w.settle()
	if got := statuses(l.a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCSuccess}) || !slices.Equal(local, remote) {
		t.Errorf("completions %v", got)
	}
}

// A send queue that is drained finishes what it has begun and says so.
func TestDrain(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	ml, _ := l.a.reg(100_000, allAccess)
	mr, _ := l.b.reg(100_000, allAccess)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(ml, 0, 100_000), RemoteAddr: mr.Addr(), RKey: mr.Key()}
	l.a.post(l.x, wr)
	if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.SQD}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	l.a.post(l.x, wr)
	w.settle()
	if got := l.a.poll(); len(got) != 1 || l.x.State() != ib.SQD || !slices.Equal(l.a.eventTypes(), []ib.EventType{ib.EventSQDrained}) {
		t.Fatalf("%d completions, state %v, events %v", len(got), l.x.State(), l.a.eventTypes())
	}
	if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	l.a.pump()
	w.settle()
	if got := l.a.poll(); len(got) != 1 || l.x.State() != ib.RTS {
		t.Errorf("%d completions after it went on, state %v", len(got), l.x.State())
	}
}

// Several queue pairs share a receive queue; one that fails leaves it to the others.
func TestSharedReceiveQueue(t *testing.T) {
	w := newWorld(t, 3, 2)
	a, b := w.hosts[0], w.hosts[1]
	srq, err := b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 8, MaxSGE: 2})
	if err != nil {
		t.Fatal(err)
	}
	mr, _ := b.reg(1000, allAccess)
	var x, y []*QP
	for range 3 {
		p, q := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, srq)
		w.connect(p, q, a, b, patient(1024), 0)
		x, y = append(x, p), append(y, q)
	}
	for i := range uint64(8) {
		if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: i, SGL: sge(mr, 0, 1000)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range []*QP{x[0], x[2], x[1], x[0]} {
		a.post(q, verbs.SendWR{Opcode: ib.WRSendWithImm, Imm: uint32(i)})
		w.settle()
	}
	got := b.poll()
	for i, from := range []*QP{y[0], y[2], y[1], y[0]} {
		if len(got) != 4 || got[i].QPN != from.Num() || got[i].WRID != uint64(i) || got[i].Imm != uint32(i) {
			t.Fatalf("receives %+v", got)
		}
	}
	if err := y[1].Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if got := b.poll(); len(got) != 0 {
		t.Errorf("a failed queue pair flushed the shared receives: %+v", got)
	}
	if e := b.eventTypes(); !slices.Equal(e, []ib.EventType{ib.EventQPLastWQE}) {
		t.Errorf("events %v", e)
	}
	a.post(x[2], verbs.SendWR{Opcode: ib.WRSend})
	w.settle()
	if got := b.poll(); len(got) != 1 || got[0].WRID != 4 || got[0].Status != ib.WCSuccess {
		t.Errorf("receives %+v", got)
	}
	if err := srq.Close(); err == nil {
		t.Error("a shared receive queue in use was destroyed")
	}
	if _, err := y[0].PostRecv(w.now, []verbs.RecvWR{{}}); err == nil {
		t.Error("a receive was posted to a queue pair that has an SRQ")
	}
}

// A completion queue that overruns fails, and says so once. Its queue pairs that lose a
// completion fail with it.
func TestOverrun(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w, a := l.w, l.a
	fired := 0
	cq, err := a.e.CreateCQ(4, func() { fired++ })
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.pd.CreateQP(QPInit{Type: ib.RC, SendCQ: cq, RecvCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1}})
	if err != nil {
		t.Fatal(err)
	}
	y := w.newQP(l.b, ib.RC, nil)
	w.connect(x, y, a, l.b, patient(1024), 0)
	if err := cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	a.recv(x, verbs.RecvWR{WRID: 50})
	for range 5 {
		a.post(x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
	}
	w.settle()
	if fired != 1 {
		t.Errorf("armed once, fired %d times", fired)
	}
	wc := make([]verbs.WC, 8)
	if n, err := cq.Poll(wc); n != 4 || err != nil {
		t.Errorf("%d completions, %v", n, err)
	}
	if _, err := cq.Poll(wc); err == nil {
		t.Error("the overrun is no error")
	}
	if e := a.eventTypes(); !slices.Equal(e, []ib.EventType{ib.EventCQErr, ib.EventQPFatal}) {
		t.Errorf("events %v", e)
	}
	if x.State() != ib.Err || l.x.State() != ib.RTS {
		t.Errorf("states %v and, with another completion queue, %v; want ERR and RTS", x.State(), l.x.State())
	}
	if got := a.poll(); len(got) != 1 || got[0].WRID != 50 || got[0].Status != ib.WCWRFlushErr {
		t.Errorf("its receive ended as %+v", got)
	}
}

// An arming for solicited completions leaves others alone, but not failures.
func TestSolicited(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w, b := l.w, l.b
	for i, c := range []struct {
		flags verbs.SendFlags
		only  bool
		fires int
	}{{0, true, 0}, {verbs.SendSolicited, true, 1}, {0, false, 1}} {
		b.fired = 0
		b.cq.armed.Store(notArmed)
		if err := b.cq.ReqNotify(c.only); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			b.recv(l.y, verbs.RecvWR{})
			l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: c.flags})
		}
		w.settle()
		if b.fired != c.fires {
			t.Errorf("case %d: fired %d times, want %d", i, b.fired, c.fires)
		}
		if len(b.poll()) != 2 {
			t.Error("receives are missing")
		}
	}
	b.fired = 0
	if err := b.cq.ReqNotify(true); err != nil {
		t.Fatal(err)
	}
	b.recv(l.y, verbs.RecvWR{})
	if err := l.y.Modify(w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if b.fired != 1 {
		t.Error("a failure is no event")
	}
}

// Time stamps are those of the packet that completed the request.
func TestTimestamps(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	w := l.w
	w.latency = 30 * units.Microsecond
	w.run(units.Millisecond)
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled})
	w.settle()
	if got := l.a.poll(); len(got) != 1 || got[0].Timestamp != 1_060_000 {
		t.Errorf("%+v, want the time stamp 1060000", got)
	}
}
