package fabric

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Failure is a fault of a link for a while. Of several at a time, the link is down if one
// says so, and has their lowest rate and their highest probability of loss.
type Failure struct {
	// Link is a direction of a link, such as "tor0->spine1", and Switch a switch, of which all links
	// fail in both directions. A Failure of neither is none.
	Link, Switch string
	Both         bool // the other direction of Link fails in the same way
	// From and To bound the time in which it holds: from From on, and before To; a
	// To of 0 is never. With Every it holds again so long after each beginning, Times times
	// in all, or for ever with 0.
	From  units.Time `yaml:"at" range:"[0,1000s]"`
	To    units.Time
	Every units.Time `yaml:"every" range:"[0,1000s]"`
	Times int        `yaml:"times" range:"[0,1000000]" of:"times"`
	// Packet has it begin when the link has carried so many packets, in place of From; To is
	// then as much later as it is after 0.
	Packet uint64 `yaml:"packet" range:"[0,1000000000000]" of:"packets"`
	// Down is a link that is cut: what is on it is lost, and so is what is put on
	// it, at line rate, until switches know another way (Config.Reroute). Pause
	// frames that it would carry are lost, and pauses of either direction end, as
	// their quanta do. When the link is back, those in force are sent again.
	Down bool
	Rate units.Rate `yaml:"rate" range:"(0,)" zero:"all of it"`    // what is left of it
	Loss float64    `yaml:"loss" range:"[0,1]" as:"a probability"` // of each packet
	// Corrupt is the probability that bits of a packet are inverted on the link, so that its
	// far end drops it: a switch by the frame's check sequence, a host's NIC by that or the ICRC.
	Corrupt float64 `yaml:"corrupt" range:"[0,1]" as:"a probability"`
	// Storm has the end that Link leads from pause the other's lossless priorities for as long as it holds, whatever
	// Both says. One pause frame stands for the many that a storm has.
	Storm bool
}

// rules holds its fields against each other, by their names in scenarios: at, and for how long.
func (f *Failure) rules(at string) error {
	if f.none() {
		return nil
	}
	var errs []error
	if span := f.To - f.From; f.To != 0 && (span <= 0 || span > maxSpan) {
		errs = append(errs, field.Bad("fabric", at+".for", span, "choose a span above 0, or 0 for the rest of the run"))
	}
	if !f.Down && f.Rate == 0 && f.Loss == 0 && f.Corrupt == 0 && !f.Storm {
		errs = append(errs, field.Bad("fabric", at, nil, "it changes nothing: give down, silent, rate, loss, corrupt or pfc_storm"))
	}
	if f.Switch != "" && f.Storm {
		errs = append(errs, field.Bad("fabric", at+".pfc_storm", nil, "name the link that leads from where the pause frames come"))
	}
	switch {
	case f.Every != 0 && (f.To == 0 || f.Every <= f.To-f.From):
		errs = append(errs, field.Bad("fabric", at+".every", f.Every, "choose more than for, the time that it lasts"))
	case f.Every == 0 && f.Times != 0:
		errs = append(errs, field.Bad("fabric", at+".times", f.Times, "give every, the time from one beginning to the next"))
	}
	if f.Switch != "" && f.Packet != 0 {
		errs = append(errs, field.Bad("fabric", at+".packet", f.Packet, "name a link whose packets count"))
	}
	if f.Packet != 0 && (f.From != 0 || f.Every != 0) {
		errs = append(errs, field.Bad("fabric", at+".packet", f.Packet, "leave at and every out: it begins with that packet, once"))
	}
	return errors.Join(errs...)
}

// none reports whether nothing fails.
func (f *Failure) none() bool { return f.Link == "" && f.Switch == "" }

// holds reports whether the failure is active, if it began first at a time.
func (f *Failure) holds(now, began units.Time) bool {
	if now < began {
		return false
	}
	if f.Every > 0 {
		k := (now - began) / f.Every
		if f.Times > 0 && k >= units.Time(f.Times) {
			return false
		}
		began += k * f.Every
	}
	return f.To == 0 || now < began+f.To-f.From
}

// LinkChange is the state of a link that a Failure has changed.
type LinkChange struct {
	Link    LinkID
	Down    bool
	Rate    units.Rate
	Loss    float64
	Corrupt float64
	Storm   bool // where it leads from
}

