package nicmodel

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Frames is what the NICs of one network, but not the fabric, know of the packets
// in flight: their transport headers, and their payload where it is real. It is a
// slab parallel to the fabric's, with the same handles. All NICs of a network share
// one, from all of its lanes: it is in blocks that never move.
type Frames struct {
	net    *fabric.Network
	blocks atomic.Pointer[[]*[blockFrames]frame]

	mu      sync.Mutex // for more blocks, and for payloads
	buffers [][]byte
	idle    []uint32
}

const (
	blockShift  = 9
	blockFrames = 1 << blockShift
)

// NewFrames returns the slab of a network.
func NewFrames(net *fabric.Network) *Frames {
	s := &Frames{net: net}
	s.blocks.Store(&[]*[blockFrames]frame{})
	return s
}

type frame struct {
	desc           rc.Descriptor
	wire           fabric.Frame // to be sent, or as it arrived
	srcQPN, dstQPN uint32
	qkey           uint32 // of a datagram
	resets         uint8  // of the queue pair when it was built
	room           uint8  // its class before the wire
	buffer         uint32 // of the payload, 0 where it is phantom
	next           fabric.Handle
	ready          units.Time // when the packetiser is done with it
	sentAt         units.Time // time of its first bit on the wire
	arrived        units.Time // time of its last bit at its receiver

	// An acknowledgement's echo of what the packet that it answers met.
	echo echo
}

// at returns a frame by its packet.
func (s *Frames) at(h fabric.Handle) *frame {
	return &(*s.blocks.Load())[h>>blockShift][h&(blockFrames-1)]
}

// has makes sure that there is a frame for a packet.
func (s *Frames) has(h fabric.Handle) {
	if int(h>>blockShift) >= len(*s.blocks.Load()) {
		s.grow(h)
	}
}

// grow makes blocks up to that of a packet.
func (s *Frames) grow(h fabric.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(*s.blocks.Load())
	for len(all) <= int(h>>blockShift) {
		all = append(all, new([blockFrames]frame))
	}
	s.blocks.Store(&all)
}

// alloc returns a new packet and its frame.
func (c *chip) alloc() (fabric.Handle, *frame) {
	h := c.lane.Alloc()
	c.frames.has(h)
	f := c.frames.at(h)
	if f.buffer != 0 { // the fabric dropped the packet, and knows of no payload
		c.frames.giveBack(f.buffer)
	}
	f.wire, f.buffer, f.next, f.echo = fabric.Frame{}, 0, 0, echo{}
	return h, f
}

// release returns a packet and its payload.
func (c *chip) release(h fabric.Handle) {
	f := c.frames.at(h)
	if f.buffer != 0 {
		c.frames.giveBack(f.buffer)
		f.buffer = 0
	}
	c.lane.Free(h)
}

// payload returns room for n bytes of payload, and its number.
func (s *Frames) payload(n int) (uint32, []byte) {
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

// bytes returns the payload of that number.
func (s *Frames) bytes(buffer uint32) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffers[buffer-1]
}

// giveBack returns the room of a payload.
func (s *Frames) giveBack(buffer uint32) {
	s.mu.Lock()
	s.idle = append(s.idle, buffer)
	s.mu.Unlock()
}

const (
	// frameOverhead is what RoCEv2 over IPv4 adds to the transport headers and
	// the payload: Ethernet 14, IPv4 20, UDP 8, ICRC 4, FCS 4.
	frameOverhead = 14 + 20 + 8 + 4 + 4
	minFrame      = 64
	// reflectedDelayBytes is Poseidon's echo of the forward path's delay
	// (section 5.1).
	reflectedDelayBytes = 2
)

// FrameBytes returns the size of a packet from MAC header to FCS without
// telemetry. Payload is padded to four bytes.
func FrameBytes(op ib.Opcode, payload int) units.Bytes {
	return units.Bytes(max(minFrame, frameOverhead+rc.HeaderBytes(op)+(payload+3)&^3))
}

// infiniBandOverhead is what InfiniBand's own link adds: local route header 8, ICRC
// 4, VCRC 2 (IBA 7.7). Its line code has no smallest packet and no gap.
const infiniBandOverhead = 8 + 4 + 2

// packetBytes is FrameBytes for a port of the given framing; of InfiniBand without
// global route header, from the local one to the VCRC.
func packetBytes(f fabric.Framing, op ib.Opcode, payload int) units.Bytes {
	if f == fabric.InfiniBand {
		return units.Bytes(infiniBandOverhead + rc.HeaderBytes(op) + (payload+3)&^3)
	}
	return FrameBytes(op, payload)
}

// fifo is a queue of frames, linked through the slab.
type fifo struct {
	head, tail fabric.Handle
	n          int
}

func (q *fifo) push(s *Frames, h fabric.Handle) {
	s.at(h).next = 0
	if q.head == 0 {
		q.head = h
	} else {
		s.at(q.tail).next = h
	}
	q.tail = h
	q.n++
}

func (q *fifo) pop(s *Frames) fabric.Handle {
	h := q.head
	q.head = s.at(h).next
	q.n--
	return h
}

// Transport returns a packet's transport headers and the queue pair that it goes to.
// The header is the packet's own: it is read-only, and valid while the packet is in
// flight.
func (s *Frames) Transport(h fabric.Handle) (header *rc.Header, destQP uint32) {
	if int(h>>blockShift) >= len(*s.blocks.Load()) {
		return nil, 0
	}
	f := s.at(h)
	return &f.desc.Header, f.dstQPN
}
