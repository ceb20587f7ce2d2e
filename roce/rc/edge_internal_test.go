package rc

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Every field of a configuration has its bounds: what lies at them is taken, and what is one beyond refused.
func TestConfigBounds(t *testing.T) {
	type set func(*Config, *SendConfig)
	for name, c := range map[string]struct{ good, bad []set }{
		"MTU": {
			[]set{func(c *Config, _ *SendConfig) { c.MTU = 64 }, func(c *Config, _ *SendConfig) { c.MTU = 65535 }},
			[]set{func(c *Config, _ *SendConfig) { c.MTU = 63 }, func(c *Config, _ *SendConfig) { c.MTU = 65536 }},
		},
		"SendDepth": {
			[]set{func(c *Config, _ *SendConfig) { c.SendDepth = maxDepth }},
			[]set{func(c *Config, _ *SendConfig) { c.SendDepth = maxDepth + 1 }, func(c *Config, _ *SendConfig) { c.SendDepth = 0 }},
		},
		"RemotePSN": {
			[]set{func(c *Config, _ *SendConfig) { c.RemotePSN = maxPSN }},
			[]set{func(c *Config, _ *SendConfig) { c.RemotePSN = maxPSN + 1 }},
		},
		"MaxDestRdAtomic": {
			[]set{func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = 255 }, func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = 0 }},
			[]set{func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = 256 }, func(c *Config, _ *SendConfig) { c.MaxDestRdAtomic = -1 }},
		},
		"MinRNRTimer": {
			[]set{func(c *Config, _ *SendConfig) { c.MinRNRTimer = 31 }},
			[]set{func(c *Config, _ *SendConfig) { c.MinRNRTimer = 32 }},
		},
		"Reorder": {
			[]set{func(c *Config, _ *SendConfig) { c.Reorder = 64 }, func(c *Config, _ *SendConfig) { c.Reorder = 1 << 16 }},
			[]set{func(c *Config, _ *SendConfig) { c.Reorder = 32 }, func(c *Config, _ *SendConfig) { c.Reorder = 1 << 17 }},
		},
		"InitialPSN": {
			[]set{func(_ *Config, s *SendConfig) { s.InitialPSN = maxPSN }},
			[]set{func(_ *Config, s *SendConfig) { s.InitialPSN = maxPSN + 1 }},
		},
		"Timeout": {
			[]set{func(_ *Config, s *SendConfig) { s.Timeout = 31 }},
			[]set{func(_ *Config, s *SendConfig) { s.Timeout = 32 }},
		},
		"RetryCount": {
			[]set{func(_ *Config, s *SendConfig) { s.RetryCount = 7 }},
			[]set{func(_ *Config, s *SendConfig) { s.RetryCount = 8 }},
		},
		"RNRRetry": {
			[]set{func(_ *Config, s *SendConfig) { s.RNRRetry = 7 }},
			[]set{func(_ *Config, s *SendConfig) { s.RNRRetry = 8 }},
		},
		"MaxRdAtomic": {
			[]set{func(_ *Config, s *SendConfig) { s.MaxRdAtomic = 255 }},
			[]set{func(_ *Config, s *SendConfig) { s.MaxRdAtomic = 256 }, func(_ *Config, s *SendConfig) { s.MaxRdAtomic = -1 }},
		},
		"ReadPackets": {
			[]set{func(_ *Config, s *SendConfig) { s.ReadPackets = 1 }},
			[]set{func(_ *Config, s *SendConfig) { s.ReadPackets = -1 }},
		},
		"AckReqEvery": {
			[]set{func(_ *Config, s *SendConfig) { s.AckReqEvery = 1 }},
			[]set{func(_ *Config, s *SendConfig) { s.AckReqEvery = -1 }},
		},
		"Window": {
			[]set{func(_ *Config, s *SendConfig) { s.Window = maxOutstandingPSNs }, func(_ *Config, s *SendConfig) { s.Window = 1 }},
			[]set{func(_ *Config, s *SendConfig) { s.Window = maxOutstandingPSNs + 1 }, func(_ *Config, s *SendConfig) { s.Window = -1 }},
		},
		"RTO": {
			[]set{func(c *Config, s *SendConfig) { c.Reorder, s.RTOHigh, s.RTOLow = 64, 1, 1 }, func(_ *Config, s *SendConfig) { s.RTOHigh = 1 }},
			[]set{
				func(_ *Config, s *SendConfig) { s.RTOHigh = -1 }, func(c *Config, s *SendConfig) { c.Reorder, s.RTOLow = 64, -1 },
				func(_ *Config, s *SendConfig) { s.RTOLow = 1 },
			},
		},
		"Credits": {
			[]set{func(c *Config, _ *SendConfig) { c.Credits = true }, func(c *Config, _ *SendConfig) { c.SharedRecv = true }},
			[]set{
				func(c *Config, _ *SendConfig) { c.Credits, c.SharedRecv = true, true },
				func(c *Config, _ *SendConfig) { c.SharedRecv, c.Recv = true, nil },
				func(c *Config, s *SendConfig) { c.Credits, s.ReadPackets = true, 1 },
			},
		},
	} {
		for i, all := range [][]set{c.bad, c.good} {
			for k, set := range all {
				recv, err := NewRecvQueue(1)
				if err != nil {
					t.Fatal(err)
				}
				cfg, send := Config{MTU: 1024, SendDepth: 1, Recv: recv}, SendConfig{}
				set(&cfg, &send)
				q, err := New(cfg)
				if err == nil {
					err = q.ReadyToSend(send)
				}
				if (err == nil) != (i == 1) {
					t.Errorf("%s, %d: %v", name, k, err)
				}
			}
		}
	}
	p := newPair(t, 0)
	if err := p.b.SetMinRNRTimer(32); err == nil {
		t.Error("a MinRNRTimer of 6 bits was taken")
	}
	if err := p.b.SetMinRNRTimer(31); err != nil || p.b.cfg.MinRNRTimer != 31 {
		t.Errorf("the largest MinRNRTimer: %v, now %d", err, p.b.cfg.MinRNRTimer)
	}
	var none *RecvQueue
	if none.Len() != 0 {
		t.Error("no queue has receives")
	}
	if p.a.cfg.Recv.Room() != 64 {
		t.Errorf("room for %d receives, want 64", p.a.cfg.Recv.Room())
	}
}

