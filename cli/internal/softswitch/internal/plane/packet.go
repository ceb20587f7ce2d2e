package plane

import "github.com/sluice-rdma/sluice/units"

// Headroom is the number of bytes in front of a frame that Next returns, for what a
// driver has to put there.
const Headroom = 16

// Packet is a frame in the switch.
type Packet struct {
	next *Packet
	buf  []byte
	n    int // of the frame, behind the headroom; with a program, until egress, what it takes in a queue
	// state passes from a program's ingress half to its egress half; nil without a
	// program, and behind the egress half.
	state any

	meta Meta
	mark bool       // it met a queue beyond the ECN threshold
	left units.Time // when its last bit had left the port
}

// Bytes is the frame.
func (p *Packet) Bytes() []byte { return p.buf[Headroom : Headroom+p.n] }

// Buffer is the frame with its headroom.
func (p *Packet) Buffer() []byte { return p.buf[:Headroom+p.n] }

// put makes the frame a copy of b, and reports whether it fits.
func (p *Packet) put(b []byte) bool {
	if len(b) > len(p.buf)-Headroom {
		return false
	}
	p.n = copy(p.buf[Headroom:], b)
	return true
}

// fifo is a queue of packets.
type fifo struct {
	first, last *Packet
	packets     int
	bytes       units.Bytes
}

func (f *fifo) push(p *Packet) {
	p.next = nil
	if f.last == nil {
		f.first = p
	} else {
		f.last.next = p
	}
	f.last = p
	f.packets++
	f.bytes += units.Bytes(p.n)
}

// pop takes the first packet off; there is one.
func (f *fifo) pop() *Packet {
	p := f.first
	if f.first = p.next; f.first == nil {
		f.last = nil
	}
	p.next = nil
	f.packets--
	f.bytes -= units.Bytes(p.n)
	return p
}

// pool keeps packets that are not in use. It grows to as many as were in the
// switch at once, which the ports' buffers bound.
type pool struct {
	free *Packet
	size int // of a packet's memory
}

func (l *pool) get() *Packet {
	p := l.free
	if p == nil {
		return &Packet{buf: make([]byte, l.size)}
	}
	l.free, p.next = p.next, nil
	return p
}

func (l *pool) put(p *Packet) {
	p.state = nil
	p.next, l.free = l.free, p
}
