package match

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// IBA 9.7.2: a Send or Write takes a PSN a packet, a READ one for each packet of its
// response, everything at least one; local operations none.
func TestPSNsOfRequests(t *testing.T) {
	for _, c := range []struct {
		op     ib.WROpcode
		length uint32
		mtu    ib.MTU
		want   int64
	}{
		{ib.WRRDMAWrite, 0, 1024, 1},
		{ib.WRRDMAWrite, 1, 1024, 1},
		{ib.WRRDMAWrite, 1024, 1024, 1},
		{ib.WRRDMAWrite, 1025, 1024, 2},
		{ib.WRRDMAWriteWithImm, 65536, 256, 256},
		{ib.WRSend, 16384, 4096, 4},
		{ib.WRSendWithInv, 4097, 4096, 2},
		{ib.WRRDMARead, 0, 4096, 1},
		{ib.WRRDMARead, 1 << 31, 4096, 1 << 19},
		{ib.WRRDMARead, 16385, 4096, 5},
		{ib.WRAtomicCmpAndSwp, 8, 256, 1},
		{ib.WRAtomicFetchAndAdd, 8, 4096, 1},
		{ib.WRLocalInv, 0, 1024, 0}, {ib.WRBindMW, 0, 1024, 0},
	} {
		if got := PSNs(c.op, c.length, c.mtu); got != c.want {
			t.Errorf("%v of %d bytes at MTU %d: %d PSNs, want %d", c.op, c.length, c.mtu, got, c.want)
		}
	}
}

// fresh returns a queue from PSN 0xfffffe on, at an MTU of 1000 bytes that no
// real one has but that makes lengths easy to read.
func fresh() *Queue {
	q := New(2)
	q.Reset(0xfffffe, 1000)
	return q
}

func post(t *testing.T, q *Queue, wrid uint64, op ib.WROpcode, length uint32, last units.PSN) {
	t.Helper()
	if got := q.Post(wrid, op, length, true); got != last {
		t.Fatalf("request %d ends with PSN %#x, want %#x", wrid, got, last)
	}
}

func complete(t *testing.T, q *Queue, wrid uint64, want Stamps) {
	t.Helper()
	got, ok := q.Complete(wrid)
	if !ok || got != want {
		t.Errorf("request %d: %+v, %v; want %+v", wrid, got, ok, want)
	}
}

func TestOneAcknowledgementForSeveral(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRRDMAWrite, 3000, 0)
	post(t, q, 2, ib.WRSend, 0, 1)
	post(t, q, 3, ib.WRRDMAWriteWithImm, 1001, 3)
	q.Sent(10, 0xfffffe, ib.WriteFirst, 0)
	q.Sent(12, 0, ib.WriteLast, 0)
	q.Sent(13, 1, ib.SendOnly, 0)
	q.Sent(14, 2, ib.WriteFirst, 0)
	q.Sent(15, 3, ib.WriteLastImm, 0)
	q.Received(20, 1, ib.Acknowledge, 0x1f)
	q.Received(21, 1, ib.Acknowledge, 0x1f) // a duplicate
	q.Received(22, 0, ib.Acknowledge, 0x1f) // an old one
	q.Received(30, 3, ib.Acknowledge, 3)
	complete(t, q, 1, Stamps{First: 10, Last: 12, Acked: 20})
	complete(t, q, 2, Stamps{First: 13, Last: 13, Acked: 20})
	complete(t, q, 3, Stamps{First: 14, Last: 15, Acked: 30})
	if q.Len() != 0 || q.Strange() != 0 {
		t.Errorf("%d left, %d strange", q.Len(), q.Strange())
	}
	q.Received(40, 3, ib.Acknowledge, 0x1f)
	if q.Strange() != 1 {
		t.Error("an acknowledgement of nothing outstanding was not counted")
	}
}

// IBA 9.7.5.1: a NAK stands for all before its PSN; so does an RNR NAK.
func TestNAKs(t *testing.T) {
	for _, syndrome := range []uint8{0x20 | 12, 0x60} {
		q := fresh()
		post(t, q, 1, ib.WRSend, 10, 0xfffffe)
		post(t, q, 2, ib.WRSend, 10, 0xffffff)
		q.Sent(1, 0xfffffe, ib.SendOnly, 0)
		q.Sent(2, 0xffffff, ib.SendOnly, 0)
		q.Received(5, 0xffffff, ib.Acknowledge, syndrome)
		q.Sent(7, 0xffffff, ib.SendOnly, 0)
		q.Received(9, 0xffffff, ib.Acknowledge, 0x1f)
		complete(t, q, 1, Stamps{First: 1, Last: 1, Acked: 5})
		complete(t, q, 2, Stamps{First: 2, Last: 2, Acked: 9, Retransmitted: true})
	}
	q := fresh()
	post(t, q, 1, ib.WRSend, 10, 0xfffffe)
	q.Received(5, 0xfffffe, ib.Acknowledge, 0x40) // reserved
	complete(t, q, 1, Stamps{})
}

