package rc

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

func TestConfigErrors(t *testing.T) {
	recv, err := NewRecvQueue(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names string
		set   func(*Config, *SendConfig)
	}{
		{"MTU", func(c *Config, _ *SendConfig) { c.MTU = 0 }},
		{"MTU", func(c *Config, _ *SendConfig) { c.MTU = 65536 }},
		{"SendDepth", func(c *Config, _ *SendConfig) { c.SendDepth = 0 }},
		{"SendDepth", func(c *Config, _ *SendConfig) { c.SendDepth = 1<<16 + 1 }},
		{"RemotePSN", func(c *Config, _ *SendConfig) { c.RemotePSN = 1 << 24 }},
		{"MaxDestRdAtomic", func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = 256 }},
		{"MaxDestRdAtomic", func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = -1 }},
		{"MinRNRTimer", func(c *Config, _ *SendConfig) { c.MinRNRTimer = 32 }},
		{"SharedRecv", func(c *Config, _ *SendConfig) { c.SharedRecv = true }},
		{"Credits", func(c *Config, _ *SendConfig) { c.Recv, c.SharedRecv, c.Credits = recv, true, true }},
		{"InitialPSN", func(_ *Config, s *SendConfig) { s.InitialPSN = 1 << 24 }},
		{"Timeout", func(_ *Config, s *SendConfig) { s.Timeout = 32 }},
		{"RetryCount", func(_ *Config, s *SendConfig) { s.RetryCount = 8 }},
		{"RNRRetry", func(_ *Config, s *SendConfig) { s.RNRRetry = 8 }},
		{"MaxRdAtomic", func(_ *Config, s *SendConfig) { s.MaxRdAtomic = 256 }},
		{"ReadPackets", func(_ *Config, s *SendConfig) { s.ReadPackets = -1 }},
		{"ReadPackets", func(c *Config, s *SendConfig) { c.Recv, c.Credits, s.ReadPackets = recv, true, 4 }},
		{"AckReqEvery", func(_ *Config, s *SendConfig) { s.AckReqEvery = -1 }},
		{"Window", func(_ *Config, s *SendConfig) { s.Window = 1<<23 + 1 }},
		{"Type", func(c *Config, _ *SendConfig) { c.Type = 99 }},
		{"Credits", func(c *Config, _ *SendConfig) {
			c.Type, c.Credits, c.MaxDestRdAtomic, c.MinRNRTimer = ib.UD, true, 0, 0
		}},
		{"MinRNRTimer", func(c *Config, _ *SendConfig) { c.Type, c.MinRNRTimer = ib.UC, 1 }},
		{"MaxDestRdAtomic", func(c *Config, _ *SendConfig) { c.Type, c.MaxDestRdAtomic = ib.UC, 1 }},
		{"Credits", func(c *Config, _ *SendConfig) { c.Type, c.Credits = ib.UC, true }},
		{"type UC", func(c *Config, s *SendConfig) { c.Type, s.Timeout = ib.UC, 1 }},
		{"type UD", func(c *Config, s *SendConfig) { c.Type, s.MaxRdAtomic = ib.UD, 1 }},
	} {
		cfg, send := Config{MTU: 1024, SendDepth: 1}, SendConfig{}
		c.set(&cfg, &send)
		q, err := New(cfg)
		if err == nil {
			err = q.ReadyToSend(send)
		}
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("error %v, want one that names %s", err, c.names)
		}
	}
	for _, depth := range []int{0, 1<<16 + 1} {
		if _, err := NewRecvQueue(depth); err == nil {
			t.Errorf("a receive queue of depth %d was made", depth)
		}
	}
}

func TestPostErrors(t *testing.T) {
	q := newPair(t, 0).a
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Op: ib.WRRDMAWrite, Length: 1<<31 + 1}, "at most 2^31"},
		{Request{Op: 10}, "opcode"},
		{Request{Op: 200}, "opcode"},
	} {
		if _, err := q.PostSend(&c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("post %v of %d bytes: %v, want %q", c.r.Op, c.r.Length, err, c.want)
		}
	}
	if q.SendQueued() != 0 {
		t.Errorf("%d requests queued by posts that failed", q.SendQueued())
	}
}

func TestStateErrors(t *testing.T) {
	q := newPair(t, 0).a
	var eff Effects
	if err := q.ReadyToSend(SendConfig{}); err == nil {
		t.Error("ReadyToSend twice")
	}
	if err := q.Resume(); err == nil {
		t.Error("Resume in RTS")
	}
	q.ToError(&eff)
	if err := q.Drain(&eff); err == nil {
		t.Error("Drain in Err")
	}
}

