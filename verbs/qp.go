package verbs

import (
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
)

// QPInitAttr are the attributes of a new queue pair (ibv_qp_init_attr).
type QPInitAttr struct {
	Type           ib.QPType
	SendCQ, RecvCQ CQ
	SRQ            SRQ // nil for a receive queue of its own
	Cap            QPCap
	SigAll         bool // every send request gives a completion
}

// QPCap is the capacity of a queue pair. Providers may round up.
type QPCap struct {
	MaxSendWR, MaxRecvWR   int
	MaxSendSGE, MaxRecvSGE int
	MaxInlineData          int
}

// QP is a queue pair.
type QP interface {
	Num() uint32
	Type() ib.QPType
	// PostSend posts requests in order and returns how many were taken: all of
	// them, or those before the one that the error is about (ibv_post_send's
	// bad_wr). The requests and their SGLs are not kept.
	PostSend(wrs []SendWR) (int, error)
	// PostRecv posts receives in order, like PostSend.
	PostRecv(wrs []RecvWR) (int, error)
	// Modify sets the attributes in mask. A change of state follows
	// ib.QPState.CanBecome and needs the attributes that ibv_modify_qp needs.
	Modify(attr QPAttr, mask QPAttrMask) error
	Query() (QPAttr, error)
	// Close frees the queue pair. Its requests end without completions, and its
	// completions that were not polled are dropped from its CQs, as with libmlx5; a
	// transition to RESET does the same. rdma-core's provider for rxe leaves them there.
	Close() error
}

// QPAttrMask names fields of QPAttr (ibv_qp_attr_mask).
type QPAttrMask uint32

// Attribute masks.
const (
	AttrState QPAttrMask = 1 << iota
	AttrAccess
	AttrPort
	AttrPathMTU
	AttrTimeout
	AttrRetryCnt
	AttrRNRRetry
	AttrRQPSN
	AttrSQPSN
	AttrMaxQPRdAtomic
	AttrMaxDestRdAtomic
	AttrMinRNRTimer
	AttrDestQPN
	AttrAV
	AttrQKey
	AttrPKeyIndex
)

// The attributes that each step to RTS of a queue pair must set, by its type
// (ibv_modify_qp(3)). The P_Key is the table's first unless AttrPKeyIndex is set, too.
const (
	ResetToInitRC = AttrState | AttrPort | AttrAccess
	InitToRTRRC   = AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer
	RTRToRTSRC    = AttrState | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxQPRdAtomic

	ResetToInitUC = AttrState | AttrPort | AttrAccess
	InitToRTRUC   = AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	RTRToRTSUC    = AttrState | AttrSQPSN

	ResetToInitUD = AttrState | AttrPort | AttrQKey
	InitToRTRUD   = AttrState
	RTRToRTSUD    = AttrState | AttrSQPSN
)

// QPAttr is the attributes of a queue pair (ibv_qp_attr).
type QPAttr struct {
	State  ib.QPState
	Access ib.AccessFlags // what the peer may do through this QP
	Port   int            // from 1
	// PKeyIndex is the queue pair's entry of the port's P_Key table, 0 to PortAttr.PKeys-1.
	PKeyIndex int

	PathMTU ib.MTU
	DestQPN uint32
	RQPSN   uint32 // first PSN expected from the peer, 24 bits
	SQPSN   uint32 // first PSN sent, 24 bits
	AV      AddressVector
	QKey    uint32 // UD: what datagrams must carry to be received

	Timeout         uint8 // ACK timeout 4.096us * 2^n, 0 to 31; 0 is no timeout
	RetryCnt        uint8 // 0 to 7
	RNRRetry        uint8 // 0 to 7; 7 retries without end
	MinRNRTimer     uint8 // 0 to 31, the code of IBA table 45
	MaxRdAtomic     uint8 // reads and atomics outstanding as requester
	MaxDestRdAtomic uint8 // the same as responder

	Cap QPCap // Query only
}

