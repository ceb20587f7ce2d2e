package fabric

import (
	"testing"
	"unsafe"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func TestHotStateFitsCacheLines(t *testing.T) {
	if s := unsafe.Sizeof(Packet{}); s != 64 {
		t.Errorf("a Packet takes %d bytes, not 64", s)
	}
	if s := unsafe.Sizeof(link{}); s != 64 {
		t.Errorf("a link takes %d bytes, not 64", s)
	}
	if s := unsafe.Sizeof(port{}); s > 64 {
		t.Errorf("a port takes %d bytes", s)
	}
}

func TestSlab(t *testing.T) {
	r := newRig(t, Star(2, gig(100, 0)), Default(), 1)
	n := r.n
	a, b := n.Alloc(), n.Alloc()
	if a == 0 || b == 0 || a == b || n.Live() != 2 || n.Slots() != 3 {
		t.Fatalf("handles %d and %d, %d live, %d slots", a, b, n.Live(), n.Slots())
	}
	n.Packet(a).Size, n.Packet(a).User = 5, 6
	n.Free(a)
	if c := n.Alloc(); c != a || *n.Packet(c) != (Packet{}) {
		t.Errorf("after freeing %d, Alloc returns %d: %+v", a, c, *n.Packet(c))
	}
	if n.Slots() != 3 {
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
	for name, p := range map[string]Packet{
		"size":        {Dst: 1},
		"destination": {Size: 64, Dst: 2},
		"negative":    {Size: 64, Dst: -1},
		"priority":    {Size: 64, Dst: 1, Priority: 8},
	} {
		r := newRig(t, Star(2, gig(100, 0)), Default(), 1)
		h := r.n.Alloc()
		*r.n.Packet(h) = p
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			r.n.Transmit(0, 0, h)
		}()
	}
}

func TestMoveINT(t *testing.T) {
	n := newRig(t, Star(2, gig(100, 0)), Default(), 1).n
	var hs []Handle
	for i := range 3 * stackChunk {
		h := n.Alloc()
		if n.INT(h) != nil {
			t.Fatal("a new packet has records")
		}
		p := n.Packet(h)
		p.stack = n.stacks.alloc()
		n.INT(h).Push(telemetry.Hop{QLen: units.Bytes(i)})
		hs = append(hs, h)
	}
	ack := n.Alloc()
	for i, h := range hs { // each move frees what ack held before
		n.MoveINT(h, ack)
		if s := n.INT(ack); s == nil || s.N != 1 || s.Hops[0].QLen != units.Bytes(i) || n.INT(h) != nil {
			t.Fatalf("record %d is %+v after the move", i, s)
		}
		n.Free(h)
	}
	n.MoveINT(hs[0], ack) // a packet without records takes them away
	if n.INT(ack) != nil {
		t.Error("records survive a move of none")
	}
	if idle := len(n.stacks.idle); idle != 3*stackChunk {
		t.Errorf("%d of %d stacks are free", idle, 3*stackChunk)
	}
}