func TestReadsAndAtomics(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRRDMAWrite, 10, 0xfffffe)
	post(t, q, 2, ib.WRRDMARead, 2500, 1)
	post(t, q, 3, ib.WRRDMAWrite, 10, 2)
	post(t, q, 4, ib.WRAtomicFetchAndAdd, 8, 3)
	q.Sent(1, 0xfffffe, ib.WriteOnly, 0)
	q.Sent(2, 0xffffff, ib.ReadRequest, 2500)
	q.Sent(3, 2, ib.WriteOnly, 0)
	q.Sent(4, 3, ib.FetchAdd, 0)
	// The first response stands for the Write before the READ, and the READ is not
	// complete before its last. An acknowledgement beyond it counts for nothing.
	q.Received(10, 0xffffff, ib.ReadResponseFirst, 0x1f)
	q.Received(11, 2, ib.Acknowledge, 0x1f)
	q.Received(12, 1, ib.ReadResponseLast, 0x1f)
	q.Received(13, 2, ib.Acknowledge, 0x1f)
	q.Received(14, 3, ib.Acknowledge, 0x1f) // no answer to an atomic
	q.Received(15, 3, ib.AtomicAcknowledge, 0x1f)
	complete(t, q, 1, Stamps{First: 1, Last: 1, Acked: 10})
	complete(t, q, 2, Stamps{First: 2, Last: 2, Acked: 12})
	complete(t, q, 3, Stamps{First: 3, Last: 3, Acked: 13})
	complete(t, q, 4, Stamps{First: 4, Last: 4, Acked: 15})
}

// A READ may be asked for in parts, which is no retransmission; asking again for
// what was asked for is.
func TestReadInParts(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRRDMARead, 3500, 1)
	post(t, q, 2, ib.WRRDMARead, 3500, 5)
	q.Sent(1, 0xfffffe, ib.ReadRequest, 2000)
	q.Sent(2, 0, ib.ReadRequest, 1500)
	q.Received(3, 0xffffff, ib.ReadResponseLast, 0x1f)
	q.Received(4, 1, ib.ReadResponseLast, 0x1f)
	complete(t, q, 1, Stamps{First: 1, Last: 2, Acked: 4})
	q.Sent(5, 2, ib.ReadRequest, 3500)
	q.Received(6, 2, ib.ReadResponseFirst, 0x1f)
	q.Sent(7, 4, ib.ReadRequest, 1500) // the response 4 was lost
	q.Received(8, 5, ib.ReadResponseLast, 0x1f)
	complete(t, q, 2, Stamps{First: 5, Last: 5, Acked: 8, Retransmitted: true})
}

// A request that is sent again after its acknowledgement came by was not
// acknowledged as far as its requester knows.
func TestAcknowledgementLostBehindTheHook(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRSend, 10, 0xfffffe)
	post(t, q, 2, ib.WRSend, 10, 0xffffff)
	q.Sent(1, 0xfffffe, ib.SendOnly, 0)
	q.Sent(2, 0xffffff, ib.SendOnly, 0)
	q.Received(5, 0xffffff, ib.Acknowledge, 0x1f)
	q.Sent(100, 0xfffffe, ib.SendOnly, 0)
	q.Sent(101, 0xffffff, ib.SendOnly, 0)
	q.Received(105, 0xffffff, ib.Acknowledge, 0x1f)
	complete(t, q, 1, Stamps{First: 1, Last: 1, Acked: 105, Retransmitted: true})
	complete(t, q, 2, Stamps{First: 2, Last: 2, Acked: 105, Retransmitted: true})
}

// If no other one comes, it was that one after all.
func TestAcknowledgementThatCrossedARetransmission(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRSend, 10, 0xfffffe)
	q.Sent(1, 0xfffffe, ib.SendOnly, 0)
	q.Received(5, 0xfffffe, ib.Acknowledge, 0x1f)
	q.Sent(6, 0xfffffe, ib.SendOnly, 0)
	complete(t, q, 1, Stamps{First: 1, Last: 1, Acked: 5, Retransmitted: true})
}

