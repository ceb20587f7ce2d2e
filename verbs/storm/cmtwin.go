package storm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// cmTwin is a connection manager as the specification and docs/storm.md have it (rule 24). It is told
// what the real one is told: calls, messages, the time. By that it knows each message that must be sent,
// each event, state and counter, and when the real one must be called next.
type cmTwin struct {
	p        *Process
	cfg      cm.Config
	core     *cm.Manager
	tidHigh  uint64
	calls    []*call // in the order of their making
	waiting  map[uint64][]*call
	out      []cm.Outgoing
	events   []cm.Event
	counters cm.Counters
}

// call is one connection, or a look-up.
type call struct {
	id, remote      uint32
	state           cm.State
	active, lookUp  bool
	closing, ended  bool // Disconnect came before the RTU; the program knows that it is over
	claimed         bool // nobody else may have the peer's queue pair
	path            cm.Path
	tid, guid       uint64
	local           cm.Endpoint
	req             roce.REQ
	par             cm.Parameters
	contradicts     []byte // a REQ in the peer's name, while the peer is asked
	contradictsOn   cm.Path
	sent, answer    []byte // what goes out again without an answer, and to duplicates
	answered        bool
	retries         int
	every, deadline units.Time
	service         uint64
}

// Times of the connection manager that no message can change (docs/connections.md).
const (
	leastWait = 10 * units.Millisecond
	mostWait  = 69 * units.Second
	probeTime = units.Second
)

func within(t units.Time) units.Time { return min(max(t, leastWait), mostWait) }

// power is 4.096 us times 2 to n.
func power(n uint8) units.Time { return 4096 * units.Nanosecond << (n & 31) }

func answerIn(timeout, lifetime uint8) units.Time { return within(power(timeout) + 2*power(lifetime)) }

// timeoutCode is the code of twice the lifetime of a packet and the other side's delay (12.7.34).
func timeoutCode(delay, lifetime uint8) uint8 {
	large, small := max(lifetime+1, delay), min(lifetime+1, delay)
	if small+1 >= large {
		large++
	}
	return min(large, 31)
}

// own is how long an answer takes by this side's own clock.
func (t *cmTwin) own() units.Time { return answerIn(t.cfg.RemoteTimeout, t.cfg.PacketLifetime) }

