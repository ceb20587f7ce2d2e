package bench

import (
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// Clocks is by which clocks round trips were taken where the engine runs in the host,
// and how well the NICs' clocks were known there. The calibration's figures are of
// looks at the NICs' counters at even times from the end of the warm-up on, at each
// host that took a round trip since the last look: what the shim says when it was,
// against when it was in the simulation.
type Clocks struct {
	RTTClock string  `json:"rtt_clock,omitempty"` // shim.clock: "calibrated", "nic" or "software"
	HostLoad float64 `json:"host_load,omitempty"` // host.load

	// RTTPolled is how many round trips of the whole run end when the host polled, for
	// want of a timestamp or of a calibration that could be trusted.
	RTTPolled uint64 `json:"rtt_polled"`

	CalibrationBoundP50Ns Float `json:"calibration_bound_p50_ns"`
	CalibrationBoundP99Ns Float `json:"calibration_bound_p99_ns"`
	CalibrationBoundMaxNs Float `json:"calibration_bound_max_ns"`
	CalibrationErrorP50Ns Float `json:"calibration_error_p50_ns"`
	CalibrationErrorP99Ns Float `json:"calibration_error_p99_ns"`
	CalibrationErrorMaxNs Float `json:"calibration_error_max_ns"`

	CalibrationOutside     uint64 `json:"calibration_outside"`     // looks whose error was above their bound
	CalibrationRefused     uint64 `json:"calibration_refused"`     // looks at which it could not be trusted
	CalibrationGenerations uint64 `json:"calibration_generations"` // how often it began, at the host with most
}

// NewClocks returns a Clocks whose measured values are all Unmeasured.
func NewClocks() Clocks {
	u := Unmeasured
	return Clocks{
		CalibrationBoundP50Ns: u, CalibrationBoundP99Ns: u, CalibrationBoundMaxNs: u,
		CalibrationErrorP50Ns: u, CalibrationErrorP99Ns: u, CalibrationErrorMaxNs: u,
	}
}

// clockLooks is what looking at the hosts' calibrations gave.
type clockLooks struct {
	bound, err       *Recorder
	outside, refused uint64
}

// newClockLooks returns nil for a system that calibrates no clock.
func newClockLooks(sys *scenario.System) *clockLooks {
	if sys.Offload() || sys.Shim.Clock == scenario.ClockSoftware || sys.Shim.CalibrateEvery == 0 {
		return nil
	}
	return &clockLooks{bound: NewRecorder(), err: NewRecorder()}
}

// look asks the shim of each host that took a round trip since the last look when its NIC's counter showed what it shows now.
func (l *clockLooks) look(hosts []*host, now units.Time) {
	if l == nil {
		return
	}
	for _, h := range hosts {
		if !h.measures {
			continue // its calibration may have lapsed
		}
		h.measures = false
		m, ok := h.shim.ToHost(h.nic.ReadClock(now))
		if !ok {
			l.refused++
			continue
		}
		off := max(m.Host-now, now-m.Host)
		if off > m.Bound {
			l.outside++
		}
		l.bound.Record(m.Bound)
		l.err.Record(off)
	}
}

// clocks returns what was measured of the clocks.
func (m *measurement) clocks() Clocks {
	c := NewClocks()
	sys := m.sim.sys
	c.HostLoad = sys.Host.Load
	if sys.Offload() {
		return c
	}
	c.RTTClock = sys.Shim.Clock
	for _, h := range m.sim.hosts {
		c.RTTPolled += h.shim.Stats().PollTime
		c.CalibrationGenerations = max(c.CalibrationGenerations, uint64(h.shim.Calibration().Generation))
	}
	if l := m.clockLooks; l != nil {
		ns := func(t units.Time) Float { return Float(float64(t) / float64(units.Nanosecond)) }
		c.CalibrationOutside, c.CalibrationRefused = l.outside, l.refused
		if l.bound.Count() > 0 {
			c.CalibrationBoundP50Ns, c.CalibrationBoundP99Ns, c.CalibrationBoundMaxNs = ns(l.bound.Percentile(50)), ns(l.bound.Percentile(99)), ns(l.bound.Max())
			c.CalibrationErrorP50Ns, c.CalibrationErrorP99Ns, c.CalibrationErrorMaxNs = ns(l.err.Percentile(50)), ns(l.err.Percentile(99)), ns(l.err.Max())
		}
	}
	return c
}
