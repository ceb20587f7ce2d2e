package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// clockLooks counts the looks at the hosts' calibrations.
type clockLooks struct {
	bound, err       *stats.Recorder
	outside, refused uint64
}

// newClockLooks returns nil for a system that calibrates no clock.
func newClockLooks(sys *scenario.System) *clockLooks {
	if sys.Offload() || sys.Shim.Clock == scenario.ClockSoftware || sys.Shim.CalibrateEvery == 0 {
		return nil
	}
	return &clockLooks{bound: stats.NewRecorder(), err: stats.NewRecorder()}
}

// look asks the shim of each host that took a round trip since the last look when its NIC's counter showed what it shows now.
func (l *clockLooks) look(hosts []*host, now units.Time) {
	if l == nil {
		return
	}
	for _, h := range hosts {
		if h.shim == nil { // its NIC is a program's
			continue
		}
		if !h.measures {
			continue // its calibration may have lapsed
		}
		h.measures = false
		host, bound, ok := h.shim.ToHost(h.nic.ReadClock(now))
		if !ok {
			l.refused++
			continue
		}
		off := host.Time() - now
		off = max(off, -off)
		if off > bound {
			l.outside++
		}
		l.bound.Record(bound)
		l.err.Record(off)
	}
}

// clocks returns the measurements of the clocks.
func (m *measurement) clocks() results.Clocks {
	c := results.NewClocks()
	sys := m.sim.sys
	c.HostLoad = sys.Host.Load
	if !m.sim.shimmed() {
		return c
	}
	c.RTTClock = sys.Shim.Clock
	for _, h := range m.sim.hosts {
		c.RTTPolled += h.shim.Stats().PollTime
		c.CalibrationGenerations = max(c.CalibrationGenerations, uint64(h.shim.Calibration().Generation))
	}
	if l := m.clockLooks; l != nil {
		ns := func(t units.Time) stats.Float { return stats.Float(float64(t) / float64(units.Nanosecond)) }
		c.CalibrationOutside, c.CalibrationRefused = l.outside, l.refused
		if l.bound.Count() > 0 {
			c.CalibrationBoundP50Ns, c.CalibrationBoundP99Ns, c.CalibrationBoundMaxNs = ns(l.bound.Percentile(50)), ns(l.bound.Percentile(99)), ns(l.bound.Max())
			c.CalibrationErrorP50Ns, c.CalibrationErrorP99Ns, c.CalibrationErrorMaxNs = ns(l.err.Percentile(50)), ns(l.err.Percentile(99)), ns(l.err.Max())
		}
	}
	return c
}