func (t *cmTwin) find(id uint32) *call {
	for _, c := range t.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// may holds the error of a call against whether the connection's state allows it, and returns the
// connection if so.
func (t *cmTwin) may(what string, err error, id uint32, states ...cm.State) *call {
	c := t.find(id)
	if c != nil && !slices.Contains(states, c.state) {
		c = nil
	}
	if (c != nil) != (err == nil) {
		t.p.Failf("rule 24: %s of connection %#x, which is %v: %v", what, id, t.state(id), err)
		return nil
	}
	return c
}

func (t *cmTwin) state(id uint32) cm.State {
	if c := t.find(id); c != nil {
		return c.state
	}
	return cm.Idle
}

func (t *cmTwin) make(id uint32, path cm.Path) *call {
	c := &call{id: id, path: normal(path), deadline: units.Never}
	t.calls = append(t.calls, c)
	return c
}

func normal(p cm.Path) cm.Path { return cm.Path{Local: p.Local.Unmap(), Remote: p.Remote.Unmap()} }

func (t *cmTwin) send(p cm.Path, b []byte) {
	o := cm.Outgoing{Path: p}
	copy(o.MAD[:], b)
	t.out = append(t.out, o)
	t.counters.Sent[roce.MAD(b).Attribute()-roce.AttrREQ]++
}

// put makes a message.
func put(m interface {
	Put(b []byte, tid uint64) (roce.MAD, error)
}, tid uint64) []byte {
	b := make([]byte, roce.MADBytes)
	_, _ = m.Put(b, tid) // what can't be said has no bytes
	return b
}

func (t *cmTwin) raise(c *call, e cm.Event) {
	e.ID, e.Parameters = c.id, c.par
	t.events = append(t.events, e)
}

func (t *cmTwin) end(c *call, e cm.Event) {
	if c.ended {
		return
	}
	if c.ended = true; c.closing {
		e = cm.Event{Type: cm.EventDisconnected}
	}
	t.raise(c, e)
}

// transmit sends what waits for an answer.
func (t *cmTwin) transmit(now units.Time, c *call) {
	t.send(c.path, c.sent)
	c.deadline = now + c.every
}

// over keeps a connection for late messages only.
func (t *cmTwin) over(now units.Time, c *call, keep units.Time) {
	t.unwait(c)
	c.contradicts, c.state, c.claimed, c.deadline = nil, cm.TimeWait, false, now+within(keep)
}

func (t *cmTwin) unwait(c *call) {
	t.waiting[c.service] = slices.DeleteFunc(t.waiting[c.service], func(w *call) bool { return w == c })
}

func (t *cmTwin) forget(c *call) {
	t.unwait(c)
	t.calls = slices.DeleteFunc(t.calls, func(x *call) bool { return x == c })
	t.raise(c, cm.Event{Type: cm.EventTimeWaitExit})
}

// drop forgets what a peer asks again for, if it is there.
func (t *cmTwin) drop(c *call) {
	t.end(c, cm.Event{Type: cm.EventUnreachable})
	t.forget(c)
}

func (t *cmTwin) refuse(now units.Time, c *call, r roce.REJ) {
	r.LocalCommID, r.RemoteCommID = c.id, c.remote
	if r.Reason == roce.RejTimeout {
		r.Info = binary.BigEndian.AppendUint64(nil, t.cfg.CAGUID)
	}
	r.InfoLength = uint8(len(r.Info))
	c.answer, c.answered = put(&r, c.tid), true
	t.send(c.path, c.answer)
	t.over(now, c, 2*t.own())
}

// connect is told of Connect.
func (t *cmTwin) connect(now units.Time, id uint32, r *cm.Request) {
	c := t.make(id, r.Path)
	c.active, c.state, c.local, c.tid = true, cm.REQSent, r.Endpoint, t.tidHigh|uint64(id)
	c.req = roce.REQ{
		LocalCommID: id, ServiceID: r.ServiceID, LocalCAGUID: t.cfg.CAGUID, LocalQPN: r.QPN, StartingPSN: r.StartingPSN,
		ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RemoteCMTimeout: t.cfg.RemoteTimeout, LocalCMTimeout: t.cfg.LocalTimeout, MaxCMRetries: t.cfg.MaxRetries,
		FlowControl: r.FlowControl, SRQ: r.SRQ, RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount,
		PKey: roce.DefaultPKey, PathMTU: roce.MTUCode(r.PathMTU), Private: r.Private,
		Primary: roce.CMPath{
			LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: roce.GIDOf(c.path.Local), RemoteGID: roce.GIDOf(c.path.Remote),
			FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, SL: r.SL,
			LocalAckTimeout: timeoutCode(t.cfg.AckDelay, t.cfg.PacketLifetime),
		},
	}
	c.sent = put(&c.req, c.tid)
	c.par = cm.Parameters{
		Path: c.path, QPN: r.QPN, RQPSN: r.StartingPSN, PathMTU: r.PathMTU, RetryCount: r.RetryCount,
		FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, SL: r.SL,
	}
	c.retries, c.every = int(t.cfg.MaxRetries), t.own()
	t.transmit(now, c)
}

func (t *cmTwin) ready(id uint32, private []byte, err error) {
	c := t.may("Ready", err, id, cm.REPReceived)
	if c == nil {
		return
	}
	c.answer = put(&roce.RTU{LocalCommID: id, RemoteCommID: c.remote, Private: private}, c.tid)
	c.state, c.answered = cm.Established, true
	t.send(c.path, c.answer)
}

func (t *cmTwin) hold(id uint32, err error) {
	if c := t.may("Hold", err, id, cm.REQReceived, cm.LookUpReceived); c != nil {
		t.unwait(c)
	}
}

func (t *cmTwin) agreed(c *call, e *cm.Endpoint) cm.Parameters {
	p := c.par
	p.QPN, p.RQPSN = e.QPN, e.StartingPSN
	p.MaxRdAtomic, p.MaxDestRdAtomic = min(p.MaxRdAtomic, e.InitiatorDepth), min(p.MaxDestRdAtomic, e.ResponderResources)
	p.FlowControl = p.FlowControl && e.FlowControl
	return p
}

func (t *cmTwin) offered(id uint32, e *cm.Endpoint, got cm.Parameters, err error) {
	if c := t.may("Offer", err, id, cm.REQReceived); c != nil && got != t.agreed(c, e) {
		t.p.Failf("rule 24: connection %#x offers %+v, expected %+v", id, got, t.agreed(c, e))
	}
}

func (t *cmTwin) accept(now units.Time, id uint32, e *cm.Endpoint, err error) {
	c := t.may("Accept", err, id, cm.REQReceived)
	if c == nil {
		return
	}
	t.unwait(c)
	c.par = t.agreed(c, e)
	c.sent = put(&roce.REP{
		LocalCommID: id, RemoteCommID: c.remote, LocalQPN: e.QPN, StartingPSN: e.StartingPSN,
		ResponderResources: c.par.MaxDestRdAtomic, InitiatorDepth: c.par.MaxRdAtomic,
		TargetAckDelay: t.cfg.AckDelay, FlowControl: e.FlowControl, RNRRetryCount: e.RNRRetryCount, SRQ: e.SRQ,
		LocalCAGUID: t.cfg.CAGUID, Private: e.Private,
	}, c.tid)
	c.local, c.state = *e, cm.REPSent
	lifetime := c.req.Primary.LocalAckTimeout
	if lifetime > 0 {
		lifetime--
	}
	c.retries, c.every = int(min(c.req.MaxCMRetries, t.cfg.MaxRetries)), min(answerIn(c.req.LocalCMTimeout, lifetime), t.own())
	t.transmit(now, c)
}

func (t *cmTwin) reject(now units.Time, id uint32, r roce.REJ, err error) {
	if c := t.may("Reject", err, id, cm.REQReceived, cm.REPReceived); c != nil {
		t.rejects(now, c, r)
	}
}

func (t *cmTwin) rejects(now units.Time, c *call, r roce.REJ) {
	if r.Message = roce.AnswersREQ; c.active {
		r.Message = roce.AnswersREP
	}
	t.refuse(now, c, r)
	c.ended = true
}

func (t *cmTwin) disconnect(now units.Time, id uint32, err error) {
	c := t.find(id)
	if (c != nil) != (err == nil) {
		t.p.Failf("rule 24: Disconnect of connection %#x, which is %v: %v", id, t.state(id), err)
	}
	if c == nil {
		return
	}
	switch c.state {
	case cm.Established:
		t.release(now, c)
	case cm.REPSent:
		c.closing = true
	case cm.REQReceived, cm.REPReceived:
		t.rejects(now, c, roce.REJ{Reason: roce.RejConsumer})
	case cm.REQSent:
		c.ended = true
		t.refuse(now, c, roce.REJ{Message: roce.AnswersNone, Reason: roce.RejTimeout})
	}
}

// release asks the peer to part.
func (t *cmTwin) release(now units.Time, c *call) {
	tid := c.tid
	if !c.active {
		tid = t.tidHigh | uint64(c.id)
	}
	c.sent = put(&roce.DREQ{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: c.par.RemoteQPN}, tid)
	c.state, c.answered, c.contradicts = cm.DREQSent, false, nil
	c.retries, c.every = int(t.cfg.MaxRetries), t.own()
	t.transmit(now, c)
}

func (t *cmTwin) released(now units.Time, c *call, e cm.Event) {
	c.answered = false
	t.over(now, c, power(c.par.Timeout))
	t.end(c, e)
}

func (t *cmTwin) lookUp(now units.Time, id uint32, l *cm.LookUp) {
	c := t.make(id, l.Path)
	c.active, c.state, c.tid = true, cm.LookUpSent, t.tidHigh|uint64(id)
	c.sent = put(&roce.SIDRREQ{RequestID: id, PKey: roce.DefaultPKey, ServiceID: l.ServiceID, Private: l.Private}, c.tid)
	c.par = cm.Parameters{Path: c.path}
	c.retries, c.every = int(t.cfg.MaxRetries), t.own()
	t.transmit(now, c)
}

func (t *cmTwin) answer(now units.Time, id uint32, a *cm.Answer, err error) {
	c := t.may("Answer", err, id, cm.LookUpReceived)
	if c == nil {
		return
	}
	c.answer = put(&roce.SIDRREP{RequestID: c.remote, Status: a.Status, QPN: a.QPN, ServiceID: c.service, QKey: a.QKey, Private: a.Private}, c.tid)
	c.answered, c.ended = true, true
	t.send(c.path, c.answer)
	t.over(now, c, 2*t.own())
}

// expire does what time demands, in the order of the deadlines.
func (t *cmTwin) expire(now units.Time) {
	for {
		var c *call
		for _, x := range t.calls {
			if x.deadline <= now && (c == nil || x.deadline < c.deadline) {
				c = x
			}
		}
		if c == nil {
			return
		}
		c.deadline = units.Never
		switch {
		case c.state == cm.TimeWait:
			t.forget(c)
		case c.state == cm.REQReceived, c.state == cm.LookUpReceived:
			t.drop(c)
		case c.contradicts != nil:
			t.restarted(now, c)
		case c.retries > 0:
			c.retries--
			t.counters.Retransmitted++
			t.transmit(now, c)
		case c.state == cm.DREQSent:
			t.released(now, c, cm.Event{Type: cm.EventDisconnected})
		case c.state == cm.LookUpSent:
			t.drop(c)
		default:
			t.refuse(now, c, roce.REJ{Message: roce.AnswersNone, Reason: roce.RejTimeout})
			t.end(c, cm.Event{Type: cm.EventUnreachable})
		}
	}
}

// decoded reports whether a message could be read.
func (t *cmTwin) decoded(err error) bool {
	var bad roce.Malformed
	if errors.As(err, &bad) {
		t.counters.Malformed[bad]++
	}
	return err == nil
}

// receive takes a message that has arrived. made are the IDs of the connections that the real one
// has made of it.
func (t *cmTwin) receive(now units.Time, path cm.Path, b []byte, made func() uint32) {
	mad, err := roce.ParseMAD(b)
	if !t.decoded(err) {
		return
	}
	path = normal(path)
	t.counters.Received[mad.Attribute()-roce.AttrREQ]++
	switch mad.Attribute() {
	case roce.AttrREQ:
		t.receiveREQ(now, path, mad, made)
	case roce.AttrREP:
		t.receiveREP(now, path, mad)
	case roce.AttrRTU:
		t.receiveRTU(now, path, mad)
	case roce.AttrDREQ:
		t.receiveDREQ(now, path, mad)
	case roce.AttrDREP:
		t.receiveDREP(now, path, mad)
	case roce.AttrMRA:
		t.receiveMRA(now, path, mad)
	case roce.AttrREJ:
		t.receiveREJ(now, path, mad)
	case roce.AttrSIDRREQ:
		t.receiveSIDRREQ(now, path, mad, made)
	case roce.AttrSIDRREP:
		t.receiveSIDRREP(path, mad)
	}
}

// match finds whom a message is for. ok is false if it is for a connection with another.
func (t *cmTwin) match(path cm.Path, mad roce.MAD) (c *call, ok bool) {
	c = t.find(mad.RemoteCommID())
	switch {
	case c == nil || c.remote != 0 && c.remote != mad.LocalCommID():
		return nil, true
	case c.path != path:
		t.counters.WrongSource++
		return nil, false
	}
	return c, true
}

// passive finds the connection that a request of a peer's has made.
func (t *cmTwin) passive(path cm.Path, guid uint64, id uint32, lookUp bool) *call {
	for _, c := range t.calls {
		if !c.active && c.path.Remote == path.Remote && c.guid == guid && c.remote == id && c.lookUp == lookUp {
			return c
		}
	}
	return nil
}

// owner finds the connection that has a peer's queue pair.
func (t *cmTwin) owner(path cm.Path, guid uint64, qpn uint32) *call {
	for _, c := range t.calls {
		if c.claimed && c.path.Remote == path.Remote && c.guid == guid && c.par.RemoteQPN == qpn {
			return c
		}
	}
	return nil
}

func (t *cmTwin) refuseREQ(path cm.Path, mad roce.MAD, reason roce.RejectReason, info []byte) {
	t.send(path, put(&roce.REJ{RemoteCommID: mad.LocalCommID(), Message: roce.AnswersREQ, Reason: reason, Info: info, InfoLength: uint8(len(info))}, mad.TransactionID()))
}

func (t *cmTwin) unknown(path cm.Path, mad roce.MAD, message uint8) {
	t.counters.Unmatched++
	t.send(path, put(&roce.REJ{LocalCommID: mad.RemoteCommID(), RemoteCommID: mad.LocalCommID(), Message: message, Reason: roce.RejInvalidCommID}, mad.TransactionID()))
}

func (t *cmTwin) wait(c *call, message uint8) {
	t.send(c.path, put(&roce.MRA{LocalCommID: c.id, RemoteCommID: c.remote, Message: message, ServiceTimeout: t.cfg.ServiceTimeout}, c.tid))
}

// room makes a place at a listener, and reports whether it has one.
func (t *cmTwin) room(path cm.Path, service uint64) {
	all := t.waiting[service]
	if len(all) < backlogs {
		return
	}
	t.counters.Backlog++
	var b backlog
	for _, c := range all {
		b = append(b, waiter{c.id, c.path.Remote})
	}
	if c := t.find(b.victim(path.Remote)); c != nil {
		t.drop(c)
	}
}

func (t *cmTwin) listens(s uint64) bool { return s == service || s == lookUpService }

func (t *cmTwin) receiveREQ(now units.Time, path cm.Path, mad roce.MAD, made func() uint32) {
	var r roce.REQ
	if !t.decoded(r.Decode(mad)) {
		return
	}
	switch {
	case r.Primary.LocalGID.Addr() != path.Remote:
		t.counters.WrongSource++
		return
	case r.LocalQPN < 2:
		t.counters.BadField++
		return
	}
	old := t.passive(path, r.LocalCAGUID, r.LocalCommID, false)
	if old != nil {
		t.counters.Duplicates++
		if old.path == path && old.req.LocalQPN == r.LocalQPN && old.req.StartingPSN == r.StartingPSN && old.req.ServiceID == r.ServiceID {
			switch {
			case old.state == cm.REQReceived:
				t.wait(old, roce.AnswersREQ)
				old.deadline = now + within(power(t.cfg.ServiceTimeout))
			case old.state == cm.REPSent:
				t.send(old.path, old.sent)
			case old.state == cm.TimeWait && old.answered:
				t.send(old.path, old.answer)
			}
			return
		}
	} else if old = t.owner(path, r.LocalCAGUID, r.LocalQPN); old != nil {
		t.counters.Stale++
	}
	mtu, gid := roce.MTUOf(r.PathMTU), roce.GIDOf(path.Local)
	switch {
	case t.listens(r.ServiceID) && old != nil:
		t.contradicted(now, old, path, mad)
	case !t.listens(r.ServiceID):
		t.counters.NoListener++
		t.refuseREQ(path, mad, roce.RejInvalidServiceID, nil)
	case r.TransportType != roce.TransportRC:
		t.refuseREQ(path, mad, roce.RejInvalidTransport, nil)
	case r.Primary.RemoteGID.Addr() != path.Local:
		t.refuseREQ(path, mad, roce.RejInvalidGID, gid[:])
	case mtu == 0 || mtu > t.cfg.MTU:
		t.refuseREQ(path, mad, roce.RejInvalidMTU, []byte{roce.MTUCode(t.cfg.MTU)})
	default:
		t.room(path, r.ServiceID)
		t.requested(now, path, mad, &r, made())
	}
}

// contradicted asks the peer of an established connection whether it has begun anew, if it was the
// one that asked for it; it is believed of others.
func (t *cmTwin) contradicted(now units.Time, c *call, path cm.Path, mad roce.MAD) {
	asked := c.contradicts != nil
	c.contradicts, c.contradictsOn = bytes.Clone(mad), path
	switch {
	case c.state != cm.Established || c.active:
		t.restarted(now, c)
	case !asked:
		t.counters.Probed++
		t.send(c.path, c.sent)
		c.deadline = now + probeTime
	}
}

func (t *cmTwin) restarted(now units.Time, c *call) {
	t.refuseREQ(c.contradictsOn, c.contradicts, roce.RejStaleConnection, nil)
	c.contradicts = nil
	t.stale(now, c)
}

func (t *cmTwin) stale(now units.Time, c *call) {
	if c.state == cm.Established {
		t.release(now, c)
		t.end(c, cm.Event{Type: cm.EventDisconnected, Reason: roce.RejStaleConnection})
	}
}

func (t *cmTwin) requested(now units.Time, path cm.Path, mad roce.MAD, r *roce.REQ, id uint32) {
	c := t.make(id, path)
	c.state, c.remote, c.guid, c.tid, c.service, c.claimed = cm.REQReceived, r.LocalCommID, r.LocalCAGUID, mad.TransactionID(), r.ServiceID, true
	c.req = *r
	c.par = cm.Parameters{
		Path: path, RemoteQPN: r.LocalQPN, SQPSN: r.StartingPSN, PathMTU: roce.MTUOf(r.PathMTU),
		MaxRdAtomic: r.ResponderResources, MaxDestRdAtomic: r.InitiatorDepth,
		Timeout: r.Primary.LocalAckTimeout, RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount,
		FlowControl: r.FlowControl, RemoteSRQ: r.SRQ, FlowLabel: r.Primary.FlowLabel,
		TrafficClass: r.Primary.TrafficClass, HopLimit: r.Primary.HopLimit, SL: r.Primary.SL,
	}
	if c.par.Timeout == 0 {
		c.par.Timeout = timeoutCode(t.cfg.AckDelay, t.cfg.PacketLifetime)
	}
	t.waiting[c.service] = append(t.waiting[c.service], c)
	c.deadline = now + within(power(t.cfg.ServiceTimeout))
	t.raise(c, cm.Event{Type: cm.EventRequest, ServiceID: r.ServiceID, Private: bytes.Clone(r.Private)})
}

func (t *cmTwin) receiveREP(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.REP
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		t.unknown(path, mad, roce.AnswersREP)
	case !c.active:
		t.counters.WrongState++
	case c.state == cm.REQSent:
		t.replied(now, c, &r)
	case c.state == cm.REPReceived:
		t.counters.Duplicates++
		t.wait(c, roce.AnswersREP)
	case c.state == cm.Established, c.state == cm.TimeWait && c.answered && c.remote != 0:
		t.counters.Duplicates++
		t.send(c.path, c.answer)
	case c.state == cm.TimeWait:
		t.unknown(path, mad, roce.AnswersREP)
	default:
		t.counters.WrongState++
	}
}

