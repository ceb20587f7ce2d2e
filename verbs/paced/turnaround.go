package paced

import (
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// excludeTurnaround takes out of a round trip what the peer took to answer, where it
// told (verbs.Telemetry.HasTurnaround): TIMELY counts on receivers that acknowledge at
// once (section 3.1), Swift takes the receiver's delay out (section 3.1). What remains
// is no less than the segment takes to serialise.
//
// A request that was acknowledged with a later one has waited for that besides: what
// its round trip was is not known.
func (s *Shim) excludeTurnaround(m *completions.Sample, t *verbs.Telemetry) {
	switch {
	case t.Coalesced:
		s.stats.Coalesced++
		m.RTT, m.NetRTT = 0, 0
	case t.HasTurnaround:
		s.stats.Turnarounds++
		out := min(t.Turnaround, m.NetRTT)
		m.NetRTT -= out
		m.RTT = max(m.RTT-out, units.Picosecond)
	}
}
