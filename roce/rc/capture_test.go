package rc_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// This file holds the state machine against another implementation: Linux
// soft-RoCE, as captured between two guests (roce/testdata/ORIGIN.md). Each
// connection is played twice: the captured requests to our responder, whose
// answers must be those captured, and the work requests that they imply to our
// requester, whose packets must be those captured.

// captured is a packet of a connection.
type captured struct {
	h       rc.Header
	payload int
	answer  bool // of the responder
}

type endpointName struct {
	addr netip.Addr
	qp   uint32
}

// connections sorts the packets of a capture by responder, in order.
func connections(t *testing.T, name string) map[endpointName][]captured {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	pcap, err := pcapgo.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	conns := map[endpointName][]captured{}
	type request struct {
		from, to netip.Addr
		h        rc.Header
		qp       uint32
	}
	var requests []request
	for {
		b, _, err := pcap.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return conns
		}
		if err != nil {
			t.Fatal(err)
		}
		var f roce.Frame
		var p roce.Packet
		if f.ParseEthernet(b) != nil {
			continue
		}
		payload, err := p.Decode(f.IB)
		if err != nil || p.Opcode.Service() != ib.ServiceRC {
			continue
		}
		c := captured{h: p.Header, payload: len(payload)}
		src, dst := addresses(f.IP)
		if p.Opcode < ib.ReadResponseFirst || p.Opcode > ib.AtomicAcknowledge {
			requests = append(requests, request{src, dst, p.Header, p.DestQP})
			to := endpointName{dst, p.DestQP}
			conns[to] = append(conns[to], c)
			continue
		}
		// A response names its requester; its PSN tells which responder it is from.
		c.answer = true
		for i := len(requests) - 1; i >= 0; i-- {
			q := &requests[i]
			n := int32(0)
			if q.h.Opcode == ib.ReadRequest && q.h.DMALen > 0 {
				n = int32(q.h.DMALen-1) / 1024
			}
			if d := p.PSN.Sub(q.h.PSN); q.from == dst && q.to == src && d >= 0 && d <= n {
				to := endpointName{src, q.qp}
				conns[to] = append(conns[to], c)
				break
			}
		}
	}
}

func addresses(ip []byte) (src, dst netip.Addr) {
	at, n := 12, 4
	if ip[0]>>4 == 6 {
		at, n = 8, 16
	}
	src, _ = netip.AddrFromSlice(ip[at : at+n])
	dst, _ = netip.AddrFromSlice(ip[at+n : at+2*n])
	return src, dst
}

// whole reports whether a connection begins with a message and misses neither a
// request nor an answer: the fixture has only samples of some.
func whole(packets []captured) bool {
	switch packets[0].h.Opcode {
	case ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv, ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm:
		return false
	}
	answers := map[units.PSN]bool{}
	for _, c := range packets {
		if c.answer {
			answers[c.h.PSN] = true
		}
	}
	next := packets[0].h.PSN
	for _, c := range packets {
		if c.answer {
			continue
		}
		if c.h.PSN != next {
			return false
		}
		n := int32(1)
		if c.h.Opcode == ib.ReadRequest && c.h.DMALen > 0 {
			n = int32((c.h.DMALen + 1023) / 1024)
		}
		for ; n > 0; n-- {
			if c.h.AckReq && !answers[next] {
				return false
			}
			next = next.Add(1)
		}
	}
	return len(answers) > 0
}

