package fabric

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/prefetch"
	"github.com/sluice-rdma/sluice/units"
)

// Division runs a network in windows of time, node by node: within a window no host
// and no switch can learn what another that is run in it does, because every link's delay
// is longer; with Alternate, because no two of them have a link.
// So the nodes of a window may be run in any order and by any number of workers,
// each with a lane, and the results are those of the undivided network. It also
// means that a node's memory stays in the nearest cache while all of its events of
// a window run. Nodes need no queue of events beyond the window, and find the next
// event of a link or a port without one.
//
// A window: Begin, then Run for each node by any lane, then End. All Runs must happen
// after Begin and return before End. Where Begin finds nothing to do, the engine of
// the network delivers its next event. That event sees the network after everything
// up to its time, except what hosts do by alarms of that time.
type Division struct {
	n      *Network
	window units.Time

	start, end units.Time
	order      [turns][]int32 // the nodes of windows of each Turn
	side       []uint8        // by node; nil without sides, see Alternate
	turn       Turn           // of the window
	done       [2]units.Time  // by side: before which all is done; without sides both are equal
	// The halves of told and mail from which the window's nodes learn what others have put on
	// links, and in which they leave what they put there themselves.
	from, parity int

	next []units.Time // by node: nothing is due before
	due  []units.Time // three a port: see alarm
	set  []uint64     // a bit for each of due that is set, in words of a node each
	sets []uint32     // by node: where its words start, and behind them their end
	// What has been put on the links to ports, in two halves, and how much of it the ports know
	// of; the first packet arrives by mail, by node.
	told  [2][]tally
	known []tally
	mail  [2][]atomic.Int64

	busy []uint16 // by node: its events in the window in which it last had some

	pausesSent []uint32 // by port
	pauses     []inlet  // by port, of pause frames

	alarms  []hostAlarm    // by host
	joined  []int32        // by node, see Join: the other one, or itself; nil without any
	watches [][]pauseWatch // by switch, in the order of their times; nil without a watchdog
	within  bool           // a window is open
	stirred bool           // an event of the engine made something due at a port at once

	span   units.Time            // see Within
	single func(units.Time) bool // see SingleInstants
	rhythm units.Time            // see EndEvery
	wakes  units.Time            // before which alarms go off: the end, or an instant before
}

// tally counts packets and pause frames, modulo 2^32.
type tally struct{ packets, pauses uint32 }

// news is a port on whose wire packets were put in this window; the first of them
// arrives then.
type news struct {
	port    uint32
	arrival units.Time
}

// Divide makes a new network, without endpoints yet, run by windows, with a number of
// lanes. Failures, and dawn and dusk of circuits, are events of the engine; a Stage and
// the watchdog belong to their switch. The error says what in the network prevents it: a
// link without delay, a switch of too many ports, or a Stage that switches share.
func (n *Network) Divide(lanes int) error {
	window := n.Lookahead()
	switch {
	case lanes < 1:
		return fmt.Errorf("fabric: a network divided among %d lanes: set 1 or more", lanes)
	case slices.ContainsFunc(n.cfg.Failures, func(f Failure) bool { return f.Packet > 0 }):
		return errors.New("fabric: a failure that begins with a packet: give it a time, and the network can be divided")
	case window <= 0:
		return fmt.Errorf("fabric: a link without delay: a network is divided where links delay what nodes tell each other")
	case slices.ContainsFunc(n.nodes, func(v nodeState) bool { return v.count > maxDegree }):
		return fmt.Errorf("fabric: a switch of more than %d ports: a network that has one can't be divided", maxDegree)
	case n.cfg.Switch.Stage != nil && len(n.switches)-len(n.cfg.Switches) > 1:
		return fmt.Errorf("fabric: a Stage of several switches, which a network that is divided may run at a time: give each its own in Switches")
	}
	d := &Division{
		n: n, window: window, span: units.Never, alarms: make([]hostAlarm, len(n.hosts)),
		next: make([]units.Time, len(n.nodes)), due: make([]units.Time, 3*len(n.ports)),
		busy: make([]uint16, len(n.nodes)), known: make([]tally, len(n.ports)), pausesSent: make([]uint32, len(n.ports)), pauses: make([]inlet, len(n.ports)),
	}
	for i := range d.next {
		d.next[i] = units.Never
		d.order[allNodes] = append(d.order[allNodes], int32(i))
	}
	if slices.ContainsFunc(n.kinds, func(k kind) bool { return k.watched != 0 }) {
		d.watches = make([][]pauseWatch, len(n.switches))
	}
	for i := range d.due {
		d.due[i] = units.Never
	}
	for i := range d.alarms {
		d.alarms[i].due = [hostAlarms]units.Time{units.Never, units.Never, units.Never, units.Never}
	}
	words := uint32(0)
	for i := range n.nodes {
		d.sets = append(d.sets, words)
		words += (3*n.nodes[i].count + 63) / 64
	}
	d.sets, d.set = append(d.sets, words), make([]uint64, words)
	for p := range d.told {
		d.told[p] = make([]tally, len(n.ports))
		d.mail[p] = make([]atomic.Int64, len(n.nodes))
		for i := range d.mail[p] {
			d.mail[p][i].Store(int64(units.Never))
		}
	}
	most := uint32(0)
	for i := range n.nodes {
		most = max(most, n.nodes[i].count)
	}
	n.lanes = append(n.lanes[:1:1], make([]Lane, lanes-1)...)
	for i := range n.lanes {
		x := &n.lanes[i]
		x.n, x.index, x.divided = n, i, true
		x.agenda = newAgenda(window, 3*most)
	}
	n.division = d
	return nil
}

