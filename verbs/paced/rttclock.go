package paced

import "fmt"

// RTTClock is by which clocks a round trip is taken (TIMELY section 5, figure 11).
type RTTClock uint8

// Clocks of a round trip. One that can't be had is replaced by the next of
// NICClock, CalibratedClock and SoftwareClock.
const (
	// CalibratedClock is from posting by the host's clock to the NIC's timestamp of
	// the completion, mapped to the host's clock by package calibration. Where the
	// provider knows when a segment left the host, it is from then on.
	CalibratedClock RTTClock = iota
	// NICClock measures between two of the NIC's timestamps: that of a segment's first
	// packet as it leaves, where the queue pair is a verbs.SentTimestampQP, and that
	// of the completion. The counter is assumed to run at its nominal rate.
	// Calibration is needed only to place the round trip in host time.
	NICClock
	// SoftwareClock is from posting to polling, both by the host's clock.
	SoftwareClock
)

var rttClockNames = [...]string{"calibrated", "nic", "software"}

func (c RTTClock) String() string {
	if int(c) < len(rttClockNames) {
		return rttClockNames[c]
	}
	return fmt.Sprintf("RTTClock(%d)", uint8(c))
}

// stamped reports whether completions should carry the NIC's timestamps.
func (s *shard) stamped() bool {
	return s.clock != nil || s.cfg.Clock == NICClock && s.attr.CoreClockHz > 0
}
