package storm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// datagrams is a process's UD queue pair, by which it sends datagrams to the others now
// and then. They may be lost; the others must arrive as they were sent.
type datagrams struct {
	qp    verbs.QP
	mr    verbs.MR
	mem   []byte // a place to send from, then those of receives
	ahs   map[int]verbs.AH
	sent  uint64
	under bool // one is under way
}

const (
	datagramQKey     = 0x1ee7
	datagramMost     = 256
	datagramPlace    = 40 + datagramMost // with room for a GRH (IBA 11.4.1.2)
	datagramReceives = 8
	// datagramID marks the WRIDs of datagrams; those of receives have recvID, too.
	datagramID = 1 << 33
)

func (w *peer) newDatagrams() error {
	d := &w.datagrams
	var err error
	d.qp, err = w.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.UD, SendCQ: w.send, RecvCQ: w.recv,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: datagramReceives, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return err
	}
	if err := readyUD(d.qp, w.p.Rand.Uint32()); err != nil {
		return err
	}
	d.mem = make([]byte, datagramMost+datagramReceives*datagramPlace)
	if d.mr, err = w.pd.RegMR(d.mem, ib.AccessLocalWrite); err != nil {
		return err
	}
	d.ahs = map[int]verbs.AH{}
	for i := range w.p.Processes {
		if i == w.p.ID {
			continue
		}
		if d.ahs[i], err = w.pd.CreateAH(verbs.AddressVector{GID: w.p.Address(i), HopLimit: 64}); err != nil {
			return err
		}
	}
	for i := range datagramReceives {
		if err := d.receive(i); err != nil {
			return err
		}
	}
	w.p.run.mailboxes[w.p.ID] = d.qp.Num()
	return nil
}

// readyUD takes a UD queue pair to where it sends.
func readyUD(q verbs.QP, psn uint32) error {
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: ib.Init, Port: 1, QKey: datagramQKey}, verbs.ResetToInitUD},
		{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
		{verbs.QPAttr{State: ib.RTS, SQPSN: psn & 0xffffff}, verbs.RTRToRTSUD},
	} {
		if err := q.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// receive posts a receive.
func (d *datagrams) receive(place int) error {
	_, err := d.qp.PostRecv([]verbs.RecvWR{{
		WRID: datagramID | recvID | uint64(place), SGL: []verbs.SGE{verbs.SGEOf(d.mr, datagramMost+place*datagramPlace, datagramPlace)},
	}})
	return err
}

// datagram makes the bytes of a datagram, which say who has sent it and which it is.
func datagram(b []byte, from, incarnation int, number uint64) []byte {
	r := rand.New(rand.NewPCG(uint64(from)<<32|uint64(incarnation), number))
	b = b[:24+r.IntN(datagramMost-24+1)]
	binary.BigEndian.PutUint64(b, uint64(from))
	binary.BigEndian.PutUint64(b[8:], uint64(incarnation))
	binary.BigEndian.PutUint64(b[16:], number)
	for i := 24; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// sendDatagram sends one, if none is under way.
func (w *peer) sendDatagram() {
	d := &w.datagrams
	if d.under {
		return
	}
	to := (w.p.ID + 1 + w.p.Rand.IntN(w.p.Processes-1)) % w.p.Processes
	b := datagram(d.mem[:datagramMost], w.p.ID, w.p.Incarnation, d.sent)
	_, err := d.qp.PostSend([]verbs.SendWR{{
		WRID: datagramID, Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(d.mr, 0, len(b))},
		AH: d.ahs[to], RemoteQPN: w.p.run.mailboxes[to], RemoteQKey: datagramQKey,
	}})
	if err != nil {
		w.p.Failf("datagram %d: post_send: %v", d.sent, err)
		return
	}
	d.under = true
	d.sent++
}

// datagramCompleted handles a completion of the UD queue pair.
func (w *peer) datagramCompleted(wc *verbs.WC) {
	d := &w.datagrams
	if wc.Status != ib.WCSuccess {
		w.p.Failf("a datagram completes with %v", wc.Status)
		return
	}
	if wc.WRID&recvID == 0 {
		d.under = false
		return
	}
	place := int(wc.WRID &^ (datagramID | recvID))
	got := d.mem[datagramMost+place*datagramPlace:][:datagramPlace]
	if wc.ByteLen < 40+24 || wc.ByteLen > datagramPlace {
		w.p.Failf("a datagram of %d bytes was received, with a GRH", wc.ByteLen)
		return
	}
	body := got[40:wc.ByteLen]
	from, incarnation, number := int(binary.BigEndian.Uint64(body)), int(binary.BigEndian.Uint64(body[8:])), binary.BigEndian.Uint64(body[16:])
	if from < 0 || from >= w.p.Processes || from == w.p.ID || incarnation > w.p.run.procs[from].Incarnation {
		w.p.Failf("a datagram was received that says it is of process %d, incarnation %d", from, incarnation)
		return
	}
	var want [datagramMost]byte
	if !bytes.Equal(body, datagram(want[:], from, incarnation, number)) {
		w.p.Failf("datagram %d of process %d was received with other bytes than were sent", number, from)
	}
	if err := d.receive(place); err != nil {
		w.p.Failf("post_recv: %v", err)
	}
}

func (d *datagrams) free() error {
	if err := d.qp.Close(); err != nil {
		return err
	}
	for _, a := range d.ahs {
		if err := a.Close(); err != nil {
			return err
		}
	}
	return d.mr.Close()
}
