package roce

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

func TestTurnaround(t *testing.T) {
	for _, c := range []struct {
		in   units.Time
		wire []byte
		out  units.Time
	}{
		{0, []byte{0, 0, 0, 0}, 0},
		{1999, []byte{0, 0, 0, 1}, units.Nanosecond},
		{258 * units.Nanosecond, []byte{0, 0, 1, 2}, 258 * units.Nanosecond},
		{-units.Second, []byte{0, 0, 0, 0}, 0},
		{5 * units.Second, []byte{255, 255, 255, 255}, 4294967295 * units.Nanosecond},
		{units.Never, []byte{255, 255, 255, 255}, 4294967295 * units.Nanosecond},
	} {
		var b [TurnaroundBytes]byte
		PutTurnaround(b[:], c.in)
		if !bytes.Equal(b[:], c.wire) {
			t.Errorf("%v is written as %v, want %v", c.in, b, c.wire)
		}
		if got, ok := Turnaround(b[:]); !ok || got != c.out {
			t.Errorf("%v is read as %v, %v, want %v", c.in, got, ok, c.out)
		}
	}
	for _, b := range [][]byte{nil, {1}, {1, 2, 3}, {1, 2, 3, 4, 5}} {
		if got, ok := Turnaround(b); ok {
			t.Errorf("%v is read as %v", b, got)
		}
	}
}

// An acknowledgement may have it, with its bit, and nothing else of a payload.
func TestAcknowledgementWithTurnaround(t *testing.T) {
	for _, c := range []struct {
		op       ib.Opcode
		reserved uint8
		payload  int
		want     error
	}{
		{ib.Acknowledge, TurnaroundBit, 4, nil},
		{ib.Acknowledge, TurnaroundBit | 0x10, 4, nil},
		{ib.Acknowledge, TurnaroundBit, 0, nil},
		{ib.Acknowledge, 0, 0, nil},
		{ib.Acknowledge, 0, 4, UnexpectedPayload},
		{ib.Acknowledge, TurnaroundBit, 8, UnexpectedPayload},
		{ib.AtomicAcknowledge, TurnaroundBit, 4, UnexpectedPayload},
		{ib.ReadRequest, TurnaroundBit, 4, UnexpectedPayload},
	} {
		p := Packet{Header: rc.Header{Opcode: c.op}, Reserved6: c.reserved}
		b := make([]byte, MaxHeaderBytes+c.payload+ICRCBytes)
		n := p.Put(b) + c.payload
		b = b[:n+ICRCBytes]
		var got Packet
		payload, err := got.Decode(b)
		if !errors.Is(err, c.want) || c.want == nil && (len(payload) != c.payload || got.Reserved6 != c.reserved) {
			t.Errorf("%v, %#x, %d bytes: %v, %d bytes", c.op, c.reserved, c.payload, err, len(payload))
		}
	}
}