func (t *cmTwin) replied(now units.Time, c *call, r *roce.REP) {
	if r.LocalQPN < 2 {
		t.counters.BadField++
		return
	}
	old := t.owner(c.path, r.LocalCAGUID, r.LocalQPN)
	c.remote, c.guid = r.LocalCommID, r.LocalCAGUID
	c.par.RemoteQPN, c.par.SQPSN = r.LocalQPN, r.StartingPSN
	if old != nil {
		t.counters.Stale++
		t.refuse(now, c, roce.REJ{Message: roce.AnswersREP, Reason: roce.RejStaleConnection})
		t.end(c, cm.Event{Type: cm.EventRejected, Reason: roce.RejStaleConnection})
		t.stale(now, old)
		return
	}
	c.par.MaxRdAtomic, c.par.MaxDestRdAtomic = min(c.local.InitiatorDepth, r.ResponderResources), min(c.local.ResponderResources, r.InitiatorDepth)
	c.par.Timeout, c.par.RNRRetryCount = timeoutCode(r.TargetAckDelay, t.cfg.PacketLifetime), r.RNRRetryCount
	c.par.FlowControl, c.par.RemoteSRQ = c.local.FlowControl && r.FlowControl, r.SRQ
	c.state, c.claimed, c.deadline = cm.REPReceived, true, units.Never
	t.raise(c, cm.Event{Type: cm.EventReply, Private: bytes.Clone(r.Private)})
}

