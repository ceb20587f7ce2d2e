package ib

import "strings"

// MaxMessage is the longest message in bytes (IBA 9.7.6.1.1).
const MaxMessage = 1 << 31

// QPType is the transport service of a queue pair (ibv_qp_type).
type QPType uint8

// Transport services. The values are libibverbs'.
const (
	RC QPType = 2
	UC QPType = 3
	UD QPType = 4
)

func (t QPType) String() string {
	return name(map[QPType]string{RC: "RC", UC: "UC", UD: "UD"}, t, "QPType")
}

// QPState is the state of a queue pair (ibv_qp_state; IBA 10.3.1).
type QPState uint8

// States. The values are libibverbs'.
const (
	Reset QPState = 0
	Init  QPState = 1
	RTR   QPState = 2 // ready to receive
	RTS   QPState = 3 // ready to send
	SQD   QPState = 4 // send queue drained
	SQE   QPState = 5 // send queue error
	Err   QPState = 6
)

func (s QPState) String() string {
	return name(map[QPState]string{Reset: "RESET", Init: "INIT", RTR: "RTR", RTS: "RTS", SQD: "SQD", SQE: "SQE", Err: "ERR"}, s, "QPState")
}

// CanBecome reports whether Modify may take a queue pair from s to next
// (IBA 10.3.1). Any state may become Reset or Err.
func (s QPState) CanBecome(next QPState) bool {
	if next == Reset || next == Err {
		return true
	}
	switch s {
	case Reset:
		return next == Init
	case Init:
		return next == Init || next == RTR
	case RTR:
		return next == RTS
	case RTS:
		return next == RTS || next == SQD
	case SQD:
		return next == SQD || next == RTS
	case SQE:
		return next == RTS
	}
	return false
}

// AccessFlags say what may be done with a memory region or through a queue pair
// (ibv_access_flags).
type AccessFlags uint32

// Access flags. The values are libibverbs'.
const (
	AccessLocalWrite   AccessFlags = 1 << 0
	AccessRemoteWrite  AccessFlags = 1 << 1
	AccessRemoteRead   AccessFlags = 1 << 2
	AccessRemoteAtomic AccessFlags = 1 << 3
	AccessMWBind       AccessFlags = 1 << 4 // memory windows may be bound to a region
	AccessHugeTLB      AccessFlags = 1 << 7 // no access: a region's memory has huge pages

	// AccessRemoteInvalidate lets peers invalidate a region's key (SEND with
	// invalidate, IBA 10.6.5). It is Sluice's own: libibverbs has no flag for it, and
	// its devices let peers invalidate memory windows and fast-registered regions only.
	AccessRemoteInvalidate AccessFlags = 1 << 31
)

func (f AccessFlags) String() string {
	var on []string
	for i, s := range []string{0: "LOCAL_WRITE", 1: "REMOTE_WRITE", 2: "REMOTE_READ", 3: "REMOTE_ATOMIC", 4: "MW_BIND", 7: "HUGETLB", 31: "REMOTE_INVALIDATE"} {
		if s != "" && f&(1<<i) != 0 {
			on = append(on, s)
		}
	}
	if len(on) == 0 {
		return "LOCAL_READ"
	}
	return strings.Join(on, "|")
}

// MTU is a path MTU in bytes of payload, as verbs have it: 256, 512, 1024, 2048 or 4096.
type MTU int

// Valid reports whether m is one of the five path MTUs of the specification.
func (m MTU) Valid() bool {
	switch m {
	case 256, 512, 1024, 2048, 4096:
		return true
	}
	return false
}

// EventType is the type of an asynchronous event (ibv_event_type).
type EventType uint8

// Asynchronous events. The values are libibverbs'.
const (
	EventCQErr       EventType = 0
	EventQPFatal     EventType = 1
	EventQPReqErr    EventType = 2
	EventQPAccessErr EventType = 3
	EventCommEst     EventType = 4
	EventSQDrained   EventType = 5
	EventDeviceFatal EventType = 8
	EventPortActive  EventType = 9
	EventPortErr     EventType = 10
	EventSRQErr      EventType = 14
	EventSRQLimit    EventType = 15
	EventQPLastWQE   EventType = 16
	EventGIDChange   EventType = 18
)

func (e EventType) String() string {
	return name(map[EventType]string{
		EventCQErr: "CQ error", EventQPFatal: "local work queue catastrophic error",
		EventQPReqErr: "invalid request local work queue error", EventQPAccessErr: "local access violation work queue error",
		EventCommEst: "communication established", EventSQDrained: "send queue drained",
		EventDeviceFatal: "local catastrophic error", EventPortActive: "port active", EventPortErr: "port error",
		EventSRQErr: "SRQ catastrophic error", EventSRQLimit: "SRQ limit reached", EventQPLastWQE: "last WQE reached",
		EventGIDChange: "GID table change",
	}, e, "EventType")
}
