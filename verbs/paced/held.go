package paced

import (
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// Held is how queue pairs with requests under way spent their time, by what kept the
// next segment from the NIC. For several queue pairs it is the sum.
type Held struct {
	// Rate and Window are the engine's: the segment was not due, or its window had
	// no room.
	Rate, Window units.Time
	// Bound is Config.MaxOutstanding alone: it had no room, and the engine would
	// have let the segment go.
	Bound units.Time
	// Late is the host's delay: the segment was due, but no goroutine made progress.
	Late units.Time
	// Other is a fence, the limit on reads and atomics, a provider's queue without
	// room, or a queue pair that may not send.
	Other units.Time
	// Sent is with nothing left to send: the NIC had all of the requests.
	Sent units.Time
}

// Active is how long there were requests under way: the sum of all.
func (h *Held) Active() units.Time {
	return h.Rate + h.Window + h.Bound + h.Late + h.Other + h.Sent
}

// Add adds what happened to other queue pairs.
func (h *Held) Add(other Held) {
	h.Rate += other.Rate
	h.Window += other.Window
	h.Bound += other.Bound
	h.Late += other.Late
	h.Other += other.Other
	h.Sent += other.Sent
}

// Since returns the time spent since an earlier value.
func (h Held) Since(before Held) Held {
	return Held{
		Rate: h.Rate - before.Rate, Window: h.Window - before.Window, Bound: h.Bound - before.Bound,
		Late: h.Late - before.Late, Other: h.Other - before.Other, Sent: h.Sent - before.Sent,
	}
}

// heldOf names what the core counted.
func heldOf(t [core.Holds]units.Time) Held {
	return Held{
		Rate: t[core.HeldRate], Window: t[core.HeldWindow], Bound: t[core.HeldBound],
		Late: t[core.HeldFiled], Other: t[core.HeldOther], Sent: t[core.HeldSent],
	}
}
