package fabric

import (
	"math"

	"github.com/sluice-rdma/sluice/units"
)

// incastRule is a Notice for ports of one rate.
type incastRule struct {
	window    int
	sum       int64 // that the gradients of a window exceed in an incast, bits per second
	highWater int32
}

func newIncastRule(n Notice, rate, atRate units.Rate) incastRule {
	return incastRule{
		window:    n.Window,
		sum:       int64(float64(float64(n.Gradient*float64(n.Window)) * float64(rate))),
		highWater: scale(n.HighWater, rate, atRate),
	}
}

// incast detects incasts at one queue: EIN generation at switches, after Algorithm 1
// of Pulser (section 3.1). Two interpretations: In a window that is not full yet, the
// missing gradients are zero. And an incast is over with the first packet that leaves
// HighWater or less behind while the gradient is low; the listing, as printed, never
// clears EINprev once it is set.
type incast struct {
	gradients []int64 // of the latest dequeues, bits per second: a ring
	next      int
	sum       int64
	queue     int32 // Qlenprev
	on        bool  // EINprev
	started   bool  // queue and at are a previous dequeue's
	at        units.Time
}

// maxGradient bounds one gradient, so that a window's sum is exact.
const maxGradient = 1e15

// dequeue takes a packet that leaves queue bytes behind at now, and reports whether
// it gets EIN.
func (s *incast) dequeue(r *incastRule, now units.Time, queue int32) bool {
	if s.started {
		gradient := int64(maxGradient)
		if queue <= s.queue {
			gradient = -gradient
		}
		// No time has passed at a wire that takes none for a packet.
		if dt := now - s.at; dt > 0 {
			const bitsPerSecond = 8 * float64(units.Second) // of a byte each picosecond
			g := float64(bitsPerSecond*float64(queue-s.queue)) / float64(dt)
			gradient = int64(math.Round(min(max(g, -maxGradient), maxGradient)))
		}
		s.sum += gradient - s.gradients[s.next]
		s.gradients[s.next] = gradient
		if s.next++; s.next == len(s.gradients) {
			s.next = 0
		}
	}
	s.queue, s.at, s.started = queue, now, true
	switch {
	case s.sum > r.sum:
		s.on = true
	case queue <= r.highWater:
		s.on = false
	}
	return s.on
}
