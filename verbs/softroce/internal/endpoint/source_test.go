package endpoint

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// receives are a verbs.RecvSource.
type receives struct {
	wrs   []verbs.RecvWR
	calls int
}

func (r *receives) FetchRecv(wrs []verbs.RecvWR) int {
	r.calls++
	n := copy(wrs, r.wrs)
	r.wrs = r.wrs[n:]
	return n
}

// Messages take their receives from the source, in its order, when none is posted;
// messages that take none leave the source alone. One whose list is too long holds no bytes.
func TestRecvSource(t *testing.T) {
	for _, shared := range []bool{false, true} {
		w := newWorld(t, 1, 2)
		l := &pair{w: w, a: w.hosts[0], b: w.hosts[1]}
		a, b, s := l.a, l.b, &receives{}
		var srq *RecvQueue
		if shared {
			var err error
			if srq, err = b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}); err != nil {
				t.Fatal(err)
			}
			srq.SetSource(s)
		}
		l.x, l.y = w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, srq)
		l.y.SetRecvSource(s)
		w.connect(l.x, l.y, a, b, patient(1024), 0)
		mr, buf := b.reg(1<<16, allAccess)
		ml, data := a.reg(1<<16, allAccess)
		fill(w.rng, data)
		long := make([]verbs.SGE, MaxSGE+1)
		for i := range 20 {
			s.wrs = append(s.wrs, verbs.RecvWR{WRID: uint64(i), SGL: sge(mr, i*2048, 2048)})
		}
		s.wrs = append(s.wrs, verbs.RecvWR{WRID: 20, SGL: long})
		a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 3000), RemoteAddr: mr.Addr(), RKey: mr.Key()})
		w.settle()
		if s.calls != 0 {
			t.Errorf("a WRITE fetched receives")
		}
		for i := range 20 {
			a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSolicited, SGL: sge(ml, i*2048, 2000)})
		}
		a.post(l.x, verbs.SendWR{Opcode: ib.WRSend})
		w.settle()
		got := b.poll()
		if len(got) != 21 {
			t.Fatalf("%d receives, expected 21", len(got))
		}
		for i, c := range got[:20] {
			if c.WRID != uint64(i) || c.Status != ib.WCSuccess || c.ByteLen != 2000 || c.Flags != verbs.WCSolicited ||
				string(buf[i*2048:][:2000]) != string(data[i*2048:][:2000]) {
				t.Errorf("receive %d: %+v", i, c)
			}
		}
		if got[20].WRID != 20 || got[20].Flags != 0 {
			t.Errorf("the last receive: %+v", got[20])
		}
		if s.calls > 21 {
			t.Errorf("%d calls for 21 receives", s.calls)
		}
	}
}

// Each kind of message that takes a receive fetches one, with the packet that takes it.
func TestWhatFetchesReceives(t *testing.T) {
	for _, n := range []int{0, 100, 2500} {
		for op, takes := range map[ib.WROpcode]bool{
			ib.WRSend: true, ib.WRSendWithImm: true, ib.WRSendWithInv: true, ib.WRRDMAWrite: false, ib.WRRDMAWriteWithImm: true, ib.WRRDMARead: false,
		} {
			l := newPair(t, 1, patient(1024))
			s := &receives{}
			l.y.SetRecvSource(s)
			ml, _ := l.a.reg(4096, allAccess)
			mr, _ := l.b.reg(4096, allAccess)
			key, _ := l.b.reg(1, allAccess|ib.AccessRemoteInvalidate)
			s.wrs = []verbs.RecvWR{{WRID: 7, SGL: sge(mr, 0, 4096)}, {WRID: 8}}
			wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGL: sge(ml, 0, n), RemoteAddr: mr.Addr(), RKey: mr.Key()}
			if op == ib.WRSendWithInv {
				wr.Imm = key.Key()
			}
			l.a.post(l.x, wr)
			l.w.settle()
			got := l.b.poll()
			if takes != (len(got) == 1) || takes && (got[0].WRID != 7 || got[0].ByteLen != uint32(n)) || (s.calls > 0) != takes {
				t.Errorf("%v of %d bytes: received %+v, fetched %d times", op, n, got, s.calls)
			}
			if c := l.y.Transport(); c.OutOfBuffer != 0 {
				t.Errorf("%v of %d bytes: not ready %d times", op, n, c.OutOfBuffer)
			}
		}
	}
}

// A queue pair in ERR leaves its source alone: what a message's packet drew from there
// would neither be filled nor flushed.
func TestERRFetchesNoReceives(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	s := &receives{wrs: []verbs.RecvWR{{WRID: 7}, {WRID: 8}}}
	l.y.SetRecvSource(s)
	if err := l.y.Modify(l.w.now, verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend})
	l.w.settle()
	if s.calls > 0 {
		t.Errorf("it fetched %d times", s.calls)
	}
	for len(s.wrs) > 0 {
		n, err := l.y.PostRecv(l.w.now, s.wrs)
		if s.wrs = s.wrs[n:]; err != nil {
			t.Fatal(err)
		}
	}
	if got := l.b.poll(); len(got) != 2 || got[0].WRID != 7 || got[1].Status != ib.WCWRFlushErr {
		t.Errorf("the source's receives ended as %+v, expected both flushed", got)
	}
}
