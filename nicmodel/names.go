package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// What a NIC's parts state of themselves.
type (
	// Clock is the clock of a stage, by its frequency in hertz.
	Clock = stage.Clock
	// Counter is the free-running counter from which a NIC stamps completions.
	Counter = stage.Counter
	// Account breaks down the cycles of a stage up to some instant.
	Account = stage.Account
	// Stall says why a stage did not begin work that waited in front of it.
	Stall = stage.Stall
	// Wait is the time that pieces of work have waited without stalling a stage.
	Wait = stage.Wait
	// QueueUse is the occupancy of a queue of a NIC up to some instant.
	QueueUse = stage.QueueUse
	// CacheUse counts the lookups of a cache of the NIC.
	CacheUse = stage.CacheUse
)

// StallNone is of work that is not stalled.
const StallNone = stage.StallNone

// Stalls lists the reasons, StallNone first.
func Stalls() []Stall { return stage.Stalls() }

// The link to the host's memory.
type (
	// PCIe is the link's two directions and the DMA engine.
	PCIe = pcie.Link
	// PCIeConfig describes the link between the NIC and the host's memory.
	PCIeConfig = pcie.Config
	// PCIeHeaders is whose count of the bytes around a TLP's payload is taken.
	PCIeHeaders = pcie.Headers
	// HostCacheConfig describes the last-level cache of the socket that the NIC is at.
	HostCacheConfig = pcie.HostCacheConfig
	// MemoryConfig describes the memory of that socket.
	MemoryConfig = pcie.MemoryConfig
	// IOMMUConfig describes the translation of the addresses that the NIC uses.
	IOMMUConfig = pcie.IOMMUConfig
	// PeerConfig describes another PCIe device whose memory the NIC reads and writes.
	PeerConfig = pcie.PeerConfig
	// Host describes a host of one generation of processors to a NIC.
	Host = pcie.Host
	// Purpose is the use of a PCIe transfer.
	Purpose = pcie.Purpose
	// TLPType is a kind of transaction layer packet.
	TLPType = pcie.TLPType
	// TLPs counts packets and their bytes on the link.
	TLPs = pcie.TLPs
	// Direction is one of the link's two.
	Direction = pcie.Direction
)

// Whose counts of headers, purposes, types and directions there are: see the types.
const (
	PCIeBench = pcie.PCIeBench
	Kalia     = pcie.Kalia
	Flit      = pcie.Flit

	ForDoorbell     = pcie.ForDoorbell
	ForWQE          = pcie.ForWQE
	ForRecvWQE      = pcie.ForRecvWQE
	ForRecvDoorbell = pcie.ForRecvDoorbell
	ForPayload      = pcie.ForPayload
	ForCQE          = pcie.ForCQE
	ForClock        = pcie.ForClock
	ForAtomic       = pcie.ForAtomic
	ForEvent        = pcie.ForEvent
	ForContext      = pcie.ForContext
	ForTranslation  = pcie.ForTranslation

	MemRd = pcie.MemRd
	MemWr = pcie.MemWr
	CplD  = pcie.CplD

	Upstream   = pcie.Upstream
	Downstream = pcie.Downstream
)

// NewPCIe returns an idle link.
func NewPCIe(c PCIeConfig) (*PCIe, error) { return pcie.New(c) }

// ParseLink reads a PCI Express link such as "gen3x8" and returns what its lanes carry
// in each direction after line coding.
func ParseLink(s string) (units.Rate, error) { return pcie.ParseLink(s) }

// Hosts lists the names of the hosts.
func Hosts() []string { return pcie.Hosts() }

// HostOf returns the host of that name.
func HostOf(name string) (Host, error) { return pcie.HostOf(name) }

