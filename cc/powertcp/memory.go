package powertcp

import "github.com/sluice-rdma/sluice/units"

const (
	maxRemember = 8
	memorySize  = 16 // a power of two
)

// memory answers GETCWND(ack.seq): the window when the acknowledged segment was
// sent. It remembers the window a few times a round trip, each time with how
// many bytes had been sent: whatever lies beyond them was sent under that
// window or a later one.
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

// remember is UPDATEOLD, each time the share-th part of what was in flight has
// come back. A full memory (a window that fell fast) waits, and is coarser for
// it.
func (m *memory) remember(cwnd float64, acked, sent units.Bytes, times units.Bytes) {
	if acked < m.due || m.n == memorySize {
		return
	}
	m.entries[(m.first+m.n)%memorySize] = remembered{sent, cwnd}
	m.n++
	m.due = acked + max(sent-acked, 0)/times
}
