package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// The PFC watchdog: what switches do about a queue that has been paused for too
// long, because of a deadlock or of a host that does not stop pausing. It looks at
// each pause by itself, when that is as old as Watchdog says.

// watch sets the watchdog on priorities that have just been paused.
func (n *Network) watch(now units.Time, l *link, id uint32, fresh uint8) {
	k := &n.kinds[l.kind]
	for m := fresh & k.watched; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		n.eng.Schedule(now+k.class[i].watchdog, &n.ports[id].egress, n.ports[id].fromNode, watchEvent, uint64(id)<<8|uint64(i))
	}
}

// watchdog looks at a pause that began as long ago as the watchdog allows.
func (n *Network) watchdog(now units.Time, id uint32, prio uint8) {
	l, c, pt := &n.links[id], &n.cold[id], &n.ports[id]
	bit := uint8(1) << (prio & 7)
	k := &n.kinds[l.kind]
	if l.paused&bit == 0 || c.pausedSince[prio] != now-k.class[prio].watchdog {
		return // it has ended, if another has begun
	}
	c.trips++
	c.tripped |= bit
	if k.forwards&bit != 0 {
		n.setPaused(now, id, l.paused&^bit)
		return
	}
	l.flags |= storm
	sw := &n.switches[pt.from]
	q := &n.queues[id*n.prios+uint32(prio)]
	for q.head != 0 {
		h := q.head
		p := &n.packets[h]
		q.head = p.next
		q.bytes -= p.Size
		pt.queued -= p.Size
		n.release(now, sw, k, p)
		n.dropInStorm(id, h, p)
	}
	q.deficit = 0
	l.active &^= bit
}

// dropInStorm drops a packet for which the watchdog has no patience left.
func (n *Network) dropInStorm(id uint32, h Handle, p *Packet) {
	pt := &n.ports[id]
	pt.drops++
	pt.dropBytes += units.Bytes(p.Size)
	n.cold[id].stormDrops++
	n.totals.Dropped++
	n.Free(h)
}
