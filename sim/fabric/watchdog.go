package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// The PFC watchdog: what switches do about a queue that has been paused for too
// long, because of a deadlock or of a host that does not stop pausing. It looks at
// each pause by itself, when that is as old as Watchdog says.

// watch sets the watchdog on priorities that have just been paused.
func (n *Network) watch(now units.Time, l *port, at uint32, fresh uint8) {
	k := &n.kinds[l.kind]
	for m := fresh & k.watched; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		in := &n.inlets[at]
		n.post(now+k.class[i].watchdog, n.departs+uint32(in.link^1), in.node, watchEvent, uint64(at)<<8|uint64(i))
	}
}

// watchdog checks a pause that started as long ago as the watchdog allows.
func (x *Lane) watchdog(now units.Time, at uint32, prio uint8) {
	n := x.n
	l, c := &n.ports[at], &n.cold[at]
	bit := uint8(1) << (prio & 7)
	k := &n.kinds[l.kind]
	if l.paused&bit == 0 || c.pausedSince[prio] != now-k.class[prio].watchdog {
		return // it has ended, if another has started
	}
	c.trips++
	c.tripped |= bit
	if k.forwards&bit != 0 {
		x.setPaused(now, at, l.paused&^bit)
		return
	}
	l.flags |= storm
	sw := &n.switches[n.nodes[n.inlets[at].node].index]
	q := &n.queues[at*n.prios+uint32(prio)]
	for q.count > 0 {
		e := *q.first()
		q.drop(x)
		l.dequeued(now, q, e.size())
		x.releaseLossless(now, sw, &k.class[prio&7], e) // only lossless priorities are paused
		x.dropInStorm(at, e)
	}
	if l.flags&observed != 0 {
		n.cold[at].observe(now, units.Bytes(l.queued))
	}
	q.deficit = 0
	l.active &^= bit
}

// dropInStorm drops a packet for which the watchdog has no patience left.
func (x *Lane) dropInStorm(at uint32, e entry) {
	c := &x.n.cold[at]
	c.drops[e.prio()]++
	c.dropBytes += units.Bytes(e.size())
	c.stormDrops++
	x.totals.Dropped++
	x.Free(e.handle())
}