func (t *cmTwin) receiveRTU(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.RTU
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		t.unknown(path, mad, roce.AnswersNone)
	case c.active:
		t.counters.WrongState++
	case c.state == cm.REPSent:
		if c.state, c.deadline = cm.Established, units.Never; c.closing {
			t.release(now, c)
			return
		}
		t.raise(c, cm.Event{Type: cm.EventEstablished, Private: bytes.Clone(r.Private)})
	case c.contradicts != nil: // it is there
		t.counters.Forged++
		c.contradicts, c.deadline = nil, units.Never
	case c.state == cm.TimeWait && c.answered:
		t.counters.Duplicates++
		t.send(c.path, c.answer)
	case c.state == cm.REQReceived:
		t.counters.WrongState++
	default:
		t.counters.Duplicates++
	}
}

func (t *cmTwin) receiveMRA(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.MRA
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		t.counters.Unmatched++
	case c.state == cm.REQSent && r.Message == roce.AnswersREQ, c.state == cm.REPSent && r.Message == roce.AnswersREP:
		c.remote = r.LocalCommID
		c.deadline = max(c.deadline, now+answerIn(r.ServiceTimeout, t.cfg.PacketLifetime))
	default:
		t.counters.WrongState++
	}
}

func (t *cmTwin) receiveREJ(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.REJ
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.find(mad.RemoteCommID()), true
	switch {
	case c != nil && c.state == cm.REQSent && c.path == path:
	case r.Reason == roce.RejTimeout && r.RemoteCommID == 0 && r.InfoLength >= 8:
		c = t.passive(path, binary.BigEndian.Uint64(r.Info), r.LocalCommID, false)
	default:
		c, ok = t.match(path, mad)
	}
	if !ok {
		return
	}
	if c == nil {
		t.counters.Unmatched++
		return
	}
	e := cm.Event{Type: cm.EventRejected, Reason: r.Reason, Private: bytes.Clone(r.Private), Info: bytes.Clone(r.Info[:min(int(r.InfoLength), len(r.Info))])}
	switch c.state {
	case cm.REQSent, cm.REPReceived, cm.REQReceived, cm.REPSent:
	case cm.Established, cm.DREQSent:
		e = cm.Event{Type: cm.EventDisconnected, Reason: r.Reason}
	default:
		t.counters.WrongState++
		return
	}
	t.released(now, c, e)
}

