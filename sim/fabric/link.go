package fabric

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// A node's ports are numbered from 0 in the order of its links, and those of all
// nodes, node by node, give each its place in Network.ports and in the slices beside
// it. A place represents both directions of its link: the port sends by the link that
// leads out of it, and its peer sends by the other. So a node's memory lies together,
// and no other node writes to it, except to inlet.head before a link's first packet.
// In a divided network a node reads from others only Division.told and Division.mail.

// port is the sending side of a port, one cache line.
type port struct {
	busyUntil units.Time // when the wire is free
	txBytes   int64
	txPackets uint64
	wire      outlet
	onWire    uint32 // entries put on the wire, modulo 2^32
	peer      uint32 // the port at the link's other end
	queued    int32  // bytes in all queues
	maxQueue  int32
	kind      uint16 // an index of Network.kinds
	active    uint8  // priorities with packets waiting
	paused    uint8  // priorities that the far end has paused
	flags     uint8
	turn      uint8 // the priority that round robin has come to
}

// Flags of a port.
const (
	freePending uint8 = 1 << iota // a freeEvent is scheduled
	faulty
	storm   // the watchdog drops some priority
	told    // what has been put on its wire is on the lane's list
	voqPort // its queues are a VOQ: see circuit.go
	observed
)

// coldPort holds the parts of a port that packets rarely touch.
type coldPort struct {
	rem         uint64 // of units.Rate.SerializeRem
	dropBytes   units.Bytes
	pauseFrames uint64
	lost        uint64 // of the packets that this end sent, by faults
	severed     uint64 // and those to this end that were on the link when it was cut
	corrupted   uint64 // of the lost ones
	lossBelow   uint64 // of 2^53
	// corruptBelow is the same of packets that are corrupted.
	corruptBelow uint64
	loss, ecn    des.Stream

	pauses   outlet // pause frames on the wire, in a divided network
	asserted uint8  // priorities that this end asks the far end to pause
	stormed  uint8  // and those that it pauses besides, in a storm

	down       bool
	before     rateSpan
	tripped    uint8             // priorities whose pause the watchdog ended
	watched    uint8             // priorities with a watch, in a divided network
	incasts    []incast          // by priority, where packets get EIN
	incast     *telemetry.Incast // the same where there is a report; nil before the first packet
	trips      uint64
	stormDrops uint64
	notices    uint64
	observe    func(now units.Time, queued units.Bytes) // where the port is observed
}

// coldQueue holds the parts of a priority's queue that packets rarely touch.
type coldQueue struct {
	paused       units.Time // so far, without the pause that lasts
	pausedSince  units.Time
	drops, marks uint64
}

// coldQueue returns that of a priority at a port.
func (n *Network) coldQueue(at, prio uint32) *coldQueue { return &n.coldQueues[at*n.prios+prio] }

// serialize returns how long a frame takes on the wire.
func (n *Network) serialize(k *kind, at uint32, size int32) units.Time {
	wire := uint64(uint32(size)) + k.framing
	if k.psPerByte == 0 {
		return n.serializeRem(k, at, wire)
	}
	return units.Time(wire * k.psPerByte)
}

func (n *Network) serializeRem(k *kind, at uint32, wire uint64) (t units.Time) {
	t, n.cold[at].rem = k.rate.SerializeRem(units.Bytes(wire), n.cold[at].rem)
	return t
}

// put starts a packet on the wire of a port at start.
func (x *Lane) put(start units.Time, at uint32, l *port, k *kind, e *entry) {
	n := x.n
	size := e.size()
	wire := uint64(uint32(size)) + k.framing
	if k.psPerByte != 0 {
		start += units.Time(wire * k.psPerByte)
	} else {
		start += n.serializeRem(k, at, wire)
	}
	l.busyUntil = start
	l.txBytes += int64(size)
	l.txPackets++
	if l.flags&faulty != 0 && x.spoiled(at, l) {
		x.totals.Lost++
		x.Free(e.handle())
		return
	}
	start += k.delay
	o := &l.wire
	if o.n >= chunkEntries {
		o.extend(x, &n.inlets[l.peer].head)
	}
	// Word by word: what has just been written of e can't be read in larger pieces yet.
	to := o.tail.at(o.n)
	to.when, to.name, to.to = e.when&belowAt|uint64(start)<<atShift, e.name, e.to
	o.n++
	l.onWire++
	if x.divided {
		if l.flags&told == 0 {
			l.flags |= told
			x.news = append(x.news, news{at, start})
		}
		return
	}
	in := &n.inlets[l.peer]
	if in.known++; in.known-in.taken == 1 {
		n.post(start, n.arrivals+uint32(in.link), in.node, arriveEvent, uint64(l.peer))
	}
}