// A receive that another queue pair has taken, while the driver was checking, is not there: an
// RNR NAK, and the message comes again.
func TestReceiveTakenMeanwhile(t *testing.T) {
	shared, err := NewRecvQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	responder := func() *QP {
		q, err := New(Config{MTU: 1024, SendDepth: 1, Recv: shared, SharedRecv: true, MinRNRTimer: 1, Access: ib.AccessRemoteWrite})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	var eff Effects
	var d Descriptor
	for _, h := range []Header{
		{Opcode: ib.SendOnlyInv, AckReq: true}, {Opcode: ib.WriteOnlyImm, DMALen: 1, AckReq: true},
	} {
		a, b := responder(), responder()
		payload := int(h.DMALen)
		if _, err := shared.Post(Recv{Length: 10}); err != nil {
			t.Fatal(err)
		}
		if a.Receive(0, &h, payload, &eff); eff.Do != DoCheck {
			t.Fatalf("%v: effects %+v", h.Opcode, eff)
		}
		if b.Receive(0, &Header{Opcode: ib.SendOnly}, 0, &eff); eff.Do&DoRecv == 0 {
			t.Fatalf("the other: effects %+v", eff)
		}
		shared.Free(eff.Recv.Slot)
		if a.Checked(0, true, &eff); eff.Drop != DropNotReady || eff.Do&(DoRecv|DoPlace) != 0 {
			t.Errorf("%v: effects %+v", h.Opcode, eff)
		}
		if !a.NextResponse(0, &d) || d.Header.Syndrome != SyndromeRNR|1 || d.Header.PSN != 0 || a.NextResponse(0, &d) {
			t.Errorf("%v: the answer is %+v", h.Opcode, d.Header)
		}
		if c := a.Counters(); c.OutOfBuffer != 1 || c.RxSendRequests+c.RxWriteRequests != 0 {
			t.Errorf("%v: %+v", h.Opcode, c)
		}
		if _, err := shared.Post(Recv{Length: 10}); err != nil {
			t.Fatal(err)
		}
		a.Receive(0, &h, payload, &eff)
		if a.Checked(0, true, &eff); eff.Do&DoRecv == 0 || eff.Drop != DropNone {
			t.Errorf("%v, again: effects %+v", h.Opcode, eff)
		}
		shared.Free(eff.Recv.Slot)
	}
}

// PeekRead tells READ requests, first ones and repetitions, from other packets; AnswerDue says
// whether a packet under way asks for an answer.
func TestPeekReadAndAnswerDue(t *testing.T) {
	for _, p := range []*pair{newPair(t, 2), keeping(t, SendConfig{AckReqEvery: 2, Timeout: 14})} {
		p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 3000})
		p.post(t, &Request{Op: ib.WRRDMARead, Length: 10})
		p.post(t, &Request{Op: ib.WRAtomicFetchAndAdd})
		for i, want := range []struct{ read, due bool }{{false, false}, {false, true}, {false, true}, {true, true}, {false, true}} {
			if got := p.a.PeekRead(p.now); got != want.read {
				t.Errorf("packet %d: a READ request %v, want %v", i, got, want.read)
			}
			if !p.a.NextRequest(p.now, &p.d) {
				t.Fatalf("no packet %d", i)
			}
			if got := p.a.AnswerDue(); got != want.due {
				t.Errorf("packet %d: an answer is due %v, want %v", i, got, want.due)
			}
		}
		if p.a.PeekRead(p.now) {
			t.Error("a READ request when all has been sent")
		}
		p.a.Receive(p.now, &Header{Opcode: ib.Acknowledge, PSN: 2, Syndrome: SyndromeUnlimited}, 0, &p.eff)
		p.now = p.a.Deadline()
		p.a.Expire(p.now, &p.eff)
		p.now += units.Microsecond
		if p.eff.Rewind == RewindNone {
			p.a.Expire(p.a.Deadline(), &p.eff)
		}
		if !p.a.PeekRead(p.a.Deadline()) || p.a.AnswerDue() {
			t.Errorf("after a timeout the READ goes again: %v; an answer is due: %v", p.a.PeekRead(p.now), p.a.AnswerDue())
		}
		if p.a.NextRequest(p.now, &p.d); !p.a.AnswerDue() {
			t.Error("it has gone, and no answer is due")
		}
		p.a.Receive(p.now, &Header{Opcode: ib.ReadResponseOnly, PSN: 3, Syndrome: SyndromeUnlimited}, 10, &p.eff)
		p.a.NextRequest(p.now, &p.d)
		p.a.Receive(p.now, &Header{Opcode: ib.AtomicAcknowledge, PSN: 4, Syndrome: SyndromeUnlimited}, 0, &p.eff)
		if p.a.AnswerDue() || p.a.PeekRead(p.now) || p.a.Inflight() != 0 {
			t.Error("all is answered, and something is due")
		}
	}
}