func (t *cmTwin) receiveDREQ(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.DREQ
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.match(path, mad)
	if !ok {
		return
	}
	reply := func() {
		t.send(path, put(&roce.DREP{LocalCommID: r.RemoteCommID, RemoteCommID: r.LocalCommID}, mad.TransactionID()))
	}
	switch {
	case c == nil:
		t.counters.Unmatched++
		reply()
	case r.RemoteQPN != c.par.QPN:
		t.counters.BadField++
	case c.state == cm.TimeWait:
		t.counters.Duplicates++
		reply()
	case c.state == cm.Established || c.state == cm.REPSent || c.state == cm.DREQSent:
		reply()
		t.released(now, c, cm.Event{Type: cm.EventDisconnected, Private: bytes.Clone(r.Private)})
	default:
		t.counters.WrongState++
	}
}

func (t *cmTwin) receiveDREP(now units.Time, path cm.Path, mad roce.MAD) {
	var r roce.DREP
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c, ok := t.match(path, mad)
	switch {
	case !ok:
	case c == nil:
		t.counters.Unmatched++
	case c.state == cm.DREQSent:
		t.released(now, c, cm.Event{Type: cm.EventDisconnected})
	case c.state == cm.TimeWait:
		t.counters.Duplicates++
	default:
		t.counters.WrongState++
	}
}

