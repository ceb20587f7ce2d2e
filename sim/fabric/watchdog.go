package fabric

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/units"
)

// The PFC watchdog: what switches do about a queue that has been paused for too
// long, because of a deadlock or of a host that does not stop pausing. It looks at
// each pause by itself, when that is as old as Watchdog says.

// watch sets the watchdog on priorities that have just been paused.
func (x *Lane) watch(now units.Time, l *port, at uint32, fresh uint8) {
	n := x.n
	k := &n.kinds[l.kind]
	for m := fresh & k.watched; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		in, due := &n.inlets[at], now+k.class[i].watchdog
		if x.divided {
			if c := &n.cold[at]; c.watched&(1<<i) == 0 {
				c.watched |= 1 << i
				n.division.watch(in.node, pauseWatch{due, at, uint8(i)})
			}
			continue
		}
		n.post(due, n.departs+uint32(in.link^1), in.node, watchEvent, uint64(at)<<8|uint64(i))
	}
}

// pauseWatch is a look at a pause, in a divided network: there is one for a priority of a
// port at a time. It is moved on if the pause that it was meant for has ended and
// another has begun.
type pauseWatch struct {
	at   units.Time
	port uint32
	prio uint8
}

// watch adds a look at a port of a switch.
func (d *Division) watch(node int32, w pauseWatch) {
	all := &d.watches[d.n.nodes[node].index]
	i, _ := slices.BinarySearchFunc(*all, w, func(a, b pauseWatch) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.port, b.port), cmp.Compare(a.prio, b.prio))
	})
	*all = slices.Insert(*all, i, w)
}

// watchesBefore reports whether the first look at a switch's ports comes in this
// window and before the alarm of that number plus 1, which is due; 0 is none. It
// comes after what its own port may send then, and before all of the next.
func (x *Lane) watchesBefore(v *nodeState, alarm uint32) bool {
	n := x.n
	all := n.division.watches[v.index]
	if len(all) == 0 || all[0].at >= x.end {
		return false
	}
	if alarm == 0 {
		return true
	}
	w, t := &all[0], x.due[alarm-1]
	return w.at < t || w.at == t && alarm-1 > n.alarm(w.port, w.port-v.first)
}

// takeWatch takes the first look at the ports of a switch.
func (x *Lane) takeWatch(node int32) {
	n, d := x.n, x.n.division
	all := &d.watches[n.nodes[node].index]
	w := (*all)[0]
	*all = slices.Delete(*all, 0, 1)
	l, c := &n.ports[w.port], &n.cold[w.port]
	if l.paused&(1<<w.prio) != 0 {
		if due := n.coldQueue(w.port, uint32(w.prio)).pausedSince + n.kinds[l.kind].class[w.prio].watchdog; due > w.at {
			d.watch(node, pauseWatch{due, w.port, w.prio})
			return
		}
	}
	c.watched &^= 1 << w.prio
	x.watchdog(w.at, w.port, w.prio)
}

// watchdog checks a pause that started as long ago as the watchdog allows.
func (x *Lane) watchdog(now units.Time, at uint32, prio uint8) {
	n := x.n
	l, c := &n.ports[at], &n.cold[at]
	bit := uint8(1) << (prio & 7)
	k := &n.kinds[l.kind]
	if l.paused&bit == 0 || n.coldQueue(at, uint32(prio)).pausedSince != now-k.class[prio].watchdog {
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
		x.releaseLossless(now, sw, &k.class[prio&7], &e) // only lossless priorities are paused
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
	x.n.coldQueue(at, e.prio()).drops++
	c.dropBytes += units.Bytes(e.size())
	c.stormDrops++
	x.totals.Dropped++
	x.Free(e.handle())
}
