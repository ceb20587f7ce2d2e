package rc

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// keeping returns a pair with selective repeat.
func keeping(t testing.TB, send SendConfig) *pair {
	t.Helper()
	p := &pair{}
	for _, q := range []**QP{&p.a, &p.b} {
		recv, err := NewRecvQueue(64)
		if err != nil {
			t.Fatal(err)
		}
		if *q, err = New(Config{
			MTU: 1024, SendDepth: 64, Recv: recv, MaxDestRdAtomic: 16, Reorder: 64,
			Access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic,
		}); err != nil {
			t.Fatal(err)
		}
		send.RetryCount, send.RNRRetry, send.MaxRdAtomic = 7, 7, 16
		if err := (*q).ReadyToSend(send); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// nextAsPeeked is NextRequest, whose packet PeekRequest and PeekRead have described before.
func (p *pair) nextAsPeeked() bool {
	bytes, ok := p.a.PeekRequest(p.now)
	read := p.a.PeekRead(p.now)
	if p.a.NextRequest(p.now, &p.d) != ok {
		panic(fmt.Sprintf("PeekRequest says %v of what NextRequest denies", ok))
	}
	if !ok {
		return false
	}
	want := p.d.Payload
	if p.d.Header.Opcode == ib.ReadRequest {
		want = int(p.d.Header.DMALen)
	}
	if bytes != want || read != (p.d.Header.Opcode == ib.ReadRequest) {
		panic(fmt.Sprintf("PeekRequest says %d bytes, PeekRead %v, and %v of %d comes", bytes, read, p.d.Header.Opcode, want))
	}
	return true
}

// exchange carries packets until neither end has any. lose says which are lost: "r" and
// the PSN for a request, "a" for an answer. It returns what was sent, in order.
func (p *pair) exchange(lose map[string]int) (sent []string) {
	deliver := func(to *QP, name string) {
		kind := map[ib.Opcode]string{ib.Acknowledge: "ack", ib.ReadRequest: "read"}[p.d.Header.Opcode]
		if p.d.Header.Opcode == ib.Acknowledge && p.d.Header.Syndrome != SyndromeUnlimited {
			kind = fmt.Sprintf("nak%x:%d", p.d.Header.Syndrome, p.d.Header.MSN)
		}
		if p.d.Header.Opcode == ib.ReadRequest {
			kind += fmt.Sprint((p.d.Header.DMALen + 1023) / 1024)
		}
		at := fmt.Sprintf("%s%d", name, p.d.Header.PSN)
		sent = append(sent, at+kind)
		if lose[at] > 0 {
			lose[at]--
			return
		}
		to.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
		if p.eff.Do&DoCheck != 0 {
			to.Checked(p.now, true, &p.eff)
		}
		if p.eff.Do&DoRecv != 0 {
			to.cfg.Recv.Free(p.eff.Recv.Slot)
		}
	}
	for moved := true; moved; {
		moved = false
		for p.nextAsPeeked() {
			moved = true
			p.now += 100 * units.Nanosecond
			deliver(p.b, "r")
			for p.d.Header.Opcode != ib.ReadRequest && p.b.NextResponse(p.now, &p.d) {
				deliver(p.a, "a")
			}
		}
		for p.b.NextResponse(p.now, &p.d) {
			moved = true
			deliver(p.a, "a")
		}
	}
	if q := p.a; q.una == q.sent && (q.inflight != 0 || q.away != 0) {
		panic(fmt.Sprintf("all is acknowledged, and %d bytes are under way, %d away", q.inflight, q.away))
	}
	return sent
}

// TestRepeatsWhatIsMissing: what is sent after a loss is what was lost, and no more.
func TestRepeatsWhatIsMissing(t *testing.T) {
	write := func(packets int) Request {
		return Request{Op: ib.WRRDMAWrite, Signaled: true, Length: uint32(packets) << 10}
	}
	read := func(packets int) Request {
		return Request{Op: ib.WRRDMARead, Signaled: true, Length: uint32(packets) << 10}
	}
	send := Request{Op: ib.WRSend, Signaled: true, Length: 1024}
	for _, c := range []struct {
		name  string
		posts []Request
		lose  map[string]int
		want  string
	}{
		{"a Middle", []Request{write(6)}, map[string]int{"r2": 1},
			"[r0 r1 r2 r3 a2nak65:3 r2 a3ack r4 r5 a5ack]"},
		{"two of a row", []Request{write(7)}, map[string]int{"r2": 1, "r3": 1},
			"[r0 r1 r2 r3 r4 a2nak65:4 r2 a2ack r3 a4ack r5 r6 a6ack]"},
		{"a First: the rest has no place", []Request{write(4)}, map[string]int{"r0": 1},
			"[r0 r1 a0nak60:1 r0 a0ack r1 a1ack r2 r3 a3ack]"},
		{"the WRITE before", []Request{write(1), write(1), write(1)}, map[string]int{"r0": 1},
			"[r0 r1 a0nak65:1 r0 a1ack r2 a2ack]"},
		{"a SEND behind the gap is dropped", []Request{write(1), send, write(1)}, map[string]int{"r0": 1},
			"[r0 r1 a0nak60:1 r0 a0ack r1 a1ack r2 a2ack]"},
		{"READ responses", []Request{read(8)}, map[string]int{"a2": 1, "a3": 1, "a6": 1},
			"[r0read8 a0 a1 a2 a3 a4 a5 a6 a7 r2read2 r6read1 a2 a3 a6]"},
		{"a READ request", []Request{read(3), write(1)}, map[string]int{"r0": 1},
			"[r0read3 r3 a0nak65:3 r0read3 a0 a1 a2 a3ack]"},
		{"a Middle, twice: what came after it says so", []Request{write(8)}, map[string]int{"r2": 2},
			"[r0 r1 r2 r3 a2nak65:3 r2 r4 a2nak65:4 r5 a2nak65:5 r2 a5ack r6 r7 a7ack]"},
		{"the first NAK: what the next names is there, and the ACK comes before the rest goes again", []Request{write(8)}, map[string]int{"r1": 1, "a1": 1},
			"[r0 r1 r2 a1nak65:2 r3 a1nak65:3 r1 a3ack r4 r5 r6 r7 a7ack]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := keeping(t, SendConfig{Timeout: 14})
			if _, err := p.b.cfg.Recv.Post(Recv{Length: 1024}); err != nil {
				t.Fatal(err)
			}
			for i := range c.posts {
				p.post(t, &c.posts[i])
			}
			if got := fmt.Sprint(p.exchange(c.lose)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p.a.una != p.a.sent || p.a.Inflight() != 0 || p.a.away != 0 {
				t.Errorf("una %d of %d, %d bytes in flight, %d away", p.a.una, p.a.sent, p.a.Inflight(), p.a.away)
			}
			for i := range c.posts {
				var s SendCompletion
				if !p.a.PollSend(&s) || s.Status != ib.WCSuccess {
					t.Errorf("request %d: %+v", i, s)
				}
			}
		})
	}
}

// TestLowTimeout: with a few packets outstanding RTOLow applies, with more RTOHigh.
func TestLowTimeout(t *testing.T) {
	const low, high = 100 * units.Microsecond, 320 * units.Microsecond
	for packets, want := range map[int]units.Time{1: low, 3: low, 4: high, 8: high} {
		p := keeping(t, SendConfig{RTOLow: low, RTOHigh: high})
		p.post(t, &Request{Op: ib.WRRDMAWrite, Length: uint32(packets) << 10})
		lose := map[string]int{}
		for i := range packets {
			lose[fmt.Sprint("r", i)] = 1
		}
		p.exchange(lose)
		sent := p.now - 100*units.Nanosecond // the last packet, which asks for an answer
		for p.a.Counters().LocalAckTimeoutErr == 0 {
			p.now = p.a.Deadline()
			p.a.Expire(p.now, &p.eff)
		}
		if got := p.now - sent; got != want {
			t.Errorf("%d packets: a timeout after %v, expected %v", packets, got, want)
		}
		p.exchange(nil)
		if p.a.una != p.a.sent {
			t.Errorf("%d packets: una %d of %d", packets, p.a.una, p.a.sent)
		}
	}
}

// TestRepeatsDoNotAllocate pins the path of a loss.
func TestRepeatsDoNotAllocate(t *testing.T) {
	p := keeping(t, SendConfig{Timeout: 14})
	if n := testing.AllocsPerRun(200, func() {
		p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 16 << 10})
		for i := 0; p.a.una != p.a.posted; i++ {
			if !p.a.NextRequest(p.now, &p.d) {
				t.Fatal("stuck")
			}
			if i == 3 {
				continue
			}
			p.b.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
			if p.eff.Do&DoCheck != 0 {
				p.b.Checked(p.now, true, &p.eff)
			}
			for p.b.NextResponse(p.now, &p.d) {
				p.a.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
			}
		}
		var c SendCompletion
		for p.a.PollSend(&c) {
		}
	}); n != 0 {
		t.Errorf("%v allocations a message with a loss", n)
	}
}