// TestHeaderBytes checks against sums of IBA 9.2 and 9.3.
func TestHeaderBytes(t *testing.T) {
	for op, want := range map[ib.Opcode]int{
		ib.SendMiddle: 12, ib.SendOnlyImm: 16, ib.SendLastInv: 16, ib.WriteFirst: 28, ib.WriteMiddle: 12, ib.WriteLastImm: 16,
		ib.WriteOnlyImm: 32, ib.ReadRequest: 28, ib.ReadResponseFirst: 16, ib.ReadResponseMiddle: 12, ib.Acknowledge: 16,
		ib.AtomicAcknowledge: 24, ib.CompareSwap: 40, ib.FetchAdd: 40, 21: 0, 24: 0,
		ib.ServiceUC | ib.WriteFirst: 28, ib.ServiceUC | ib.SendLastImm: 16, ib.ServiceUC | ib.ReadRequest: 0, ib.ServiceUC | ib.SendOnlyInv: 0,
		ib.ServiceUD | ib.SendOnly: 20, ib.ServiceUD | ib.SendOnlyImm: 24, ib.ServiceUD | ib.SendFirst: 0, ib.ServiceUD | ib.WriteOnly: 0, ib.CNP: 0,
	} {
		if got := HeaderBytes(op); got != want {
			t.Errorf("%v has %d bytes of headers, want %d", op, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for n, want := range map[uint8]string{0: "never", 1: "8.192us", 14: "67.108864ms", 31: "8796.093022208s"} {
		if got := TimeoutTime(n).String(); got != want {
			t.Errorf("timeout %d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint8]string{0: "655.36ms", 1: "10us", 4: "40us", 5: "60us", 13: "960us", 14: "1.28ms", 31: "491.52ms"} {
		if got := RNRTime(n).String(); got != want {
			t.Errorf("RNR timer %d is %s, want %s", n, got, want)
		}
	}
}

// TestCredits checks the code of IBA 9.7.7.2 at its ends and that encoding
// never promises more than there is.
func TestCredits(t *testing.T) {
	for code, want := range map[uint8]int64{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 12, 14: 128, 15: 192, 30: 32768} {
		if got := credits(code); got != want {
			t.Errorf("code %d means %d credits, want %d", code, got, want)
		}
	}
	for n := range 70000 {
		code := creditCode(n)
		if got := credits(code); got > int64(n) || code < 30 && credits(code+1) <= int64(n) {
			t.Fatalf("%d credits are encoded as %d, which means %d", n, code, got)
		}
	}
}

// TestRecvQueue takes receives in order and frees slots in another: shared
// queues do that.
func TestRecvQueue(t *testing.T) {
	q, err := NewRecvQueue(3)
	if err != nil {
		t.Fatal(err)
	}
	post := func(id uint64) uint32 {
		t.Helper()
		slot, err := q.Post(Recv{ID: id, Length: 10})
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	take := func(id uint64) uint32 {
		t.Helper()
		slot, r, ok := q.take(nil)
		if !ok || r.ID != id {
			t.Fatalf("took %d, %v, want %d", r.ID, ok, id)
		}
		return slot
	}
	for id := range uint64(3) {
		post(id)
	}
	if _, err := q.Post(Recv{}); !errors.Is(err, ErrFull) {
		t.Fatalf("a fourth post: %v", err)
	}
	first, second := take(0), take(1)
	if _, err := q.Post(Recv{}); !errors.Is(err, ErrFull) {
		t.Fatalf("a post before a slot was given back: %v", err)
	}
	q.Free(second)
	if got := post(3); got != second {
		t.Errorf("slot %d, want %d, the free one", got, second)
	}
	q.Free(first)
	post(4)
	take(2)
	take(3)
	take(4)
	if _, _, ok := q.take(nil); ok || q.Len() != 0 {
		t.Error("took from an empty queue")
	}
}

// TestFresh: what was described before going back is not to be sent any more.
func TestFresh(t *testing.T) {
	p := newPair(t, 1)
	p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 4096})
	var d [4]Descriptor
	for i := range d {
		if !p.a.NextRequest(0, &d[i]) {
			t.Fatal("no packet")
		}
		if !p.a.Fresh(&d[i]) {
			t.Errorf("packet %d is not fresh", i)
		}
	}
	ack := Header{Opcode: ib.Acknowledge, PSN: 0, Syndrome: SyndromeUnlimited}
	p.a.Receive(0, &ack, 0, &p.eff)
	if p.a.Fresh(&d[0]) || !p.a.Fresh(&d[1]) {
		t.Error("an acknowledged packet is fresh, or the one after it is not")
	}
	nak := Header{Opcode: ib.Acknowledge, PSN: 2, Syndrome: SyndromeSequence}
	p.a.Receive(0, &nak, 0, &p.eff)
	for i := range d {
		if p.a.Fresh(&d[i]) {
			t.Errorf("packet %d is fresh after going back", i)
		}
	}
	var again Descriptor
	if !p.a.NextRequest(0, &again) || !p.a.Fresh(&again) || again.Header.PSN != 2 {
		t.Errorf("after going back to 2: %+v", again)
	}
	p.a.ToError(&p.eff)
	if p.a.Fresh(&again) {
		t.Error("a packet is fresh in state Err")
	}
}

// TestFreshResponses: a READ that begins again overtakes its older responses, and
// leaves acknowledgements and others' responses alone.
func TestFreshResponses(t *testing.T) {
	p := newPair(t, 1)
	receive := func(h Header, payload int) {
		p.b.Receive(0, &h, payload, &p.eff)
		if p.eff.Do&DoCheck != 0 {
			p.b.Checked(0, true, &p.eff)
		}
	}
	receive(Header{Opcode: ib.WriteOnly, AckReq: true}, 0)
	receive(Header{Opcode: ib.ReadRequest, PSN: 1, DMALen: 1024}, 0)
	receive(Header{Opcode: ib.ReadRequest, PSN: 2, DMALen: 4096}, 0)
	var d [6]Descriptor
	for i := range d {
		if !p.b.NextResponse(0, &d[i]) {
			t.Fatal("no response")
		}
	}
	receive(Header{Opcode: ib.ReadRequest, PSN: 3, VA: 1024, DMALen: 3072}, 0)
	for i, want := range []bool{true, true, true, false, false, false} {
		if got := p.b.Fresh(&d[i]); got != want {
			t.Errorf("%v %d is fresh: %v, want %v", d[i].Header.Opcode, d[i].Header.PSN, got, want)
		}
	}
}

// TestAtomicHoldsBack: an atomic that was not performed has no answer to give.
func TestAtomicHoldsBack(t *testing.T) {
	p := newPair(t, 1)
	h := Header{Opcode: ib.FetchAdd}
	p.b.Receive(0, &h, 0, &p.eff)
	p.b.Checked(0, true, &p.eff)
	if p.b.ResponseReady() || p.b.NextResponse(0, &p.d) {
		t.Fatalf("an answer before the atomic was performed: %+v", p.d.Header)
	}
	p.b.AtomicDone(99, 1)
	p.b.AtomicDone(1, 1)
	if p.b.ResponseReady() {
		t.Fatal("an answer after other atomics")
	}
	p.b.AtomicDone(0, 42)
	p.b.AtomicDone(0, 43)
	if !p.b.NextResponse(0, &p.d) || p.d.Header.Orig != 42 {
		t.Errorf("answer %+v, want 42", p.d.Header)
	}
}

// Whenever a driver's bound holds packets back, an answer is due that lifts it: also
// after the bound has shrunk below what is in flight, and with far fewer packets to
// the window than to an acknowledgement.
func TestBoundInflight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tx, err := New(Config{MTU: 1024, SendDepth: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.ReadyToSend(SendConfig{AckReqEvery: rapid.IntRange(1, 1000).Draw(t, "every")}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.PostSend(&Request{Op: ib.WRRDMAWrite, Length: 1 << 20, RKey: 1}); err != nil {
			t.Fatal(err)
		}
		var (
			d     Descriptor
			eff   Effects
			asked []units.PSN // not answered yet
		)
		for range 2000 {
			bound := units.Bytes(rapid.IntRange(1024, 64<<10).Draw(t, "bound"))
			tx.BoundInflight(bound)
			bytes, more := tx.PeekRequest(0)
			for more && (tx.Inflight() == 0 || tx.Inflight()+units.Bytes(bytes) <= bound) {
				if !tx.NextRequest(0, &d) {
					t.Fatal("no packet where one was announced")
				}
				if d.Header.AckReq {
					asked = append(asked, d.Header.PSN)
				}
				bytes, more = tx.PeekRequest(0)
			}
			if tx.Inflight() == 0 && !more {
				return
			}
			if len(asked) == 0 {
				t.Fatalf("%d bytes in flight, bound to %d: no answer is due", tx.Inflight(), bound)
			}
			tx.Receive(0, &Header{Opcode: ib.Acknowledge, PSN: asked[0], Syndrome: SyndromeUnlimited}, 0, &eff)
			asked = asked[1:]
		}
		t.Fatal("a mebibyte takes more than 2000 answers")
	})
}

// TestInflight counts what a congestion window must bound: payload sent and
// bytes that READs will bring.
func TestInflight(t *testing.T) {
	p := newPair(t, 1)
	p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 1500})
	p.post(t, &Request{Op: ib.WRRDMARead, Length: 3000})
	want := func(n units.Bytes) {
		t.Helper()
		if got := p.a.Inflight(); got != n {
			t.Fatalf("%d bytes in flight, want %d", got, n)
		}
	}
	for i, n := range []units.Bytes{1024, 1500, 4500} {
		if _, ok := p.a.PeekRequest(0); !ok || !p.a.NextRequest(0, &p.d) {
			t.Fatalf("packet %d", i)
		}
		want(n)
	}
	receive := func(h Header, payload int) { p.a.Receive(0, &h, payload, &p.eff) }
	receive(Header{Opcode: ib.Acknowledge, Syndrome: SyndromeUnlimited}, 0)
	want(3476)
	receive(Header{Opcode: ib.ReadResponseFirst, PSN: 2, Syndrome: SyndromeUnlimited}, 1024)
	want(1976)
	receive(Header{Opcode: ib.ReadResponseLast, PSN: 4, Syndrome: SyndromeUnlimited}, 952)
	want(0) // lost one: everything again
	if bytes, ok := p.a.PeekRequest(0); !ok || bytes != 1976 {
		t.Fatalf("the READ is to bring %d bytes, want 1976", bytes)
	}
}
