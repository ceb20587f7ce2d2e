package fabric

import (
	"math/bits"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/prefetch"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// pass takes a packet that has arrived at a port of a switch to its next port: onto the
// wire if it can go at once, else into its queue, else away.
func (x *Lane) pass(now units.Time, sw *switchState, at uint32, e *entry) {
	n := x.n
	x.totals.PacketHops++
	e.enter(at - sw.ports)
	e.to += 1 << hopsShift
	out := n.next(sw, e)
	l := &n.ports[out]
	k := &n.kinds[l.kind]
	// With the wire free and no event to come, whatever waits is paused.
	if l.flags&freePending != 0 || l.paused>>e.prio()&1 != 0 || now < l.busyUntil {
		x.wait(now, sw, out, l, k, e)
		return
	}
	if k.looks(e) {
		x.depart(now, out, l, k, e, 0, 0)
		return
	}
	x.put(now, out, l, k, e)
}

// wait puts a packet into a queue, or away.
func (x *Lane) wait(now units.Time, sw *switchState, out uint32, l *port, k *kind, e *entry) {
	n := x.n
	prio := e.prio()
	bit := uint8(1) << prio
	q := &n.queues[out*n.prios+prio]
	if l.flags&(storm|voqPort) != 0 {
		if l.flags&voqPort != 0 {
			x.enter(now, sw, out, *e)
			return
		}
		if n.cold[out].tripped&^k.forwards&bit != 0 {
			x.dropInStorm(out, *e)
			return
		}
	}
	var fits bool
	if k.lossless&bit != 0 {
		fits = x.admitLossless(now, sw, &k.class[prio], e)
	} else {
		fits = sw.admit(&k.class[prio], q, int64(e.size()))
	}
	if !fits {
		n.coldQueue(out, prio).drops++
		n.cold[out].dropBytes += units.Bytes(e.size())
		x.totals.Dropped++
		x.Free(e.handle())
		return
	}
	e.setAt(now)
	l.active |= bit
	if k.stage != nil {
		n.notePlace(e.handle(), q)
	}
	q.push(x, e)
	l.enqueued(now, q, e.size())
	if l.flags&observed != 0 {
		n.cold[out].observe(now, units.Bytes(l.queued))
	}
	if l.flags&freePending == 0 && l.paused&bit == 0 {
		x.wake(now, l, out)
	}
}

// enqueued counts a packet of size bytes that has come into a queue of the port.
func (l *port) enqueued(now units.Time, q *queue, size int32) {
	q.bytes += size
	q.most = max(q.most, q.bytes)
	q.held.enter(now, uint64(uint32(size)))
	l.queued += size
	l.maxQueue = max(l.maxQueue, l.queued)
}

// dequeued counts one that has left it.
func (l *port) dequeued(now units.Time, q *queue, size int32) {
	q.bytes -= size
	q.held.leave(now, uint64(uint32(size)))
	l.queued -= size
}

// wake schedules the moment at which the wire is free.
func (x *Lane) wake(now units.Time, l *port, at uint32) {
	l.flags |= freePending
	t := max(now, l.busyUntil)
	if x.divided {
		x.setAlarm(at, t)
		return
	}
	n := x.n
	in := &n.inlets[at]
	n.post(t, n.departs+uint32(in.link^1), in.node, freeEvent, uint64(at))
}

// wireFree sends the next of the packets that wait at a port.
func (x *Lane) wireFree(now units.Time, sw *switchState, at uint32) {
	n := x.n
	l := &n.ports[at]
	l.flags &^= freePending
	ready := l.active &^ l.paused
	if ready == 0 {
		return
	}
	if now < l.busyUntil { // a pause frame arrived first
		x.wake(now, l, at)
		return
	}
	k := &n.kinds[l.kind]
	var prio uint8
	if s := ready & k.strict; s != 0 {
		prio = uint8(bits.Len8(s) - 1)
	} else {
		prio = n.pick(l, k, at, ready)
	}
	q := &n.queues[at*n.prios+uint32(prio)]
	e := *q.first()
	if q.drop(x); q.count == 0 {
		l.active &^= 1 << prio
		q.deficit = 0
	} else {
		prefetch.Line(unsafe.Pointer(q.first()))
	}
	size := e.size()
	l.dequeued(now, q, size)
	if l.flags&observed != 0 {
		n.cold[at].observe(now, units.Bytes(l.queued))
	}
	if k.lossless&(1<<prio) != 0 {
		x.releaseLossless(now, sw, &k.class[prio&7], &e)
	} else {
		sw.used -= int64(size)
	}
	if k.looks(&e) {
		x.depart(now, at, l, k, &e, q.bytes, now-e.at(now))
	} else {
		x.put(now, at, l, k, &e)
	}
	if l.active&^l.paused != 0 {
		x.wake(now, l, at)
	}
}

// pick chooses the priority to serve among the ready ones.
func (n *Network) pick(l *port, k *kind, at uint32, ready uint8) uint8 {
	if s := ready & k.strict; s != 0 {
		return uint8(bits.Len8(s) - 1)
	}
	// Deficit round robin (Shreedhar and Varghese, 1995). A quantum holds a
	// MaxFrame at least, so that each visit serves one.
	for {
		if ready&(1<<l.turn) != 0 {
			q := &n.queues[at*n.prios+uint32(l.turn)]
			if size := q.first().size(); q.deficit >= size {
				q.deficit -= size
				return l.turn
			}
		}
		l.turn = nextBit(ready, l.turn)
		q := &n.queues[at*n.prios+uint32(l.turn)]
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
func (x *Lane) depart(now units.Time, at uint32, l *port, k *kind, e *entry, behind int32, waited units.Time) {
	prio := e.prio()
	if behind > 0 && k.ecn&(1<<prio) != 0 && e.flags()&(ECT|CE) == ECT && x.n.mark(at, &k.class[prio], prio, behind) {
		e.name |= uint64(CE) << flagsShift
	}
	if k.ein != 0 && (k.report != nil || k.ein&(1<<prio) != 0) && x.n.notice(now, at, k, prio, behind) {
		if e.flags()&EIN == 0 {
			x.n.cold[at].notices++
		}
		e.name |= uint64(EIN) << flagsShift
	}
	if k.stage != nil {
		x.stage(now, at, l, k, *e, behind, waited)
		return
	}
	if tel := e.tel(); tel&kindMask != 0 && k.telemetry {
		switch telemetry.Kind(tel & kindMask) {
		case telemetry.MaxDelay:
			if waited > 0 {
				if k.report != nil {
					waited = k.report.delay(now, waited)
				}
				p := x.n.slab.asideOf(e.handle())
				p.maxDelay = max(p.maxDelay, waited)
			}
		case telemetry.PerHop:
			x.record(now, at, l, k, e, behind)
		}
	}
	x.put(now, at, l, k, e)
}

// mark decides whether to set CE, with the probability that belongs to a queue of
// that many bytes.
func (n *Network) mark(at uint32, c *class, prio uint32, queue int32) bool {
	if queue <= c.kmin {
		return false
	}
	if queue <= c.kmax && n.cold[at].ecn.Float64() >= float64(c.pmax*float64(queue-c.kmin))/float64(c.kmax-c.kmin) {
		return false
	}
	n.coldQueue(at, prio).marks++
	return true
}

// record appends what the port has to say to the packet's records, for which the
// packet grows.
func (x *Lane) record(now units.Time, at uint32, l *port, k *kind, e *entry, behind int32) {
	i := e.tel() & recordsMask >> recordsShift
	if i >= k.records {
		if i == k.records {
			e.when |= overflowBit
		}
		return
	}
	r := &x.n.slab.recordsOf(e.handle())[i&7]
	r.time, r.txBytes, r.qlen, r.kind = now, l.txBytes, behind, uint32(l.kind)
	if k.report != nil {
		h := k.report.hop(telemetry.Hop{TxBytes: units.Bytes(l.txBytes), QLen: units.Bytes(behind), Time: now, Rate: k.rate}, x.n.queues[at*x.n.prios+e.prio()].count)
		r.time, r.txBytes, r.qlen = h.Time, int64(h.TxBytes), int32(h.QLen)
	}
	e.name += k.recordBytes << sizeShift
	e.when += recordOne
}
