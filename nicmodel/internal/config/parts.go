package config

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// State describes the memory on the chip for what the NIC keeps in host memory and needs
// for its work (the interconnect context memory of the mlx4 and mlx5 drivers): contexts of queue pairs, the
// resources with which they answer Reads and atomics, memory keys, and pages' entries, and elements of send queues as far as these have no memory of
// their own. All of them share it, by lines of 64 bytes.
//
// What needs an entry that is not there waits for it, and so does what comes behind it for
// that queue pair. Others go on: packets received at once, those to send as far as they are not behind it
// in the packetiser, elements as far as they are not in stage wqe. If as many reads of entries are under way
// as can be, receiving and the scheduler stop until that changes.
type State struct {
	// Bytes is its size; at least 64 bytes for each way. 0 is no limit.
	Bytes units.Bytes `yaml:"bytes" range:"[64B,1GiB]" zero:"no limit"`
	// Elements is the memory beside it for elements of Reads and atomics under way, as many of
	// a queue pair as it may have outstanding, until what their answers bring has left; at least 64 bytes for each way. 0 leaves them in the other.
	Elements units.Bytes `yaml:"elements" range:"[64B,1GiB]" zero:"one memory"`
	// Posted has the elements of all that is posted in the memory of elements, and none in the other: of a Write or a Send until its last packet
	// is made, of a Read or an atomic as above, from when they come.
	Posted bool `yaml:"posted"`
	// Ways is how many lines a set has, of which any goes.
	Ways int `yaml:"ways" range:"[0,64]"`
	// Fetches is how many entries are read at a time, and how many elements for answers; 0 is no limit. What needs an entry that is
	// being read waits for that read.
	Fetches int `yaml:"fetches" range:"[1,2^16]" zero:"no limit"`
	// Context is what the context of a queue pair takes, bytes. Each use changes it, so that
	// a line of it that is displaced is written back.
	Context int `yaml:"context" range:"[1,4096]"`
}

// Translation describes what the NIC has to know of memory for each
// piece of a payload, of a packet that it sends or receives: of the region, by its key
// (the drivers' MPT, or mkey), and where its pages lie (MTT). Both tables are in host
// memory, and on the chip too as `state` says. Pages' entries have 8 bytes and are read by cache lines of eight.
//
// A transfer whose entries are not on the chip waits for them, first the key's, then the
// pages', and so does the acknowledgement of what it brought, with those behind it. Others
// go on: only packets to send that are behind it in the packetiser, and
// writes to host memory, which are seen in order, wait with it. Queues need no entries: their
// pages are named by their contexts.
type Translation struct {
	// PageSize is that of the host's memory; 0 is 4 KiB.
	PageSize units.Bytes `yaml:"page_size" range:"[4KiB,1TiB]" power:"2" zero:"the usual one"`
	// HugePageSize is that of regions registered with ib.AccessHugeTLB, as those of
	// scenarios are; 0 is 2 MiB.
	HugePageSize units.Bytes `yaml:"huge_page_size" range:"[4KiB,1TiB]" power:"2" zero:"the usual one"`
}

const (
	usualPage     = 4 * units.KiB
	usualHugePage = 2 * units.MiB
)

// PageOf returns the page size of a region with that access.
func (c *Translation) PageOf(access ib.AccessFlags) uint64 {
	size, usual := c.PageSize, usualPage
	if access&ib.AccessHugeTLB != 0 {
		size, usual = c.HugePageSize, usualHugePage
	}
	if size == 0 {
		size = usual
	}
	return uint64(size)
}

// Units describes processing units that work side by side, each on one packet
// at a time: of requests that the scheduler has chosen, and of what is received. A machine's
// own requests and what it answers share them. The packets of one queue pair in one direction
// are worked on one after the other, since each goes by the state that the one before has left:
// many queue pairs keep all units busy, one of them no more than one each way (Kalia et al.,
// ATC 2016, sections 2.1 and 3, figure 11b).
type Units struct {
	// Units is how many there are; 0 is none, where packets take no time in them.
	Units int `yaml:"units" range:"[1,2^12]" zero:"none"`
	// Request is how long a packet of a request occupies a unit of the NIC that sends it, and one of the
	// NIC that receives it, in cycles of the core clock, from 1. What the latter answers is made with it.
	Request int64 `yaml:"request" range:"[0,2^20]"`
	// Answer is what an acknowledgement, an atomic's answer or a packet of a Read's response takes where it
	// arrives, in cycles of the core clock, from 1.
	Answer int64 `yaml:"answer" range:"[0,2^20]"`
	// Read is what a Read's request takes beyond that where it arrives, in cycles of the core clock.
	Read int64 `yaml:"read" range:"[0,2^20]"`
	// Replay has the packet of a Read or an atomic whose element is not on the chip, a request or an answer, take its time
	// of a unit again when that is there: it has taken its place among the outstanding ones, gives it back and begins anew. An estimate of
	// what happens; what it costs is from Kalia et al. (ATC 2016, figure 13).
	Replay bool `yaml:"replay"`
}

