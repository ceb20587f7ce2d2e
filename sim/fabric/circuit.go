package fabric

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Circuits that change over time (RDCN), as in section 5 of PowerTCP (NSDI 2022)
// and reTCP (Mukerjee et al., NSDI 2020).
//
// The queues of a circuit's port are the virtual output queue (VOQ) for the tor at its
// other end. While the circuit is up they drain only into it. Otherwise they drain
// into the tor's uplink to the packet network, which serves its occupied VOQs a packet
// each in turn. A packet starts on a circuit only if its last bit leaves before dusk:
// no packet is cut off, and the rest wait for dusk.
//
// Times are those of the tors. The circuit switch is equally far from all of them, so
// its own days are the same, later by that delay.

// CircuitConfig configures the tors' use of circuits in an RDCN.
type CircuitConfig struct {
	// VOQ is how much a VOQ may hold, besides what the buffer allows; 0 is no bound.
	VOQ units.Bytes `yaml:"voq" range:"[1B,2GiB)" zero:"no bound"`
	// Announced is the same from Ahead before dawn to dusk; 0 is no bound.
	Announced units.Bytes `yaml:"announced_voq" range:"[1B,2GiB)" zero:"no bound"`
	// Ahead is how long before its dawn a circuit is announced: packets that leave
	// its VOQ from then to dusk carry Circuit. 0 is at dawn.
	Ahead units.Time `yaml:"ahead" range:"[0,1s]"`
	// Guard is how long before dawn a VOQ stops draining into the packet network, so
	// that what is under way there comes before what takes the circuit. Without it
	// packets of a flow can overtake each other at dawn.
	Guard units.Time `yaml:"guard" range:"[0,1s]"`
}

// circuits is the state of a network's circuits. It is a destination of events of its
// own, for dawn and dusk: at one instant what is due inside the network goes first. It
// has an event while a VOQ holds something, and in a divided network before each window
// in which one might, which so ends at dawn and dusk. One more changes nothing.
type circuits struct {
	n       *Network
	id      des.NodeID
	src     des.Source
	cfg     CircuitConfig
	day     units.Time
	period  units.Time // a day and a night
	week    units.Time
	tors    []torState
	voqs    []voq
	of      []int32 // by port: a number of a VOQ, or of a tor where it is an uplink
	pending bool    // there is an event
}

type torState struct {
	uplink uint32
	first  uint32 // its VOQs are as many as days, in their order, from here in circuits.voqs
	turn   uint32 // the day of the VOQ that was served last
	// waiting is the packets in its VOQs. A tor's state is touched by its own lane only.
	waiting int
}

type voq struct {
	port    uint32
	tor     uint32
	dawn    units.Time // of the first week
	pending bool       // there is a circuitEvent
}

// newCircuits makes a network one of circuits if its topology says so.
func (n *Network) newCircuits() error {
	r := n.topo.rdcn
	if r == nil {
		if n.cfg.Circuits != (CircuitConfig{}) {
			return field.Bad("fabric", "circuits", nil, "the topology has no circuits: leave it out, or take RDCN")
		}
		return nil
	}
	c := &circuits{n: n, cfg: n.cfg.Circuits, day: r.day, period: r.day + r.night, of: make([]int32, len(n.ports))}
	days := len(r.tors) - 1
	c.week = units.Time(days) * c.period
	if c.cfg.Guard > r.night {
		return field.Bad("fabric", "circuits.guard", c.cfg.Guard, "choose a span up to that of a night, %v", r.night)
	}
	if most := c.week - c.day; c.cfg.Ahead > most {
		return field.Bad("fabric", "circuits.ahead", c.cfg.Ahead, "choose a span up to %v, for which a circuit is away", most)
	}
	for i := range r.tors {
		up := n.portOf[r.uplinks[i]]
		c.of[up] = int32(i)
		c.tors = append(c.tors, torState{uplink: up, first: uint32(len(c.voqs)), turn: uint32(days - 1)})
		for s, l := range r.circuits[i] {
			at := n.portOf[l]
			c.of[at] = int32(len(c.voqs))
			// freePending for ever: nothing else serves the queues.
			n.ports[at].flags |= voqPort | freePending
			c.voqs = append(c.voqs, voq{port: at, tor: uint32(i), dawn: units.Time(s) * c.period})
		}
	}
	for i := range n.kinds {
		if n.kinds[i].stage != nil {
			return fmt.Errorf("fabric: a Stage: switches of an RDCN take none, their VOQs report nothing to it")
		}
		if n.kinds[i].lossless != 0 {
			return fmt.Errorf("fabric: PFC: pause frames have no way back on a circuit: make all priorities lossy")
		}
	}
	for i := range n.cfg.Failures {
		f := &n.cfg.Failures[i]
		if l, err := n.topo.FindLink(f.Link); err == nil && n.ports[n.portOf[l]].flags&voqPort != 0 {
			return fmt.Errorf("fabric: Failures has %s, a circuit: name links of hosts and of the packet network", f.Link)
		}
	}
	c.id, c.src = n.eng.AddHandler(c), n.eng.NewSource()
	n.circuits = c
	return nil
}

