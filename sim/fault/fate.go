// Package fault says what goes wrong in a simulated run: what wires do to packets, and
// which processes crash, stall or have clocks that go wrong, and when. A Schedule is
// drawn from a seed, or read from text, and can be cut down to what a failure needs.
package fault

import "github.com/sluice-rdma/sluice/units"

// Fate is a wire's treatment of one packet. The zero Fate delivers it in time, once.
type Fate struct {
	Drop      bool
	Duplicate bool       // it arrives twice, the second time after Delay
	Delay     units.Time // how much later than in time; what was sent after it then comes before it
	Corrupt   bool       // one bit of it, Bit modulo its length, is inverted
	Bit       uint32
	Mark      bool // a switch marks congestion, if the packet allows it (ECN CE)
	Forge     bool // somebody sends another packet in the sender's name, as As says
	As        uint32
}

// Wire decides what happens to the packets between hosts, which it is asked about in
// the order in which they leave.
type Wire interface {
	Carry(now units.Time, from, to int) Fate
}