func TestReorderIsChecked(t *testing.T) {
	for _, c := range []Config{
		{MTU: 1024, SendDepth: 1, Reorder: 63}, {MTU: 1024, SendDepth: 1, Reorder: 96}, {MTU: 1024, SendDepth: 1, Reorder: -64},
		{MTU: 1024, SendDepth: 1, Reorder: 1 << 17}, {MTU: 1024, SendDepth: 1, Reorder: 64, Type: ib.UC}, {MTU: 1024, SendDepth: 1, Reorder: 64, Credits: true},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: expected an error", c)
		}
	}
	q, _ := New(Config{MTU: 1024, SendDepth: 1})
	if q.ReadyToSend(SendConfig{RTOLow: 1}) == nil {
		t.Error("RTOLow with go-back-N: expected an error")
	}
}

// A packet whose payload can't be placed is refused by its own number, though what was kept
// behind it was executed with it: an answer by a later number would acknowledge it.
func TestFailureBeforeWhatWasKept(t *testing.T) {
	p := keeping(t, SendConfig{})
	for _, packets := range []uint32{2, 1, 1} {
		if _, err := p.a.PostSend(&Request{Op: ib.WRRDMAWrite, Signaled: true, Length: packets << 10}); err != nil {
			t.Fatal(err)
		}
	}
	var all []Header
	for p.a.NextRequest(p.now, &p.d) {
		all = append(all, p.d.Header)
	}
	for _, at := range []int{0, 2, 3, 1} { // the Last of the first WRITE comes after the others
		p.b.Receive(p.now, &all[at], 1024, &p.eff)
		if p.eff.Do&DoCheck != 0 {
			p.b.Checked(p.now, true, &p.eff)
		}
	}
	p.b.FailRecv(p.now, ib.WCRemAccessErr, &p.eff)
	for p.b.NextResponse(p.now, &p.d) {
		p.a.Receive(p.now, &p.d.Header, 0, &p.eff)
	}
	if p.d.Header.PSN != all[1].PSN || p.d.Header.Syndrome != SyndromeAccess {
		t.Errorf("the last answer is to packet %d, with syndrome %#x", p.d.Header.PSN, p.d.Header.Syndrome)
	}
	var c SendCompletion
	if !p.a.PollSend(&c) || c.Status != ib.WCRemAccessErr {
		t.Errorf("the WRITE whose end was not placed: %+v", c)
	}
}

