package frames

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Slab is the knowledge of the NICs of one network, not of the fabric, about the packets
// in flight: their transport headers, and their payload where it is real. It is a
// slab parallel to the fabric's, with the same handles. All NICs of a network share
// one, from all of its lanes: it is in blocks that never move.
type Slab struct {
	net    *fabric.Network
	blocks atomic.Pointer[[]*[blockFrames]Frame]

	mu      sync.Mutex // for more blocks, and for payloads
	buffers [][]byte
	idle    []uint32
}

const (
	blockShift  = 9
	blockFrames = 1 << blockShift
)

// New returns the slab of a network.
func New(net *fabric.Network) *Slab {
	s := &Slab{net: net}
	s.blocks.Store(&[]*[blockFrames]Frame{})
	return s
}

// Frame is the NICs' knowledge of one packet.
type Frame struct {
	Desc           rc.Descriptor
	Wire           fabric.Frame // to be sent, or as it arrived
	SrcQPN, DstQPN uint32
	QKey           uint32 // of a datagram
	Resets         uint8  // of the queue pair when it was built
	IPv6           bool   // it goes by IPv6
	Room           uint8  // its class before the wire
	Buffer         uint32 // of the payload, 0 where it is phantom
	Next           fabric.Handle
	Ready          units.Time // when the packetiser is done with it
	SentAt         units.Time // time of its first bit on the wire
	Arrived        units.Time // time of its last bit at its receiver

	// An acknowledgement carries the echo of its packet's way.
	Echo Echo
}

// At returns a frame by its packet.
func (s *Slab) At(h fabric.Handle) *Frame {
	return &(*s.blocks.Load())[h>>blockShift][h&(blockFrames-1)]
}

// Has makes sure that there is a frame for a packet.
func (s *Slab) Has(h fabric.Handle) {
	if int(h>>blockShift) >= len(*s.blocks.Load()) {
		s.grow(h)
	}
}

// grow makes blocks up to that of a packet.
func (s *Slab) grow(h fabric.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(*s.blocks.Load())
	for len(all) <= int(h>>blockShift) {
		all = append(all, new([blockFrames]Frame))
	}
	s.blocks.Store(&all)
}

// Payload returns room for n bytes of payload, and its number.
func (s *Slab) Payload(n int) (uint32, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		s.buffers = append(s.buffers, nil)
		s.idle = append(s.idle, uint32(len(s.buffers)))
	}
	i := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	if cap(s.buffers[i-1]) < n {
		s.buffers[i-1] = make([]byte, max(n, 4096))
	}
	return i, s.buffers[i-1][:n]
}

// Bytes returns the payload of that number.
func (s *Slab) Bytes(buffer uint32) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffers[buffer-1]
}

// GiveBack returns the room of a payload.
func (s *Slab) GiveBack(buffer uint32) {
	s.mu.Lock()
	s.idle = append(s.idle, buffer)
	s.mu.Unlock()
}

// Payloads counts the buffers of payloads: all, free ones and those of frames. The others' data
// are on their way to memory.
func (s *Slab) Payloads() (all, free, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, block := range *s.blocks.Load() {
		for i := range block {
			if block[i].Buffer != 0 {
				held++
			}
		}
	}
	return len(s.buffers), len(s.idle), held
}

const (
	// frameOverhead is RoCEv2's addition over IPv4 to the transport headers and
	// the payload: Ethernet 14, IPv4 20, UDP 8, ICRC 4, FCS 4.
	frameOverhead = 14 + 20 + 8 + 4 + 4
	// MinFrame is the shortest frame of Ethernet.
	MinFrame = 64
	// ReflectedDelayBytes is Poseidon's echo of the forward path's delay
	// (section 5.1).
	ReflectedDelayBytes = 2
)

// FrameBytes returns the size of a packet from MAC header to FCS without
// telemetry. Payload is padded to four bytes.
func FrameBytes(op ib.Opcode, payload int) units.Bytes {
	return units.Bytes(max(MinFrame, frameOverhead+rc.HeaderBytes(op)+(payload+3)&^3))
}

// infiniBandOverhead is InfiniBand's link overhead: local route header 8, ICRC
// 4, VCRC 2 (IBA 7.7). Its line code has no smallest packet and no gap.
const infiniBandOverhead = 8 + 4 + 2

// PacketBytes is FrameBytes for a port of the given framing; of InfiniBand without
// global route header, from the local one to the VCRC.
func PacketBytes(f fabric.Framing, op ib.Opcode, payload int) units.Bytes {
	if f == fabric.InfiniBand {
		return units.Bytes(infiniBandOverhead + rc.HeaderBytes(op) + (payload+3)&^3)
	}
	return FrameBytes(op, payload)
}

// ipv6Bytes are what IPv6's header has more than IPv4's: with it no frame is shorter than MinFrame.
const ipv6Bytes = 20

// IPv6PacketBytes is PacketBytes of a packet over IPv6, which is the same with InfiniBand's framing.
func IPv6PacketBytes(f fabric.Framing, op ib.Opcode, payload int) units.Bytes {
	if f == fabric.InfiniBand {
		return PacketBytes(f, op, payload)
	}
	return units.Bytes(frameOverhead + ipv6Bytes + rc.HeaderBytes(op) + (payload+3)&^3)
}

// FIFO is a queue of frames, linked through the slab.
type FIFO struct {
	Head, tail fabric.Handle
	n          int
}

// Push puts a frame behind the others.
func (q *FIFO) Push(s *Slab, h fabric.Handle) {
	s.At(h).Next = 0
	if q.Head == 0 {
		q.Head = h
	} else {
		s.At(q.tail).Next = h
	}
	q.tail = h
	q.n++
}

// Pop takes the first frame out.
func (q *FIFO) Pop(s *Slab) fabric.Handle {
	h := q.Head
	q.Head = s.At(h).Next
	q.n--
	return h
}

// Transport returns a packet's transport headers and the queue pair that it goes to.
// The header is the packet's own: it is read-only, and valid while the packet is in
// flight.
func (s *Slab) Transport(h fabric.Handle) (header *rc.Header, destQP uint32) {
	if int(h>>blockShift) >= len(*s.blocks.Load()) {
		return nil, 0
	}
	f := s.At(h)
	return &f.Desc.Header, f.DstQPN
}

// IsResponse reports whether a packet is what a responder sends.
func IsResponse(op ib.Opcode) bool {
	switch op {
	case ib.Acknowledge, ib.AtomicAcknowledge, ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly, ib.CNP:
		return true
	}
	return false
}

// CNPBytes is the size of a congestion notification packet from MAC header to FCS:
// behind the BTH, of 12 bytes, come 16 reserved ones (IBA annex A17).
const CNPBytes units.Bytes = frameOverhead + 12 + 16

// IPv6CNPBytes is CNPBytes over IPv6.
const IPv6CNPBytes = CNPBytes + ipv6Bytes

// Echo is a responder's report about the packets that it has received since its last
// report.
type Echo struct {
	SentAt   units.Time // of the newest
	Arrived  units.Time // when the newest did
	Held     units.Time // in an acknowledgement: since then
	MaxDelay units.Time // of any
	HasDelay bool
	ECN, EIN bool
	Circuit  bool // the newest
}
