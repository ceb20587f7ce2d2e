package storm

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// unreliable is a process's end of an unreliable connection to another. Messages may be lost;
// the others must arrive as they were sent. Packet numbers need not be agreed on: what does not
// fit is a gap.
type unreliable struct {
	qp     verbs.QP
	mr     verbs.MR
	mem    []byte // a place to send from, one to be written to, and those of receives
	to     uint32 // the queue pair that it is connected to, 0 for none
	number uint64
	out    int  // requests under way
	bad    bool // one names memory that nobody has: the send queue is in error
}

const (
	unreliableID       = 1 << 34 // marks WRIDs
	unreliableMost     = 3000
	unreliableReceives = 4
	unreliableDepth    = 4
)

func (w *peer) newUnreliable(other int) (*unreliable, error) {
	u := &unreliable{mem: make([]byte, (2+unreliableReceives)*unreliableMost)}
	var err error
	if u.mr, err = w.register(u.mem, ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
		return nil, err
	}
	u.qp, err = w.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.UC, SendCQ: w.send, RecvCQ: w.recv, Cap: verbs.QPCap{MaxSendWR: unreliableDepth, MaxRecvWR: unreliableReceives, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: 64},
	})
	if err != nil {
		return nil, err
	}
	w.p.run.unreliables[[2]int{w.p.ID, other}] = hello{qpn: u.qp.Num(), addr: u.mr.Addr() + unreliableMost, rkey: u.mr.RKey()}
	return u, nil
}

// converse connects to the other end, anew if that is another, or sends something.
func (w *peer) converse(other int) {
	u := w.unreliables[other]
	if u == nil {
		return
	}
	there := w.p.run.unreliables[[2]int{other, w.p.ID}]
	if there.qpn == 0 {
		return
	}
	if u.to != there.qpn {
		if err := w.connectUnreliable(u, other, there.qpn); err != nil {
			w.p.Failf("an unreliable connection: %v", err)
		}
		return
	}
	if u.bad && u.out == 0 {
		w.mend(u)
		return
	}
	if u.out == unreliableDepth {
		return
	}
	r := w.p.Rand
	wr := verbs.SendWR{
		WRID: unreliableID, Opcode: []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm}[r.IntN(4)], Flags: verbs.SendSignaled,
		RemoteAddr: there.addr, RKey: there.rkey, Imm: uint32(u.number),
	}
	if r.IntN(3) == 0 {
		wr.Flags |= verbs.SendSolicited
	}
	if r.IntN(16) == 0 && !wr.Opcode.ConsumesRecv() {
		wr.RKey++ // nobody says that it is dropped
	}
	n := 24 + r.IntN(unreliableMost-24)
	if r.IntN(4) == 0 {
		n = 24 + r.IntN(40)
	}
	b := u.mem[:n]
	note(b, w.p.ID, u.number)
	u.number++
	if n <= 64 && r.IntN(2) == 0 {
		wr.Flags |= verbs.SendInline
		wr.Inline = bytes.Clone(b)
	} else {
		k := 1 + r.IntN(n-1)
		wr.SGL = []verbs.SGE{verbs.SGEOf(u.mr, 0, k), verbs.SGEOf(u.mr, k, n-k)}
	}
	if !u.bad && len(wr.SGL) > 0 && r.IntN(32) == 0 {
		u.bad = true
		wr.SGL[r.IntN(2)].LKey ^= 1 << r.IntN(8)
	}
	if _, err := u.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		w.p.Failf("an unreliable connection: post_send: %v", err)
		return
	}
	u.out++
}

// mend goes on with a send queue in which a request has failed: what was posted behind it is flushed,
// and the receive queue has gone on (10.3.1.6).
func (w *peer) mend(u *unreliable) {
	if a, err := u.qp.Query(); err != nil || a.State != ib.SQE {
		w.p.Failf("an unreliable connection is in %v (%v), and a request of it has failed", a.State, err)
		return
	}
	if err := u.qp.Modify(verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		w.p.Failf("an unreliable connection: from SQE: %v", err)
		return
	}
	u.bad = false
}

