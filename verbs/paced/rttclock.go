package paced

// RTTClock is by which clocks a round trip is taken (TIMELY section 5, figure 11).
type RTTClock uint8

// Clocks of a round trip. One that can't be had is replaced by the next of
// NICClock, CalibratedClock and SoftwareClock.
const (
	// CalibratedClock is from posting by the host's clock to the NIC's timestamp of
	// the completion, mapped to the host's clock by package calibration. Where the
	// provider knows when a segment left the host, it is from then on.
	CalibratedClock RTTClock = iota
	// NICClock is from one of the NIC's timestamps to another: of a segment's first
	// packet on its way out, where the queue pair is a verbs.SentTimestampQP, and of
	// the completion. The counter is taken to count at its nominal rate, and no
	// calibration to be needed but for when that was.
	NICClock
	// SoftwareClock is from posting to polling, both by the host's clock.
	SoftwareClock
)

var rttClockNames = [...]string{"calibrated", "nic", "software"}

func (c RTTClock) String() string { return rttClockNames[c] }

// stamped reports whether completions should carry the NIC's timestamps.
func (s *Shim) stamped() bool {
	return s.clock != nil || s.cfg.Clock == NICClock && s.attr.CoreClockHz > 0
}
