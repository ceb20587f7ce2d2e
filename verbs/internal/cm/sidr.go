package cm

import (
	"bytes"
	"fmt"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// LookUp is a SIDR_REQ's content.
type LookUp struct {
	Path      Path
	ServiceID uint64
	Private   []byte // at most roce.SIDRREQPrivateBytes
}

// Answer is a SIDR_REP's content.
type Answer struct {
	Status    roce.SIDRStatus
	QPN, QKey uint32 // of the queue pair that serves the service ID
	Private   []byte // at most roce.SIDRREPPrivateBytes
}

// LookUp sends a SIDR_REQ and returns an ID for it. EventFound or EventUnreachable follows,
// unless Disconnect ends it before.
func (m *Manager) LookUp(now units.Time, l LookUp) (uint32, error) {
	l.Path = l.Path.normal()
	if !l.Path.valid() {
		return 0, fmt.Errorf("cm: path from %v to %v, expected two addresses of one IP version", l.Path.Local, l.Path.Remote)
	}
	c, err := m.newConn(l.Path)
	if err != nil {
		return 0, err
	}
	c.active, c.state = true, LookUpSent
	c.tid = m.tidHigh | uint64(c.id)
	req := roce.SIDRREQ{RequestID: c.id, PKey: pkey, ServiceID: l.ServiceID, Private: l.Private}
	if _, err := req.Put(c.sent[:], c.tid); err != nil {
		delete(m.conns, c.id)
		return 0, err
	}
	c.par = Parameters{Path: l.Path}
	c.retries, c.every = int(m.cfg.MaxRetries), wait(m.cfg.RemoteTimeout, m.cfg.PacketLifetime)
	m.transmit(now, c)
	return c.id, nil
}

// receiveSIDRREQ takes a question for who serves a service ID.
func (m *Manager) receiveSIDRREQ(now units.Time, path Path, mad roce.MAD) {
	var r roce.SIDRREQ
	if !m.decoded(r.Decode(mad)) {
		return
	}
	if old := m.byPeer[peerID{addr: path.Remote, id: r.RequestID, lookUp: true}]; old != nil && old.path == path {
		m.Counters.Duplicates++
		if old.answered {
			m.send(path, old.answer[:])
		}
		return
	}
	l := m.listeners[r.ServiceID]
	if l == nil {
		m.Counters.NoListener++
		m.reply(path, mad.TransactionID(), &roce.SIDRREP{RequestID: r.RequestID, Status: roce.SIDRUnsupported, ServiceID: r.ServiceID})
		return
	}
	if l.waiting.full() {
		m.Counters.Backlog++
		v := l.waiting.victim(now, path.Remote, 0)
		if v == nil {
			return
		}
		m.drop(v)
	}
	c, err := m.newConn(path)
	if err != nil {
		m.Counters.TableFull++
		return
	}
	c.lookUp, c.state, c.remoteID, c.tid = true, LookUpReceived, r.RequestID, mad.TransactionID()
	c.req.ServiceID, c.par = r.ServiceID, Parameters{Path: path}
	l.waiting.add(now, c)
	m.schedule(c, now+bound(exponent(m.cfg.ServiceTimeout)))
	m.byPeer[c.peerID()] = c
	m.raise(c, Event{Type: EventLookUp, ServiceID: r.ServiceID, Private: bytes.Clone(r.Private)})
}

// Answer answers a SIDR_REQ, after EventLookUp. Only EventTimeWaitExit follows.
func (m *Manager) Answer(now units.Time, id uint32, a Answer) error {
	c, err := m.find("answer", id, LookUpReceived)
	if err != nil {
		return err
	}
	rep := roce.SIDRREP{RequestID: c.remoteID, Status: a.Status, QPN: a.QPN, ServiceID: c.req.ServiceID, QKey: a.QKey, Private: a.Private}
	if _, err := rep.Put(c.answer[:], c.tid); err != nil {
		return err
	}
	c.answered, c.ended = true, true
	m.send(c.path, c.answer[:])
	m.timeWait(now, c, 2*m.answerWait())
	m.refused.add(now, c)
	return nil
}

// receiveSIDRREP takes the answer to a SIDR_REQ.
func (m *Manager) receiveSIDRREP(path Path, mad roce.MAD) {
	var r roce.SIDRREP
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c := m.conns[r.RequestID]
	switch {
	case c == nil || c.state != LookUpSent:
		m.Counters.Unmatched++
	case c.path != path || c.tid != mad.TransactionID():
		m.Counters.WrongSource++
	default:
		m.end(c, Event{Type: EventFound, Answer: Answer{Status: r.Status, QPN: r.QPN, QKey: r.QKey}, Private: bytes.Clone(r.Private)})
		m.forget(c)
	}
}
