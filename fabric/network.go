package fabric

import (
	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/units"
)

// Endpoint is what sits at a host's port: a NIC.
type Endpoint interface {
	// Arrive is called when the last bit of a packet has arrived. The endpoint
	// owns h from then on, and frees it or sends it on.
	Arrive(now units.Time, h Handle)
	// Pause is called when the switch has changed which priorities the host may
	// send: those whose bit is set in paused it may not. What is on the wire is
	// not affected. Transmit does not enforce it.
	Pause(now units.Time, paused uint8)
}

// Network is a running network. Make one with New.
type Network struct {
	packets []Packet
	free    Handle
	live    int
	stacks  stackSlab
}

// New builds the network of a topology, with every queue empty, on an engine.
// The seed decides the choice of paths, ECN marks and losses. The topology must
// not be changed afterwards.
func New(e *des.Engine, topo *Topology, cfg Config, seed uint64) (*Network, error) {
	panic("being written")
}

// Topology returns the topology that the network was built from.
func (n *Network) Topology() *Topology { panic("being written") }

// Attach puts an endpoint at a host's port. Packets for a host without one are
// counted as delivered and freed.
func (n *Network) Attach(host int, ep Endpoint) { panic("being written") }

// Transmit starts to send h from a host at now, which is the engine's Now, and
// returns when the wire is free for the next packet; the host must not call
// again before. The packet belongs to the network from then on.
//
// If the wire is still taken by a pause frame of the host's own, the packet
// follows it.
func (n *Network) Transmit(now units.Time, host int, h Handle) (free units.Time) {
	panic("being written")
}

// SendPause tells the switch at a host's port which priorities it must not send
// to the host from now on: those whose bit is set in paused. A frame does that:
// it waits for the packet on the host's uplink, and takes its time.
func (n *Network) SendPause(now units.Time, host int, paused uint8) { panic("being written") }

// Path appends to path the links that a packet of that hash takes from one host
// to another, and returns it.
func (n *Network) Path(path []LinkID, src, dst int, flowHash uint32) []LinkID {
	panic("being written")
}

// HopCount returns how many links a packet crosses from one host to another.
func (n *Network) HopCount(src, dst int) int { panic("being written") }

// BaseDelay returns how long a packet of that Size takes from the first bit out
// of one host to the last bit into another with empty queues: serialisation with
// framing and propagation of each link, and the latency of each switch. Of
// several paths it takes the slowest. Records that switches add on the way are
// not counted; each step is rounded up to a picosecond.
func (n *Network) BaseDelay(src, dst int, size units.Bytes) units.Time { panic("being written") }

// BaseRTT returns BaseDelay of a data packet one way and of its acknowledgement
// the other.
func (n *Network) BaseRTT(src, dst int, data, ack units.Bytes) units.Time { panic("being written") }

// MaxBaseRTT returns the largest BaseRTT of any pair of hosts.
func (n *Network) MaxBaseRTT(data, ack units.Bytes) units.Time { panic("being written") }

// Port is an egress port: what feeds one direction of a link.
type Port struct {
	n  *Network
	id LinkID
}

// Port returns the port that feeds a link.
func (n *Network) Port(l LinkID) Port { return Port{n, l} }

// Name returns the link's name, such as "tor0->h3".
func (p Port) Name() string { panic("being written") }

// Queue returns the bytes that wait at the port now, in all its queues. The
// packet on the wire is not among them.
func (p Port) Queue() units.Bytes { panic("being written") }

// QueueOf returns the bytes that wait in the queue of one priority.
func (p Port) QueueOf(priority int) units.Bytes { panic("being written") }

// Stats returns the port's counters.
func (p Port) Stats() PortStats { panic("being written") }

// PortStats are the counters of an egress port since the start.
type PortStats struct {
	TxBytes   units.Bytes // frames whose sending has begun, without framing
	TxPackets uint64
	Busy      units.Time // time spent sending, framing and pause frames included
	MaxQueue  units.Bytes
	Drops     uint64 // packets that found no buffer
	DropBytes units.Bytes
	Marks     uint64 // packets marked CE
	Lost      uint64 // packets lost on the link by a Fault
	// Paused is how long each priority was forbidden to send, whether or not it
	// had something to send.
	Paused [MaxPriorities]units.Time
	// PauseFrames counts those that this port sent.
	PauseFrames uint64
}

// Totals are the counters of a network since the start.
type Totals struct {
	// PacketHops counts traversals of a link by a packet, pause frames apart.
	PacketHops uint64
	Sent       uint64 // packets given to Transmit
	Delivered  uint64 // packets given to endpoints
	Dropped    uint64 // packets that found no buffer
	Lost       uint64 // packets lost by a Fault
}

// Totals returns the counters of the network.
func (n *Network) Totals() Totals { panic("being written") }