// since returns the time since the latest dawn of a VOQ's circuit, below a week.
func (c *circuits) since(now units.Time, v *voq) units.Time {
	t := (now - v.dawn) % c.week
	if t < 0 {
		t += c.week
	}
	return t
}

func (c *circuits) up(since units.Time) bool { return since < c.day }

// onPackets reports whether a VOQ drains into the packet network.
func (c *circuits) onPackets(since units.Time) bool {
	return since >= c.day && c.week-since > c.cfg.Guard
}

func (c *circuits) announced(since units.Time) bool {
	return since < c.day || c.week-since <= c.cfg.Ahead
}

// fits reports whether a packet that starts now is off the wire by dusk, with the
// record that it may get.
func (c *circuits) fits(since units.Time, k *kind, e entry) bool {
	size := units.Bytes(uint64(e.size()) + k.recordBytes + k.framing)
	return since+k.rate.Serialize(size) <= c.day
}

// enter takes a packet to a VOQ, or past it if it can go at once.
func (x *Lane) enter(now units.Time, sw *switchState, out uint32, e entry) {
	n, c := x.n, x.n.circuits
	v := &c.voqs[c.of[out]]
	l, since := &n.ports[out], c.since(now, v)
	k := &n.kinds[l.kind]
	if l.active == 0 {
		if c.up(since) {
			if !v.pending && now >= l.busyUntil && c.fits(since, k, e) {
				x.leave(now, out, e, 0, 0, since)
				return
			}
		} else if up := c.tors[v.tor].uplink; c.onPackets(since) && n.ports[up].flags&freePending == 0 && now >= n.ports[up].busyUntil {
			x.leave(now, up, e, 0, 0, since)
			return
		}
	}
	bound := c.cfg.VOQ
	if c.announced(since) {
		bound = c.cfg.Announced
	}
	prio, size := e.prio(), e.size()
	q := &n.queues[out*n.prios+prio]
	// PFC is refused where there are circuits.
	if bound > 0 && units.Bytes(l.queued)+units.Bytes(size) > bound || !sw.admit(&k.class[prio], q, int64(size)) {
		n.coldQueue(out, prio).drops++
		n.cold[out].dropBytes += units.Bytes(size)
		x.totals.Dropped++
		x.Free(e.handle())
		return
	}
	e.setAt(now)
	l.active |= 1 << prio
	q.push(x, &e)
	l.enqueued(now, q, size)
	if l.flags&observed != 0 {
		n.cold[out].observe(now, units.Bytes(l.queued))
	}
	c.tors[v.tor].waiting++
	if c.up(since) {
		x.wakeCircuit(now, v)
	} else if c.onPackets(since) {
		x.wakeUplink(now, &c.tors[v.tor])
	}
	if !x.divided { // there Begin has seen to it
		c.schedule(now)
	}
}

// leave starts a packet of a VOQ on a wire: that of its circuit, or of the uplink.
func (x *Lane) leave(now units.Time, at uint32, e entry, behind int32, waited, since units.Time) {
	if x.n.circuits.announced(since) {
		e.name |= uint64(Circuit) << flagsShift
	}
	l := &x.n.ports[at]
	x.depart(now, at, l, &x.n.kinds[l.kind], &e, behind, waited)
}

// serve takes the next packet out of a VOQ and starts it on the wire of a port, or
// reports that the day is too short for it.
func (x *Lane) serve(now units.Time, v *voq, at uint32, since units.Time) bool {
	n, c := x.n, x.n.circuits
	l := &n.ports[v.port]
	k := &n.kinds[l.kind]
	prio := n.pick(l, k, v.port, l.active)
	q := &n.queues[v.port*n.prios+uint32(prio)]
	e := *q.first()
	size := e.size()
	if at == v.port && !c.fits(since, k, e) {
		if k.strict&(1<<prio) == 0 {
			q.deficit += size // which pick took
		}
		return false
	}
	if q.drop(x); q.count == 0 {
		l.active &^= 1 << prio
		q.deficit = 0
	}
	l.dequeued(now, q, size)
	if l.flags&observed != 0 {
		n.cold[v.port].observe(now, units.Bytes(l.queued))
	}
	n.switches[n.nodes[n.inlets[v.port].node].index].used -= int64(size)
	x.leave(now, at, e, q.bytes, now-e.at(now), since)
	c.tors[v.tor].waiting--
	return true
}

