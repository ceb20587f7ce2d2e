package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// forward takes a packet to an egress port of a switch: onto the wire if it can
// go at once, else into its queue, else away.
func (n *Network) forward(now units.Time, sw *switchState, out uint32, h Handle, p *Packet) {
	l := &n.links[out]
	k := &n.kinds[l.kind]
	bit := uint8(1) << (p.Priority & 7)
	// With the wire free and no event to come, whatever waits is paused.
	if l.flags&freePending == 0 && l.paused&bit == 0 && now >= l.busyUntil {
		n.depart(now, l, k, out, h, p, 0, 0)
		return
	}
	pt := &n.ports[out]
	q := &n.queues[out*n.prios+uint32(p.Priority)]
	if l.flags&storm != 0 && n.cold[out].tripped&^k.forwards&bit != 0 {
		n.dropInStorm(out, h, p)
		return
	}
	if !n.admit(now, sw, k, q, p) {
		pt.drops++
		pt.dropBytes += units.Bytes(p.Size)
		n.totals.Dropped++
		n.Free(h)
		return
	}
	p.at, p.next = now, 0
	if q.head == 0 {
		q.head = h
		l.active |= bit
	} else {
		n.packets[q.tail].next = h
	}
	q.tail = h
	q.bytes += p.Size
	pt.queued += p.Size
	pt.maxQueue = max(pt.maxQueue, pt.queued)
	if l.flags&freePending == 0 && l.paused&bit == 0 {
		n.wake(now, l, out)
	}
}

// wake schedules the moment at which the wire is free.
func (n *Network) wake(now units.Time, l *link, id uint32) {
	l.flags |= freePending
	n.eng.Schedule(max(now, l.busyUntil), &n.ports[id].egress, n.ports[id].fromNode, freeEvent, uint64(id))
}

// wireFree sends the next of the packets that wait at a port.
func (n *Network) wireFree(now units.Time, id uint32) {
	l := &n.links[id]
	l.flags &^= freePending
	ready := l.active &^ l.paused
	if ready == 0 {
		return
	}
	if now < l.busyUntil { // a pause frame came first
		n.wake(now, l, id)
		return
	}
	k, pt := &n.kinds[l.kind], &n.ports[id]
	prio := n.pick(l, k, id, ready)
	q := &n.queues[id*n.prios+uint32(prio)]
	h := q.head
	p := &n.packets[h]
	if q.head = p.next; q.head == 0 {
		l.active &^= 1 << prio
		q.deficit = 0
	}
	q.bytes -= p.Size
	pt.queued -= p.Size
	n.release(now, &n.switches[pt.from], k, p)
	n.depart(now, l, k, id, h, p, q.bytes, now-p.at)
	if l.active&^l.paused != 0 {
		n.wake(now, l, id)
	}
}

// pick chooses the priority to serve of those that are ready.
func (n *Network) pick(l *link, k *kind, id uint32, ready uint8) uint8 {
	if s := ready & k.strict; s != 0 {
		return uint8(bits.Len8(s) - 1)
	}
	// Deficit round robin (Shreedhar and Varghese, 1995). A quantum holds a
	// MaxFrame at least, so that each visit serves one.
	for {
		if ready&(1<<l.turn) != 0 {
			q := &n.queues[id*n.prios+uint32(l.turn)]
			if size := n.packets[q.head].Size; q.deficit >= size {
				q.deficit -= size
				return l.turn
			}
		}
		l.turn = nextBit(ready, l.turn)
		q := &n.queues[id*n.prios+uint32(l.turn)]
		q.deficit += k.class[l.turn].quantum
	}
}

// nextBit returns the position of the next bit of a non-zero mask after i,
// wrapping around, and i itself at last.
func nextBit(mask, i uint8) uint8 {
	return (i + 1 + uint8(bits.TrailingZeros8(bits.RotateLeft8(mask, -int(i+1))))) & 7
}

// depart sends a packet from a switch at now, when the wire is free. behind is
// what stays in its queue and waited how long it was there.
func (n *Network) depart(now units.Time, l *link, k *kind, id uint32, h Handle, p *Packet, behind int32, waited units.Time) {
	if behind > 0 && k.ecn&(1<<(p.Priority&7)) != 0 && p.Flags&(ECT|CE) == ECT {
		n.mark(id, &k.class[p.Priority], p, behind)
	}
	if k.ein&(1<<(p.Priority&7)) != 0 {
		n.notice(now, id, &k.class[p.Priority], p, behind)
	}
	if p.Telemetry != telemetry.None && k.telemetry {
		switch p.Telemetry {
		case telemetry.MaxDelay:
			p.MaxDelay = max(p.MaxDelay, waited)
		case telemetry.PerHop:
			n.record(now, l, k, p, behind)
		}
	}
	n.put(now, l, k, id, h, p)
}

// mark sets CE with the probability that belongs to a queue of that many bytes.
func (n *Network) mark(id uint32, c *class, p *Packet, queue int32) {
	if queue <= c.kmin {
		return
	}
	if queue <= c.kmax && n.cold[id].ecn.Float64() >= float64(c.pmax*float64(queue-c.kmin))/float64(c.kmax-c.kmin) {
		return
	}
	p.Flags |= CE
	n.ports[id].marks++
}

// record appends what the port has to say to the packet's records, for which the
// packet grows.
func (n *Network) record(now units.Time, l *link, k *kind, p *Packet, behind int32) {
	if p.stack == 0 {
		p.stack = n.stacks.alloc()
	}
	s := n.stacks.at(p.stack)
	if s.N < telemetry.MaxHops {
		p.Size += telemetry.PerHopBytes
	}
	s.Push(telemetry.Hop{TxBytes: units.Bytes(l.txBytes), QLen: units.Bytes(behind), Time: now, Rate: k.rate})
}
