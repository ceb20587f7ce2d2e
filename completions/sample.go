package completions

import "github.com/sluice-rdma/sluice/units"

// Sample is one measurement of a round trip.
type Sample struct {
	PostedAt, CompletedAt units.Time // on the host's clock
	Bytes                 units.Bytes

	// RTT is CompletedAt - PostedAt. NetRTT is RTT less the time that the
	// segment takes to serialise: TIMELY's RTT, which is "propagation and
	// queueing delay components only" (section 3.1), queueing in the NIC
	// included (section 5).
	RTT, NetRTT units.Time

	// Clamped says that the segment completed in less time than it takes to
	// serialise: the rate is not the NIC's, or the clocks disagree. RTT is then
	// at least a picosecond and NetRTT 0.
	Clamped bool
}

// Measure returns the sample of a segment that completed at completedAt on a NIC that
// serialises at the given rate. That is the line rate or, where the NIC paces its
// packets, the pacing rate, which section 5 treats as "a lower transmission line rate".
// For a Read the bytes of the response count.
func Measure(s *Segment, completedAt units.Time, rate units.Rate) Sample {
	return MeasureSerialized(s, completedAt, rate.Serialize(s.Bytes))
}

// MeasureSerialized is Measure for a caller that knows how long the segment takes
// to serialise; this saves a division.
func MeasureSerialized(s *Segment, completedAt, serialization units.Time) Sample {
	rtt, net, clamped := RoundTrip(s.PostedAt, completedAt, serialization)
	return Sample{PostedAt: s.PostedAt, CompletedAt: completedAt, Bytes: s.Bytes, RTT: rtt, NetRTT: net, Clamped: clamped}
}

// RoundTrip returns RTT, NetRTT and Clamped of a Sample.
func RoundTrip(postedAt, completedAt, serialization units.Time) (rtt, net units.Time, clamped bool) {
	rtt = completedAt - postedAt
	net = rtt - serialization
	if net < 0 || rtt < 1 {
		return max(rtt, 1), max(net, 0), true
	}
	return rtt, net, false
}
