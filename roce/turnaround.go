package roce

import (
	"encoding/binary"
	"math"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// The turnaround is the time that a peer takes to answer. A round trip less the
// turnaround is the network's alone. NICs acknowledge at once, which TIMELY relies
// on (section 3.1); software acknowledges when its thread runs. Swift (SIGCOMM
// 2020, section 3.1) echoes the receiver's delay in the same way.
//
// A requester asks with a bit next to FECN and BECN in a request that asks for an
// acknowledgement; IBA reserves it, receivers ignore it, and the ICRC counts it as a one.
// The acknowledgement of exactly that packet then has the bit too, and four bytes of
// payload: nanoseconds from when the packet reached the responder's host to when the
// acknowledgement left the responder, in network order. A requester that has not asked
// gets none.
const (
	TurnaroundBit   = 0x08 // of Reserved6
	TurnaroundBytes = 4
)

// tells reports whether a packet is an acknowledgement that carries a turnaround.
func (p *Packet) tells(room int) bool {
	return p.Opcode == ib.Acknowledge && p.Reserved6&TurnaroundBit != 0 && room == TurnaroundBytes
}

// PutTurnaround writes t, from 0 to 4.29 s; a longer t is written as 4.29 s. b has
// TurnaroundBytes.
func PutTurnaround(b []byte, t units.Time) {
	binary.BigEndian.PutUint32(b, uint32(min(max(t/units.Nanosecond, 0), math.MaxUint32)))
}

// Turnaround reads what an acknowledgement's payload says, and reports whether it is
// that.
func Turnaround(payload []byte) (units.Time, bool) {
	if len(payload) != TurnaroundBytes {
		return 0, false
	}
	return units.Time(binary.BigEndian.Uint32(payload)) * units.Nanosecond, true
}
