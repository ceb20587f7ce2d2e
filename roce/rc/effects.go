package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Request is a send work request.
type Request struct {
	ID         uint64 // the application's wr_id; returned with the completion
	Op         ib.WROpcode
	Signaled   bool   // report success; failure is always reported
	Solicited  bool   // set SE on the last packet, where the request consumes a receive
	Fence      bool   // start only when all earlier READs and atomics have completed
	Length     uint32 // bytes, 0 to 2^31; atomics have 8 whatever it says
	RKey       uint32 // READ, WRITE, atomics
	Imm        uint32 // immediate data, or the key to invalidate
	RemoteAddr uint64 // READ, WRITE, atomics
	Swap       uint64 // the value to swap in, or to add
	Compare    uint64
}

// Source says where the payload of a packet to send comes from.
type Source uint8

// Sources of payload.
const (
	SourceNone     Source = iota // the packet has no payload
	SourceRequest                // Payload bytes at Offset of the request in Slot
	SourceMemory                 // Payload bytes at VA under RKey: a READ response
	SourceLocalInv               // no packet at all: invalidate the key Header.Imm here and now
	SourceBindMW                 // no packet at all: bind a memory window as the request in Slot says
)

// Descriptor is one packet to send.
type Descriptor struct {
	Header  Header
	Source  Source
	Payload int    // bytes of payload that follow the headers
	Slot    uint32 // SourceRequest, SourceLocalInv, SourceBindMW and all requests: the slot that PostSend returned
	Offset  uint32 // SourceRequest and READ requests: where in the message the packet begins
	VA      uint64 // SourceMemory
	RKey    uint32 // SourceMemory

	// Expect is the number of payload bytes in a READ's responses; 0 for other
	// requests. What counts against a congestion window is Payload +
	// Expect.
	Expect uint32
	// Last marks the last packet of a request or response message.
	Last bool
	// Retransmit says that the PSN of this request was sent before.
	Retransmit bool
	// response says for Fresh which of the two epochs Epoch belongs to.
	response bool
	epoch    uint32
}

// Do is a set of actions that an Effects requests of the driver, and of facts that
// it reports.
type Do uint16

// Requested actions. Several may be set, except that DoCheck is always alone.
const (
	// DoCheck: check Effects.Check and call Checked before the next Receive.
	DoCheck Do = 1 << iota
	// DoPlace: move the packet's payload, or its Orig, to Effects.Place.
	DoPlace
	// DoAtomic: perform Effects.Atomic, then call AtomicDone.
	DoAtomic
	// DoRecv: report Effects.Recv once everything placed for it is in memory.
	DoRecv
	// DoRespond: NextResponse has a packet.
	DoRespond
	// DoSend: a request that had to wait may be sendable now; ask NextRequest.
	DoSend
	// DoComplete: PollSend has completions, or PollRecv has flushed receives.
	DoComplete
	// DoTimer: Deadline has become earlier. NextRequest, which has no
	// Effects, may do that too.
	DoTimer
)

// Drop says why a packet was not accepted.
type Drop uint8

// Reasons.
const (
	DropNone        Drop = iota
	DropState            // the queue pair is not in a state to take it
	DropBusy             // the driver owes a Checked
	DropOpcode           // no opcode of the connection's transport service
	DropDuplicate        // a request that was executed before; acknowledged or answered again where the rules say so
	DropSequence         // a request beyond the expected PSN; on an unreliable connection the rest of a dropped message
	DropNotReady         // no receive: RNR NAK, if reliable
	DropInvalid          // NAK: invalid request, if reliable
	DropAccess           // NAK: remote access error, if reliable
	DropGhost            // a response outside of what is outstanding, or one with a reserved syndrome
	DropOutOfOrder       // a response that follows a missing one
	DropBadResponse      // a response that its request can't have: the request fails
)

// Rewind says why the requester went back to its oldest unacknowledged packet.
type Rewind uint8

// Reasons to go back.
const (
	RewindNone     Rewind = iota
	RewindSequence        // NAK: PSN sequence error
	RewindImplied         // a response implies that those of an earlier READ or atomic were lost
	RewindTimeout         // no progress for the timeout
	RewindNotReady        // RNR NAK; nothing is sent until the time that it asks for has passed
)

// Check is an access check that the driver has to make.
type Check struct {
	Access ib.AccessFlags // AccessRemoteWrite, AccessRemoteRead or AccessRemoteAtomic
	// Invalidate: no access, but whether the peer may invalidate RKey (SEND
	// with invalidate). VA, Length and Access are zero.
	Invalidate bool
	RKey       uint32
	VA         uint64
	Length     uint32 // bytes of the whole message, at least 1; VA+Length does not wrap around
}

// PlaceKind says where payload goes.
type PlaceKind uint8

// Places.
const (
	PlaceMemory PlaceKind = iota // Length bytes to VA under RKey: within what was checked
	PlaceRecv                    // Length bytes to Offset of the receive in Slot; of a datagram, the first GRHBytes are not payload
	PlaceRead                    // Length bytes to Offset of the request in Slot
	PlaceAtomic                  // Header.Orig, 8 bytes, to the request in Slot
)

// Place is the destination of a received packet's payload.
type Place struct {
	Kind   PlaceKind
	Slot   uint32
	Offset uint32
	Length uint32 // at least 1
	VA     uint64
	RKey   uint32
}

// Atomic is an atomic operation to perform on 8 bytes at VA under RKey, after
// all placements before it and before all after it.
type Atomic struct {
	Op      ib.Opcode // CompareSwap or FetchAdd
	Slot    uint32    // for AtomicDone
	RKey    uint32
	VA      uint64 // a multiple of 8
	Swap    uint64 // the value to swap in, or to add
	Compare uint64
}