func (t *cmTwin) receiveSIDRREQ(now units.Time, path cm.Path, mad roce.MAD, made func() uint32) {
	var r roce.SIDRREQ
	if !t.decoded(r.Decode(mad)) {
		return
	}
	if old := t.passive(path, 0, r.RequestID, true); old != nil && old.path == path {
		t.counters.Duplicates++
		if old.answered {
			t.send(path, old.answer)
		}
		return
	}
	if !t.listens(r.ServiceID) {
		t.counters.NoListener++
		t.send(path, put(&roce.SIDRREP{RequestID: r.RequestID, Status: roce.SIDRUnsupported, ServiceID: r.ServiceID}, mad.TransactionID()))
		return
	}
	t.room(path, r.ServiceID)
	c := t.make(made(), path)
	c.lookUp, c.state, c.remote, c.tid, c.service = true, cm.LookUpReceived, r.RequestID, mad.TransactionID(), r.ServiceID
	c.par = cm.Parameters{Path: path}
	t.waiting[c.service] = append(t.waiting[c.service], c)
	c.deadline = now + within(power(t.cfg.ServiceTimeout))
	t.raise(c, cm.Event{Type: cm.EventLookUp, ServiceID: r.ServiceID, Private: bytes.Clone(r.Private)})
}

func (t *cmTwin) receiveSIDRREP(path cm.Path, mad roce.MAD) {
	var r roce.SIDRREP
	if !t.decoded(r.Decode(mad)) {
		return
	}
	c := t.find(r.RequestID)
	switch {
	case c == nil || c.state != cm.LookUpSent:
		t.counters.Unmatched++
	case c.path != path || c.tid != mad.TransactionID():
		t.counters.WrongSource++
	default:
		t.end(c, cm.Event{Type: cm.EventFound, Answer: cm.Answer{Status: r.Status, QPN: r.QPN, QKey: r.QKey}, Private: bytes.Clone(r.Private)})
		t.forget(c)
	}
}

