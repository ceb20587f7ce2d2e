package cm

import (
	"bytes"
	"fmt"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// receiveREQ takes a request for a connection (IBA 12.9.8.2).
func (m *Manager) receiveREQ(now units.Time, path Path, mad roce.MAD) {
	var r roce.REQ
	if !m.decoded(r.Decode(mad)) {
		return
	}
	switch {
	case r.Primary.LocalGID.Addr() != path.Remote:
		// The queue pair would send to whom the REQ names: it must be who sent it.
		m.Counters.WrongSource++
		return
	case r.LocalQPN < 2:
		m.Counters.BadField++
		return
	}
	old := m.byPeer[peerID{path.Remote, r.LocalCAGUID, r.LocalCommID, false}]
	if old != nil {
		m.Counters.Duplicates++
		if old.path == path && old.req.LocalQPN == r.LocalQPN && old.req.StartingPSN == r.StartingPSN && old.req.ServiceID == r.ServiceID {
			m.duplicateREQ(now, old)
			return
		}
	} else if old = m.byQP[peerQP{path.Remote, r.LocalCAGUID, r.LocalQPN}]; old != nil {
		m.Counters.Stale++
	}
	l := m.listeners[r.ServiceID]
	mtu := roce.MTUOf(r.PathMTU)
	switch {
	case l != nil && old != nil:
		// The other side has lost its state, and uses the ID or the queue pair again.
		m.probe(now, old, path, mad)
	case l == nil:
		m.Counters.NoListener++
		m.refuseREQ(path, mad, roce.RejInvalidServiceID, nil)
	case r.TransportType != roce.TransportRC:
		m.refuseREQ(path, mad, roce.RejInvalidTransport, nil)
	case r.Primary.RemoteGID.Addr() != path.Local:
		gid := roce.GIDOf(path.Local)
		m.refuseREQ(path, mad, roce.RejInvalidGID, gid[:])
	case mtu == 0 || mtu > m.cfg.MTU:
		m.refuseREQ(path, mad, roce.RejInvalidMTU, []byte{roce.MTUCode(m.cfg.MTU)})
	case l.waiting.full():
		v := l.waiting.victim(now, path.Remote, 0)
		m.Counters.Backlog++
		if v == nil {
			return
		}
		m.drop(v)
		m.requested(now, path, mad, &r, l)
	default:
		m.requested(now, path, mad, &r, l)
	}
}

// heldREQ holds the fields of a REQ that its answer needs.
type heldREQ struct {
	path Path
	mad  [roce.MADBytes]byte
}

// probe finds out whether the peer of a connection still has it, when a REQ in the
// peer's name says that the peer has restarted. Anybody who knows the number of the
// peer's queue pair, 24 bits, can send such a REQ. A peer that has the connection
// answers a repeated REP with an RTU, which names the connection by both sides' IDs;
// another peer does not. The side that sent the REQ of the connection has no REP to
// repeat, and believes the new REQ (IBA 12.9.8.3.1).
func (m *Manager) probe(now units.Time, c *conn, path Path, mad roce.MAD) {
	held := &heldREQ{path: path}
	copy(held.mad[:], mad)
	switch {
	case c.state == Established && !c.active && c.held != nil:
		c.held = held
	case c.state == Established && !c.active:
		c.held = held
		m.Counters.Probed++
		m.send(c.path, c.sent[:])
		m.schedule(c, now+probeWait)
	default:
		c.held = held
		m.restarted(now, c)
	}
}

// restarted handles a connection whose peer has restarted.
func (m *Manager) restarted(now units.Time, c *conn) {
	m.refuseREQ(c.held.path, c.held.mad[:], roce.RejStaleConnection, nil)
	c.held = nil
	m.stale(now, c)
}

// requested makes a connection of a REQ that is new and in order.
func (m *Manager) requested(now units.Time, path Path, mad roce.MAD, r *roce.REQ, l *listener) {
	c, err := m.newConn(path)
	if err != nil {
		m.Counters.TableFull++
		return
	}
	private := bytes.Clone(r.Private)
	c.state, c.remoteID, c.guid, c.tid = REQReceived, r.LocalCommID, r.LocalCAGUID, mad.TransactionID()
	c.req = *r
	c.req.Private = nil
	c.par = Parameters{
		Path: path, RemoteQPN: r.LocalQPN, SQPSN: r.StartingPSN, PathMTU: roce.MTUOf(r.PathMTU),
		MaxRdAtomic: r.ResponderResources, MaxDestRdAtomic: r.InitiatorDepth,
		Timeout: r.Primary.LocalAckTimeout, RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount,
		FlowControl: r.FlowControl, RemoteSRQ: r.SRQ, FlowLabel: r.Primary.FlowLabel,
		TrafficClass: r.Primary.TrafficClass, HopLimit: r.Primary.HopLimit, SL: r.Primary.SL,
	}
	if c.par.Timeout == 0 {
		// No timeout at all would leave a queue pair waiting for ever.
		c.par.Timeout = ackTimeout(m.cfg.AckDelay, m.cfg.PacketLifetime)
	}
	l.waiting.add(now, c)
	m.schedule(c, now+bound(exponent(m.cfg.ServiceTimeout)))
	m.byPeer[c.peerID()] = c
	m.claim(c)
	m.raise(c, Event{Type: EventRequest, ServiceID: r.ServiceID, Private: private})
}

// duplicateREQ answers a REQ that was received before.
func (m *Manager) duplicateREQ(now units.Time, c *conn) {
	switch {
	case c.state == REQReceived:
		m.delay(c, roce.AnswersREQ)
		m.schedule(c, now+bound(exponent(m.cfg.ServiceTimeout)))
	case c.state == REPSent:
		m.send(c.path, c.sent[:])
	case c.state == TimeWait && c.answered:
		m.send(c.path, c.answer[:])
	}
}

// refuseREQ answers a REQ that makes no connection.
func (m *Manager) refuseREQ(path Path, mad roce.MAD, reason roce.RejectReason, info []byte) {
	m.reply(path, mad.TransactionID(), &roce.REJ{
		RemoteCommID: mad.LocalCommID(), Message: roce.AnswersREQ, Reason: reason, Info: info, InfoLength: uint8(len(info)),
	})
}

// delay answers a duplicate for whose answer the application needs time.
func (m *Manager) delay(c *conn, message uint8) {
	m.reply(c.path, c.tid, &roce.MRA{
		LocalCommID: c.id, RemoteCommID: c.remoteID, Message: message, ServiceTimeout: m.cfg.ServiceTimeout,
	})
}

// Hold reports that the application is about to Accept or Reject a REQ: for at least
// a second, later ones do not displace it. Hold returns ErrFull if too many are held
// already; the REQ is then dropped, and an honest peer sends it again. The
// application has to answer within the ServiceTimeout.
func (m *Manager) Hold(now units.Time, id uint32) error {
	c, err := m.find("hold", id, REQReceived, LookUpReceived)
	if err != nil {
		return err
	}
	if c.crowd.of == &m.unproven {
		return nil
	}
	c.leaveCrowd()
	if m.unproven.full() {
		v := m.unproven.victim(now, c.path.Remote, provenWithin)
		m.Counters.Backlog++
		if v == nil {
			c.ended = true // by the error
			m.drop(c)
			return fmt.Errorf("cm: hold: %d connections wait for their peers: %w", m.unproven.n, ErrFull)
		}
		m.drop(v)
	}
	m.unproven.add(now, c)
	return nil
}

// Accept sends the REP to a REQ and returns what both sides agree on.
// EventEstablished, when the RTU or a packet arrives, EventRejected or
// EventUnreachable follows. The queue pair must be ready to receive: bring it to
// RTS with Offer's result before. e.Private has room for roce.REPPrivateBytes.
func (m *Manager) Accept(now units.Time, id uint32, e Endpoint) (Parameters, error) {
	c, err := m.find("accept", id, REQReceived)
	if err != nil {
		return Parameters{}, err
	}
	if err := e.validate(roce.REPPrivateBytes); err != nil {
		return Parameters{}, err
	}
	if err := m.Hold(now, id); err != nil {
		return Parameters{}, err
	}
	p := c.par.agree(e)
	rep := roce.REP{
		LocalCommID: c.id, RemoteCommID: c.remoteID, LocalQPN: e.QPN, StartingPSN: e.StartingPSN,
		ResponderResources: p.MaxDestRdAtomic, InitiatorDepth: p.MaxRdAtomic,
		TargetAckDelay: m.cfg.AckDelay, FlowControl: e.FlowControl, RNRRetryCount: e.RNRRetryCount, SRQ: e.SRQ,
		LocalCAGUID: m.cfg.CAGUID, Private: e.Private,
	}
	if _, err := rep.Put(c.sent[:], c.tid); err != nil {
		return Parameters{}, err
	}
	e.Private = nil
	c.local, c.par, c.state = e, p, REPSent
	lifetime := c.req.Primary.LocalAckTimeout
	if lifetime > 0 {
		lifetime-- // it is twice the lifetime, and the device's delay
	}
	// The REQ may ask for less patience than this side has, and not for more.
	c.retries = int(min(c.req.MaxCMRetries, m.cfg.MaxRetries))
	c.every = min(wait(c.req.LocalCMTimeout, lifetime), m.answerWait())
	m.transmit(now, c)
	return p, nil
}

// Offer returns what both sides would agree on if the connection were accepted
// with e.
func (m *Manager) Offer(id uint32, e Endpoint) (Parameters, error) {
	c, err := m.find("offer", id, REQReceived)
	if err != nil {
		return Parameters{}, err
	}
	return c.par.agree(e), nil
}

// agree turns what a REQ offers into what both sides have, given this side's
// part.
func (p Parameters) agree(e Endpoint) Parameters {
	p.QPN, p.RQPSN = e.QPN, e.StartingPSN
	p.MaxRdAtomic = min(p.MaxRdAtomic, e.InitiatorDepth)
	p.MaxDestRdAtomic = min(p.MaxDestRdAtomic, e.ResponderResources)
	p.FlowControl = p.FlowControl && e.FlowControl
	return p
}

// Established reports that a packet arrived on the queue pair of an accepted
// connection: the RTU must have been lost (IBA 12.9.8.4).
func (m *Manager) Established(now units.Time, id uint32) error {
	c, err := m.find("established", id, REPSent)
	if err != nil {
		return err
	}
	m.establish(now, c, nil)
	return nil
}

func (m *Manager) establish(now units.Time, c *conn, private []byte) {
	c.leaveCrowd()
	c.state = Established
	m.schedule(c, units.Never)
	if c.closing {
		m.release(now, c, nil)
		return
	}
	m.raise(c, Event{Type: EventEstablished, Private: private})
}

// receiveRTU takes the answer to a REP.
func (m *Manager) receiveRTU(now units.Time, path Path, mad roce.MAD) {
	var r roce.RTU
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.match(path, mad)
	if !ok {
		return
	}
	switch {
	case c == nil:
		m.unknown(path, mad, roce.AnswersNone)
	case c.active:
		m.Counters.WrongState++
	case c.state == REPSent:
		m.establish(now, c, bytes.Clone(r.Private))
	case c.held != nil: // the connection is valid: the REQ was forged
		m.Counters.Forged++
		c.held = nil
		m.schedule(c, units.Never)
	case c.state == TimeWait && c.answered:
		m.Counters.Duplicates++
		m.send(c.path, c.answer[:])
	case c.state == REQReceived:
		m.Counters.WrongState++
	default:
		m.Counters.Duplicates++
	}
}
