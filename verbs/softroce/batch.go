package softroce

import (
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

const (
	batchBytes    = 256 << 10
	batchMessages = 64
	// datagramBytes is the most that the packets of one message may have
	// together: what fits an IP packet with its headers.
	datagramBytes = 65000
)

// batch is packets to send. They lie one behind the other, each with room for its
// ICRC; a message is a run of packets for one destination that have one size, the
// last perhaps less.
type batch struct {
	buf      []byte
	used     int
	messages []message
	segments int // of a message at most
}

type message struct {
	route    endpoint.Route
	at, n    int // its bytes
	size     int // of a packet
	segments int
	carried  carried
}

// carried is the telemetry that the packet of a message carries besides its bytes,
// in memory of its own.
type carried struct {
	endpoint.Carried
	records [telemetry.MaxINTBytes]byte
}

func (c *carried) set(from *endpoint.Carried) {
	c.Carried = *from
	c.INT = telemetry.INT(c.records[:copy(c.records[:], from.INT)])
}

func (b *batch) init() {
	b.buf = make([]byte, batchBytes)
	b.messages = make([]message, 0, batchMessages)
}

// fill takes packets from the endpoint until there are no more or the batch is
// full. The caller holds the device's lock: so a buffer is the application's again
// the moment that its request completes or its region is deregistered.
func (b *batch) fill(e *endpoint.Endpoint, now units.Time, to sender) {
	b.reset(to)
	e.Begin()
	for b.room() {
		o := e.NextOutgoing(now, b.buf[b.used:b.used+endpoint.MaxPacket])
		if o == nil {
			return
		}
		b.pack(o, to)
	}
}

// pack adds a packet whose header lies at used.
func (b *batch) pack(o *endpoint.Outgoing, to sender) {
	at := b.used
	id := b.add(o.Len, o.To)
	if o.Collects || len(o.INT) > 0 {
		b.messages[len(b.messages)-1].carried.set(&o.Carried)
	}
	put(b.buf[at:at+o.Len], o, to.path(o.To), id)
}

func (b *batch) reset(to sender) {
	b.segments = to.segments()
	b.used, b.messages = 0, b.messages[:0]
}

// room reports whether there is room for a packet.
func (b *batch) room() bool {
	return len(b.buf)-b.used >= endpoint.MaxPacket && len(b.messages) < batchMessages
}

// put completes a packet with its payload and, if a path is given, its ICRC. It
// copies and sums in one pass, so that the ICRC fits the bytes sent even if the
// owner of the memory is changing it.
func put(p []byte, o *endpoint.Outgoing, path *roce.Path, id int) {
	at := o.Header
	if path == nil {
		for _, from := range o.Pieces {
			at += copy(p[at:], from)
		}
		return
	}
	sum := path.BeginICRC(p[:at], o.Len, uint16(id))
	for _, from := range o.Pieces {
		sum = sum.Copy(p[at:], from)
		at += len(from)
	}
	end := len(p) - roce.ICRCBytes
	sum.Add(p[at:end]).Put(p[end:])
}

// add takes a packet of n bytes that lies at used, and returns which of its message
// it is.
func (b *batch) add(n int, to *endpoint.Route) int {
	at := b.used
	b.used += n
	if k := len(b.messages); k > 0 {
		m := &b.messages[k-1]
		whole := m.n == m.size*m.segments // no shorter one at the end
		if whole && n <= m.size && m.segments < b.segments && m.n+n <= datagramBytes && m.route == *to {
			m.n += n
			m.segments++
			return m.segments - 1
		}
	}
	b.messages = append(b.messages, message{route: *to, at: at, n: n, size: n, segments: 1})
	return 0
}
