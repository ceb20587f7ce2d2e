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
	Link string // a direction, such as "tor0->spine1"
	Both bool   // the other direction fails in the same way
	// From and To bound the time in which it holds: from From on, and before To; a
	// To of 0 is never.
	From units.Time `yaml:"at" range:"[0,1000s]"`
	To   units.Time
	// Down is a link that is cut: what is on it is lost, and so is what is put on
	// it, at line rate, until switches know another way (Config.Reroute). Pause
	// frames that it would carry are lost, and pauses of either direction end, as
	// their quanta do. When the link is back, those in force are sent again.
	Down bool
	Rate units.Rate `yaml:"rate" range:"(0,)" zero:"all of it"`    // what is left of it
	Loss float64    `yaml:"loss" range:"[0,1]" as:"a probability"` // of each packet
}

// rules holds its fields against each other, by their names in scenarios: at, and for how long.
func (f *Failure) rules(at string) error {
	var errs []error
	if span := f.To - f.From; f.To != 0 && (span <= 0 || span > maxSpan) {
		errs = append(errs, field.Bad("fabric", at+".for", span, "choose a span above 0, or 0 for the rest of the run"))
	}
	if !f.Down && f.Rate == 0 && f.Loss == 0 {
		errs = append(errs, field.Bad("fabric", at, nil, "it changes nothing: give down, rate or loss"))
	}
	return errors.Join(errs...)
}

// holds reports whether the failure is active.
func (f *Failure) holds(now units.Time) bool { return now >= f.From && (f.To == 0 || now < f.To) }

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
}

// failingLink is a link that some failures are about.
type failingLink struct {
	failures []*Failure
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
)

func (n *Network) buildFailures(seed uint64) error {
	if len(n.cfg.Failures) == 0 {
		return nil
	}
	x := &failing{n: n, links: map[uint32]*failingLink{}}
	x.id, x.src = n.eng.AddHandler(x), n.eng.NewSource()
	for i := range n.cfg.Failures {
		f := &n.cfg.Failures[i]
		l, err := n.topo.FindLink(f.Link)
		if err != nil {
			return fmt.Errorf("in Failures: %w", err)
		}
		both := []uint32{n.portOf[l]}
		if f.Both {
			both = append(both, n.portOf[l.Reverse()])
		}
		x.of = append(x.of, both)
		for _, id := range both {
			if err := x.add(id, f, seed); err != nil {
				return err
			}
		}
		n.eng.Schedule(f.From, &x.src, x.id, failureEvent, uint64(i))
		if f.To > 0 {
			n.eng.Schedule(f.To, &x.src, x.id, failureEvent, uint64(i))
		}
	}
	return nil
}

func (x *failing) add(id uint32, f *Failure, seed uint64) error {
	n := x.n
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
		x.links[id] = fl
	}
	fl.failures = append(fl.failures, f)
	if full := n.kinds[fl.kind].rate; f.Rate >= full {
		return fmt.Errorf("fabric: failure of %s leaves a rate of %v: set less than that of the link, %v", f.Link, f.Rate, full)
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
	if ev.Kind == rerouteEvent {
		x.n.reroute()
		return
	}
	changed := false
	for _, id := range x.of[ev.Arg] {
		changed = x.links[id].apply(x.n, ev.At, id) || changed
	}
	if changed && x.n.cfg.Reroute > 0 {
		x.n.eng.Schedule(ev.At+x.n.cfg.Reroute, &x.src, x.id, rerouteEvent, 0)
	}
}

// apply puts a link into its state at a time, and reports whether the link went
// down or came up.
func (fl *failingLink) apply(n *Network, now units.Time, id uint32) bool {
	down, loss, kind, rate := false, fl.loss, fl.kind, n.kinds[fl.kind].rate
	for _, f := range fl.failures {
		if !f.holds(now) {
			continue
		}
		down = down || f.Down
		loss = max(loss, probability(f.Loss))
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
	c.lossBelow = loss
	if l.flags &^= faulty; loss > 0 {
		l.flags |= faulty
	}
	switch {
	case down && !was:
		// Who has arrived is inside the switch or host, for its latency.
		n.cutOff(id, now+fl.latency)
		n.lanes[0].setPaused(now, id, 0)
		n.lanes[0].setPaused(now, back, 0)
	case was && !down:
		// Say again what the other end may not send.
		if n.cold[id].asserted != n.ports[back].paused {
			n.lanes[0].assert(now, id, n.cold[id].asserted)
		}
		if n.cold[back].asserted != 0 && !n.cold[back].down {
			n.lanes[0].assert(now, back, n.cold[back].asserted)
		}
	}
	return was != down
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
