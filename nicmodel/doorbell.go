package nicmodel

import (
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Stage doorbell: stores of the host to the NIC, one a doorbell or a BlueFlame element.
//
// State: for each queue pair, what has been posted, rung and told. Cost: DoorbellCycles a
// doorbell, and on PCIe 8 bytes, or the element's cache lines. It never stalls; a
// doorbell that needs a context which is not held lets the elements wait, not the stage.

// WR is a send work request as the host posts it.
type WR struct {
	Request rc.Request
	SGL     []SGE
	Inline  []byte // instead of an SGL
	// To and QKey are where a datagram goes, and the Q_Key that it carries.
	To   Peer
	QKey uint32
}

// Room returns how many send requests a queue pair can still take.
func (n *NIC) Room(num uint32) int {
	q := n.qp(num)
	return q.cfg.SendDepth - int(q.posted-q.reaped)
}

// PostSend writes a request to the send queue in host memory. Ring then tells
// the NIC. It returns rc.ErrFull when there is no room.
func (n *NIC) PostSend(num uint32, wr *WR) error {
	q := n.qp(num)
	if int(q.posted-q.reaped) == q.cfg.SendDepth {
		return rc.ErrFull
	}
	w := q.wqe(q.posted)
	w.req = wr.Request
	w.req.Signaled = w.req.Signaled || q.cfg.SigAll
	w.sgl = append(w.sgl[:0], wr.SGL...)
	w.inline = append(w.inline[:0], wr.Inline...)
	if q.to != nil {
		q.to[q.posted&uint32(len(q.to)-1)] = address{wr.To, wr.QKey}
	}
	q.posted++
	return nil
}

// Ring writes the doorbell for the last count requests posted: their number, by
// which the NIC fetches them, or for a single request the element itself
// (BlueFlame) through write-combining stores of a cache line each. A BlueFlame
// element must not overtake those before it, and is taken for a doorbell while one
// is fetched, or under way at all unless Config.BlueFlameBusy.
func (n *NIC) Ring(now units.Time, num uint32, count int) {
	if count == 0 {
		return
	}
	q := n.qp(num)
	const doorbellBytes = 8
	blue := count == 1 && q.rung == q.came && (q.fetching == 0 || n.cfg.BlueFlameBusy)
	bytes := doorbellBytes
	if blue {
		bytes = q.wqeBytes(q.wqe(q.posted - 1))
	} else {
		q.rung += uint32(count)
	}
	q.fetching++
	arg := uint64(num) | uint64(count)<<32 | uint64(q.resets)<<56
	if blue {
		arg |= 1 << 63
	}
	there := n.pcie.MMIO(now, bytes, ForDoorbell)
	n.inWQE.add(now, count)
	if n.onSpan != nil {
		n.requestSpan(q, AtStore, now, there, q.posted-uint32(count), count)
	}
	n.engine.Schedule(there, &n.src, n.id, evDoorbell, arg)
}

// rings handles a doorbell as it reaches the NIC.
func (n *NIC) rings(now units.Time, num uint32, count int, resets uint8, blue bool) {
	q := n.qp(num)
	if q == nil || q.resets != resets {
		n.inWQE.add(now, -count)
		return
	}
	t := n.doorbell.Serve(now, now, StallNone, n.cfg.DoorbellCycles)
	context, _ := n.needContext(now, q)
	if n.onSpan != nil {
		n.requestSpan(q, AtDoorbell, n.doorbell.began(n.cfg.DoorbellCycles), t, q.told, count)
	}
	q.told += uint32(count)
	if blue {
		done := n.wqe.Serve(t, context, StallContext, n.cfg.WQECycles)
		if n.onSpan != nil {
			n.requestSpan(q, AtWQE, n.wqe.began(n.cfg.WQECycles), done, q.asked, 1)
		}
		q.asked++
		n.engine.Schedule(done, &n.src, n.id, evWQE, uint64(num)|1<<32|uint64(resets)<<56)
		return
	}
	q.fetching--
	n.fetchWQEs(now, t, context, q)
}
