package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/internal/hugepages"
	"github.com/sluice-rdma/sluice/units"
)

// hold counts a switch's packets of one priority that arrived by one link.
type hold struct {
	shared   int32 // bytes in the shared buffer
	over     int32 // bytes in the headroom
	headroom int32
	paused   bool // the sender has been paused
}

const pauseFrame = 64 // bytes, from MAC header to FCS

// buildHolds sets the headroom of a port and returns its sum.
func (n *Network) buildHolds(cfg *SwitchConfig, at uint32) (sum int64) {
	if n.holds == nil {
		n.holds = hugepages.Slice[hold](len(n.ports) * n.cfg.Priorities)
	}
	for i := range n.cfg.Priorities {
		if pfc := cfg.Classes[i].PFC; pfc.Lossless {
			room := pfc.Headroom
			if room == 0 {
				room = n.headroom(at)
			}
			n.holds[int(at)*n.cfg.Priorities+i].headroom = int32(room)
			sum += int64(room)
		}
	}
	return sum
}

// headroom returns the bytes that may arrive at a port once it has decided to pause a
// priority. Before the sender stops, these pass: what is on the reverse wire, a packet
// and a pause frame for each other priority; the pause frame itself; and its propagation.
// Then the packet that the sender has just started, and the propagation here with the
// switch's latency. The packet that triggered the pause is also in the headroom.
func (n *Network) headroom(at uint32) units.Bytes {
	k, r := &n.kinds[n.ports[n.ports[at].peer].kind], n.topo.Link(n.inlets[at].link)
	largest := n.cfg.MaxFrame + grown(n.cfg.INT)
	framing := r.Framing.Bytes()
	wait := r.Rate.Serialize(largest+framing+MaxPriorities*(pauseFrame+framing)) + r.Delay
	return 2*largest + k.rate.BytesIn(wait+k.delay)
}

// admitLossless takes a packet into the buffer or into headroom, or says that there
// is no room.
func (x *Lane) admitLossless(now units.Time, sw *switchState, c *class, e *entry) bool {
	unused := sw.shared - sw.used
	in, prio, size := sw.ports+e.in(), e.prio(), e.size()
	hd := &x.n.holds[in*x.n.prios+prio]
	limit := int64(c.xoff)
	if limit == 0 {
		limit = unused * c.alpha / alphaOne
	}
	if int64(size) <= unused && int64(hd.shared)+int64(size) <= limit {
		hd.shared += size
		sw.used += int64(size)
		sw.maxUsed = max(sw.maxUsed, sw.used)
		sw.lossless.enter(now, uint64(uint32(size)))
		return true
	}
	fits := int64(hd.over)+int64(size) <= int64(hd.headroom)
	if fits {
		hd.over += size
	}
	// One that holds nothing would have nothing to release, and never resume.
	if !hd.paused && hd.shared+hd.over > 0 {
		hd.paused = true
		x.assert(now, in, x.n.cold[in].asserted|1<<prio)
	}
	return fits
}

// releaseLossless gives back what a packet held.
func (x *Lane) releaseLossless(now units.Time, sw *switchState, c *class, e *entry) {
	in, prio, size := sw.ports+e.in(), e.prio(), e.size()
	hd := &x.n.holds[in*x.n.prios+prio]
	over := min(hd.over, size)
	hd.over -= over
	hd.shared -= size - over
	sw.used -= int64(size - over)
	sw.lossless.leave(now, uint64(uint32(size-over)))
	if !hd.paused || hd.over > 0 {
		return
	}
	resume := int64(c.xon)
	if c.xoff == 0 {
		resume = max(0, (sw.shared-sw.used)*c.alpha/alphaOne-int64(2*x.n.cfg.MaxFrame))
	}
	if int64(hd.shared) <= resume {
		hd.paused = false
		x.assert(now, in, x.n.cold[in].asserted&^(1<<prio))
	}
}

// assert sends a pause frame from a port to its peer.
func (x *Lane) assert(now units.Time, at uint32, mask uint8) {
	n := x.n
	l, c := &n.ports[at], &n.cold[at]
	c.asserted = mask
	mask |= c.stormed
	if c.down {
		return // when the link is up it says so again
	}
	l.busyUntil = max(now, l.busyUntil) + n.serialize(&n.kinds[l.kind], at, pauseFrame)
	c.pauseFrames++
	// A pause frame ends in the MAC: the latency of the switch is not in its way.
	to := &n.inlets[l.peer]
	arrival := l.busyUntil + n.topo.Link(to.link).Delay
	if x.divided {
		x.putPause(arrival, at, l, c, mask)
		return
	}
	n.post(arrival, n.departs+uint32(to.link), to.node, pauseEvent, uint64(l.peer)<<8|uint64(mask))
}

// Lossless returns the lossless priorities at a host's port, a bit each: the switch there pauses them rather
// than drop packets. On a cable to another host they are Config.Switch's, by which the network runs the
// cable.
func (n *Network) Lossless(host int) uint8 {
	peer := n.ports[n.hosts[host].port].peer
	if n.nodes[n.inlets[peer].node].isSwitch {
		return n.kinds[n.ports[peer].kind].lossless
	}
	var mask uint8
	for i := range n.cfg.Priorities {
		if n.cfg.Switch.Classes[i].PFC.Lossless {
			mask |= 1 << i
		}
	}
	return mask
}

// Headroom returns the bytes that may arrive at a host between its decision to pause a
// priority and the pause's effect.
func (n *Network) Headroom(host int) units.Bytes { return n.headroom(n.hosts[host].port) }

// MaxFrame is the longest packet, without records of telemetry.
func (n *Network) MaxFrame() units.Bytes { return n.cfg.MaxFrame }

// PausePeer sends a pause frame from a host: from when it arrives, the other end of the
// link starts no packets of the priorities whose bit is set in mask, and again those of
// the others.
func (x *Lane) PausePeer(now units.Time, host int, mask uint8) {
	x.assert(now, x.n.hosts[host].port, mask)
}

// pauseArrives takes a pause frame that has come to a port.
func (x *Lane) pauseArrives(now units.Time, at uint32, mask uint8) {
	n := x.n
	l, c := &n.ports[at], &n.cold[at]
	if n.failing && (n.cold[l.peer].down || c.down) {
		return
	}
	if c.tripped &= mask; c.tripped == 0 {
		l.flags &^= storm
	}
	// What the watchdog sends in spite of a pause is not paused again by it.
	x.setPaused(now, at, mask&^(c.tripped&n.kinds[l.kind].forwards))
}

// setPaused changes which priorities a port may send.
func (x *Lane) setPaused(now units.Time, at uint32, mask uint8) {
	n := x.n
	l := &n.ports[at]
	fresh := mask &^ l.paused
	for m := l.paused ^ mask; m != 0; m &= m - 1 {
		i := uint32(bits.TrailingZeros8(m))
		if q := n.coldQueue(at, i); mask&(1<<i) != 0 {
			q.pausedSince = now
		} else {
			q.paused += now - q.pausedSince
		}
	}
	l.paused = mask
	if v := &n.nodes[n.inlets[at].node]; !v.isSwitch {
		if ep := n.ends[v.index]; ep != nil {
			ep.Pause(x, now, mask)
		}
		return
	}
	if fresh != 0 {
		x.watch(now, l, at, fresh)
	}
	if l.flags&freePending == 0 && l.active&^mask != 0 {
		x.wake(now, l, at)
	}
}
