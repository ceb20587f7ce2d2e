package ibverbs

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// An Ability is something that not every device has.
type Ability struct {
	Found bool
	Why   string // why not, or how it was found
}

// Capabilities are a device's optional abilities, as found when it was opened.
type Capabilities struct {
	// Completions with the free-running counter, and with the device's own
	// clock in nanoseconds. Found by making a completion queue that has them.
	RawTimestamps, WallclockTimestamps Ability
	// ClockQuery is whether the counter can be read (ibv_query_rt_values_ex). MLX5Clock is
	// whether the driver reports how the counter relates to the device's clock.
	ClockQuery, MLX5Clock Ability
	TimestampMask         uint64 // the counter's bits

	// Direct is whether requests are posted and completions polled in Go, in the memory of
	// an mlx5 device's queues.
	Direct       Ability
	CoreClockKHz uint64 // the counter's rate

	// RateLimit is whether the device says that it limits any type of queue
	// pair. ConnectX usually says so of raw packet ones only.
	RateLimit          Ability
	RateLimitMin       int64 // bits per second
	RateLimitMax       int64
	RateLimitedQPTypes []string

	// ODP is on-demand paging, by transport: "RC: SEND RECV WRITE".
	ODP           Ability
	ODPImplicit   bool
	ODPTransports []string

	InlineBytes int    // most that a queue pair took
	Atomics     string // "none", "HCA" (among this device's) or "global"
	Ports       []PortCapabilities
}

// PortCapabilities holds a port's capabilities.
type PortCapabilities struct {
	Port            int
	LinkLayer       string
	Netdev          string
	MaxMTU, MTU     ib.MTU
	MaxMessageBytes uint32
	GIDs            []GIDEntry
	BestGID         int // as perftest chooses, -1 if the port has no GID
	LinkRate        int64
	State           verbs.PortState
}

// GIDType is the form of packets from a GID on the wire (enum ibv_gid_type).
type GIDType uint32

// Types of GIDs.
const (
	GIDInfiniBand GIDType = 0
	GIDRoCEv1     GIDType = 1
	GIDRoCEv2     GIDType = 2
)

func (t GIDType) String() string {
	switch t {
	case GIDInfiniBand:
		return "IB"
	case GIDRoCEv1:
		return "RoCE v1"
	case GIDRoCEv2:
		return "RoCE v2"
	}
	return "unknown"
}

// GIDEntry is an entry of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	Index  int
	Addr   netip.Addr
	Type   GIDType
	Netdev string // the interface whose address it is, where the kernel says so
}
