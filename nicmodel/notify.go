package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// notify is DCQCN's notification point (SIGCOMM 2015, section 3.1). It answers a
// request's packet with a congestion mark by a CNP, unless the queue pair has sent one
// less than Congestion.CNPInterval ago, or there is no room for it before the wire: then the next mark is answered. It does not answer the data of READs: the
// engine that steers them is at this end (see pull). It reports whether it has sent one.
func (t *transport) notify(now units.Time, q *qp) bool {
	if q.rc == nil || q.cong.CNPInterval <= 0 || now < q.cnpAfter || !t.mac.takesNotification(q) {
		return false
	}
	q.cnpAfter = now + q.cong.CNPInterval
	q.cnpsSent++
	h, f := t.Alloc()
	f.Desc = rc.Descriptor{Header: rc.Header{Opcode: ib.CNP}}
	f.SrcQPN, f.DstQPN, f.Resets, f.IPv6 = q.num, q.peer.QPN, q.resets, q.peer.IPv6
	t.Net.Packet(h).Src = int32(t.Host)
	size := frames.CNPBytes
	if f.IPv6 {
		size = frames.IPv6CNPBytes
	}
	f.Wire = fabric.Frame{Size: int32(size), Dst: int32(q.peer.Host), FlowHash: q.peer.FlowHash, Priority: q.cong.AckPriority}
	// It leaves as acknowledgements do.
	f.Ready = now + t.Config.PipelineLatency
	t.mac.lineUpControl(now, h, f)
	return true
}

// cnpArrived takes a CNP at the reaction point.
func (t *transport) cnpArrived(now units.Time, q *qp) {
	q.cnpsHandled++
	if q.Engine() == nil || !q.hasFlow {
		return
	}
	t.offload.submit(now, q, eventCNP)
	t.scheduler.file(now, q)
	t.scheduler.choose(now)
}

// notifications are those of a queue pair.
type notifications struct {
	cnpAfter              units.Time // when the next may be sent
	cnpsSent, cnpsHandled uint64
}

// Notifications returns how many congestion notification packets a queue pair has
// sent as a receiver of data (np_cnp_sent), and how many it has been sent
// (rp_cnp_handled).
func (p *pairs) Notifications(num uint32) (sent, handled uint64) {
	q := p.find(num)
	return q.cnpsSent, q.cnpsHandled
}

// marked reports whether a packet is one that notify answers.
func marked(f *frames.Frame) bool {
	return f.Wire.Flags&fabric.CE != 0 && f.Desc.Payload > 0
}