// No bound is none, whichever way it is said.
func TestNoBound(t *testing.T) {
	for _, n := range []units.Bytes{0, math.MaxInt64} {
		p := newPair(t, 1000)
		p.a.BoundInflight(1)
		p.a.BoundInflight(n)
		p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 3000})
		for i, want := range []bool{false, false, true} {
			if !p.a.NextRequest(0, &p.d) || p.d.Header.AckReq != want {
				t.Errorf("bound %d: packet %d asks %v, want %v", n, i, p.d.Header.AckReq, want)
			}
		}
	}
}

// Within a bound the packet that is sent while no answer is due asks for one.
func TestABoundAsksWhileNoAnswerIsDue(t *testing.T) {
	p := newPair(t, 1000)
	p.a.BoundInflight(units.MiB)
	p.post(t, &Request{Op: ib.WRRDMAWrite, Length: 10 * 1024})
	next := func(want bool) {
		t.Helper()
		if !p.a.NextRequest(0, &p.d) || p.d.Header.AckReq != want {
			t.Errorf("packet %d asks %v, want %v", p.d.Header.PSN, p.d.Header.AckReq, want)
		}
	}
	for range 3 {
		next(true)
		next(false)
		next(false)
		p.a.Receive(0, &Header{Opcode: ib.Acknowledge, PSN: p.d.Header.PSN - 2, Syndrome: SyndromeUnlimited}, 0, &p.eff)
	}
}

