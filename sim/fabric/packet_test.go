package fabric

import (
	"testing"
	"unsafe"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func TestHotStateFitsCacheLines(t *testing.T) {
	if s := unsafe.Sizeof(Packet{}); s != 32 {
		t.Errorf("a Packet takes %d bytes, not 32", s)
	}
	if s := unsafe.Sizeof(entry{}); s != 24 {
		t.Errorf("a packet in a queue takes %d bytes, not 24", s)
	}
	if s := unsafe.Sizeof(chunk{}); s != 512 {
		t.Errorf("a chunk takes %d bytes, not 512", s)
	}
	if s := unsafe.Sizeof(port{}); s != 64 {
		t.Errorf("a port takes %d bytes, not 64", s)
	}
	if s := unsafe.Sizeof(inlet{}); s > 32 {
		t.Errorf("an inlet takes %d bytes", s)
	}
	if s := unsafe.Sizeof(queue{}); s != 64 {
		t.Errorf("a queue takes %d bytes, not 64", s)
	}
	if s := unsafe.Sizeof(switchState{}); s != 64 {
		t.Errorf("a switch takes %d bytes, not 64", s)
	}
}

func TestSlab(t *testing.T) {
	r := newRig(t, Star(2, gig(100, 0)), Default(), 1)
	n := r.n
	a, b := n.Alloc(), n.Alloc()
	if a == 0 || b == 0 || a == b || n.Live() != 2 || int(max(a, b)) >= n.Slots() {
		t.Fatalf("handles %d and %d, %d live, %d slots", a, b, n.Live(), n.Slots())
	}
	n.Packet(a).Note, n.Packet(a).User = 5, 6
	n.Free(a)
	if c := n.Alloc(); c != a || *n.Packet(c) != (Packet{}) {
		t.Errorf("after freeing %d, Alloc returns %d: %+v", a, c, *n.Packet(c))
	}
	if n.Slots() != batch {
		t.Errorf("%d slots for two packets", n.Slots())
	}
	n.Free(b)
	defer func() {
		if recover() == nil {
			t.Error("freeing twice does not panic")
		}
	}()
	n.Free(b)
}

func TestTransmitRefusesWhatCannotBe(t *testing.T) {
	for name, f := range map[string]Frame{
		"size":        {Dst: 1},
		"destination": {Size: 64, Dst: 2},
		"negative":    {Size: 64, Dst: -1},
		"priority":    {Size: 64, Dst: 1, Priority: 8},
	} {
		r := newRig(t, Star(2, gig(100, 0)), Default(), 1)
		h := r.n.Alloc()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			r.n.Transmit(0, 0, h, &f)
		}()
	}
}

func TestMoveINT(t *testing.T) {
	n := newRig(t, Star(2, gig(100, 0)), Default(), 1).n
	x := n.Lane(0)
	var hs []Handle
	var frames []Frame
	for i := range 3 * batch {
		h := n.Alloc()
		e := newEntry(h, &Frame{Telemetry: telemetry.PerHop})
		x.record(units.Time(i), 0, &n.ports[0], &n.kinds[0], &e, int32(i))
		hs, frames = append(hs, h), append(frames, e.frame())
	}
	ack, back := n.Alloc(), Frame{}
	for i, h := range hs {
		n.MoveINT(h, &frames[i], ack, &back)
		if s := n.INT(ack, &back); s == nil || s.N != 1 || s.Hops[0].QLen != units.Bytes(i) || n.INT(h, &frames[i]) != nil {
			t.Fatalf("record %d is %+v after the move", i, s)
		}
		n.Free(h)
	}
	n.MoveINT(n.Alloc(), new(Frame), ack, &back) // a packet without records takes them away
	if n.INT(ack, &back) != nil {
		t.Error("records survive a move of none")
	}
}

func TestEntryKeepsTimes(t *testing.T) {
	const hour = 3600 * units.Second
	for _, now := range []units.Time{0, units.Microsecond, hour, 5 * hour, 24 * hour, 2000 * hour} {
		for _, after := range []units.Time{-2 * hour, -units.Microsecond, 0, 1, units.Second, 2 * hour} {
			e := newEntry(7, &Frame{Size: 1500, Dst: 3, FlowHash: 0xfffffffe, Priority: 7, Flags: ECT | CE | EIN | Circuit, Telemetry: telemetry.PerHop, Hops: 255})
			if now+after < 0 {
				continue
			}
			e.setAt(now + after)
			e.enter(severed - 1)
			if at := e.at(now); at != now+after {
				t.Errorf("at %v, %v is %v", now, now+after, at)
			}
			if e.handle() != 7 || e.size() != 1500 || e.dst() != 3 || e.hash() != 0xfffffffe || e.prio() != 7 || e.flags() != ECT|CE|EIN|Circuit ||
				e.tel() != uint8(telemetry.PerHop) || e.hops() != 255 || e.in() != severed-1 {
				t.Errorf("at %v: %+v", now+after, e)
			}
		}
	}
}
