package reduced

import (
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// sender is a flow at its source.
type sender struct {
	qp          *rc.QP // nil where there is none
	next        units.Time
	paceFrom    units.Time // where the pace's last gap began
	paceBytes   int32      // and what it is for
	fetch       units.Time // from a packet's choice until it is before the wire
	from        units.Time // when the first packet since the flow joined the queue is
	place       int32      // in its queue, from 1
	dst         int32
	peer        uint32 // the receiver
	hash        uint32 // the entropy of its first path
	gen         uint8
	priority    uint8
	own         uint8 // the priority where the engine chooses none
	kept        bool  // a connection
	answers     bool  // the responder of a flow of READs
	ackPriority uint8 // its
	notify      bool  // whose messages carry immediate data
	packetFlags fabric.Flags
	telemetry   telemetry.Kind

	id            uint64
	sent, acked   units.Bytes
	size, message units.Bytes
	posted        units.Bytes
	stop          units.Time
	outstanding   int32 // messages
	depth         int32
	cnps          uint64   // congestion notification packets received
	read          *reading // a requester's of READs, or nil

	// Without an engine it is nil, and the flow has the line rate and no window: so
	// its state is two cache lines, not six.
	steering *cc.Driver
}

// catchUp bounds the lost start that a pace makes up for, as in nicmodel.
const catchUp = units.Microsecond

// A packet's transport header is in its User: the opcode and AckReq, the PSN, and
// either what a request's receiver must know, the length of the message (First,
// Only) or of the payload (Middle, Last), or an acknowledgement's syndrome and MSN.
const (
	opcodeBits = 0x7f
	ackReq     = 0x80
)

// post posts messages as long as there are some and few are under way.
func (n *nic) post(now units.Time, s *sender) {
	for s.outstanding < s.depth {
		m := s.message
		if s.size > 0 {
			m = min(m, s.size-s.posted)
		} else if now >= s.stop {
			m = 0
		}
		if m == 0 {
			return
		}
		// There is room: depth is that of the queue.
		_, _ = s.qp.PostSend(&rc.Request{Op: s.operation(), Signaled: true, Length: uint32(m)})
		s.posted += m
		s.outstanding++
	}
}

// operation is that of its messages.
func (s *sender) operation() ib.WROpcode {
	switch {
	case s.read != nil:
		return ib.WRRDMARead
	case s.notify:
		return ib.WRRDMAWriteWithImm
	}
	return ib.WRRDMAWrite
}

// ready reports whether transport and window let a packet go.
func (s *sender) ready(now units.Time) bool {
	if s.answers {
		return s.qp.ResponseReady()
	}
	bytes, ok := s.qp.PeekRequest(now)
	if !ok {
		return false
	}
	c := s.steering
	if c == nil {
		return true
	}
	out := s.qp.Inflight()
	if out > 0 && c.Turns() {
		return false // the next packet takes another path, when these have arrived
	}
	if c.Fits(out, units.Bytes(bytes)) || !s.qp.AnswerDue() && c.MayAsk() {
		return true
	}
	c.Shut()
	return false
}

// offer puts a flow in line if it has a packet that may go.
func (n *nic) offer(now units.Time, slot uint32, s *sender) {
	if s.place == 0 && s.ready(now) {
		s.from = max(s.next, now) + max(s.fetch, n.chosen(now, s.answers))
		n.push(slot, s.due(now))
	}
}

// due returns when the flow's next packet may be on the wire.
func (s *sender) due(now units.Time) units.Time { return max(s.next+s.fetch, s.from, now) }

// chosen returns the wire time of the packets that a NIC has chosen before a flow that joins
// the queue now: packets that other flows may send, up to TxPackets of requests and as many of
// responses, which take turns on the wire.
func (n *nic) chosen(now units.Time, answers bool) units.Time {
	most := n.fleet.cfg.TxPackets
	if most == 0 || len(n.due.requests)+len(n.due.responses) == 0 {
		return 0
	}
	var requests, responses int
	mtu := n.fleet.cfg.MTU
	for i := 0; i < len(n.due.requests) && requests < most; i++ {
		e := &n.due.requests[i]
		if e.at > now {
			continue
		}
		requests++
		s := &n.senders[e.sender]
		if c := s.control(n.line); c.Rate >= n.line {
			more := min(c.Window-s.qp.Inflight(), s.posted-s.sent)
			requests = min(requests+int(max(0, more-mtu)/mtu), most)
		}
	}
	for i := 0; i < len(n.due.responses) && responses < most; i++ {
		if e := &n.due.responses[i]; e.at <= now {
			responses = min(responses+n.senders[e.sender].qp.ResponsesLeft(most), most)
		}
	}
	before, between := requests, responses
	if answers {
		before, between = between, before
	}
	return n.line.Serialize(units.Bytes(before+min(before, between)) * nicmodel.FrameBytes(ib.WriteMiddle, int(mtu)))
}

// send sends a packet of the flow that is first in line.
func (n *nic) send(l *lane, now units.Time, slot uint32, s *sender) {
	if s.answers {
		n.respond(l, now, slot, s)
		return
	}
	d := &l.desc
	c := s.steering
	if c != nil {
		s.qp.BoundInflight(c.Control().Window)
	}
	out := s.qp.Inflight()
	if !s.ready(now) || !s.qp.NextRequest(now, d) { // the window has shrunk, or the transport waits
		n.remove(slot)
		return
	}
	hash := s.hash
	if c != nil {
		hash = cc.PathHash(hash, c.Path(out, d.Header.AckReq))
	}
	h := l.Alloc()
	p := l.Packet(h)
	op := d.Header.Opcode
	value, bytes := uint32(d.Payload), units.Bytes(d.Payload)+units.Bytes(d.Expect)
	if op == ib.WriteFirst || op == ib.ReadRequest {
		value = d.Header.DMALen
	}
	p.User = uint64(op) | uint64(d.Header.PSN)<<8 | uint64(value)<<32
	if d.Header.AckReq {
		p.User |= ackReq
	}
	onWire := max(now, n.wireFree) + n.fleet.cfg.Wire
	p.Src, p.Note, p.Notes[0] = n.host, s.peer, uint64(onWire)
	if s.read != nil {
		p.Notes[1] = d.Header.VA
		s.read.Requested(onWire, d)
		s.read.size = bytes
	}
	l.stats.TxPackets++
	n.wireFree = l.Transmit(now, int(n.host), h, &fabric.Frame{
		Size: int32(nicmodel.FrameBytes(op, d.Payload) + n.fleet.net.TelemetryBytes(s.telemetry, 0)), Dst: s.dst, FlowHash: hash,
		Priority: s.priority, Flags: s.packetFlags, Telemetry: s.telemetry,
	})
	n.dataFree, n.answers = n.wireFree, !n.answers

	if !d.Retransmit {
		s.sent += bytes
		if c != nil {
			c.Sent(now, bytes)
		}
	}
	s.paceFrom, s.paceBytes = max(s.next, now-catchUp), int32(bytes)
	s.pace(n.line)
	n.arm(now, s.qp.Deadline())
	if s.ready(now) {
		n.push(slot, s.due(now))
	} else {
		n.remove(slot)
	}
}

// pace sets when the next packet may go, from the last and the rate.
func (s *sender) pace(line units.Rate) {
	s.next = s.paceFrom
	if s.steering == nil {
		return
	}
	if rate := s.steering.Control().Rate; rate < line {
		s.next += rate.Serialize(units.Bytes(s.paceBytes))
	}
}

// control is the current Control of a flow from a port of that line rate.
func (s *sender) control(line units.Rate) cc.Control {
	if s.steering == nil {
		return cc.Control{Rate: line, Window: cc.Unlimited}
	}
	return s.steering.Control()
}

// steer applies an engine's Control.
func (n *nic) steer(now units.Time, slot uint32, s *sender, c cc.Control) {
	change := s.steering.Apply(c)
	if change&cc.ChangedDown != 0 {
		n.cuts++
	}
	if priority := n.fleet.priority(c, s.own); priority != s.priority {
		waits := s.place != 0
		n.remove(slot)
		s.priority = priority
		if waits {
			n.push(slot, s.due(now))
		}
	}
	if change&cc.ChangedRate == 0 {
		return
	}
	s.pace(n.line)
	if s.place != 0 {
		n.push(slot, s.due(now))
	}
}

// acknowledged takes an acknowledgement.
func (n *nic) acknowledged(l *lane, now units.Time, h fabric.Handle, p *fabric.Packet, f *fabric.Frame) {
	s := n.sender(p.Note)
	if s == nil {
		l.stats.Stale++
		l.Free(h)
		return
	}
	l.header = rc.Header{
		Opcode: ib.Acknowledge, PSN: units.MakePSN(uint32(p.User) >> 8),
		Syndrome: uint8(p.User >> 32), MSN: uint32(p.User >> 40),
	}
	slot := slotOf(p.Note)
	s.qp.Receive(now, &l.header, 0, &l.eff)
	s.acked += l.eff.AckedBytes
	if s.steering != nil && s.read == nil && l.eff.AckedBytes > 0 {
		n.inform(l, now, slot, s, h, p, f)
	}
	l.Free(h)
	n.effects(l, now, slot, s)
	n.turn(l, now)
}

// inform passes an acknowledgement to the engine.
func (n *nic) inform(l *lane, now units.Time, slot uint32, s *sender, h fabric.Handle, p *fabric.Packet, f *fabric.Frame) {
	fl := n.fleet
	sentAt, met := units.Time(p.Notes[0]), uint8(p.Notes[1])
	rtt := now - sentAt
	a := &l.ack
	*a = cc.Ack{
		Now: now, SentAt: sentAt, RTT: rtt,
		NetRTT: rtt - n.line.Serialize(fl.cfg.MTU),
		Bytes:  l.eff.AckedBytes, Packets: max(l.eff.AckedPackets, 1),
		Acked: s.acked, Sent: s.sent,
		Hops: f.Hops, ECN: met&metCE != 0, EIN: met&metEIN != 0, Circuit: met&metCircuit != 0,
		MaxHopDelay: units.Time(p.Notes[1] >> metBits), ReverseMaxHopDelay: f.MaxDelay, HasMaxDelay: met&hasDelay != 0,
	}
	n.steer(now, slot, s, n.give(l, s, h, f, a))
}

// give completes an acknowledgement that came with a packet, and returns what the engine
// answers.
func (n *nic) give(l *lane, s *sender, h fabric.Handle, f *fabric.Frame, a *cc.Ack) cc.Control {
	s.steering.Complete(a, s.qp.Inflight())
	if path := l.INT(h, f); path != nil && path.N > 0 {
		a.Path = path
	}
	if fl := n.fleet; fl.onAck != nil {
		fl.onAck(l.Index(), s.id, a)
	}
	return s.steering.Engine().OnAck(a)
}

// effects carries out what the transport of a sender asks for in lane.eff.
func (n *nic) effects(l *lane, now units.Time, slot uint32, s *sender) {
	eff := &l.eff
	if eff.Rewind != rc.RewindNone && s.steering != nil {
		e, ok := s.steering.Engine().(cc.Restarted)
		switch {
		case eff.Rewind == rc.RewindNotReady:
		case ok && n.fleet.cfg.Transport.SlowRestart:
			c, _ := e.SlowRestart(now)
			n.steer(now, slot, s, c)
		case eff.Rewind == rc.RewindSequence, eff.Rewind == rc.RewindImplied:
			n.steer(now, slot, s, s.steering.Engine().OnLoss(now))
		default:
			n.steer(now, slot, s, s.steering.Engine().OnTimeout(now))
		}
	}
	if eff.Do&rc.DoComplete != 0 && n.reap(l, now, slot, s) {
		return
	}
	n.offer(now, slot, s)
	n.arm(now, s.qp.Deadline())
}

// reap takes completions, posts what follows, and reports whether the flow has
// ended.
func (n *nic) reap(l *lane, now units.Time, slot uint32, s *sender) (ended bool) {
	var c rc.SendCompletion
	finished := false
	for s.qp.PollSend(&c) {
		s.outstanding--
		finished = true
		if c.Status != ib.WCSuccess {
			if s.kept {
				n.forget(slot<<generationBits | uint32(s.gen))
			}
			n.end(l, now, slot, s, c.Status)
			return true
		}
		if s.kept {
			n.learn(l, now, Message{ID: s.id, Tag: c.ID})
		}
	}
	if !finished || s.kept {
		return false
	}
	n.post(now, s)
	if s.outstanding == 0 {
		n.end(l, now, slot, s, ib.WCSuccess)
		return true
	}
	return false
}

// end takes a flow down at its sender, and says so.
func (n *nic) end(l *lane, now units.Time, slot uint32, s *sender, status ib.WCStatus) {
	fl := n.fleet
	e := ending{
		Done: Done{ID: s.id, At: now + fl.cfg.Completion, Status: status, Counters: s.qp.Counters(), CNPs: s.cnps},
		src:  n.host, dst: s.dst, receiver: s.peer, read: s.read != nil,
	}
	if s.read != nil {
		e.Delivered = s.read.delivered
	}
	n.remove(slot)
	*s = sender{gen: s.gen}
	n.freeSenders = append(n.freeSenders, slot)
	i := slices.Index(n.begun, slot)
	n.begun = slices.Delete(n.begun, i, i+1)
	l.ended = append(l.ended, e)
	l.Settle()
}