// An RNR wait ends when it is over, also where the clock is set back to just its end.
func TestSetBackToTheEndOfAnRNRWait(t *testing.T) {
	for _, beyond := range []units.Time{-1, 0, 1} {
		p := newPair(t, 0)
		p.post(t, &Request{Op: ib.WRSend, Length: 1})
		p.a.NextRequest(0, &p.d)
		p.a.Receive(0, &Header{Opcode: ib.Acknowledge, Syndrome: SyndromeRNR | 1}, 0, &p.eff)
		p.a.SetBack(RNRTime(1) + beyond)
		if p.a.NextRequest(-beyond-2, &p.d) {
			t.Errorf("%v: it sends before the wait is over", beyond)
		}
		if !p.a.NextRequest(-beyond, &p.d) {
			t.Errorf("%v: it does not send when the wait is over", beyond)
		}
	}
}

// What an unreliable connection's driver can't place ends it, where the fault is the receiver's
// own: with the status of the receive that it holds, else with an event.
func TestUnreliableFailure(t *testing.T) {
	recv, err := NewRecvQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	var eff Effects
	for _, c := range []struct {
		h       Header
		payload int
		status  ib.WCStatus
		state   ib.QPState
		event   bool
	}{
		{Header{Opcode: ib.ServiceUC | ib.SendFirst}, 1024, ib.WCLocProtErr, ib.Err, false},
		{Header{Opcode: ib.ServiceUC | ib.SendOnly}, 1, ib.WCLocProtErr, ib.Err, true},
		{Header{Opcode: ib.ServiceUC | ib.WriteOnly, DMALen: 1}, 1, ib.WCRemAccessErr, ib.RTR, false},
	} {
		q, err := New(Config{Type: ib.UC, MTU: 1024, SendDepth: 1, Recv: recv, Access: ib.AccessRemoteWrite})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := recv.Post(Recv{ID: 9, Length: 4096}); err != nil {
			t.Fatal(err)
		}
		q.Receive(0, &c.h, c.payload, &eff)
		if eff.Do&DoCheck != 0 {
			q.Checked(0, true, &eff)
		}
		q.FailRecv(0, c.status, &eff)
		if q.State() != c.state || eff.Events.Has(ib.EventQPFatal) != c.event || eff.Do&DoRespond != 0 {
			t.Errorf("%v: in %v, events %b, want %v", c.h.Opcode, q.State(), eff.Events, c.state)
		}
		var r RecvCompletion
		if got := q.PollRecv(&r); got && (r.ID != 9 || r.Status != c.status) || got != (c.state == ib.Err && !c.event) {
			t.Errorf("%v: flushed %v, %+v", c.h.Opcode, got, r)
		}
		for recv.Len() > 0 {
			recv.take(nil)
		}
		recv, _ = NewRecvQueue(4)
	}
}
