package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Place is where in a NIC a span of an operation's life was spent.
type Place uint8

// Places, in the order in which an operation comes to them. Those that are stages
// hold one piece of work at a time, so that their spans do not overlap.
const (
	AtStore      Place = iota // the doorbell's store crosses PCIe
	AtDoorbell                // stage doorbell
	AtFetch                   // the elements cross PCIe
	AtWQE                     // stage wqe
	AtSendTime                // a request, or one before it, waits for its send time
	AtScheduler               // stage scheduler, for a packet
	AtPayload                 // a packet's payload is fetched over PCIe
	AtPacketiser              // stage packetiser
	AtWire                    // stage mac: a packet's bits go on the wire
	AtReceive                 // parse, transport and the receive pipeline, for a packet
	AtRecvFetch               // a packet waits for its receive, which crosses PCIe
	AtCQE                     // stage cqe
	AtCQEWrite                // the completion crosses PCIe, until the host sees it; before that it may be kept (CompressionConfig)
	numPlaces
)

var placeNames = [numPlaces]string{"doorbell store", "doorbell", "wqe fetch", "wqe", "send time", "scheduler", "payload fetch", "packetiser", "wire", "receive", "receive wqe fetch", "cqe", "cqe write"}

func (p Place) String() string { return placeNames[p] }

// Places lists them all.
func Places() []Place {
	all := make([]Place, numPlaces)
	for i := range all {
		all[i] = Place(i)
	}
	return all
}

// Span is what a piece of work spent in a place.
type Span struct {
	Place      Place
	Begin, End units.Time

	// Whose it is: host and queue pair of the requester, and where the request lies
	// in its send queue. Spans before the scheduler are of Count requests from Slot on,
	// in a ring of Ring places; all others are of one. Response says that it is of what a
	// responder sends, or of a completion of a receive, and then there is no slot.
	Host     int
	QPN      uint32
	Slot     uint32
	Count    uint32
	Ring     uint32
	Response bool

	// Of a packet.
	Opcode ib.Opcode
	PSN    units.PSN
}

// tracer reports spans.
type tracer struct {
	pairs  *queuePairs
	host   int
	report func(*Span) // nil if not set
	span   Span
}

// OnSpan calls f with every span as soon as its end is known, which may lie in the
// future; nil ends the calls. The span is valid during the call. f must not change
// the NIC.
func (n *NIC) OnSpan(f func(*Span)) { n.spans.report = f }

// request reports a span of requests of a queue pair.
func (t *tracer) request(q *qp, at Place, begin, end units.Time, slot uint32, count int) {
	t.span = Span{Place: at, Begin: begin, End: end, Host: t.host, QPN: q.num, Slot: slot & uint32(len(q.sq)-1), Count: uint32(count), Ring: uint32(len(q.sq))}
	t.report(&t.span)
}

// packet reports a span of a packet that the NIC of host from built.
func (t *tracer) packet(f *frame, at Place, begin, end units.Time, from int32) {
	d := &f.desc
	s := &t.span
	*s = Span{Place: at, Begin: begin, End: end, Slot: d.Slot, Count: 1, Opcode: d.Header.Opcode, PSN: d.Header.PSN}
	s.Response = isResponse(d.Header.Opcode)
	// The requester is the host that built a request, or that gets a response.
	mine := int(from) == t.host
	switch {
	case !s.Response:
		s.Host, s.QPN = int(from), f.srcQPN
	case !mine:
		s.Host, s.QPN = t.host, f.dstQPN
	default:
		q := t.pairs.find(f.srcQPN)
		if q == nil {
			return
		}
		s.Host, s.QPN = q.peer.Host, f.dstQPN
	}
	t.report(s)
}

// isResponse reports whether a packet is what a responder sends.
func isResponse(op ib.Opcode) bool {
	switch op {
	case ib.Acknowledge, ib.AtomicAcknowledge, ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly, ib.CNP:
		return true
	}
	return false
}

// completion reports a span of a completion.
func (t *tracer) completion(e *CQE, at Place, begin, end units.Time) {
	t.span = Span{Place: at, Begin: begin, End: end, Host: t.host, QPN: e.QPN, Slot: e.Slot, Count: 1, Response: e.Opcode&ib.WCRecv != 0}
	t.report(&t.span)
}
