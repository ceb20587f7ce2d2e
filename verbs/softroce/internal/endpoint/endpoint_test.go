package endpoint

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Every operation, once, on a clean wire.
func TestEveryOperation(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	w, a, b := l.w, l.a, l.b
	ml, local := a.reg(20000, allAccess)
	mr, remote := b.reg(20000, allAccess)
	fill(w.rng, local)
	sent := bytes.Clone(local)

	one := func(name string, wr verbs.SendWR, wantBytes uint32) {
		t.Helper()
		wr.WRID, wr.Flags = 77, wr.Flags|verbs.SendSignaled
		a.post(l.x, wr)
		w.settle()
		got := a.poll()
		if len(got) != 1 || got[0].Status != ib.WCSuccess || got[0].WRID != 77 || got[0].Opcode != wr.Opcode.Completion() || got[0].ByteLen != wantBytes || got[0].QPN != l.x.Num() {
			t.Fatalf("%s: completions %+v", name, got)
		}
	}
	receive := func(name string, want verbs.WC) {
		t.Helper()
		got := b.poll()
		if len(got) != 1 {
			t.Fatalf("%s: completions %+v", name, got)
		}
		want.Timestamp = got[0].Timestamp
		want.QPN = l.y.Num()
		if got[0] != want {
			t.Fatalf("%s: receive\n%+v, want\n%+v", name, got[0], want)
		}
	}

	one("write", verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 10001), RemoteAddr: mr.Addr() + 5, RKey: mr.Key()}, 10001)
	if !bytes.Equal(remote[5:10006], sent[:10001]) || remote[4] != 0 || remote[10006] != 0 {
		t.Fatal("write: wrong bytes")
	}
	two := []verbs.SGE{{Addr: ml.Addr() + 100, Length: 3, LKey: ml.Key()}, {}, {Addr: ml.Addr() + 1, Length: 5000, LKey: ml.Key()}}
	one("write from pieces", verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: two, RemoteAddr: mr.Addr(), RKey: mr.Key()}, 5003)
	if !bytes.Equal(remote[:3], sent[100:103]) || !bytes.Equal(remote[3:5003], sent[1:5001]) {
		t.Fatal("write from pieces: wrong bytes")
	}
	one("empty write", verbs.SendWR{Opcode: ib.WRRDMAWrite}, 0)
	one("inline write", verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: []byte("inline"), RemoteAddr: mr.Addr() + 19000, RKey: mr.Key()}, 6)
	if string(remote[19000:19006]) != "inline" {
		t.Fatal("inline write: wrong bytes")
	}

	one("read", verbs.SendWR{Opcode: ib.WRRDMARead, SGL: sge(ml, 12000, 5003), RemoteAddr: mr.Addr(), RKey: mr.Key()}, 5003)
	if !bytes.Equal(local[12000:17003], remote[:5003]) || local[17003] != sent[17003] {
		t.Fatal("read: wrong bytes")
	}

	b.recv(l.y, verbs.RecvWR{WRID: 5, SGL: sge(mr, 0, 1000)})
	one("write with immediate", verbs.SendWR{Opcode: ib.WRRDMAWriteWithImm, SGL: sge(ml, 0, 9000), RemoteAddr: mr.Addr() + 10000, RKey: mr.Key(), Imm: 0xfeed}, 9000)
	receive("write with immediate", verbs.WC{WRID: 5, Opcode: ib.WCRecvRDMAWithImm, Flags: verbs.WCWithImm, ByteLen: 9000, Imm: 0xfeed})

	clear(remote)
	rl := []verbs.SGE{{Addr: mr.Addr() + 7, Length: 10, LKey: mr.Key()}, {Addr: mr.Addr() + 100, Length: 9000, LKey: mr.Key()}}
	b.recv(l.y, verbs.RecvWR{WRID: 6, SGL: rl})
	one("send", verbs.SendWR{Opcode: ib.WRSend, SGL: sge(ml, 0, 6000)}, 6000)
	receive("send", verbs.WC{WRID: 6, Opcode: ib.WCRecv, ByteLen: 6000})
	if !bytes.Equal(remote[7:17], local[:10]) || !bytes.Equal(remote[100:6090], local[10:6000]) || remote[17] != 0 || remote[6090] != 0 {
		t.Fatal("send: wrong bytes")
	}
	b.recv(l.y, verbs.RecvWR{WRID: 7, SGL: rl})
	one("send with immediate", verbs.SendWR{Opcode: ib.WRSendWithImm, Imm: 9}, 0)
	receive("send with immediate", verbs.WC{WRID: 7, Opcode: ib.WCRecv, Flags: verbs.WCWithImm, Imm: 9})
	victim, _ := b.reg(10, allAccess|ib.AccessRemoteInvalidate)
	b.recv(l.y, verbs.RecvWR{WRID: 8, SGL: rl})
	one("send with invalidate", verbs.SendWR{Opcode: ib.WRSendWithInv, Imm: victim.Key(), SGL: sge(ml, 0, 3)}, 3)
	receive("send with invalidate", verbs.WC{WRID: 8, Opcode: ib.WCRecv, Flags: verbs.WCWithInv, ByteLen: 3, Imm: victim.Key()})
	if b.e.region(victim.Key(), b.pd, victim.Addr(), 1, 0) != nil {
		t.Error("the key is still valid")
	}
	if err := victim.Close(); err != nil {
		t.Errorf("deregistering what the peer invalidated: %v", err)
	}

	word := func() uint64 { return binary.NativeEndian.Uint64(remote[8:]) }
	binary.NativeEndian.PutUint64(remote[8:], 40)
	aligned := mr.Addr() + 8
	if aligned%8 != 0 {
		t.Fatal("a region's address does not keep the alignment of its memory")
	}
	one("fetch and add", verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGL: sge(ml, 64, 8), RemoteAddr: aligned, RKey: mr.Key(), CompareAdd: 2}, 8)
	if got := binary.NativeEndian.Uint64(local[64:]); got != 40 || word() != 42 {
		t.Errorf("fetch and add: brought %d, left %d", got, word())
	}
	for _, c := range []struct{ compare, swap, brings, leaves uint64 }{{41, 7, 42, 42}, {42, 7, 42, 7}} {
		one("compare and swap", verbs.SendWR{Opcode: ib.WRAtomicCmpAndSwp, SGL: sge(ml, 64, 8), RemoteAddr: aligned, RKey: mr.Key(), CompareAdd: c.compare, Swap: c.swap}, 8)
		if got := binary.NativeEndian.Uint64(local[64:]); got != c.brings || word() != c.leaves {
			t.Errorf("compare %d and swap %d: brought %d, left %d", c.compare, c.swap, got, word())
		}
	}

	own, _ := a.reg(10, allAccess)
	one("local invalidate", verbs.SendWR{Opcode: ib.WRLocalInv, Imm: own.Key()}, 0)
	if a.e.regions.get(own.Key()) != nil {
		t.Error("the key is still valid")
	}
	if c := a.e.Counters; c.Malformed+c.NoQP+c.WrongSource+c.WrongService+c.DroppedByQP != 0 {
		t.Errorf("packets were dropped: %+v", c)
	}
}