func TestUnsignaledAndLocal(t *testing.T) {
	q := fresh()
	q.Post(1, ib.WRRDMAWrite, 10, false)
	post(t, q, 2, ib.WRLocalInv, 0, 0xfffffe)
	post(t, q, 3, ib.WRRDMAWrite, 10, 0xffffff)
	q.Sent(1, 0xfffffe, ib.WriteOnly, 0)
	q.Sent(2, 0xffffff, ib.WriteOnly, 0)
	q.Received(3, 0xffffff, ib.Acknowledge, 0x1f)
	if _, ok := q.Complete(1); ok {
		t.Error("a request that was not signaled completed")
	}
	complete(t, q, 2, Stamps{Acked: 3})
	complete(t, q, 3, Stamps{First: 2, Last: 2, Acked: 3})
	if _, ok := q.Complete(3); ok {
		t.Error("a request completed twice")
	}
}

func TestUnpost(t *testing.T) {
	q := fresh()
	post(t, q, 1, ib.WRRDMAWrite, 2000, 0xffffff)
	post(t, q, 2, ib.WRRDMAWrite, 2000, 1)
	post(t, q, 3, ib.WRLocalInv, 0, 1)
	q.Unpost(2)
	post(t, q, 4, ib.WRRDMAWrite, 1000, 0)
	q.Sent(1, 0xfffffe, ib.WriteFirst, 0)
	q.Sent(2, 0xffffff, ib.WriteLast, 0)
	q.Sent(3, 0, ib.WriteOnly, 0)
	q.Received(4, 0, ib.Acknowledge, 0x1f)
	q.Unpost(1)
	post(t, q, 5, ib.WRRDMAWrite, 1000, 0)
	q.Unpost(100)
	if q.Len() != 0 {
		t.Errorf("%d left", q.Len())
	}
}

// What belongs to no request changes nothing.
func TestStrange(t *testing.T) {
	q := fresh()
	q.Sent(1, 5, ib.SendOnly, 0)
	q.Received(1, 5, ib.Acknowledge, 0x1f)
	post(t, q, 1, ib.WRSend, 10, 0xfffffe)
	q.Sent(1, 0xfffffe, ib.ReadRequest, 10)
	q.Sent(1, 0xffffff, ib.SendOnly, 0)
	q.Sent(1, 0x7ffffe, ib.SendOnly, 0)
	q.Received(1, 0xffffff, ib.Acknowledge, 0x1f)
	q.Received(1, 0xfffffd, ib.Acknowledge, 0x1f)
	q.Received(1, 0xfffffe, ib.SendOnly, 0x1f)
	complete(t, q, 1, Stamps{})
	if q.Strange() != 7 {
		t.Errorf("%d were strange, want 7", q.Strange())
	}
	q.Reset(0, 256)
	if q.Strange() != 0 || q.Len() != 0 {
		t.Error("Reset has kept something")
	}
}

