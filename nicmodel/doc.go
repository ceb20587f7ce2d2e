// Package nicmodel is a NIC as a cycle-level model: what happens between a
// doorbell and a frame on the wire, and between a frame and a completion in host
// memory.
//
// # The pipeline
//
// Sending, a request passes the stages doorbell, wqe (elements: fetch and decode),
// scheduler (which queue pair's packet is next), payload DMA over PCIe,
// packetiser and mac. Receiving, a packet passes parse and transport; what the
// transport then asks for is a DMA write, a completion (cqe), or a response,
// which goes to the mac. Acknowledgements have a path of their own and never
// wait behind payload that is still being fetched.
//
// Where a preset has processing units, requests pass them behind the scheduler and
// received packets behind the transport: several at a time, one a queue pair.
//
// Each stage serves its work in order and is occupied for a stated number of cycles
// of its clock for each piece (stage). There are no ticks: an idle stage costs
// nothing. At every instant a stage's busy, stalled and idle cycles add up to those
// elapsed, and each stall has a reason. PCIe is two resources, one a direction,
// that carry whole TLPs; each byte on it is counted under a type and a purpose.
//
// A stage is a type with its own state; the fields above that state refer to the parts
// of other stages that it needs. All stages share the chip: engine, network,
// configuration, PCIe. NIC holds the stages, wires them up (NIC.wire) and passes each
// event to its stage (NIC.Handle). Its other methods are the host's interface; many are those of parts that it
// embeds: queue pairs, completion queues, registered memory, probes. way.go has the steps of a request and its packets in
// their order.
//
// Parts that know nothing of queue pairs are packages below this one, each of which imports those before it only: stage (clocks and
// accounts of cycles), pcie (the link and what is at its far end), config, frames (packets in flight), chip (what all parts share),
// icm (the memory on the chip) and memory (regions, translation, data on their way).
//
// The transport is package roce/rc, the same state machine that a user-space
// endpoint runs, and rates are kept by package ratelimiter, the same scheduler
// that the host shim uses: it is the queue-pair scheduler, and paces engines in the
// NIC. Rate limits of queue pairs go through a table (LimiterConfig).
//
// Received packets are in a buffer of a size (ReceiveBufferConfig) until the NIC is done
// with them; when it fills, the NIC pauses the network, drops or marks.
//
// Receives are fetched ahead of the messages that take them (ReceivesConfig). Unreliable
// connections and datagrams pass the same stages. They get no acknowledgements: a request
// is over as its last packet goes on the wire (transport.leftUnreliably).
//
// # Two modes
//
// A plain queue pair sends its requests at line rate, or at one fixed rate; congestion
// control is the host's, which sees a completion a segment. With a Congestion.Engine, a
// rate engine sits inside the NIC and sees every acknowledgement, with the telemetry
// that it brings back. Congestion notification packets, if it wants them, are generated
// by the receiving NIC. Where it chooses paths (cc.Pathed), requests wait until those
// under way have been acknowledged; what the responder sends keeps its path.
//
// Engine events cost nothing, or time of a bounded number of processors with a bounded
// queue (OffloadConfig). Lost packets are sent again by go-back-N or by selective repeat
// (TransportConfig).
//
// # Memory
//
// Regions hold real bytes, of this program or of others (NIC.RegMemory), or are phantoms:
// extents with bounds and keys, but no content, so that a workload of terabytes needs no
// memory. Addresses are the model's own, or the other program's. A payload is copied as its packet is built. Received, it is in memory
// when the host can see its DMA write, and no completion is seen before its data; the
// NIC's own reads and atomics see it at once. DeregMR leaves nothing under way.
//
// Contexts of queue pairs, memory keys' entries and pages' translations are in host
// memory as well, and those used last on the chip (StateConfig, TranslationConfig).
// Entries that commands write stay on the chip as long as all of them fit. A miss is a
// read over PCIe, for a context also a write. The work that missed waits, and other work
// goes on.
//
// # Limits
//
// Contexts of completion queues are always on the chip, and commands take no time. Engines
// in the NIC steer what the NIC sends, and the data of its READs by their requests: the
// data of one request, 16 KiB at most, arrive at the responder's line rate. Costs are
// estimates that keep the relative order of costs right, except where Config says
// otherwise; nothing is fitted to them.
//
// A NIC is not safe for concurrent use.
package nicmodel

//go:generate go run ./internal/presettable
