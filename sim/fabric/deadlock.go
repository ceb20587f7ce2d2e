package fabric

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/units"
)

// PFC deadlocks. A paused queue of a switch may send again once the switch that paused
// it has passed on enough of what came by that link. Where those packets wait in queues
// that are paused themselves, and these wait for others, round to the first, none of
// them ever sends again. A host that pauses is no part of a circle: it resumes by itself.

// PausedQueue is a queue of a switch that is paused.
type PausedQueue struct {
	Switch   string
	Link     string // that its port feeds
	Priority int
	Bytes    units.Bytes // that wait in it
	Since    units.Time  // when it was paused
}

// Circle is queues of which each waits for the next, and the last for the first. It
// begins at the queue of the port that the topology names first.
type Circle []PausedQueue

// Since returns when the circle closed: when the last of its queues was paused.
func (c Circle) Since() units.Time {
	var t units.Time
	for i := range c {
		t = max(t, c[i].Since)
	}
	return t
}

// Deadlocks returns circles of paused queues that never send again, whatever hosts do,
// and all queues of switches that are stuck: in the circles, and behind them. Of
// queues that are in several circles it names one. Queues that a watchdog looks after are
// not among them, since it ends their pauses. It visits each packet that waits in a paused queue,
// and is for between events, or between windows.
func (n *Network) Deadlocks() (circles []Circle, stuck []PausedQueue) {
	if len(n.holds) == 0 {
		return nil, nil
	}
	g := n.stuckQueues()
	return g.circles(), g.describe(slices.Sorted(maps.Keys(g.all)))
}

// stuckQueues are the paused queues of which none can send before another of them does.
type stuckQueues struct {
	n   *Network
	all map[uint32]bool   // by number in Network.queues
	to  map[uint32][]wait // what each holds of what came by which port
}

// wait is bytes that entered by a port and wait in a queue.
type wait struct {
	hold  uint32 // number in Network.holds
	bytes int64
}

// stuckQueues starts from all paused queues and removes each queue that can send again
// once the queues not in the set drain, until no more can be removed.
func (n *Network) stuckQueues() *stuckQueues {
	g := &stuckQueues{n: n, all: map[uint32]bool{}, to: map[uint32][]wait{}}
	for at := range uint32(len(n.ports)) {
		l, v := &n.ports[at], &n.nodes[n.inlets[at].node]
		if !v.isSwitch || !n.nodes[n.inlets[l.peer].node].isSwitch {
			continue // hosts wait for nobody
		}
		for m := l.paused & l.active &^ n.kinds[l.kind].watched; m != 0; m &= m - 1 {
			q := at*n.prios + uint32(bits.TrailingZeros8(m))
			g.all[q] = true
			g.to[q] = n.waitsIn(v.first, q)
		}
	}
	for again := true; again; {
		again = false
		left, inSwitch := g.held()
		for q := range g.all { // in whatever order: what remains is the same
			if g.resumes(q, left, inSwitch) {
				delete(g.all, q)
				again = true
			}
		}
	}
	return g
}

// waitsIn sums what waits in a queue by the ports of its switch that it came by.
func (n *Network) waitsIn(first, number uint32) []wait {
	q, prio := &n.queues[number], number%n.prios
	var all []wait
	n.lanes[0].each(q.head, q.out, q.count, func(e *entry) {
		hold := (first+e.in())*n.prios + prio
		i := slices.IndexFunc(all, func(w wait) bool { return w.hold == hold })
		if i < 0 {
			i, all = len(all), append(all, wait{hold: hold})
		}
		all[i].bytes += int64(e.size())
	})
	return all
}

// held sums what remains, by port and by switch, when all has left but what the stuck
// queues hold.
func (g *stuckQueues) held() (byHold map[uint32]int64, bySwitch map[int32]int64) {
	byHold, bySwitch = map[uint32]int64{}, map[int32]int64{}
	for q := range g.all {
		for _, w := range g.to[q] {
			byHold[w.hold] += w.bytes
			bySwitch[g.n.inlets[q/g.n.prios].node] += w.bytes
		}
	}
	return byHold, bySwitch
}

// resumes reports whether a queue may send again when only so much is left at the port
// that paused it, and in that port's switch.
func (g *stuckQueues) resumes(q uint32, left map[uint32]int64, inSwitch map[int32]int64) bool {
	n := g.n
	peer, prio := n.ports[q/n.prios].peer, q%n.prios
	hold := peer*n.prios + prio
	hd := &n.holds[hold]
	now, rest := int64(hd.shared)+int64(hd.over), left[hold]
	if !hd.paused {
		return true // the frame that says so is on its way
	}
	if rest >= now || now-rest < int64(hd.over) {
		return false // a hold that nothing leaves does not resume, nor one that has headroom in use
	}
	v := &n.nodes[n.inlets[peer].node]
	sw, c := &n.switches[v.index], &n.kinds[n.ports[peer].kind].class[prio]
	resume := int64(c.xon)
	if c.xoff == 0 {
		resume = max(0, max(0, sw.shared-inSwitch[n.inlets[peer].node])*c.alpha/alphaOne-int64(2*n.cfg.MaxFrame))
	}
	return rest <= resume
}

// waitsFor returns, for each stuck queue, the stuck queues that hold what it waits for,
// in order.
func (g *stuckQueues) waitsFor() map[uint32][]uint32 {
	n, next := g.n, map[uint32][]uint32{}
	for q := range g.all {
		peer, prio := n.ports[q/n.prios].peer, q%n.prios
		hold, v := peer*n.prios+prio, &n.nodes[n.inlets[peer].node]
		for at := v.first; at < v.first+v.count; at++ {
			o := at*n.prios + prio
			if g.all[o] && slices.ContainsFunc(g.to[o], func(w wait) bool { return w.hold == hold }) {
				next[q] = append(next[q], o)
			}
		}
	}
	return next
}

// circles names the shortest circle through each stuck queue, in order, that has none in
// common with those before.
func (g *stuckQueues) circles() []Circle {
	var all []Circle
	next, named := g.waitsFor(), map[uint32]bool{}
	for _, q := range slices.Sorted(maps.Keys(g.all)) {
		of := around(next, q)
		if slices.ContainsFunc(of, func(q uint32) bool { return named[q] }) {
			continue
		}
		for _, q := range of {
			named[q] = true
		}
		if len(of) > 0 {
			all = append(all, g.describe(of))
		}
	}
	return all
}

// around returns the shortest way from a queue back to it, without its end; nil if there is
// none.
func around(next map[uint32][]uint32, q uint32) []uint32 {
	from, reached := map[uint32]uint32{}, []uint32{q}
	for len(reached) > 0 {
		at := reached[0]
		reached = reached[1:]
		for _, o := range next[at] {
			if _, ok := from[o]; ok {
				continue
			}
			from[o] = at
			if o != q {
				reached = append(reached, o)
				continue
			}
			way := []uint32{q}
			for at := from[q]; at != q; at = from[at] {
				way = append(way, at)
			}
			slices.Reverse(way[1:])
			return way
		}
	}
	return nil
}

// describe says which queues these are.
func (g *stuckQueues) describe(of []uint32) []PausedQueue {
	n := g.n
	var all []PausedQueue
	for _, q := range of {
		at := q / n.prios
		all = append(all, PausedQueue{
			Switch: n.topo.nodes[n.inlets[at].node].name, Link: n.topo.LinkName(n.linkOf(at)), Priority: int(q % n.prios),
			Bytes: units.Bytes(n.queues[q].bytes), Since: n.coldQueue(at, q%n.prios).pausedSince,
		})
	}
	return all
}
