package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Config is a queue pair's receive side: the attributes of INIT
// and of INIT to RTR (IBA chapter 11), and the sizes of what New allocates.
type Config struct {
	// Type is RC, UC or UD. Zero is RC. On the other two MaxDestRdAtomic,
	// MinRNRTimer and Credits must be zero: nothing is answered.
	Type ib.QPType
	// MTU is the payload of a full packet: the path MTU, with UD the port's, or in a model
	// that compares itself with other simulators anything from 64 to 65535.
	MTU units.Bytes
	// SendDepth is the number of requests the send queue holds, 1 to 65536.
	SendDepth int
	// Recv is the receive queue. It may be nil: then every packet that needs a
	// receive is answered with an RNR NAK.
	Recv *RecvQueue
	// SharedRecv says that other queue pairs draw on Recv too: an SRQ. A queue
	// pair that fails then leaves it alone, and raises EventQPLastWQE.
	SharedRecv bool

	// RemotePSN is the PSN that the first request will have (rq_psn).
	RemotePSN units.PSN
	// MaxDestRdAtomic is the number of READ and atomic requests of the other side
	// may be outstanding here, 0 to 255: the responder resources. A requester
	// must not be given a larger MaxRdAtomic.
	MaxDestRdAtomic int
	// MinRNRTimer is the encoded time that an RNR NAK asks the other side to
	// wait, 0 to 31: 0 is 655.36 ms, 1 is 0.01 ms, 31 is 491.52 ms (IBA table 45).
	MinRNRTimer uint8
	// Access says which remote operations the queue pair admits at all. What a
	// memory region admits is for the driver's check.
	Access ib.AccessFlags

	// Credits turns on end-to-end flow control (IBA 9.7.7.2): the responder
	// advertises its receives and the requester holds back what lacks one.
	// Both sides must agree (REQ and REP of the connection manager say it).
	// Without it the responder advertises SyndromeUnlimited and the requester
	// ignores credits. It must be off where Recv is shared.
	Credits bool

	// Reorder turns on selective repeat, where both sides must agree: what arrives
	// beyond a gap is kept, as far as this many packets from it, and only what is missing
	// is sent again. It bounds SendConfig.Window too. It is a power of two from 64 to
	// 65536, and takes three bits a packet; 0 is go-back-N. It is for reliable
	// connections without Credits.
	Reorder int
}

// SendConfig is a queue pair's send side: the attributes of RTR to
// RTS (IBA chapter 11) and the choices that the specification leaves to a
// requester. Unreliable connections and datagrams have only InitialPSN and Window, which there
// bounds what is described and not yet Sent; the others must be zero.
type SendConfig struct {
	// InitialPSN is the PSN of the first request (sq_psn).
	InitialPSN units.PSN
	// Timeout is the encoded time without progress after which the requester
	// sends again: 4.096 us * 2^Timeout; 0 is never, the largest is 31.
	Timeout uint8
	// RTOHigh, if not 0, replaces Timeout.
	RTOHigh units.Time
	// RTOLow, if not 0, is used instead with at most three packets outstanding (IRN,
	// section 3.1). It needs Config.Reorder.
	RTOLow units.Time
	// Adp, if not nil, begins with shorter timeouts than these: adaptive retransmission
	// (adaptive.go), whose first timeout is AdpInitial. The driver draws it.
	Adp        *AdpProfile
	AdpInitial uint8
	// RetryCount is the number of times in a row, without progress, that the requester goes
	// back after a timeout or a sequence error, 0 to 7. Seven is not infinite.
	RetryCount uint8
	// RNRRetry is the same for RNR NAKs, 0 to 7, but 7 is infinite.
	RNRRetry uint8
	// MaxRdAtomic is the largest number of outstanding READ and atomic requests, 0
	// to 255.
	MaxRdAtomic int
	// ReadPackets cuts READs: none asks for more than this many packets. A longer READ
	// goes out as several requests, each of which counts towards MaxRdAtomic. 0 leaves
	// READs whole. A responder can't distinguish the parts from READs. Since it counts
	// the parts as messages, its credits can't be used with them.
	ReadPackets int
	// AckReqEvery sets AckReq on every AckReqEvery-th packet of a message. It is also
	// set on the message's last packet, the packet that exhausts Window and the
	// packets that [QP.BoundInflight] selects. 0 means 64. 1 is for congestion
	// control that acts on each packet. A driver may set AckReq on any request
	// itself.
	AckReqEvery int
	// Window bounds the PSNs that are sent and not acknowledged, 1 to 2^23; 0
	// means 2^23. A READ may start as long as one PSN is free and reach beyond
	// the window with its responses.
	Window int
}

const defaultAckReqEvery = 64

// TimeoutTime decodes a SendConfig.Timeout: 4.096 us * 2^n, or units.Never for
// 0 (IBA 9.7.6.1.3). Only the low five bits count.
func TimeoutTime(n uint8) units.Time {
	if n &= 31; n == 0 {
		return units.Never
	}
	return 4096 * units.Nanosecond << n
}

// rnrTimers is IBA table 45 in units of 10 us.
var rnrTimers = [32]units.Time{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTime decodes an RNR timer field (IBA table 45). Only the low five bits
// count.
func RNRTime(n uint8) units.Time { return rnrTimers[n&31] * 10 * units.Microsecond }