// Cycles returns what a received packet takes.
func (c *Units) Cycles(op ib.Opcode) int64 {
	switch o := op.Operation(); {
	case o == ib.ReadRequest.Operation():
		return c.Request + c.Read
	case o >= ib.SendLastInv.Operation(), o <= ib.ReadRequest.Operation(), o == ib.CompareSwap.Operation(), o == ib.FetchAdd.Operation():
		return c.Request
	}
	return c.Answer
}

// Atomics describes the unit that performs atomic operations on host memory:
// it reads the word over PCIe, changes it and writes it back, with the word locked
// from the read until the write has left. Words whose addresses have the same lowest bits
// share a lock, and wait for each other (Kalia et al., ATC 2016, figure 14). What waits for its lock keeps its place in the unit.
// While there are operations in the unit, READs that arrive pass it in order too: behind those that wait for a place, and through the
// lock of their address (figure 10 there, where READs beside atomics lose as much time as the atomics take; Husky, NSDI 2023, has READs fall
// to a twentieth beside a tenant's compare-and-swaps).
type Atomics struct {
	// InFlight is how many operations there are at a time; 0 is no unit, where they
	// take no time.
	InFlight int `yaml:"in_flight" range:"[1,2^16]" zero:"no unit"`
	// Locks is how many there are, a power of two: as many of the lowest bits of a word's
	// address choose its lock; 1 is one for all (ConnectX-3: section 5.4 there). With 4096 words a multiple of 4 KiB apart share one. Words are
	// aligned to eight bytes, so that every eighth lock is used.
	Locks int `yaml:"locks"`
	// Cycles is what the change of a word takes, in cycles of the core clock.
	Cycles int64 `yaml:"cycles" range:"[0,2^20]"`
}

// ReceiveBuffer describes the memory of the port that received packets are in: from
// the wire until the transport has handled them and what they caused, data and completions,
// has left over PCIe. What a NIC can't take on, for whatever reason, piles up there.
//
// Where the network runs a priority without loss, the NIC pauses it (IEEE 802.1Qbb) while
// the buffer is fuller than XOff. A packet for which there is no room is dropped.
type ReceiveBuffer struct {
	// Bytes is its size; 0 is no limit.
	Bytes int `yaml:"bytes" range:"[16384,2^30]" zero:"no limit"`
	// XOff is the fill, in bytes, from which on the lossless priorities are paused, and
	// packets of the others dropped; 0 leaves as much room as may arrive until a pause takes effect,
	// but at most half of the buffer. Without lossless priorities it is the size.
	XOff int `yaml:"xoff" range:"[0,2^30]"`
	// XOn is the fill at which they go on; 0 is XOff less the longest packet.
	XOn int `yaml:"xon" range:"[0,2^30]"`
	// Mark is the fill, in bytes, from which on packets that can be (ECT) are marked as by
	// a congested switch, so that DCQCN's notifications and other marks tell the senders;
	// 0 marks none.
	Mark int `yaml:"mark" range:"[0,2^30]"`
}

// Queues is the sizes of queues between stages that no other parameter bounds. A full one
// holds up what feeds it; docs/nic.md lists all queues.
type Queues struct {
	// Doorbells is how many doorbells and elements that the host stores into it the NIC has room for. A store that finds none waits in
	// the host, and those behind it. 0 is no bound.
	Doorbells int `yaml:"doorbells" range:"[1,2^16]" zero:"no bound"`
	// Acks is how many acknowledgements and notifications of each priority wait for the wire. Beyond
	// them a queue pair owes its acknowledgement, and the newest acknowledges for all. 0 is no bound.
	Acks int `yaml:"acks" range:"[1,2^16]" zero:"no bound"`
	// Completions is how many completions and events wait for PCIe. Stage cqe stalls while there is no room, and
	// packets that completions are made for stay in the receive buffer. 0 is no bound.
	Completions int `yaml:"completions" range:"[1,2^16]" zero:"no bound"`
}