// AddressVector says where a QP sends (ibv_ah_attr). A RoCE device needs the GID and has no
// LIDs. On InfiniBand the LID leads to the peer, and the GID is for peers in other subnets:
// leave it zero for those in one's own.
type AddressVector struct {
	GID          netip.Addr
	LID          uint16
	Port         int // the device's own, from 1; 0 for the queue pair's, or of an AH the first that reaches GID
	SGIDIndex    int
	TrafficClass uint8 // DSCP and ECN
	HopLimit     uint8
	FlowLabel    uint32 // 20 bits; for RoCEv2 the source port's entropy
	SL           uint8  // service level: the priority, 0 to 7; of InfiniBand 0 to 15
	// StaticRate is the most that the device sends to the peer, in bits per second; 0 is
	// no limit. Devices of libibverbs round it down to a step of enum ibv_rate, the least
	// of which is 2.5 Gbit/s; whether the hardware heeds it, sluice doctor measures. A
	// device that has no such limit refuses one with ErrNotSupported.
	StaticRate int64
}

// CheckSinglePort returns the attribute of an address vector that a RoCE device with one port can't have,
// or nil. It is for providers.
func (a *AddressVector) CheckSinglePort() error {
	switch {
	case a.LID != 0:
		return fmt.Errorf("LID %d: a RoCE device finds its peers by GID, and has no LIDs", a.LID)
	case a.Port != 0 && a.Port != 1:
		return fmt.Errorf("port %d does not exist: the device has port 1", a.Port)
	case a.SL > 7:
		return fmt.Errorf("service level %d, expected 0 to 7", a.SL)
	case a.StaticRate < 0:
		return fmt.Errorf("a static rate of %d bit/s, expected 0 or more", a.StaticRate)
	}
	return nil
}

// SendFlags qualify a send request (ibv_send_flags).
type SendFlags uint32

// Send flags. The values are libibverbs'.
const (
	SendFence     SendFlags = 1 << 0
	SendSignaled  SendFlags = 1 << 1
	SendSolicited SendFlags = 1 << 2
	SendInline    SendFlags = 1 << 3
)

// SGE names a piece of registered memory (ibv_sge).
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// SendWR is a send work request (ibv_send_wr).
type SendWR struct {
	WRID   uint64
	Opcode ib.WROpcode
	Flags  SendFlags
	SGL    []SGE
	// Inline is the data of a request with SendInline, in place of an SGL. It
	// is copied as the request is posted.
	Inline []byte

	RemoteAddr uint64
	RKey       uint32
	Imm        uint32 // immediate data, or with WRSendWithInv and WRLocalInv the key to invalidate

	CompareAdd uint64 // atomics: compare with, or add
	Swap       uint64
	// Of a WRBindMW, which BindMW returns, RKey is the window's new key, RemoteAddr and
	// CompareAdd are where it begins and its length, Imm its access, and Swap the L_Key of
	// the region.

	// Where a datagram goes (ibv_send_wr.wr.ud): needed by a UD queue pair,
	// refused by the others, which send to their peer. The AH is of the queue
	// pair's PD. RemoteQPN has 24 bits. If the top bit of RemoteQKey is set, the
	// queue pair's own Q_Key is sent instead (IBA 10.2.5).
	AH                    AH
	RemoteQPN, RemoteQKey uint32
}

// Length is the bytes of the request's message.
func (wr *SendWR) Length() int {
	if wr.Flags&SendInline != 0 {
		return len(wr.Inline)
	}
	return lengthOf(wr.SGL)
}

func lengthOf(sgl []SGE) int {
	n := 0
	for i := range sgl {
		n += int(sgl[i].Length)
	}
	return n
}

// RecvWR is a receive work request (ibv_recv_wr).
type RecvWR struct {
	WRID uint64
	SGL  []SGE
	// Small, of a receive of a RecvSource, is where a SEND of up to Small.Length bytes goes
	// instead of the SGL. The length is at most the SGL's.
	Small SGE
}

