package powertcp

import "github.com/sluice-rdma/sluice/units"

const (
	maxRemember = 8
	memorySize  = 16 // a power of two
)

// memory answers GETCWND(ack.seq): the window when the acknowledged segment was
// sent. It remembers the window a few times a round trip, each time with the number
// of bytes sent until then. Bytes beyond these were sent under that window or a
// later one.
type memory struct {
	old     float64 // GETCWND of the latest acknowledgement
	due     units.Bytes
	first   uint8
	n       uint8
	entries [memorySize]remembered
}

type remembered struct {
	sent units.Bytes
	cwnd float64
}

// recall is GETCWND for an acknowledgement up to acked.
func (m *memory) recall(acked units.Bytes) float64 {
	for m.n > 0 && acked > m.entries[m.first].sent {
		m.old = m.entries[m.first].cwnd
		m.first = (m.first + 1) % memorySize
		m.n--
	}
	return m.old
}

// remember is UPDATEOLD. It runs each time that another of parts equal parts of the bytes
// in flight has come back. While nothing is sent, a later window replaces the last one
// remembered: no byte left under that. A full memory waits, and is coarser for it.
func (m *memory) remember(cwnd float64, acked, sent, parts units.Bytes) {
	if m.n > 0 {
		last := &m.entries[(m.first+m.n-1)%memorySize]
		if last.sent == sent {
			last.cwnd = cwnd
			return
		}
	}
	if acked < m.due || m.n == memorySize {
		return
	}
	m.entries[(m.first+m.n)%memorySize] = remembered{sent, cwnd}
	m.n++
	m.due = acked + max(sent-acked, 0)/parts
}