// sends holds a message that the real one sends against what must be sent.
func (t *cmTwin) sends(o *cm.Outgoing) {
	a := roce.MAD(o.MAD[:]).Attribute()
	if len(t.out) == 0 {
		t.p.Failf("rule 24: %v is sent to %v, and nothing is due", a, o.Path.Remote)
		return
	}
	want := t.out[0]
	t.out = t.out[1:]
	if *o != want {
		t.p.Failf("rule 24: %v is sent on %v: %x, expected %v on %v: %x", a, o.Path, o.MAD, roce.MAD(want.MAD[:]).Attribute(), want.Path, want.MAD)
	}
}

// happens holds an event of the real one against the one that must come.
func (t *cmTwin) happens(e *cm.Event) {
	if len(t.events) == 0 {
		t.p.Failf("rule 24: connection %#x has the event %v, and none is due", e.ID, e.Type)
		return
	}
	want := t.events[0]
	t.events = t.events[1:]
	if e.Type != want.Type || e.ID != want.ID || e.ServiceID != want.ServiceID || e.Reason != want.Reason || e.Parameters != want.Parameters ||
		!bytes.Equal(e.Private, want.Private) || !bytes.Equal(e.Info, want.Info) ||
		e.Answer.Status != want.Answer.Status || e.Answer.QPN != want.Answer.QPN || e.Answer.QKey != want.Answer.QKey {
		t.p.Failf("rule 24: the event %+v comes, expected %+v", *e, want)
	}
}

