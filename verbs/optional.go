package verbs

import (
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// ClockReader is a Device whose counter of WC.Timestamp can be read
// (ibv_query_rt_values_ex). The reading lies between the call and its return;
// package calibration brackets it with the host's clock.
type ClockReader interface {
	ReadClock() (ticks uint64, err error)
}

// PreciseClock is a Device whose host clock is finer than a nanosecond: a
// simulated one.
type PreciseClock interface {
	NowPrecise() units.Time
}

// Pollable is a CompChannel or a Device whose events can be awaited together with those of
// other files, by poll(2) or epoll(7) (ibv_comp_channel.fd, ibv_context.async_fd).
type Pollable interface {
	// FD returns a file descriptor that is readable while there may be an event: then call
	// CompChannel.Wait or Device.AsyncEvent with a timeout of 0, until ErrTimeout. Nothing
	// else may be done with it. It is closed with the object.
	FD() (int, error)
}

// Telemetry is the network's report about the packets of one request.
type Telemetry struct {
	MaxHopDelay        units.Time // valid with HasMaxDelay
	ReverseMaxHopDelay units.Time // of the acknowledgement's way back
	HasMaxDelay        bool
	ECN, EIN           bool
	// Turnaround is the time that the peer kept the request's last packet before its
	// acknowledgement left: no part of the network's round trip. Valid with
	// HasTurnaround.
	Turnaround    units.Time
	HasTurnaround bool
	// Coalesced says that the request was acknowledged with a later one of its queue
	// pair, by a peer that reports its turnaround: the network's share of its round
	// trip is not known.
	Coalesced bool
	Path      telemetry.Stack // N is 0 without per-hop records
}

// TelemetryKinds names the parts of Telemetry that a queue pair can report.
type TelemetryKinds uint8

// Kinds of telemetry.
const (
	ReportsECN        TelemetryKinds = 1 << iota // Telemetry.ECN
	ReportsEIN                                   // Telemetry.EIN
	ReportsMaxDelay                              // MaxHopDelay and ReverseMaxHopDelay
	ReportsPath                                  // Path
	ReportsTurnaround                            // Turnaround and Coalesced, of a peer that reports them
)

// TelemetryQP is a QP that knows what the network reported about a completed
// request. CompletionTelemetry fills t for a completion that the last Poll of
// the QP's send CQ returned, and reports whether there was anything.
//
// TelemetryKinds is what it can report at all, on the path to the present peer:
// it is known from RTR on. What is absent from a Telemetry that could have it
// did not happen; what a QP can't report says nothing.
type TelemetryQP interface {
	CompletionTelemetry(wc *WC, t *Telemetry) bool
	TelemetryKinds() TelemetryKinds
}

// PKeyDevice is a Device that tells the partitions of its ports (ibv_query_pkey).
type PKeyDevice interface {
	// PKey returns an entry of a port's P_Key table. The top bit is full membership.
	PKey(port, index int) (uint16, error)
}

// RateLimitQP is a QP whose device paces its packets (ibv_modify_qp_rate_limit).
type RateLimitQP interface {
	// SetRateLimit sets the rate in bits per second; 0 takes the limit off.
	SetRateLimit(bps int64) error
}

// RateLimitAttr is a queue pair's limit (ibv_qp_rate_limit_attr).
type RateLimitAttr struct {
	Rate        int64  // bits per second; 0 takes the limit off
	MaxBurst    uint32 // bytes sent back to back at most; 0 for the device's default
	TypicalSize uint16 // bytes of a packet, which lets devices count better; 0 for the path's MTU
}

// RateLimitAttrQP is a RateLimitQP that takes all of ibv_modify_qp_rate_limit's
// attributes.
type RateLimitAttrQP interface {
	ModifyRateLimit(RateLimitAttr) error
}

// CQAttr says when the event of an armed completion queue is raised
// (ibv_modify_cq_attr.moderate): once there are Count completions, or Period
// microseconds after the first of them. 0 for one leaves it to the other, 0 for both
// raises the event at once.
type CQAttr struct {
	Count, Period uint16
}

// ModifiableCQ is a CQ whose events can be held back (ibv_modify_cq).
type ModifiableCQ interface {
	Modify(CQAttr) error
}

// ResizableCQ is a CQ whose capacity can be changed (ibv_resize_cq).
type ResizableCQ interface {
	// Resize has the queue hold cqe completions or more; CQ.Cap says how many then.
	// Completions that wait stay, and where they are more than cqe it fails with
	// ErrInvalid. It is called where Poll may be: by one goroutine at a time.
	Resize(cqe int) error
}

// LimitSRQ is an SRQ that reports that it runs low (ibv_modify_srq with IBV_SRQ_LIMIT).
type LimitSRQ interface {
	// SetLimit has the device raise ib.EventSRQLimit, once, when a message takes a receive
	// and fewer than n are left. 0 takes the limit off. n is at most the queue's size.
	SetLimit(n int) error
}

// WeightQP is a QP whose device shares its sending among queue pairs by weights (bw_share
// in mlx5dv_sched_attr).
type WeightQP interface {
	// SetWeight has the QP send up to w packets, 1 to 255, at each of its turns among the
	// QPs that have something to send. The default is 1.
	SetWeight(w int) error
}

// CNPQP is a QP that counts the congestion notification packets it was sent.
type CNPQP interface {
	CNPs() uint64
}

// RepairsQP is a QP that counts what its transport repaired.
type RepairsQP interface {
	Repairs() Repairs
}

// Repairs count what a QP's requester repaired since the QP was made or last reset;
// behind each is the kernel's name for it in hw_counters.
type Repairs struct {
	Retransmitted  uint64 // packets that were sent again
	SequenceErrors uint64 // NAKs and responses that reported lost packets (packet_seq_err, implied_nak_seq_err)
	Timeouts       uint64 // expiries of the acknowledgement timer (local_ack_timeout_err)
	AdpRetrans     uint64 // those of adaptive retransmission, where its timer is shorter (roce_adp_retrans)
	AdpRetransTO   uint64 // requests that ended with one of these (roce_adp_retrans_to)
	RNRNAKs        uint64 // answers that no receive was ready (rnr_nak_retry_err)
}

// AdpRetransQP is a QP whose device may send again before the QP's timeout, and counts how often it does
// (Repairs.AdpRetrans). The shim asks it for each completion.
type AdpRetransQP interface {
	AdpRetrans() uint64
}

// SentTimestampQP is a QP that knows when the packets of a request left the host.
// The time between posting and leaving is the host's delay, not the network's.
type SentTimestampQP interface {
	// SentTimestamps returns when the first and the last packet of a completed
	// request left, in the ticks of WC.Timestamp; of packets that were sent again,
	// the first time. It is for a completion that the last Poll of the QP's send
	// CQ returned, and reports false where it does not know.
	SentTimestamps(wc *WC) (first, last uint64, ok bool)
}

// Runner is a Device with simulated time; see Run.
type Runner interface {
	// Run runs each function as an application and returns when all have.
	Run(applications ...func() error) error
	// Blocking runs f, which waits for something outside the device's world,
	// as an application that does not hold simulated time up.
	Blocking(f func())
	// Sleep lets d of simulated time pass for the calling application.
	Sleep(d time.Duration)
}

// Memory is memory that another program owns, and that a device reaches on its behalf.
// Its methods may be called from several goroutines at once.
type Memory interface {
	// ReadMemory fills p with what lies at addr, or fails: then p holds anything.
	ReadMemory(p []byte, addr uint64) error
	// WriteMemory writes p to addr, or fails: then any part of it may be written.
	WriteMemory(p []byte, addr uint64) error
}

// MemoryPiece is a part of another program's memory, and the data that goes there or
// comes from it.
type MemoryPiece struct {
	Addr uint64
	Data []byte
}

// VectorMemory is a Memory that moves several pieces with one call.
type VectorMemory interface {
	Memory
	// ReadPieces fills the pieces in order, or fails: then they hold anything.
	ReadPieces(pieces []MemoryPiece) error
	// WritePieces writes the pieces in order, or fails: then any part of them may be
	// written. On processors whose stores others see in order, which those of x86 are,
	// who sees a piece sees those before it; elsewhere write them with two calls.
	WritePieces(pieces []MemoryPiece) error
}

// ReaccessibleMR is an MR whose access can be changed while its key and address stay
// (ibv_rereg_mr with IBV_REREG_MR_CHANGE_ACCESS alone).
type ReaccessibleMR interface {
	SetAccess(access ib.AccessFlags) error
}

// MemoryPD is a PD that registers memory of other programs.
type MemoryPD interface {
	// RegMemory registers length bytes of m from addr on. In requests and for peers, the
	// region begins at iova, which is MR.Addr. Bytes that m refuses to read or write fail
	// the request that names them, as a key that does not allow it.
	RegMemory(m Memory, addr, length, iova uint64, access ib.AccessFlags) (MR, error)
}

// DMABufPD is a PD that registers memory of another device, such as a GPU's, by a dma-buf
// (ibv_reg_dmabuf_mr).
type DMABufPD interface {
	// RegDMABuf registers length bytes of what the file descriptor of a dma-buf stands for,
	// from offset on. In requests and for peers, the region begins at iova, which is
	// MR.Addr; offset and iova lie alike within a page. The descriptor may be closed
	// afterwards. It fails with ErrNotSupported where the driver or the kernel can't.
	RegDMABuf(fd int, offset uint64, length int, iova uint64, access ib.AccessFlags) (MR, error)
}

// RecvSource is a receive queue that lies elsewhere, such as in another program's memory,
// and that a device draws receives from as a NIC fetches them.
type RecvSource interface {
	// FetchRecv writes the next receives of the queue to wrs, oldest first, and returns
	// how many there were. Their SGLs are valid until the next call. The device calls it
	// when a message needs a receive and it has none left, one call at a time, with its
	// locks held: FetchRecv must not call the device.
	FetchRecv(wrs []RecvWR) int
}

// SourcedRecv is a QP with a receive queue of its own, or an SRQ, that takes a RecvSource.
type SourcedRecv interface {
	// SetRecvSource sets the source; nil for none. Receives that were posted or fetched
	// come first. A queue pair in ERR or RESET does not fetch: what its source still has
	// is to be posted to be flushed.
	SetRecvSource(RecvSource)
}

// LostDevice is a device that can go while it is open: with its network interface. It
// raises ib.EventDeviceFatal then, all its queue pairs go to ib.Err, and calls that would
// make something new fail with ErrNoDevice.
type LostDevice interface {
	// Gone is closed when the device is gone; nil for one that never goes.
	Gone() <-chan struct{}
}