// OnFailure calls f, as an event of the engine, when Config.Failures have changed a link's state, after the
// change.
func (n *Network) OnFailure(f func(now units.Time, c LinkChange)) { n.onFailure = f }

// Down reports whether a link is down now.
func (n *Network) Down(l LinkID) bool { return n.cold[n.portOf[l]].down }

// failing changes links at the times of Config.Failures. It is a destination of events of
// its own, after all hosts and switches and before destinations added later: at one
// instant the network's events run first, and the NICs' events then find the links
// changed.
type failing struct {
	n     *Network
	id    des.NodeID
	src   des.Source
	links map[uint32]*failingLink // by port, read by key only
	of    [][]uint32              // ports of each of Config.Failures
	began []units.Time            // of each, the first time; Never before its packet
}

// failingLink is a link that some failures are about.
type failingLink struct {
	failures []int            // of Config.Failures
	packets  []int            // of these, those that wait for a packet
	state    LinkChange       // as it is
	kind     uint16           // with nothing wrong
	kinds    []degraded       // by lower rates
	loss     uint64           // of coldPort.lossBelow, with nothing wrong
	latency  units.Time       // of the switch or host that it leads to
	stats    func() PortStats // of the port
}

type degraded struct {
	rate units.Rate
	kind uint16
}

// Kinds of failing's events. The argument of the first is an index of
// Config.Failures.
const (
	failureEvent uint32 = iota
	rerouteEvent
	packetEvent // the link has carried as many packets as the failure waits for
)

func (n *Network) buildFailures(seed uint64) error {
	if len(n.cfg.Failures) == 0 {
		return nil
	}
	x := &failing{n: n, links: map[uint32]*failingLink{}}
	x.id, x.src = n.eng.AddHandler(x), n.eng.NewSource()
	n.failures = x
	for i := range n.cfg.Failures {
		f := &n.cfg.Failures[i]
		if f.none() {
			x.of, x.began = append(x.of, nil), append(x.began, units.Never)
			continue
		}
		ports, err := n.portsOf(f)
		if err != nil {
			return fmt.Errorf("in Failures: %w", err)
		}
		x.of = append(x.of, ports)
		for _, id := range ports {
			if err := x.add(id, i, seed); err != nil {
				return err
			}
		}
		if f.Packet > 0 {
			x.began = append(x.began, units.Never)
			continue
		}
		x.began = append(x.began, f.From)
		x.schedule(i, f.From)
	}
	return nil
}

// portsOf returns the ports whose links a failure is about.
func (n *Network) portsOf(f *Failure) (ports []uint32, err error) {
	if f.Switch == "" {
		l, err := n.topo.FindLink(f.Link)
		if err != nil {
			return nil, err
		}
		ports = append(ports, n.portOf[l])
		if f.Both {
			ports = append(ports, n.portOf[l.Reverse()])
		}
		return ports, nil
	}
	for l := range LinkID(n.topo.Links()) {
		if n.topo.From(l) == f.Switch {
			ports = append(ports, n.portOf[l], n.portOf[l.Reverse()])
		}
	}
	if ports == nil {
		return nil, fmt.Errorf("there is no switch %q", f.Switch)
	}
	return ports, nil
}

// schedule has a failure begin at a time, and end.
func (x *failing) schedule(i int, from units.Time) {
	n, f := x.n, &x.n.cfg.Failures[i]
	n.eng.Schedule(from, &x.src, x.id, failureEvent, uint64(i))
	if f.To > 0 {
		n.eng.Schedule(from+f.To-f.From, &x.src, x.id, failureEvent, uint64(i))
	}
}

