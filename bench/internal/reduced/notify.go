package reduced

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// opNotify is a congestion notification packet's opcode in a packet's User. No Write
// has what its own seven bits would be.
const opNotify = ib.CNP & opcodeBits

// owes reports whether a packet that met a mark is answered with a congestion
// notification packet, as nicmodel does it, and counts it if so.
func (r *receiver) owes(now units.Time, flags fabric.Flags) bool {
	if flags&fabric.CE == 0 || r.cnpInterval <= 0 || now < r.cnpAfter {
		return false
	}
	r.cnpAfter = now + r.cnpInterval
	return true
}

// notify sends a congestion notification packet to a sender at host dst.
func (n *nic) notify(l *lane, now units.Time, r *receiver, dst int32, hash uint32) {
	h := l.Alloc()
	p := l.Packet(h)
	p.User, p.Note, p.Src = uint64(opNotify), r.peer, n.host
	n.transmit(l, now, h, &fabric.Frame{Size: int32(nicmodel.CNPBytes), Dst: dst, FlowHash: hash, Priority: r.ackPriority})
}

// notified takes one.
func (n *nic) notified(l *lane, now units.Time, h fabric.Handle, ref uint32) {
	l.Free(h)
	s := n.sender(ref)
	if s == nil {
		l.stats.Stale++
		return
	}
	s.cnps++
	if s.steering == nil {
		return
	}
	slot := slotOf(ref)
	n.steer(now, slot, s, s.steering.Engine().OnCNP(now))
	n.offer(now, slot, s)
	n.turn(l, now)
}

// Notifications returns how many congestion notification packets the sender of a flow
// that has not ended was sent.
func (f *Fleet) Notifications(r Ref) uint64 {
	if s := f.nics[r.src].sender(r.sender); s != nil {
		return s.cnps
	}
	return 0
}