// TestAgainstAModel posts random requests, sends their packets by go-back-N over
// a network that loses some, and checks each completion's stamps against what
// happened.
func TestAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const mtu = 256
		base := int64(rapid.Uint32Range(0, 1<<24-1).Draw(t, "psn"))
		loss := rapid.IntRange(0, 40).Draw(t, "loss")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		q := New(rapid.IntRange(1, 8).Draw(t, "size"))
		q.Reset(units.MakePSN(uint32(base)), mtu)

		type message struct {
			first, last int64
			read        bool
			signaled    bool
			want        Stamps
			sent        map[int64]bool
		}
		var messages []*message
		next, now := base, uint64(0)
		for i := range rapid.IntRange(1, 30).Draw(t, "messages") {
			length := uint32(r.IntN(6 * mtu))
			m := &message{first: next, read: r.IntN(3) == 0, signaled: r.IntN(4) != 0, sent: map[int64]bool{}}
			op := ib.WRRDMAWrite
			if m.read {
				op = ib.WRRDMARead
			}
			n := int64(length+mtu-1) / mtu
			if length == 0 {
				n = 1
			}
			m.last = next + n - 1
			next += n
			messages = append(messages, m)
			if got, want := q.Post(uint64(i), op, length, m.signaled), units.MakePSN(uint32(m.last)); got != want {
				t.Fatalf("message %d ends with %v, want %v", i, got, want)
			}
		}
		lost := func() bool { return r.IntN(100) < loss }
		psn := func(p int64) units.PSN { return units.MakePSN(uint32(p)) }

		// Rounds of go-back-N: from the oldest message that is not acknowledged,
		// everything; the responder takes what is in order, and the requester what
		// comes back.
		expected, done := base, 0
		for done < len(messages) {
			arrived := true
			answered := map[int]uint64{} // responses and acknowledgements that came back in this round
			stop := false
			for i := done; i < len(messages); i++ {
				m := messages[i]
				step := func(p int64, op ib.Opcode, length uint32) bool {
					now++
					q.Sent(now, psn(p), op, length)
					switch {
					case m.sent[p]:
						m.want.Retransmitted = true
					default:
						m.sent[p] = true
						if p == m.first {
							m.want.First = now
						}
						if p == m.last || m.read {
							m.want.Last = now
						}
					}
					return !lost()
				}
				if m.read {
					if arrived = step(m.first, ib.ReadRequest, uint32(m.last-m.first+1)*mtu) && arrived && expected >= m.first; arrived {
						expected = max(expected, m.last+1)
						if !lost() {
							answered[i] = 0
						}
					}
					continue
				}
				for p := m.first; p <= m.last; p++ {
					op := ib.WriteMiddle
					if p == m.last {
						op = ib.WriteLast
					}
					ok := step(p, op, 0)
					arrived = arrived && ok && p <= expected
					if arrived {
						expected = max(expected, p+1)
					}
				}
				if arrived && !lost() {
					answered[i] = 0
				}
			}
			// Answers, in order; an unanswered READ stops them.
			upTo := done
			for i := done; i < len(messages); i++ {
				if _, ok := answered[i]; !ok {
					if messages[i].read {
						stop = true
					}
					continue
				}
				now++
				op := ib.Acknowledge
				if messages[i].read {
					op = ib.ReadResponseLast
				}
				q.Received(now, psn(messages[i].last), op, 0x1f)
				if stop {
					continue
				}
				for ; upTo <= i; upTo++ {
					messages[upTo].want.Acked = now
				}
			}
			for ; done < upTo; done++ {
				m := messages[done]
				if !m.signaled {
					continue
				}
				got, ok := q.Complete(uint64(done))
				if !ok || got != m.want {
					t.Fatalf("message %d, PSNs %d to %d, read %v: %+v, %v; want %+v", done, m.first, m.last, m.read, got, ok, m.want)
				}
			}
		}
	})
}

func TestNothingIsAllocated(t *testing.T) {
	q := New(16)
	q.Reset(0, 4096)
	psn := units.PSN(0)
	if n := testing.AllocsPerRun(1000, func() {
		last := q.Post(7, ib.WRRDMAWrite, 16384, true)
		q.Sent(1, psn, ib.WriteFirst, 0)
		q.Sent(2, last, ib.WriteLast, 0)
		q.Received(3, last, ib.Acknowledge, 0x1f)
		if s, ok := q.Complete(7); !ok || !s.Whole() {
			t.Fatal(s)
		}
		psn = last.Add(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzQueue drives a queue with arbitrary calls: it must not panic, and completes
// only what was posted.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 5, 2, 0, 0, 3, 0, 17, 4, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		q := New(1)
		q.Reset(0xfffff0, 256)
		posted, completed := 0, 0
		for i := 0; i+3 <= len(in); i += 3 {
			a, b := in[i+1], in[i+2]
			switch in[i] % 6 {
			case 0, 1:
				q.Post(uint64(posted), ib.WROpcode(a%10), uint32(b)*100, true)
				posted++
			case 2:
				q.Sent(uint64(i+1), units.PSN(0xfffff0).Add(int32(a)), ib.Opcode(b%24), uint32(b)*100)
			case 3:
				q.Received(uint64(i+1), units.PSN(0xfffff0).Add(int32(a)), ib.Opcode(b%24), b)
			case 4:
				if s, ok := q.Complete(uint64(a)); ok {
					completed++
					if s.Whole() && s.First > s.Last {
						t.Errorf("%+v", s)
					}
				}
			case 5:
				n := min(int(a), q.Len())
				q.Unpost(n)
			}
		}
		if completed > posted || q.Len() > posted {
			t.Errorf("%d posted, %d completed, %d left", posted, completed, q.Len())
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	q := New(128)
	q.Reset(0, 4096)
	psn := units.PSN(0)
	b.ReportAllocs()
	for b.Loop() {
		last := q.Post(7, ib.WRRDMAWrite, 16384, true)
		q.Sent(1, psn, ib.WriteFirst, 0)
		q.Sent(2, last, ib.WriteLast, 0)
		q.Received(3, last, ib.Acknowledge, 0x1f)
		q.Complete(7)
		psn = last.Add(1)
	}
}
