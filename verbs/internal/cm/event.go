package cm

import (
	"github.com/sluice-rdma/sluice/roce"
)

// EventType is the kind of an Event.
type EventType uint8

// Events. Rejected, Unreachable and Disconnected end a connection: each has
// exactly one of them, or none if it never reached the application or the
// application refused it itself. TimeWaitExit follows the end.
const (
	// EventRequest: a REQ arrived; call Accept or Reject with the new ID.
	EventRequest EventType = iota + 1
	// EventReply: the REP arrived; bring the queue pair to RTS with Parameters and
	// call Ready, or Reject.
	EventReply
	// EventEstablished: the RTU arrived, or Established was called.
	EventEstablished
	// EventRejected: the other side refused, or gave up; Reason says why.
	EventRejected
	// EventUnreachable: no answer to REQ, REP or SIDR_REQ.
	EventUnreachable
	// EventDisconnected: the connection is released.
	EventDisconnected
	// EventTimeWaitExit: the connection is forgotten; the number of its queue
	// pair may be used again.
	EventTimeWaitExit
	// EventLookUp: a SIDR_REQ arrived; call Answer with the new ID.
	EventLookUp
	// EventFound: the answer to a LookUp arrived; the ID is no longer in use.
	EventFound
)

var eventNames = [...]string{
	"", "request", "reply", "established", "rejected", "unreachable", "disconnected", "timewait exit", "look-up", "found",
}

func (t EventType) String() string { return eventNames[min(int(t), len(eventNames)-1)] }

// Ends reports whether the event ends a connection.
func (t EventType) Ends() bool { return t >= EventRejected && t <= EventDisconnected }

// Event is something that happened to a connection.
type Event struct {
	Type EventType
	ID   uint32 // the connection: its local communication ID
	// ServiceID is that of the listener (EventRequest, EventLookUp).
	ServiceID uint64
	// Answer is the other side's, without its private data (EventFound).
	Answer Answer
	// Parameters are as far as they are known: all of them with EventReply and
	// after, those of the REQ with EventRequest: MaxRdAtomic and MaxDestRdAtomic
	// are then the most that Accept may settle on.
	Parameters Parameters
	Reason     roce.RejectReason // EventRejected
	Info       []byte            // EventRejected: additional reject information
	// Private is the other application's data, all the room of the message.
	Private []byte
}

// Outgoing is a management datagram to send to queue pair 1 of the path's remote
// address.
type Outgoing struct {
	Path Path
	MAD  [roce.MADBytes]byte
}

// Counters count messages received and sent, and their errors.
type Counters struct {
	Received, Sent [roce.NumAttributes]uint64 // by attribute, from roce.AttrREQ on
	Malformed      [roce.NumMalformed]uint64

	Retransmitted uint64 // REQs, REPs and DREQs sent again for lack of an answer
	Duplicates    uint64 // messages that had come before
	Unmatched     uint64 // messages for no connection
	WrongSource   uint64 // messages from another address than the connection's, REQs from another than they name
	WrongState    uint64 // messages that the state of their connection has no use for
	BadField      uint64 // messages with a field that can't be
	Stale         uint64 // REQs and REPs for a queue pair that an older connection still had
	NoListener    uint64 // REQs refused because nothing listens
	Probed        uint64 // peers probed because a REQ contradicts a connection
	Forged        uint64 // such REQs that the peer's answer has refuted
	Backlog       uint64 // REQs dropped, the new one or one that waited, because too many wait
	TableFull     uint64 // REQs dropped because of Config.MaxConnections
}

func index(a roce.Attribute) int { return int(a - roce.AttrREQ) }
