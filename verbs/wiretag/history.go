package wiretag

import (
	"github.com/sluice-rdma/sluice/units"
)

// report is what the packet that arrived at a time reported about a connection's
// paths.
type report struct {
	at           uint64 // ns
	hop, reverse units.Time
}

// history is the reports of a connection that completions may still ask for, oldest
// first.
type history struct {
	ring       []report // its length is a power of two
	head, tail uint32   // free-running
}

func newHistory(n int) history {
	size := 16
	for size < min(n, 1<<14) {
		size *= 2
	}
	return history{ring: make([]report, size)}
}

func (h *history) reset() { h.head, h.tail = 0, 0 }

// add takes a report. The oldest one goes if there is no room.
func (h *history) add(r report) {
	if h.tail-h.head == uint32(len(h.ring)) {
		h.head++
	}
	h.ring[h.tail&uint32(len(h.ring)-1)] = r
	h.tail++
}

// of returns the report of that time, and forgets those before: completions come in
// the order of what acknowledged them. Reports of two processors may have come in
// another order than that of their times.
func (h *history) of(at uint64) (report, bool) {
	mask := uint32(len(h.ring) - 1)
	for i := h.head; i != h.tail; i++ {
		r := h.ring[i&mask]
		if r.at == at {
			return r, true
		}
		if r.at < at && i == h.head {
			h.head++
		}
	}
	return report{}, false
}
