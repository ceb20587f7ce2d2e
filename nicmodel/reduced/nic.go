package reduced

import (
	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// nic is one host's: its flows and its wire.
type nic struct {
	fleet    *Fleet
	id       des.NodeID
	host     int32
	src      des.Source
	line     units.Rate
	wireFree units.Time // when all that was given to the wire has left
	dataFree units.Time // when the last data frame has
	wireAt   units.Time // of the pending evWire, or Never
	timerAt  units.Time // of the pending evTimer, or Never
	paused   uint8

	due           queue // senders with a packet that transport and window let go
	order         uint32
	senders       []sender
	receivers     []receiver
	freeSenders   []uint32 // slots
	freeReceivers []uint32
	held          []fabric.Handle // acknowledgements of paused priorities
}

// Kinds of events.
const (
	evWire  uint32 = iota // the wire is free for data, or a paced flow is due
	evTimer               // a transport timer may have run out
)

// Handle implements des.Handler. Of the events of a kind only the one that is
// remembered counts: an earlier one has taken the place of any other.
func (n *nic) Handle(ev des.Event) {
	switch {
	case ev.Kind == evWire && ev.At == n.wireAt:
		n.wireAt = units.Never
		n.turn(ev.At)
	case ev.Kind == evTimer && ev.At == n.timerAt:
		n.timerAt = units.Never
		n.expire(ev.At)
	}
}

// A flow is named to its peer by its slot, and a generation so that a packet that
// comes late is not taken for the next flow's.
const generationBits = 8

func slotOf(ref uint32) uint32 { return ref >> generationBits }

func (n *nic) newSender() (*sender, uint32) {
	if len(n.freeSenders) == 0 {
		n.senders = append(n.senders, sender{})
		n.freeSenders = append(n.freeSenders, uint32(len(n.senders)-1))
	}
	i := n.freeSenders[len(n.freeSenders)-1]
	n.freeSenders = n.freeSenders[:len(n.freeSenders)-1]
	s := &n.senders[i]
	s.gen++
	return s, i<<generationBits | uint32(s.gen)
}

func (n *nic) newReceiver() (*receiver, uint32) {
	if len(n.freeReceivers) == 0 {
		n.receivers = append(n.receivers, receiver{})
		n.freeReceivers = append(n.freeReceivers, uint32(len(n.receivers)-1))
	}
	i := n.freeReceivers[len(n.freeReceivers)-1]
	n.freeReceivers = n.freeReceivers[:len(n.freeReceivers)-1]
	r := &n.receivers[i]
	r.gen++
	return r, i<<generationBits | uint32(r.gen)
}

// sender returns the flow of that name, or nil if it has ended.
func (n *nic) sender(ref uint32) *sender {
	if s := &n.senders[slotOf(ref)]; s.qp != nil && s.gen == uint8(ref) {
		return s
	}
	return nil
}

func (n *nic) receiver(ref uint32) *receiver {
	if r := &n.receivers[slotOf(ref)]; r.qp != nil && r.gen == uint8(ref) {
		return r
	}
	return nil
}

// Pause implements fabric.Endpoint.
func (n *nic) Pause(now units.Time, paused uint8) {
	n.paused = paused
	if len(n.held) > 0 {
		kept := n.held[:0]
		for _, h := range n.held {
			if paused&(1<<n.fleet.net.Packet(h).Priority) != 0 {
				kept = append(kept, h)
				continue
			}
			n.fleet.stats.TxPackets++
			n.wireFree = n.fleet.net.Transmit(now, int(n.host), h)
		}
		n.held = kept
	}
	n.turn(now)
}

// transmit puts an acknowledgement on the wire, behind what is there.
func (n *nic) transmit(now units.Time, h fabric.Handle, p *fabric.Packet) {
	if n.paused&(1<<(p.Priority&7)) != 0 {
		n.held = append(n.held, h)
		return
	}
	n.fleet.stats.TxPackets++
	n.wireFree = n.fleet.net.Transmit(now, int(n.host), h)
}

// turn gives the wire to the flow that is due, or sets the alarm for when it can
// be given to one.
func (n *nic) turn(now units.Time) {
	for len(n.due) > 0 {
		if n.paused&(1<<(n.fleet.cfg.Priority&7)) != 0 {
			return // Pause comes again
		}
		first := &n.due[0]
		if at := max(first.at, n.dataFree); at > now {
			if at < n.wireAt {
				n.wireAt = at
				n.fleet.engine.Schedule(at, &n.src, n.id, evWire, 0)
			}
			return
		}
		n.send(now, first.sender, &n.senders[first.sender])
	}
}

// arm sets the alarm for a transport timer. A deadline that moves later meanwhile
// costs a look when the old one comes.
func (n *nic) arm(now, deadline units.Time) {
	if deadline < n.timerAt {
		n.timerAt = max(deadline, now)
		n.fleet.engine.Schedule(n.timerAt, &n.src, n.id, evTimer, 0)
	}
}

// expire looks at the timers of all flows of the NIC.
func (n *nic) expire(now units.Time) {
	next := units.Never
	for i := range n.senders {
		s := &n.senders[i]
		if s.qp == nil {
			continue
		}
		if s.qp.Deadline() <= now {
			s.qp.Expire(now, &n.fleet.eff)
			if n.effects(now, uint32(i), s); n.senders[i].qp == nil {
				continue
			}
			s = &n.senders[i] // a flow may have been started
		}
		next = min(next, s.qp.Deadline())
	}
	n.arm(now, next)
	n.turn(now)
}
