package fabric

import (
	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/units"
)

// link is one direction of a link with the egress port that feeds it: what every
// packet touches, one cache line.
type link struct {
	busyUntil units.Time // when the wire is free
	lastAt    units.Time // when the last packet put on the wire arrives
	txBytes   int64
	txPackets uint64
	arrivals  des.Source // of events for the far end
	head      Handle     // the first packet on the wire: the one with an event
	tail      Handle     // the last one
	to        int32      // index of the switch or host at the far end
	toNode    des.NodeID
	kind      uint16 // an index of Network.kinds
	active    uint8  // priorities with packets waiting
	paused    uint8  // priorities that the far end has paused
	flags     uint8
	turn      uint8 // the priority that round robin has come to
}

// Flags of a link.
const (
	freePending uint8 = 1 << iota // a freeEvent is scheduled
	toHost
	fromHost
	faulty
	cut   // some packets on it were there when the link went down
	storm // the watchdog drops some priority
)

// port is what packets touch that have to queue.
type port struct {
	egress   des.Source // of events for the near end and of pause frames
	fromNode des.NodeID
	from     int32 // index of the switch or host
	queued   int32 // bytes in all queues
	maxQueue int32
	rem      uint64 // of units.Rate.SerializeRem

	drops       uint64
	dropBytes   units.Bytes
	marks       uint64
	pauseFrames uint64
}

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
	lost        uint64
	lossBelow   uint64 // of 2^53
	loss, ecn   des.Stream
	asserted    uint8 // priorities that the far end wants paused

	down       bool
	cutFrom    units.Time // after which packets arrive that were cut off
	cutUntil   units.Time // when the last of them does
	before     rateSpan
	tripped    uint8    // priorities whose pause the watchdog ended
	incasts    []incast // by priority, where packets get EIN
	trips      uint64
	stormDrops uint64
	notices    uint64
}

// serialize returns how long a frame takes on the wire.
func (n *Network) serialize(k *kind, id uint32, size int32) units.Time {
	wire := uint64(uint32(size)) + k.framing
	if k.psPerByte != 0 {
		return units.Time(wire * k.psPerByte)
	}
	var t units.Time
	t, n.ports[id].rem = k.rate.SerializeRem(units.Bytes(wire), n.ports[id].rem)
	return t
}

// put starts a packet on the wire at start.
func (n *Network) put(start units.Time, l *link, k *kind, id uint32, h Handle, p *Packet) {
	l.busyUntil = start + n.serialize(k, id, p.Size)
	l.txBytes += int64(p.Size)
	l.txPackets++
	if l.flags&faulty != 0 && n.cold[id].loss.Uint64()>>11 < n.cold[id].lossBelow {
		n.cold[id].lost++
		n.totals.Lost++
		n.Free(h)
		return
	}
	at := l.busyUntil + k.delay
	p.at, p.next = at, 0
	if l.head == 0 {
		l.head = h
		n.eng.Schedule(at, &l.arrivals, l.toNode, arriveEvent, uint64(id))
	} else {
		// The packet before is rarely in a cache by now: only write to it.
		last := &n.packets[l.tail]
		last.next, last.gap = h, uint32(min(at-l.lastAt, farGap))
	}
	l.tail, l.lastAt = h, at
}
