package endpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// connectUC takes two UC queue pairs to RTS, with the attributes that
// ibv_modify_qp(3) asks for and no other.
func (w *world) connectUC(x, y *QP, a, b *host, mtu ib.MTU) {
	w.t.Helper()
	psn := [2]uint32{w.rng.Uint32() & maxPSN, w.rng.Uint32() & maxPSN}
	for i, q := range []*QP{x, y} {
		peer, to := []*QP{y, x}[i], []*host{b, a}[i]
		for _, s := range []struct {
			a    verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: 1, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite}, verbs.ResetToInitUC},
			{verbs.QPAttr{State: ib.RTR, PathMTU: mtu, DestQPN: peer.Num(), RQPSN: psn[1-i], AV: verbs.AddressVector{GID: to.addr.Addr()}}, verbs.InitToRTRUC},
			{verbs.QPAttr{State: ib.RTS, SQPSN: psn[i]}, verbs.RTRToRTSUC},
		} {
			for bit := verbs.QPAttrMask(1); bit <= s.mask; bit <<= 1 {
				if s.mask&bit == 0 || bit == verbs.AttrState {
					continue
				}
				if err := q.Modify(w.now, s.a, s.mask&^bit); !errors.Is(err, verbs.ErrInvalid) {
					w.t.Fatalf("to %v without attribute %#x: %v", s.a.State, uint32(bit), err)
				}
			}
			if err := q.Modify(w.now, s.a, s.mask); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func newUCPair(t testing.TB, seed uint64) *pair {
	t.Helper()
	w := newWorld(t, seed, 2)
	l := &pair{w: w, a: w.hosts[0], b: w.hosts[1]}
	l.x, l.y = w.newQP(l.a, ib.UC, nil), w.newQP(l.b, ib.UC, nil)
	w.connectUC(l.x, l.y, l.a, l.b, 1024)
	return l
}

func TestUnreliableConnection(t *testing.T) {
	l := newUCPair(t, 1)
	a, b, w := l.a, l.b, l.w
	ml, local := a.reg(10000, 0)
	mr, remote := b.reg(20000, allAccess)
	fill(w.rng, local)
	b.recv(l.y, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{sge(mr, 10000, 500)[0], sge(mr, 12000, 5000)[0]}})
	b.recv(l.y, verbs.RecvWR{WRID: 8})
	packets := 0
	w.tap = func(from *host, _ *Route, p []byte) bool {
		packets++
		if op := ib.Opcode(p[0]); from != a || op.Service() != ib.ServiceUC {
			t.Errorf("%v sends %v", from.addr, op)
		}
		return true
	}
	a.post(l.x, verbs.SendWR{WRID: 1, Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 3000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
	a.post(l.x, verbs.SendWR{WRID: 2, Opcode: ib.WRSendWithImm, Imm: 5, Flags: verbs.SendSignaled, SGL: sge(ml, 3000, 2049)})
	a.post(l.x, verbs.SendWR{WRID: 3, Opcode: ib.WRRDMAWriteWithImm, Imm: 6, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("hello"), RemoteAddr: mr.Addr() + 5000, RKey: mr.Key()})
	// Complete as they leave, before anything arrives.
	if got := a.poll(); len(got) != 2 || got[0].WRID != 2 || got[1].WRID != 3 || got[0].Status != ib.WCSuccess || got[1].Opcode != ib.WCRDMAWrite {
		t.Errorf("sent %+v", got)
	}
	w.settle()
	want := []verbs.WC{
		{WRID: 7, Opcode: ib.WCRecv, Flags: verbs.WCWithImm, ByteLen: 2049, Imm: 5, QPN: l.y.Num()},
		{WRID: 8, Opcode: ib.WCRecvRDMAWithImm, Flags: verbs.WCWithImm, ByteLen: 5, Imm: 6, QPN: l.y.Num()},
	}
	got := b.poll()
	for i := range got {
		got[i].Timestamp = 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("received %+v, want %+v", got, want)
	}
	if !bytes.Equal(remote[:3000], local[:3000]) || !bytes.Equal(remote[10000:10500], local[3000:3500]) || !bytes.Equal(remote[12000:13549], local[3500:5049]) || string(remote[5000:5005]) != "hello" {
		t.Error("wrong bytes")
	}
	if packets != 7 {
		t.Errorf("%d packets, want 7: nothing is answered", packets)
	}
}

// Over a wire with faults come whole messages, in order, none twice.
func TestUnreliableOverFaults(t *testing.T) {
	const size, depth, total = 3000, 32, 600
	for seed := range uint64(20) {
		l := newUCPair(t, seed)
		a, b, w := l.a, l.b, l.w
		w.drop, w.duplicate, w.reorder, w.corrupt = 0.01, 0.01, 0.01, 0.01
		ml, local := a.reg(size, 0)
		mr, remote := b.reg(depth*size, allAccess)
		var wr [1]verbs.RecvWR
		repost := func(i int) {
			wr[0] = verbs.RecvWR{WRID: uint64(i), SGL: sge(mr, i*size, size)}
			b.recv(l.y, wr[0])
		}
		for i := range depth {
			repost(i)
		}
		last, came := -1, 0
		for i := range total {
			n := 8 + w.rng.IntN(size-8)
			for j := range local {
				local[j] = byte(i*7 + j*13)
			}
			binary.BigEndian.PutUint64(local, uint64(i))
			a.post(l.x, verbs.SendWR{WRID: uint64(i), Opcode: ib.WRSendWithImm, Imm: uint32(n), Flags: verbs.SendSignaled, SGL: sge(ml, 0, n)})
			if got := a.poll(); len(got) != 1 || got[0].WRID != uint64(i) || got[0].Status != ib.WCSuccess {
				t.Fatalf("seed %d: request %d: %+v", seed, i, got)
			}
			w.run(units.Time(w.rng.IntN(10)) * units.Microsecond)
			if i == total-1 {
				w.settle()
			}
			for _, wc := range b.poll() {
				data := remote[int(wc.WRID)*size:][:wc.ByteLen]
				k := int(binary.BigEndian.Uint64(data))
				if wc.Status != ib.WCSuccess || wc.Imm != wc.ByteLen || k <= last || k >= total {
					t.Fatalf("seed %d: message %d after %d: %+v", seed, k, last, wc)
				}
				for j := 8; j < len(data); j++ {
					if data[j] != byte(k*7+j*13) {
						t.Fatalf("seed %d: message %d: byte %d is wrong", seed, k, j)
					}
				}
				last = k
				came++
				repost(int(wc.WRID))
			}
		}
		if came == total || came < total*3/4 || l.y.State() != ib.RTS {
			t.Errorf("seed %d: %d of %d messages came, state %v", seed, came, total, l.y.State())
		}
	}
}

// A send whose memory is wrong ends the send queue alone, and RTS brings it back.
func TestUnreliableSendQueueError(t *testing.T) {
	l := newUCPair(t, 1)
	a, b, w := l.a, l.b, l.w
	m, _ := a.reg(5000, allAccess)
	bad := sge(m, 0, 2000)
	bad = append(bad, sge(m, 2000, 2000)...)
	bad[1].LKey++
	wrs := []verbs.SendWR{{WRID: 0, Opcode: ib.WRSend, Flags: verbs.SendSignaled}, {WRID: 1, Opcode: ib.WRSend, SGL: bad}}
	for i := range 40 { // more than the transport holds at a time
		wrs = append(wrs, verbs.SendWR{WRID: uint64(2 + i), Opcode: ib.WRSend})
	}
	if _, err := l.x.PostSend(w.now, wrs); err != nil {
		t.Fatal(err)
	}
	a.pump()
	for i, wc := range a.poll() {
		want := ib.WCWRFlushErr
		if i < 2 {
			want = []ib.WCStatus{ib.WCSuccess, ib.WCLocProtErr}[i]
		}
		if wc.WRID != uint64(i) || wc.Status != want {
			t.Errorf("completion %d: %+v, want %v", i, wc, want)
		}
		if i == len(wrs)-1 {
			wrs = nil
		}
	}
	if wrs != nil || l.x.State() != ib.SQE {
		t.Fatalf("not all were completed; state %v", l.x.State())
	}
	a.post(l.x, verbs.SendWR{WRID: 90, Opcode: ib.WRSend})
	if got := a.poll(); len(got) != 1 || got[0].Status != ib.WCWRFlushErr {
		t.Errorf("in SQE: %+v", got)
	}
	a.recv(l.x, verbs.RecvWR{WRID: 4, SGL: sge(m, 0, 100)})
	b.post(l.y, verbs.SendWR{Opcode: ib.WRSend})
	w.settle()
	if got := a.poll(); len(got) != 1 || got[0].WRID != 4 || got[0].Status != ib.WCSuccess {
		t.Errorf("receives %+v", got)
	}
	if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	mr, _ := b.reg(5000, allAccess)
	b.recv(l.y, verbs.RecvWR{WRID: 5, SGL: sge(mr, 0, 5000)})
	a.post(l.x, verbs.SendWR{WRID: 91, Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: sge(m, 0, 3000)})
	w.settle()
	if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCSuccess}) {
		t.Errorf("after it went on: %v", got)
	}
	if got := b.poll(); len(got) != 1 || got[0].WRID != 5 || got[0].ByteLen != 3000 {
		t.Errorf("received %+v", got)
	}
}