// Length is the bytes that the request has room for.
func (wr *RecvWR) Length() int { return lengthOf(wr.SGL) }

// SRQInitAttr are the attributes of a new shared receive queue.
type SRQInitAttr struct {
	MaxWR, MaxSGE int
}

// SRQ is a shared receive queue.
type SRQ interface {
	PostRecv(wrs []RecvWR) (int, error)
	Close() error
}

// UsualGID returns the address that a port usually sends from, and its index in the port's
// GID table: an IPv4 address before an IPv6 one, and either before a link-local one of its
// kind; of equals the first. It fails if the port has none.
func UsualGID(dev Device, port int) (index int, gid netip.Addr, err error) {
	p, err := dev.Port(port)
	if err != nil {
		return 0, gid, err
	}
	best := 0
	for i := range p.GIDs {
		a, err := dev.GID(port, i)
		if err != nil || a.IsUnspecified() {
			continue
		}
		rank := 1
		if a.Unmap().Is4() {
			rank += 2
		}
		if !a.IsLinkLocalUnicast() {
			rank++
		}
		if rank > best {
			best, index, gid = rank, i, a
		}
	}
	if best == 0 {
		return 0, gid, Errorf("query_gid", dev.Name(), ErrInvalid, "port %d has no address: give its interface one", port)
	}
	return index, gid, nil
}

// Endpoint is what an end of an RC connection tells the other before they connect.
type Endpoint struct {
	GID netip.Addr
	LID uint16 // on InfiniBand
	QPN uint32
	PSN uint32
}

// RCParams are the attributes of an RC connection that both ends choose for
// themselves. DefaultRC has what perftest uses.
type RCParams struct {
	Port                         int
	PathMTU                      ib.MTU
	Access                       ib.AccessFlags
	Timeout, RetryCnt, RNRRetry  uint8
	MinRNRTimer                  uint8
	MaxRdAtomic, MaxDestRdAtomic uint8
	SGIDIndex                    int // the entry of the port's GID table to send from
	SL                           uint8
	FlowLabel                    uint32
	PKeyIndex                    int
	StaticRate                   int64 // see AddressVector
}

// DefaultRC returns usual attributes: port 1, a path MTU of 1024, all remote
// access, timeout code 14 (67 ms), 7 retries, an RNR timer of 0.64 ms, 16 reads.
func DefaultRC() RCParams {
	return RCParams{
		Port: 1, PathMTU: 1024,
		Access:  ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic,
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12, MaxRdAtomic: 16, MaxDestRdAtomic: 16,
	}
}

// ConnectRC takes a fresh RC queue pair from RESET to RTS, connected to remote;
// local has the first PSN that it sends.
func ConnectRC(qp QP, local, remote Endpoint, p RCParams) error {
	if err := qp.Modify(QPAttr{State: ib.Init, Port: p.Port, PKeyIndex: p.PKeyIndex, Access: p.Access}, ResetToInitRC|AttrPKeyIndex); err != nil {
		return err
	}
	if err := qp.Modify(QPAttr{
		State: ib.RTR, PathMTU: p.PathMTU, DestQPN: remote.QPN, RQPSN: remote.PSN,
		AV: AddressVector{
			GID: remote.GID, LID: remote.LID, Port: p.Port, SGIDIndex: p.SGIDIndex, HopLimit: 64, SL: p.SL, FlowLabel: p.FlowLabel, StaticRate: p.StaticRate,
		},
		MaxDestRdAtomic: p.MaxDestRdAtomic, MinRNRTimer: p.MinRNRTimer,
	}, InitToRTRRC); err != nil {
		return err
	}
	return qp.Modify(QPAttr{
		State: ib.RTS, Timeout: p.Timeout, RetryCnt: p.RetryCnt, RNRRetry: p.RNRRetry,
		SQPSN: local.PSN, MaxRdAtomic: p.MaxRdAtomic,
	}, RTRToRTSRC)
}
