package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// A work queue element is segments of 16 bytes: control; the remote address of a
// READ, a WRITE or an atomic, or the address vector of a datagram; the operands of
// an atomic; then a pointer for each piece of data, or the data themselves behind a
// length of 4 bytes. Kalia et al. (ATC 2016, table 1) count 36 bytes before the
// inline data of a WRITE and 68 before those of a datagram. A receive is its
// pointers only.
const (
	wqeSegment       = 16
	wqeInlineHeader  = 4
	wqeDatagramBytes = 48
)

// WQEBytes returns what a send request takes in its queue: with inline data if
// there are any, else with a pointer for each of its pieces. Queues have strides of
// 64 bytes, a cache line, and an element has as many as it needs.
func WQEBytes(op ib.WROpcode, service ib.QPType, pieces, inline int) int {
	n := wqeSegment
	switch op {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead:
		n += wqeSegment
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		n += 2 * wqeSegment
	}
	if service == ib.UD {
		n += wqeDatagramBytes
	}
	if inline > 0 {
		n += (wqeInlineHeader + inline + wqeSegment - 1) / wqeSegment * wqeSegment
	} else {
		n += pieces * wqeSegment
	}
	return (n + cacheLine - 1) / cacheLine * cacheLine
}

func (q *qp) wqeBytes(w *sendWQE) int {
	return WQEBytes(w.req.Op, q.cfg.Type, len(w.sgl), len(w.inline))
}

// wqeAddr is where the element with that running count lies. Elements of several
// strides are spread as if each had one: only their pages matter.
func (q *qp) wqeAddr(count uint32) uint64 {
	return q.sqAddr + uint64(count&uint32(len(q.sq)-1))*cacheLine
}

// wqeKey names an element in the cache.
func (q *qp) wqeKey(slot uint32) uint64 { return uint64(q.num)<<32 | uint64(slot) }

// WQECache counts the look-ups of work queue elements that a NIC holds: for each packet
// of one but the first, and when the response comes that it is for.
type WQECache struct{ Hits, Misses uint64 }

// WQECache returns the counts; both are 0 where all elements are held.
func (n *NIC) WQECache() WQECache { return n.wqeCounts }

// takeWQE returns when an element is at hand that a packet is to be made of at t. Its
// first packet finds it in its queue and leaves it in the cache.
func (n *NIC) takeWQE(t units.Time, q *qp, slot uint32) units.Time {
	if n.wqes == nil {
		return t
	}
	if w := &q.sq[slot]; !w.begun {
		w.begun = true
		n.wqes.touch(q.wqeKey(slot))
		return t
	}
	return n.needWQE(t, q, slot)
}

// needWQE returns when an element is at hand that is needed at t: one that has
// fallen out of the cache meanwhile is fetched again.
func (n *NIC) needWQE(t units.Time, q *qp, slot uint32) units.Time {
	if n.wqes.touch(q.wqeKey(slot)) {
		n.wqeCounts.Hits++
		return t
	}
	n.wqeCounts.Misses++
	return n.pcie.Read(t, q.wqeAddr(slot), q.wqeBytes(&q.sq[slot]), ForWQE)
}

// answered returns when the completion of an element can be made, whose response or
// acknowledgement has come. Where the data of a READ or an atomic go is in the element:
// a processing unit waits for one that was forgotten. The others are done with.
func (n *NIC) answered(now units.Time, q *qp, slot uint32) units.Time {
	if op := q.sq[slot].req.Op; n.wqes == nil || op != ib.WRRDMARead && !op.IsAtomic() {
		return now
	}
	ready := n.needWQE(now, q, slot)
	if n.rxUnits != nil && ready > now {
		ready = n.rxUnits.wait(now, ready-now)
	}
	return ready
}

// releaseWQEs drops the elements from one running count to another, which have
// completed. One that asked for no completion is looked at here only.
func (n *NIC) releaseWQEs(now units.Time, q *qp, from, to uint32) {
	if n.wqes == nil {
		return
	}
	for i := from; i != to; i++ {
		slot := i & uint32(len(q.sq)-1)
		if !q.sq[slot].req.Signaled {
			n.answered(now, q, slot)
		}
		n.wqes.remove(q.wqeKey(slot))
	}
}