// What a reliable connection would refuse costs an unreliable one the message; only
// the receiver's own mistake brings it down.
func TestUnreliableRefusals(t *testing.T) {
	l := newUCPair(t, 1)
	a, b, w := l.a, l.b, l.w
	m, _ := a.reg(5000, 0)
	mr, remote := b.reg(5000, allAccess)
	readOnly, _ := b.reg(5000, ib.AccessLocalWrite|ib.AccessRemoteRead)
	write := func(addr uint64, key uint32, n int) {
		a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: sge(m, 0, n), RemoteAddr: addr, RKey: key})
		w.settle()
	}
	write(mr.Addr(), mr.Key()+1, 3000)
	write(mr.Addr()+4000, mr.Key(), 1001)
	write(readOnly.Addr(), readOnly.Key(), 1)
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(m, 0, 3000)}) // no receive
	w.settle()
	b.recv(l.y, verbs.RecvWR{WRID: 1, SGL: sge(mr, 0, 2000)})
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(m, 0, 3000)}) // too long for it
	w.settle()
	if got := b.poll(); len(got) != 0 || len(b.events) != 0 || l.y.State() != ib.RTS || b.e.Counters.RemoteKeyFaults != 3 {
		t.Errorf("completions %+v, events %v, state %v, %+v", got, b.events, l.y.State(), b.e.Counters)
	}
	if c := l.y.Transport(); c.OutOfBuffer != 1 || c.RespLocalLengthError != 1 || c.RespRemoteAccessErrors != 3 {
		t.Errorf("%+v", c)
	}
	if !bytes.Equal(remote[2000:], make([]byte, 3000)) {
		t.Error("memory has changed")
	}
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRAtomicFetchAndAdd, ib.WRSendWithInv} {
		if _, err := l.x.PostSend(w.now, []verbs.SendWR{{Opcode: op, SGL: sge(m, 0, 8)}}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%v: %v", op, err)
		}
	}
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(m, 0, 100)})
	w.settle()
	if got := b.poll(); len(got) != 1 || got[0].WRID != 1 || got[0].ByteLen != 100 {
		t.Errorf("%+v", got)
	}
	bad := sge(mr, 0, 2000)
	bad[0].LKey++
	b.recv(l.y, verbs.RecvWR{WRID: 2, SGL: bad})
	b.recv(l.y, verbs.RecvWR{WRID: 3})
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(m, 0, 100)})
	w.settle()
	if got := statuses(b.poll()); !slices.Equal(got, []ib.WCStatus{ib.WCLocProtErr, ib.WCWRFlushErr}) || l.y.State() != ib.Err {
		t.Errorf("completions %v, state %v", got, l.y.State())
	}
	// And it can be connected anew.
	for _, q := range []*QP{l.x, l.y} {
		if err := q.Modify(w.now, verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	w.connectUC(l.x, l.y, a, b, 256)
	b.recv(l.y, verbs.RecvWR{WRID: 6, SGL: sge(mr, 0, 2000)})
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: sge(m, 0, 1000)})
	w.settle()
	if got := b.poll(); len(got) != 1 || got[0].WRID != 6 || got[0].ByteLen != 1000 {
		t.Errorf("%+v", got)
	}
}