func TestAsSoftRoCE(t *testing.T) {
	name, least := filepath.FromSlash("../testdata/rxe.pcap"), 3
	if env := os.Getenv("SLUICE_RXE_CAPTURE"); env != "" {
		name, least = env, 7
	} else if all := filepath.FromSlash("../../../shared/data/rxe/basic.pcap.gz"); exists(all) {
		name, least = all, 7
	}
	played := 0
	opcodes := map[ib.Opcode]int{}
	for who, packets := range connections(t, name) {
		if !whole(packets) {
			continue
		}
		played++
		t.Run(fmt.Sprintf("%v-%d", who.addr, who.qp), func(t *testing.T) {
			for _, c := range packets {
				opcodes[c.h.Opcode]++
			}
			asResponder(t, packets)
			asRequester(t, packets)
		})
	}
	t.Logf("%d connections, packets: %v", played, opcodes)
	if played < least {
		t.Errorf("%d connections played, want at least %d", played, least)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

const captureDepth = 1024

func captureQP(t *testing.T, psn units.PSN) (*rc.QP, *rc.RecvQueue) {
	recv, err := rc.NewRecvQueue(captureDepth)
	if err != nil {
		t.Fatal(err)
	}
	for range captureDepth {
		if _, err := recv.Post(rc.Recv{Length: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	qp, err := rc.New(rc.Config{
		MTU: 1024, SendDepth: captureDepth, Recv: recv, RemotePSN: psn, MaxDestRdAtomic: 128,
		Access: ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic,
	})
	if err != nil {
		t.Fatal(err)
	}
	return qp, recv
}

func asResponder(t *testing.T, packets []captured) {
	qp, recv := captureQP(t, packets[0].h.PSN)
	var eff rc.Effects
	var d rc.Descriptor
	var answers []captured // given and not yet seen in the capture
	for i, c := range packets {
		if c.answer {
			if len(answers) == 0 {
				t.Fatalf("packet %d: soft-RoCE answers %v %d, we have nothing to say", i, c.h.Opcode, c.h.PSN)
			}
			if answers[0] != c {
				t.Fatalf("packet %d:\nsoft-RoCE %+v\nours      %+v", i, c, answers[0])
			}
			answers = answers[1:]
			continue
		}
		qp.Receive(0, &c.h, c.payload, &eff)
		if eff.Do&rc.DoCheck != 0 {
			qp.Checked(0, true, &eff)
		}
		if eff.Drop != rc.DropNone {
			t.Fatalf("packet %d, %v %d: dropped for reason %d", i, c.h.Opcode, c.h.PSN, eff.Drop)
		}
		if eff.Do&rc.DoRecv != 0 {
			recv.Free(eff.Recv.Slot)
		}
		if eff.Do&rc.DoAtomic != 0 {
			for _, a := range packets[i:] {
				if a.h.Opcode == ib.AtomicAcknowledge && a.h.PSN == c.h.PSN {
					qp.AtomicDone(eff.Atomic.Slot, a.h.Orig)
				}
			}
		}
		for qp.NextResponse(0, &d) {
			answers = append(answers, captured{h: d.Header, payload: d.Payload, answer: true})
		}
	}
}

func asRequester(t *testing.T, packets []captured) {
	qp, _ := captureQP(t, 0)
	if err := qp.ReadyToSend(rc.SendConfig{InitialPSN: packets[0].h.PSN, MaxRdAtomic: 128, RetryCount: 7}); err != nil {
		t.Fatal(err)
	}
	// The work requests, from the packets.
	var r rc.Request
	for _, c := range packets {
		if c.answer {
			continue
		}
		h := &c.h
		switch h.Opcode {
		case ib.SendFirst, ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv:
			r = rc.Request{Op: ib.WRSend}
		case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm:
			r = rc.Request{Op: ib.WRRDMAWrite, RemoteAddr: h.VA, RKey: h.RKey}
		case ib.ReadRequest:
			r = rc.Request{Op: ib.WRRDMARead, RemoteAddr: h.VA, RKey: h.RKey, Length: h.DMALen}
		case ib.CompareSwap:
			r = rc.Request{Op: ib.WRAtomicCmpAndSwp, RemoteAddr: h.VA, RKey: h.RKey, Swap: h.Swap, Compare: h.Compare}
		case ib.FetchAdd:
			r = rc.Request{Op: ib.WRAtomicFetchAndAdd, RemoteAddr: h.VA, RKey: h.RKey, Swap: h.Swap, Compare: h.Compare}
		}
		r.Length += uint32(c.payload)
		switch h.Opcode {
		case ib.SendOnlyImm, ib.SendLastImm:
			r.Op, r.Imm = ib.WRSendWithImm, h.Imm
		case ib.SendOnlyInv, ib.SendLastInv:
			r.Op, r.Imm = ib.WRSendWithInv, h.Imm
		case ib.WriteOnlyImm, ib.WriteLastImm:
			r.Op, r.Imm = ib.WRRDMAWriteWithImm, h.Imm
		case ib.SendFirst, ib.SendMiddle, ib.WriteFirst, ib.WriteMiddle:
			continue
		}
		r.Solicited, r.Signaled = h.Solicited, true
		if _, err := qp.PostSend(&r); err != nil {
			t.Fatal(err)
		}
	}
	posted := qp.SendQueued()
	var eff rc.Effects
	var d rc.Descriptor
	for i, c := range packets {
		if c.answer {
			qp.Receive(0, &c.h, c.payload, &eff)
			if eff.Drop != rc.DropNone || eff.Rewind != rc.RewindNone {
				t.Fatalf("packet %d, %v %d: dropped for reason %d, rewind %d", i, c.h.Opcode, c.h.PSN, eff.Drop, eff.Rewind)
			}
			continue
		}
		if !qp.NextRequest(0, &d) {
			t.Fatalf("packet %d: soft-RoCE sends %v %d, we nothing", i, c.h.Opcode, c.h.PSN)
		}
		if !d.Last { // in a message each asks as often as it likes
			d.Header.AckReq = c.h.AckReq
		}
		if ours := (captured{h: d.Header, payload: d.Payload}); ours != c {
			t.Fatalf("packet %d:\nsoft-RoCE %+v\nours      %+v", i, c, ours)
		}
	}
	completed := 0
	var done rc.SendCompletion
	for ; qp.PollSend(&done); completed++ {
		if done.Status != ib.WCSuccess {
			t.Fatalf("request %d: %v", completed, done.Status)
		}
	}
	if completed != posted {
		t.Errorf("%d of %d requests completed", completed, posted)
	}
}
