package chip

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/units"
)

// Place names the part of a NIC in which a span of an operation's life was spent.
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

// Span is the time that an operation spent in a place.
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

// Tracer reports spans.
type Tracer struct {
	host   int
	Peer   func(qpn uint32) (host int, ok bool) // the far end of a queue pair
	Report func(*Span)                          // nil if not set
	span   Span
}

// Request reports a span of requests of a queue pair, whose send queue is a ring of that many places.
func (t *Tracer) Request(qpn uint32, ring int, at Place, begin, end units.Time, slot uint32, count int) {
	t.span = Span{Place: at, Begin: begin, End: end, Host: t.host, QPN: qpn, Slot: slot & uint32(ring-1), Count: uint32(count), Ring: uint32(ring)}
	t.Report(&t.span)
}

// Packet reports a span of a packet that the NIC of host from built.
func (t *Tracer) Packet(f *frames.Frame, at Place, begin, end units.Time, from int32) {
	d := &f.Desc
	s := &t.span
	*s = Span{Place: at, Begin: begin, End: end, Slot: d.Slot, Count: 1, Opcode: d.Header.Opcode, PSN: d.Header.PSN}
	s.Response = frames.IsResponse(d.Header.Opcode)
	// The requester is the host that built a request, or that gets a response.
	mine := int(from) == t.host
	switch {
	case !s.Response:
		s.Host, s.QPN = int(from), f.SrcQPN
	case !mine:
		s.Host, s.QPN = t.host, f.DstQPN
	default:
		host, ok := t.Peer(f.SrcQPN)
		if !ok {
			return
		}
		s.Host, s.QPN = host, f.DstQPN
	}
	t.Report(s)
}

// Completion reports a span of the completion of a request, or of a receive.
func (t *Tracer) Completion(qpn, slot uint32, of ib.WCOpcode, at Place, begin, end units.Time) {
	t.span = Span{Place: at, Begin: begin, End: end, Host: t.host, QPN: qpn, Slot: slot, Count: 1, Response: of&ib.WCRecv != 0}
	t.Report(&t.span)
}