// note fills a message with what says who has sent it, which it is, and how long.
func note(b []byte, from int, number uint64) {
	binary.BigEndian.PutUint64(b, uint64(from))
	binary.BigEndian.PutUint64(b[8:], number)
	binary.BigEndian.PutUint64(b[16:], uint64(len(b)))
	for i := 24; i < len(b); i++ {
		b[i] = byte(number) + byte(i) + byte(i>>8)*7
	}
}

func (w *peer) connectUnreliable(u *unreliable, other int, qpn uint32) error {
	if u.to != 0 {
		if err := u.qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: ib.Init, Port: 1, Access: ib.AccessRemoteWrite}, verbs.ResetToInitUC},
		{verbs.QPAttr{State: ib.RTR, PathMTU: w.weather.mtu, DestQPN: qpn, RQPSN: w.p.Rand.Uint32() & 0xffffff, AV: verbs.AddressVector{GID: w.p.Address(other), HopLimit: 64}}, verbs.InitToRTRUC},
		{verbs.QPAttr{State: ib.RTS, SQPSN: w.p.Rand.Uint32() & 0xffffff}, verbs.RTRToRTSUC},
	} {
		if err := u.qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	u.to, u.out, u.bad = qpn, 0, false
	for i := range unreliableReceives {
		if err := u.receive(i, unreliableMost); err != nil {
			return err
		}
	}
	return nil
}

func (u *unreliable) receive(place, n int) error {
	_, err := u.qp.PostRecv([]verbs.RecvWR{{WRID: unreliableID | recvID | uint64(place), SGL: []verbs.SGE{verbs.SGEOf(u.mr, (2+place)*unreliableMost, n)}}})
	return err
}

// unreliableCompleted handles a completion of an unreliable connection.
func (w *peer) unreliableCompleted(u *unreliable, other int, wc *verbs.WC) {
	if u.bad && wc.WRID&recvID == 0 && (wc.Status == ib.WCLocProtErr || wc.Status == ib.WCWRFlushErr) {
		u.out--
		return
	}
	if wc.Status != ib.WCSuccess {
		w.p.Failf("a request of an unreliable connection completes with %v", wc.Status)
		return
	}
	if wc.WRID&recvID == 0 {
		u.out--
		return
	}
	place := int(wc.WRID &^ (unreliableID | recvID))
	got := u.mem[(2+place)*unreliableMost:][:unreliableMost]
	if wc.Opcode == ib.WCRecv {
		if err := w.readNote(got, other, wc); err != nil {
			w.p.Failf("a message of an unreliable connection: %v", err)
			return
		}
	}
	n := unreliableMost
	if w.p.Rand.IntN(4) == 0 {
		n = w.p.Rand.IntN(n) // it may be too short
	}
	if err := u.receive(place, n); err != nil {
		w.p.Failf("an unreliable connection: post_recv: %v", err)
	}
}

func (w *peer) readNote(got []byte, other int, wc *verbs.WC) error {
	if wc.ByteLen < 24 || int(wc.ByteLen) > len(got) {
		return fmt.Errorf("%d bytes were received", wc.ByteLen)
	}
	got = got[:wc.ByteLen]
	want := make([]byte, len(got))
	number := binary.BigEndian.Uint64(got[8:])
	note(want, other, number)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("message %d was received with other bytes than were sent", number)
	}
	if wc.Flags&verbs.WCWithImm != 0 && wc.Imm != uint32(number) {
		return fmt.Errorf("message %d was received with the immediate %d", number, wc.Imm)
	}
	return nil
}

func (u *unreliable) free() error {
	if err := u.qp.Close(); err != nil {
		return err
	}
	return u.mr.Close()
}
