package rc

import (
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// FuzzReceive throws arbitrary packets at a queue pair that is in the middle of
// things, as requester and as responder. Whatever comes, it must not panic, must
// not place a byte outside what the driver has granted, and must go on
// answering calls.
func FuzzReceive(f *testing.F) {
	seed := func(headers ...Header) {
		var b []byte
		for _, h := range headers {
			b = append(b, byte(h.Opcode), byte(h.PSN), byte(h.PSN>>8), byte(h.PSN>>16), h.Syndrome, 1)
			b = binary.LittleEndian.AppendUint32(b, h.DMALen)
			b = binary.LittleEndian.AppendUint16(b, 64)
		}
		f.Add(b)
	}
	seed(Header{Opcode: ib.WriteOnly, DMALen: 64})
	seed(Header{Opcode: ib.WriteFirst, DMALen: 128}, Header{Opcode: ib.WriteLast, PSN: 1})
	seed(Header{Opcode: ib.SendOnly}, Header{Opcode: ib.SendFirst, PSN: 1}, Header{Opcode: ib.WriteOnly, PSN: 2})
	seed(Header{Opcode: ib.ReadRequest, DMALen: 1000}, Header{Opcode: ib.FetchAdd, PSN: 16}, Header{Opcode: ib.ReadRequest, DMALen: 1000})
	seed(Header{Opcode: ib.Acknowledge, PSN: 3, Syndrome: SyndromeUnlimited}, Header{Opcode: ib.Acknowledge, PSN: 1, Syndrome: SyndromeSequence})
	f.Add([]byte{byte(ib.SendOnly), 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 64, 0, byte(ib.ReadRequest), 0, 0, 0, 0, 0x11, 200, 0, 0, 0, 0, 0,
		byte(ib.ReadRequest), 0xfc, 0, 0, 0, 0x11, 200, 0, 0, 0, 0, 0, byte(ib.Acknowledge), 2, 0, 0, 31, 0x21, 0, 0, 0, 0, 0, 0})
	seed(Header{Opcode: ib.ReadResponseOnly, PSN: 4}, Header{Opcode: ib.AtomicAcknowledge, PSN: 5}, Header{Opcode: ib.Acknowledge, Syndrome: SyndromeRNR})
	// A WRITE to the very end of the address space, whose end is 0 in 64 bits.
	f.Add([]byte{byte(ib.WriteFirst), 0, 0, 0, 127, 0x12, 128, 0, 0, 0, 64, 0, byte(ib.WriteLast), 0, 0, 0, 127, 0x12, 0, 0, 0, 0, 64, 0})
	const record = 12
	f.Fuzz(func(t *testing.T, b []byte) {
		recv, err := NewRecvQueue(4)
		if err != nil {
			t.Fatal(err)
		}
		q, err := New(Config{MTU: 64, SendDepth: 8, Recv: recv, MaxDestRdAtomic: 2, MinRNRTimer: 1,
			Access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.ReadyToSend(SendConfig{Timeout: 4, RetryCount: 1, RNRRetry: 1, MaxRdAtomic: 2}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := recv.Post(Recv{ID: 1, Length: 100}); err != nil {
				t.Fatal(err)
			}
		}
		lengths := map[uint32]uint32{}
		for _, r := range []Request{
			{Op: ib.WRRDMAWrite, Length: 150, Signaled: true}, {Op: ib.WRRDMARead, Length: 150, Signaled: true},
			{Op: ib.WRAtomicFetchAndAdd, Length: 8, Signaled: true}, {Op: ib.WRSend, Length: 10, Signaled: true},
		} {
			slot, err := q.PostSend(&r)
			if err != nil {
				t.Fatal(err)
			}
			lengths[slot] = r.Length
		}
		var (
			now   units.Time
			d     Descriptor
			eff   Effects
			grant struct{ va, n uint64 }
			sent  SendCompletion
			rcv   RecvCompletion
		)
		for ; len(b) >= record; b = b[record:] {
			now += 10 * units.Microsecond
			for q.NextRequest(now, &d) {
				if !q.Fresh(&d) {
					t.Fatalf("a request packet that is stale at once: %+v", d)
				}
				if d.Payload > 64 || uint32(d.Payload)+d.Offset > 150 {
					t.Fatalf("a request packet of %d bytes at %d", d.Payload, d.Offset)
				}
			}
			h := Header{
				Opcode: ib.Opcode(b[0]), PSN: units.MakePSN(uint32(b[1]) | uint32(b[2])<<8 | uint32(b[3])<<16),
				Syndrome: b[4], AckReq: b[5]&1 != 0, DMALen: binary.LittleEndian.Uint32(b[6:10]),
				VA: uint64(b[5]) << 3, RKey: 7,
			}
			switch b[5] >> 4 & 3 { // near what is expected, more often than chance has it
			case 1:
				h.PSN = wire(q.expected).Add(int32(int8(b[1])))
			case 2:
				h.PSN = wire(q.una).Add(int32(int8(b[1])))
			}
			if b[5]&2 != 0 {
				h.VA = ^uint64(0) - uint64(b[4]) // near the end of the address space
			}
			q.Receive(now, &h, int(binary.LittleEndian.Uint16(b[10:12]))&127, &eff)
			if eff.Do&DoCheck != 0 {
				c := eff.Check
				if !c.Invalidate && wrapsAround(c.VA, uint64(c.Length)) {
					t.Fatalf("a check that wraps around: %+v", c)
				}
				ok := b[5]&4 == 0
				if ok && !c.Invalidate {
					grant.va, grant.n = c.VA, uint64(c.Length)
				}
				q.Checked(now, ok, &eff)
			}
			if eff.Do&DoPlace != 0 {
				p := eff.Place
				switch p.Kind {
				case PlaceMemory:
					if n := uint64(p.Length); p.VA < grant.va || n > grant.n || p.VA-grant.va > grant.n-n {
						t.Fatalf("%d bytes placed at %#x, granted %d at %#x", n, p.VA, grant.n, grant.va)
					}
				case PlaceRecv:
					if p.Offset+p.Length > 100 {
						t.Fatalf("%d bytes at %d of a receive of 100", p.Length, p.Offset)
					}
				case PlaceRead, PlaceAtomic:
					if p.Offset+p.Length > lengths[p.Slot] {
						t.Fatalf("%d bytes at %d of a request of %d", p.Length, p.Offset, lengths[p.Slot])
					}
				}
			}
			if eff.Do&DoAtomic != 0 {
				q.AtomicDone(eff.Atomic.Slot, 5)
			}
			for range 20 { // a READ may have 2^25 responses
				if !q.NextResponse(now, &d) {
					break
				}
				if d.Source == SourceMemory && d.Payload > 64 {
					t.Fatalf("a response of %d bytes", d.Payload)
				}
			}
			for q.PollSend(&sent) {
			}
			for q.PollRecv(&rcv) {
				recv.Free(rcv.Slot)
			}
			if eff.Do&DoRecv != 0 {
				recv.Free(eff.Recv.Slot)
			}
			if q.Deadline() <= now {
				q.Expire(now, &eff)
			}
		}
	})
}

// wrapsAround reports whether n bytes from va on do not fit 64 bits of addresses. The
// last of them may have the highest address.
func wrapsAround(va, n uint64) bool { return n > 0 && n-1 > ^va }
