package cm

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// Causes of errors. Test for them with errors.Is.
var (
	ErrState = errors.New("not possible in the connection's state")
	ErrInUse = errors.New("something listens there already")
	ErrFull  = errors.New("too many connections")
)

// Manager holds the connections of one device. It belongs to one goroutine at a
// time.
type Manager struct {
	cfg       Config
	tidHigh   uint64
	listeners map[uint64]*listener
	conns     map[uint32]*conn
	byPeer    map[peerID]*conn // passive ones, whose REQ may come again
	byQP      map[peerQP]*conn // live ones whose other queue pair is known
	origin    units.LongTime   // of instants; see Now
	timers    timers
	made      uint64

	unproven crowd // passive connections that the application holds, until the RTU
	refused  crowd // in TimeWait for want of an RTU, to answer duplicates

	out    []Outgoing
	events []Event

	Counters Counters
}

// New returns a Manager without connections.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, listeners: map[uint64]*listener{}, conns: map[uint32]*conn{},
		byPeer: map[peerID]*conn{}, byQP: map[peerQP]*conn{},
		unproven: crowd{most: maxUnproven}, refused: crowd{most: cfg.MaxConnections},
	}
	high, err := m.random()
	m.tidHigh = uint64(high) << 32
	return m, err
}

func (m *Manager) random() (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(m.cfg.Rand, b[:]); err != nil {
		return 0, fmt.Errorf("cm: no random number: %w", err)
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// Listen takes REQs for a service ID. At most backlog of them wait for Hold, Accept or
// Reject at a time. To make room for more, it drops the oldest (EventUnreachable),
// first of the address that has the most: an honest peer sends its REQ again.
func (m *Manager) Listen(serviceID uint64, backlog int) error {
	if m.listeners[serviceID] != nil {
		return fmt.Errorf("cm: listen on service ID %#x: %w", serviceID, ErrInUse)
	}
	m.listeners[serviceID] = &listener{crowd{most: max(backlog, 1)}}
	return nil
}

// Unlisten refuses further REQs. Those that wait stay until they are rejected.
func (m *Manager) Unlisten(serviceID uint64) { delete(m.listeners, serviceID) }

// Listening reports whether a service ID is taken.
func (m *Manager) Listening(serviceID uint64) bool { return m.listeners[serviceID] != nil }

// Connections counts the connections, TimeWait included.
func (m *Manager) Connections() int { return len(m.conns) }

// State returns the state of a connection.
func (m *Manager) State(id uint32) State {
	if c := m.conns[id]; c != nil {
		return c.state
	}
	return Idle
}

// Deadline returns when to call Expire next, or units.Never.
func (m *Manager) Deadline() units.Time {
	if len(m.timers) == 0 {
		return units.Never
	}
	return m.timers[0].deadline
}

// Expire does what time demands. Calling it early does no harm.
func (m *Manager) Expire(now units.Time) {
	for len(m.timers) > 0 && m.timers[0].deadline <= now {
		c := heap.Pop(&m.timers).(*conn)
		c.deadline = units.Never
		m.expire(now, c)
	}
}

// NextMAD takes the next datagram to send and reports whether there was one.
func (m *Manager) NextMAD(o *Outgoing) bool {
	if len(m.out) == 0 {
		m.out = nil
		return false
	}
	*o, m.out = m.out[0], m.out[1:]
	return true
}

// NextEvent takes the next event and reports whether there was one.
func (m *Manager) NextEvent(e *Event) bool {
	if len(m.events) == 0 {
		m.events = nil
		return false
	}
	*e, m.events = m.events[0], m.events[1:]
	return true
}

func (m *Manager) raise(c *conn, e Event) {
	e.ID, e.Parameters = c.id, c.par
	m.events = append(m.events, e)
}

// send queues a datagram.
func (m *Manager) send(p Path, mad []byte) {
	o := Outgoing{Path: p}
	copy(o.MAD[:], mad)
	m.out = append(m.out, o)
	m.Counters.Sent[index(roce.MAD(mad).Attribute())]++
}

// message is a roce message to be written.
type message interface {
	Put(b []byte, tid uint64) (roce.MAD, error)
}

// reply sends a message that is not kept.
func (m *Manager) reply(p Path, tid uint64, msg message) {
	var b [roce.MADBytes]byte
	if _, err := msg.Put(b[:], tid); err == nil {
		m.send(p, b[:])
	}
}

// newConn makes a connection with an ID that nobody can guess.
func (m *Manager) newConn(path Path) (*conn, error) {
	if len(m.conns) >= m.cfg.MaxConnections && m.refused.oldest != nil {
		m.forget(m.refused.oldest) // a duplicate of its REQ is then a new one
	}
	if len(m.conns) >= m.cfg.MaxConnections {
		return nil, fmt.Errorf("cm: %d connections: %w", len(m.conns), ErrFull)
	}
	for {
		id, err := m.random()
		if err != nil {
			return nil, err
		}
		if id == 0 || m.conns[id] != nil {
			continue
		}
		m.made++
		c := &conn{id: id, path: path, seq: m.made, at: -1, deadline: units.Never}
		m.conns[id] = c
		return c, nil
	}
}

// claim enters the connection under the other side's queue pair.
func (m *Manager) claim(c *conn) { m.byQP[c.peerQP()] = c }

// timeWait ends a connection. keep is how long the connection stays to answer late
// messages.
func (m *Manager) timeWait(now units.Time, c *conn, keep units.Time) {
	c.leaveCrowd()
	c.held = nil
	c.state = TimeWait
	if m.byQP[c.peerQP()] == c {
		delete(m.byQP, c.peerQP())
	}
	m.schedule(c, now+bound(keep))
}

func (m *Manager) forget(c *conn) {
	c.leaveCrowd()
	m.schedule(c, units.Never)
	delete(m.conns, c.id)
	if m.byPeer[c.peerID()] == c {
		delete(m.byPeer, c.peerID())
	}
	m.raise(c, Event{Type: EventTimeWaitExit})
}

// transmit sends c.sent and starts its timer.
func (m *Manager) transmit(now units.Time, c *conn) {
	m.send(c.path, c.sent[:])
	m.schedule(c, now+c.every)
}

// refuse sends a REJ for the connection, which duplicates get again, and ends it.
func (m *Manager) refuse(now units.Time, c *conn, r roce.REJ) error {
	r.LocalCommID, r.RemoteCommID = c.id, c.remoteID
	if r.Reason == roce.RejTimeout {
		// The other side may not know this side's ID: name the device (IBA
		// 12.6.7.2).
		r.Info = binary.BigEndian.AppendUint64(nil, m.cfg.CAGUID)
	}
	r.InfoLength = uint8(len(r.Info))
	if _, err := r.Put(c.answer[:], c.tid); err != nil {
		return err
	}
	c.answered = true
	m.send(c.path, c.answer[:])
	m.timeWait(now, c, 2*m.answerWait())
	if !c.active {
		m.refused.add(now, c)
	}
	return nil
}

// expire does what a connection's timer demands.
func (m *Manager) expire(now units.Time, c *conn) {
	switch {
	case c.state == TimeWait:
		m.forget(c)
		return
	case c.state == REQReceived || c.state == LookUpReceived:
		m.drop(c)
		return
	case c.held != nil:
		m.restarted(now, c)
		return
	}
	if c.retries > 0 {
		c.retries--
		m.Counters.Retransmitted++
		m.transmit(now, c)
		return
	}
	switch c.state {
	case DREQSent:
		m.released(now, c)
		return
	case LookUpSent:
		m.drop(c)
		return
	}
	_ = m.refuse(now, c, roce.REJ{Message: roce.AnswersNone, Reason: roce.RejTimeout})
	m.end(c, Event{Type: EventUnreachable})
}

// drop forgets a connection. To a requested one it is as if the REQ had never arrived: an
// honest peer sends it again.
func (m *Manager) drop(c *conn) {
	if m.byQP[c.peerQP()] == c {
		delete(m.byQP, c.peerQP())
	}
	m.end(c, Event{Type: EventUnreachable})
	m.forget(c)
}

// answerWait returns the time that an answer takes by this side's own clock, whatever a message
// says.
func (m *Manager) answerWait() units.Time { return wait(m.cfg.RemoteTimeout, m.cfg.PacketLifetime) }

// end reports to the application that the connection has ended, unless it was
// reported before or the application refused the connection itself.
func (m *Manager) end(c *conn, e Event) {
	if c.ended {
		return
	}
	c.ended = true
	if c.closing {
		e = Event{Type: EventDisconnected}
	}
	m.raise(c, e)
}

func (m *Manager) find(op string, id uint32, states ...State) (*conn, error) {
	c := m.conns[id]
	for _, s := range states {
		if c != nil && c.state == s {
			return c, nil
		}
	}
	return nil, fmt.Errorf("cm: %s: connection %#x is %v: %w", op, id, m.State(id), ErrState)
}