// RecvCompletion is a receive work request that has ended.
type RecvCompletion struct {
	ID            uint64
	Slot          uint32 // give it back with RecvQueue.Free
	Bytes         uint32 // received, or written by the WRITE with immediate
	Imm           uint32 // immediate data, or the key that the peer has had invalidated
	Status        ib.WCStatus
	Opcode        ib.WCOpcode // WCRecv or WCRecvRDMAWithImm
	HasImm        bool
	HasInvalidate bool
	Solicited     bool
}

// SendCompletion is a send work request that has ended.
type SendCompletion struct {
	ID     uint64
	Slot   uint32 // free for the next PostSend from now on
	Bytes  uint32 // length of the request
	Status ib.WCStatus
	Opcode ib.WCOpcode
	PSN    units.PSN // its last packet's
}

// EventSet is a set of asynchronous events.
type EventSet uint32

// Has reports whether e is in the set.
func (s EventSet) Has(e ib.EventType) bool { return s&(1<<e) != 0 }

func (s *EventSet) add(e ib.EventType) { *s |= 1 << e }

// Effects is a call's list of things for the driver to do. It belongs to the driver, which
// passes the same one again and again. Do says which of Check, Place, Atomic
// and Recv are valid: the others hold old values.
type Effects struct {
	Do     Do
	Drop   Drop
	Rewind Rewind
	Events EventSet

	// AckedBytes is payload newly acknowledged by this packet, or newly
	// arrived with it as a READ response; AckedPackets the same in packets.
	// For congestion control: AckedBytes since the start never exceeds what
	// Payload and Expect of the descriptors, retransmissions apart, add up to.
	AckedBytes   units.Bytes
	AckedPackets int32

	Check  Check
	Place  Place
	Atomic Atomic
	Recv   RecvCompletion
}

func (e *Effects) reset() {
	e.Do, e.Drop, e.Rewind, e.Events = 0, DropNone, RewindNone, 0
	e.AckedBytes, e.AckedPackets = 0, 0
}

// Counters count what happened to one queue pair. Names are those of the
// kernel's hw_counters where it has one.
type Counters struct {
	// Requester.
	PacketSeqErr          uint64 // NAKs: PSN sequence error, that made the requester go back
	ImpliedNakSeqErr      uint64 // responses that implied an earlier one was lost
	LocalAckTimeoutErr    uint64 // timeouts
	RoceAdpRetrans        uint64 // timeouts of adaptive retransmission that are shorter than the queue pair's own
	RoceAdpRetransTO      uint64 // requests that ended with one of these
	RNRNakRetryErr        uint64 // RNR NAKs received
	ReqRemoteInvalid      uint64 // NAKs: invalid request (req_remote_invalid_request)
	ReqRemoteAccessErrors uint64 // NAKs: remote access error
	ReqRemoteOpErr        uint64 // NAKs: remote operational error
	RetryExceeded         uint64 // requests that ran out of retries (retry_exceeded_err)
	RNRRetryExceeded      uint64 // the same for RNR NAKs (rnr_nak_retry_exceeded_err)
	BadResponses          uint64 // responses that their request can't have
	GhostResponses        uint64 // responses outside of what is outstanding
	RetransmittedPackets  uint64
	SentPackets           uint64 // request packets, retransmissions included

	// Responder.
	OutOfSequence            uint64 // requests beyond the expected PSN
	DuplicateRequest         uint64 // requests executed before
	OutOfBuffer              uint64 // RNR NAKs sent
	RespRemoteAccessErrors   uint64 // access checks that failed
	RespRemoteInvalidRequest uint64 // NAKs: invalid request, sent
	RespLocalLengthError     uint64 // messages longer than their receive
	RxWriteRequests          uint64 // messages
	RxReadRequests           uint64
	RxAtomicRequests         uint64
	RxSendRequests           uint64
	SentAcks                 uint64 // ACKs that answered no READ or atomic
	SentNaks                 uint64 // of any kind, RNR included
}

// Add adds what another queue pair counted.
func (c *Counters) Add(o *Counters) {
	c.PacketSeqErr += o.PacketSeqErr
	c.ImpliedNakSeqErr += o.ImpliedNakSeqErr
	c.LocalAckTimeoutErr += o.LocalAckTimeoutErr
	c.RoceAdpRetrans += o.RoceAdpRetrans
	c.RoceAdpRetransTO += o.RoceAdpRetransTO
	c.RNRNakRetryErr += o.RNRNakRetryErr
	c.ReqRemoteInvalid += o.ReqRemoteInvalid
	c.ReqRemoteAccessErrors += o.ReqRemoteAccessErrors
	c.ReqRemoteOpErr += o.ReqRemoteOpErr
	c.RetryExceeded += o.RetryExceeded
	c.RNRRetryExceeded += o.RNRRetryExceeded
	c.BadResponses += o.BadResponses
	c.GhostResponses += o.GhostResponses
	c.RetransmittedPackets += o.RetransmittedPackets
	c.SentPackets += o.SentPackets
	c.OutOfSequence += o.OutOfSequence
	c.DuplicateRequest += o.DuplicateRequest
	c.OutOfBuffer += o.OutOfBuffer
	c.RespRemoteAccessErrors += o.RespRemoteAccessErrors
	c.RespRemoteInvalidRequest += o.RespRemoteInvalidRequest
	c.RespLocalLengthError += o.RespLocalLengthError
	c.RxWriteRequests += o.RxWriteRequests
	c.RxReadRequests += o.RxReadRequests
	c.RxAtomicRequests += o.RxAtomicRequests
	c.RxSendRequests += o.RxSendRequests
	c.SentAcks += o.SentAcks
	c.SentNaks += o.SentNaks
}
