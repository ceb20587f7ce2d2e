package reduced

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// A connection is a flow whose messages its user posts one by one, and which stays until it
// is closed. What hosts learn of a message they learn Config.Completion after its last
// acknowledgement, or after its arrival. So a network that is divided needs no more than
// windows of that length for a host to answer at once what it has learned: in a window
// nobody can learn what happened in it.

// Message says that a host has learned of a message of a connection.
type Message struct {
	ID  uint64 // the connection's
	Tag uint64 // of the message, as posted; not of one that has arrived
	// Arrived says that it is the receiver who has learned of it (Flow.Notify), of one
	// message after the other in the order in which they were posted; else it is the
	// sender, who has had the last acknowledgement.
	Arrived bool

	at   units.Time
	host int32
}

// messages holds what hosts will have learned, as events of the engine.
type messages struct {
	on      func(*Message)
	node    des.NodeID
	sources uint32 // of host 0; one for each host follows
	seq     []uint32
	pending []Message
	free    []uint32
	told    Message // the one that on is called with
}

// OnMessage has fn called as an event of the engine when a host has learned of a message
// of a connection, before the NICs' own events of that time. The Message is valid during
// the call. fn may post, and start and close flows. Call it before connections are made,
// and at an engine's Now of 0.
func (f *Fleet) OnMessage(fn func(*Message)) {
	f.messages.on = fn
	if d := f.net.Division(); d != nil {
		d.Within(f.cfg.Completion)
	}
}

// register gives the messages their place among the engine's destinations.
func (f *Fleet) register() {
	m := &f.messages
	m.node, m.sources, m.seq = f.engine.AddHandler(f), f.engine.NewSources(len(f.nics)), make([]uint32, len(f.nics))
}

// Handle implements des.Handler.
func (f *Fleet) Handle(ev des.Event) {
	m := &f.messages
	m.told = m.pending[ev.Arg]
	m.free = append(m.free, uint32(ev.Arg))
	m.on(&m.told)
}

// learn notes that a host will have learned of a message.
func (n *nic) learn(l *lane, now units.Time, m Message) {
	m.at, m.host = now+n.fleet.cfg.Completion, n.host
	l.learned = append(l.learned, m)
	l.Settle()
}

// announce makes events of what was noted on a lane. Which lane it was is of no account:
// at one instant hosts go by their number, and each in its own order.
func (f *Fleet) announce(l *lane) {
	m := &f.messages
	for i := range l.learned {
		if len(m.free) == 0 {
			m.free = append(m.free, uint32(len(m.pending)))
			m.pending = append(m.pending, Message{})
		}
		x := &l.learned[i]
		slot := m.free[len(m.free)-1]
		m.free = m.free[:len(m.free)-1]
		m.pending[slot] = *x
		m.seq[x.host]++
		f.engine.Post(x.at, m.sources+uint32(x.host), m.seq[x.host], m.node, 0, uint64(slot))
	}
	l.learned = l.learned[:0]
}

// Post posts a message of 1 byte to the flow's Message on a connection, at the engine's
// Now. Its NIC knows of it after Config.Start. No more than Config.SendDepth may be under
// way, of which the sender has not learned.
func (f *Fleet) Post(r Ref, size units.Bytes, tag uint64) error {
	n := &f.nics[r.src]
	s := n.sender(r.sender)
	if s == nil || !s.kept || size <= 0 || size > s.message || s.outstanding >= s.depth {
		return fmt.Errorf("reduced: a message of %v posted to no connection, of more than its flow's Message, or beyond SendDepth", size)
	}
	s.outstanding++
	p := start{at: f.engine.Now() + f.cfg.Start, sender: r.sender, size: uint32(size), tag: tag}
	if f.cfg.Fetch != nil {
		p.fetch = f.cfg.Fetch(s.payload(size, f.cfg.MTU))
	}
	if f.cfg.Start > 0 {
		n.later(p)
		return nil
	}
	n.posted(&f.lanes[0], p.at, p)
	return nil
}

// posted takes a message that the NIC has learned of.
func (n *nic) posted(l *lane, now units.Time, p start) {
	slot := slotOf(p.sender)
	s := &n.senders[slot]
	// There is room: Post has seen to it.
	_, _ = s.qp.PostSend(&rc.Request{ID: p.tag, Op: s.operation(), Signaled: true, Length: p.size})
	s.posted += units.Bytes(p.size)
	if s.place == 0 {
		s.fetch = p.fetch
	}
	n.offer(now, slot, s)
	n.turn(l, now)
}

// Close takes a connection down that has nothing under way, as a flow that ends now.
func (f *Fleet) Close(r Ref) error {
	n := &f.nics[r.src]
	s := n.sender(r.sender)
	if s == nil || !s.kept || s.outstanding > 0 {
		return fmt.Errorf("reduced: the flow to close is no connection, or has messages under way")
	}
	n.end(&f.lanes[0], f.engine.Now(), slotOf(r.sender), s, ib.WCSuccess)
	if f.net.Division() != nil { // there it is settled at the end of a window
		f.settleAll()
	}
	return nil
}

// received tells the host of a message that has arrived whole, and makes room for the
// next.
func (n *nic) received(l *lane, now units.Time, r *receiver, c *rc.RecvCompletion) {
	r.recv.Free(c.Slot)
	_, _ = r.recv.Post(rc.Recv{})
	n.learn(l, now, Message{ID: r.id, Arrived: true})
}

// mix gives a NIC a queue for each priority, from when it has a flow with another than
// Config.Priority.
func (n *nic) mix() {
	if n.classes == nil {
		n.classes = new(classTurns)
		n.classes[n.fleet.cfg.Priority&7], n.due = n.due, line{}
	}
}

// forget drops what was to be posted on a connection that has failed.
func (n *nic) forget(sender uint32) {
	n.starts = slices.DeleteFunc(n.starts, func(p start) bool { return p.sender == sender && p.size > 0 })
}
