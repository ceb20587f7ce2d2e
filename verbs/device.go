package verbs

import (
	"context"
	"math"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/ib"
)

// Device is an opened device (ibv_context).
type Device interface {
	// Name is the name it was opened by, "sim:lab/h0".
	Name() string
	Attr() DeviceAttr
	Port(num int) (PortAttr, error)
	// GID returns an entry of a port's GID table: for RoCEv2 an IP address, and "::" for
	// a place that is empty.
	GID(port, index int) (netip.Addr, error)

	AllocPD() (PD, error)
	CreateCQ(CQInitAttr) (CQ, error)
	CreateCompChannel() (CompChannel, error)

	// AsyncEvent waits for the next asynchronous event, as CompChannel.Wait does for an
	// event of a CQ: until ctx is done, and up to timeout, without end if that is negative.
	// Zero does not wait. It returns ErrTimeout when none occurred.
	AsyncEvent(ctx context.Context, timeout time.Duration) (AsyncEvent, error)

	// Now reads the host's monotonic clock in the device's world: on a
	// simulated device, simulated time.
	Now() time.Duration

	// Close frees the device. It fails with ErrBusy while objects made from
	// it exist.
	Close() error
}

// DeviceAttr holds a device's capabilities (ibv_device_attr_ex).
type DeviceAttr struct {
	NodeGUID        uint64
	VendorID        uint32
	VendorPartID    uint32
	FirmwareVersion string

	MaxQP, MaxQPWR, MaxSGE  int
	MaxCQ, MaxCQE           int
	MaxMR                   int
	MaxMRSize               uint64
	MaxPD, MaxSRQ, MaxSRQWR int
	MaxQPRdAtom             int // responder resources a QP may offer
	MaxQPInitRdAtom         int // reads and atomics a QP may have outstanding
	MaxInlineData           int
	PhysPorts               int
	Atomics                 bool

	// CoreClockHz is the rate of the counter in WC.Timestamp and 0 where
	// completions have no timestamps. ClockBits is its width.
	CoreClockHz float64
	ClockBits   int
}

// PortState is the state of a port (ibv_port_state).
type PortState uint8

// Port states.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// PortAttr describes a port (ibv_port_attr).
type PortAttr struct {
	State     PortState
	ActiveMTU ib.MTU
	MaxMTU    ib.MTU
	// LinkRate is the line rate in bits per second.
	LinkRate int64
	// MaxMsgSize is the bytes of the longest message that a connection carries, up to
	// ib.MaxMessage; 0 if the provider does not say.
	MaxMsgSize uint32
	GIDs       int    // entries of the GID table
	PKeys      int    // entries of the P_Key table
	LID        uint16 // of an InfiniBand port; 0 on Ethernet
	LinkName   string
	Netdev     string // the network interface, where there is one
}

// AsyncEvent is something that happened to an object outside any work request
// (ibv_async_event). QP, CQ and SRQ are nil unless the event is about one: then it is
// about a port (ib.EventPortErr, ib.EventPortActive, ib.EventGIDChange), or about the
// whole device, which can do nothing more (ib.EventDeviceFatal).
type AsyncEvent struct {
	Type ib.EventType
	QP   QP
	CQ   CQ
	SRQ  SRQ
	Port int
}

// PD is a protection domain: memory and queue pairs of one PD may be used
// together.
type PD interface {
	// RegMR registers buf for the accesses given; local reads are always allowed.
	// ib.AccessHugeTLB says that buf lies in huge pages. RegMR fails if buf is empty.
	RegMR(buf []byte, access ib.AccessFlags) (MR, error)
	CreateQP(QPInitAttr) (QP, error)
	CreateSRQ(SRQInitAttr) (SRQ, error)
	// CreateAH makes an address handle, which names the destination of UD sends
	// (ibv_create_ah). It fails with ErrInvalid for an address that can't be
	// reached from the GID at SGIDIndex, and with ErrNotSupported on a device
	// without UD queue pairs.
	CreateAH(AddressVector) (AH, error)
	// Close fails with ErrBusy while objects made from the PD exist.
	Close() error
}

// MR is a registered memory region.
type MR interface {
	// Addr is the address by which work requests, local and remote, name the
	// region's first byte.
	Addr() uint64
	Length() int
	LKey() uint32
	RKey() uint32
	Access() ib.AccessFlags
	// Close makes both keys invalid. The buffer is the application's again
	// once it returns.
	Close() error
}

// SGEOf names length bytes of mr from offset on. It does not check bounds: the
// device does, as the request is posted or carried out. A length that an SGE can't
// have, negative or of more than 32 bits, becomes the most that it can: that is more than
// a message may have (ib.MaxMessage), and the post fails with ErrInvalid.
func SGEOf(mr MR, offset, length int) SGE {
	n := uint32(math.MaxUint32)
	if length >= 0 && uint64(length) < math.MaxUint32 {
		n = uint32(length)
	}
	return SGE{Addr: mr.Addr() + uint64(offset), Length: n, LKey: mr.LKey()}
}
