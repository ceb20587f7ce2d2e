package softroce

import (
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
}

func (b *batch) init() {
	b.buf = make([]byte, batchBytes)
	b.messages = make([]message, 0, batchMessages)
}

// fill takes packets from the endpoint until there are no more or the batch is
// full.
func (b *batch) fill(e *endpoint.Endpoint, now units.Time, segments int) {
	b.segments = segments
	b.used, b.messages = 0, b.messages[:0]
	for len(b.buf)-b.used >= endpoint.MaxPacket && len(b.messages) < batchMessages {
		n, to := e.Next(now, b.buf[b.used:b.used+endpoint.MaxPacket])
		if n == 0 {
			return
		}
		b.add(n, to)
	}
}

// add takes a packet of n bytes that lies at used.
func (b *batch) add(n int, to *endpoint.Route) {
	at := b.used
	b.used += n
	if k := len(b.messages); k > 0 {
		m := &b.messages[k-1]
		whole := m.n == m.size*m.segments // no shorter one at the end
		if whole && n <= m.size && m.segments < b.segments && m.n+n <= datagramBytes && m.route == *to {
			m.n += n
			m.segments++
			return
		}
	}
	b.messages = append(b.messages, message{route: *to, at: at, n: n, size: n, segments: 1})
}
