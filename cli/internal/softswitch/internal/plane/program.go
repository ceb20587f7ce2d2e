package plane

import "github.com/sluice-rdma/sluice/units"

// Meta is the switch's knowledge of a packet besides its bytes.
type Meta struct {
	IngressPort, EgressPort    uint16
	Length                     units.Bytes // of the frame that came
	IngressTime                units.Time
	EnqueueTime, DequeueTime   units.Time
	EnqueueDepth, DequeueDepth Depth // of the port's queue, this packet not counted
}

// Depth is a queue's length.
type Depth struct {
	Packets int
	Bytes   units.Bytes
}

// Copy is a packet that a program wants queued.
type Copy struct {
	Port  uint16
	Len   units.Bytes // that it takes in the queue
	State any         // for Egress
}

// Program is the packets' way through a programmable switch, a half before the
// queues and one behind. Its methods are called one at a time; slices that it
// returns hold until the next call.
type Program interface {
	// Ingress decides a frame's fate, and does not keep the frame. No copies are a
	// drop.
	Ingress(frame []byte, m *Meta) []Copy
	// Egress finishes a copy that leaves its queue, and returns the frame, nil if
	// it is dropped, and further copies to queue.
	Egress(state any, m *Meta) (frame []byte, more []Copy)
	// Release frees a copy that no queue took.
	Release(state any)
}
