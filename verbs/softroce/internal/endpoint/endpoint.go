package endpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Limits of a device.
const (
	MaxQP       = 1 << 16
	MaxQPWR     = 1 << 14
	MaxSGE      = 32
	MaxRdAtomic = 128
	MaxInline   = 1024
	MaxCQE      = 1 << 20
	MaxCQ       = 1 << 20
	MaxPD       = 1 << 20
	MaxMR       = 1 << 24
	MaxMRSize   = 1 << 46
	MaxSRQ      = 1 << 16

	// MaxPacket is the most bytes from the Base Transport Header to the ICRC.
	MaxPacket = 4096 + roce.MaxHeaderBytes + roce.ICRCBytes
)

// Config is what an Endpoint is made with.
type Config struct {
	Name string       // of the device, for errors: "soft:lo"
	GIDs []netip.Addr // the addresses that packets may come to
	MTU  ib.MTU       // the largest path MTU
	// Rand is the source of queue pair numbers, keys and addresses:
	// crypto/rand.Reader. A test that must be repeatable passes another.
	Rand io.Reader
	// MaxQPs is how many queue pairs there may be, up to MaxQP.
	MaxQPs int
	// Window is how many PSNs a queue pair with a path MTU may have sent and not
	// acknowledged, at least 1.
	Window func(ib.MTU) int
	// Resolve finds the way to an address.
	Resolve func(verbs.AddressVector) (Route, error)
	// Collect is what the packets of connections collect on their way.
	Collect Collect
	// Turnaround makes requests on reliable connections ask the peer how long it takes
	// to answer. This endpoint answers such requests in any case.
	Turnaround bool
	// OnEvent is called for each asynchronous event as it happens.
	OnEvent func(Event)
}

// Route is where packets go.
type Route struct {
	Dst          netip.AddrPort
	GID          int    // which of the device's addresses they come from
	SrcPort      uint16 // 0xc000 and 14 bits of entropy; a UDP socket has its own
	TrafficClass uint8  // DSCP and ECN
	HopLimit     uint8
}

// Event is something that happened outside any work request.
type Event struct {
	Type ib.EventType
	QP   *QP // one of the three, or none
	CQ   *CQ
	SRQ  *RecvQueue
}

// Endpoint is a device.
type Endpoint struct {
	cfg            Config
	qps            table[QP]
	origin         units.LongTime // of all instants, on the device's counter
	regions        table[MR]
	windows        table[MW] // by the upper 24 bits of their keys
	pds, cqs, srqs int
	gsi            gsi
	users          []int // of the GID table's places: queue pairs and address handles

	ready  readyList
	timers timerHeap

	overrun []*QP // have lost a completion, and are to fail

	eff  rc.Effects    // of the call in hand
	desc rc.Descriptor // of the packet in hand
	in   inbound       // the packet in hand
	out  roce.Packet

	deferring bool     // NextOutgoing asks
	pieces    [][]byte // of the packet in hand
	late      late
	ahead     ahead
	outgoing  Outgoing
	carried   Carried

	stamp   uint64 // arrival time, for completions
	orig    [8]byte
	grh     [rc.GRHBytes]byte // of the datagram in hand
	grhIPv4 bool
	marked  bool // it met a congestion mark

	past     rc.Counters // of destroyed connections
	Counters Counters
}

// New returns a device without objects.
func New(cfg Config) (*Endpoint, error) {
	switch {
	case len(cfg.GIDs) == 0:
		return nil, fmt.Errorf("%s: no address", cfg.Name)
	case !cfg.MTU.Valid():
		return nil, fmt.Errorf("%s: MTU %d, expected 256, 512, 1024, 2048 or 4096", cfg.Name, cfg.MTU)
	case cfg.MaxQPs < 1 || cfg.MaxQPs > MaxQP:
		return nil, fmt.Errorf("%s: %d queue pairs, expected 1 to %d", cfg.Name, cfg.MaxQPs, MaxQP)
	case cfg.Rand == nil || cfg.Resolve == nil || cfg.Window == nil:
		return nil, fmt.Errorf("%s: Rand, Resolve and Window are required", cfg.Name)
	}
	return &Endpoint{cfg: cfg}, nil
}

// Objects counts the protection domains and completion queues that exist.
func (e *Endpoint) Objects() int { return e.pds + e.cqs }

// random draws 64 bits.
func (e *Endpoint) random() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(e.cfg.Rand, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (e *Endpoint) raise(v Event) {
	if e.cfg.OnEvent != nil {
		e.cfg.OnEvent(v)
	}
}

// Deadline is when to call Expire next, or units.Never.
func (e *Endpoint) Deadline() units.Time { return e.timers.first() }

// Expire does what time demands.
func (e *Endpoint) Expire(now units.Time) {
	for e.timers.first() <= now {
		q := e.timers.pop()
		if q.rc.Deadline() > now {
			e.Counters.TimersEarly++
			e.arm(q)
			continue
		}
		q.rc.Expire(now, &e.eff)
		e.effects(now, q, nil)
	}
}