// Division returns how a network is divided, or nil for one that is not.
func (n *Network) Division() *Division { return n.division }

// Lanes returns the number of lanes: 1 if the network is not divided.
func (n *Network) Lanes() int { return len(n.lanes) }

// Lookahead is the least delay of any link: for so long nothing that a node does
// reaches another. It is 0 if a link has none.
func (n *Network) Lookahead() units.Time {
	if n.division != nil {
		return n.division.window
	}
	least := units.Never
	for i := range n.topo.edges {
		least = min(least, n.topo.edges[i].Delay)
	}
	return least
}

// Lane returns a lane by its number.
func (n *Network) Lane(i int) *Lane { return &n.lanes[i] }

// Events counts the events so far: those of the engine, and what a divided network
// has done at nodes without it.
func (n *Network) Events() uint64 {
	events := n.eng.Events()
	for i := range n.lanes {
		events += n.lanes[i].events
	}
	return events
}

// Nodes returns the number of nodes to run in the window that has begun: for Run they are
// numbered from 0.
func (d *Division) Nodes() int { return len(d.order[d.turn]) }

// Split returns the node at which the i-th of a turn's shares of the nodes ends. The
// shares are about equal by the work of nodes when all are busy: that of their ports, and of
// hosts.
func (d *Division) Split(turn Turn, i, shares int) int {
	work := func(v *nodeState) int {
		if v.isSwitch {
			return int(v.count)
		}
		return 2
	}
	all, sum := 0, 0
	for _, v := range d.order[turn] {
		all += work(&d.n.nodes[v])
	}
	for at, v := range d.order[turn] {
		if i < shares && sum*shares >= all*i {
			return at
		}
		sum += work(&d.n.nodes[v])
	}
	return len(d.order[turn])
}

// SingleInstants has windows last an instant only where f says so of their start: for
// whoever has to end a run at the very instant of something at a host.
func (d *Division) SingleInstants(f func(start units.Time) bool) { d.single = f }

// EndEvery has windows end at the latest with each multiple of a span, before alarms of
// that time: for whoever acts then on what hosts did before.
func (d *Division) EndEvery(span units.Time) { d.rhythm = span }

// Within has windows last no longer than a span, at least 0: for whoever acts that long
// after something at a host. Windows of a span of 0 last an instant.
func (d *Division) Within(span units.Time) { d.span = span }

