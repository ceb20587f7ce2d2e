package cm

import (
	"bytes"
	"fmt"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// Reject refuses a connection after EventRequest or EventReply, usually for the
// reason roce.RejConsumer, with at most roce.REJInfoBytes and
// roce.REJPrivateBytes. Only EventTimeWaitExit follows.
func (m *Manager) Reject(now units.Time, id uint32, reason roce.RejectReason, info, private []byte) error {
	c, err := m.find("reject", id, REQReceived, REPReceived)
	if err != nil {
		return err
	}
	message := uint8(roce.AnswersREQ)
	if c.active {
		message = roce.AnswersREP
	}
	if err := m.refuse(now, c, roce.REJ{Message: message, Reason: reason, Info: info, Private: private}); err != nil {
		return err
	}
	c.ended = true
	return nil
}

// Disconnect releases a connection, with at most roce.DREQPrivateBytes. An
// established one ends with EventDisconnected once the other side has answered or
// can't be reached. One that is accepted, but has not received anything yet, is
// released as soon as it does. An earlier attempt is abandoned, and only
// EventTimeWaitExit follows. Disconnecting again does nothing.
func (m *Manager) Disconnect(now units.Time, id uint32, private []byte) error {
	if len(private) > roce.DREQPrivateBytes {
		return fmt.Errorf("cm: %d bytes of private data, expected at most %d", len(private), roce.DREQPrivateBytes)
	}
	c, err := m.find("disconnect", id, REQSent, REPReceived, REQReceived, REPSent, Established, DREQSent, TimeWait, LookUpSent, LookUpReceived)
	if err != nil {
		return err
	}
	switch c.state {
	case Established:
		m.release(now, c, private)
	case REPSent:
		c.closing = true
	case REQReceived, REPReceived:
		return m.Reject(now, id, roce.RejConsumer, nil, nil)
	case LookUpSent:
		c.ended = true
		m.forget(c)
	case LookUpReceived:
		return m.Answer(now, id, Answer{Status: roce.SIDRReject})
	case REQSent:
		c.ended = true
		return m.refuse(now, c, roce.REJ{Message: roce.AnswersNone, Reason: roce.RejTimeout})
	}
	return nil
}

// release sends a DREQ.
func (m *Manager) release(now units.Time, c *conn, private []byte) {
	d := roce.DREQ{LocalCommID: c.id, RemoteCommID: c.remoteID, RemoteQPN: c.par.RemoteQPN, Private: private}
	tid := c.tid
	if !c.active {
		tid = m.tidHigh | uint64(c.id)
	}
	_, _ = d.Put(c.sent[:], tid)                       // its fields have been checked
	c.state, c.answered, c.held = DREQSent, false, nil // it ends, whoever the peer is
	c.retries = int(m.cfg.MaxRetries)
	c.every = wait(m.cfg.RemoteTimeout, m.cfg.PacketLifetime)
	m.transmit(now, c)
}

// released ends a connection after DREQ and DREP.
func (m *Manager) released(now units.Time, c *conn) {
	c.answered = false
	m.timeWait(now, c, exponent(c.par.Timeout))
	m.end(c, Event{Type: EventDisconnected})
}

// stale releases a connection whose other side turned out to have forgotten it
// (IBA 12.9.8.3.1).
func (m *Manager) stale(now units.Time, c *conn) {
	if c.state != Established {
		return
	}
	m.release(now, c, nil)
	m.end(c, Event{Type: EventDisconnected, Reason: roce.RejStaleConnection})
}

// receiveDREQ answers the other side's wish to part.
func (m *Manager) receiveDREQ(now units.Time, path Path, mad roce.MAD) {
	var r roce.DREQ
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.match(path, mad)
	if !ok {
		return
	}
	rep := roce.DREP{LocalCommID: r.RemoteCommID, RemoteCommID: r.LocalCommID}
	switch {
	case c == nil:
		// Forgotten already: the other side missed the DREP.
		m.Counters.Unmatched++
		m.reply(path, mad.TransactionID(), &rep)
	case r.RemoteQPN != c.par.QPN:
		m.Counters.BadField++
	case c.state == TimeWait:
		m.Counters.Duplicates++
		m.reply(path, mad.TransactionID(), &rep)
	case c.state == Established || c.state == REPSent || c.state == DREQSent:
		m.reply(path, mad.TransactionID(), &rep)
		c.answered = false
		m.timeWait(now, c, exponent(c.par.Timeout))
		m.end(c, Event{Type: EventDisconnected, Private: bytes.Clone(r.Private)})
	default:
		m.Counters.WrongState++
	}
}

// receiveDREP ends the wait after a DREQ.
func (m *Manager) receiveDREP(now units.Time, path Path, mad roce.MAD) {
	var r roce.DREP
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		m.Counters.Unmatched++
	case c.state == DREQSent:
		m.released(now, c)
	case c.state == TimeWait:
		m.Counters.Duplicates++
	default:
		m.Counters.WrongState++
	}
}