func (x *failing) add(id uint32, i int, seed uint64) error {
	n, f := x.n, &x.n.cfg.Failures[i]
	fl, ok := x.links[id]
	if !ok {
		c := &n.cold[id]
		fl = &failingLink{kind: n.ports[id].kind, loss: c.lossBelow, stats: n.Port(n.linkOf(id)).Stats}
		if n.ports[id].flags&faulty == 0 {
			c.loss = des.NewStream(seed, "loss/"+n.topo.LinkName(n.linkOf(id)))
		}
		if to := n.inlets[n.ports[id].peer].node; n.nodes[to].isSwitch {
			fl.latency = n.switchConfig(Node(to)).Latency
		} else {
			fl.latency = n.cfg.HostReceive
		}
		fl.state = LinkChange{Link: n.linkOf(id), Rate: n.kinds[fl.kind].rate, Loss: share(fl.loss)}
		x.links[id] = fl
	}
	fl.failures = append(fl.failures, i)
	if f.Packet > 0 && len(x.of[i]) > 0 && x.of[i][0] == id {
		fl.packets = append(fl.packets, i)
		n.ports[id].flags |= faulty
	}
	if full := n.kinds[fl.kind].rate; f.Rate >= full {
		return fmt.Errorf("fabric: failure of %s leaves a rate of %v: set less than that of the link, %v", n.topo.LinkName(n.linkOf(id)), f.Rate, full)
	}
	if f.Rate > 0 {
		if len(n.kinds) >= maxKinds {
			return errManyKinds()
		}
		// The queue's thresholds are the switch's, whatever the link has left.
		k := n.kinds[fl.kind]
		k.setRate(f.Rate)
		fl.kinds = append(fl.kinds, degraded{f.Rate, uint16(len(n.kinds))})
		n.kinds = append(n.kinds, k)
	}
	return nil
}

// Handle implements des.Handler.
func (x *failing) Handle(ev des.Event) {
	switch f := &x.n.cfg.Failures[ev.Arg%uint64(len(x.of))]; {
	case ev.Kind == rerouteEvent:
		x.n.reroute()
		return
	case ev.Kind == packetEvent:
		x.began[ev.Arg] = ev.At
		x.schedule(int(ev.Arg), ev.At)
		return
	case f.Every > 0 && ev.At >= f.From && (ev.At-f.From)%f.Every == 0:
		if k := (ev.At-f.From)/f.Every + 1; f.Times == 0 || k < units.Time(f.Times) {
			x.schedule(int(ev.Arg), f.From+k*f.Every)
		}
	}
	changed := false
	for _, id := range x.of[ev.Arg] {
		changed = x.links[id].apply(x, ev.At, id) || changed
	}
	if tell := x.n.onFailure; tell != nil {
		for _, id := range x.of[ev.Arg] {
			fl := x.links[id]
			if now := fl.now(x.n, id); now != fl.state {
				fl.state = now
				tell(ev.At, now)
			}
		}
	}
	if changed && x.n.cfg.Reroute > 0 {
		x.n.eng.Schedule(ev.At+x.n.cfg.Reroute, &x.src, x.id, rerouteEvent, 0)
	}
}

// apply puts a link into its state at a time, and reports whether the link went
// down or came up.
func (fl *failingLink) apply(x *failing, now units.Time, id uint32) bool {
	n := x.n
	storm := false
	down, loss, corrupt, kind, rate := false, fl.loss, uint64(0), fl.kind, n.kinds[fl.kind].rate
	for _, i := range fl.failures {
		f := &n.cfg.Failures[i]
		if !f.holds(now, x.began[i]) {
			continue
		}
		down, storm = down || f.Down, storm || f.Storm && x.of[i][0] == id
		loss, corrupt = max(loss, probability(f.Loss)), max(corrupt, probability(f.Corrupt))
		for _, d := range fl.kinds {
			if f.Rate == d.rate && d.rate < rate {
				kind, rate = d.kind, d.rate
			}
		}
	}
	l, c := &n.ports[id], &n.cold[id]
	back := l.peer
	if kind != l.kind {
		s := fl.stats()
		c.before = rateSpan{busy: s.Busy + max(0, l.busyUntil-now), bytes: l.txBytes, packets: l.txPackets, pauses: c.pauseFrames}
		l.kind, c.rem = kind, 0
	}
	was := c.down
	c.down = down
	if down {
		loss = always
	}
	c.lossBelow, c.corruptBelow = loss, corrupt
	if l.flags &^= faulty; loss > 0 || corrupt > 0 || len(fl.packets) > 0 {
		l.flags |= faulty
	}
	if storm != (c.stormed != 0) {
		n.storm(now, id, storm)
	}
	switch {
	case down && !was:
		// Who has arrived is inside the switch or host, for its latency.
		n.cutOff(id, now+fl.latency)
		n.lanes[0].setPaused(now, id, 0)
		n.lanes[0].setPaused(now, back, 0)
	case was && !down:
		// Say again what the other end may not send.
		if n.cold[id].asserted|n.cold[id].stormed != n.ports[back].paused {
			n.lanes[0].assert(now, id, n.cold[id].asserted)
		}
		if n.cold[back].asserted|n.cold[back].stormed != 0 && !n.cold[back].down {
			n.lanes[0].assert(now, back, n.cold[back].asserted)
		}
	}
	return was != down
}

