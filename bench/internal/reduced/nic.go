package reduced

import (
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// nic is one host's: its flows and its wire.
type nic struct {
	fleet    *Fleet
	host     int32
	line     units.Rate
	wireFree units.Time // when all that was given to the wire has left
	dataFree units.Time // when the last data frame has
	wireAt   units.Time // of the pending evWire, or Never
	timerAt  units.Time // of the pending evTimer, or Never
	startAt  units.Time // of the first of starts, or Never
	paused   uint8
	cuts     uint64 // how often engines lowered a rate or a window

	due           line        // senders with a packet that transport and window let go
	classes       *classTurns // instead of due, by priority, where flows have several
	answers       bool        // whose turn it is: see line
	order         uint32
	senders       []sender
	receivers     []receiver
	freeSenders   []uint32 // slots
	freeReceivers []uint32
	begun         []uint32  // slots of senders, in the order in which they started
	starts        []start   // flows that are to begin, by time
	closing       []closing // ends of flows that have ended at the other, by time
	held          []held    // acknowledgements and grants of paused priorities

	recv   cc.Receiver // of the flows to this host, or nil
	recvAt units.Time  // of the pending evReceiver, or Never
}

// held is a packet that waits for the end of a pause.
type held struct {
	packet fabric.Handle
	frame  fabric.Frame
}

type classTurns [fabric.MaxPriorities]line

// start is a sender that is to begin, or a message of a connection that the NIC will
// know of.
type start struct {
	at     units.Time
	sender uint32
	size   uint32 // of the message; 0 is none
	tag    uint64
	fetch  units.Time // of its first packet, see sender.fetch
}

// closing is a receiver, or the responder of a flow of READs, that goes at a time:
// Fleet.linger after its sender or requester has ended, no later than the first moment at
// which it could know. Packets that were sent twice may come until then.
type closing struct {
	at        units.Time
	receiver  uint32
	responder bool
}

// Alarms, in the order in which they go at one instant.
const (
	evWire     uint32 = iota // the wire is free for data, or a paced flow is due
	evTimer                  // a transport timer may have run out
	evStart                  // a flow begins
	evReceiver               // the receiver's timer, or one of its flows has ended
)

// Wake implements fabric.Waker. Of an alarm's times only the one that is remembered
// counts: an earlier one has taken the place of any other.
func (n *nic) Wake(x *fabric.Lane, now units.Time, alarm uint32) {
	l := &n.fleet.lanes[x.Index()]
	switch {
	case alarm == evWire && now == n.wireAt:
		n.wireAt = units.Never
		n.turn(l, now)
	case alarm == evTimer && now == n.timerAt:
		n.timerAt = units.Never
		n.expire(l, now)
	case alarm == evStart && now == n.startAt:
		due := n.starts[0]
		n.starts = n.starts[:copy(n.starts, n.starts[1:])]
		n.nextStart()
		if due.size > 0 {
			n.posted(l, now, due)
			return
		}
		slot := slotOf(due.sender)
		n.begin(l, now, slot, &n.senders[slot])
		n.turn(l, now)
	case alarm == evReceiver && now == n.recvAt:
		n.recvAt = units.Never
		n.receiverTimer(l, now)
	}
}

// schedule sets an alarm.
func (n *nic) schedule(at units.Time, alarm uint32) {
	n.fleet.net.SetAlarm(int(n.host), alarm, at)
}

// later notes what is to begin.
func (n *nic) later(x start) {
	i := len(n.starts)
	for i > 0 && n.starts[i-1].at > x.at {
		i--
	}
	n.starts = slices.Insert(n.starts, i, x)
	n.nextStart()
}

func (n *nic) nextStart() {
	if n.startAt = units.Never; len(n.starts) > 0 {
		n.startAt = n.starts[0].at
		n.schedule(n.startAt, evStart)
	}
}

// begin begins a flow.
func (n *nic) begin(l *lane, now units.Time, slot uint32, s *sender) {
	n.begun = append(n.begun, slot)
	if s.kept {
		return
	}
	n.post(now, s)
	if s.outstanding == 0 { // it should have stopped by now
		n.end(l, now, slot, s, ib.WCSuccess)
		return
	}
	n.offer(now, slot, s)
}

// A flow is named to its peer by its slot, and a generation so that a packet that
// comes late is not taken for the next flow's.
const generationBits = 8

func slotOf(ref uint32) uint32 { return ref >> generationBits }

func (n *nic) newSender(now units.Time) (*sender, uint32) {
	n.close(now)
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

func (n *nic) newReceiver(now units.Time) (*receiver, uint32) {
	n.close(now)
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

// close takes down the receivers and responders whose time has come.
func (n *nic) close(now units.Time) {
	k := 0
	for ; k < len(n.closing) && n.closing[k].at <= now; k++ {
		i := slotOf(n.closing[k].receiver)
		if n.closing[k].responder {
			n.remove(i)
			n.senders[i] = sender{gen: n.senders[i].gen}
			n.freeSenders = append(n.freeSenders, i)
			continue
		}
		if r := &n.receivers[i]; r.begun && !r.over {
			n.recv.OnEnd(now, i)
		}
		n.receivers[i] = receiver{gen: n.receivers[i].gen}
		n.freeReceivers = append(n.freeReceivers, i)
	}
	n.closing = n.closing[:copy(n.closing, n.closing[k:])]
}

// Pause implements fabric.Endpoint.
func (n *nic) Pause(x *fabric.Lane, now units.Time, paused uint8) {
	l := &n.fleet.lanes[x.Index()]
	n.paused = paused
	if len(n.held) > 0 {
		kept := n.held[:0]
		for i := range n.held {
			x := &n.held[i]
			if paused&(1<<x.frame.Priority) != 0 {
				kept = append(kept, *x)
				continue
			}
			l.stats.TxPackets++
			n.wireFree = l.Transmit(now, int(n.host), x.packet, &x.frame)
		}
		n.held = kept
	}
	n.turn(l, now)
}

// transmit puts an acknowledgement or a grant on the wire, behind what is there.
func (n *nic) transmit(l *lane, now units.Time, h fabric.Handle, f *fabric.Frame) {
	if n.paused&(1<<(f.Priority&7)) != 0 {
		n.held = append(n.held, held{h, *f})
		return
	}
	l.stats.TxPackets++
	n.wireFree = l.Transmit(now, int(n.host), h, f)
}

// turn gives the wire to the flow that is due, or sets the alarm for when it can
// be given to one.
func (n *nic) turn(l *lane, now units.Time) {
	next := units.Never
	if n.classes == nil {
		if n.paused&(1<<(n.fleet.cfg.Priority&7)) == 0 {
			next = n.turnOf(l, now, &n.due)
		}
	} else {
		// Engines choose priorities: the most urgent that is due goes first.
		for p := fabric.MaxPriorities - 1; p >= 0; p-- {
			if n.paused&(1<<p) == 0 { // or Pause comes again
				next = min(next, n.turnOf(l, now, &n.classes[p]))
			}
		}
	}
	if next < n.wireAt {
		n.wireAt = next
		n.schedule(next, evWire)
	}
}

// turnOf has those in a line send that may, and returns when the next may.
func (n *nic) turnOf(l *lane, now units.Time, of *line) units.Time {
	for {
		q := of.first(now, n.answers)
		if len(*q) == 0 {
			return units.Never
		}
		first := &(*q)[0]
		if at := max(first.at, n.dataFree); at > now {
			return at
		}
		n.send(l, now, first.sender, &n.senders[first.sender])
	}
}

// arm sets the alarm for a transport timer. A deadline that moves later meanwhile
// costs a look when the old one comes.
func (n *nic) arm(now, deadline units.Time) {
	if deadline < n.timerAt {
		n.timerAt = max(deadline, now)
		n.schedule(n.timerAt, evTimer)
	}
}

// expire looks at the timers of all flows of the NIC.
func (n *nic) expire(l *lane, now units.Time) {
	next := units.Never
	for i := 0; i < len(n.begun); {
		slot := n.begun[i]
		s := &n.senders[slot]
		if s.qp.Deadline() <= now {
			s.qp.Expire(now, &l.eff)
			n.effects(l, now, slot, s)
			if i == len(n.begun) || n.begun[i] != slot {
				continue // it has ended
			}
			s = &n.senders[slot] // a flow may have been started
		}
		next = min(next, s.qp.Deadline())
		i++
	}
	n.arm(now, next)
	n.turn(l, now)
}