// Join has the endpoints of two hosts, the second one's the larger number, run together, in
// order of time: they share state. At one instant what arrives at either goes before the
// alarms, and the first host before the second. A host is joined to one other at most.
func (d *Division) Join(first, second int) {
	n := d.n
	if d.joined == nil {
		d.joined = make([]int32, len(n.nodes))
		for v := range d.joined {
			d.joined[v] = int32(v)
		}
	}
	a, b := n.inlets[n.hosts[first].port].node, n.inlets[n.hosts[second].port].node
	d.joined[a], d.joined[b] = b, a
}

// nextDue returns the time of the next event of each side, between windows, or
// units.Never.
func (d *Division) nextDue() (next [2]units.Time) {
	next = noneDue
	for i := range d.n.lanes {
		x := &d.n.lanes[i]
		x.publish()
		for side, at := range x.least {
			next[side] = min(next[side], at)
		}
	}
	return next
}

// Begin begins a window with what is due next at a node, if that is no later than the
// engine's next event and until.
func (d *Division) Begin(until units.Time) bool {
	next := d.nextDue()
	start := min(next[0], next[1])
	if c := d.n.circuits; c != nil && start != units.Never {
		c.schedule(start)
	}
	outside := d.n.eng.Next()
	limit := min(until, outside)
	if start > limit || start == units.Never {
		return false
	}
	single := d.span == 0 || d.single != nil && d.single(start)
	if d.alternates() && !single {
		return d.beginSide(next, limit, outside)
	}
	if outside == limit && d.allDone() > limit && !d.stirred {
		return false
	}
	if d.rhythm > 0 {
		outside = min(outside, (start/d.rhythm+1)*d.rhythm)
		limit = min(limit, outside)
	}
	end := start + min(d.window, d.span)
	if limit != units.Never {
		end = min(end, limit+1)
	}
	wakes := end
	if single {
		if end = start + 1; d.allDone() < end {
			wakes = start // arrivals first, and their consequences
		} else {
			wakes = end
		}
	}
	if end > outside {
		wakes = outside
	}
	d.from, d.parity = d.parity, d.parity^1
	d.done[0], d.done[1] = max(d.done[0], end), max(d.done[1], end)
	d.open(allNodes, start, end, wakes)
	return true
}

// allDone is the time before which all nodes have done everything.
func (d *Division) allDone() units.Time { return min(d.done[0], d.done[1]) }

// open opens a window of some nodes.
func (d *Division) open(turn Turn, start, end, wakes units.Time) {
	d.turn, d.start, d.end, d.wakes = turn, start, end, wakes
	d.stirred = false
	d.within = true
	for i := range d.n.lanes {
		x := &d.n.lanes[i]
		x.start, x.end = start, end
		if turn == allNodes {
			x.least = noneDue
		} else {
			x.least[turn.side()] = units.Never
		}
	}
}

// End ends a window. The engine's Now is then the last instant that all nodes have done.
func (d *Division) End() {
	d.within = false
	d.n.lanes[0].due = nil // see setAlarm
	d.n.eng.Advance(max(d.n.eng.Now(), d.allDone()-1))
	if d.n.settle != nil {
		d.n.settle()
	}
}

// Run runs the nodes from first to before last on a lane, up to the end of the
// window.
func (d *Division) Run(lane, first, last int) {
	x := &d.n.lanes[lane]
	n, end := d.n, d.end
	// Nodes from last on may be at work on another lane.
	order := d.order[d.turn][:last]
	mail, next, busy := d.mail[d.from], d.next, d.busy
	for i := first; i < last; i++ {
		if i+1 < len(order) {
			if w := order[i+1]; busy[w] >= busyNode {
				n.foreseeMore(d, w)
			}
		}
		if i+foresight < len(order) {
			if w := order[i+foresight]; busy[w] >= busyNode {
				n.foresee(d, w)
			}
		}
		v := order[i]
		if d.joined != nil && d.joined[v] != v {
			if n.nodes[v].index < n.nodes[d.joined[v]].index { // the other's turn is this one
				x.runJoined(v, d.joined[v])
			}
			continue
		}
		due := next[v]
		if m := units.Time(mail[v].Load()); m != units.Never {
			mail[v].Store(int64(units.Never))
			x.absorb(v)
			due = min(due, m)
		}
		if due < end {
			before := x.events
			if n.nodes[v].isSwitch {
				due = x.runSwitch(v)
			} else {
				due = x.runHost(v)
			}
			busy[v] = uint16(min(x.events-before, math.MaxUint16))
			x.publish()
		}
		next[v] = due
		x.dueAt(v, due)
	}
}

