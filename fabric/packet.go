package fabric

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Handle names a packet of a Network. Handles are dense and small: they index a
// slab, and the one freed last is handed out first. 0 is no packet.
type Handle uint32

// Flags are the marks that a packet carries.
type Flags uint8

// Flags. ECT says that the sender understands congestion marks; switches mark
// only such packets with CE. EIN is Pulser's explicit incast notification.
const (
	ECT Flags = 1 << iota
	CE
	EIN
)

// Packet is what the network knows of a packet. The sender fills in Size, Src,
// Dst, FlowHash, Priority, Flags and Telemetry; switches change Size, Flags,
// MaxDelay and Hops.
//
// It fits a cache line and holds no pointer.
type Packet struct {
	// Size is the bytes of the frame from MAC header to FCS, which is what
	// buffers hold and counters count; links add their own framing. It includes
	// what the sender's end of telemetry takes (telemetry.MaxDelayBytes or
	// PerHopBaseBytes); each switch that adds a per-hop record adds
	// telemetry.PerHopBytes.
	Size     int32
	Src, Dst int32  // host indices
	FlowHash uint32 // entropy for the choice of path

	// MaxDelay is the largest queueing delay of any hop so far, if Telemetry is
	// telemetry.MaxDelay.
	MaxDelay units.Time

	// User is the endpoints': the network neither reads nor writes it.
	User uint64

	at      units.Time // of enqueueing; on a link, of arrival; freed if free
	next    Handle     // in a queue, on a link or in the free list
	gap     uint32     // on a link, from at to that of next, or farGap
	ingress uint32     // the link it came to this switch by
	leaf    int32      // number of the switch that Dst is attached to
	stack   uint32     // its per-hop records, 0 if none

	Priority  uint8 // 0 to Config.Priorities-1
	Flags     Flags
	Telemetry telemetry.Kind
	Hops      uint8 // switches passed so far
}

// freed marks a free slot of the slab in Packet.at.
const freed units.Time = -1

// farGap is a Packet.gap of that many picoseconds or more.
const farGap = math.MaxUint32

// Alloc returns a new packet, all zero.
func (n *Network) Alloc() Handle {
	n.live++
	if h := n.free; h != 0 {
		p := &n.packets[h]
		n.free = p.next
		*p = Packet{}
		return h
	}
	n.packets = append(n.packets, Packet{})
	return Handle(len(n.packets) - 1)
}

// Packet returns the packet of that handle. The pointer is valid until the next
// Alloc.
func (n *Network) Packet(h Handle) *Packet { return &n.packets[h] }

// Free returns a packet and its per-hop records. It panics if the packet is
// already free: whoever frees twice will sooner or later free another's packet.
func (n *Network) Free(h Handle) {
	p := &n.packets[h]
	if p.at == freed {
		panic(fmt.Sprintf("fabric: packet %d freed twice", h))
	}
	if p.stack != 0 {
		n.stacks.free(p.stack)
	}
	p.at, p.next = freed, n.free
	n.free = h
	n.live--
}

// Slots is the size of the packet slab: every Handle is below it. Who keeps data
// beside packets in a slab of their own sizes it by this.
func (n *Network) Slots() int { return len(n.packets) }

// Live counts the packets allocated and not freed.
func (n *Network) Live() int { return n.live }

// INT returns the per-hop records that a packet has collected, oldest first, or
// nil if it has none. They are valid until the packet is freed or its records
// are moved.
func (n *Network) INT(h Handle) *telemetry.Stack {
	if s := n.packets[h].stack; s != 0 {
		return n.stacks.at(s)
	}
	return nil
}

// MoveINT hands the records of one packet to another, whose own are lost: so a
// receiver echoes them without a copy. If the second is of kind
// telemetry.PerHop, the switches on its way append to them.
func (n *Network) MoveINT(from, to Handle) {
	f, t := &n.packets[from], &n.packets[to]
	if t.stack != 0 {
		n.stacks.free(t.stack)
	}
	t.stack, f.stack = f.stack, 0
}

// stackSlab holds per-hop records in chunks that never move, numbered from 1.
type stackSlab struct {
	chunks []*[stackChunk]telemetry.Stack
	idle   []uint32
}

const stackChunk = 256

func (s *stackSlab) at(i uint32) *telemetry.Stack {
	i--
	return &s.chunks[i/stackChunk][i%stackChunk]
}

func (s *stackSlab) alloc() uint32 {
	if len(s.idle) == 0 {
		s.chunks = append(s.chunks, new([stackChunk]telemetry.Stack))
		for i := len(s.chunks) * stackChunk; i > (len(s.chunks)-1)*stackChunk; i-- {
			s.idle = append(s.idle, uint32(i))
		}
	}
	i := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	t := s.at(i)
	t.N, t.Overflow = 0, false
	return i
}

func (s *stackSlab) free(i uint32) { s.idle = append(s.idle, i) }
