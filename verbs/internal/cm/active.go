package cm

import (
	"bytes"
	"fmt"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// pkey is the default partition with full membership, the only one of RoCE.
const pkey = 0xffff

// Connect sends a REQ and returns the connection's ID. EventReply, EventRejected
// or EventUnreachable follows.
func (m *Manager) Connect(now units.Time, r Request) (uint32, error) {
	r.Path = r.Path.normal()
	switch {
	case !r.Path.valid():
		return 0, fmt.Errorf("cm: path from %v to %v, expected two addresses of one IP version", r.Path.Local, r.Path.Remote)
	case r.PathMTU > m.cfg.MTU || !r.PathMTU.Valid():
		return 0, fmt.Errorf("cm: PathMTU is %d, expected 256, 512, 1024, 2048 or 4096, and at most the port's %d", r.PathMTU, m.cfg.MTU)
	case r.RetryCount > 7:
		return 0, fmt.Errorf("cm: RetryCount is %d, expected 0 to 7", r.RetryCount)
	}
	if err := r.validate(roce.REQPrivateBytes); err != nil {
		return 0, err
	}
	c, err := m.newConn(r.Path)
	if err != nil {
		return 0, err
	}
	c.active, c.state, c.local = true, REQSent, r.Endpoint
	c.tid = m.tidHigh | uint64(c.id)
	c.req = roce.REQ{
		LocalCommID: c.id, ServiceID: r.ServiceID, LocalCAGUID: m.cfg.CAGUID, LocalQPN: r.QPN, StartingPSN: r.StartingPSN,
		ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RemoteCMTimeout: m.cfg.RemoteTimeout, LocalCMTimeout: m.cfg.LocalTimeout, MaxCMRetries: m.cfg.MaxRetries,
		FlowControl: r.FlowControl, SRQ: r.SRQ, RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount,
		PKey: pkey, PathMTU: roce.MTUCode(r.PathMTU), Private: r.Private,
		Primary: roce.CMPath{
			// RoCE has no LIDs and says so by 0xffff, the permissive one.
			LocalLID: 0xffff, RemoteLID: 0xffff,
			LocalGID: roce.GIDOf(r.Path.Local), RemoteGID: roce.GIDOf(r.Path.Remote),
			FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, SL: r.SL,
			LocalAckTimeout: ackTimeout(m.cfg.AckDelay, m.cfg.PacketLifetime),
		},
	}
	if _, err := c.req.Put(c.sent[:], c.tid); err != nil {
		delete(m.conns, c.id)
		return 0, err
	}
	c.req.Private, c.local.Private = nil, nil
	c.par = Parameters{
		Path: r.Path, QPN: r.QPN, RQPSN: r.StartingPSN, PathMTU: r.PathMTU, RetryCount: r.RetryCount,
		FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, SL: r.SL,
	}
	c.retries, c.every = int(m.cfg.MaxRetries), wait(m.cfg.RemoteTimeout, m.cfg.PacketLifetime)
	m.transmit(now, c)
	return c.id, nil
}

// Ready sends the RTU, after EventReply, once the queue pair is in RTS. The
// connection is then established.
func (m *Manager) Ready(_ units.Time, id uint32, private []byte) error {
	c, err := m.find("ready", id, REPReceived)
	if err != nil {
		return err
	}
	rtu := roce.RTU{LocalCommID: c.id, RemoteCommID: c.remoteID, Private: private}
	if _, err := rtu.Put(c.answer[:], c.tid); err != nil {
		return err
	}
	c.state, c.answered = Established, true
	m.send(c.path, c.answer[:])
	return nil
}

// receiveREP takes the answer to a REQ (IBA 12.9.8.3).
func (m *Manager) receiveREP(now units.Time, path Path, mad roce.MAD) {
	var r roce.REP
	if !m.decoded(r.Decode(mad)) {
		return
	}
	c, ok := m.match(path, mad)
	if !ok {
		return
	}
	if c == nil {
		m.unknown(path, mad, roce.AnswersREP)
		return
	}
	switch {
	case !c.active:
		m.Counters.WrongState++
	case c.state == REQSent:
		m.accepted(now, c, &r)
	case c.state == REPReceived:
		m.Counters.Duplicates++
		m.delay(c, roce.AnswersREP)
	case c.state == Established:
		m.Counters.Duplicates++
		m.send(c.path, c.answer[:])
	case c.state == TimeWait && c.answered && c.remoteID != 0:
		m.Counters.Duplicates++
		m.send(c.path, c.answer[:])
	case c.state == TimeWait:
		m.unknown(path, mad, roce.AnswersREP)
	default:
		m.Counters.WrongState++
	}
}

// accepted takes the first REP.
func (m *Manager) accepted(now units.Time, c *conn, r *roce.REP) {
	if r.LocalQPN < 2 {
		m.Counters.BadField++
		return
	}
	c.remoteID, c.guid = r.LocalCommID, r.LocalCAGUID
	old := m.byQP[peerQP{c.path.Remote, r.LocalCAGUID, r.LocalQPN}]
	p := &c.par
	p.RemoteQPN, p.SQPSN = r.LocalQPN, r.StartingPSN
	if old != nil {
		m.Counters.Stale++
		_ = m.refuse(now, c, roce.REJ{Message: roce.AnswersREP, Reason: roce.RejStaleConnection})
		m.end(c, Event{Type: EventRejected, Reason: roce.RejStaleConnection})
		m.stale(now, old)
		return
	}
	p.MaxRdAtomic = min(c.local.InitiatorDepth, r.ResponderResources)
	p.MaxDestRdAtomic = min(c.local.ResponderResources, r.InitiatorDepth)
	p.Timeout = ackTimeout(r.TargetAckDelay, m.cfg.PacketLifetime)
	p.RNRRetryCount = r.RNRRetryCount
	p.FlowControl = c.local.FlowControl && r.FlowControl
	p.RemoteSRQ = r.SRQ
	c.state = REPReceived
	m.claim(c)
	m.schedule(c, units.Never)
	m.raise(c, Event{Type: EventReply, Private: bytes.Clone(r.Private)})
}
