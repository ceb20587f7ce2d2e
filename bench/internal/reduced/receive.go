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

// receiver is a flow at its destination.
type receiver struct {
	qp          *rc.QP        // nil where there is none
	peer        uint32        // the sender
	src         int32         // its host
	hash        uint32        // of the flow's path
	recv        *rc.RecvQueue // of a connection whose host learns of messages
	id          uint64        // of the flow
	gen         uint8
	ackPriority uint8
	telemetry   telemetry.Kind
	met         uint8      // flags of a frame, since the last acknowledgement
	delay       units.Time // the largest, in the same way
	begun, over bool       // as configured in nic.recv; never without one
	delivered   nicmodel.Delivered
	size        units.Bytes // 0: without end
	cnpInterval units.Time
	cnpAfter    units.Time // when the next notification may be sent
}

// reflectedDelayBytes is Poseidon's echo of the forward path's delay (section
// 5.1).
const reflectedDelayBytes = 2

// Arrive implements fabric.Endpoint: a packet has reached the transport.
func (n *nic) Arrive(x *fabric.Lane, now units.Time, h fabric.Handle, f *fabric.Frame) {
	l := &n.fleet.lanes[x.Index()]
	l.stats.RxPackets++
	p := l.Packet(h)
	op := ib.Opcode(p.User & opcodeBits)
	switch op {
	case ib.Acknowledge:
		n.acknowledged(l, now, h, p, f)
		return
	case opNotify:
		n.notified(l, now, h, p.Note)
		return
	case opGrant:
		n.granted(l, now, h, p)
		return
	case ib.ReadRequest:
		n.asked(l, now, h, p)
		return
	case ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly:
		n.responded(l, now, h, p, f, op)
		return
	}
	if len(n.closing) > 0 {
		n.close(now)
	}
	r := n.receiver(p.Note)
	if r == nil {
		l.stats.Stale++
		l.Free(h)
		return
	}
	payload := int(p.User >> 32)
	l.header = rc.Header{Opcode: op, PSN: units.MakePSN(uint32(p.User) >> 8), AckReq: p.User&ackReq != 0}
	switch op {
	case ib.WriteFirst:
		l.header.DMALen = uint32(payload)
		payload = int(n.fleet.cfg.MTU)
	case ib.WriteOnly, ib.WriteOnlyImm:
		l.header.DMALen = uint32(payload)
	}
	eff := &l.eff
	r.qp.Receive(now, &l.header, payload, eff)
	if eff.Do&rc.DoCheck != 0 {
		r.qp.Checked(now, true, eff) // memory is not modelled
	}
	placed := eff.Do&rc.DoPlace != 0
	if eff.Do&rc.DoRecv != 0 {
		n.received(l, now, r, &eff.Recv)
	}
	if placed {
		r.delivered.Payload += units.Bytes(payload)
		r.delivered.Frames += units.Bytes(f.Size)
		r.delivered.Packets++
		l.stats.Payload += units.Bytes(payload)
	}
	r.note(f)
	tell := placed && n.recv != nil
	if tell {
		l.data = cc.Data{
			Now: now, Flow: slotOf(p.Note), Size: r.size, Bytes: units.Bytes(payload), Arrived: r.delivered.Payload,
			SentAt: units.Time(p.Notes[0]), ECN: f.Flags&fabric.CE != 0,
		}
	}
	notify, src, hash := r.owes(now, f.Flags), p.Src, f.FlowHash
	if eff.Do&rc.DoRespond != 0 && r.qp.NextResponse(now, &l.desc) {
		n.answer(l, now, r, h, p, f)
	} else {
		l.Free(h)
	}
	if notify {
		n.notify(l, now, r, src, hash)
	}
	if tell {
		n.tell(l, now, r)
	}
}

// note remembers what a packet met, for the next acknowledgement.
func (r *receiver) note(f *fabric.Frame) {
	r.met &^= metCircuit
	if f.Flags&(fabric.CE|fabric.EIN|fabric.Circuit) != 0 {
		if f.Flags&fabric.CE != 0 {
			r.met |= metCE
		}
		if f.Flags&fabric.EIN != 0 {
			r.met |= metEIN
		}
		if f.Flags&fabric.Circuit != 0 {
			r.met |= metCircuit
		}
	}
	if f.Telemetry == telemetry.MaxDelay {
		r.met |= hasDelay
		r.delay = max(r.delay, f.MaxDelay)
	}
}

// acknowledgement is an acknowledgement's header in a packet's User.
func acknowledgement(d *rc.Header) uint64 {
	return uint64(ib.Acknowledge) | uint64(d.PSN)<<8 | uint64(d.Syndrome)<<32 | uint64(d.MSN)<<40
}

// answer makes an acknowledgement of the packet that it answers: its slot, and
// its per-hop records, go back with it.
func (n *nic) answer(l *lane, now units.Time, r *receiver, h fabric.Handle, p *fabric.Packet, f *fabric.Frame) {
	p.User = acknowledgement(&l.desc.Header)
	p.Src, f.Dst = n.host, p.Src
	f.Priority, f.Flags, f.Telemetry = r.ackPriority, 0, telemetry.None
	f.MaxDelay, f.Hops = 0, 0
	size := nicmodel.FrameBytes(ib.Acknowledge, 0)
	switch r.telemetry {
	case telemetry.MaxDelay:
		f.Telemetry = telemetry.MaxDelay // for the way back
		size += reflectedDelayBytes + telemetry.MaxDelayBytes
	case telemetry.PerHop:
		if records := f.Records(); records > 0 {
			size += n.fleet.net.TelemetryBytes(telemetry.PerHop, records)
		}
	}
	f.Size = int32(size)
	p.Note, p.Notes[1] = r.peer, uint64(r.delay)<<metBits|uint64(r.met)
	r.met, r.delay = 0, 0
	n.transmit(l, now, h, f)
}
