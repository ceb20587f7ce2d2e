package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// hold is what a switch holds of the packets of one priority that came by one
// link.
type hold struct {
	shared   int32 // bytes in the shared buffer
	over     int32 // bytes in the headroom
	headroom int32
	paused   bool // the sender has been told to stop
}

const (
	pauseFrame = 64 // bytes, from MAC header to FCS
	// grown bounds what records add to a packet.
	grown = telemetry.MaxHops * telemetry.PerHopBytes
)

// buildHolds sets the headroom of a link's far end and returns its sum.
func (n *Network) buildHolds(cfg *SwitchConfig, in LinkID) (sum int64) {
	if n.holds == nil {
		n.holds = make([]hold, len(n.queues))
	}
	for i := range n.cfg.Priorities {
		if pfc := cfg.Classes[i].PFC; pfc.Lossless {
			room := pfc.Headroom
			if room == 0 {
				room = n.headroom(in)
			}
			n.holds[int(in)*n.cfg.Priorities+i].headroom = int32(room)
			sum += int64(room)
		}
	}
	return sum
}

// headroom returns what may arrive by a link once its far end has decided to
// pause a priority. Until the near end acts on it, pass: what is on the reverse
// wire, a packet and a pause frame for each other priority; the pause frame
// itself; the way there. Then the packet that has just started, and the way
// here with the switch's latency, are still to come. And the packet that made
// the decision is in the headroom, too.
func (n *Network) headroom(in LinkID) units.Bytes {
	k, r := &n.kinds[n.links[in].kind], n.topo.Link(in.Reverse())
	largest := n.cfg.MaxFrame + grown
	framing := r.Framing.Bytes()
	wait := r.Rate.Serialize(largest+framing+MaxPriorities*(pauseFrame+framing)) + r.Delay
	return 2*largest + k.rate.BytesIn(wait+k.delay)
}

func (n *Network) admitLossless(now units.Time, sw *switchState, c *class, p *Packet, unused int64) bool {
	hd := &n.holds[p.ingress*n.prios+uint32(p.Priority)]
	size := int64(p.Size)
	limit := int64(c.xoff)
	if limit == 0 {
		limit = unused * c.alpha / alphaOne
	}
	if size <= unused && int64(hd.shared)+size <= limit {
		hd.shared += p.Size
		sw.used += size
		sw.maxUsed = max(sw.maxUsed, sw.used)
		return true
	}
	fits := int64(hd.over)+size <= int64(hd.headroom)
	if fits {
		hd.over += p.Size
	}
	// One that holds nothing would have nothing to release, and never resume.
	if !hd.paused && hd.shared+hd.over > 0 {
		hd.paused = true
		n.assert(now, p.ingress, n.cold[p.ingress].asserted|1<<(p.Priority&7))
	}
	return fits
}

func (n *Network) releaseLossless(now units.Time, sw *switchState, c *class, p *Packet) {
	hd := &n.holds[p.ingress*n.prios+uint32(p.Priority)]
	over := min(hd.over, p.Size)
	hd.over -= over
	hd.shared -= p.Size - over
	sw.used -= int64(p.Size - over)
	if !hd.paused || hd.over > 0 {
		return
	}
	resume := int64(c.xon)
	if c.xoff == 0 {
		resume = max(0, (sw.shared-sw.used)*c.alpha/alphaOne-int64(2*n.cfg.MaxFrame))
	}
	if int64(hd.shared) <= resume {
		hd.paused = false
		n.assert(now, p.ingress, n.cold[p.ingress].asserted&^(1<<(p.Priority&7)))
	}
}

// assert sends a pause frame from the far end of a link to what feeds it.
func (n *Network) assert(now units.Time, in uint32, mask uint8) {
	n.cold[in].asserted = mask
	back := in ^ 1
	r, p := &n.links[back], &n.ports[back]
	if n.cold[back].down {
		return // when the link is up it says so again
	}
	r.busyUntil = max(now, r.busyUntil) + n.serialize(&n.kinds[r.kind], back, pauseFrame)
	p.pauseFrames++
	// A pause frame ends in the MAC: the latency of the switch is not in its way.
	at := r.busyUntil + n.topo.Link(LinkID(back)).Delay
	n.eng.Schedule(at, &p.egress, r.toNode, pauseEvent, uint64(in)<<8|uint64(mask))
}

// pauseArrives takes a pause frame.
func (n *Network) pauseArrives(now units.Time, id uint32, mask uint8) {
	l, c := &n.links[id], &n.cold[id]
	if n.cold[id^1].down || c.down {
		return
	}
	if c.tripped &= mask; c.tripped == 0 {
		l.flags &^= storm
	}
	// What the watchdog sends in spite of a pause is not paused again by it.
	n.setPaused(now, id, mask&^(c.tripped&n.kinds[l.kind].forwards))
}

// setPaused changes which priorities may feed a link.
func (n *Network) setPaused(now units.Time, id uint32, mask uint8) {
	l, c := &n.links[id], &n.cold[id]
	fresh := mask &^ l.paused
	for m := l.paused ^ mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		if mask&(1<<i) != 0 {
			c.pausedSince[i] = now
		} else {
			c.paused[i] += now - c.pausedSince[i]
		}
	}
	l.paused = mask
	if l.flags&fromHost != 0 {
		if ep := n.ends[n.ports[id].from]; ep != nil {
			ep.Pause(now, mask)
		}
		return
	}
	if fresh != 0 {
		n.watch(now, l, id, fresh)
	}
	if l.flags&freePending == 0 && l.active&^mask != 0 {
		n.wake(now, l, id)
	}
}

// SendPause tells the switch at a host's port which priorities it must not send
// to the host from now on: those whose bit is set in paused. A frame does that:
// it waits for the packet on the host's uplink, and takes its time.
func (n *Network) SendPause(now units.Time, host int, paused uint8) {
	n.assert(now, n.hosts[host].down, paused)
}
