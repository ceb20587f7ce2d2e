package nicmodel

import (
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Kinds of events that a NIC schedules for itself, with what their argument is.
const (
	evDoorbell        = iota // a doorbell has arrived: doorbellEvent
	evStore                  // the NIC has room for a store that waits in the host: nothing
	evElements               // send queue elements are in the NIC: elementsEvent
	evSchedule               // the scheduler is free: nothing
	evLimiter                // a paced queue pair is due: nothing
	evLimit                  // a burst of a limited queue pair is due: queue pair
	evWire                   // the wire is free and a frame may be ready: nothing
	evReceive                // a received packet has reached the transport: handle
	evTimer                  // a queue pair's transport timer: queue pair
	evAtomic                 // an atomic operation has ended: its index
	evUnit                   // a queue pair's request has left its processing unit: queue pair
	evCompletion             // a completion has become visible: completionEvent
	evLand                   // data are due in host memory: nothing
	evArm                    // an arming has reached the NIC: completion queue
	evModeration             // a queue's event has waited long enough: completion queue
	evInterrupt              // a completion event has got to the host: completion queue
	evReceives               // receives are in the NIC: receivesEvent
	evRecordRequested        // the request for a doorbell record is at the host's memory: receivesEvent
	evRecordArrived          // a doorbell record is in the NIC: receivesEvent
	evSession                // a queue's compression session ends: completion queue
	evEngine                 // a processor is done with an event of an engine: its index
	evSendTime               // a wait in a send queue is over: queue pair
	evBuffer                 // the receive buffer may have emptied far enough: nothing
)

// schedule sends the NIC an event. It carries one integer; what has more to say is packed
// and unpacked here.
//
// In a divided network the NIC keeps its events itself: its host's alarm is the earliest.
func (c *chip) schedule(at units.Time, kind uint32, arg uint64) {
	if !c.divided {
		c.engine.Schedule(at, &c.src, c.id, kind, arg)
		return
	}
	c.events.add(at, kind, arg)
	if at < c.alarmAt {
		c.alarmAt = at
		c.net.SetAlarm(c.host, alarmEvents, at)
	}
}

// Alarms of a NIC's host, in the order in which they go at one instant. What drives the
// host has two of them: see OnAlarm.
const (
	alarmEvents uint32 = iota // events of the NIC, in a divided network
	AlarmHost                 // what runs on the host
	AlarmThread               // and the thread that it posts by
	alarmClose                // a queue pair or a region closes
)

// OnAlarm calls f at the times of an alarm of the NIC's host, AlarmHost or AlarmThread
// (fabric.Network.SetAlarm).
func (n *NIC) OnAlarm(alarm uint32, f func(now units.Time)) { n.onAlarm[alarm-AlarmHost] = f }

// enter notes what lane calls the NIC, and when. What one port does may reach the other.
func (n *NIC) enter(x *fabric.Lane, now units.Time) {
	n.lane, n.called = x, now
	if n.other != nil {
		n.other.lane, n.other.called = x, now
	}
}

// Wake implements fabric.Waker.
func (n *NIC) Wake(x *fabric.Lane, now units.Time, alarm uint32) {
	n.enter(x, now)
	switch alarm {
	case alarmEvents:
		n.alarmAt = now // what is added meanwhile is seen here
		for {
			ev, next := n.events.take(now)
			if next > now {
				n.alarmAt = next
				break
			}
			n.Handle(ev)
		}
		if n.alarmAt != units.Never {
			n.net.SetAlarm(n.host, alarmEvents, n.alarmAt)
		}
	case alarmClose:
		n.close(now)
	default:
		n.onAlarm[alarm-AlarmHost](now)
	}
}

// Now is the time at the NIC: of what happens to it, or the engine's, which in a divided
// network stands still while hosts are at work.
func (c *chip) Now() units.Time { return max(c.called, c.engine.Now()) }

// Lane is the lane of the network that the NIC's host runs on now, or did last.
func (n *NIC) Lane() *fabric.Lane { return n.lane }

// doorbellEvent is a doorbell for elements of a send queue.
type doorbellEvent struct {
	qpn       uint32
	count     int   // of elements, below 1<<24
	resets    uint8 // of the queue pair when it was rung
	blueFlame bool  // it carries the element
}

func (e doorbellEvent) pack() uint64 { return packBatch(e.qpn, e.count, e.resets, e.blueFlame) }

func unpackDoorbell(arg uint64) (e doorbellEvent) {
	e.qpn, e.count, e.resets, e.blueFlame = unpackBatch(arg)
	return e
}

// elementsEvent is elements of a send queue that the NIC has decoded.
type elementsEvent struct {
	qpn     uint32
	count   int
	resets  uint8
	fetched bool // by a read after a doorbell, not written by it
}

func (e elementsEvent) pack() uint64 { return packBatch(e.qpn, e.count, e.resets, e.fetched) }

func unpackElements(arg uint64) (e elementsEvent) {
	e.qpn, e.count, e.resets, e.fetched = unpackBatch(arg)
	return e
}

// receivesEvent is about a receive queue's doorbell record, or so many of its elements.
type receivesEvent struct {
	queue  uint32
	count  int
	resets uint8
}

func (e receivesEvent) pack() uint64 { return packBatch(e.queue, e.count, e.resets, false) }

func unpackReceives(arg uint64) (e receivesEvent) {
	e.queue, e.count, e.resets, _ = unpackBatch(arg)
	return e
}

// completionEvent is a completion that becomes visible.
type completionEvent struct {
	cq        uint32
	solicited bool
}

func (e completionEvent) pack() uint64 { return packBatch(e.cq, 0, 0, e.solicited) }

func unpackCompletion(arg uint64) (e completionEvent) {
	e.cq, _, _, e.solicited = unpackBatch(arg)
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