// TestRepeatLeavesWhatIsToCome: a READ that comes again while it is being answered has those answers
// sent again that have left, and no others. Else the requester would have all of them, and send the
// next READ, before the responder has room for one.
func TestRepeatLeavesWhatIsToCome(t *testing.T) {
	p := keeping(t, SendConfig{Timeout: 14})
	p.b.cfg.MaxDestRdAtomic = 1
	read := func(psn units.PSN) {
		h := Header{Opcode: ib.ReadRequest, PSN: psn, AckReq: true, VA: 4096 + uint64(psn)<<10, DMALen: 4 << 10}
		p.b.Receive(p.now, &h, 0, &p.eff)
		if p.eff.Do&DoCheck != 0 {
			p.b.Checked(p.now, true, &p.eff)
		}
	}
	answer := func() (psn units.PSN) {
		if !p.b.NextResponse(p.now, &p.d) {
			t.Fatal("no answer")
		}
		return p.d.Header.PSN
	}
	read(0)
	got := []units.PSN{answer(), answer()}
	read(0)
	for got[len(got)-1] != 3 {
		got = append(got, answer())
	}
	if want := []units.PSN{0, 1, 0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("answers %v, expected %v", got, want)
	}
	read(4)
	if psn := answer(); psn != 4 || p.d.Header.Opcode.Operation() != ib.ReadResponseFirst {
		t.Errorf("the next READ is answered with %v and PSN %d", p.d.Header.Opcode, psn)
	}
}
