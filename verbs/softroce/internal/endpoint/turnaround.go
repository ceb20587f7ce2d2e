package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// turnaround is what a connection knows of how long its ends take to answer.
type turnaround struct {
	// As responder: the newest packet that asked for the turnaround, and its arrival
	// time on the device's counter.
	asked bool
	psn   units.PSN
	came  uint64

	// As requester: the turnaround that the current acknowledgement reports, and of
	// which packet.
	told bool
	of   units.PSN
	took units.Time
}

// asks reports whether a packet requests its turnaround: only one with an
// acknowledgement of its own does, since a response answers READs and atomics.
func (e *Endpoint) asks(q *QP, h *rc.Header) bool {
	switch h.Opcode {
	case ib.ReadRequest, ib.CompareSwap, ib.FetchAdd:
		return false
	}
	return e.cfg.Turnaround && h.AckReq && q.service == ib.ServiceRC
}

// noteTurnaround handles a packet's request for the turnaround, or the turnaround
// that it reports.
func (e *Endpoint) noteTurnaround(q *QP, p *Packet, in *inbound) {
	t := &q.turnaround
	switch {
	case in.Opcode == ib.Acknowledge:
		if e.cfg.Turnaround {
			t.took, t.told = roce.Turnaround(in.payload)
			t.of = in.PSN
		}
	case in.AckReq && in.Reserved6&roce.TurnaroundBit != 0 && e.eff.Drop == rc.DropNone:
		t.asked, t.psn, t.came = true, in.PSN, p.Stamp
	}
}

// tells reports whether a packet carries this end's turnaround to the peer. Only
// one packet does: the answer to the packet that asked.
func (q *QP) tells(h *rc.Header) bool {
	t := &q.turnaround
	if h.Opcode != ib.Acknowledge || !t.asked || h.PSN != t.psn {
		return false
	}
	t.asked = false
	return true
}

// putTurnaround writes the packet in e.out with the turnaround that it reports.
func (e *Endpoint) putTurnaround(now units.Time, q *QP, buf []byte) int {
	e.out.Reserved6 |= roce.TurnaroundBit
	n, to := e.put(buf, roce.TurnaroundBytes)
	roce.PutTurnaround(to, units.Time(int64(e.stampOf(now)-q.turnaround.came))*units.Nanosecond)
	return n
}

// answered notes for a request that completes how long its answer took, or that the
// answer to a later request acknowledged it.
func (t *turnaround) answered(n *noticed, last units.PSN) {
	switch {
	case !t.told:
	case t.of == last:
		n.turned, n.turnaround = true, t.took
	default:
		n.coalesced = true
	}
}
