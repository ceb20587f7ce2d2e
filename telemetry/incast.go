package telemetry

import "github.com/sluice-rdma/sluice/units"

// IncastRule is when a switch sets EIN, as the P4 programs ein.p4 and ein_tna.p4
// compute Pulser's Algorithm 1 without a division: over the last Window dequeues of a
// port the queue grew by more than the threshold times the time. Queues are in units
// of CellBytes, time is in ticks of the switch's clock.
//
// The listing averages the quotients of Window pairs of dequeues, which weighs a short
// time between two dequeues as much as a long one; here the sums are compared, and
// since sums of differences are differences of the ends, only the ends are kept.
type IncastRule struct {
	Window int // dequeues, at least 1
	// Growth and Time are the threshold: it is exceeded if units grown times Growth
	// are more than ticks passed times Time.
	Growth, Time uint64
	// HighWater in units: an incast is over with the first dequeue that leaves no more
	// than this behind and does not exceed the threshold.
	HighWater uint64
	// MaxGap is the longest time between two dequeues that counts, in ticks: the port
	// was idle for the rest. It is no shorter than a full packet takes on the wire.
	MaxGap uint64
}

// V1ModelIncast returns the rule of ein.p4 for a threshold, which the program takes
// in whole Mbps, EIN_THRESHOLD. Its tick is a microsecond.
func V1ModelIncast(window int, threshold units.Rate, highWater units.Bytes, maxGap units.Time) IncastRule {
	return IncastRule{
		Window: window, Growth: 8 * CellBytes, Time: uint64(threshold / units.Mbps),
		HighWater: uint64(highWater / CellBytes), MaxGap: uint64(maxGap / V1ModelClock.Tick),
	}
}

// TofinoIncast returns the rule of ein_tna.p4 for ports of a rate, from 25 to 400
// Gbps: the program can only shift, and the threshold is 0.267 of the rate. It
// reports false for a rate that the program has no action for.
func TofinoIncast(window int, rate units.Rate, highWater units.Bytes, maxGap units.Time) (IncastRule, bool) {
	r := IncastRule{
		Window: window, Time: 1,
		HighWater: uint64(highWater / CellBytes), MaxGap: uint64(maxGap / TofinoClock.Tick),
	}
	for shift := range 5 {
		if rate == 25*units.Gbps<<shift {
			r.Growth = 96 >> shift
			return r, true
		}
	}
	return r, false
}

// Incast watches the dequeues of one port. The zero value has seen an empty queue at
// time 0.
type Incast struct {
	last, busy uint64 // ticks
	ends       []incastEnd
	next       int
	on         bool
}

type incastEnd struct{ queue, busy uint64 }

// Dequeue takes a packet that leaves queue units behind at now, in ticks that never
// fall, and reports whether it gets EIN. The first call allocates r.Window entries; r stays the same.
func (s *Incast) Dequeue(r *IncastRule, now, queue uint64) bool {
	if s.ends == nil {
		s.ends = make([]incastEnd, r.Window)
	}
	s.busy += min(now-s.last, r.MaxGap)
	s.last = now
	old := s.ends[s.next]
	s.ends[s.next] = incastEnd{queue, s.busy}
	if s.next++; s.next == len(s.ends) {
		s.next = 0
	}
	switch {
	case queue > old.queue && (queue-old.queue)*r.Growth > (s.busy-old.busy)*r.Time:
		s.on = true
	case queue <= r.HighWater:
		s.on = false
	}
	return s.on
}
