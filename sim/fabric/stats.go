package fabric

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// Port is an egress port: what feeds one direction of a link.
type Port struct {
	n    *Network
	at   uint32
	link LinkID
}

// Port returns the port that feeds a link.
func (n *Network) Port(l LinkID) Port { return Port{n, n.portOf[l], l} }

// Name returns the link's name, such as "tor0->h3".
func (p Port) Name() string { return p.n.topo.LinkName(p.link) }

// Queue returns the bytes that wait at the port now, in all its queues. The
// packet on the wire is not among them.
func (p Port) Queue() units.Bytes { return units.Bytes(p.n.ports[p.at].queued) }

// QueueOf returns the bytes that wait in the queue of one priority.
func (p Port) QueueOf(priority int) units.Bytes {
	return units.Bytes(p.queue(priority).bytes)
}

// MaxQueue returns the most bytes that waited at the port at a time, in all its queues,
// since the start or ResetMaxQueue.
func (p Port) MaxQueue() units.Bytes { return units.Bytes(p.n.ports[p.at].maxQueue) }

// MaxQueueOf returns the most bytes that waited in the queue of one priority, since the
// start or ResetMaxQueueOf.
func (p Port) MaxQueueOf(priority int) units.Bytes { return units.Bytes(p.queue(priority).most) }

// QueueIntegral returns the bytes that have waited at the port, in all its queues, over time
// from the start to the engine's Now. The difference of two over the time between them is
// the mean queue.
func (p Port) QueueIntegral() Integral {
	var sum Integral
	for i := range p.n.cfg.Priorities {
		sum = sum.add(p.QueueIntegralOf(i))
	}
	return sum
}

// QueueIntegralOf is QueueIntegral of the queue of one priority.
func (p Port) QueueIntegralOf(priority int) Integral {
	q := p.queue(priority)
	return q.held.integral(p.n.eng.Now(), uint64(uint32(q.bytes)))
}

func (p Port) queue(priority int) *queue { return &p.n.queues[int(p.at)*p.n.cfg.Priorities+priority] }

// Observe has f called whenever the number of bytes that wait at the port has changed,
// with the new number, and once for changes that happen together. f must change nothing
// of the network. In a divided network it is called by the worker that runs the port's
// switch.
func (p Port) Observe(f func(now units.Time, queued units.Bytes)) {
	p.n.cold[p.at].observe = f
	p.n.ports[p.at].flags |= observed
}

// Paused returns which priorities the far end has paused, a bit each.
func (p Port) Paused() uint8 { return p.n.ports[p.at].paused }

// PortStats are the counters of an egress port since the start.
type PortStats struct {
	TxBytes   units.Bytes // frames whose transmission has started, without framing
	TxPackets uint64
	Busy      units.Time  // time spent sending, framing and pause frames included
	MaxQueue  units.Bytes // as Port.MaxQueue returns it
	Drops     uint64      // packets that found no buffer
	DropBytes units.Bytes
	Marks     uint64 // packets marked CE
	EINMarks  uint64 // packets marked EIN
	Lost      uint64 // packets lost on the link by a Fault or a Failure
	Corrupted uint64 // of these, the ones that its far end dropped for inverted bits
	// WatchdogTrips counts pauses that the watchdog ended, and WatchdogDrops the
	// packets that it dropped; these are among the Drops.
	WatchdogTrips, WatchdogDrops uint64
	// Paused is the time for which each priority was forbidden to send, whether or
	// not it had something to send.
	Paused [MaxPriorities]units.Time
	// PauseFrames counts the pause frames that this port sent.
	PauseFrames uint64
	// DropsOf and MarksOf are Drops and Marks by priority.
	DropsOf, MarksOf [MaxPriorities]uint64
}

// ResetMaxQueue makes MaxQueue the longest queue from now on.
func (p Port) ResetMaxQueue() {
	l := &p.n.ports[p.at]
	l.maxQueue = l.queued
}

// ResetMaxQueueOf makes MaxQueueOf the longest queue of a priority from now on.
func (p Port) ResetMaxQueueOf(priority int) {
	q := p.queue(priority)
	q.most = q.bytes
}

