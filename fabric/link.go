package fabric

import (
	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/units"
)

// link is one direction of a link with the egress port that feeds it: the hot
// state, two cache lines. The first is what sending touches, the second what
// arriving does.
type link struct {
	busyUntil units.Time // when the wire is free
	delay     units.Time // of propagation, and the latency of the switch it leads to
	txBytes   int64
	txPackets uint64
	egress    des.Source // of events for the near end and of pause frames
	queued    int32      // bytes in the port's queues
	psPerByte uint32     // 0 if that is no whole number, and rate and rem decide
	active    uint8      // priorities with packets waiting
	paused    uint8      // priorities that the far end has paused
	flags     uint8
	framing   uint8
	treat     uint16 // how the port treats packets: an index of Network.treats
	turn      uint8  // the priority that round robin has come to
	from      int32  // index of the switch or host
	fromNode  des.NodeID
	tail      Handle // the last packet on the wire

	arrivals des.Source
	head     Handle // the first packet on the wire: the one with an event
	toNode   des.NodeID
	to       int32
	maxQueue int32
	rate     units.Rate
	rem      uint64 // of units.Rate.SerializeRem
	drops    uint64
	marks    uint64
	_        [8]byte
}

// Flags of a link.
const (
	freePending uint8 = 1 << iota // a freeEvent is scheduled
	toHost
	fromHost
	faulty
)

// queue is the packets of one priority that wait at a port.
type queue struct {
	head, tail Handle
	bytes      int32
	deficit    int32 // of deficit round robin
}

// coldLink is what packets rarely touch.
type coldLink struct {
	paused      [MaxPriorities]units.Time // so far, without the pause that lasts
	pausedSince [MaxPriorities]units.Time
	pauseFrames uint64
	dropBytes   units.Bytes
	lost        uint64
	lossBelow   uint64 // of 2^53
	loss, ecn   des.Stream
	asserted    uint8 // priorities that the far end wants paused
}

// serialize returns how long a frame takes on the wire.
func (l *link) serialize(size int32) units.Time {
	wire := uint64(uint32(size)) + uint64(l.framing)
	if l.psPerByte != 0 {
		return units.Time(wire * uint64(l.psPerByte))
	}
	var t units.Time
	t, l.rem = l.rate.SerializeRem(units.Bytes(wire), l.rem)
	return t
}

// put starts a packet on the wire at l.busyUntil.
func (n *Network) put(l *link, id uint32, h Handle, p *Packet) {
	l.busyUntil += l.serialize(p.Size)
	l.txBytes += int64(p.Size)
	l.txPackets++
	if l.flags&faulty != 0 && n.cold[id].loss.Uint64()>>11 < n.cold[id].lossBelow {
		n.cold[id].lost++
		n.totals.Lost++
		n.Free(h)
		return
	}
	p.at, p.next = l.busyUntil+l.delay, 0
	if l.head == 0 {
		l.head = h
		n.eng.Schedule(p.at, &l.arrivals, l.toNode, arriveEvent, uint64(id))
	} else {
		n.packets[l.tail].next = h
	}
	l.tail = h
}
