package reduced

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// opGrant marks a grant in a packet's User: RC's opcodes end far below. The class
// is in the place of the PSN.
const opGrant ib.Opcode = 0x7f

// grantFrame is the size of a grant: an acknowledgement's frame, with the limit and
// the class in eight bytes.
var grantFrame = int32(nicmodel.FrameBytes(ib.Acknowledge, 8))

// priority is that of packets under a control, of a flow whose own is known.
func (f *Fleet) priority(c cc.Control, own uint8) uint8 {
	if c.Class == 0 || !f.cfg.Classes {
		return own
	}
	return min(c.Class, uint8(f.net.Priorities())) - 1
}

// tell passes the packet in lane.data, of flow r, to the host's receiver.
func (n *nic) tell(l *lane, now units.Time, r *receiver) {
	d := &l.data
	if !r.begun {
		r.begun = true
		n.recv.OnStart(now, d.Flow, r.size)
		n.grant(l, now)
	}
	n.recv.OnData(d)
	n.grant(l, now)
	if r.size > 0 && d.Arrived >= r.size {
		r.over = true
		n.recv.OnEnd(now, d.Flow)
		n.grant(l, now)
	}
}

// receiverTimer says that flows have ended short of their size, or had none, and
// that the receiver's time has come.
func (n *nic) receiverTimer(l *lane, now units.Time) {
	n.close(now)
	if n.recv.Deadline() <= now {
		n.recv.OnTimer(now)
	}
	n.grant(l, now)
	for i := range n.closing {
		if r := &n.receivers[slotOf(n.closing[i].receiver)]; !n.closing[i].responder && r.begun && !r.over {
			n.alarm(n.closing[i].at)
			break
		}
	}
}

// grant sends the grants that there are, and sets the receiver's alarm.
func (n *nic) grant(l *lane, now units.Time) {
	for {
		number, g, ok := n.recv.Next()
		if !ok {
			break
		}
		r := &n.receivers[number]
		if r.qp == nil {
			continue
		}
		h := l.Alloc()
		p := l.Packet(h)
		p.User = uint64(opGrant) | uint64(g.Class)<<8
		p.Src, p.Note, p.Notes[1] = n.host, r.peer, uint64(g.Limit)
		l.stats.Grants++
		n.transmit(l, now, h, &fabric.Frame{Size: grantFrame, Dst: r.src, FlowHash: r.hash, Priority: r.ackPriority})
	}
	n.alarm(max(now, n.recv.Deadline()))
}

// alarm asks for an evReceiver at that time, or before.
func (n *nic) alarm(at units.Time) {
	if at < n.recvAt {
		n.recvAt = at
		n.schedule(at, evReceiver)
	}
}

// granted takes a grant.
func (n *nic) granted(l *lane, now units.Time, h fabric.Handle, p *fabric.Packet) {
	s, slot := n.sender(p.Note), slotOf(p.Note)
	g := cc.Grant{Limit: units.Bytes(p.Notes[1]), Class: uint8(p.User >> 8)}
	l.Free(h)
	if s == nil {
		l.stats.Stale++
		return
	}
	n.steer(now, slot, s, s.steering.OnGrant(now, s.sent, g))
	n.offer(now, slot, s)
	n.turn(l, now)
}
