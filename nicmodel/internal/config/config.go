package config

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// PacketsBeforeWire returns the number of packets with payload bytes of payload that have room before the wire.
func (c *Config) PacketsBeforeWire(payload int) int { return c.TxBuffer / (SlotBytes + payload) }

// Config describes a NIC. Presets returns ready ones; the fields' zero values
// are not useful.
type Config struct {
	// PCIe is the link to the host's memory and the DMA engine.
	PCIe pcie.Config `yaml:"pcie"`

	// CoreClock drives every stage but the MAC.
	CoreClock stage.Clock `yaml:"core_clock" range:"[1MHz,1THz]"`
	// DoorbellCycles is how long the doorbell stage is occupied by a doorbell, in
	// cycles of the core clock, as are the following ones.
	DoorbellCycles int64 `yaml:"doorbell_cycles" range:"[0,2^20]"`
	// WQECycles is what the wqe stage takes for a work queue element.
	WQECycles int64 `yaml:"wqe_cycles" range:"[0,2^20]"`
	// SchedulerCycles is what the scheduler takes for the choice of a packet.
	SchedulerCycles int64 `yaml:"scheduler_cycles" range:"[0,2^20]"`
	// PacketiserCycles is what the packetiser takes for a packet.
	PacketiserCycles int64 `yaml:"packetiser_cycles" range:"[0,2^20]"`
	// ParseCycles is what the parse stage takes for a packet received.
	ParseCycles int64 `yaml:"parse_cycles" range:"[0,2^20]"`
	// TransportCycles is what the transport stage takes for a packet received.
	TransportCycles int64 `yaml:"transport_cycles" range:"[0,2^20]"`
	// CQECycles is what the cqe stage takes for a completion.
	CQECycles int64 `yaml:"cqe_cycles" range:"[0,2^20]"`

	// PipelineLatency is what a packet spends in each of the transmit and the
	// receive pipeline beside the occupancies above: their depth.
	PipelineLatency units.Time `yaml:"pipeline_latency" range:"[0,100ms]"`

	// TxBuffer is the memory for packets between the scheduler and the wire, bytes; READ
	// responses have as much for themselves. A packet takes 64 bytes and its payload
	// from when it is chosen, and so bounds the reads of payload under way: enough
	// to cover their latency at the line rate, and not so much that packets make a queue of their own.
	TxBuffer int `yaml:"tx_buffer" range:"[4160,2^30]" why:"the least holds a packet of 4096 bytes"`
	// CQEBytes is what a completion takes in host memory and on PCIe.
	CQEBytes int `yaml:"cqe_bytes" range:"[1,4096]"`
	// MaxInline is the most data that travels inside a WQE, bytes. A single WQE with
	// its inline data reaches the NIC with the doorbell (BlueFlame).
	MaxInline int `yaml:"max_inline" range:"[0,4096]"`
	// BlueFlameBusy lets that be so too while elements of the queue are under way
	// that came likewise.
	BlueFlameBusy bool `yaml:"blueflame_busy"`
	// WQEFetch is how many elements one read fetches after a doorbell, 0 for all
	// that it is for.
	WQEFetch int `yaml:"wqe_fetch" range:"[1,2^16]" zero:"all"`
	// WQEPrefetch is the number of elements of a send queue that the NIC reads ahead of the ones
	// it has made a packet of, 0 for all whose doorbells have arrived; it reads on once it holds
	// half as many. Those that come with their doorbell do not count. If not all that the NIC keeps fits on the
	// chip (State), it is no more than an even share of what the contexts leave there, and no less than 1.
	WQEPrefetch int `yaml:"wqe_prefetch" range:"[1,2^16]" zero:"all"`

	// Units work on requests that the scheduler has chosen, and on packets behind the
	// transport stage.
	Units Units `yaml:"units"`
	// Atomics is the unit that performs atomic operations.
	Atomics Atomics `yaml:"atomics"`
	// ReceiveBuffer is where received packets are until the NIC is done with them.
	ReceiveBuffer ReceiveBuffer `yaml:"receive_buffer"`
	// Queues is the sizes of other queues.
	Queues Queues `yaml:"queues"`
	// Receives is how the elements of receive queues come to the NIC.
	Receives Receives `yaml:"receives"`
	// Compression is that of completions.
	Compression Compression `yaml:"compression"`
	// Limiter is the rate limiter of queue pairs.
	Limiter Limiter `yaml:"limiter"`
	// SendTime is of requests that wait for a time of the NIC's clock.
	SendTime SendTime `yaml:"send_time"`
	// Egress is the port's traffic classes.
	Egress Egress `yaml:"egress"`
	// Functions are the PCIe functions among which the NIC divides what it sends: the physical one, 0, then the virtual
	// ones. Without any, there is one.
	Functions []Function `yaml:"functions" eg:"[{}, {max_tx_rate: 20Gbps}]" most:"64" of:"functions"`
	// Interrupt is the way from the NIC's interrupt to the host's software.
	Interrupt Interrupt `yaml:"interrupt"`
	// State is the memory on the chip for contexts, memory keys, translations and elements of send queues.
	State State `yaml:"state"`
	// Translation is the host's page sizes.
	Translation Translation `yaml:"translation"`
	// Offload is what runs the engines inside the NIC, and its cost.
	Offload Offload `yaml:"offload"`
	// Transport is how reliable connections recover from losses.
	Transport Transport `yaml:"transport"`
	// Framing is that of the port: RoCEv2 over Ethernet, or InfiniBand. The
	// network's links have theirs.
	Framing fabric.Framing `yaml:"framing" eg:"infiniband"`

	// Counter is that of completion timestamps.
	Counter stage.Counter `yaml:"counter"`

	// MaxSGE is the most pieces of memory of a request.
	MaxSGE int `yaml:"max_sge" range:"[1,256]"`
	// MaxRdAtomic is the most RDMA Reads and atomics that a queue pair may have
	// outstanding.
	MaxRdAtomic int `yaml:"max_rd_atomic" range:"[1,255]"`
	// MaxQPWR is the most requests that a queue holds.
	MaxQPWR int `yaml:"max_qp_wr" range:"[1,2^16]"`
}

