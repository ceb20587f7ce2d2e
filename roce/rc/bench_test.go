package rc

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// pair is two queue pairs joined by nothing: tests carry the headers over.
type pair struct {
	a, b *QP
	d    Descriptor
	eff  Effects
	now  units.Time
}

func newPair(t testing.TB, ackReqEvery int) *pair {
	t.Helper()
	p := &pair{}
	for _, q := range []**QP{&p.a, &p.b} {
		recv, err := NewRecvQueue(64)
		if err != nil {
			t.Fatal(err)
		}
		*q, err = New(Config{
			MTU: 1024, SendDepth: 64, Recv: recv, MaxDestRdAtomic: 16,
			Access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := (*q).ReadyToSend(SendConfig{Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 16, AckReqEvery: ackReqEvery}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// carry takes one packet from x to y and its answers back to x, and returns how
// many packets that were.
func (p *pair) carry(x, y *QP) int {
	if !x.NextRequest(p.now, &p.d) {
		return 0
	}
	n := 1
	p.now += 100 * units.Nanosecond
	y.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
	if p.eff.Do&DoCheck != 0 {
		y.Checked(p.now, true, &p.eff)
	}
	if p.eff.Do&DoAtomic != 0 {
		y.AtomicDone(p.eff.Atomic.Slot, 0)
	}
	if p.eff.Do&DoRecv != 0 {
		y.cfg.Recv.Free(p.eff.Recv.Slot)
	}
	for y.NextResponse(p.now, &p.d) {
		n++
		x.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
	}
	var c SendCompletion
	for x.PollSend(&c) {
	}
	return n
}

func (p *pair) post(t testing.TB, r *Request) {
	if _, err := p.a.PostSend(r); err != nil {
		t.Fatal(err)
	}
}

var (
	longWrite  = Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 1 << 20}
	shortWrite = Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 64}
	shortRead  = Request{Op: ib.WRRDMARead, Signaled: true, Length: 64}
)

func TestHotPathsDoNotAllocate(t *testing.T) {
	p := newPair(t, 1)
	for name, r := range map[string]*Request{
		"write": &shortWrite, "read": &shortRead,
		"long read": {Op: ib.WRRDMARead, Length: 100_000},
		"atomic":    {Op: ib.WRAtomicFetchAndAdd},
		"send":      {Op: ib.WRSendWithImm, Length: 5000},
	} {
		if n := testing.AllocsPerRun(1000, func() {
			if r.Op.ConsumesRecv() {
				if _, err := p.b.cfg.Recv.Post(Recv{Length: r.Length}); err != nil {
					t.Fatal(err)
				}
			}
			p.post(t, r)
			for p.carry(p.a, p.b) > 0 {
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	// Losses: the first packet of two never arrives, and once nothing does.
	if n := testing.AllocsPerRun(1000, func() {
		p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 2048})
		p.a.NextRequest(p.now, &p.d)
		for p.carry(p.a, p.b) > 0 {
		}
		p.post(t, &shortWrite)
		p.a.NextRequest(p.now, &p.d)
		p.now += units.Second
		p.a.Expire(p.now, &p.eff)
		for p.carry(p.a, p.b) > 0 {
		}
	}); n != 0 {
		t.Errorf("losses: %v allocations", n)
	}
	if p.a.SendQueued() != 0 || p.a.State() != ib.RTS {
		t.Errorf("%d requests left in state %v", p.a.SendQueued(), p.a.State())
	}
}

// BenchmarkPacket is one data packet of a long Write with its acknowledgement:
// NextRequest, Receive, NextResponse, Receive and an empty PollSend, five calls.
func BenchmarkPacket(b *testing.B) {
	p := newPair(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if p.carry(p.a, p.b) == 0 {
			p.post(b, &longWrite)
		}
	}
}

// BenchmarkNextRequest is one packet of a long Write described.
func BenchmarkNextRequest(b *testing.B) {
	p := newPair(b, 0)
	big := Request{Op: ib.WRRDMAWrite, Length: 1 << 31}
	b.ReportAllocs()
	for b.Loop() {
		if !p.a.NextRequest(p.now, &p.d) {
			b.StopTimer()
			p = newPair(b, 0)
			p.post(b, &big)
			b.StartTimer()
		}
	}
}

// BenchmarkReceiveWrite is one middle packet of a long Write taken in.
func BenchmarkReceiveWrite(b *testing.B) {
	p := newPair(b, 0)
	h := Header{Opcode: ib.WriteFirst, DMALen: 1 << 31, VA: 1 << 20, RKey: 1}
	p.b.Receive(0, &h, 1024, &p.eff)
	p.b.Checked(0, true, &p.eff)
	h = Header{Opcode: ib.WriteMiddle}
	n := 1
	b.ReportAllocs()
	for b.Loop() {
		h.PSN = units.MakePSN(uint32(n))
		p.b.Receive(0, &h, 1024, &p.eff)
		if n++; n == 1<<21-1 {
			b.StopTimer()
			p = newPair(b, 0)
			h = Header{Opcode: ib.WriteFirst, DMALen: 1 << 31, VA: 1 << 20, RKey: 1}
			p.b.Receive(0, &h, 1024, &p.eff)
			p.b.Checked(0, true, &p.eff)
			h, n = Header{Opcode: ib.WriteMiddle}, 1
			b.StartTimer()
		}
	}
}

// BenchmarkReceiveAck is one ACK of one packet of a long Write taken in, with
// the packet described before it: subtract BenchmarkNextRequest.
func BenchmarkReceiveAck(b *testing.B) {
	p := newPair(b, 0)
	big := Request{Op: ib.WRRDMAWrite, Length: 1 << 31}
	h := Header{Opcode: ib.Acknowledge, Syndrome: SyndromeUnlimited}
	b.ReportAllocs()
	for b.Loop() {
		if !p.a.NextRequest(p.now, &p.d) {
			b.StopTimer()
			p = newPair(b, 0)
			p.post(b, &big)
			b.StartTimer()
			continue
		}
		h.PSN = p.d.Header.PSN
		p.a.Receive(p.now, &h, 0, &p.eff)
	}
}

// BenchmarkReadResponse is one packet of a long READ's answer: described by the
// responder and taken in by the requester, two calls.
func BenchmarkReadResponse(b *testing.B) {
	p := newPair(b, 0)
	big := Request{Op: ib.WRRDMARead, Length: 1 << 31}
	b.ReportAllocs()
	for b.Loop() {
		if !p.b.NextResponse(p.now, &p.d) {
			b.StopTimer()
			p = newPair(b, 0)
			p.post(b, &big)
			p.a.NextRequest(p.now, &p.d)
			p.b.Receive(p.now, &p.d.Header, 0, &p.eff)
			p.b.Checked(p.now, true, &p.eff)
			b.StartTimer()
			continue
		}
		p.a.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
	}
}

// BenchmarkShortWrite is a whole Write of 64 bytes: posted, sent, checked,
// acknowledged and completed, eight calls and two that find nothing to do.
func BenchmarkShortWrite(b *testing.B) { benchmarkMessage(b, &shortWrite) }

// BenchmarkShortRead is a whole Read of 64 bytes, with its check eight calls.
func BenchmarkShortRead(b *testing.B) { benchmarkMessage(b, &shortRead) }

func benchmarkMessage(b *testing.B, r *Request) {
	p := newPair(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		p.post(b, r)
		for p.carry(p.a, p.b) > 0 {
		}
	}
}
