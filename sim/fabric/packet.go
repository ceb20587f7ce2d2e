package fabric

import (
	"fmt"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Handle names a packet of a Network. Handles are dense and small: they index a
// slab, and the one freed last is handed out first. 0 is no packet.
type Handle uint32

// Flags are the marks that a packet carries.
type Flags uint8

// Flags. ECT says that the sender understands congestion marks; switches mark
// only such packets with CE. EIN is Pulser's explicit incast notification. Circuit says
// that the packet left a VOQ whose circuit was up or announced.
const (
	ECT Flags = 1 << iota
	CE
	EIN
	Circuit
)

// Packet is a packet's record in the network's slab as long as it lives: who sent it,
// and what its endpoints noted. What switches read and change is its Frame.
//
// Two fit a cache line, and it holds no pointer.
type Packet struct {
	// User, Notes and Note are the endpoints': the network neither reads nor writes
	// them.
	User  uint64
	Notes [2]uint64
	Note  uint32

	Src int32 // host index; below 0 the packet is free
}

// Frame is a packet on the wire. The sender gives it to Transmit; links and
// queues hold it as an entry; and the endpoint gets it when the packet has arrived.
// Whoever keeps a packet in between keeps its Frame.
type Frame struct {
	// MaxDelay is the largest queueing delay of any hop so far, if Telemetry is
	// telemetry.MaxDelay.
	MaxDelay units.Time

	// Size is the bytes of the frame from MAC header to FCS, which is what
	// buffers hold and counters count; links add their own framing. It includes
	// what the sender's end of telemetry takes (Network.TelemetryBytes); each switch that
	// adds a per-hop record adds that.
	Size     int32
	Dst      int32  // host index
	FlowHash uint32 // entropy for the choice of path

	Priority  uint8 // 0 to Config.Priorities-1
	Flags     Flags
	Telemetry telemetry.Kind
	Hops      uint8 // switches passed so far
	records   uint8 // how many per-hop records it has, and overflow, as in entry.tel
}

// Records returns the number of the packet's per-hop records.
func (f *Frame) Records() int { return int(f.records & recordsMask >> recordsShift) }

// aside extends a packet's record where the network has telemetry.MaxDelay, or where
// switches have a Stage.
type aside struct {
	maxDelay     units.Time
	ahead        int32  // what it found in its queue, at a switch with a Stage
	aheadPackets uint16 // packets that it found there
}

// Alloc returns a new packet, all zero.
func (n *Network) Alloc() Handle { return n.lanes[0].Alloc() }

// Alloc returns a new packet, all zero.
func (x *Lane) Alloc() Handle {
	if len(x.packets) == 0 {
		x.packets = x.n.slab.packetsFor(x.packets)
	}
	k := len(x.packets) - 1
	h := x.packets[k]
	x.packets = x.packets[:k]
	*x.n.packet(h) = Packet{}
	x.live++
	return h
}

// Packet returns the packet of that handle. The pointer is valid for as long as
// the network is.
func (n *Network) Packet(h Handle) *Packet { return n.packet(h) }

// Packet returns the packet of that handle, as Network.Packet does.
func (x *Lane) Packet(h Handle) *Packet { return x.n.packet(h) }

// Free returns a packet and its per-hop records. It panics if the packet is
// already free: whoever frees twice will sooner or later free another's packet.
func (n *Network) Free(h Handle) { n.lanes[0].Free(h) }

// Free returns a packet, as Network.Free does.
func (x *Lane) Free(h Handle) {
	p := x.n.packet(h)
	if p.Src < 0 {
		panic(fmt.Sprintf("fabric: packet %d freed twice", h))
	}
	p.Src = -1
	x.live--
	x.packets = append(x.packets, h)
	if k := len(x.packets); k > 4*batch && len(x.n.lanes) > 1 {
		x.n.slab.takePackets(x.packets[k-batch:])
		x.packets = x.packets[:k-batch]
	}
}

// Slots is the size of the packet slab: every Handle is below it. A user that keeps
// data of packets in a parallel slab sizes that slab by Slots.
func (n *Network) Slots() int { return int(n.slab.slots) }

// Live counts the packets allocated and not freed.
func (n *Network) Live() int {
	live := 0
	for i := range n.lanes {
		live += n.lanes[i].live
	}
	return live
}

// INT returns the per-hop records that a packet has collected, oldest first, or
// nil if it has none. They are valid until the next call.
func (n *Network) INT(h Handle, f *Frame) *telemetry.Stack { return n.lanes[0].INT(h, f) }

// INT returns the records of a packet, as Network.INT does.
func (x *Lane) INT(h Handle, f *Frame) *telemetry.Stack {
	if f.records == 0 {
		return nil
	}
	return x.path(h, f.records)
}

// path returns the records that a packet has by what entry.tel says of them.
func (x *Lane) path(h Handle, tel uint8) *telemetry.Stack {
	s := &x.stack
	s.N, s.Overflow = tel&recordsMask>>recordsShift, tel&overflowBit != 0
	if s.N == 0 {
		return s
	}
	from := x.n.slab.recordsOf(h)
	for i := range s.Path() {
		f := &from[i]
		s.Hops[i] = telemetry.Hop{TxBytes: units.Bytes(f.txBytes), QLen: units.Bytes(f.qlen), Time: f.time, Rate: x.n.rateOf(f.kind)}
	}
	return s
}

// MoveINT moves the records of one packet to another, whose own are lost. A
// receiver echoes records this way. If the second is of kind telemetry.PerHop, the
// switches on its way append to them.
func (n *Network) MoveINT(from Handle, f *Frame, to Handle, t *Frame) {
	t.records, f.records = f.records, 0
	if k := t.Records(); k > 0 {
		copy(n.slab.recordsOf(to)[:k], n.slab.recordsOf(from)[:k])
	}
}