func TestUnreliableDrain(t *testing.T) {
	l := newUCPair(t, 1)
	a, w := l.a, l.w
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.SQD}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if len(a.events) != 1 || a.events[0] != (Event{Type: ib.EventSQDrained, QP: l.x}) {
		t.Errorf("events %v", a.events)
	}
	a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled})
	if got := a.poll(); len(got) != 1 {
		t.Errorf("%d completions while drained", len(got))
	}
	if err := l.x.Modify(w.now, verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.pump()
	if got := a.poll(); len(got) != 1 {
		t.Errorf("%d completions after", len(got))
	}
}

// A packet and its completion take no memory.
func TestUnreliableNoAllocation(t *testing.T) {
	l := newUCPair(t, 1)
	w := l.w
	ml, _ := l.a.reg(1<<16, allAccess)
	mr, _ := l.b.reg(1<<16, allAccess)
	wr := []verbs.SendWR{
		{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 1<<16), RemoteAddr: mr.Addr(), RKey: mr.Key()},
		{Opcode: ib.WRSend, SGL: sge(ml, 0, 3000), Flags: verbs.SendSignaled},
	}
	recv := []verbs.RecvWR{{SGL: sge(mr, 0, 1<<16)}}
	wc := make([]verbs.WC, 8)
	var buf [MaxPacket]byte
	p := Packet{HopLimit: 64, Src: l.a.addr}
	round := func() {
		if _, err := l.y.PostRecv(w.now, recv); err != nil {
			t.Fatal(err)
		}
		if _, err := l.x.PostSend(w.now, wr); err != nil {
			t.Fatal(err)
		}
		for {
			n, _ := l.a.e.Next(w.now, buf[:])
			if n == 0 {
				break
			}
			p.Data = buf[:n]
			l.b.e.Receive(w.now, &p)
		}
		for _, h := range []*host{l.a, l.b} {
			if n, err := h.cq.Poll(wc); n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
				t.Fatal(n, err, wc[0])
			}
		}
	}
	for range 70 { // every slot once, which then keeps its scatter list
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
