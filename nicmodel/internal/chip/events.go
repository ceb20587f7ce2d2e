package chip

// Kinds of events that a NIC schedules for itself, with what their argument is.
const (
	EvDoorbell        = iota // a doorbell has arrived: Stores
	EvStore                  // the NIC has room for a store that waits in the host: nothing
	EvElements               // send queue elements are in the NIC: Elements
	EvSchedule               // the scheduler is free: nothing
	EvLimiter                // a paced queue pair is due: nothing
	EvLimit                  // a burst of a limited queue pair is due: queue pair
	EvWire                   // the wire is free and a frame may be ready: nothing
	EvReceive                // a received packet has reached the transport: handle
	EvTimer                  // a queue pair's transport timer: queue pair
	EvAtomic                 // an atomic operation has ended: its index
	EvUnit                   // a queue pair's request has left its processing unit: queue pair
	EvCompletion             // a completion has become visible: Completion
	EvLand                   // data are due in host memory: nothing
	EvArm                    // an arming has reached the NIC: completion queue
	EvModeration             // a queue's event has waited long enough: completion queue
	EvInterrupt              // a completion event has got to the host: completion queue
	EvReceives               // receives are in the NIC: Receives
	EvRecordRequested        // the request for a doorbell record is at the host's memory: Receives
	EvRecordArrived          // a doorbell record is in the NIC: Receives
	EvSession                // a queue's compression session ends: completion queue
	EvEngine                 // a processor is done with an event of an engine: its index
	EvSendTime               // a wait in a send queue is over: queue pair
	EvBuffer                 // the receive buffer may have emptied far enough: nothing
)

// Alarms of a NIC's host, in the order in which they go at one instant. What drives the
// host has two of them: see OnAlarm.
const (
	AlarmEvents uint32 = iota // events of the NIC, in a divided network
	AlarmHost                 // what runs on the host
	AlarmThread               // and the thread that it posts by
	AlarmClose                // a queue pair or a region closes
)

// Stores is a doorbell for elements of a send queue.
type Stores struct {
	QPN       uint32
	Count     int   // of elements, below 1<<24
	Resets    uint8 // of the queue pair when it was rung
	BlueFlame bool  // it carries the element
}

// Pack makes an argument of it.
func (e Stores) Pack() uint64 { return packBatch(e.QPN, e.Count, e.Resets, e.BlueFlame) }

// UnpackStores is the reverse of Stores.Pack.
func UnpackStores(arg uint64) (e Stores) {
	e.QPN, e.Count, e.Resets, e.BlueFlame = unpackBatch(arg)
	return e
}

// Elements is elements of a send queue that the NIC has decoded.
type Elements struct {
	QPN     uint32
	Count   int
	Resets  uint8
	Fetched bool // by a read after a doorbell, not written by it
}

// Pack makes an argument of it.
func (e Elements) Pack() uint64 { return packBatch(e.QPN, e.Count, e.Resets, e.Fetched) }

// UnpackElements is the reverse of Elements.Pack.
func UnpackElements(arg uint64) (e Elements) {
	e.QPN, e.Count, e.Resets, e.Fetched = unpackBatch(arg)
	return e
}

// Receives concerns a receive queue's doorbell record, or a number of its elements.
type Receives struct {
	Queue  uint32
	Count  int
	Resets uint8
}

// Pack makes an argument of it.
func (e Receives) Pack() uint64 { return packBatch(e.Queue, e.Count, e.Resets, false) }

// UnpackReceives is the reverse of Receives.Pack.
func UnpackReceives(arg uint64) (e Receives) {
	e.Queue, e.Count, e.Resets, _ = unpackBatch(arg)
	return e
}

// Completion is a completion that becomes visible.
type Completion struct {
	CQ        uint32
	Solicited bool
}

// Pack makes an argument of it.
func (e Completion) Pack() uint64 { return packBatch(e.CQ, 0, 0, e.Solicited) }

// UnpackCompletion is the reverse of Completion.Pack.
func UnpackCompletion(arg uint64) (e Completion) {
	e.CQ, _, _, e.Solicited = unpackBatch(arg)
	return e
}

// packBatch has a queue's number in 32 bits, a count of its elements in 24, how often it
// was reset in 7, and a flag in the last.
func packBatch(num uint32, count int, resets uint8, flag bool) uint64 {
	arg := uint64(num) | uint64(count)<<32 | uint64(resets)<<56
	if flag {
		arg |= 1 << 63
	}
	return arg
}

func unpackBatch(arg uint64) (num uint32, count int, resets uint8, flag bool) {
	return uint32(arg), int(arg >> 32 & 0xffffff), uint8(arg >> 56 & 0x7f), arg>>63 != 0
}
