package rc

import (
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

func newUC(t testing.TB, mtu units.Bytes, depth int) *QP {
	t.Helper()
	recv, err := NewRecvQueue(depth)
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(Config{Type: ib.UC, MTU: mtu, SendDepth: depth, Recv: recv, Access: ib.AccessRemoteWrite})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(SendConfig{}); err != nil {
		t.Fatal(err)
	}
	return q
}

// carryUC takes one packet from x to y, if it is not lost, and reports whether there
// was one.
func (p *pair) carryUC(x, y *QP, lost bool) bool {
	if !x.NextRequest(p.now, &p.d) {
		return false
	}
	x.Sent(&p.d, &p.eff)
	var c SendCompletion
	for x.PollSend(&c) {
	}
	if lost {
		return true
	}
	y.Receive(p.now, &p.d.Header, p.d.Payload, &p.eff)
	if p.eff.Do&DoCheck != 0 {
		y.Checked(p.now, true, &p.eff)
	}
	if p.eff.Do&DoRecv != 0 {
		y.cfg.Recv.Free(p.eff.Recv.Slot)
	}
	return true
}

func TestUnreliableHotPathsDoNotAllocate(t *testing.T) {
	p := &pair{a: newUC(t, 1024, 64), b: newUC(t, 1024, 64)}
	packets := 0
	for name, r := range map[string]*Request{
		"write": {Op: ib.WRRDMAWriteWithImm, Length: 5000}, "send": {Op: ib.WRSendWithImm, Length: 5000}, "short": {Op: ib.WRSend},
	} {
		if n := testing.AllocsPerRun(1000, func() {
			if p.b.cfg.Recv.Len() < 32 {
				if _, err := p.b.cfg.Recv.Post(Recv{Length: r.Length}); err != nil {
					t.Fatal(err)
				}
			}
			p.post(t, r)
			for p.carryUC(p.a, p.b, packets%7 == 3) {
				packets++
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if p.a.SendQueued() != 0 || p.b.State() != ib.RTS || p.b.ctr.OutOfSequence == 0 {
		t.Errorf("%d requests left, state %v, %+v", p.a.SendQueued(), p.b.State(), p.b.ctr)
	}
}

// FuzzReceiveUnreliable throws arbitrary packets at an unreliable connection: none is
// answered, none fails the queue pair, and no byte goes where it was not granted.
func FuzzReceiveUnreliable(f *testing.F) {
	add := func(records ...[8]byte) {
		var b []byte
		for _, r := range records {
			b = append(b, r[:]...)
		}
		f.Add(b)
	}
	// Opcode, PSN step, payload, flags, length.
	add([8]byte{byte(ib.ServiceUC | ib.SendFirst), 0, 64}, [8]byte{byte(ib.ServiceUC | ib.SendLast), 0, 3})
	add([8]byte{byte(ib.ServiceUC | ib.SendFirst), 0, 64}, [8]byte{byte(ib.ServiceUC | ib.SendMiddle), 1, 64}, [8]byte{byte(ib.ServiceUC | ib.SendOnly), 0, 9})
	add([8]byte{byte(ib.ServiceUC | ib.WriteFirst), 0, 64, 0, 150}, [8]byte{byte(ib.ServiceUC | ib.WriteMiddle), 0, 64}, [8]byte{byte(ib.ServiceUC | ib.WriteLastImm), 0, 22})
	add([8]byte{byte(ib.ServiceUC | ib.WriteOnlyImm), 255, 64, 2, 64}, [8]byte{byte(ib.ReadRequest), 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		q := newUC(t, 64, 4)
		posted, freed := 0, 0
		var eff Effects
		var d Descriptor
		var grant struct{ va, n uint64 }
		for ; len(b) >= 8; b = b[8:] {
			for {
				if _, err := q.cfg.Recv.Post(Recv{ID: uint64(posted), Length: 100}); err != nil {
					break
				}
				posted++
			}
			h := Header{
				Opcode: ib.Opcode(b[0]), PSN: wire(q.expected).Add(int32(int8(b[1]))), AckReq: b[3]&4 != 0,
				VA: uint64(b[6]) << 3, DMALen: uint32(binary.LittleEndian.Uint16(b[4:])), RKey: 7,
			}
			if b[3]&2 != 0 {
				h.VA = ^uint64(0) - uint64(b[6])
			}
			q.Receive(0, &h, int(b[2]&127), &eff)
			if eff.Do&DoCheck != 0 {
				c := eff.Check
				if c.Invalidate || c.Access != ib.AccessRemoteWrite || wrapsAround(c.VA, uint64(c.Length)) {
					t.Fatalf("a check %+v", c)
				}
				if ok := b[3]&1 == 0; ok {
					grant.va, grant.n = c.VA, uint64(c.Length)
				}
				q.Checked(0, b[3]&1 == 0, &eff)
			}
			if p := eff.Place; eff.Do&DoPlace != 0 {
				n := uint64(p.Length)
				switch p.Kind {
				case PlaceMemory:
					if p.VA < grant.va || n > grant.n || p.VA-grant.va > grant.n-n {
						t.Fatalf("%d bytes placed at %#x, granted %d at %#x", n, p.VA, grant.n, grant.va)
					}
				case PlaceRecv:
					if p.Offset+p.Length > 100 {
						t.Fatalf("%d bytes at %d of a receive of 100", p.Length, p.Offset)
					}
				default:
					t.Fatalf("a place %+v", p)
				}
			}
			if eff.Do&DoRecv != 0 {
				if eff.Recv.ID != uint64(freed) || eff.Recv.Status != ib.WCSuccess || eff.Recv.Bytes > 1<<16 {
					t.Fatalf("receive %d: %+v", freed, eff.Recv)
				}
				freed++
				q.cfg.Recv.Free(eff.Recv.Slot)
			}
			if q.State() != ib.RTS || q.ResponseReady() || q.NextResponse(0, &d) || q.Deadline() != units.Never || eff.Events != 0 {
				t.Fatalf("state %v, effects %+v", q.State(), eff)
			}
		}
	})
}