// quiet holds the real one, all of whose messages and events were taken, against what is left.
func (t *cmTwin) quiet() {
	switch {
	case len(t.out) > 0:
		t.p.Failf("rule 24: %v is due to %v, and is not sent", roce.MAD(t.out[0].MAD[:]).Attribute(), t.out[0].Path.Remote)
	case len(t.events) > 0:
		t.p.Failf("rule 24: the event %+v does not come", t.events[0])
	case t.core.Counters != t.counters:
		t.p.Failf("rule 24: the connection manager counts %+v, expected %+v", t.core.Counters, t.counters)
	case t.core.Connections() != len(t.calls):
		t.p.Failf("rule 24: the connection manager has %d connections, expected %d", t.core.Connections(), len(t.calls))
	}
	next := units.Never
	for _, c := range t.calls {
		next = min(next, c.deadline)
		if got := t.core.State(c.id); got != c.state {
			t.p.Failf("rule 24: connection %#x is %v, expected %v", c.id, got, c.state)
		}
	}
	if got := t.core.Deadline(); got != next {
		t.p.Failf("rule 24: the connection manager is to be called at %v, expected %v", got, next)
	}
}

// manager is a connection manager with its twin.
type manager struct {
	*cm.Manager
	twin   *cmTwin
	events []cm.Event
}

// newManager makes the twin of a connection manager, which has read its random number first.
func newManager(p *Process, core *cm.Manager, c cm.Config, first []byte) *manager {
	return &manager{Manager: core, twin: &cmTwin{p: p, cfg: c, core: core, tidHigh: uint64(binary.BigEndian.Uint32(first)) << 32, waiting: map[uint64][]*call{}}}
}

// take takes the events of the real one.
func (m *manager) take() {
	var e cm.Event
	for m.Manager.NextEvent(&e) {
		m.events = append(m.events, e)
	}
}

// NextMAD takes the next message.
func (m *manager) NextMAD(o *cm.Outgoing) bool {
	ok := m.Manager.NextMAD(o)
	if ok {
		m.twin.sends(o)
	}
	return ok
}

// NextEvent takes the next event.
func (m *manager) NextEvent(e *cm.Event) bool {
	if m.take(); len(m.events) == 0 {
		return false
	}
	*e, m.events = m.events[0], m.events[1:]
	m.twin.happens(e)
	return true
}

// Receive is of a message.
func (m *manager) Receive(now units.Time, path cm.Path, b []byte) {
	m.take()
	had := len(m.events)
	m.Manager.Receive(now, path, b)
	m.take()
	m.twin.receive(now, path, b, func() uint32 {
		for _, e := range m.events[had:] {
			if e.Type == cm.EventRequest || e.Type == cm.EventLookUp {
				return e.ID
			}
		}
		return 0
	})
}

// Expire is of the time.
func (m *manager) Expire(now units.Time) {
	m.Manager.Expire(now)
	m.twin.expire(now)
}

// Connect asks for a connection.
func (m *manager) Connect(now units.Time, r cm.Request) (uint32, error) {
	private := bytes.Clone(r.Private)
	id, err := m.Manager.Connect(now, r)
	if err == nil {
		r.Private = private
		m.twin.connect(now, id, &r)
	}
	return id, err
}

// Hold takes a request.
func (m *manager) Hold(now units.Time, id uint32) error {
	err := m.Manager.Hold(now, id)
	m.twin.hold(id, err)
	return err
}

// Offer says what would be agreed on.
func (m *manager) Offer(id uint32, e cm.Endpoint) (cm.Parameters, error) {
	p, err := m.Manager.Offer(id, e)
	m.twin.offered(id, &e, p, err)
	return p, err
}

// Accept accepts a request.
func (m *manager) Accept(now units.Time, id uint32, e cm.Endpoint) (cm.Parameters, error) {
	p, err := m.Manager.Accept(now, id, e)
	m.twin.accept(now, id, &e, err)
	return p, err
}

// Ready establishes a connection.
func (m *manager) Ready(now units.Time, id uint32, private []byte) error {
	err := m.Manager.Ready(now, id, private)
	m.twin.ready(id, private, err)
	return err
}

// Reject refuses a connection.
func (m *manager) Reject(now units.Time, id uint32, reason roce.RejectReason, info, private []byte) error {
	err := m.Manager.Reject(now, id, reason, info, private)
	m.twin.reject(now, id, roce.REJ{Reason: reason, Info: info, Private: private}, err)
	return err
}

// Disconnect releases a connection.
func (m *manager) Disconnect(now units.Time, id uint32) error {
	err := m.Manager.Disconnect(now, id, nil)
	m.twin.disconnect(now, id, err)
	return err
}

// LookUp looks a service up.
func (m *manager) LookUp(now units.Time, l cm.LookUp) (uint32, error) {
	id, err := m.Manager.LookUp(now, l)
	if err == nil {
		m.twin.lookUp(now, id, &l)
	}
	return id, err
}

// Answer answers a look-up.
func (m *manager) Answer(now units.Time, id uint32, a cm.Answer) error {
	err := m.Manager.Answer(now, id, a)
	m.twin.answer(now, id, &a, err)
	return err
}
