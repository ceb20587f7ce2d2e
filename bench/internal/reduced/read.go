package reduced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// A flow of READs is a sender at either end: the requester, at Dst, whose packets are
// requests, and which an engine steers as nicmodel's pull does; and the responder, at Src,
// which is in line for the wire while it has responses to send.

// reading is a requester's state beside a sender's.
type reading struct {
	nicmodel.ReadTimes
	delivered   nicmodel.Delivered
	size        units.Bytes // that the newest request asks for
	cnpInterval units.Time
	cnpAfter    units.Time // when the engine may next hear of a mark as of a notification
}

// endsOfRead makes the transports of the flow of READs of that number.
func (f *Fleet) endsOfRead(number uint32, depth int, steered bool) (requester, responder *rc.QP, err error) {
	ask := rc.Config{MTU: f.cfg.MTU, SendDepth: depth}
	answer := rc.Config{MTU: f.cfg.MTU, SendDepth: 1, Access: ib.AccessRemoteRead, MaxDestRdAtomic: f.cfg.MaxRdAtomic}
	send := rc.SendConfig{Timeout: f.cfg.Timeout, RetryCount: f.cfg.RetryCount, MaxRdAtomic: f.cfg.MaxRdAtomic}
	if steered {
		send.ReadPackets = nicmodel.ReadPackets(f.cfg.MTU)
	}
	f.cfg.Transport.SetSend(&send, number)
	f.cfg.Transport.Set(&ask)
	f.cfg.Transport.Set(&answer)
	if requester, err = rc.New(ask); err != nil {
		return nil, nil, err
	}
	if err := requester.ReadyToSend(send); err != nil {
		return nil, nil, err
	}
	responder, err = rc.New(answer)
	return requester, responder, err
}

// asked takes a request at the responder.
func (n *nic) asked(l *lane, now units.Time, h fabric.Handle, p *fabric.Packet) {
	if len(n.closing) > 0 {
		n.close(now)
	}
	slot, s := slotOf(p.Note), n.sender(p.Note)
	if s == nil {
		l.stats.Stale++
		l.Free(h)
		return
	}
	l.header = rc.Header{Opcode: ib.ReadRequest, PSN: units.MakePSN(uint32(p.User) >> 8), DMALen: uint32(p.User >> 32), VA: p.Notes[1]}
	l.Free(h)
	s.qp.Receive(now, &l.header, 0, &l.eff)
	if l.eff.Do&rc.DoCheck != 0 {
		s.qp.Checked(now, true, &l.eff) // memory is not modelled
	}
	n.offer(now, slot, s)
	n.turn(l, now)
}

// respond sends a response of the flow that is first in line. A NAK goes as
// acknowledgements do.
func (n *nic) respond(l *lane, now units.Time, slot uint32, s *sender) {
	d := &l.desc
	if !s.qp.NextResponse(now, d) {
		n.remove(slot)
		return
	}
	h := l.Alloc()
	p := l.Packet(h)
	op := d.Header.Opcode
	p.Src, p.Note = n.host, s.peer
	f := fabric.Frame{Dst: s.dst, FlowHash: s.hash}
	if op == ib.Acknowledge {
		p.User = acknowledgement(&d.Header)
		f.Size, f.Priority = int32(nicmodel.FrameBytes(op, 0)), s.ackPriority
		n.transmit(l, now, h, &f)
	} else {
		p.User = uint64(op) | uint64(d.Header.PSN)<<8 | uint64(uint32(d.Payload))<<32
		f.Size = int32(nicmodel.FrameBytes(op, d.Payload) + n.fleet.net.TelemetryBytes(s.telemetry, 0))
		f.Priority, f.Flags, f.Telemetry = s.priority, s.packetFlags, s.telemetry
		l.stats.TxPackets++
		n.wireFree = l.Transmit(now, int(n.host), h, &f)
		n.dataFree, n.answers = n.wireFree, !n.answers
	}
	if s.qp.ResponseReady() {
		n.push(slot, s.due(now))
	} else {
		n.remove(slot)
	}
}

// responded takes a response at the requester.
func (n *nic) responded(l *lane, now units.Time, h fabric.Handle, p *fabric.Packet, f *fabric.Frame, op ib.Opcode) {
	slot, s := slotOf(p.Note), n.sender(p.Note)
	if s == nil {
		l.stats.Stale++
		l.Free(h)
		return
	}
	payload := int(p.User >> 32)
	l.header = rc.Header{Opcode: op, PSN: units.MakePSN(uint32(p.User) >> 8)}
	s.qp.Receive(now, &l.header, payload, &l.eff)
	if l.eff.Do&rc.DoPlace != 0 {
		bytes := units.Bytes(l.eff.Place.Length)
		d := &s.read.delivered
		d.Payload += bytes
		d.Frames += units.Bytes(f.Size)
		d.Packets++
		l.stats.Payload += bytes
		s.acked += bytes
		if s.steering != nil {
			n.informRead(l, now, slot, s, h, f, bytes)
		}
	}
	l.Free(h)
	n.effects(l, now, slot, s)
	n.turn(l, now)
}

// informRead passes a response to the engine, with what it met on the way of the data.
func (n *nic) informRead(l *lane, now units.Time, slot uint32, s *sender, h fabric.Handle, f *fabric.Frame, bytes units.Bytes) {
	fl := n.fleet
	sentAt, ok := s.read.Answered(now, l.header.PSN, n.line, fl.cfg.MTU)
	if !ok {
		return
	}
	rtt := now - sentAt
	a := &l.ack
	*a = cc.Ack{
		Now: now, SentAt: sentAt, RTT: rtt, NetRTT: rtt - n.line.Serialize(fl.cfg.MTU), Bytes: bytes, Packets: 1,
		Acked: s.acked, Sent: s.sent, Hops: f.Hops,
		ECN: f.Flags&fabric.CE != 0, EIN: f.Flags&fabric.EIN != 0,
		MaxHopDelay: f.MaxDelay, HasMaxDelay: f.Telemetry == telemetry.MaxDelay,
	}
	c := n.give(l, s, h, f, a)
	// As in nicmodel: notification and reaction point are one, and a request for more than the
	// window goes alone, at the mean rate of that.
	if r := s.read; a.ECN && r.cnpInterval > 0 && now >= r.cnpAfter {
		r.cnpAfter = now + r.cnpInterval
		c = s.steering.Engine().OnCNP(now)
	}
	if s.read.size > c.Window {
		c.Rate = max(min(c.Rate, units.RateOf(c.Window, rtt)), 1)
	}
	n.steer(now, slot, s, c)
}