// dueAt notes that something is due at a node at a time.
func (x *Lane) dueAt(node int32, at units.Time) {
	least := &x.least[0]
	if d := x.n.division; d.side != nil {
		least = &x.least[d.side[node]&1]
	}
	*least = min(*least, at)
}

// absorb takes in the packets that were put on the links to a node in the last window.
func (x *Lane) absorb(node int32) {
	n, d := x.n, x.n.division
	v := &n.nodes[node]
	told, known := d.told[d.from][v.first:v.first+v.count], d.known[v.first:v.first+v.count]
	due, set := d.due[3*v.first:], d.set[d.sets[node]:]
	for p := range told {
		if told[p] == known[p] {
			continue
		}
		at := v.first + uint32(p)
		// A port that had nothing to publish in the last window may have published more
		// before.
		if int32(told[p].packets-known[p].packets) > 0 {
			in := &n.inlets[at]
			idle := in.taken == known[p].packets
			known[p].packets = told[p].packets
			if idle {
				i := 2*v.count + uint32(p)
				due[i] = in.first(x).at(x.start)
				set[i/64] |= 1 << (i % 64)
			}
		}
		if int32(told[p].pauses-known[p].pauses) > 0 {
			in := &d.pauses[at]
			idle := in.taken == known[p].pauses
			known[p].pauses = told[p].pauses
			if idle {
				i := n.alarm(at, uint32(p)) ^ 1
				due[i] = in.first(x).at(x.start)
				set[i/64] |= 1 << (i % 64)
			}
		}
	}
}

// publish passes to the far ends of links the counts of what has been put on them.
func (x *Lane) publish() {
	n, d := x.n, x.n.division
	for i := range x.news {
		w := &x.news[i]
		l := &n.ports[w.port]
		l.flags &^= told
		d.told[d.parity][l.peer] = tally{l.onWire, d.pausesSent[w.port]}
		mail := &d.mail[d.parity][l.wire.node]
		for {
			old := mail.Load()
			if old <= int64(w.arrival) || mail.CompareAndSwap(old, int64(w.arrival)) {
				break
			}
		}
		x.dueAt(l.wire.node, w.arrival)
	}
	x.news = x.news[:0]
}

// putPause puts a pause frame on the wire of a port.
func (x *Lane) putPause(arrival units.Time, at uint32, l *port, c *coldPort, mask uint8) {
	d := x.n.division
	*c.pauses.put(x, &d.pauses[l.peer].head) = entry{when: uint64(arrival) << atShift, name: uint64(mask)}
	d.pausesSent[at]++
	if l.flags&told != 0 {
		for i := range x.news {
			if w := &x.news[i]; w.port == at {
				w.arrival = min(w.arrival, arrival)
			}
		}
		return
	}
	l.flags |= told
	x.news = append(x.news, news{at, arrival})
}

// alarm is the number, within its node, of the alarm at which a port may send; with
// the last bit flipped, it is that of the next pause frame. The alarms of arrivals
// follow those of all ports. Alarms of one instant run in the order of these
// numbers, which is the order of events of an undivided network.
func (n *Network) alarm(at, p uint32) uint32 { return 2*p + uint32(n.inlets[at].link&1^1) }

// agenda holds the due times of the node that a lane runs, within a window: a calendar of
// one turn, whose buckets hold alarms by their number.
//
// It is not the calendar of package des, which has events in any number, copies them and sorts
// buckets: with 60 alarms in a window that takes 23 ns each, and this 10.
type agenda struct {
	start, end units.Time    // of the window
	least      [2]units.Time // by side: when something is due after it, as far as this lane knows

	shift   uint
	first   uint32       // the node's first port
	due     []units.Time // by alarm, if it is set
	bits    []uint64     // by alarm, whether it is set and in no bucket
	later   units.Time   // the first that is due after the window
	nexts   []uint16     // by alarm: the next in its bucket, plus 1
	buckets [agendaBuckets]uint16
	full    [agendaBuckets / 64]uint64
	words   uint64 // that are not 0 in full
}