// The configuration.
type (
	// Config describes a NIC. Presets returns ready ones.
	Config = config.Config
	// UnitsConfig describes processing units that work side by side.
	UnitsConfig = config.Units
	// AtomicsConfig describes the unit that performs atomic operations.
	AtomicsConfig = config.Atomics
	// ReceiveBufferConfig describes the memory of the port that received packets are in.
	ReceiveBufferConfig = config.ReceiveBuffer
	// QueuesConfig is the sizes of queues between stages.
	QueuesConfig = config.Queues
	// ReceivesConfig describes how the elements of receive queues come to the NIC.
	ReceivesConfig = config.Receives
	// CompressionConfig describes the compression of completions.
	CompressionConfig = config.Compression
	// LimiterConfig describes the rate limiter of queue pairs.
	LimiterConfig = config.Limiter
	// RateLimit is the limit of a queue pair.
	RateLimit = config.RateLimit
	// SendTimeConfig describes time-scheduled sends.
	SendTimeConfig = config.SendTime
	// EgressConfig is the port's traffic classes.
	EgressConfig = config.Egress
	// FunctionConfig is a PCIe function of the NIC.
	FunctionConfig = config.Function
	// InterruptConfig describes the way from the NIC's interrupt to the host's software.
	InterruptConfig = config.Interrupt
	// StateConfig describes the memory on the chip.
	StateConfig = config.State
	// TranslationConfig is the host's page sizes.
	TranslationConfig = config.Translation
	// OffloadConfig configures the engines inside the NIC.
	OffloadConfig = config.Offload
	// TransportConfig configures reliable connections' recovery from losses.
	TransportConfig = config.Transport
	// LossRecovery is a way to recover from losses.
	LossRecovery = config.LossRecovery
	// FixedLatencies are a NIC's delays of packets and completions where nothing waits.
	FixedLatencies = config.FixedLatencies
	// FieldError is the error of one parameter.
	FieldError = field.Error
)

// Ways to recover from losses, and algorithms of traffic classes.
const (
	GoBackN         = config.GoBackN
	SelectiveRepeat = config.SelectiveRepeat

	TSAStrict = config.TSAStrict
	TSAETS    = config.TSAETS
)

// Preset returns the NIC of that name.
func Preset(name string) (Config, error) { return config.Preset(name) }

// Presets lists the names of the presets.
func Presets() []string { return config.Presets() }

// RegisterPreset makes a NIC known by name.
func RegisterPreset(name string, c Config) { config.RegisterPreset(name, c) }

// Packets in flight.
type (
	// Frames is the knowledge of the NICs of one network, not of the fabric, about the packets
	// in flight.
	Frames = frames.Slab
	// Place names the part of a NIC in which a span of an operation's life was spent.
	Place = chip.Place
	// Span is the time that an operation spent in a place.
	Span = chip.Span
)

// NewFrames returns the slab of a network.
func NewFrames(net *fabric.Network) *Frames { return frames.New(net) }

// CNPBytes is the size of a congestion notification packet from MAC header to FCS.
const CNPBytes = frames.CNPBytes

// FrameBytes returns the size of a packet from MAC header to FCS without telemetry.
func FrameBytes(op ib.Opcode, payload int) units.Bytes { return frames.FrameBytes(op, payload) }

// Places, in the order in which an operation comes to them.
const (
	AtStore      = chip.AtStore
	AtDoorbell   = chip.AtDoorbell
	AtFetch      = chip.AtFetch
	AtWQE        = chip.AtWQE
	AtSendTime   = chip.AtSendTime
	AtScheduler  = chip.AtScheduler
	AtPayload    = chip.AtPayload
	AtPacketiser = chip.AtPacketiser
	AtWire       = chip.AtWire
	AtReceive    = chip.AtReceive
	AtRecvFetch  = chip.AtRecvFetch
	AtCQE        = chip.AtCQE
	AtCQEWrite   = chip.AtCQEWrite
)

// Places lists them all.
func Places() []Place { return chip.Places() }

// Alarms of a NIC's host that what drives it has: see NIC.OnAlarm.
const (
	AlarmHost   = chip.AlarmHost
	AlarmThread = chip.AlarmThread
)

// registrar is embedded in NIC: its methods are the host's way to register memory.
type registrar = memory.Registrar

// Memory of the host.
type (
	// Memory is memory that lies elsewhere, such as another program's.
	Memory = memory.Memory
	// Region is a registered memory region.
	Region = memory.Region
	// SGE names a piece of registered memory.
	SGE = memory.SGE
)