// Receives describes how the elements of receive queues come to the NIC.
//
// The host writes receives to a ring in its memory, and how many there have been to a
// doorbell record beside it, as mlx5's driver does: no store goes to the NIC, which
// reads the record when it knows of no more receives. It fetches them ahead of the
// messages, and a packet that needs one which is not there waits for it, with the
// requests of its queue pair behind it.
type Receives struct {
	// Prefetch is how many receives of a queue the NIC holds or has asked for, at most. With
	// 0 all are at hand without being fetched.
	Prefetch int `yaml:"prefetch" range:"[1,2^12]" zero:"receives at hand"`
	// Batch is how many receives one read fetches, at most: 1 to prefetch.
	Batch int `yaml:"batch"`
}

// Compression describes the compression of completions, as mlx5 devices have it
// (mlx5dv_create_cq, MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE; the kernel's mlx5e). Those
// that follow each other and differ in little are one session: the NIC keeps them until
// the session ends, and then writes what they share once, in an element called the
// title, and of each completion a mini element of 8 bytes: which request, how many
// bytes. An array of 8 of these takes the place of an element.
//
// A session ends with a completion that is not like the others, at the largest
// number, or when the timeout has passed since its first. Like each other are successes of one
// queue pair, all of its requests or all of receives by the same operation (of
// datagrams, from the same queue pair), without
// immediate data, an invalidated key or a solicited event. A mini element has no room
// for a timestamp: a queue with timestamps is not compressed.
type Compression struct {
	// MaxNum is how many completions a session has at most; 0 is no compression.
	MaxNum int `yaml:"max_num" range:"[2,1024]" zero:"no compression"`
	// Timeout ends a session so long after its first completion; up to 1 ms.
	Timeout units.Time `yaml:"timeout"`
}

// SendTime describes time-scheduled sends (DPDK's mlx5 guide, "Tx scheduling"): an element in the send queue
// has the NIC wait for a time of its clock before it goes on in that queue.
//
// The clock is the simulation's: it is taken for disciplined. What is behind the wait goes through the NIC as other requests do, so
// that it is on the wire later by that way, which the guide has software subtract (tx_skew).
type SendTime struct {
	// Tick is the time between two looks at what waits: a wait ends at the first from its time
	// on. 0 is a NIC that does not schedule by time.
	Tick units.Time `yaml:"tick" range:"[1ps,1ms]" zero:"no send times"`
	// Jitter is how much later at most a wait ends, evenly distributed: where firmware has to keep up.
	Jitter units.Time `yaml:"jitter" range:"[0,1ms]"`
}

func (c *SendTime) rules() error {
	if c.Jitter > 0 && c.Tick == 0 {
		return field.Bad("nic", "send_time.jitter", c.Jitter, "requires send_time.tick")
	}
	return nil
}

// Interrupt describes the way from the NIC's interrupt to the host's software.
type Interrupt struct {
	// Latency is from the arrival of the message that interrupts a processor to when
	// the event's owner has it: a property of the host. 0 for none.
	Latency units.Time `yaml:"latency" range:"[0,1s]"`
}

// Offload is what runs the engines inside the NIC: processors that handle one event
// at a time, an acknowledgement, a READ's response or a congestion notification packet.
type Offload struct {
	// Processors is how many there are; 0 handles each event at once, at no cost.
	Processors int `yaml:"processors" range:"[1,2^12]" zero:"no cost"`
	// Cost is how long one event takes.
	Cost units.Time `yaml:"cost" range:"[0,1ms]"`
	// Queue is how many events wait for a processor. An acknowledgement or response
	// that finds it full counts with its queue pair's next, a notification is dropped.
	// Losses and timeouts do not wait.
	Queue int `yaml:"queue" range:"[0,2^16]"`
}

func (c *Offload) rules() error {
	switch {
	case c.Processors > 0 && c.Cost == 0:
		return field.Bad("nic", "offload.cost", c.Cost, "choose a time above 0, up to 1ms, or 0 for offload.processors")
	case c.Processors == 0 && (c.Cost > 0 || c.Queue > 0):
		return field.Bad("nic", "offload.processors", c.Processors, "choose 1 or more, or 0 for offload.cost and offload.queue")
	}
	return nil
}
