// Package fabric is a packet-level model of a datacentre network in simulated time:
// hosts' ports, links, switches with shared buffers, and the topologies that join
// them. It runs on package des and knows nothing of RDMA: only the Endpoints at its
// two ends interpret what a packet carries.
//
// # The model
//
// A Topology is a graph of hosts and switches; New turns it into a Network. Links
// are full duplex; each direction is an egress port with a rate, a propagation
// delay and the framing its bytes need on the wire. Switches store and forward: a
// switch handles a packet when its last bit has arrived, plus the switch's
// forwarding latency. All packets have the same latency, so it is part of the
// arrival and costs no event.
//
// Switches queue at the output. An egress port has one FIFO for each priority,
// served by strict priority, deficit round robin, or both; all queues of a
// switch share its buffer, by Dynamic Thresholds (Choudhury and Hahne, 1998)
// for lossy priorities and with priority flow control (IEEE 802.1Qbb) for
// lossless ones. As a packet starts on the wire the switch may mark it (ECN) and
// write telemetry on it. Paths are shortest by hops; where several are equally
// short a hash of the packet's FlowHash chooses, with a salt for each switch.
//
// A packet leaves the buffer as its first bit leaves the port. One that finds
// its port idle is never queued.
//
// # Limits
//
// Pause frames hold until revoked: their timers and refreshes are not modelled.
// InfiniBand's credits are not modelled; on an InfiniBand link a lossless
// priority is run by pause frames, too. There is no cut-through switching and no
// contention inside a switch. Links fail as Config.Failures says, and all
// switches know of it Config.Reroute later: there is no routing protocol.
//
// # Events and determinism
//
// Each host and each switch is a destination of events of its own, and each
// direction of a link has its own sources, so that the order of simultaneous
// events does not depend on the order in which components run. At one instant a
// switch first serves its ports and then takes arrivals. A packet costs one
// event a hop, and a second one where it has to queue; of the packets in flight
// on a link only the first has an event.
//
// # Divided networks
//
// No node can learn what another does before the delay of a link has passed. Divide makes
// a network run node by node in windows of that length, in any order and on any number of
// workers, with bit-identical results. It is also faster on one worker: a node's memory
// stays in the nearest cache during a window, and most of its events need no queue. Where
// links join nodes of two sides, these can take turns in windows twice as long
// (Division.Alternate). An
// Endpoint that touches no other host, and has its own events as alarms (Waker), works in
// either kind of network. The engine's events see the network between windows, complete
// up to their time. Package bench/internal/windows drives it.
//
// Nothing here is safe for concurrent use: a Network belongs to the goroutine of
// its engine. Of a divided one, Run may be called for different nodes with different
// lanes at a time.
package fabric