// Stats returns the port's counters at the engine's Now.
func (p Port) Stats() PortStats {
	l, c, now := &p.n.ports[p.at], &p.n.cold[p.at], p.n.eng.Now()
	k := &p.n.kinds[l.kind]
	s := PortStats{
		TxBytes:     units.Bytes(l.txBytes),
		TxPackets:   l.txPackets,
		MaxQueue:    units.Bytes(l.maxQueue),
		DropBytes:   c.dropBytes,
		EINMarks:    c.notices,
		Lost:        c.lost + p.n.cold[l.peer].severed,
		Corrupted:   c.corrupted,
		PauseFrames: c.pauseFrames,

		WatchdogTrips: c.trips, WatchdogDrops: c.stormDrops,
	}
	for i := range p.n.prios {
		q := p.n.coldQueue(p.at, i)
		s.DropsOf[i], s.MarksOf[i], s.Paused[i] = q.drops, q.marks, q.paused
		s.Drops += q.drops
		s.Marks += q.marks
		if l.paused&(1<<i) != 0 {
			s.Paused[i] += now - q.pausedSince
		}
	}
	// All that was sent, less what is yet to leave. One pass over the bytes
	// rather than a sum of spans: exact up to a picosecond.
	wire := units.Bytes(l.txBytes-c.before.bytes) + units.Bytes(k.framing)*units.Bytes(l.txPackets-c.before.packets) +
		(pauseFrame+units.Bytes(k.framing))*units.Bytes(c.pauseFrames-c.before.pauses)
	s.Busy, _ = k.rate.SerializeRem(wire, 0)
	s.Busy = max(0, c.before.busy+s.Busy-max(0, l.busyUntil-now))
	return s
}

// Totals are the counters of a network since the start.
type Totals struct {
	// PacketHops counts traversals of a link by a packet, pause frames apart.
	PacketHops uint64
	Sent       uint64 // packets given to Transmit
	Delivered  uint64 // packets given to endpoints
	Dropped    uint64 // packets that found no buffer
	Lost       uint64 // packets lost by a Fault or a Failure
}

// Totals returns the counters of the network.
func (n *Network) Totals() Totals {
	var t Totals
	for i := range n.lanes {
		x := &n.lanes[i].totals
		t.PacketHops += x.PacketHops
		t.Sent += x.Sent
		t.Delivered += x.Delivered
		t.Dropped += x.Dropped
		t.Lost += x.Lost
	}
	return t
}

// BufferStats is the state of a switch's shared buffer.
type BufferStats struct {
	// Shared is Buffer less headroom. Used is the part of Shared in use, and MaxUsed
	// the most in use since the start or ResetMaxBuffer.
	Shared, Used, MaxUsed units.Bytes
	// UsedIntegral is Used over time, as Port.QueueIntegral is of queues.
	UsedIntegral Integral
}

// Buffer returns the state of the buffer of a switch.
func (n *Network) Buffer(name string) (BufferStats, error) {
	s, v, err := n.switchOf(name)
	if err != nil {
		return BufferStats{}, err
	}
	b := BufferStats{Shared: units.Bytes(s.shared), Used: units.Bytes(s.used), MaxUsed: units.Bytes(s.maxUsed)}
	rest := s.used
	for at := v.first; at < v.first+v.count; at++ {
		for prio := range n.prios {
			if n.kinds[n.ports[at].kind].lossless&(1<<prio) == 0 {
				q := &n.queues[at*n.prios+prio]
				b.UsedIntegral = b.UsedIntegral.add(q.held.integral(n.eng.Now(), uint64(uint32(q.bytes))))
				rest -= int64(q.bytes)
			}
		}
	}
	b.UsedIntegral = b.UsedIntegral.add(s.lossless.integral(n.eng.Now(), uint64(rest)))
	return b, nil
}

// ResetMaxBuffer makes MaxUsed of a switch the most from now on.
func (n *Network) ResetMaxBuffer(name string) error {
	s, _, err := n.switchOf(name)
	if err == nil {
		s.maxUsed = s.used
	}
	return err
}

func (n *Network) switchOf(name string) (*switchState, *nodeState, error) {
	v, ok := n.topo.byName[name]
	if !ok || !n.topo.nodes[v].isSwitch {
		return nil, nil, fmt.Errorf("fabric: there is no switch %q", name)
	}
	return &n.switches[n.topo.nodes[v].index], &n.nodes[v], nil
}
