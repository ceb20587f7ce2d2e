package cm

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// Receive handles a management datagram that arrived at queue pair 1 from queue
// pair 1 of path.Remote. A malformed datagram, or one that matches no connection,
// is counted and dropped. Receive does not keep b.
func (m *Manager) Receive(now units.Time, path Path, b []byte) {
	mad, err := roce.ParseMAD(b)
	if !m.decoded(err) {
		return
	}
	path = path.normal()
	if !path.valid() {
		m.Counters.WrongSource++
		return
	}
	m.Counters.Received[index(mad.Attribute())]++
	switch mad.Attribute() {
	case roce.AttrREQ:
		m.receiveREQ(now, path, mad)
	case roce.AttrREP:
		m.receiveREP(now, path, mad)
	case roce.AttrRTU:
		m.receiveRTU(now, path, mad)
	case roce.AttrDREQ:
		m.receiveDREQ(now, path, mad)
	case roce.AttrDREP:
		m.receiveDREP(now, path, mad)
	case roce.AttrMRA:
		m.receiveMRA(now, path, mad)
	case roce.AttrREJ:
		m.receiveREJ(now, path, mad)
	case roce.AttrSIDRREQ:
		m.receiveSIDRREQ(now, path, mad)
	case roce.AttrSIDRREP:
		m.receiveSIDRREP(path, mad)
	}
}

// decoded reports whether there was no error, and counts one.
func (m *Manager) decoded(err error) bool {
	var bad roce.Malformed
	if errors.As(err, &bad) {
		m.Counters.Malformed[bad]++
	}
	return err == nil
}

// match returns the connection that a message is for, nil if none has both IDs. ok
// is false if one has them but another address; drop the message then.
func (m *Manager) match(path Path, mad roce.MAD) (c *conn, ok bool) {
	c = m.conns[mad.RemoteCommID()]
	switch {
	case c == nil || c.remoteID != 0 && c.remoteID != mad.LocalCommID():
		return nil, true
	case c.path != path:
		m.Counters.WrongSource++
		return nil, false
	}
	return c, true
}

// unknown refuses a message for a connection that is not there.
func (m *Manager) unknown(path Path, mad roce.MAD, message uint8) {
	m.Counters.Unmatched++
	m.reply(path, mad.TransactionID(), &roce.REJ{
		LocalCommID: mad.RemoteCommID(), RemoteCommID: mad.LocalCommID(), Message: message, Reason: roce.RejInvalidCommID,
	})
}

// receiveMRA waits longer for an answer (IBA 12.9.8.6).
func (m *Manager) receiveMRA(now units.Time, path Path, mad roce.MAD) {
	var r roce.MRA
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		m.Counters.Unmatched++
	case c.state == REQSent && r.Message == roce.AnswersREQ, c.state == REPSent && r.Message == roce.AnswersREP:
		c.remoteID = r.LocalCommID
		at := now + bound(exponent(r.ServiceTimeout)+2*exponent(m.cfg.PacketLifetime))
		m.schedule(c, max(at, c.deadline))
	default:
		m.Counters.WrongState++
	}
}

// receiveREJ ends a connection that the other side refuses or gives up.
func (m *Manager) receiveREJ(now units.Time, path Path, mad roce.MAD) {
	var r roce.REJ
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.conns[mad.RemoteCommID()], true
	switch {
	case c != nil && c.state == REQSent && c.path == path:
		// A side that refuses a REQ need not have an ID for the connection.
	case r.Reason == roce.RejTimeout && r.RemoteCommID == 0 && r.InfoLength >= 8:
		c = m.byPeer[peerID{path.Remote, binary.BigEndian.Uint64(r.Info), r.LocalCommID, false}]
	default:
		c, ok = m.match(path, mad)
	}
	switch {
	case !ok:
		return
	case c == nil:
		m.Counters.Unmatched++
		return
	}
	e := Event{Type: EventRejected, Reason: r.Reason, Private: bytes.Clone(r.Private)}
	e.Info = bytes.Clone(r.Info[:min(int(r.InfoLength), len(r.Info))])
	switch c.state {
	case REQSent, REPReceived, REQReceived, REPSent:
	case Established, DREQSent:
		e = Event{Type: EventDisconnected, Reason: r.Reason}
	default:
		m.Counters.WrongState++
		return
	}
	c.answered = false
	m.timeWait(now, c, exponent(c.par.Timeout))
	m.end(c, e)
}
