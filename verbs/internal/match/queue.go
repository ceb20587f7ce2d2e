package match

import (
	"math"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Stamps holds the known times of a request that completed. They are as the stamps
// gave them; one that is not known is 0.
type Stamps struct {
	// First and Last are when the request's first and last packet left for the
	// first time. Those of a READ are its request's, which is one packet unless
	// the requester asks in parts.
	First, Last uint64
	// Acked is the arrival time of the packet that acknowledged the request, or of
	// the last of its response.
	Acked uint64
	// Retransmitted says that packets of the request left again before it was
	// acknowledged.
	Retransmitted bool
}

// Whole reports whether all three times are known.
func (s *Stamps) Whole() bool { return s.First != 0 && s.Last != 0 && s.Acked != 0 }

// request is one that was posted. PSNs are extended: they do not wrap.
type request struct {
	wrid        uint64
	first, last int64 // PSNs; last is first-1 of one that takes none
	next        int64 // PSN of the packet that would leave for the first time
	stamps      Stamps
	data        bool // it returns data: a READ or atomic
	read        bool
	signaled    bool
}

// Queue is the send queue of one queue pair. Make it with New.
type Queue struct {
	ring       []request
	head, tail uint32 // free-running; the length of ring is a power of two
	acked      uint32 // the oldest request that is not acknowledged
	hint       uint32 // where the last packet that left was found
	next       int64  // PSN of the next request
	mtu        uint32
	strange    uint64
}

// most bounds a queue: as many PSNs may be outstanding (IBA 9.7.2).
const most = 1 << 23

// New returns a queue with room for n requests, which grows if there are more.
// Reset makes it ready.
func New(n int) *Queue {
	size := 1
	for size < min(n, most) {
		size *= 2
	}
	return &Queue{ring: make([]request, size), mtu: 1024}
}

// Reset forgets all requests and what was counted. The next one takes PSNs from psn on, on a path of
// that MTU.
func (q *Queue) Reset(psn units.PSN, mtu ib.MTU) {
	q.head, q.tail, q.acked, q.hint, q.strange = 0, 0, 0, 0, 0
	q.next, q.mtu = int64(psn), uint32(max(mtu, 1))
}

// Len returns the number of requests that are not completed.
func (q *Queue) Len() int { return int(q.tail - q.head) }

// Strange counts packets since Reset whose PSN belonged to no request outstanding: most often
// repeated acknowledgements.
func (q *Queue) Strange() uint64 { return q.strange }

func (q *Queue) at(i uint32) *request { return &q.ring[i&uint32(len(q.ring)-1)] }

// packets returns the number of packets that carry n bytes: at least one.
func (q *Queue) packets(n uint32) int64 {
	return max(1, (int64(n)+int64(q.mtu)-1)/int64(q.mtu))
}

// PSNs returns the number of PSNs that a request takes on a path of that MTU.
func PSNs(op ib.WROpcode, length uint32, mtu ib.MTU) int64 {
	switch {
	case op == ib.WRLocalInv, op == ib.WRBindMW:
		return 0
	case op.IsAtomic():
		return 1
	}
	return max(1, (int64(length)+int64(mtu)-1)/int64(mtu))
}

// Post takes a request that is about to be given to the device, and returns its
// last PSN; of one that takes none, the PSN before.
func (q *Queue) Post(wrid uint64, op ib.WROpcode, length uint32, signaled bool) units.PSN {
	if int(q.tail-q.head) == len(q.ring) {
		q.grow()
	}
	n := PSNs(op, length, ib.MTU(q.mtu))
	read := op == ib.WRRDMARead
	*q.at(q.tail) = request{
		wrid: wrid, first: q.next, last: q.next + n - 1, next: q.next,
		read: read, data: read || op.IsAtomic(), signaled: signaled,
	}
	q.tail++
	q.next += n
	return units.MakePSN(uint32(q.next - 1))
}

func (q *Queue) grow() {
	ring := make([]request, 2*len(q.ring))
	for i := q.head; i != q.tail; i++ {
		ring[i&uint32(len(ring)-1)] = *q.at(i)
	}
	q.ring = ring
}

// Unpost takes back the n requests posted last: the device refused them.
func (q *Queue) Unpost(n int) {
	for range min(n, q.Len()) {
		q.tail--
		q.next = q.at(q.tail).first
	}
	if int32(q.acked-q.tail) > 0 {
		q.acked = q.tail
	}
}

// extend returns the extended PSN of a packet. It is one outstanding if it is at
// least the oldest request's and less than the next one's.
func (q *Queue) extend(psn units.PSN) int64 {
	base := q.next
	if q.head != q.tail {
		base = q.at(q.head).first
	}
	return base + int64(psn.Sub(units.MakePSN(uint32(base))))
}

// find returns the request of a PSN: where it would be at most i in the ring.
func (q *Queue) find(p int64) (uint32, bool) {
	if q.head == q.tail || p < q.at(q.head).first || p >= q.next {
		return 0, false
	}
	// Nearly always the request of the last packet, or the one after it.
	for i := q.hint; i-q.head < q.tail-q.head && i-q.hint < 2; i++ {
		if r := q.at(i); p >= r.first && p <= r.last {
			q.hint = i
			return i, true
		}
	}
	lo, hi := q.head, q.tail // the first whose last PSN is not before p
	for lo != hi {
		if mid := lo + (hi-lo)/2; q.at(mid).last < p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	q.hint = lo
	return lo, true
}

// Sent takes a packet of the requester's that left at the given time: its PSN and,
// of a READ request, the bytes that it asks for. Packets in the middle of a
// message may be left out.
func (q *Queue) Sent(at uint64, psn units.PSN, op ib.Opcode, length uint32) {
	p := q.extend(psn)
	i, ok := q.find(p)
	if !ok {
		q.strange++
		return
	}
	r := q.at(i)
	if r.read != (op == ib.ReadRequest) {
		q.strange++ // of another life of the queue pair
		return
	}
	end := p + 1
	if r.read {
		end = min(p+q.packets(length), r.last+1)
	}
	if p < r.next {
		q.again(i)
		// A request for the rest of a READ may reach beyond the original request.
		r.next = max(r.next, end)
		return
	}
	s := &r.stamps
	if p == r.first {
		s.First = at
	}
	if end > r.last {
		s.Last = at
	}
	r.next = end
}

// again notes that packets of request i are sent again: another acknowledgement of
// it, and of later requests, counts.
func (q *Queue) again(i uint32) {
	q.at(i).stamps.Retransmitted = true
	if int32(q.acked-i) > 0 {
		q.acked = i
	}
}

// Classes of AETH syndromes, its bits 6 and 5 (IBA 9.7.5.1).
const (
	classACK = 0
	classRNR = 1
	classNAK = 3
)

// Received handles a packet of the responder that arrived at the given time: an
// acknowledgement or a response, except the middle responses of a READ. syndrome is
// that of its AETH.
func (q *Queue) Received(at uint64, psn units.PSN, op ib.Opcode, syndrome uint8) {
	p := q.extend(psn)
	oldest := q.next
	if q.head != q.tail {
		oldest = q.at(q.head).first
	}
	if p < oldest || p >= q.next {
		q.strange++
		return
	}
	upTo, answered := p, int64(math.MinInt64)
	switch op {
	case ib.Acknowledge:
		switch syndrome >> 5 & 3 {
		case classACK:
		case classRNR, classNAK:
			upTo--
		default:
			return
		}
	case ib.ReadResponseLast, ib.ReadResponseOnly, ib.AtomicAcknowledge:
		answered = p
	case ib.ReadResponseFirst:
	default:
		return
	}
	for ; q.acked != q.tail; q.acked++ {
		r := q.at(q.acked)
		if r.last > upTo || r.data && r.last != answered {
			return
		}
		r.stamps.Acked = at
	}
}

// Complete handles the successful completion of the signaled request of that WRID.
// It forgets the request and the earlier ones, which have completed with it. It
// returns the request's known times, and false if there is no such request.
func (q *Queue) Complete(wrid uint64) (Stamps, bool) {
	for i := q.head; i != q.tail; i++ {
		r := q.at(i)
		if !r.signaled || r.wrid != wrid {
			continue
		}
		q.head = i + 1
		if int32(q.acked-q.head) < 0 {
			q.acked = q.head
		}
		if int32(q.hint-q.head) < 0 {
			q.hint = q.head
		}
		return r.stamps, true
	}
	return Stamps{}, false
}