const (
	agendaBuckets = 2048
	maxDegree     = 1<<14 - 1 // so that numbers of alarms fit 16 bits
)

func newAgenda(window units.Time, alarms uint32) agenda {
	a := agenda{least: noneDue, nexts: make([]uint16, alarms)}
	a.spans(window)
	return a
}

// spans has the calendar reach over a window.
func (a *agenda) spans(window units.Time) {
	for (int64(window)-1)>>a.shift >= agendaBuckets {
		a.shift++
	}
}

// set sets an alarm that is not set.
func (a *agenda) set(i uint32, t units.Time) {
	a.due[i] = t
	if t >= a.end {
		a.bits[i/64] |= 1 << (i % 64)
		a.later = min(a.later, t)
		return
	}
	a.file(i, t)
}

func (a *agenda) file(i uint32, t units.Time) {
	b := uint(t-a.start) >> (a.shift & 63) & (agendaBuckets - 1)
	if w := b / 64; a.full[w]&(1<<(b%64)) != 0 {
		a.nexts[i] = a.buckets[b]
	} else {
		a.full[w] |= 1 << (b % 64)
		a.words |= 1 << w
		a.nexts[i] = 0
	}
	a.buckets[b] = uint16(i + 1)
}

// pop takes out the alarm that is due first and returns its number plus 1, or 0.
func (a *agenda) pop() uint32 {
	if a.words == 0 {
		return 0
	}
	w := uint(bits.TrailingZeros64(a.words)) & (agendaBuckets/64 - 1)
	b := w*64 + uint(bits.TrailingZeros64(a.full[w]))&63
	i := a.buckets[b]
	if next := a.nexts[i-1]; next != 0 {
		return a.popOf(b, i, next)
	}
	if a.full[w] &= a.full[w] - 1; a.full[w] == 0 {
		a.words &= a.words - 1
	}
	return uint32(i)
}

// popOf takes the first alarm out of a bucket that holds several.
func (a *agenda) popOf(b uint, first, next uint16) uint32 {
	best, before := first, uint16(0)
	for prev := first; next != 0; prev, next = next, a.nexts[next-1] {
		if t, u := a.due[next-1], a.due[best-1]; t < u || t == u && next < best {
			best, before = next, prev
		}
	}
	if before == 0 {
		a.buckets[b] = a.nexts[best-1]
	} else {
		a.nexts[before-1] = a.nexts[best-1]
	}
	return uint32(best)
}

// setAlarm sets when a port may send: one of the node that the lane runs, or of any
// between windows.
func (x *Lane) setAlarm(at uint32, t units.Time) {
	if x.due == nil {
		x.n.division.stir(at, t)
		return
	}
	x.set(x.n.alarm(at, at-x.first), t)
}

// stir is setAlarm between windows.
func (d *Division) stir(at uint32, t units.Time) {
	n := d.n
	node, x := n.inlets[at].node, &n.lanes[0]
	v := &n.nodes[node]
	i := n.alarm(at, at-v.first)
	d.due[3*v.first+i] = t
	d.set[d.sets[node]+i/64] |= 1 << (i % 64)
	d.next[node] = min(d.next[node], t)
	x.dueAt(node, t)
	d.stirred = d.stirred || t <= n.eng.Now()
}