// storm has a port begin or end to pause the lossless priorities of its peer.
func (n *Network) storm(now units.Time, id uint32, begins bool) {
	c, switched := &n.cold[id], n.ports[id].peer
	if !n.nodes[n.inlets[switched].node].isSwitch {
		switched = id // a host has those of the switch there
	}
	if c.stormed = 0; begins {
		c.stormed = n.kinds[n.ports[switched].kind].lossless
	}
	n.lanes[0].assert(now, id, c.asserted)
}

// now returns the state of the link.
func (fl *failingLink) now(n *Network, id uint32) LinkChange {
	c := &n.cold[id]
	s := LinkChange{Link: n.linkOf(id), Down: c.down, Rate: n.kinds[n.ports[id].kind].rate, Corrupt: share(c.corruptBelow), Storm: c.stormed != 0}
	if !c.down {
		s.Loss = share(c.lossBelow)
	}
	return s
}

// share is the inverse of probability.
func share(below uint64) float64 { return float64(below) / float64(always) }

// carried counts a packet on a link of which failures wait for packets.
func (x *failing) carried(at uint32, packets uint64) {
	fl := x.links[at]
	if fl == nil {
		return
	}
	for _, i := range fl.packets {
		if x.n.cfg.Failures[i].Packet == packets {
			x.n.eng.Schedule(x.n.eng.Now(), &x.src, x.id, packetEvent, uint64(i))
		}
	}
}

// spoiled reports whether a faulty link loses the packet that is put on it, and counts it.
func (x *Lane) spoiled(at uint32, l *port) bool {
	c := &x.n.cold[at]
	if f := x.n.failures; f != nil && !x.divided {
		f.carried(at, l.txPackets)
	}
	switch {
	case c.loss.Uint64()>>11 < c.lossBelow:
		c.lost++
	case c.corruptBelow > 0 && c.loss.Uint64()>>11 < c.corruptBelow:
		c.lost++
		c.corrupted++
	default:
		return false
	}
	return true
}

// always is a threshold above every number of 53 uniform bits.
const always = uint64(1) << 53

// rateSpan holds a port's counts at the last change of its rate.
type rateSpan struct {
	busy    units.Time
	bytes   int64
	packets uint64
	pauses  uint64
}

// cutOff marks the packets on the wire of a port that would be taken at its other end
// after a time.
func (n *Network) cutOff(at uint32, after units.Time) {
	l := &n.ports[at]
	to := &n.inlets[l.peer]
	n.lanes[0].each(to.head, to.n, l.onWire-to.taken, func(e *entry) {
		if e.at(after) > after {
			e.enter(severed)
		}
	})
}

// lose counts a packet that was on the link to a port when that was cut.
func (x *Lane) lose(at uint32, e entry) {
	x.n.cold[at].severed++
	x.totals.Lost++
	x.Free(e.handle())
}

// Cut returns the first link that is down now on the way of a packet of that hash from
// one host to another.
func (n *Network) Cut(src, dst int, flowHash uint32) (l LinkID, cut bool) {
	if !n.failing {
		return 0, false
	}
	for _, l := range n.Path(nil, src, dst, flowHash) {
		if n.cold[n.portOf[l]].down {
			return l, true
		}
	}
	return 0, false
}

// linkOf returns the link that leads out of a port.
func (n *Network) linkOf(at uint32) LinkID { return n.inlets[at].link.Reverse() }

// reroute finds the shortest paths again, by links of which both directions are up.
// Where no path is left, it keeps the path with all links up, which ends at a link
// that is down.
func (n *Network) reroute() {
	n.groups, n.members = n.groups[:0], n.members[:0]
	n.buildRoutes(func(uint32) bool { return true })
	n.buildRoutes(func(at uint32) bool { return !n.cold[at].down && !n.cold[n.ports[at].peer].down })
}