// SlotBytes is what a packet takes beside its payload: headers and what the NIC keeps of it.
const SlotBytes = 64

// RoundTripShare is what two such NICs add to the round trip of a packet with
// empty queues, from its first bit on the wire to its acknowledgement in the
// transport: parse, transport, a processing unit if there are any, and pipeline at both ends, and the
// acknowledgement's own way to the wire.
func (c *Config) RoundTripShare() units.Time {
	return 2*c.CoreClock.Begin(c.receiveCycles()) + 3*c.PipelineLatency
}

// receiveCycles is what the stages take for a received packet. Of processing units it is half of a request and its acknowledgement.
func (c *Config) receiveCycles() int64 {
	cycles := c.ParseCycles + c.TransportCycles
	if c.Units.Units > 0 {
		cycles += (c.Units.Request + c.Units.Answer) / 2
	}
	return cycles
}

// FixedLatencies is what a NIC adds to packets and completions where nothing
// waits, beside the wire.
type FixedLatencies struct {
	Send       units.Time // the transmit pipeline
	Receive    units.Time // the receive pipeline, parsing, transport and processing units
	Completion units.Time // a completion written, until the host sees it
}

// FixedLatencies returns the latencies of the NIC that a reduced NIC adds to every
// packet and completion. FirstPacket returns those before a flow's first packet.
func (c *Config) FixedLatencies() FixedLatencies {
	return FixedLatencies{
		Send:       c.PipelineLatency,
		Receive:    c.CoreClock.Begin(c.receiveCycles()) + c.PipelineLatency,
		Completion: c.CoreClock.Begin(c.CQECycles) + c.PCIe.WriteTakes(c.CQEBytes),
	}
}
