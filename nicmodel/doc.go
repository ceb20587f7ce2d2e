// Package nicmodel is a NIC as a cycle-level model: what happens between a
// doorbell and a frame on the wire, and between a frame and a completion in host
// memory.
//
// # The pipeline
//
// Sending, a request passes the stages doorbell, wqe (fetch and decode),
// scheduler (which queue pair's packet is next), payload DMA over PCIe,
// packetiser and mac. Receiving, a packet passes parse and transport; what the
// transport then asks for is a DMA write, a completion (cqe), or a response,
// which goes to the mac. Acknowledgements have a path of their own and never
// wait behind payload that is still being fetched.
//
// Each stage serves its work in order and is occupied for a stated number of
// cycles of its clock for each piece (Stage). Nothing is ticked: a stage that has
// nothing to do costs nothing. At every instant a stage's busy, stalled and idle
// cycles add up to those elapsed, and each stall has a reason. PCIe is two
// resources, one a direction, that carry whole TLPs; each byte on it is counted
// under a purpose.
//
// The transport is package roce/rc, the same state machine that a user-space
// endpoint runs, and rates are kept by package ratelimiter, the same scheduler
// that the host shim uses: it is the queue-pair scheduler and the hardware rate
// limiter in one.
//
// # Two modes
//
// A plain queue pair sends what it is given at line rate, or at one fixed rate;
// congestion control is the host's, which sees a completion a segment. With a
// Congestion.Engine, a rate engine sits inside the NIC and sees every
// acknowledgement, with the telemetry that it brings back.
//
// # Memory
//
// Regions hold real bytes, or are phantoms: extents with bounds and keys, but no
// content, so that a workload of terabytes needs no memory. Addresses are the
// model's own. A payload is copied as its packet is built, and placed as it
// leaves the transport, which is the DMA write's latency before a real
// processor would see it; the completion that announces it is on time.
//
// # Limits
//
// Caches of contexts and translations always hit. The receive path does not run
// out of buffer, so the NIC never sends pause frames. Engines in the NIC steer
// what the NIC itself sends; the data of READs come at the peer's line rate and
// are paced by the host's shim. Costs are estimates that keep the order of
// things right, except where Config says otherwise; nothing is fitted to them.
//
// A NIC is not safe for concurrent use.
package nicmodel