// circuitFree serves a VOQ whose circuit's wire is free.
func (x *Lane) circuitFree(now units.Time, at uint32) {
	n, c := x.n, x.n.circuits
	v := &c.voqs[c.of[at]]
	v.pending = false
	l, since := &n.ports[at], c.since(now, v)
	if l.active == 0 || !c.up(since) {
		return
	}
	if now < l.busyUntil {
		x.wakeCircuit(now, v)
		return
	}
	if x.serve(now, v, at, since) && l.active != 0 {
		x.wakeCircuit(now, v)
	}
}

// uplinkFree serves the VOQs that drain into the packet network, in turn.
func (x *Lane) uplinkFree(now units.Time, at uint32) {
	n, c := x.n, x.n.circuits
	t := &c.tors[c.of[at]]
	l := &n.ports[at]
	l.flags &^= freePending
	if now < l.busyUntil {
		x.wakeUplink(now, t)
		return
	}
	v := c.turn(now, t)
	if v == nil {
		return
	}
	t.turn = uint32(c.of[v.port]) - t.first
	x.serve(now, v, at, c.since(now, v))
	if c.turn(now, t) != nil {
		x.wakeUplink(now, t)
	}
}

// turn returns the VOQ of a tor whose turn on the uplink it is, or nil.
func (c *circuits) turn(now units.Time, t *torState) *voq {
	days := uint32(len(c.tors) - 1)
	for i := range days {
		s := t.turn + 1 + i
		if s >= days {
			s -= days
		}
		v := &c.voqs[t.first+s]
		if c.n.ports[v.port].active != 0 && c.onPackets(c.since(now, v)) {
			return v
		}
	}
	return nil
}

func (x *Lane) wakeCircuit(now units.Time, v *voq) {
	if v.pending {
		return
	}
	v.pending = true
	x.wakeTor(max(now, x.n.ports[v.port].busyUntil), v.port, circuitEvent)
}

func (x *Lane) wakeUplink(now units.Time, t *torState) {
	l := &x.n.ports[t.uplink]
	if l.flags&freePending != 0 {
		return
	}
	l.flags |= freePending
	x.wakeTor(max(now, l.busyUntil), t.uplink, uplinkEvent)
}

func (x *Lane) wakeTor(at units.Time, port, event uint32) {
	if x.divided {
		x.setAlarm(port, at)
		return
	}
	n := x.n
	in := &n.inlets[port]
	n.post(at, n.departs+uint32(in.link^1), in.node, event, uint64(port))
}

// torFree serves a port of a network of circuits whose wire is free, in a divided
// network.
func (x *Lane) torFree(now units.Time, sw *switchState, at uint32) {
	c := x.n.circuits
	switch {
	case x.n.ports[at].flags&voqPort != 0:
		x.circuitFree(now, at)
	case c.tors[c.of[at]].uplink == at:
		x.uplinkFree(now, at)
	default:
		x.wireFree(now, sw, at)
	}
}

// waits reports whether a VOQ holds something.
func (c *circuits) waits() bool {
	return slices.ContainsFunc(c.tors, func(t torState) bool { return t.waiting > 0 })
}

// schedule sees to it that there is an event at the next dawn or dusk.
func (c *circuits) schedule(now units.Time) {
	if c.pending {
		return
	}
	c.pending = true
	next := now - now%c.period
	if now%c.period < c.day {
		next += c.day
	} else {
		next += c.period
	}
	c.n.eng.Schedule(next, &c.src, c.id, 0, 0)
}

// Handle implements des.Handler: a day begins or ends.
func (c *circuits) Handle(ev des.Event) {
	c.pending = false
	x := &c.n.lanes[0]
	days := len(c.tors) - 1
	today := int(ev.At / c.period % units.Time(days))
	for i := range c.tors {
		t := &c.tors[i]
		// Without nights it is dusk of the day before, too.
		for _, s := range [2]int{today, (today + days - 1) % days} {
			v := &c.voqs[t.first+uint32(s)]
			if c.n.ports[v.port].active == 0 {
				continue
			}
			if since := c.since(ev.At, v); c.up(since) {
				x.wakeCircuit(ev.At, v)
			} else if c.onPackets(since) {
				x.wakeUplink(ev.At, t)
			}
		}
	}
	if c.waits() {
		c.schedule(ev.At)
	}
}

// aroundCircuit is crossing for the way through the packet network.
func (n *Network) aroundCircuit(at uint32, size units.Bytes) units.Time {
	c := n.circuits
	there := n.nodes[n.inlets[n.ports[at].peer].node].index
	up := c.tors[c.voqs[c.of[at]].tor].uplink
	t := n.crossing(up, size)
	for i := range c.tors {
		down := n.ports[c.tors[i].uplink].peer
		if n.nodes[n.inlets[n.ports[down].peer].node].index == there {
			return t + n.crossing(down, size)
		}
	}
	return t
}
