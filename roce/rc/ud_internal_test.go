package rc

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
)

func newUD(t testing.TB, depth int) *QP {
	t.Helper()
	recv, err := NewRecvQueue(depth)
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(Config{Type: ib.UD, MTU: 256, SendDepth: depth, Recv: recv})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(SendConfig{}); err != nil {
		t.Fatal(err)
	}
	return q
}

// Whatever the order in which datagrams leave, each signaled request completes once,
// in the order of posting, and not before it and all before it have left.
func TestDatagramsCompleteInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		recv, _ := NewRecvQueue(1)
		q, err := New(Config{Type: ib.UD, MTU: 256, SendDepth: rapid.IntRange(1, 40).Draw(t, "depth"), Recv: recv})
		if err != nil {
			t.Fatal(err)
		}
		window := rapid.IntRange(0, 8).Draw(t, "window")
		if err := q.ReadyToSend(SendConfig{Window: window, InitialPSN: 0xfffff0}); err != nil {
			t.Fatal(err)
		}
		const messages = 200
		var posted, polled int
		left := map[uint64]bool{}
		signaled := map[uint64]bool{}
		var under []Descriptor
		var eff Effects
		for polled < messages {
			switch rng.IntN(3) {
			case 0:
				if posted < messages {
					s := rng.IntN(3) > 0 || posted == messages-1
					if _, err := q.PostSend(&Request{ID: uint64(posted), Op: ib.WRSend, Length: uint32(rng.IntN(257)), Signaled: s}); err == nil {
						signaled[uint64(posted)] = s
						posted++
					}
				}
			case 1:
				var d Descriptor
				if q.NextRequest(0, &d) {
					under = append(under, d)
				}
				if window > 0 && len(under) > 0 && under[len(under)-1].Header.PSN.Sub(wire(q.una)) >= int32(window) {
					t.Fatalf("%d packets beyond the oldest that has not left, window %d", len(under), window)
				}
			default:
				if len(under) == 0 {
					continue
				}
				i := rng.IntN(len(under))
				left[q.wqes[under[i].Slot].ID] = true
				q.Sent(&under[i], &eff)
				under = append(under[:i], under[i+1:]...)
				var c SendCompletion
				for q.PollSend(&c) {
					for ; polled < int(c.ID); polled++ {
						if signaled[uint64(polled)] || !left[uint64(polled)] {
							t.Fatalf("request %d completed before %d", c.ID, polled)
						}
					}
					if !left[c.ID] || !signaled[c.ID] {
						t.Fatalf("request %d completed; left %v, signaled %v", c.ID, left[c.ID], signaled[c.ID])
					}
					polled++
				}
			}
		}
		if q.SendQueued() != 0 || q.Inflight() != 0 || len(under) != 0 {
			t.Fatalf("%d queued, %v in flight, %d under way", q.SendQueued(), q.Inflight(), len(under))
		}
	})
}

func TestDatagramsDoNotAllocate(t *testing.T) {
	x, y := newUD(t, 16), newUD(t, 16)
	var d Descriptor
	var eff Effects
	var c SendCompletion
	r := Request{Op: ib.WRSendWithImm, Length: 100, Signaled: true}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := y.cfg.Recv.Post(Recv{Length: 140}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.PostSend(&r); err != nil || !x.NextRequest(0, &d) {
			t.Fatal(err)
		}
		x.Sent(&d, &eff)
		if !x.PollSend(&c) {
			t.Fatal("no completion")
		}
		y.Receive(0, &d.Header, d.Payload, &eff)
		y.cfg.Recv.Free(eff.Recv.Slot)
	}); n != 0 {
		t.Errorf("%v allocations a datagram", n)
	}
}

// FuzzReceiveDatagram throws arbitrary packets at a datagram queue pair: none is
// answered or fails it, and no byte goes beyond its receive.
func FuzzReceiveDatagram(f *testing.F) {
	f.Add([]byte{byte(ib.ServiceUD | ib.SendOnly), 0, 60, byte(ib.ServiceUD | ib.SendOnlyImm), 9, 61, byte(ib.SendOnly), 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		q := newUD(t, 4)
		var eff Effects
		var d Descriptor
		for ; len(b) >= 3; b = b[3:] {
			_, _ = q.cfg.Recv.Post(Recv{Length: 100})
			q.Receive(0, &Header{Opcode: ib.Opcode(b[0]), PSN: wire(int64(b[1])), AckReq: true}, int(b[2]), &eff)
			if p := eff.Place; eff.Do&DoPlace != 0 && (p.Kind != PlaceRecv || p.Offset != 0 || p.Length > 100 || p.Length != eff.Recv.Bytes) {
				t.Fatalf("place %+v of %+v", p, eff.Recv)
			}
			if (eff.Do&DoRecv != 0) == (eff.Drop != DropNone) || eff.Do&DoCheck != 0 {
				t.Fatalf("%+v", eff)
			}
			if eff.Do&DoRecv != 0 {
				q.cfg.Recv.Free(eff.Recv.Slot)
			}
			if q.State() != ib.RTS || q.NextResponse(0, &d) || eff.Events != 0 {
				t.Fatalf("state %v, events %v", q.State(), eff.Events)
			}
		}
	})
}