// runSwitch runs a switch to the end of the window and returns when something is
// due then.
func (x *Lane) runSwitch(node int32) units.Time {
	n, d := x.n, x.n.division
	v := &n.nodes[node]
	sw := &n.switches[v.index]
	x.first, x.later = v.first, units.Never
	x.due = d.due[3*v.first : 3*(v.first+v.count)]
	x.bits = d.set[d.sets[node]:d.sets[node+1]]
	arrivals := 2 * v.count
	inlets, known := n.inlets[v.first:v.first+v.count], d.known[v.first:v.first+v.count]
	watched := d.watches != nil
	for w, word := range x.bits {
		for ; word != 0; word &= word - 1 {
			i := uint32(w)*64 + uint32(bits.TrailingZeros64(word))
			t := x.due[i]
			if t >= x.end {
				x.later = min(x.later, t)
				continue
			}
			x.bits[w] &^= 1 << (i % 64)
			x.file(i, t)
			if i >= arrivals {
				in := &inlets[i-arrivals]
				if in.n < chunkEntries {
					prefetch.Line(unsafe.Pointer(in.head.at(in.n)))
				}
			} else if q := &n.queues[(v.first+i/2)*n.prios]; q.count > 0 {
				prefetch.Line(unsafe.Pointer(q.first()))
			}
		}
	}
	for {
		i := x.pop()
		if watched && x.watchesBefore(v, i) {
			if i != 0 {
				x.file(i-1, x.due[i-1])
			}
			x.events++
			x.takeWatch(node)
			continue
		}
		if i == 0 {
			if watched && len(d.watches[v.index]) > 0 {
				return min(x.later, d.watches[v.index][0].at)
			}
			return x.later
		}
		i--
		x.events++
		now := x.due[i]
		if i >= arrivals {
			p := i - arrivals
			at := v.first + p
			in := &inlets[p]
			e := *in.first(x)
			if in.take(); in.taken != known[p].packets {
				next := in.first(x)
				x.set(i, next.at(now))
				x.foreseeNext(in, next, known[p].packets)
			}
			if e.in() == severed {
				x.lose(at, e)
				continue
			}
			x.pass(now, sw, at, &e)
			continue
		}
		at := v.first + i/2
		if i&1 == uint32(inlets[i/2].link&1^1) {
			if n.circuits != nil {
				x.torFree(now, sw, at)
				continue
			}
			x.wireFree(now, sw, at)
			continue
		}
		x.takePause(now, at, i)
	}
}

// takePause takes the pause frame that is first on the link to a port.
func (x *Lane) takePause(now units.Time, at, alarm uint32) {
	d := x.n.division
	in := &d.pauses[at]
	mask := uint8(in.first(x).name)
	if in.take(); in.taken != d.known[at].pauses {
		x.set(alarm, in.first(x).at(now))
	}
	x.pauseArrives(now, at, mask)
}

// runHost runs a host in the same way. A host has one port.
func (x *Lane) runHost(node int32) units.Time {
	n, d := x.n, x.n.division
	v := &n.nodes[node]
	at := v.first
	x.first, x.later = at, units.Never
	x.due, x.bits = d.due[3*at:3*at+3], d.set[d.sets[node]:d.sets[node+1]]
	end := x.end
	// What is due is found without the calendar: there are three alarms.
	x.end = 0
	pause := n.alarm(at, 0) ^ 1
	alarms := &d.alarms[v.index]
	own := &alarms.due
	in := &n.inlets[at]
	known := d.known[at].packets
	if x.due[2] < end {
		x.foreseePackets(in, min(known-in.taken, packetsAhead+1))
	}
	for {
		woken := min(own[0], own[1], own[2], own[3])
		p, a := x.due[pause], x.due[2]
		now := min(p, a)
		if woken < now && woken < d.wakes {
			x.events++
			alarm := 0
			for own[alarm] != woken {
				alarm++
			}
			own[alarm] = units.Never
			alarms.waker.Wake(x, woken, uint32(alarm))
			continue
		}
		if now >= end {
			x.end = end
			return min(now, woken)
		}
		x.events++
		if now == p {
			x.due[pause] = units.Never
			x.takePause(now, at, pause)
			continue
		}
		e := *in.first(x)
		x.due[2] = units.Never
		if in.take(); in.taken != known {
			next := in.first(x)
			x.due[2] = next.at(now)
			x.foreseePacket(in, known)
			x.foreseeNext(in, next, known)
			if k := next.tel() & recordsMask >> recordsShift; k > 0 {
				r := n.slab.recordsOf(next.handle())
				prefetch.Line(unsafe.Pointer(&r[0]))
				prefetch.Line(unsafe.Pointer(&r[(k-1)&7]))
			}
		}
		if e.in() == severed {
			x.lose(at, e)
			continue
		}
		x.deliver(now, v.index, e)
	}
}
