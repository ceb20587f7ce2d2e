package paced

import (
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// Held breaks down the time of queue pairs with requests under way by what kept the
// next segment from the NIC. For several queue pairs it is the sum.
type Held struct {
	// Rate and Window are the engine's: the segment was not due, or its window had
	// no room.
	Rate, Window units.LongTime
	// Bound is Config.MaxOutstanding alone: it had no room, and the engine would
	// have let the segment go.
	Bound units.LongTime
	// Late is the host's delay: the segment was due, but no goroutine made progress.
	Late units.LongTime
	// Other is a fence, the limit on reads and atomics, a provider's queue without
	// room, or a queue pair that may not send.
	Other units.LongTime
	// Sent is with nothing left to send: the NIC had all of the requests.
	Sent units.LongTime
}

// Active returns the time with requests under way: the sum of all.
func (h *Held) Active() units.LongTime {
	return h.Rate.Plus(h.Window).Plus(h.Bound).Plus(h.Late).Plus(h.Other).Plus(h.Sent)
}

// Add adds what happened to other queue pairs.
func (h *Held) Add(other Held) {
	h.Rate = h.Rate.Plus(other.Rate)
	h.Window = h.Window.Plus(other.Window)
	h.Bound = h.Bound.Plus(other.Bound)
	h.Late = h.Late.Plus(other.Late)
	h.Other = h.Other.Plus(other.Other)
	h.Sent = h.Sent.Plus(other.Sent)
}

// Since returns the time spent since an earlier value.
func (h Held) Since(before Held) Held {
	return Held{
		Rate: h.Rate.Minus(before.Rate), Window: h.Window.Minus(before.Window), Bound: h.Bound.Minus(before.Bound),
		Late: h.Late.Minus(before.Late), Other: h.Other.Minus(before.Other), Sent: h.Sent.Minus(before.Sent),
	}
}

// heldOf names what the core counted.
func heldOf(t core.Times) Held {
	return Held{
		Rate: t[core.HeldRate], Window: t[core.HeldWindow], Bound: t[core.HeldBound],
		Late: t[core.HeldFiled], Other: t[core.HeldOther], Sent: t[core.HeldSent],
	}
}
